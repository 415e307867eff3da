package seed_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
)

func startsOf(t *testing.T, lines ...string) *seed.Starts {
	t.Helper()
	var list []seed.Start
	for _, l := range lines {
		s, err := seed.ParseStart(l)
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		list = append(list, s)
	}
	return must.Get(seed.NewStarts(list, 0))
}

func TestParseStart(t *testing.T) {
	for text, want := range map[string]seed.Start{
		"https://www.example.org/":                     {URL: "https://www.example.org/", Depth: -1},
		"  HTTPS://Example.org:443  depth=3 pages=10 ": {URL: "https://example.org/", Depth: 3, Pages: 10},
		"http://example.org/%c3 pages=1\tdepth=0":      {URL: "http://example.org/%C3", Depth: 0, Pages: 1},
	} {
		if got, err := seed.ParseStart(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                       "want a URL",
		"example.org":                            "want a URL",
		"http://h/ dept=3":                       `"dept=3" after a URL: want depth=N, N links from a start page at most, or pages=N, N URLs at most`,
		"http://h/ depth=":                       `"depth="`,
		"http://h/ depth=-1":                     `"depth=-1"`,
		"http://h/ pages=0":                      `"pages=0"`,
		"http://h/ pages=1000000000000000000000": `"pages=1000000000000000000000"`,
		"http://h/ the front page":               `"the"`,
	} {
		if got, err := seed.ParseStart(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want an error with %s", text, got, err, want)
		}
	}
}

// A page belongs to the start page in whose directory it is, on whatever port or scheme of the host; other pages of the host belong to
// its first start page.
func TestPagesBelongToStartPages(t *testing.T) {
	starts := startsOf(t,
		"https://www.example.org/docs/index.html pages=1",
		"https://example.org/docs/api/?v=1/2 pages=2",
		"https://example.org/blog/ depth=1",
		"http://127.0.0.1:8080/ pages=4",
		"http://127.0.0.1:8081/ pages=5",
		"https://other.example/a/ pages=6",
		"https://other.example/b/",
	)
	for url, want := range map[string]int{
		"https://www.example.org/docs/":            1,
		"http://example.org/docs/x/y.html?z=/api/": 1,
		"https://www.example.org/docs/api/x":       2,
		"https://www.example.org:8443/docs/api/":   2,
		"https://www.example.org/docs/apis":        1,
		"https://www.example.org/":                 1, // the first start page of the host
		"https://www.example.org/else/docs/":       1,
		"https://www.example.org/blog/x":           0, // no limit of pages
		"http://127.0.0.1:8080/x":                  4,
		"http://127.0.0.1:8081/x":                  5,
		"http://127.0.0.1/x":                       0,
		"https://other.example/":                   6,
		"https://other.example/b/x":                0,
		"https://sub.example.org/":                 0,
	} {
		if _, got := starts.Parts()(url); got != want {
			t.Errorf("%s belongs to the start page with the limit %d, want %d", url, got, want)
		}
	}
	if startsOf(t, "https://example.org/", "https://example.org/a/").Parts() != nil {
		t.Error("start pages without limits have some")
	}
	a, _ := seed.ParseStart("https://example.org/a.html depth=1")
	b, _ := seed.ParseStart("http://www.example.org/b.html depth=2")
	if _, err := seed.NewStarts([]seed.Start{a, b}, 0); err == nil || !strings.Contains(err.Error(), "http://www.example.org/b.html depth=2: https://example.org/a.html in the same directory has depth=1") {
		t.Errorf("two limits of one directory: %v", err)
	}
	if starts.On("https://www.example.org") != starts.On("http://example.org") || !strings.Contains(starts.On("http://example.org"), "/blog/ depth=1") || starts.On("https://sub.example.org") != "" {
		t.Errorf("limits on a host: %q", starts.On("http://example.org"))
	}
}

// The depth of a start page is a plain bound, which the shape of the site does not raise, and which applies to links only.
func TestDepthOfStartPage(t *testing.T) {
	s := &seed.Seeder{Starts: startsOf(t, "https://example.org/", "https://example.org/docs/ depth=2")}
	for _, c := range []struct {
		ref  seed.Ref
		rule string
	}{
		{seed.Ref{URL: "https://example.org/docs/a", Depth: 2}, ""},
		{seed.Ref{URL: "https://example.org/docs/a", Depth: 3}, "depth 3 exceeds the limit 2 of https://example.org/docs/"},
		{seed.Ref{URL: "https://example.org/docs/a", Depth: 3, Kind: seed.Embedded}, ""},
		{seed.Ref{URL: "https://example.org/docs/a", Depth: 4, Kind: seed.Embedded}, "depth 3 exceeds the limit 2 of https://example.org/docs/"},
		{seed.Ref{URL: "https://example.org/docs/a", Depth: 3, Kind: seed.Listed}, ""},
		{seed.Ref{URL: "https://example.org/docs/a", Depth: 3, Kind: seed.Person}, ""},
		{seed.Ref{URL: "https://example.org/a", Depth: 12}, ""},
		{seed.Ref{URL: "https://example.com/docs/a", Depth: 12}, ""},
	} {
		if v := s.Admit(c.ref); v.Rule != c.rule || v.OK != (c.rule == "") {
			t.Errorf("%+v: %+v, want the rule %q", c.ref, v, c.rule)
		}
	}
}

func TestRedirectDepth(t *testing.T) {
	for _, c := range []struct {
		from, to    string
		depth, want int
	}{
		{"http://example.org/a?b", "https://www.example.org/a?b", 0, 0},
		{"http://example.org/a?b", "https://www.example.org/a?b", 3, 4},
		{"https://example.org/", "/en/", 0, 0},
		{"https://example.org/", "https://example.com/", 0, 1},
		{"https://example.org/en/", "https://example.org/en/1", 0, 1}, // else a chain could go on for ever
		{"https://example.org/?1", "https://example.org/?2", 0, 1},
		{"https://example.org/", "javascript:", 0, 1},
	} {
		if got := seed.RedirectDepth(c.from, c.to, c.depth); got != c.want {
			t.Errorf("%s to %s: depth %d, want %d", c.from, c.to, got, c.want)
		}
	}
}
