package ping_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/ping"
)

const engineURL = "https://engine.example/indexnow"

// sender returns a sender of the world, whose key is served.
func (w *world) sender() *ping.IndexNow {
	s := &ping.IndexNow{Journal: w.journal, Base: base, Engines: []string{engineURL}, Public: w.public, HTTP: w.client(), Log: w.log}
	w.host("www.example.org", serving{s})
	return s
}

// run runs s until the function that it returns is called.
func run(t testing.TB, s interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var owned sync.WaitGroup
	owned.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func() { cancel(); owned.Wait() }
}

// story runs a story beside a running sender, in virtual time.
func story(t *testing.T, f func(w *world, e *searchEngine, s *ping.IndexNow), change ...func(*ping.IndexNow)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(create("a.html"), create("b.html"), create("c.html"))
		e := newEngine(w, "engine.example")
		s := w.sender()
		for _, c := range change {
			c(s)
		}
		stop := run(t, s)
		defer stop()
		synctest.Wait()
		f(w, e, s)
	})
}

// pass lets time go by, and everything happen that is to happen meanwhile.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func engineStatus(t testing.TB, s *ping.IndexNow) ping.EngineStatus {
	t.Helper()
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	return st.Engines[0]
}

func TestSignificantChangesAreSent(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		pass(time.Minute)
		e.wantTaken() // what was there before is not news
		w.change(update("a.html", 0.5), update("b.html", 0.001), update("c.html", 0), create("d.html"))
		pass(time.Minute)
		e.wantTaken("a.html d.html")
		w.change(update("b.html", -1), remove("c.html"), move("d.html", "sub/d.html"))
		pass(time.Minute)
		e.wantTaken("b.html c.html sub/d.html") // d.html was sent just now
		pass(10 * time.Minute)
		e.wantTaken("d.html")
		st := engineStatus(t, s)
		check(t, "accepted", st.Accepted, 6)
		check(t, "pending", st.Pending, 0)
		check(t, "behind", st.Behind, 0)
		check(t, "key", st.Key, ping.KeyAccepted)
		check(t, "last", st.Last.Status, 200)
	})
}

func TestEveryChangeIsSentIfAsked(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		w.change(update("b.html", 0.001), update("c.html", 0))
		pass(time.Minute)
		e.wantTaken("b.html c.html")
	}, func(s *ping.IndexNow) { s.MinSignificance = -1 })
}

func TestManyChangesAreOneSendingWithinTheDebounce(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		for range 60 { // one an editor makes every 30 s
			w.change(update("a.html", 1))
			pass(30 * time.Second)
		}
		check(t, "sendings in half an hour", len(e.taken()), 3)
		pass(10 * time.Minute)
		check(t, "sendings in the end", len(e.taken()), 4)
		for i, b := range e.batches() {
			if i > 0 && b.at.Sub(e.batches()[i-1].at) < 10*time.Minute {
				t.Errorf("sent %v and %v", e.batches()[i-1].at, b.at)
			}
		}
		pass(time.Hour)
		check(t, "notes of what was sent", w.notes("/url/"), 0)
	})
}

// notes counts the notes whose key has a part.
func (w *world) notes(part string) (n int) {
	w.must(w.journal.EachNote("indexnow/", func(k string, _ []byte) error {
		if strings.Contains(k, part) {
			n++
		}
		return nil
	}))
	return n
}

