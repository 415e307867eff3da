package steer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/internal/must"
)

// A person names a site by its origin, a page of it or its host, with or without www.
func TestNamesOfSites(t *testing.T) {
	for name, paused := range map[string][]string{
		"https://www.example.org":        {"https://www.example.org", "https://example.org"},
		"https://Example.org/docs/?q=1":  {"https://www.example.org", "https://example.org"},
		"example.org":                    {"http://www.example.org", "https://example.org:8443", "http://example.org"},
		"http://[::1]:8080/":             {"http://[::1]:8080"},
		"[::1]":                          {"http://[::1]:8080", "https://[::1]"},
		"http://127.0.0.1:8080/a/b.html": {"http://127.0.0.1:8080"},
	} {
		var s steer.Steering
		if err := s.Pause([]string{name, name}); err != nil || len(s.Sites) != 1 {
			t.Errorf("pause %s: %v: %q", name, err, s.Sites)
		}
		for _, origin := range paused {
			if !s.Pauses()(origin) {
				t.Errorf("pause %s: %s is not paused", name, origin)
			}
		}
		for _, origin := range []string{"https://other.example", "https://example.org.evil.example", "http://127.0.0.1", "http://notexample.org"} {
			if s.Pauses()(origin) {
				t.Errorf("pause %s: %s is paused", name, origin)
			}
		}
		if err := s.Resume([]string{name}); err != nil || s.Set() {
			t.Errorf("resume %s: %v: %+v", name, err, s)
		}
	}
	for _, name := range []string{"", "a b", "ftp://example.org/", "https://", "example.org/docs", "example.org:8080", "https://user@"} {
		var s steer.Steering
		if err := s.Pause([]string{name}); err == nil {
			t.Errorf("pause %q: %q", name, s.Sites)
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	var s steer.Steering
	if err := s.Resume([]string{"example.org"}); err == nil || !strings.Contains(err.Error(), "is not paused") {
		t.Errorf("resume what is not paused: %v", err)
	}
	if err := s.Pause([]string{"all"}); err != nil || !s.Pauses()("https://any.example") {
		t.Errorf("pause all: %v", err)
	}
	if err := s.Resume([]string{"example.org"}); err == nil || !strings.Contains(err.Error(), "paused with others") {
		t.Errorf("resume one of all: %v", err)
	}
	for _, names := range [][]string{nil, {}, {"all", "example.org"}, {"example.org", "all"}, {"All", "example.org"}} {
		before := s.Text()
		if err := s.Pause(names); err == nil || !strings.Contains(err.Error(), "or the one word \"all\"") {
			t.Errorf("pause %q: %v", names, err)
		}
		if err := s.Resume(names); err == nil || !strings.Contains(err.Error(), "or the one word \"all\"") || string(s.Text()) != string(before) {
			t.Errorf("resume %q: %v: %s", names, err, s.Text())
		}
	}
	if err := s.Resume([]string{"ALL"}); err != nil || s.Set() {
		t.Errorf("resume all: %v: %+v", err, s)
	}
	if err := s.Pause([]string{"www."}); err == nil || s.Set() {
		t.Errorf("pause a name of no letters: %v: %+v", err, s)
	}
	var many []string
	for i := range 10_001 {
		many = append(many, fmt.Sprintf("h%d.example", i))
	}
	if err := s.Pause(many[1:]); err != nil {
		t.Errorf("pause 10,000 sites: %v", err)
	}
	if err := s.Pause(many[:1]); err == nil {
		t.Error("10,001 sites were paused one by one")
	}
}

// A name that no site of the crawl has is paused all the same, and reported: it may be a slip of the pen.
func TestUnknownNames(t *testing.T) {
	var s steer.Steering
	names := []string{"exmaple.org", "www.example.org", "https://example.org:8443", "example.net", "http://Example.com/a/", "exmaple.org"}
	must.OK(t, s.Pause(names))
	origins := []string{"http://example.org", "https://www.example.net:444", "http://www.example.com", "https://example.com"}
	if got := s.Unknown(names, slices.Values(origins)); !slices.Equal(got, []string{"exmaple.org", "https://example.org:8443"}) {
		t.Errorf("unknown: %q", got)
	}
	if got := s.Unknown(append(names, "all", "not paused.example", "other.example"), slices.Values([]string(nil))); len(got) != len(s.Sites) {
		t.Errorf("without any site, of %q are unknown: %q", s.Sites, got)
	}
}

// Values that are not given stay, "default" empties them, and what an option cannot have is refused.
func TestRateAndScope(t *testing.T) {
	var s steer.Steering
	must.OK(t, s.SetRate(steer.Rate{Budget: "5000", Wait: "30s"}))
	must.OK(t, s.SetRate(steer.Rate{Budget: "default", MaxRate: "2"}))
	budget, wait, big, most, per := "0.1/page", 15*time.Second, 5*time.Second, 10., ""
	if err := s.Rate.Apply(&budget, &wait, &big, &most, &per); err != nil || budget != "0.1/page" || wait != 30*time.Second || big != 5*time.Second || most != 2 || per != "" {
		t.Errorf("rate: %v: %s %v %v %v %q", err, budget, wait, big, most, per)
	}
	for _, r := range []steer.Rate{{Wait: "soon"}, {WaitBig: "-1s"}, {MaxRate: "fast"}, {MaxRate: "NaN"}, {MaxRate: "-1"}} {
		if err := r.Apply(&budget, &wait, &big, &most, &per); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	if err := s.SetRate(steer.Rate{Budget: strings.Repeat("9", 3000)}); err == nil {
		t.Error("a value of 3000 bytes was accepted")
	}
	must.OK(t, s.SetScope(steer.Scope{Accept: []string{"/docs/"}, Reject: []string{"none"}}))
	domain, accept, reject := []string{"example.org"}, []string{"/a/"}, []string{"/b/"}
	if s.Scope.Apply(&domain, &accept, &reject); len(domain) != 1 || accept[0] != "/docs/" || len(reject) != 0 {
		t.Errorf("scope: %q %q %q", domain, accept, reject)
	}
	if s.Scope.Confines() {
		t.Error("a scope without domains confines the crawl")
	}
	if err := s.SetScope(steer.Scope{Accept: []string{"default"}, Reject: []string{"default"}}); err != nil || !s.Scope.Equal(steer.Scope{}) {
		t.Errorf("scope after default: %v: %+v", err, s.Scope)
	}
	if err := s.SetScope(steer.Scope{Accept: []string{""}}); err == nil {
		t.Error("an empty pattern was accepted")
	}
}
