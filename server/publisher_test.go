package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/inventory"
)

// fill puts n pages with distinct content on the shelf.
func (w *world) fill(n int) {
	for i := range n {
		w.write(fmt.Sprintf("p/%03d.html", i), fmt.Sprintf("page %d", i))
	}
}

// Every story begins with a site of a.html, b.html, c.html and d/e.html after its first scan.
func TestPublisherStories(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"the first scan is a baseline": func(w *world) {
			w.wantTold("")
			if h := w.journal.Head(); h.Seq != 0 || h.Epoch == "" {
				w.Errorf("head is %v after the first scan", h)
			}
		},
		"nothing happens": func(w *world) {
			reads := w.reads
			if r := w.look(); r.Unchanged != 4 || r.ChangeCount() != 0 || w.reads != reads {
				w.Errorf("%+v, %d reads", r, w.reads-reads)
			}
			w.wantTold("")
		},
		"an edit": func(w *world) {
			w.write("a.html", "other")
			w.look("")
			w.wantTold("update a.html")
		},
		"a new page": func(w *world) {
			w.write("d/f.html", "f")
			w.look("d/")
			w.wantTold("create d/f.html")
		},
		"a build touches everything": func(w *world) {
			for p, x := range w.pages {
				w.write(p, x.content)
			}
			if r := w.look(); r.Touched != 4 || r.String() != "new 0 changed 0 moved 0 gone 0 touched only 4" {
				w.Errorf("%+v", r)
			}
			w.wantTold("")
			reads := w.reads
			w.look()
			if w.reads != reads {
				w.Error("the new stamps were not stored")
			}
		},
		"a rename is reported at once": func(w *world) {
			w.rename("a.html", "z/a.html")
			w.look()
			w.wantTold("move a.html->z/a.html")
		},
		"a rename seen in two scans": func(w *world) {
			w.rename("a.html", "z/a.html")
			w.look("")
			w.wantTold("")
			w.look("z/")
			w.wantTold("move a.html->z/a.html")
		},
		"a copy of a held page that is back": func(w *world) {
			old := w.pages["a.html"]
			w.remove("a.html")
			w.look("")
			w.pages["a.html"] = old // it is back, and not scanned yet
			w.write("z/a.html", old.content)
			w.look("z/")
			w.wantTold("create z/a.html")
			w.look()
			w.wantTold("")
		},
		"equal files are no moves": func(w *world) {
			w.write("x.html", "same")
			w.write("y.html", "same")
			w.look()
			w.told()
			w.remove("x.html")
			w.remove("y.html")
			w.write("d/x.html", "same")
			w.look()
			w.wantTold("create d/x.html")
			w.pass(time.Minute)
			w.look()
			w.wantTold("delete x.html, delete y.html")
		},
		"one page becomes two": func(w *world) {
			w.rename("a.html", "d/1.html")
			w.write("d/2.html", w.pages["d/1.html"].content)
			w.look()
			w.wantTold("create d/1.html, create d/2.html")
		},
		"empty files are no moves": func(w *world) {
			w.write("x.html", "")
			w.look()
			w.told()
			w.rename("x.html", "y.html")
			w.look()
			w.wantTold("create y.html")
		},
		"a deletion waits out its grace": func(w *world) {
			w.remove("a.html")
			if r := w.look(); r.Held != 1 || r.HeldNow != 1 {
				w.Errorf("%+v", r)
			}
			w.pass(59 * time.Second)
			w.look()
			w.wantTold("")
			w.pass(time.Second)
			w.look("d/") // elsewhere: the scan does not cover a.html
			w.wantTold("")
			if r := w.look(""); r.Gone != 1 || r.HeldNow != 0 {
				w.Errorf("%+v", r)
			}
			w.wantTold("delete a.html")
		},
		"the clock is set back during a grace": func(w *world) {
			w.remove("a.html")
			w.look()
			w.pass(-24 * time.Hour)
			w.look()
			w.pass(59 * time.Second)
			w.look()
			w.wantTold("")
			w.pass(time.Second)
			w.look()
			w.wantTold("delete a.html")
		},
		"a vanished page returns unchanged": func(w *world) {
			old := w.pages["a.html"].content
			w.remove("a.html")
			w.look()
			w.pass(30 * time.Second)
			w.write("a.html", old)
			if r := w.look(); r.Returned != 1 || r.HeldNow != 0 {
				w.Errorf("%+v", r)
			}
			w.pass(time.Hour)
			w.look()
			w.wantTold("")
		},
		"a vanished page returns changed": func(w *world) {
			w.remove("a.html")
			w.look()
			w.write("a.html", "other")
			w.look()
			w.wantTold("update a.html")
			w.pass(time.Hour)
			w.look()
			w.wantTold("")
		},
		"a build empties and refills the site": func(w *world) {
			old := maps.Clone(w.pages)
			clear(w.pages)
			if r := w.look(); !r.MassHeld {
				w.Errorf("%+v", r)
			}
			w.pass(time.Hour)
			w.look()
			w.wantTold("")
			for p, x := range old {
				w.write(p, x.content)
			}
			w.write("a.html", "new")
			if r := w.look(); r.MassHeld || r.HeldNow != 0 {
				w.Errorf("%+v", r)
			}
			w.wantTold("update a.html")
		},
		"all pages vanish, and a person accepts": func(w *world) {
			clear(w.pages)
			w.look()
			w.pass(time.Hour)
			if r := w.look(); !r.MassHeld || r.Gone != 0 {
				w.Errorf("%+v", r)
			}
			w.wantTold("")
			r := must.Get(w.pub.AcceptDeletions(w.Context()))
			if r.Gone != 4 || r.MassHeld || r.HeldNow != 0 {
				w.Errorf("%+v", r)
			}
			w.wantTold("delete a.html, delete b.html, delete c.html, delete d/e.html")
		},
		"a person accepts before the first scan": func(w *world) {
			w.remove("a.html")
			must.Get(w.pub.AcceptDeletions(w.Context()))
			w.wantTold("delete a.html")
		},
		"half of a large site is no mass disappearance": func(w *world) {
			w.fill(44)
			w.look()
			w.told()
			for i := range 24 {
				w.remove(fmt.Sprintf("p/%03d.html", i))
			}
			w.look()
			w.pass(time.Minute)
			if r := w.look(); r.MassHeld || r.Gone != 24 {
				w.Errorf("%+v", r)
			}
		},
		"more than half and more than 20 are a mass disappearance": func(w *world) {
			w.fill(44)
			w.look()
			w.told()
			for i := range 25 {
				w.remove(fmt.Sprintf("p/%03d.html", i))
			}
			w.look()
			w.pass(time.Minute)
			if r := w.look(); !r.MassHeld || r.Gone != 0 {
				w.Errorf("%+v", r)
			}
			w.write("p/000.html", "page 0") // one returns: half is left
			if r := w.look(); r.MassHeld || r.Gone != 24 {
				w.Errorf("%+v", r)
			}
		},
		"moves are no mass disappearance": func(w *world) {
			w.fill(44)
			w.look()
			w.told()
			for i := range 44 {
				w.rename(fmt.Sprintf("p/%03d.html", i), fmt.Sprintf("q/%03d.html", i))
			}
			if r := w.look(); r.Moved != 44 || r.MassHeld || r.HeldNow != 0 {
				w.Errorf("%+v", r)
			}
		},
		"a rule withdraws at once": func(w *world) {
			w.forbidden["a.html"] = true
			if r := w.look(); r.Withdrawn != 1 || r.LeftOut != 1 {
				w.Errorf("%+v", r)
			}
			w.wantTold("delete a.html")
			delete(w.forbidden, "a.html")
			w.look()
			w.wantTold("create a.html")
		},
		"all pages are withdrawn": func(w *world) {
			for p := range w.pages {
				w.forbidden[p] = true
			}
			w.look()
			w.wantTold("delete a.html, delete b.html, delete c.html, delete d/e.html")
		},
		"a vanished page is also forbidden": func(w *world) {
			w.remove("a.html")
			w.forbidden["a.html"] = true
			w.look()
			w.wantTold("delete a.html")
		},
		"a page being written": func(w *world) {
			w.write("a.html", "half")
			w.busy["a.html"] = true
			if r := w.look(); r.Unsettled != 1 {
				w.Errorf("%+v", r)
			}
			w.wantTold("")
			delete(w.busy, "a.html")
			w.look()
			w.wantTold("update a.html")
		},
		"a page that cannot be read stays": func(w *world) {
			w.write("a.html", "other")
			w.unread["a.html"] = errors.New("permission denied")
			if r := w.look(); r.Unread != 1 {
				w.Errorf("%+v", r)
			}
			w.pass(time.Hour)
			w.look()
			w.wantTold("")
		},
		"pages of an unreadable directory stay": func(w *world) {
			w.unseen = []string{"d/"}
			w.look()
			w.pass(time.Hour)
			w.look()
			w.wantTold("")
			w.unseen = nil
			w.remove("d/e.html")
			w.look()
			w.unseen = []string{"d/"}
			w.pass(time.Hour)
			w.look()
			w.wantTold("") // held, but absence was not seen again
		},
		"a failed scan holds no deletions": func(w *world) {
			w.write("a.html", "other")
			w.remove("b.html")
			w.fail, w.failAfter = errors.New("root is missing"), 1
			if _, err := w.pub.Scan(w.Context(), nil); err == nil {
				w.Error("no error")
			}
			w.wantTold("update a.html") // that was seen
			if s := w.pub.Status(); s.Held != 0 || s.Error == "" || s.Failed != 1 {
				w.Errorf("%+v", s)
			}
			w.fail = nil
			w.look()
			if s := w.pub.Status(); s.Held != 1 || s.Error != "" {
				w.Errorf("%+v", s)
			}
		},
		"a canceled scan holds no deletions": func(w *world) {
			clear(w.pages)
			ctx, stop := context.WithCancel(w.Context())
			w.looked = stop
			if _, err := w.pub.Scan(ctx, nil); !errors.Is(err, context.Canceled) {
				w.Error(err)
			}
			if s := w.pub.Status(); s.Held != 0 {
				w.Errorf("%+v", s)
			}
		},
		"another media type": func(w *world) {
			w.mime = "text/plain"
			w.look("d/")
			w.wantTold("update d/e.html")
			e, _, err := w.journal.Get(base + "d/e.html")
			w.must(err)
			if e.Item.Type != "text/plain" || e.Item.Modified.Equal(w.now) {
				w.Errorf("%+v", e.Item) // the bytes are as old as before
			}
		},
		"scopes within scopes": func(w *world) {
			w.write("d/1.html", "1")
			w.write("d/x/2.html", "2")
			w.write("d/x/y/3.html", "3")
			w.write("f.html", "4")
			w.look("d/**", "d/x/", "d/x/**", "")
			w.wantTold("create f.html, create d/1.html, create d/x/2.html, create d/x/y/3.html")
			w.wantPresent()
		},
		"shallow scopes only": func(w *world) {
			w.write("d/x/2.html", "2")
			w.write("d/1.html", "1")
			w.look("d/")
			w.wantTold("create d/1.html")
			w.remove("d/1.html")
			w.remove("d/e.html")
			w.look("d/x/", "d/")
			w.wantTold("create d/x/2.html")
			w.pass(time.Minute)
			w.look("d/", "d/x/")
			w.wantTold("delete d/1.html, delete d/e.html")
			w.wantPresent()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, p := range []string{"a.html", "b.html", "c.html", "d/e.html"} {
				w.write(p, "content of "+p)
			}
			w.look()
			w.told()
			w.pass(time.Hour)
			story(w)
		})
	}
}