func TestWhatIsNotPublicIsNotSent(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		w.setPublic("a.html", false)
		w.change(update("a.html", 1), update("b.html", 1))
		pass(time.Minute)
		e.wantTaken("b.html")
		// The publisher's look withdraws it: engines know it from before, and
		// must look to see that it is forbidden.
		w.change(remove("a.html"))
		pass(20 * time.Minute)
		e.wantTaken("a.html")
		// A page that was there for a moment, before anybody was told, is told to nobody.
		w.change(create("oops.html"))
		w.setPublic("oops.html", false)
		pass(time.Minute)
		w.change(remove("oops.html"))
		pass(time.Hour)
		e.wantTaken()
		// Unless somebody may have been told after all.
		w.change(create("perhaps.html"))
		e.will("cut taken")
		pass(time.Minute)
		e.wantTaken("perhaps.html")
		w.setPublic("perhaps.html", false)
		w.change(remove("perhaps.html"))
		pass(time.Hour)
		e.wantTaken("perhaps.html")
		// And a page that came and went by itself is told.
		w.change(create("short.html"), remove("short.html"))
		pass(time.Minute)
		e.wantTaken("short.html")
		// A rule that is gone before anybody looked has withheld no more than time.
		w.setPublic("c.html", false)
		w.change(update("c.html", 1))
		pass(time.Minute)
		e.wantTaken()
		w.setPublic("c.html", true)
		pass(20 * time.Minute)
		e.wantTaken("c.html")
		// Withheld for ever it is forgotten.
		w.setPublic("b.html", false)
		w.change(update("b.html", 1))
		pass(48 * time.Hour)
		e.wantTaken()
		check(t, "pending", engineStatus(t, s).Pending, 0)
	})
}

func TestWhatHasACanonicalElsewhereIsNotSent(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		copyOf := func(name, canonical string) journal.Step {
			st := create(name)
			st.Entry.Item.Canonical = canonical
			return st
		}
		w.change(copyOf("print/a.html", base+"a.html"), copyOf("own.html", base+"own.html"))
		pass(time.Minute)
		e.wantTaken("own.html")
		// It turns out while the page is owed.
		e.will("429")
		w.change(create("late.html"))
		pass(30 * time.Second)
		late := copyOf("late.html", base+"a.html")
		late.Op = protocol.Update
		w.change(late)
		pass(time.Hour)
		e.wantTaken()
		check(t, "pending", engineStatus(t, s).Pending, 0)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		var steps []journal.Step
		for i := range 25 {
			steps = append(steps, create(fmt.Sprintf("p%02d.html", i)))
		}
		w.change(steps...)
		pass(time.Minute)
		var sizes []int
		for _, b := range e.batches() {
			sizes = append(sizes, len(b.urls))
		}
		check(t, "sizes", fmt.Sprint(sizes), "[10 10 5]")
	}, func(s *ping.IndexNow) { s.MaxBatch = 10 })
}

