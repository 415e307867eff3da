package judge

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
	"github.com/parleyweb/parley/internal/must"
)

// On recordings of an ideal web with ideal crawlers, no oracle finds anything, and every copy counts.
func TestCleanRecordingHasNoFindings(t *testing.T) {
	for seed := range uint64(100) {
		r := clean(seed)
		v := Judge(r)
		for _, f := range v.Findings {
			t.Errorf("seed %d: %s", seed, f)
		}
		for _, j := range v.Copies {
			if !j.Counts {
				t.Errorf("seed %d: %s", seed, j)
			}
		}
		if t.Failed() {
			b, _ := json.MarshalIndent(r.Steps, "", " ")
			t.Fatalf("%s", b)
		}
	}
}

// The expectation of a copy is one function, short enough to read in one sitting.
func TestExpectedIsOneShortFunction(t *testing.T) {
	set := token.NewFileSet()
	f := must.Get(parser.ParseFile(set, "expected.go", nil, 0))
	n := 0
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; lines > 150 {
				t.Errorf("%s has %d lines, want at most 150", fn.Name.Name, lines)
			}
			n++
		}
	}
	if n != 1 {
		t.Errorf("expected.go has %d functions", n)
	}
}

// again returns a recording after a round trip through JSON.
func again(t *testing.T, r *record.Recording) *record.Recording {
	b := must.Get(json.Marshal(r))
	var c record.Recording
	must.OK(t, json.Unmarshal(b, &c))
	return &c
}

// A crawl may obtain nothing while the notifier that serves all of its sites restarts, and only then.
func TestCrawlMayFailWhileItsServerRestarts(t *testing.T) {
	at := dawn.Add(time.Hour)
	began := func(base string, front string, restarted bool) *record.Recording {
		r := &record.Recording{Features: []string{front}, Settings: []record.Program{
			{Name: "notifier-a", Kind: "notifier", Sites: []string{siteA}, Started: dawn}, {Name: "crawler-3", Kind: "crawl", Sites: []string{base}, Started: at}},
			Requests: []record.Request{{From: "crawler-3", URL: base, Status: 502, Began: at.Add(2 * secs), Ended: at.Add(2 * secs)}},
			Exits:    []record.Exit{{Program: "crawler-3", At: at.Add(3 * secs), Code: 1, Stderr: "crawler crawl: no page was obtained"}}}
		if restarted {
			r.Steps = []record.Step{{At: at.Add(secs), Done: at.Add(4 * secs), Kind: "restart-notifier", Target: "notifier-a"}}
			r.Settings = append(r.Settings, record.Program{Name: "notifier-a", Kind: "notifier", Sites: []string{siteA}, Started: at.Add(3 * secs)})
		}
		return r
	}
	for what, c := range map[string]struct {
		r       *record.Recording
		allowed bool
	}{
		"its server was restarting":                {began(siteA, "front=notifier", true), true},
		"another server serves the pages":          {began(siteA, "front=nginx", true), false},
		"its server was running":                   {began(siteA, "front=notifier", false), false},
		"the restarted server serves another site": {began(siteB, "front=notifier", true), false},
	} {
		if found := words(c.r, newWorld(c.r)); (len(found) == 0) != c.allowed {
			t.Errorf("%s: %v", what, found)
		}
	}
}

// A page that vanishes is announced, and must be gone from a copy; but not if it asked not to be indexed: then its site
// has never listed it.
func TestVanishedPageMustBeGoneIfItWasListed(t *testing.T) {
	gone, hidden := siteA+"gone.html", siteA+"hidden.html"
	run := record.Program{Name: "crawler-1", Kind: "run", Sites: []string{siteA}, Started: dawn, Args: []string{"run", siteA}}
	r := &record.Recording{Settings: []record.Program{{Name: "notifier-a", Kind: "notifier", Sites: []string{siteA}, Started: dawn}, run},
		Steps: []record.Step{{At: dawn.Add(time.Minute), Done: dawn.Add(time.Minute), Kind: "delete", Target: siteA, URLs: []string{gone, hidden}}}}
	for i, u := range []string{siteA, siteA + "1.html", siteA + "2.html", siteA + "3.html", gone, hidden} {
		f := record.Fetch{At: dawn, URL: u, Status: 200, Sum: Sum([]byte(u)), NoIndex: u == hidden}
		if u == siteA {
			f.Links = []string{gone, hidden}
		}
		r.Fetches = append(r.Fetches, f)
		if f.At = dawn.Add(2 * time.Minute); i > 3 {
			f.Status, f.Sum, f.NoIndex = 404, "", false
		}
		r.Fetches = append(r.Fetches, f)
	}
	for u, except := range map[string]string{gone: "", hidden: "noindex"} {
		if want := Expected(newWorld(r), []record.Program{run}, dawn.Add(time.Hour))[u]; want.Except != except || len(want.Sums) > 0 {
			t.Errorf("%s: %+v, want the exception %q", u, want, except)
		}
	}
}