// Changes beyond the memory limit for moves are published as creations and deletions.
func TestMovesBeyondMemoryLimitAreDeletesAndCreates(t *testing.T) {
	w := newWorld(t)
	w.fill(30)
	w.write("z.html", "z")
	w.look()
	w.pub.MaxMoves = 4
	for i := range 12 {
		w.rename(fmt.Sprintf("p/%03d.html", i), fmt.Sprintf("q/%03d.html", i))
	}
	if r := w.look(); r.Moved != 0 || r.New != 12 || r.HeldNow != 12 {
		t.Errorf("%+v", r)
	}
	w.pass(time.Minute)
	if r := w.look(); r.Gone != 12 || r.HeldNow != 0 {
		t.Errorf("%+v", r)
	}
	w.wantPresent()
	clear(w.pages)
	if r, err := w.pub.AcceptDeletions(t.Context()); err != nil || r.Gone != 31 || r.HeldNow != 0 {
		t.Errorf("%+v %v", r, err)
	}
	w.wantPresent()
}

// A site with more pages than its maximum publishes no new ones; what is known of it goes on.
func TestTooManyPages(t *testing.T) {
	w := newWorld(t)
	fails := func(pages int) {
		t.Helper()
		_, err := w.pub.Scan(w.Context(), nil)
		if want := fmt.Sprintf("%d pages were found, more than the maximum, max-pages %d: ", pages, w.pub.Pages.Max); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if s := w.pub.Status(); s.Error == "" {
			t.Errorf("%+v", s)
		}
	}
	w.fill(3)
	w.pub.Pages.Max = 2
	fails(3)
	if w.journal.Whole() {
		t.Error("a first scan of too many pages is published")
	}
	w.pub.Pages.Max = 3
	w.look()
	w.wantPresent()

	w.write("new.html", "new")
	w.write("p/000.html", "edited")
	w.rename("p/001.html", "moved.html")
	fails(4)
	w.wantTold("update p/000.html, move p/001.html->moved.html")
	w.pub.MaxMoves = 2 // as of many new pages at once
	for i := range 10 {
		w.write(fmt.Sprintf("many/%d.html", i), fmt.Sprint("many ", i))
	}
	fails(6) // as far as it counted
	for i := range 10 {
		w.remove(fmt.Sprintf("many/%d.html", i))
	}
	w.wantTold("")

	// A page that is renamed and edited is another one, and the old one does not count while its deletion is held.
	w.remove("p/002.html")
	if r := w.look(); r.New != 1 || r.HeldNow != 1 {
		t.Errorf("%+v", r)
	}
	w.wantTold("create new.html")
	w.pub.Pages.Max = 2
	w.pass(time.Minute)
	fails(3)
	w.wantTold("delete p/002.html")
	w.remove("p/000.html")
	w.look()
	if s := w.pub.Status(); s.Error != "" || s.Held != 1 {
		t.Errorf("%+v", s)
	}
}