func TestTenThousandInABatchAndMegabytesToo(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		var steps []journal.Step
		for i := range 10_001 {
			steps = append(steps, create(fmt.Sprintf("p%05d.html", i)))
			if len(steps) == protocol.MaxBatch {
				w.change(steps...)
				steps = nil
			}
		}
		w.change(steps...)
		pass(time.Minute)
		var sizes []int
		for _, b := range e.batches() {
			sizes = append(sizes, len(b.urls))
		}
		check(t, "sizes", fmt.Sprint(sizes), "[10000 1]")
		e.wantTaken(e.taken()...)
		for i := range 700 {
			w.change(create(fmt.Sprintf("%d-%s", i, strings.Repeat("x", 8000))))
		}
		pass(time.Minute)
		n := 0
		for _, b := range e.batches() {
			n += len(b.urls)
			if size := len(strings.Join(b.urls, "")); size > 5<<20 {
				t.Errorf("batch of %d bytes", size)
			}
		}
		check(t, "long URLs", n, 700)
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	for _, c := range []struct {
		mood        string
		least, most time.Duration // from the first try to the second
		key         ping.KeyState
		trouble     string
	}{
		{"429", time.Minute, 76 * time.Second, "", "429"},
		{"429 seconds", 2 * time.Hour, 2*time.Hour + time.Second, "", "429"},
		{"429 date", 2*time.Hour - time.Second, 2*time.Hour + time.Second, "", "429"},
		{"503", time.Minute, 76 * time.Second, "", "503"},
		{"503 seconds", 2 * time.Hour, 2*time.Hour + time.Second, "", "503"},
		{"500", 10 * time.Minute, 11 * time.Minute, "", "500"}, // it may have taken the batch
		{"hang", 10*time.Minute + 30*time.Second, 11 * time.Minute, "", "deadline"},
		{"cut", 10 * time.Minute, 11 * time.Minute, "", "unexpected EOF"},
		{"redirect", time.Minute, 76 * time.Second, "", "elsewhere.example"},
		{"404", time.Minute, 76 * time.Second, "", "404"},
		{"403", 24 * time.Hour, 24*time.Hour + time.Second, ping.KeyBurned, "make a new key"},
	} {
		t.Run(c.mood, func(t *testing.T) {
			story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
				e.will(c.mood)
				w.change(update("a.html", 1))
				begin := time.Now()
				pass(time.Minute)
				st := engineStatus(t, s)
				check(t, "pending", st.Pending, 1)
				check(t, "failures", st.Failures, 1)
				check(t, "key", st.Key, c.key)
				if !strings.Contains(st.Trouble, c.trouble) || st.RetryAt.IsZero() {
					t.Errorf("trouble %q, again at %v", st.Trouble, st.RetryAt)
				}
				if b, err := json.Marshal(st); err != nil || !strings.Contains(string(b), `"trouble"`) {
					t.Errorf("%s %v", b, err)
				}
				pass(25 * time.Hour)
				got := e.batches()
				if len(got) != 2 {
					t.Fatalf("answers: %s", e.answered())
				}
				if d := got[1].at.Sub(got[0].at); d < c.least || d > c.most {
					t.Errorf("tried again after %v, want %v to %v", d, c.least, c.most)
				}
				if d := got[0].at.Sub(begin); d > 5*time.Second {
					t.Errorf("first tried after %v", d)
				}
				e.wantTaken("a.html")
				st = engineStatus(t, s)
				check(t, "trouble", st.Trouble, "")
				check(t, "pending", st.Pending, 0)
				check(t, "results", len(st.Results), 2)
				check(t, "accepted", st.Accepted, 1)
			})
		})
	}
}

func TestConnectionRefusedIsNoReasonToWaitForTheDebounce(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.will("refuse to connect", "refuse to connect")
		w.change(update("a.html", 1))
		pass(5 * time.Minute)
		e.wantTaken("a.html")
	})
}

func TestBackOffGrowsToHours(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.be(func() string { return "503" })
		w.change(update("a.html", 1))
		pass(100 * time.Hour)
		got := e.batches()
		if n := len(got); n < 15 || n > 30 {
			t.Errorf("%d requests in 100 hours", n)
		}
		for i := 2; i < len(got)-1; i++ {
			was, is := got[i].at.Sub(got[i-1].at), got[i+1].at.Sub(got[i].at)
			if is > 7*time.Hour+31*time.Minute || is < was && is < 6*time.Hour {
				t.Errorf("waits of %v and then %v", was, is)
			}
		}
		check(t, "results", len(engineStatus(t, s).Results), 20)
	})
}

// A lost answer may mean that the engine has the batch: it is not sent again
// before the debounce is over.
func TestLostAnswersKeepTheDebounce(t *testing.T) {
	for _, mood := range []string{"hang taken", "cut taken", "500 taken"} {
		story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
			e.will(mood)
			w.change(update("a.html", 1))
			pass(time.Hour)
			got := e.batches()
			if len(got) != 2 || got[1].at.Sub(got[0].at) < 10*time.Minute {
				t.Errorf("%s: %v", mood, got)
			}
		})
	}
}

func TestLiesAreBounded(t *testing.T) {
	for _, mood := range []string{"html", "huge", "slow body"} {
		story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
			e.will(mood)
			w.change(update("a.html", 1))
			pass(time.Hour)
			e.wantTaken("a.html") // 200 is 200
			if note := engineStatus(t, s).Last.Note; mood == "html" && !strings.Contains(note, "HTML") {
				t.Errorf("note %q", note)
			}
		})
	}
}

func TestPendingKey(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.will("202")
		w.change(update("a.html", 1))
		pass(time.Minute)
		e.wantTaken("a.html")
		check(t, "key", engineStatus(t, s).Key, ping.KeyPending)
	})
}

