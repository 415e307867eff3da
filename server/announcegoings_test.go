package server_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// The count of announced pages is right after every scan and every call: the limit for a mass disappearance
// depends on it.
func TestAnnouncedCount(t *testing.T) {
	w := newWorld(t)
	w.look()
	random := rand.New(rand.NewPCG(1, 2))
	dirs, most := []string{"", "d/", "e/"}, 0
	for step := range 600 {
		what := ""
		path := fmt.Sprintf("%sp%d.html", dirs[random.IntN(3)], random.IntN(12))
		w.pass(20 * time.Second)
		switch random.IntN(12) {
		case 0, 1, 2:
			what = "said " + w.say(protocol.Announcement{URL: base + path, Modified: w.now})
		case 3:
			what = "said " + w.say(protocol.Announcement{URL: base + path, Gone: true, Modified: w.now})
		case 4, 5:
			w.write(path, fmt.Sprint(random.IntN(5)))
			what = "wrote"
		case 6:
			if _, ok := w.pages[path]; ok {
				w.remove(path)
			}
			what = "removed"
		case 7:
			if w.forbidden[path] = true; random.IntN(2) == 0 {
				clear(w.forbidden)
			}
			what = "forbade"
		case 8:
			what = "looked " + w.look().String()
		case 9, 10:
			what = "looked " + w.look(dirs[random.IntN(3)]).String()
		case 11:
			switch random.IntN(3) {
			case 0:
				must.Get(w.pub.AcceptDeletions(w.Context()))
				what = "accepted"
			case 1:
				w.fail, w.failAfter = errors.New("cut short"), random.IntN(20)
				w.pub.Scan(w.Context(), nil)
				w.fail = nil
				what = "looked in vain"
			default:
				w.restart()
				what = "restarted, looked " + w.look(dirs[random.IntN(3)]).String()
			}
		}
		counted, are, err := w.pub.AnnouncedPages()
		w.must(err)
		if counted != are {
			t.Fatalf("step %d, %s %s: %d pages counted, %d are announced", step, path, what, counted, are)
		}
		most = max(most, are)
	}
	if most < 5 {
		t.Errorf("at most %d pages were announced at a time: the test shows little", most)
	}
}

// Remembered deletions are bounded, and the oldest are forgotten.
func TestRememberedDeletionsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("100 calls of 1,000 pages")
	}
	w := newWorld(t)
	w.look()
	at := w.now.Add(-time.Hour)
	say := func(n int, gone bool) string {
		return w.say(protocol.Announcement{URL: fmt.Sprintf("%s%d", base, n), Modified: at, Gone: gone})
	}
	for n := 0; n <= server.MaxGoings; n += protocol.MaxBatch {
		if n == server.MaxGoings/2 {
			w.restart()
			w.look()
		}
		w.pass(time.Second)
		list := make([]protocol.Announcement, protocol.MaxBatch)
		for i := range list {
			list[i] = protocol.Announcement{URL: fmt.Sprintf("%s%d", base, n+i), Modified: at, Gone: true}
		}
		w.wantSaid("unchanged 1000", list...)
	}
	notes := 0
	w.must(w.journal.EachNote("announce/gone/", func(string, []byte) error { notes++; return nil }))
	if notes > server.MaxGoings || notes < server.MaxGoings*9/10 {
		t.Errorf("%d deletions are remembered", notes)
	}
	last := server.MaxGoings + protocol.MaxBatch - 1
	for n, want := range map[int]string{0: "created 1", 5000: "created 1", last - 80_000: "unchanged 1", last: "unchanged 1"} {
		if got := say(n, false); got != want {
			t.Errorf("page %d: %s, want %s", n, got, want)
		}
	}
}