// A process that runs once publishes what it may although there are too many pages, and nothing of a site that is new.
func TestTooManyPagesFreezeNothingElse(t *testing.T) {
	w := newWorld(t)
	turn := func(items int) {
		t.Helper()
		if _, err := w.pub.Turn(w.Context()); err == nil || !strings.Contains(err.Error(), "max-pages") {
			t.Errorf("error %v", err)
		}
		if items == 0 {
			if _, err := os.Stat(w.out()); err == nil {
				t.Error("a first scan of too many pages is published")
			}
			return
		}
		head, got, _ := w.manifest()
		if len(got) != items || head.Cursor != w.journal.Head() {
			t.Errorf("the manifest has %d pages at %v, want %d at %v", len(got), head.Cursor, items, w.journal.Head())
		}
	}
	w.fill(4)
	w.pub.Pages.Max = 3
	turn(0)
	w.pub.Pages.Max = 4
	w.turn()
	w.write("new.html", "new")
	w.write("p/000.html", "edited")
	turn(4)
	w.wantTold("update p/000.html")
	w.remove("p/001.html")
	w.write("newer.html", "newer")
	turn(4)
	if s := w.pub.Status(); s.Held != 1 || s.Error == "" {
		t.Errorf("%+v", s)
	}
	w.pass(2 * time.Minute)
	turn(3)
	w.wantTold("delete p/001.html")
	w.remove("newer.html")
	w.turn()
	w.wantTold("create new.html")
}