func TestABadURLIsFoundAndDropped(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.never[base+"p13.html"] = true
		var steps []journal.Step
		for i := range 40 {
			steps = append(steps, create(fmt.Sprintf("p%02d.html", i)))
		}
		w.change(steps...)
		pass(time.Minute)
		sent := strings.Fields(strings.Join(e.taken(), " "))
		check(t, "sent at once", len(sent), 39)
		if n := len(e.batches()); n > 20 {
			t.Errorf("%d requests to find one URL of 40", n)
		}
		pass(24 * time.Hour)
		alone := 0
		for _, b := range e.batches() {
			if len(b.urls) == 1 && b.urls[0] == base+"p13.html" {
				alone++
			}
		}
		check(t, "tries of the bad one", alone, 3)
		st := engineStatus(t, s)
		check(t, "pending", st.Pending, 0)
		check(t, "trouble", st.Trouble, "")
		check(t, "dropped", fmt.Sprintln(st.Last.Dropped, st.Last.URL), "true "+base+"p13.html\n")
		// Nothing is remembered against it: when it changes it is tried again.
		delete(e.never, base+"p13.html")
		e.wantTaken(e.taken()...)
		w.change(update("p13.html", 1))
		pass(time.Minute)
		e.wantTaken("p13.html")
	})
}

func TestAnEngineThatRefusesEverythingIsLeftAlone(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.be(func() string { return "422" })
		var steps []journal.Step
		for i := range 100 {
			steps = append(steps, create(fmt.Sprintf("p%02d.html", i)))
		}
		w.change(steps...)
		pass(24 * time.Hour)
		if n := len(e.batches()); n > 25 {
			t.Errorf("%d requests in a day", n)
		}
		st := engineStatus(t, s)
		if !strings.Contains(st.Trouble, "every URL is refused") {
			t.Errorf("trouble %q", st.Trouble)
		}
		if st.Pending < 97 {
			t.Errorf("only %d are still owed", st.Pending)
		}
		owed := st.Pending
		e.be(nil)
		pass(24 * time.Hour)
		check(t, "sent", len(strings.Fields(strings.Join(e.taken(), " "))), owed)
		check(t, "trouble", engineStatus(t, s).Trouble, "")
	})
}

func TestABurnedKeyIsNamedAndReplaced(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		path, err := s.KeyPath()
		w.must(err)
		old := strings.TrimSuffix(path[1:], ".txt")
		e.keys[old] = true
		w.change(update("a.html", 1))
		pass(time.Minute)
		st := engineStatus(t, s)
		check(t, "key", st.Key, ping.KeyBurned)
		if !strings.Contains(st.Trouble, "UserForbiddedToAccessSite") || !strings.Contains(st.Trouble, path) {
			t.Errorf("trouble %q", st.Trouble)
		}
		w.change(update("b.html", 1))
		pass(20 * time.Hour)
		check(t, "asked", len(e.batches()), 1)
		_, err = s.NewKey()
		w.must(err)
		pass(time.Second)
		e.wantTaken("a.html b.html")
		check(t, "key", engineStatus(t, s).Key, ping.KeyAccepted)
		// The old key is served for a day: engines may still be checking it.
		check(t, "old key is served", s.ServesPath(path), true)
		pass(25 * time.Hour)
		check(t, "old key is served after a day", s.ServesPath(path), false)
	})
}

func TestABurnedKeyIsReplacedWithoutAskingOnceADay(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		pass(30 * time.Hour) // the key has some age
		e.be(func() string { return "403" })
		w.change(update("a.html", 1))
		pass(20 * 24 * time.Hour)
		keys := make(map[string]bool)
		for _, b := range e.batches() {
			keys[b.key] = true
		}
		if n := len(keys); n < 5 || n > 22 {
			t.Errorf("%d keys in 20 days", n)
		}
		e.be(nil)
		pass(25 * time.Hour)
		e.wantTaken("a.html")
	}, func(s *ping.IndexNow) {
		s.AutoRotate = true
		s.KeyPath()
	})
}

