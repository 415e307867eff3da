package server_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// visitors remember every response that they got for a URL, with its validators, and compare validators as a
// web server does.
type visitors struct {
	*ward
	given map[string]map[int64]map[protocol.Digest]bool // by URL and Last-Modified
	hold  map[string]copied                             // the newest copy of each URL
}

type copied struct {
	second int64
	digest protocol.Digest
	since  uint64 // the sequence number of its change
}

// come fetches every existing page.
func (v *visitors) come() {
	v.Helper()
	for place, b := range v.files() {
		m := v.given[place]
		if m == nil {
			m = map[int64]map[protocol.Digest]bool{}
			v.given[place] = m
		}
		at := v.second(place)
		if m[at] == nil {
			m[at] = map[protocol.Digest]bool{}
		}
		m[at][protocol.Sum(b)] = true
	}
}

func (v *visitors) files() map[string][]byte {
	v.Helper()
	all := map[string][]byte{}
	names := must.Get(filepath.Glob(v.path("*.html")))
	for _, n := range names {
		b := must.Get(os.ReadFile(n))
		all[filepath.Base(n)] = b
	}
	return all
}

// check runs after a scan that has healed all: no validator that was ever given out matches other bytes than
// the current ones. If lasting, every copy whose bytes are still current is also still valid.
func (v *visitors) check(lasting bool) {
	v.Helper()
	changed := v.lastChanges()
	for place, b := range v.files() {
		is, digest := v.second(place), protocol.Sum(b)
		if is > v.now.Unix() {
			v.Errorf("%s has an mtime in the future", place)
		}
		for was := range v.given[place][is] {
			if was != digest {
				v.Errorf("%s: false 304 for second %d", place, is)
			}
		}
		c := copied{is, digest, changed[base+place]}
		if was, ok := v.hold[place]; ok && lasting && was.digest == digest && was.since == c.since && was.second != is {
			v.Errorf("%s: nothing changed, but the copies of second %d are not valid at %d", place, was.second, is)
		}
		v.hold[place] = c
	}
	for place := range v.hold {
		if _, err := os.Stat(v.path(place)); err != nil {
			delete(v.hold, place)
		}
	}
}

// lastChanges returns the newest change of each URL.
func (v *visitors) lastChanges() map[string]uint64 {
	v.Helper()
	last := map[string]uint64{}
	changes := must.Get(v.journal.Read(v.Context(), protocol.Cursor{Epoch: v.journal.Head().Epoch}, 1<<20))
	for _, c := range changes {
		last[c.Item.URL] = c.Seq
		if c.From != "" {
			last[c.From] = c.Seq
		}
	}
	return last
}

// Files are written, touched, copied with old times, replaced, deleted, recreated and renamed, several times
// a second, and scanned now and then. After every scan that has healed, a brute-force record of all that was
// ever served agrees with the validators.
func TestHealHistories(t *testing.T) {
	t.Parallel()
	seeds := uint64(24)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 3))
		v := &visitors{ward: newWard(t), given: map[string]map[int64]map[protocol.Digest]bool{}, hold: map[string]copied{}}
		v.pub.Pace.Grace = 3 * time.Second
		sometimes := seed%4 == 3 // healing is switched on and off
		look := func(heal bool) {
			v.come()
			if v.pub.Pages.Healer = nil; heal {
				v.pub.Pages.Healer = v.site
			}
			must.Get(v.pub.Scan(t.Context(), nil))
			v.come()
		}
		contents, times := 0, []time.Time{v.now}
		fresh := func() string { contents++; return fmt.Sprintf("content %06d", contents) } // all of one length
		for range 60 {
			for range rnd.IntN(4) {
				v.pass(time.Duration(rnd.IntN(500)) * time.Millisecond)
				files := v.files()
				there := slices.Sorted(maps.Keys(files))
				place := fmt.Sprintf("%d.html", rnd.IntN(3))
				at := v.now
				if rnd.IntN(4) == 0 { // cp -p, rsync -t
					at = times[rnd.IntN(len(times))]
				}
				times = append(times, at)
				switch b, ok := files[place]; rnd.IntN(7) {
				case 0, 1:
					v.putAt(place, fresh(), at)
				case 2:
					if ok {
						v.putAt(place, string(b), at)
					}
				case 3: // a new file in its place
					v.putAt(".tmp", fresh(), at)
					v.must(os.Rename(v.path(".tmp"), v.path(place)))
				case 4:
					if ok {
						v.must(os.Remove(v.path(place)))
					}
				case 5:
					if len(there) > 0 {
						v.must(os.Rename(v.path(there[rnd.IntN(len(there))]), v.path(place)))
					}
				case 6: // an old content again
					v.putAt(place, fmt.Sprintf("content %06d", 1+rnd.IntN(contents+1)), at)
				}
			}
			if rnd.IntN(3) > 0 {
				look(!sometimes || rnd.IntN(2) == 0)
				continue
			}
			look(true)
			v.pass(2500 * time.Millisecond)
			look(true)
			v.check(!sometimes)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
