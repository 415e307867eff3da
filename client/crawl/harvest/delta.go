package harvest

import (
	"encoding/base64"
	"fmt"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

// deltaCoding is the content coding of differences that is asked for (RFC 9842).
const deltaCoding = "dcz"

// mostBase is how many bytes of what is held are read for a difference.
const mostBase = 16 << 20

// errDelta says that a difference led to nothing: the page is asked for whole.
var errDelta = fmt.Errorf("a difference that does not lead to the page")

// dictionary is a digest as Available-Dictionary names it.
func dictionary(d protocol.Digest) string {
	return ":" + base64.StdEncoding.EncodeToString(d[:]) + ":"
}

// base returns what is held of a page, if a difference is to be asked for.
func (h *Harvester) base(t Task) []byte {
	if h.Version == nil || h.Range || !t.Dictionary || t.Held.IsZero() || t.Page == 0 {
		return nil
	}
	b, err := h.Version(t.URL, t.Held)
	if err != nil || len(b) == 0 || len(b) > mostBase {
		return nil
	}
	return b
}

// undelta makes the page of a difference, which a.Body holds.
func (h *Harvester) undelta(a *Answer, limit int64, room *share, over bool, err error) (whole bool, _ error) {
	wire := a.Body
	a.Body = nil
	defer h.buffers.free(wire)
	if err != nil {
		return false, err
	}
	most := min(limit, h.memory.all-a.Wire)
	if over || !room.reach(min(most, int64(len(a.base))+4*int64(len(wire)))+a.Wire) {
		return false, errNoMemory
	}
	page, err := coding.ApplyDelta(a.base, wire, most)
	if err != nil {
		return true, fail(FaultCoding, fmt.Errorf("%w: %v", errDelta, err))
	}
	if !a.Want.IsZero() && protocol.Sum(page) != a.Want {
		return true, fail(FaultCoding, fmt.Errorf("%w that was told", errDelta))
	}
	a.Body, a.Coding = page, deltaCoding
	return true, nil
}