// A key that engines cannot fetch is how keys get burned: nothing is sent
// before the site serves it.
func TestAKeyThatIsNotServed(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		serves := w.hosts["www.example.org"]
		w.host("www.example.org", serving{http.NotFoundHandler()})
		w.change(update("a.html", 1))
		pass(time.Minute)
		st := engineStatus(t, s)
		check(t, "asked", len(e.batches()), 0)
		check(t, "key", st.Key, ping.KeyUnserved)
		if !strings.Contains(st.Trouble, "answers 404") {
			t.Errorf("trouble %q", st.Trouble)
		}
		w.host("www.example.org", serves)
		pass(time.Hour)
		e.wantTaken("a.html")
		// Later it vanishes: the engine says so first.
		w.host("www.example.org", serving{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<h1>Welcome</h1>") })})
		w.change(update("b.html", 1))
		pass(time.Minute)
		st = engineStatus(t, s)
		check(t, "key", st.Key, ping.KeyUnserved)
		if !strings.Contains(st.Trouble, "does not hold the key") {
			t.Errorf("trouble %q", st.Trouble)
		}
		w.host("www.example.org", serves)
		pass(time.Hour)
		e.wantTaken("b.html")
	})
}

// From where the sender stands its own site may be out of reach: that is no
// reason not to send.
func TestAKeyThatCannotBeSeenFromHere(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		serves := w.hosts["www.example.org"]
		w.host("www.example.org", nil)
		e.w = &world{t: w.t, hosts: map[string]http.RoundTripper{"www.example.org": serves}}
		w.change(update("a.html", 1))
		pass(time.Minute)
		e.wantTaken("a.html")
	})
}

func TestTheKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		docroot := t.TempDir()
		w.host("www.example.org", serving{http.FileServer(http.Dir(docroot))})
		s := &ping.IndexNow{Journal: w.journal, Base: base, Engines: []string{engineURL}, KeyDir: docroot, HTTP: w.client(), Log: w.log}
		turn := func() ping.Result {
			t.Helper()
			r, err := s.Turn(t.Context())
			w.must(err)
			return r
		}
		turn()
		path, err := s.KeyPath()
		w.must(err)
		w.change(create("a.html"), create(path[1:])) // the key's own file is no page
		turn()
		e.wantTaken("a.html")
		file := filepath.Join(docroot, path)
		info, err := os.Stat(file)
		w.must(err)
		check(t, "mode", info.Mode().Perm(), 0o644)
		// A deploy sweeps it away.
		w.must(os.Remove(file))
		w.change(create("b.html"))
		turn()
		e.wantTaken("b.html")
		// Another key: the old file stays for a day.
		k, err := s.NewKey()
		w.must(err)
		names := func() (n int) {
			list, err := os.ReadDir(docroot)
			w.must(err)
			return len(list)
		}
		check(t, "files", names(), 2)
		time.Sleep(25 * time.Hour)
		w.change(create("c.html"))
		turn()
		e.wantTaken("c.html")
		check(t, "files", names(), 1)
		// Another process has the same key.
		s = &ping.IndexNow{Journal: w.journal, Base: base, Engines: []string{engineURL}, KeyDir: docroot, HTTP: w.client()}
		path, err = s.KeyPath()
		w.must(err)
		check(t, "key", path, "/"+k+".txt")
		st, err := s.Status()
		w.must(err)
		check(t, "key", st.Key.Key, k)
		check(t, "key's URL", st.Key.URL, base+k+".txt")
		if st.Key.Seen.IsZero() {
			t.Error("nobody saw the key")
		}
	})
}

