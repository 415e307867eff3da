package harvest

import (
	"encoding/base64"
	"fmt"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

// deltaCoding is the content coding of deltas that is requested (RFC 9842).
const deltaCoding = "dcz"

// mostBase bounds the stored content that serves as a dictionary, in bytes.
const mostBase = 16 << 20

// errDelta says that a delta could not be applied: the whole page is fetched instead.
var errDelta = fmt.Errorf("delta cannot be applied")

// dictionary returns a digest in the syntax of Available-Dictionary.
func dictionary(d protocol.Digest) string {
	return ":" + base64.StdEncoding.EncodeToString(d[:]) + ":"
}

// base returns the stored content of a page if a delta is to be requested, else nil.
func (h *fetcher) base(t Task) []byte {
	if h.opts.Version == nil || h.opts.Range || !t.Dictionary || t.Held.IsZero() || t.Page == 0 {
		return nil
	}
	b, err := h.opts.Version(t.URL, t.Held)
	if err != nil || len(b) == 0 || len(b) > mostBase {
		return nil
	}
	return b
}

// undelta applies the delta in a.Body, and replaces it by the page.
func (b *bodies) undelta(a *Answer, limit int64, room *share, over bool, err error) (whole bool, _ error) {
	wire := a.Body
	a.Body = nil
	defer b.buffers.free(wire)
	if err != nil {
		return false, err
	}
	most := min(limit, b.memory.all-a.Wire)
	if over || !room.reach(min(most, int64(len(a.base))+4*int64(len(wire)))+a.Wire) {
		return false, errNoMemory
	}
	page, err := coding.ApplyDelta(a.base, wire, most)
	if err != nil {
		return true, fail(FaultCoding, fmt.Errorf("%w: %v", errDelta, err))
	}
	if !a.Want.IsZero() && protocol.Sum(page) != a.Want {
		return true, fail(FaultCoding, fmt.Errorf("%w: the result differs from the announced digest", errDelta))
	}
	a.Body, a.Coding = page, deltaCoding
	return true, nil
}
