package server_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// Random steps on a world: the journal's pages equal the world's in the end, and a reader that applies its
// changes from any cursor has the same.
func TestRandomHistory(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			maxMoves := []int{0, 0, 1, 3}[seed%4]
			w.pub.MaxMoves = maxMoves
			w.fill(rnd.IntN(30))
			w.look()
			type mirror struct {
				at    protocol.Cursor
				pages map[string]protocol.Digest
			}
			mirrors := []mirror{{w.journal.Head(), w.present()}}
			dirs := []string{"", "p/", "q/", "q/r/", "s/"}
			for range 30 {
				for range rnd.IntN(6) {
					w.step(rnd, dirs)
				}
				w.unseen = nil
				switch rnd.IntN(5) {
				case 0:
					w.unseen = []string{dirs[1+rnd.IntN(len(dirs)-1)]}
					w.look()
				case 1:
					w.fail, w.failAfter = errors.New("no root"), rnd.IntN(10)
					w.pub.Scan(w.Context(), nil)
					w.fail = nil
				case 2:
					w.look()
				case 3:
					w.look(dirs[rnd.IntN(len(dirs))], dirs[rnd.IntN(len(dirs))]+"**")
				case 4:
					w.restart()
					w.pub.MaxMoves = maxMoves
				}
				w.pass(time.Duration(rnd.IntN(50)) * time.Second)
				mirrors = append(mirrors, mirror{w.journal.Head(), w.present()})
			}
			w.unseen = nil
			clear(w.busy)
			w.look()
			w.pass(time.Minute)
			must.Get(w.pub.AcceptDeletions(w.Context()))
			w.wantPresent()
			for _, m := range mirrors {
				for {
					changes := must.Get(w.journal.Read(w.Context(), m.at, 1+rnd.IntN(10)))
					if len(changes) == 0 {
						break
					}
					apply(m.pages, changes)
					m.at.Seq = changes[len(changes)-1].Seq
				}
				if want := w.present(); !maps.Equal(m.pages, want) {
					t.Errorf("a mirror differs: %v", diff(m.pages, want))
				}
			}
		})
	}
}

// step makes a random change to the shelf.
func (w *world) step(rnd *rand.Rand, dirs []string) {
	paths := slices.Sorted(maps.Keys(w.pages))
	pick := func() string {
		if len(paths) == 0 {
			return "none.html"
		}
		return paths[rnd.IntN(len(paths))]
	}
	name := fmt.Sprintf("%s%d.html", dirs[rnd.IntN(len(dirs))], rnd.IntN(9))
	switch rnd.IntN(9) {
	case 0, 1:
		w.write(name, fmt.Sprint(rnd.IntN(6)))
	case 2:
		w.write(pick(), fmt.Sprint(rnd.Uint64()))
	case 3:
		w.remove(pick())
	case 4:
		if p := pick(); w.pages[p].stamp > 0 {
			w.rename(p, name)
		}
	case 5: // a directory is renamed
		from, to := dirs[1+rnd.IntN(len(dirs)-1)], dirs[1+rnd.IntN(len(dirs)-1)]
		for _, p := range paths {
			if rest, ok := strings.CutPrefix(p, from); ok && from != to {
				w.rename(p, to+rest)
			}
		}
	case 6:
		w.forbidden[name] = !w.forbidden[name]
	case 7:
		if p := pick(); w.pages[p].stamp > 0 {
			w.write(p, w.pages[p].content)
		}
	case 8:
		w.busy[name] = !w.busy[name]
	}
}