func TestTheKeyIsServed(t *testing.T) {
	w := newWorld(t)
	s := &ping.IndexNow{Journal: w.journal, Base: "https://www.example.org/blog/", Engines: []string{"bing"}, Key: "my-own-key-1"}
	path, err := s.KeyPath()
	w.must(err)
	check(t, "path", path, "/blog/my-own-key-1.txt")
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", path, 200, "my-own-key-1"},
		{"HEAD", path, 200, ""},
		{"POST", path, 405, "only GET and HEAD\n"},
		{"GET", "/blog/other-key-2.txt", 404, "404 page not found\n"},
		{"GET", "/my-own-key-1.txt", 404, "404 page not found\n"},
		{"GET", "/blog/", 404, "404 page not found\n"},
		{"GET", "/blog/../my-own-key-1.txt", 404, "404 page not found\n"},
	} {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequest(c.method, c.path, nil))
		check(t, c.method+" "+c.path, rec.Code, c.status)
		check(t, c.method+" "+c.path, rec.Body.String(), c.body)
	}
	if _, err := s.NewKey(); err == nil {
		t.Error("a key that is given was replaced")
	}
}

// Below a directory the key speaks for that directory, and says where it is.
func TestASiteThatIsNotAtTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		s := w.sender()
		s.Base = base + "blog/"
		_, err := s.Turn(t.Context())
		w.must(err)
		w.change(create("blog/a.html"), create("shop/b.html"))
		r, err := s.Turn(t.Context())
		w.must(err)
		e.wantTaken("blog/a.html")
		check(t, "sent", r.Sent, 1)
		check(t, "changes", r.Changes, 2)
	})
}

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		turn := func() ping.Result { // each is a process of its own
			t.Helper()
			w.must(w.journal.Close())
			w.open()
			r, err := w.sender().Turn(t.Context())
			w.must(err)
			return r
		}
		w.change(create("old.html"))
		check(t, "first turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{}))
		w.change(create("a.html"))
		check(t, "second turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Changes: 1, Batches: 1, Sent: 1}))
		w.change(update("a.html", 1), create("b.html"))
		check(t, "third turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Changes: 2, Batches: 1, Sent: 1, Pending: 1}))
		check(t, "fourth turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Pending: 1}))
		time.Sleep(10 * time.Minute)
		check(t, "fifth turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Batches: 1, Sent: 1}))
		e.wantTaken("a.html", "b.html", "a.html")
		e.will("503")
		w.change(create("c.html"))
		r := turn()
		if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "503") || r.Pending != 1 {
			t.Errorf("%+v", r)
		}
		r = turn() // at once: the engine is left alone
		check(t, "asked", len(e.batches()), 1)
		check(t, "failed", len(r.Failed), 1)
		time.Sleep(2 * time.Minute)
		turn()
		e.wantTaken("c.html")
	})
}

func TestSendAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 12 {
			var steps []journal.Step
			for k := range 1000 {
				steps = append(steps, create(fmt.Sprintf("d%d/p%04d.html", i, k)))
			}
			w.change(steps...)
		}
		w.change(remove("d0/p0000.html"))
		e := newEngine(w, "engine.example")
		s := w.sender()
		s.SendAll = true
		r, err := s.Turn(t.Context())
		w.must(err)
		check(t, "sent", r.Sent, 11_999)
		check(t, "batches", len(e.taken()), 2)
		if strings.Contains(strings.Join(e.taken(), " "), "d0/p0000") {
			t.Error("what was gone before is called gone")
		}
		r, err = s.Turn(t.Context())
		w.must(err)
		check(t, "sent", r.Sent, 0)
	})
}

// The journal was put back from before, or forgot too much: what was modified
// since is told, and what is known to be gone.
func TestAGapSkipsNothing(t *testing.T) {
	for _, gap := range []string{"epoch", "forgotten"} {
		t.Run(gap, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.opts.MaxChanges = 4
				w.must(w.journal.Close())
				w.open()
				w.change(create("old.html"), create("gone.html"), create("a.html"))
				time.Sleep(time.Second)
				e := newEngine(w, "engine.example")
				turn := func() {
					t.Helper()
					_, err := w.sender().Turn(t.Context())
					w.must(err)
				}
				turn()
				w.change(update("a.html", 1))
				turn()
				e.wantTaken("a.html")
				time.Sleep(time.Hour)
				want := "a.html b.html c.html"
				w.change(update("a.html", 0.001)) // nobody knows any more how much it was
				w.change(remove("gone.html"))
				if gap == "epoch" {
					w.change(create("b.html"), create("c.html"))
					w.must(w.journal.Renew(t.Context(), nil))
				} else {
					for range 3 {
						w.change(create("b.html"), create("c.html"), remove("c.html"), create("c.html"))
					}
					w.change(remove("old.html"))
					want += " old.html"
				}
				turn()
				e.wantTaken(want)
				time.Sleep(time.Hour)
				w.change(create("d.html"))
				turn()
				e.wantTaken("d.html")
			})
		})
	}
}

