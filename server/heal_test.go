package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// A ward is a docroot whose files are healed, with a clock of its own that lies far in the past: a file
// written in it gets the ward's current time.
type ward struct {
	*docroot
	now     time.Time
	journal *server.Journal
	pub     *server.Publisher
	reads   atomic.Int64
	said    bytes.Buffer
}

// counting is a Site that counts its reads.
type counting struct {
	*server.Site
	w *ward
}

func (c counting) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	c.w.reads.Add(1)
	return c.Site.Read(ctx, o)
}

func newWard(t *testing.T, files ...string) *ward {
	w := &ward{docroot: newDocroot(t), now: time.Now().Add(-60 * 24 * time.Hour).Truncate(time.Second)}
	for _, f := range files {
		w.put(f, "content of "+f)
	}
	w.open()
	t.Cleanup(func() { w.journal.Close() })
	w.pass(time.Hour)
	return w
}

func (w *ward) open() {
	w.Helper()
	clock := func() time.Time { return w.now }
	j := must.Get(server.OpenJournal(w.Context(), filepath.Join(filepath.Dir(w.dir), "state"), server.JournalOptions{Base: base, Now: clock}))
	w.journal = j
	w.pub = &server.Publisher{Inventory: counting{w.site, w}, Journal: j, Pages: server.Pages{Healer: w.site}, Now: clock, Log: slog.New(slog.NewTextHandler(&w.said, nil))}
}

func (w *ward) pass(d time.Duration) { w.now = w.now.Add(d) }

// put writes a page now; putAt, as if at another time, as rsync -t does.
func (w *ward) put(place, content string) { w.putAt(place, content, w.now) }

func (w *ward) putAt(place, content string, at time.Time) {
	w.Helper()
	w.write(place, content)
	w.must(os.Chtimes(w.path(place), at, at))
}

// second returns the mtime of a file in whole seconds, as a web server reports it.
func (w *ward) second(place string) int64 {
	w.Helper()
	fi := must.Get(os.Stat(w.path(place)))
	return fi.ModTime().Unix()
}

// look scans everything once the stamps of all files are old enough to be trusted.
func (w *ward) look() inventory.Report {
	w.Helper()
	for young := true; young; {
		young = false
		for o, err := range w.site.Scan(w.Context(), nil) {
			w.must(err)
			young = young || o.LeftOut == "" && len(o.Stamp) == 0
		}
		time.Sleep(time.Millisecond)
	}
	return must.Get(w.pub.Scan(w.Context(), nil))
}

// wantSecond checks that the mtime of a file is in the second of t.
func (w *ward) wantSecond(what, place string, t time.Time) {
	w.Helper()
	if got := w.second(place); got != t.Unix() {
		w.Errorf("%s: %s changed at %d, want %d (%+d)", what, place, got, t.Unix(), got-t.Unix())
	}
}

// wantQuiet checks that the next scan reads nothing and finds nothing.
func (w *ward) wantQuiet() {
	w.Helper()
	reads, head := w.reads.Load(), w.journal.Head()
	if rep := w.look(); w.reads.Load() != reads || rep.Touched+rep.Healed+rep.ChangeCount() != 0 || w.journal.Head() != head {
		w.Errorf("%d pages read again: %v", w.reads.Load()-reads, rep)
	}
}

func TestHealRebuild(t *testing.T) {
	t.Parallel()
	w := newWard(t, "a.html", "b.html", "d/c.html")
	w.look()
	was := map[string]int64{}
	for _, p := range []string{"a.html", "b.html", "d/c.html"} {
		was[p] = w.second(p)
	}
	for night := range 3 {
		w.pass(24 * time.Hour)
		for p := range was {
			w.must(os.Remove(w.path(p)))
			w.put(p, "content of "+p)
		}
		w.pass(time.Minute)
		rep := w.look()
		if rep.Healed != 3 || rep.Touched != 3 || rep.ChangeCount() != 0 {
			t.Errorf("night %d: %v", night, rep)
		}
		if !strings.HasSuffix(rep.String(), " touched only 3 healed 3") {
			t.Error(rep.String())
		}
		for p, s := range was {
			if w.second(p) != s {
				t.Errorf("night %d: %s changed at %d, not %d", night, p, w.second(p), s)
			}
		}
		w.wantQuiet()
	}
	if h := w.journal.Head(); h.Seq != 0 {
		t.Errorf("%v: changes were reported", h)
	}
}

