package describe_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// A site without push says so, and describes no stream.
func TestPullOnly(t *testing.T) {
	s := newSite(t)
	s.notifier.Limits.PullOnly = true
	s.edit(rand.New(rand.NewPCG(3, 4)))
	_, text := s.ask("GET", s.web.URL+"/.well-known/parley", "")
	if err := schemasOf(t, true)["discovery"].Validate(value(t, []byte(text))); err != nil || strings.Contains(text, "stream") || strings.Contains(text, "asyncapi") {
		t.Errorf("%v: %s", err, text)
	}
	for path, want := range map[string]int{"parley/stream": 404, "parley/asyncapi.json": 404, "parley/openapi.json": 200,
		"parley/changes?wait=60&after=" + s.journal.Head().String(): 200} { // answered at once
		if resp, text := s.ask("GET", s.base+path, ""); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", path, resp.StatusCode, want, text)
		}
	}
}

// The descriptions are served exactly as generated, and 304 works for them.
func TestServedDescriptions(t *testing.T) {
	s := newSite(t)
	docs := documents(t, s.base, all...)
	for name, path := range map[string]string{"openapi": "parley/openapi.json", "asyncapi": "parley/asyncapi.json"} {
		resp, text := s.ask("GET", s.base+path, "")
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || text != string(docs[name]) {
			t.Errorf("%s: %d %v, %d bytes", path, resp.StatusCode, resp.Header, len(text))
		}
		if again, _ := s.ask("GET", s.base+path, "", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s again: %d", path, again.StatusCode)
		}
	}
}

// The described parameters are those that the doors accept: each door lists them all in its error for an
// unknown one.
func TestParametersOfDoors(t *testing.T) {
	s := newSite(t)
	s.edit(rand.New(rand.NewPCG(5, 6)))
	doc := value(t, documents(t, s.base, all...)["openapi"])
	for path, method := range map[string]string{"parley/changes": "get", "parley/query": "get", "parley/batch": "get", "parley/site.wacz": "get", "parley/agents/run": "post"} {
		_, text := s.ask(strings.ToUpper(method), s.base+path+"?colour=red", "", "Authorization", "Bearer "+token)
		_, list, ok := strings.Cut(text, "expected one of ")
		list, _, _ = strings.Cut(list, `"`)
		if !ok {
			t.Errorf("%s: %s", path, text)
			continue
		}
		var described []string
		for _, p := range lookup(doc, "#/paths/~1"+strings.ReplaceAll(path, "/", "~1")+"/"+method+"/parameters").([]any) {
			if ref, ok := p.(map[string]any)["$ref"].(string); ok {
				p = lookup(doc, ref)
			}
			if p := p.(map[string]any); p["in"] == "query" {
				described = append(described, p["name"].(string))
			}
		}
		known := strings.Split(list, ", ")
		slices.Sort(known)
		slices.Sort(described)
		if !slices.Equal(known, described) {
			t.Errorf("%s accepts %v, but is described with %v", path, known, described)
		}
	}
}

// A site states its preferred request rate, or omits it.
func TestPreferredRequestRateIsStated(t *testing.T) {
	s := newSite(t)
	s.edit(rand.New(rand.NewPCG(3, 4)))
	_, silent := s.ask("GET", s.web.URL+"/.well-known/parley", "")
	s = newSite(t)
	s.notifier.Welcome = &protocol.Welcome{Rate: 2.5, Connections: 2, Batch: 500}
	s.edit(rand.New(rand.NewPCG(3, 4)))
	_, text := s.ask("GET", s.web.URL+"/.well-known/parley", "")
	if err := schemasOf(t, true)["discovery"].Validate(value(t, []byte(text))); err != nil || !strings.Contains(text, `"welcome":{"rate":2.5,"connections":2,"batch":500}`) || strings.Contains(silent, "welcome") {
		t.Errorf("%v: %s; %s", err, text, silent)
	}
}
