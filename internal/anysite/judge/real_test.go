package judge

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
	"github.com/parleyweb/parley/internal/must"
)

// recordings are faultless runs of the real programs.
func recordings(t *testing.T) map[string]func() *record.Recording {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no recordings: %v", err)
	}
	list := map[string]func() *record.Recording{}
	for _, name := range names {
		list[filepath.Base(name)] = func() *record.Recording {
			f := must.Get(os.Open(name))
			defer f.Close()
			z := must.Get(gzip.NewReader(f))
			var r record.Recording
			must.OK(t, json.NewDecoder(z).Decode(&r))
			return &r
		}
	}
	return list
}

// The oracles find no fault in what the real programs did on two sites that a seed drew, and each way to
// tamper with such a recording is found by the oracle that is named for it.
func TestTamperedRealRecordingsAreDetected(t *testing.T) {
	const crawler = "crawler-1"
	tamperings := []struct {
		name, oracle string
		tamper       func(r *record.Recording, expected []string)
	}{
		{"nothing", "", func(r *record.Recording, expected []string) {}},
		{"a body is swapped", "safety", func(r *record.Recording, expected []string) {
			c := copyOf(r, crawler)
			set(c, expected[0], func(s *record.Stored) { s.Sum = c.Pages[expected[1]].Sum })
		}},
		{"a body is delivered that no page has", "safety", func(r *record.Recording, expected []string) {
			r.Given = append(r.Given, record.Given{At: r.Ended, Site: expected[0], To: "reader", Door: "archive", URL: expected[0], Sum: Sum([]byte("nobody's"))})
		}},
		{"a page is lost", "liveness", func(r *record.Recording, expected []string) { delete(copyOf(r, crawler).Pages, expected[1]) }},
		{"a port that browsers block is requested", "manners", func(r *record.Recording, expected []string) {
			q := *request(r, crawler)
			q.Host, q.Address, q.URL = "127.0.0.1:6000", "127.0.0.1:6000", "http://127.0.0.1:6000/"
			r.Requests = append(r.Requests, q)
		}},
		{"an event is dropped", "events", func(r *record.Recording, expected []string) {
			l := r.Events[crawler]
			r.Events[crawler] = slices.Delete(l, len(l)/3, len(l)/3+1)
		}},
		{"a count is off by one", "accounts", func(r *record.Recording, expected []string) {
			s := r.Accounts[crawler].Status
			s["known"] = s["known"].(float64) + 1
		}},
		{"a line printed by pages is lost", "accounts", func(r *record.Recording, expected []string) {
			a := r.Accounts[crawler]
			a.Pages = a.Pages[1:]
			r.Accounts[crawler] = a
		}},
		{"excessive memory", "bounds", func(r *record.Recording, expected []string) { r.Usage[0].PeakRSS = 4 << 30 }},
		{"an unexpected exit code", "words", func(r *record.Recording, expected []string) {
			r.Exits = append(r.Exits, record.Exit{Program: crawler, At: r.Ended.Add(time.Minute), Code: 1, Asked: true})
		}},
	}
	for file, open := range recordings(t) {
		r := open()
		w := newWorld(r)
		var runs []record.Program
		for _, p := range r.Settings {
			if p.Name == crawler {
				runs = append(runs, p)
			}
		}
		var expected []string // pages with a certain expectation
		for u, want := range Expected(w, runs, r.Ended) {
			if want.Except == "" && len(want.Sums) == 1 {
				expected = append(expected, u)
			}
		}
		slices.Sort(expected)
		for _, x := range tamperings {
			t.Run(file+", "+x.name, func(t *testing.T) {
				r := open()
				x.tamper(r, expected)
				v := Judge(r)
				if x.oracle == "" {
					for _, f := range v.Findings {
						t.Error(f)
					}
					for _, j := range v.Copies {
						if !j.Counts {
							t.Error(j)
						}
					}
					return
				}
				if !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Oracle == x.oracle }) {
					t.Errorf("%s has not found it; findings: %s", x.oracle, v.Findings)
				}
			})
		}
	}
}

func request(r *record.Recording, from string) *record.Request {
	return &r.Requests[slices.IndexFunc(r.Requests, func(q record.Request) bool { return q.From == from })]
}