// A crawl that was told wrong digests need not believe the next announcements of the same site; one that ran before or
// after that must.
func TestMisledCrawlNeedNotBelieve(t *testing.T) {
	u := siteA + "1.html"
	for began, except := range map[time.Duration]string{5 * time.Second: "", 55 * time.Second: "mistold", 65 * time.Second: "mistold", 95 * time.Second: ""} {
		crawl := func(at time.Duration) record.Program {
			return record.Program{Name: "crawler-1", Kind: "crawl", Sites: []string{siteA}, Started: dawn.Add(at), Args: []string{"crawl", siteA}}
		}
		runs := []record.Program{crawl(began), crawl(10 * time.Minute)}
		r := &record.Recording{Settings: append([]record.Program{{Name: "notifier-a", Kind: "notifier", Sites: []string{siteA}, Started: dawn}}, runs...),
			Steps: []record.Step{{At: dawn.Add(time.Minute), Done: dawn.Add(90 * time.Second), Kind: "wrong-docroot", Target: "notifier-a"},
				{At: dawn.Add(5 * time.Minute), Done: dawn.Add(5 * time.Minute), Kind: "edit", Target: siteA, URLs: []string{u}}},
			Exits: []record.Exit{{Program: "crawler-1", At: dawn.Add(began + 20*time.Second)}, {Program: "crawler-1", At: dawn.Add(11 * time.Minute)}},
			Fetches: []record.Fetch{{At: dawn, URL: siteA, Status: 200, Sum: Sum([]byte("home")), Links: []string{u}}, {At: dawn, URL: u, Status: 200, Sum: Sum([]byte("one"))},
				{At: dawn.Add(6 * time.Minute), URL: u, Status: 200, Sum: Sum([]byte("two"))}}}
		if want := Expected(newWorld(r), runs, dawn.Add(time.Hour))[u]; want.Except != except {
			t.Errorf("a crawl after %v: %+v, want the exception %q", began, want, except)
		}
	}
}

// A step concerns the pages of its own docroot: pages of another site have the same names, and change
// independently.
func TestStepConcernsItsDocroot(t *testing.T) {
	step := record.Step{Kind: "edit", Target: siteA, URLs: []string{siteA + "page-3.html"}}
	for _, c := range []struct {
		place, url string
		want       bool
	}{
		{"place=root", siteA + "page-3.html", true},
		{"place=root", siteA + "page-4.html", false},
		{"place=root", siteB + "page-3.html", false},
		{"place=two-addresses", siteB + "page-3.html", true},
	} {
		w := newWorld(&record.Recording{Features: []string{c.place}})
		if got := w.concerns(step, c.url); got != c.want {
			t.Errorf("%s: an edit of %s concerns %s: %v, want %v", c.place, step.URLs[0], c.url, got, c.want)
		}
	}
}

// With --trust-docroot a file may be delivered at once, before anybody has asked the web server for it; without, it may not.
func TestTrustedFileIsDeliveredBeforeItIsFetched(t *testing.T) {
	u, sum := siteA+"new.html", Sum([]byte("new"))
	for _, trusted := range []string{"true", "false"} {
		r := &record.Recording{Settings: []record.Program{{Name: "notifier-a", Kind: "notifier", Sites: []string{siteA}, Started: dawn, Options: map[string]string{"trust-docroot": trusted}}},
			Docroot: []record.Fetch{{At: dawn.Add(secs), URL: u, Sum: sum}},
			Given:   []record.Given{{At: dawn.Add(secs + 25*time.Millisecond), Site: siteA, To: "reader", Door: "bundle", URL: u, Sum: sum}},
			Fetches: []record.Fetch{{At: dawn.Add(secs + 50*time.Millisecond), URL: u, Status: 401}}}
		if found := safety(r, newWorld(r)); (len(found) == 0) != (trusted == "true") {
			t.Errorf("--trust-docroot=%s: %v", trusted, found)
		}
	}
}

// With --max-rate 0 a crawler ignores welcomes, so that its own pause applies.
func TestMaxRateZeroIgnoresWelcomes(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	w := welcome{rate: 50, read: now}
	for most, want := range map[string]time.Duration{"0": 0, "5": 200 * time.Millisecond, "": 100 * time.Millisecond, "80": 20 * time.Millisecond} {
		pause, welcomed := w.pace(record.Program{Options: map[string]string{"max-rate": most}}, w.at, now)
		if pause != want || welcomed != (want > 0) {
			t.Errorf("--max-rate %q: a pause of %s, %t; want %s", most, pause, welcomed, want)
		}
	}
}
