package urls_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// The set of known URLs finds what was put in and nothing else, even hashes
// that two URLs share and hashes that crowd at the end of a table.
func TestSeen(t *testing.T) {
	for _, mask := range []uint64{^uint64(0), 0xff00_0000_0000_ffff, 0x00ff_ffff_0000_0000, 0x00ff_ffff_ffff_ff00 | 0xff} {
		rnd := rand.New(rand.NewPCG(1, mask))
		s := urls.NewSet()
		was := map[uint64][]frontier.PageID{}
		var hashes []uint64
		for id := frontier.PageID(1); id <= 60_000; id++ {
			h := rnd.Uint64() & mask
			if id%50 == 0 { // at the end of its shard
				h |= 0x00ff_ffff_ffff_0000
			}
			if len(was[h]) < 4 {
				s.Add(h, id)
				was[h] = append(was[h], id)
				hashes = append(hashes, h)
			}
			if other := rnd.Uint64(); was[other] == nil && len(s.Find(nil, other)) > 0 {
				t.Fatalf("found %x, which was not added", other)
			}
		}
		for h, ids := range was {
			got := s.Find(nil, h)
			if slices.Sort(got); !slices.Equal(got, ids) {
				t.Fatalf("hash %x: got %v, want %v", h, got, ids)
			}
		}
		if each := float64(s.Bytes()) / float64(len(hashes)); mask == ^uint64(0) && each > 17.5 {
			t.Errorf("%.1f bytes a URL", each)
		}
	}
}