// With healing off no file is touched, but changes seen meanwhile count once it is switched on.
func TestHealOff(t *testing.T) {
	t.Parallel()
	w := newWard(t, "a.html", "b.html")
	w.pub.Pages.Healer = nil
	w.look()
	first := w.now
	w.put("a.html", "one")
	w.look()
	w.put("a.html", "two") // in the same second
	w.put("b.html", "content of b.html")
	if rep := w.look(); rep.Healed != 0 || rep.Changed != 1 || rep.Touched != 1 {
		t.Errorf("%v", rep)
	}
	w.wantSecond("not healed", "a.html", first)
	w.wantQuiet()
	w.pub.Pages.Healer = w.site
	w.pass(time.Minute)
	if rep := w.look(); rep.Healed != 1 {
		t.Errorf("%v", rep)
	}
	w.wantSecond("healed later", "a.html", first.Add(time.Second))
	w.wantSecond("nobody is misled by it, and its visitors have it", "b.html", first)
	w.wantQuiet()
}

func TestHealStories(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(w *ward){
		"the same second": func(w *ward) {
			w.put("a.html", "one")
			at := w.now
			w.look()
			w.put("a.html", "two")
			w.look() // it would be in the future
			w.wantSecond("too early", "a.html", at)
			w.pass(1100 * time.Millisecond)
			if rep := w.look(); rep.Healed != 1 || rep.ChangeCount() != 0 {
				w.Errorf("%v", rep)
			}
			w.wantSecond("healed", "a.html", at.Add(time.Second))
			w.wantQuiet()
		},
		"an older mtime than the previous bytes": func(w *ward) {
			w.put("a.html", "one")
			w.look()
			w.pass(time.Hour)
			w.putAt("a.html", "two", w.now.Add(-1000*time.Hour))
			seen := w.now
			w.look()
			w.pass(time.Second)
			w.look()
			w.wantSecond("healed", "a.html", seen)
			w.wantQuiet()
		},
		"all versions with one mtime": func(w *ward) {
			long := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
			w.putAt("z.html", "one", long)
			one := w.now
			w.look()
			w.pass(time.Hour)
			w.look()
			w.wantSecond("not believed", "z.html", one)
			w.putAt("z.html", "two", long)
			two := w.now
			w.look()
			w.pass(time.Hour)
			w.look()
			w.wantSecond("healed", "z.html", two)
			w.putAt("z.html", "two", long)
			w.look()
			w.wantSecond("healed again", "z.html", two)
			w.wantQuiet()
		},
		"an mtime in the future": func(w *ward) {
			w.putAt("a.html", "one", w.now.Add(time.Hour))
			one := w.now
			w.look()
			w.pass(10 * time.Minute)
			w.look()
			w.wantSecond("healed", "a.html", one)
			w.putAt("a.html", "one", w.now.Add(1000*time.Hour))
			w.look()
			w.wantSecond("healed again", "a.html", one)
			w.wantQuiet()
			w.pass(time.Minute)
			w.put("a.html", "two")
			two := w.now
			w.pass(time.Minute)
			w.look()
			w.wantSecond("a later change is not delayed", "a.html", two)
		},
		"a clock slightly ahead": func(w *ward) {
			w.putAt("a.html", "one", w.now.Add(3*time.Second))
			w.look()
			w.putAt("a.html", "two", w.now.Add(3*time.Second))
			ahead := w.now.Add(3 * time.Second)
			w.look()
			for range 6 {
				w.pass(time.Second)
				w.look()
			}
			w.wantSecond("healed in time", "a.html", ahead.Add(time.Second))
			w.wantQuiet()
		},
		"changed and changed back": func(w *ward) {
			w.put("a.html", "one")
			w.look()
			w.pass(time.Hour)
			w.put("a.html", "two")
			two := w.now
			w.pass(time.Hour)
			w.look()
			w.putAt("a.html", "one", two.Add(-time.Hour)) // the old file is put back
			back := w.now
			w.look()
			w.pass(time.Hour)
			w.look()
			w.wantSecond("the bytes are back, and not their time", "a.html", back)
			w.wantQuiet()
		},
		"deleted and recreated": func(w *ward) {
			w.put("a.html", "one")
			made := w.now
			w.look()
			w.pass(time.Hour)
			w.must(os.Remove(w.path("a.html")))
			w.look()
			w.pass(2 * time.Minute)
			w.look()
			gone := w.now
			w.pass(time.Hour)
			w.putAt("a.html", "two", made)
			w.look()
			w.wantSecond("healed", "a.html", gone.Add(time.Second))
			w.wantQuiet()
		},
		"vanished for a moment": func(w *ward) {
			was := w.second("a.html")
			w.must(os.Remove(w.path("a.html")))
			w.look()
			w.pass(20 * time.Second)
			w.put("a.html", "content of a.html")
			w.pass(2 * time.Second)
			if rep := w.look(); rep.Returned != 1 || rep.Healed != 1 {
				w.Errorf("%v", rep)
			}
			w.wantSecond("healed", "a.html", time.Unix(was, 0))
			w.wantQuiet()
		},
		"moved by a rebuild": func(w *ward) {
			was := w.second("a.html")
			w.must(os.Remove(w.path("a.html")))
			w.put("moved.html", "content of a.html")
			w.pass(2 * time.Second)
			if rep := w.look(); rep.Moved != 1 || rep.Healed != 1 {
				w.Errorf("%v", rep)
			}
			w.wantSecond("the bytes are as old as they were", "moved.html", time.Unix(was, 0))
			w.wantQuiet()
		},
		"killed before healing": func(w *ward) {
			was := w.second("a.html")
			w.put("a.html", "content of a.html")
			w.look() // within the second of the write
			w.must(w.journal.Close())
			w.open()
			w.pass(2 * time.Second)
			w.look()
			w.wantSecond("healed by the next", "a.html", time.Unix(was, 0))
			w.wantQuiet()
		},
		"a file with two hard links": func(w *ward) {
			w.pass(time.Hour)
			w.put("x.html", "x")
			w.pass(time.Hour)
			w.must(os.Link(w.path("x.html"), w.path("y.html")))
			w.look()
			w.put("x.html", "x")
			touched := w.now
			w.pass(2 * time.Second)
			if rep := w.look(); rep.Healed != 0 {
				w.Errorf("%v", rep)
			}
			w.wantSecond("left alone", "x.html", touched)
			if !strings.Contains(w.said.String(), "files=2") || !strings.Contains(w.said.String(), "other hard links") {
				w.Errorf("log says %s", &w.said)
			}
			w.wantQuiet()
		},
		"a page reached by a symbolic link": func(w *ward) {
			w.must(os.Symlink("a.html", w.path("link.html")))
			w.must(os.Symlink("d", w.path("dir")))
			w.look()
			was := w.second("a.html")
			w.pass(time.Hour)
			w.put("a.html", "content of a.html")
			w.put("d/e.html", "content of d/e.html")
			w.pass(2 * time.Second)
			if rep := w.look(); rep.Healed != 2 {
				w.Errorf("%v", rep)
			}
			w.wantSecond("healed under its own name", "link.html", time.Unix(was, 0))
			w.look() // the scan sees the links
			w.wantQuiet()
		},
		"a symbolic link out of the site": func(w *ward) {
			w.must(os.Symlink("a.html", w.path("latest.html")))
			w.look()
			w.pass(time.Hour)
			w.must(os.Remove(w.path("latest.html")))
			w.must(os.Symlink("b.html", w.path("latest.html")))
			w.look()
			was := w.second("b.html")
			w.pass(time.Hour)
			w.put("b.html", "content of b.html")
			w.pass(2 * time.Second)
			w.look()
			w.wantSecond("one file, two dates: its own", "b.html", time.Unix(was, 0))
			w.look()
			w.wantSecond("it stays", "b.html", time.Unix(was, 0))
			w.look() // one retry, and no more
			w.wantQuiet()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t, "a.html", "b.html", "d/e.html")
			w.look()
			w.pass(time.Hour)
			story(w)
		})
	}
}
