package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// say announces the list and returns the nonzero counts of the result in words.
func (w *world) say(list ...protocol.Announcement) string {
	w.Helper()
	for i := range list {
		if !strings.Contains(list[i].URL, "/") {
			list[i].URL = base + list[i].URL
		}
	}
	done := must.Get(w.pub.Announce(w.Context(), list))
	if done.Cursor != w.journal.Head() {
		w.Errorf("the cursor is %v, the head %v", done.Cursor, w.journal.Head())
	}
	var s []string
	for _, x := range []struct {
		word string
		n    int
	}{{"created", done.Created}, {"updated", done.Updated}, {"deleted", done.Deleted}, {"unchanged", done.Unchanged}} {
		if x.n > 0 {
			s = append(s, fmt.Sprint(x.word, " ", x.n))
		}
	}
	for _, r := range done.Refused {
		s = append(s, fmt.Sprintf("refused %s: %s", r.URL, r.Reason))
	}
	return strings.Join(s, ", ")
}

func (w *world) wantSaid(want string, list ...protocol.Announcement) {
	w.Helper()
	if got := w.say(list...); got != want {
		w.Errorf("answered\n\t%s\nwant\n\t%s", got, want)
	}
}

func TestAnnounce(t *testing.T) {
	one, two := protocol.Sum([]byte("1")), protocol.Sum([]byte("2"))
	type A = protocol.Announcement
	for name, story := range map[string]func(w *world){
		"a page is created, changed and deleted": func(w *world) {
			at := w.now.Add(-time.Hour)
			w.wantSaid("created 1", A{URL: "x", Modified: at, Title: "X", Type: "Text/HTML; charset=utf-8", Language: "pt-BR"})
			w.wantTold("create x")
			want := protocol.Item{URL: base + "x", Modified: at, Title: "X", Type: "text/html", Language: "pt-BR", Length: -1}
			if it := w.entry("x"); !it.Equal(want) {
				w.Errorf("%+v", it)
			}
			w.wantSaid("updated 1", A{URL: "x", Modified: at.Add(time.Minute)})
			want.Modified = at.Add(time.Minute) // it stays after what was announced since
			if it := w.entry("x"); !it.Equal(want) {
				w.Errorf("%+v", it)
			}
			w.wantSaid("deleted 1", A{URL: "x", Gone: true, Modified: w.now})
			w.wantTold("update x, delete x")
		},
		"beyond the maximum of pages": func(w *world) {
			w.pub.Pages.Max = w.journal.Len() + 1
			full := fmt.Sprintf("the site already has %d pages, its maximum (max-pages)", w.pub.Pages.Max)
			w.wantSaid("created 1, refused "+base+"y: "+full, A{URL: "x", Digest: one}, A{URL: "y", Digest: one})
			w.wantSaid("created 1, updated 1, deleted 1", A{URL: "x", Digest: two}, A{URL: "x", Gone: true}, A{URL: "y", Digest: two})
			w.told()
			w.look()
			if s := w.pub.Status(); s.Error != "" {
				w.Error(s.Error)
			}
		},
		"repeated announcements": func(w *world) {
			list := []A{{URL: "x", Modified: w.now}, {URL: "y", Digest: one}, {URL: "z", Modified: w.now.Add(time.Hour)}}
			w.wantSaid("created 3", list...)
			w.pass(time.Minute)
			w.wantSaid("unchanged 3", list...)
			w.restart()
			w.look()
			w.wantSaid("unchanged 3", list...)
			w.wantTold("create x, create y, create z")
		},
		"announcements out of order": func(w *world) {
			at := w.now
			w.pass(time.Hour)
			w.wantSaid("created 1", A{URL: "x", Modified: at.Add(2 * time.Second)})
			w.wantSaid("unchanged 1", A{URL: "x", Modified: at})
			w.wantSaid("unchanged 1", A{URL: "x", Gone: true, Modified: at.Add(time.Second)})
			w.wantSaid("deleted 1", A{URL: "x", Gone: true, Modified: at.Add(3 * time.Second)})
			w.wantSaid("unchanged 1", A{URL: "x", Modified: at.Add(2 * time.Second)})
			w.wantSaid("unchanged 1", A{URL: "x", Gone: true, Modified: at.Add(3 * time.Second)})
			w.wantSaid("created 1", A{URL: "x", Modified: at.Add(4 * time.Second)})
			w.wantSaid("unchanged 1", A{URL: "y", Gone: true, Modified: at.Add(3 * time.Second)})
			w.wantSaid("unchanged 1", A{URL: "y", Modified: at})
			w.wantTold("create x, delete x, create x")
		},
		"announced by a clock that is ahead": func(w *world) {
			ahead := w.now.Add(time.Hour)
			first := A{URL: "x", Modified: ahead}
			w.wantSaid("created 1", first)
			w.pass(5 * time.Minute)
			w.wantSaid("updated 1", A{URL: "x", Modified: ahead.Add(5 * time.Minute)})
			if it := w.entry("x"); !it.Modified.Equal(w.now) {
				w.Errorf("%+v", it)
			}
			w.pass(time.Minute)
			w.wantSaid("unchanged 1", first)
			w.wantSaid("unchanged 1", A{URL: "x", Gone: true, Modified: ahead.Add(time.Minute)})
			w.wantSaid("deleted 1", A{URL: "x", Gone: true, Modified: ahead.Add(6 * time.Minute)})
		},
		"the state is lost": func(w *world) {
			list := []A{{URL: "x", Modified: w.now}, {URL: "y", Digest: one}}
			w.say(append(list, A{URL: "z", Modified: w.now}, A{URL: "v", Digest: two})...)
			w.turn()
			w.must(w.journal.Close())
			w.must(os.Remove(w.state()))
			w.open() // w.open() continues from the manifest
			w.pub.Pages.Announces = true
			// Neither the announced pages nor a docroot page that vanished meanwhile are deleted by time.
			w.remove("b.html")
			for range 3 {
				if rep := w.turn(); rep.HeldNow != 5 || rep.Gone != 0 || rep.MassHeld {
					w.Errorf("%+v", rep)
				}
				w.pass(24 * time.Hour)
			}
			w.restart()
			w.pub.Pages.Announces = true
			w.look("")
			w.wantTold("")
			// A page that a scan has found since is deleted as usual.
			w.write("c.html", "c")
			w.look()
			w.remove("a.html")
			w.look()
			w.pass(time.Minute)
			w.look()
			w.wantTold("create c.html, delete a.html")
			// The others are announced again, or as gone, or a person confirms that they are gone.
			w.wantSaid("unchanged 2", list...)
			w.wantSaid("deleted 1", A{URL: "z", Gone: true, Modified: w.now})
			if rep := w.look(); rep.HeldNow != 2 {
				w.Errorf("%v", rep)
			}
			w.wantTold("delete z")
			must.Get(w.pub.AcceptDeletions(w.Context()))
			w.wantTold("delete b.html, delete v")
			w.pass(time.Hour)
			if rep := w.look(); rep.HeldNow != 0 || rep.ChangeCount() != 0 || w.journal.Len() != 3 {
				w.Errorf("%v", rep)
			}
		},
		"the state is restored from a backup": func(w *world) {
			list := []A{{URL: "x", Modified: w.now}, {URL: "y", Digest: one}, {URL: "u", Modified: w.now}}
			w.say(list...)
			w.turn()
			w.must(w.journal.Close())
			old := must.Get(os.ReadFile(w.state()))
			w.open()
			w.look()
			w.pass(time.Minute)
			w.say(A{URL: "u", Modified: w.now}, A{URL: "v", Modified: w.now})
			w.turn()
			epoch := w.journal.Head().Epoch
			w.must(w.journal.Close())
			w.must(os.WriteFile(w.state(), old, 0o600))
			w.open() // with the manifest, which is newer
			w.pub.Pages.Announces = true
			w.remove("b.html")
			rep := w.turn()
			if w.journal.Head().Epoch == epoch || rep.HeldNow != 3 {
				w.Errorf("%v, %v", w.journal.Head(), rep)
			}
			w.pass(time.Hour)
			w.turn()
			w.wantTold("delete b.html") // b.html was a docroot page; x and y are announced
			w.wantSaid("unchanged 4", A{URL: "x", Modified: list[0].Modified}, list[1], list[2], A{URL: "v", Modified: w.now.Add(-time.Hour)})
			if rep := w.look(); rep.HeldNow != 1 {
				w.Errorf("%+v", rep)
			}
		},
		"the state is lost, and Announces is not set": func(w *world) {
			w.say(A{URL: "x", Modified: w.now})
			w.turn()
			w.must(w.journal.Close())
			w.must(os.Remove(w.state()))
			w.open()
			w.remove("b.html")
			w.turn()
			w.pass(time.Minute)
			if rep := w.turn(); rep.HeldNow != 1 {
				w.Errorf("%v", rep)
			}
			w.wantTold("delete b.html") // a file, since it has a digest
			w.wantSaid("unchanged 1", A{URL: "x", Modified: w.now.Add(-time.Minute)})
			w.look()
			w.wantTold("")
		},
		"announced by a clock of whole seconds": func(w *world) {
			at := w.now.Truncate(time.Second)
			w.wantSaid("created 1", A{URL: "x", Modified: at, Title: "one"})
			w.wantSaid("unchanged 1", A{URL: "x", Modified: at, Title: "two"}) // it may be a repeat of the first announcement
			w.wantSaid("updated 1", A{URL: "x", Modified: at.Add(time.Millisecond), Title: "two"})
			w.wantSaid("updated 1", A{URL: "x", Modified: at.Add(time.Millisecond), Digest: one})
			w.wantSaid("created 1", A{URL: "y", Modified: at})
			w.wantSaid("deleted 1", A{URL: "y", Modified: at, Gone: true})
			w.wantSaid("unchanged 1", A{URL: "y", Modified: at})
			w.wantSaid("created 1", A{URL: "y", Modified: at.Add(time.Millisecond)})
		},
		"old announcements do not restore deleted pages": func(w *world) {
			january, february := w.now.Add(-60*24*time.Hour), w.now.Add(-30*24*time.Hour)
			w.wantSaid("created 2", A{URL: "x", Modified: january}, A{URL: "y", Modified: january})
			w.wantSaid("deleted 1, unchanged 1", A{URL: "x", Gone: true, Modified: february}, A{URL: "z", Gone: true, Modified: february})
			w.wantSaid("deleted 1, unchanged 1", A{URL: "y", Gone: true}, A{URL: "v", Gone: true})
			w.wantTold("create x, create y, delete x, delete y")
			went := w.now
			for range 2 {
				w.pass(time.Hour)
				for _, url := range []string{"x", "y", "z", "v"} {
					w.wantSaid("unchanged 1", A{URL: url, Modified: january, Digest: one})
					w.wantSaid("unchanged 1", A{URL: url, Modified: february})
				}
				w.wantSaid("unchanged 1", A{URL: "y", Modified: went})
				w.wantSaid("unchanged 1", A{URL: "x", Gone: true, Modified: january})
				w.wantTold("")
				w.restart()
				w.look()
			}
			w.wantSaid("created 4", A{URL: "x", Modified: february.Add(time.Millisecond)}, A{URL: "y", Modified: went.Add(time.Millisecond)},
				A{URL: "z", Digest: one}, A{URL: "v", Modified: w.now})
			// The time of the latest deletion counts, not of the first.
			w.wantSaid("deleted 1", A{URL: "v", Gone: true, Modified: w.now.Add(time.Second)})
			w.restart()
			w.look()
			w.wantSaid("unchanged 1", A{URL: "v", Modified: w.now})
		},
		"undated deletion, announced by a clock that is ahead": func(w *world) {
			first := A{URL: "x", Modified: w.now.Add(time.Hour)}
			w.wantSaid("created 1", first)
			w.wantSaid("deleted 1", A{URL: "x", Gone: true})
			w.wantSaid("unchanged 1", first)
		},
		"undated deletion and return in one call": func(w *world) {
			at := w.now.Add(-time.Hour) // the announcement came late
			w.wantSaid("created 1, deleted 1, unchanged 1", A{URL: "x", Gone: true, Modified: at.Add(-time.Hour)}, A{URL: "x", Modified: at}, A{URL: "x", Gone: true})
			w.wantSaid("created 1, unchanged 1", A{URL: "x", Gone: true}, A{URL: "x", Digest: one})
			w.wantSaid("created 1, deleted 1", A{URL: "x", Gone: true}, A{URL: "x", Modified: at})
			w.forbidden["x"] = true
			w.look()
			w.restart()
			delete(w.forbidden, "x")
			w.look()
			w.wantSaid("created 1", A{URL: "x", Modified: at})
			w.wantTold("create x, delete x, create x, delete x, create x, delete x, create x")
		},
		"all in one call": func(w *world) {
			at := w.now.Add(-time.Hour)
			w.wantSaid("created 2, updated 1, deleted 1, unchanged 2",
				A{URL: "x", Modified: at}, A{URL: "x", Modified: at}, A{URL: "x", Modified: at.Add(time.Second)},
				A{URL: "x", Modified: at}, A{URL: "x", Gone: true}, A{URL: "x", Modified: at.Add(time.Minute)})
			w.wantTold("create x, update x, delete x, create x")
		},
		"a new digest is a change, a new date alone is not": func(w *world) {
			at := w.now.Add(-time.Hour)
			w.wantSaid("created 1", A{URL: "x", Digest: one, Modified: at})
			w.wantSaid("unchanged 1", A{URL: "x", Digest: one, Modified: at.Add(time.Minute)})
			if it := w.entry("x"); !it.Modified.Equal(at) {
				w.Errorf("%+v", it)
			}
			w.wantSaid("updated 1", A{URL: "x", Digest: two})
			if it := w.entry("x"); !it.Modified.Equal(w.now) {
				w.Errorf("%+v", it)
			}
			w.wantSaid("unchanged 1", A{URL: "x", Digest: one, Modified: at})
			w.pass(time.Minute)
			now := w.now
			w.wantSaid("updated 1", A{URL: "x", Digest: one, Modified: now})
			w.wantSaid("updated 1", A{URL: "x", Digest: two, Modified: now}) // twice at the same moment
			if it := w.entry("x"); !it.Modified.After(now) || it.Digest != two {
				w.Errorf("%+v", it)
			}
		},
		"text digests give the significance": func(w *world) {
			text := protocol.Sum([]byte("text"))
			w.say(A{URL: "x", Digest: one, Text: text})
			w.say(A{URL: "x", Digest: two, Text: text})
			if share, known := w.last().Significance.Share(); share != 0 || !known {
				w.Errorf("%v %v", share, known)
			}
			w.say(A{URL: "x", Digest: one, Text: two})
			if _, known := w.last().Significance.Share(); known {
				w.Error("the significance is known without the old text")
			}
		},
		"refused announcements": func(w *world) {
			at, negative := w.now, int64(-1)
			for want, a := range map[string]A{
				"refused " + base + "x: neither modified nor digest is given: changes of the page could not be detected":                               {URL: "x"},
				"refused " + base + "x: modified is before 1993, or more than a day in the future":                                                     {URL: "x", Modified: time.Unix(0, 0)},
				"refused http://other.example/x: the URL is not below " + base:                                                                         {URL: "http://other.example/x", Modified: at},
				"refused " + base + "secret: the site's rules do not allow the page: its name is not included, or is hidden, or robots.txt forbids it": {URL: "secret", Modified: at},
				"refused ftp://site.example/: url \"ftp://site.example/\": unsupported scheme \"ftp\"":                                                 {URL: "ftp://site.example/", Modified: at},
				"refused " + base + "x: length is negative":                                                                                            {URL: "x", Modified: at, Length: &negative},
			} {
				w.wantSaid(want, a)
			}
			w.wantTold("")
			w.wantSaid("created 2, refused "+base+"x: neither modified nor digest is given: changes of the page could not be detected",
				A{URL: "u", Modified: at}, A{URL: "x"}, A{URL: "HTTP://Site.Example:80/d/../v#f", Modified: at})
			w.wantTold("create u, create v")
			if _, err := w.pub.Announce(w.Context(), make([]A, protocol.MaxBatch+1)); err == nil {
				w.Error("no error")
			}
		},
		"scans keep announced pages": func(w *world) {
			w.say(A{URL: "x", Modified: w.now}, A{URL: "y", Modified: w.now})
			w.told()
			for range 3 {
				w.pass(time.Hour)
				if rep := w.look(); rep.HeldNow != 0 || rep.Unchanged != 4 {
					w.Errorf("%v", rep)
				}
			}
			if _, err := w.pub.AcceptDeletions(w.Context()); err != nil {
				w.Error(err)
			}
			w.wantTold("")
			w.forbidden["x"] = true
			w.look()
			w.wantTold("delete x")
		},
		"the page is also in the docroot": func(w *world) {
			w.say(A{URL: "x.html", Modified: w.now, Title: "said"})
			w.told()
			w.write("x.html", "1")
			w.look()
			w.wantTold("update x.html") // its digest changed
			if it := w.entry("x.html"); it.Digest != one {
				w.Errorf("%+v", it)
			}
			w.wantSaid("refused "+base+"x.html: the site's inventory still offers the page: remove it there to delete it", A{URL: "x.html", Gone: true})
			w.remove("x.html")
			if rep := w.look(); rep.HeldNow != 1 {
				w.Errorf("%v", rep)
			}
			w.pass(time.Minute)
			w.look()
			w.wantTold("delete x.html")
		},
		"a changed file is announced before its scan": func(w *world) {
			w.write("a.html", "2")
			w.wantSaid("updated 1", A{URL: "a.html", Digest: two, Modified: w.now, Title: "said"})
			w.look()
			w.wantTold("update a.html")
			if it := w.entry("a.html"); it.Title != "" {
				w.Errorf("%+v", it) // the page's own metadata wins
			}
			w.remove("a.html")
			w.look()
			w.pass(time.Minute)
			w.look()
			w.wantTold("delete a.html")
		},
		"a vanished page is announced as present": func(w *world) {
			was := w.entry("a.html")
			w.remove("a.html")
			w.look()
			w.wantSaid("unchanged 1", A{URL: "a.html", Digest: was.Digest})
			w.pass(time.Hour)
			if rep := w.look(); rep.HeldNow != 0 {
				w.Errorf("%v", rep)
			}
			w.wantTold("")
			w.wantSaid("deleted 1", A{URL: "a.html", Gone: true})
		},
		"announced pages become files": func(w *world) {
			var list []A
			for i := range 60 {
				w.write(fmt.Sprintf("f%d.html", i), fmt.Sprint(i))
			}
			for i := range 100 {
				list = append(list, A{URL: fmt.Sprintf("n%d.html", i), Modified: w.now})
			}
			w.look()
			w.wantSaid("created 100", list...)
			for i := range 100 {
				w.write(fmt.Sprintf("n%d.html", i), fmt.Sprint("n", i))
			}
			w.look("")
			w.told()
			for i := range 35 {
				w.remove(fmt.Sprintf("n%d.html", i))
			}
			if rep := w.look(""); rep.HeldNow != 35 || rep.MassHeld {
				w.Errorf("%+v", rep)
			}
			w.pass(time.Minute)
			if rep := w.look(""); rep.Gone != 35 {
				w.Errorf("%+v", rep)
			}
		},
		"announced pages do not hide a mass disappearance": func(w *world) {
			var list []A
			for i := range 500 {
				list = append(list, A{URL: fmt.Sprintf("n%d", i), Modified: w.now})
			}
			w.wantSaid("created 500", list...)
			w.told()
			w.remove("a.html")
			w.remove("b.html")
			if rep := w.look(); !rep.MassHeld {
				w.Errorf("%+v", rep)
			}
			w.pass(time.Hour)
			w.look("")
			w.look()
			w.wantTold("")
			w.write("a.html", "a")
			w.look()
			w.wantTold("delete b.html")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("a.html", "a")
			w.write("b.html", "b")
			w.forbidden["secret"] = true
			w.look()
			w.pass(time.Hour)
			story(w)
		})
	}
}