// Under cron the only grace period is the time until the next run.
func TestOnceGraceIsTheNextRun(t *testing.T) {
	w := newWorld(t)
	run := func() inventory.Report {
		t.Helper()
		w.restart()
		w.pub.Pace.Once = true
		w.pass(time.Second)
		return must.Get(w.pub.Turn(w.Context()))
	}
	w.fill(4)
	run()
	w.told()
	w.remove("p/000.html")
	run()
	if _, err := w.pub.Turn(w.Context()); err != nil { // the same process again
		t.Fatal(err)
	}
	w.wantTold("")
	run()
	w.wantTold("delete p/000.html")
	w.remove("p/001.html")
	run()
	w.write("p/001.html", "page 1")
	if r := run(); r.Returned != 1 {
		t.Errorf("%+v", r)
	}
	w.remove("p/001.html")
	run()
	w.write("q/1.html", "page 1")
	run()
	w.wantTold("move p/001.html->q/1.html")
	clear(w.pages)
	run()
	if r := run(); !r.MassHeld || r.Gone != 0 {
		t.Errorf("%+v", r)
	}
	w.wantTold("")
	w.restart()
	w.pub.Pace.Once = true
	must.Get(w.pub.AcceptDeletions(w.Context()))
	w.wantPresent()
}

func TestReportString(t *testing.T) {
	r := inventory.Report{New: 2, Changed: 1, Touched: 4421}
	if got, want := r.String(), "new 2 changed 1 moved 0 gone 0 touched only 4,421"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r = inventory.Report{New: 1234567, HeldNow: 3, Withdrawn: 1}
	if got, want := r.String(), "new 1,234,567 changed 0 moved 0 gone 0 withdrawn 1 held 3 touched only 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
