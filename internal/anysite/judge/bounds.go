package judge

import (
	"github.com/parleyweb/parley/internal/anysite/record"
)

// What a program may take at the most, whatever a site does: a process by
// itself; what it keeps of each URL that it ever met; and bodies, which are kept as often as settings say.
const (
	baseRSS    = 160 << 20
	urlRSS     = 16 << 10
	baseState  = 48 << 20
	urlState   = 16 << 10
	fileState  = 32 << 20 // by which the files of state grow at a time
	bodyCopies = 4        // in memory at a time of what is largest: as it comes, decoded, parsed, and one more for the next
)

// bounds holds that memory and disk follow the site, and the settings, and nothing else.
func bounds(r *record.Recording, w *world) []Finding {
	c := &collector{oracle: "bounds"}
	var largest, sum, bodies int64
	known := map[string]bool{}
	for _, q := range r.Requests {
		largest = max(largest, q.Size)
		sum += q.Size
	}
	for _, f := range r.Fetches {
		largest = max(largest, f.Size)
		sum += f.Size
		if k := f.URL + " " + f.Sum; !known[k] {
			known[k] = true
			bodies += f.Size
		}
	}
	urls := int64(len(w.seen))
	for _, u := range r.Usage {
		p, ok := w.program(u.Program, never)
		if !ok {
			continue
		}
		memory := baseRSS + urls*urlRSS + bodyCopies*min(largest, 256<<20)
		if u.PeakRSS > memory {
			c.add(u.Program, "", r.Ended, "took %d MiB of memory, and %d are enough for %d URLs", u.PeakRSS>>20, memory>>20, urls)
		}
		// Bodies are kept twice by --store both, and versions beside the state.
		state := baseState + urls*urlState + 2*bodies + size(p, "versions", 0)
		if limit := size(p, "max-state", 0); limit > 0 {
			state = min(state, limit+fileState+2*bodies)
		}
		if u.StateSize > state {
			c.add(u.Program, "", r.Ended, "keeps %d KiB of state, and %d are enough for %d URLs", u.StateSize>>10, state>>10, urls)
		}
		if total := 8*sum + 16*state; u.Written > total {
			c.add(u.Program, "", r.Ended, "wrote %d MiB, and %d are enough for what passed", u.Written>>20, total>>20)
		}
	}
	return c.list
}
