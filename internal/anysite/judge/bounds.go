package judge

import (
	"github.com/parleyweb/parley/internal/anysite/record"
)

// Upper limits of memory and state, whatever a site does: a base for the process, a share for each URL that
// it ever met, and bodies, which are stored as often as the settings say.
const (
	baseRSS    = 160 << 20
	urlRSS     = 16 << 10
	baseState  = 48 << 20
	urlState   = 16 << 10
	fileState  = 32 << 20 // the step by which state files grow
	bodyCopies = 4        // copies in memory at a time of the largest body: as received, decoded, parsed, and one more for the next
)

// bounds checks that memory and disk depend on the site and the settings alone.
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
			c.add(u.Program, "", r.Ended, "used %d MiB of memory, more than the limit of %d MiB for %d URLs", u.PeakRSS>>20, memory>>20, urls)
		}
		// --store both stores bodies twice, and versions lie beside the state.
		state := baseState + urls*urlState + 2*bodies + size(p, "versions", 0)
		if limit := size(p, "max-state", 0); limit > 0 {
			state = min(state, limit+fileState+2*bodies)
		}
		if u.StateSize > state {
			c.add(u.Program, "", r.Ended, "stores %d KiB of state, more than the limit of %d KiB for %d URLs", u.StateSize>>10, state>>10, urls)
		}
		if total := 8*sum + 16*state; u.Written > total {
			c.add(u.Program, "", r.Ended, "wrote %d MiB, more than the limit of %d MiB for its traffic and state", u.Written>>20, total>>20)
		}
	}
	return c.list
}
