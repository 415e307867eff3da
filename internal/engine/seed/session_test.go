package seed_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/seed"
)

// A page's name omits its session, and its request has it where that is allowed.
func TestSessionOnlyInRequest(t *testing.T) {
	const site = "https://www.example.org"
	s := &seed.Seeder{}
	for _, c := range []struct{ url, name, ask string }{
		{"/a?PHPSESSID=1&b=2&utm_source=x", "/a?b=2", "/a?PHPSESSID=1&b=2"},
		{"/a?b=2&utm_source=x", "/a?b=2", ""},
		{"/a;jsessionid=1F/b?x", "/a/b?x", "/a;jsessionid=1F/b?x"},
		{"/(S(0123))/a", "/a", "/(S(0123))/a"},
		{"/a?b=2", "/a?b=2", ""},
	} {
		if c.ask != "" {
			c.ask = site + c.ask
		}
		for range 2 { // the second time it is cached
			if v := s.Admit(seed.Ref{URL: site + c.url, Kind: seed.Listed}); v.URL != site+c.name || v.Ask != c.ask || !v.OK {
				t.Errorf("%s: %+v, want %s by %q", c.url, v, c.name, c.ask)
			}
		}
	}
	s.SetRobots(site, seed.RobotsAnswer{Status: 200, Body: []byte("User-agent: *\nDisallow: /*SESSID\n")}, time.Now())
	if v := s.Admit(seed.Ref{URL: site + "/a?PHPSESSID=1"}); !v.OK || v.Ask != "" {
		t.Errorf("forbidden: %+v", v)
	}
	if v := s.Admit(seed.Ref{URL: "https://example.org/a?PHPSESSID=1"}); v.URL != site+"/a" || v.Ask != "" {
		t.Errorf("of the twin: %+v", v)
	}
	s = &seed.Seeder{}
	s.Admit(seed.Ref{URL: site + "/"})
	if v := s.Admit(seed.Ref{URL: "https://example.org/a?PHPSESSID=1"}); v.URL != site+"/a" || v.Ask != site+"/a?PHPSESSID=1" {
		t.Errorf("of the twin: %+v", v)
	}
}