// An engine that takes nothing fills its outbox, not the memory; another is
// not held up by it.
func TestASlowEngineHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow, quick := newEngine(w, "slow.example"), newEngine(w, "quick.example")
		slow.be(func() string { return "hang" })
		s := w.sender()
		s.Engines = []string{"https://slow.example/indexnow", "https://quick.example/indexnow"}
		s.SetRoom(50)
		stop := run(t, s)
		defer stop()
		synctest.Wait()
		for i := range 40 {
			w.change(create(fmt.Sprintf("a%02d.html", i)), create(fmt.Sprintf("b%02d.html", i)))
			pass(time.Minute)
		}
		check(t, "URLs at the quick one", len(strings.Fields(strings.Join(quick.taken(), " "))), 80)
		st, err := s.Status()
		w.must(err)
		if p := st.Engines[0].Pending; p < 50 || p > 52 {
			t.Errorf("the slow one is owed %d URLs", p)
		}
		check(t, "changes that wait in the journal", int(st.Engines[0].Behind)+st.Engines[0].Pending, 80)
		slow.be(nil)
		pass(24 * time.Hour)
		check(t, "URLs at the slow one", len(strings.Fields(strings.Join(slow.taken(), " "))), 80)
	})
}

func TestShutdownLetsAnAnswerArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(create("a.html"))
		e := newEngine(w, "engine.example")
		s := w.sender()
		stop := run(t, s)
		synctest.Wait()
		var asked sync.WaitGroup
		asked.Add(1)
		e.be(func() string {
			asked.Done()
			return "on the way"
		})
		w.change(update("a.html", 1))
		asked.Wait()
		stop()
		check(t, "accepted", engineStatus(t, s).Accepted, 1)
		e.wantTaken("a.html")
		// One that does not arrive is given up soon, and remembered.
		e.be(func() string { return "hang taken" })
		pass(time.Hour)
		w.change(update("a.html", 1))
		s = w.sender()
		stop = run(t, s)
		pass(2 * time.Second)
		before := time.Now()
		stop()
		if d := time.Since(before); d > 6*time.Second {
			t.Errorf("shutdown took %v", d)
		}
		e.be(nil)
		s = w.sender()
		stop = run(t, s)
		defer stop()
		pass(9 * time.Minute)
		check(t, "asked within the debounce", len(e.taken()), 1)
		pass(2 * time.Minute)
		e.wantTaken("a.html", "a.html")
	})
}

func TestWrongConfigurations(t *testing.T) {
	w := newWorld(t)
	good := func() *ping.IndexNow {
		return &ping.IndexNow{Journal: w.journal, Base: base, Engines: []string{"bing"}}
	}
	for name, spoil := range map[string]func(*ping.IndexNow){
		"journal": func(s *ping.IndexNow) { s.Journal = nil },
		"base":    func(s *ping.IndexNow) { s.Base = "https://www.example.org" },
		"engine":  func(s *ping.IndexNow) { s.Engines = []string{"altavista"} },
		"no eng":  func(s *ping.IndexNow) { s.Engines = nil },
		"key":     func(s *ping.IndexNow) { s.Key = "short" },
		"key 2":   func(s *ping.IndexNow) { s.Key = "has/slashes-and.dots" },
	} {
		s := good()
		spoil(s)
		if _, err := s.Turn(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := good()
	s.Engines = append(ping.EngineNames(), "https://www.bing.com/indexnow", "https://own.example/in")
	st, err := s.Status()
	w.must(err)
	check(t, "engines", len(st.Engines), len(ping.EngineNames())+1)
}