// Before the first scan the site's rules are unknown.
func TestAnnounceNotReady(t *testing.T) {
	w := newWorld(t)
	list := []protocol.Announcement{{URL: base + "x", Modified: w.now}}
	if _, err := w.pub.Announce(t.Context(), list); !errors.Is(err, content.ErrNotReady) {
		t.Errorf("%v", err)
	}
	w.fail = errors.New("no root")
	w.pub.Scan(t.Context(), nil)
	if _, err := w.pub.Announce(t.Context(), list); !errors.Is(err, content.ErrNotReady) {
		t.Errorf("%v", err)
	}
	w.fail = nil
	w.look() // an empty site, but scanned completely
	w.wantSaid("created 1", list...)
	w.wantTold("create x")
}

// Subscribers get it at once, and the manifest is written.
func TestRunAnnounce(t *testing.T) {
	running(t, func(w *world) {
		time.Sleep(time.Minute)
		before := w.journal.Head()
		heard := make(chan error, 1)
		go func() { heard <- w.journal.Wait(w.Context(), before) }()
		w.wantSaid("created 1", protocol.Announcement{URL: "x", Modified: time.Now()})
		w.must(<-heard)
		synctest.Wait()
		if s := w.pub.Status(); s.Manifest != w.journal.Head() || s.Changes != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		w.wantTold("create x")

		// Announce waits for a running scan, but not for ever.
		w.mu.Lock()
		hold := make(chan struct{})
		w.looked = func() { <-hold }
		w.mu.Unlock()
		w.write("a.html", "2")
		synctest.Wait()
		ctx, stop := context.WithTimeout(w.Context(), time.Second)
		defer stop()
		if _, err := w.pub.Announce(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		w.mu.Lock()
		w.looked = nil
		w.mu.Unlock()
		close(hold)
		w.wantSaid("created 1", protocol.Announcement{URL: "y", Modified: time.Now()})
	})
}
