package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// Judged is the expectation of a copy, and the result.
type Judged struct {
	Crawler    string
	Counts     bool           // it was judged; otherwise Reason says why not
	Reason     string         // why it does not count
	Pages      int            // URLs that had an expectation or an exception
	Exceptions map[string]int // by name
	Findings   []Finding
}

func (j Judged) String() string {
	s := fmt.Sprintf("%s: %d pages", j.Crawler, j.Pages)
	for _, name := range slices.Sorted(maps.Keys(j.Exceptions)) {
		s += fmt.Sprintf(", %s %d", name, j.Exceptions[name])
	}
	if !j.Counts {
		s += "; not counted: " + j.Reason
	}
	return s
}

// liveness checks that each copy is as expected at the deadline or before.
func liveness(r *record.Recording, w *world) (list []Judged) {
	for _, cp := range r.Copies {
		var runs []record.Program
		for _, p := range r.Settings {
			if p.Name == cp.Crawler && crawls(p) {
				runs = append(runs, p)
			}
		}
		if len(runs) == 0 {
			continue
		}
		slices.SortStableFunc(runs, func(a, b record.Program) int { return a.Started.Compare(b.Started) })
		list = append(list, compare(w, cp, runs))
	}
	return list
}

func compare(w *world, cp record.Copy, runs []record.Program) Judged {
	c := &collector{oracle: "liveness"}
	j := Judged{Crawler: cp.Crawler, Counts: true, Exceptions: map[string]int{}}
	last := runs[len(runs)-1]
	at := w.r.Ended
	j.Reason = w.unripe(last, at)
	for u, want := range Expected(w, runs, at) {
		held, ok := cp.Pages[u]
		ok = ok && held.Sum != ""
		if want.Except == "" && len(want.Sums) == 0 && !ok {
			continue // nothing is expected, and nothing is there
		}
		j.Pages++
		switch {
		case want.Except != "":
			j.Exceptions[want.Except]++
			if want.Cut > 0 && ok && !held.Truncated && !slices.Contains(want.Sums, held.Sum) && held.Size <= want.Cut {
				c.add(cp.Crawler, u, held.Stored, "is cut after %d bytes, but the copy does not report it as truncated", held.Size)
			}
		case len(want.Sums) == 0:
			c.add(cp.Crawler, u, held.Stored, "is stored, but should not be")
		case !ok:
			c.add(cp.Crawler, u, time.Time{}, "is not stored, but should be%s", reason(held.Why))
		case !slices.Contains(want.Sums, held.Sum):
			c.add(cp.Crawler, u, held.Stored, "is stored with digest %.8s, want %.8s", held.Sum, want.Sums[0])
		}
	}
	excepted := 0
	for _, n := range j.Exceptions {
		excepted += n
	}
	switch {
	case j.Reason == "" && w.endless(last):
		c.add(cp.Crawler, "", at, "the crawl has not ended by itself within %s", deadline(w, last))
	case cp.Err != "" && j.Reason == "":
		c.add(cp.Crawler, "", at, "the copy cannot be read: %s", cp.Err)
	case j.Reason != "" && !(j.Reason == early && len(c.list) == 0):
		j.Counts = false
	case 5*excepted > j.Pages:
		j.Counts, j.Reason = false, fmt.Sprintf("exceptions are %d of %d pages", excepted, j.Pages)
	}
	if j.Counts {
		j.Reason = ""
	}
	j.Findings = c.list
	return j
}

func reason(s string) string {
	if s != "" {
		return ": " + s
	}
	return ""
}

// endless reports whether a crawl had to be stopped.
func (w *world) endless(p record.Program) bool {
	return p.Kind == "crawl" && slices.ContainsFunc(w.r.Exits, func(x record.Exit) bool {
		return x.Program == p.Name && x.Asked && !x.At.Before(p.Started)
	})
}

// early is a reason that is dropped when the copy is already as expected.
const early = "the recording ends before the deadline"

// unripe returns why nothing can be expected of a crawler yet.
func (w *world) unripe(p record.Program, at time.Time) string {
	if option(p, "store", "warc") == "none" {
		return "it stores no contents"
	}
	quiet := w.quiet()
	var end *record.Exit
	for i, x := range w.r.Exits {
		if x.Program == p.Name && !x.At.Before(p.Started) {
			end = &w.r.Exits[i]
		}
	}
	switch {
	case p.Kind == "crawl" && (end == nil || end.Killed || end.Asked && end.At.Sub(later(p.Started, quiet)) < deadline(w, p)):
		return "the crawl was not allowed to finish"
	case p.Kind == "crawl":
		return ""
	case end != nil && end.Killed:
		return "it was killed and not restarted"
	case end != nil && end.At.Before(quiet):
		return "it had ended before the last step"
	}
	if at.Sub(quiet) < deadline(w, p) {
		return early
	}
	return ""
}
