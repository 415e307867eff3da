package evidence_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/versions"
)

// A world is a docroot behind a web server whose responses the test sets, with a publisher and a keeper.
type world struct {
	*testing.T
	root    string
	journal *server.Journal
	site    *server.Site
	keeper  *evidence.Keeper
	pub     *server.Publisher
	pages   content.Pages
	base    string
	end     func()

	scanEvery time.Duration // 0: 200 ms

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by prefix of a path
	asked   map[string]int
}

func newWorld(t *testing.T, pages ...string) *world {
	t.Helper()
	w := &world{T: t, root: t.TempDir(), answers: make(map[string]http.HandlerFunc), asked: make(map[string]int)}
	files := http.FileServer(http.Dir(w.root))
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked[r.URL.Path]++
		answer := http.HandlerFunc(files.ServeHTTP)
		longest := -1
		for prefix, a := range w.answers {
			if strings.HasPrefix(r.URL.Path, prefix) && len(prefix) > longest {
				answer, longest = a, len(prefix)
			}
		}
		w.mu.Unlock()
		if r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
			t.Error("the request is not anonymous")
		}
		answer(rw, r)
	}))
	t.Cleanup(s.Close)
	w.base = s.URL + "/"
	for _, name := range pages {
		w.write(name, "<p>The page "+name)
	}
	w.site = &server.Site{Docroot: w.root, Base: w.base}
	w.journal = must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: w.base}))
	t.Cleanup(func() { w.journal.Close() })
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.root, filepath.FromSlash(name))
	must.Write(w, path, text)
}

// answer sets the web server's status below a path; zero: it serves the files.
func (w *world) answer(prefix string, status int) {
	w.answerBy(prefix, func(rw http.ResponseWriter, r *http.Request) { http.Error(rw, "no", status) })
	if status == 0 {
		w.mu.Lock()
		delete(w.answers, prefix)
		w.mu.Unlock()
	}
}

func (w *world) answerBy(prefix string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[prefix] = h
}

func (w *world) askedFor(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[path]
}

// start starts a keeper and a publisher; end stops them.
func (w *world) start(change func(*evidence.Keeper)) {
	w.Helper()
	w.keeper = &evidence.Keeper{Journal: w.journal, Rate: 5000, Hurry: 20 * time.Millisecond}
	w.keeper.SetInside(func(netip.Addr) bool { return false })
	if change != nil {
		change(w.keeper)
	}
	w.must(w.keeper.Open())
	inv := w.keeper.Watching(w.site)
	w.pub = &server.Publisher{Inventory: inv, Journal: w.journal, Pace: server.Pace{Grace: time.Hour, ScanEvery: cmp.Or(w.scanEvery, 200*time.Millisecond), Hurry: 20 * time.Millisecond}}
	w.pages = w.keeper.Gate(&versions.Store{Journal: w.journal, Open: w.site.OpenPage, Public: inv.Public})
	ctx, stop := context.WithCancel(w.Context())
	var owned sync.WaitGroup
	owned.Go(func() {
		if err := w.keeper.Run(ctx); !errors.Is(err, context.Canceled) {
			w.Errorf("the keeper ended with %v", err)
		}
	})
	owned.Go(func() {
		if err := w.pub.Run(ctx); err != nil {
			w.Errorf("the publisher ended with %v", err)
		}
	})
	w.end = sync.OnceFunc(func() { stop(); owned.Wait() })
	w.Cleanup(w.end)
	w.until("the first scan", func() bool { return w.pub.Status().Looks > 0 })
}

func (w *world) until(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("timed out: %s: %+v", what, w.keeper.Status())
		}
	}
}

func (w *world) told(name string) bool {
	_, ok, err := w.journal.Get(w.base + name)
	w.must(err)
	return ok
}

// bytes returns the bytes that may leave for a published page; empty if none may.
func (w *world) bytes(name string) string {
	w.Helper()
	e, ok, err := w.journal.Get(w.base + name)
	w.must(err)
	if !ok {
		return ""
	}
	b, err := w.pages.Page(w.Context(), &e.Item, 1<<20)
	if err != nil && !errors.Is(err, content.ErrNoVersion) {
		w.Fatal(err)
	}
	return string(b)
}

func (w *world) public(n int) {
	w.Helper()
	w.until(fmt.Sprintf("%d public pages", n), func() bool { return w.keeper.Status().Public == n })
}

func names(dir string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%sp%03d.html", dir, i))
	}
	return list
}

func TestEvidenceByStatus(t *testing.T) {
	const name = "a/one.html"
	for story, c := range map[string]struct {
		status      int
		told, bytes bool
	}{
		"200": {0, true, true}, "401": {401, false, false}, "403": {403, false, false}, "451": {451, false, false}, "404": {404, true, false},
		"429": {429, true, false}, "500": {500, true, false}, "503": {503, true, false}, "302": {302, true, false},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "index.html", "a/two.html", name)
			if c.status != 0 {
				w.answer("/"+name, c.status)
			}
			var changed sync.Map
			w.start(func(k *evidence.Keeper) { k.Changed(func(page string) { changed.Store(page, true) }) })
			w.until("the page is fetched", func() bool { return w.askedFor("/"+name) > 0 && w.keeper.Status().Round.Done })
			w.until("published or not", func() bool { return w.told(name) == c.told && (w.bytes(name) != "") == c.bytes })
			w.until("the others", func() bool { return w.bytes("a/two.html") != "" && w.bytes("") != "" })
			until := func(name string) string {
				until, known := w.keeper.Until(w.base+name, protocol.Sum([]byte("<p>The page "+name)))
				return fmt.Sprint(time.Until(until).Round(time.Hour).String() == "24h0m0s", until.IsZero(), known)
			}
			if got, want := until(name), fmt.Sprint(c.bytes, !c.bytes, true); got != want {
				t.Errorf("a day, never, known: %s, want %s", got, want)
			}
			if got := until("none.html"); got != "false true false" {
				t.Errorf("of a page that was never fetched: %s", got)
			}
			// And back again: a refused page is published once it is served again.
			w.answer("/"+name, 0)
			w.until("the page is served", func() bool { return w.told(name) && w.bytes(name) == "<p>The page "+name })
			changed.Clear()
			w.write(name, "<p>It was edited")
			w.until("the edited page is served", func() bool { return w.bytes(name) == "<p>It was edited" })
			if _, ok := changed.Load(w.base + name); !ok {
				t.Error("nobody was told that there is evidence for the edited page")
			}
		})
	}
}

// In a new directory whose first page is refused, each page is checked before it is published; a refusal of
// the directory's own URL does not count for its pages.
func TestNewDirectoryWithRefusedPages(t *testing.T) {
	w := newWorld(t, append(names("staff/", 40), "index.html", "open/index.html", "open/x.html")...)
	w.answer("/staff/", 401)
	w.answer("/staff/p020.html", 200)
	w.answerBy("/open/", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/open/" {
			http.Error(rw, "no list", http.StatusForbidden)
			return
		}
		http.FileServer(http.Dir(w.root)).ServeHTTP(rw, r)
	})
	w.start(nil)
	if !w.told("open/x.html") || w.told("staff/p000.html") || !w.told("staff/p020.html") || w.journal.Len() > 4 {
		t.Errorf("published at the first scan: %d pages", w.journal.Len())
	}
	begin := w.journal.Head()
	w.answer("/new/", 403)
	w.write("new/deep/page.html", "secret")
	w.write("new/page.html", "secret")
	w.write("open/y.html", "open")
	w.until("open pages are published", func() bool { return w.told("open/y.html") })
	w.until("and fetched", func() bool { return w.askedFor("/new/page.html") > 0 && w.askedFor("/new/deep/page.html") > 0 })
	changes := must.Get(w.journal.Read(t.Context(), begin, 100))
	for _, c := range changes {
		if strings.Contains(c.Item.URL, "/new/") {
			t.Errorf("%s %s was published", c.Op, c.Item.URL)
		}
	}
}

// An edit is published at once. Its bytes wait until an anonymous fetch returns them, and a page whose bytes
// differ at each request gets none.
func TestEditedBytesWaitForEvidence(t *testing.T) {
	w := newWorld(t, "index.html", "nonce.html", "behind.html")
	n := 0
	w.answerBy("/nonce.html", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		n++
		fmt.Fprintf(rw, "<p>The page nonce.html %d", n)
		w.mu.Unlock()
	})
	w.start(nil)
	w.until("three are fetched", func() bool { return w.keeper.Status().Public >= 2 && w.askedFor("/nonce.html") >= 4 })
	if got := w.bytes("nonce.html"); got != "" || !w.told("nonce.html") {
		t.Errorf("bytes of a page that differs at each request were delivered: %q", got)
	}
	// If a cache is behind, the change is published, without bytes until the cache has caught up.
	old := "<p>The page behind.html"
	w.answerBy("/behind.html", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, old) })
	w.write("behind.html", "<p>New")
	w.until("the page is published", func() bool {
		e, _, _ := w.journal.Get(w.base + "behind.html")
		return e.Item.Digest == protocol.Sum([]byte("<p>New"))
	})
	if got := w.bytes("behind.html"); got != "" {
		t.Errorf("%q was delivered without evidence", got)
	}
	w.answer("/behind.html", 0)
	w.until("it has caught up", func() bool { return w.bytes("behind.html") == "<p>New" })
	w.write("index.html", "<p>At once")
	w.until("the bytes of an edit", func() bool { return w.bytes("") == "<p>At once" })
}

// A page that grows while it is fetched is fetched again with its new length, also if the request after the edit proved nothing.
func TestPageGrowsWhileItIsFetched(t *testing.T) {
	w := newWorld(t, "index.html", "a.html", "z.html")
	w.scanEvery = time.Hour
	w.start(func(k *evidence.Keeper) { k.Hurry = 0 }) // the next round is in ten minutes
	w.until("the first round is over", func() bool { return w.keeper.Status().Public == 3 && w.keeper.Status().Round.Done })
	before := w.askedFor("/z.html")
	grown := []byte("<p>The page z.html has grown")
	w.answerBy("/z.html", func(rw http.ResponseWriter, r *http.Request) {
		switch w.askedFor("/z.html") - before {
		case 1: // after a first edit
			w.write("z.html", string(grown))
			w.until("the second edit is fetched", func() bool { return w.askedFor("/z.html") >= before+2 })
		case 2:
			http.NotFound(rw, r)
			return
		}
		rw.Write(grown)
	})
	w.write("z.html", "edited")
	w.until("it is fetched again", func() bool { return w.askedFor("/z.html") >= before+3 })
	w.public(3)
}

// Pages that become protected are withdrawn if they are few; earlier evidence counts until the next check.
func TestFewRefusedPagesAreWithdrawn(t *testing.T) {
	w := newWorld(t, append(names("a/", 60), "index.html")...)
	w.start(nil)
	w.public(61)
	w.answer("/a/p00", 401) // matches ten of them
	if w.bytes("a/p001.html") == "" {
		t.Error("earlier evidence does not count any more")
	}
	w.answer("/a/p00", 0)
	w.answer("/a/p001.html", 401)
	w.answer("/a/p002.html", 403)
	w.must(w.keeper.Recheck())
	w.until("they are withdrawn", func() bool { return !w.told("a/p001.html") && !w.told("a/p002.html") })
	w.public(59)
	if s := w.keeper.Status(); s.Mass || s.Refused != 2 || !w.told("a/p003.html") {
		t.Errorf("%+v", s)
	}
	// The next process still knows it, before it sends any request.
	w.end()
	w.start(func(k *evidence.Keeper) { k.Rate = 0 })
	if w.told("a/p001.html") || w.bytes("a/p003.html") == "" {
		t.Error("a restart lost the evidence")
	}
}

// Records about pages are removed with the pages.
func TestRecordsAreRemovedWithPages(t *testing.T) {
	w := newWorld(t, "index.html", "a.html", "b.html", "c.html")
	w.answer("/b.html", 403)
	w.start(nil)
	w.until("b is withdrawn", func() bool { return !w.told("b.html") && w.keeper.Status().Public == 3 })
	notes := func() (n int) {
		w.must(w.journal.EachNote("evidence/", func(string, []byte) error { n++; return nil }))
		return n
	}
	w.until("all records are stored", func() bool { return notes() == 4 })
	w.end()
	w.must(os.Remove(filepath.Join(w.root, "a.html")))
	w.must(os.Remove(filepath.Join(w.root, "b.html")))
	must.Get((&server.Publisher{Inventory: w.site, Journal: w.journal}).AcceptDeletions(t.Context()))
	w.start(nil)
	w.until("the records are removed", func() bool {
		s := w.keeper.Status()
		return notes() == 2 && s.Refused == 0 && s.Public == 2
	})
}

// A deleted page no longer counts as public, and counts again when it is back. Meanwhile archives may still have its bytes.
func TestDeletedPagesAreNotCounted(t *testing.T) {
	w := newWorld(t, "index.html", "a.html", "b.html")
	w.start(nil)
	w.public(3)
	w.must(os.Remove(filepath.Join(w.root, "a.html")))
	w.until("a is deleted", func() bool {
		_, err := w.pub.AcceptDeletions(t.Context())
		w.must(err)
		return !w.told("a.html")
	})
	w.public(2)
	if w.keeper.Given(w.base + "a.html").IsZero() {
		t.Error("the evidence for the deleted page is gone")
	}
	asked := w.askedFor("/a.html")
	w.write("a.html", "<p>The page a.html")
	w.public(3)
	if n := w.askedFor("/a.html"); n != asked {
		t.Errorf("the page with its former bytes was fetched %d times more", n-asked)
	}
}

// After a move to another host, a page that was refused stays withdrawn until it is served there, and no bytes are delivered
// because the former host served them.
func TestEvidenceAfterMove(t *testing.T) {
	w := newWorld(t, "index.html", "a.html", "secret.html")
	w.answer("/secret.html", 403)
	w.start(nil)
	w.until("secret is withdrawn", func() bool { return !w.told("secret.html") && w.keeper.Status().Public == 2 })
	w.end()

	former := w.base
	w.base = strings.Replace(former, "127.0.0.1", "localhost", 1)
	w.must(w.journal.Move(t.Context(), former, w.base))
	w.site = &server.Site{Docroot: w.root, Base: w.base}
	once := &evidence.Keeper{Journal: w.journal} // of rdfgen, which loads the notes and ends
	once.Moved(w.base, []string{former})
	w.must(once.Open())
	w.must(w.journal.EachNote("evidence/"+former, func(key string, _ []byte) error { t.Errorf("%s is left", key); return nil }))
	if note, err := w.journal.Note("evidence/" + w.base + "secret.html"); err != nil || note == nil {
		t.Errorf("the refusal is not stored for the new address: %v", err)
	}
	moved := func(rate float64) func(*evidence.Keeper) {
		return func(k *evidence.Keeper) {
			k.Moved(w.base, []string{former})
			k.Rate = rate
		}
	}
	w.start(moved(0)) // it asks for nothing yet
	if s := w.keeper.Status(); s.Refused != 1 || s.Public != 0 || w.told("secret.html") || !w.told("a.html") || w.bytes("a.html") != "" {
		t.Errorf("%+v; secret.html announced: %v, a.html: %v, its bytes are %q", s, w.told("secret.html"), w.told("a.html"), w.bytes("a.html"))
	}
	w.end()
	w.start(moved(5000))
	w.until("the pages are fetched", func() bool { return w.bytes("a.html") != "" && w.keeper.Status().Round.Done })
	if w.told("secret.html") {
		t.Error("the refused page is announced")
	}
	w.answer("/secret.html", 0)
	w.until("secret is served", func() bool { return w.told("secret.html") && w.bytes("secret.html") != "" })
	w.end()
	w.must(w.journal.EachNote("evidence/"+former, func(key string, _ []byte) error { t.Errorf("%s is left", key); return nil }))
}

// If many pages are refused at once, a person must decide.
func TestManyRefusalsNeedAPerson(t *testing.T) {
	for _, meant := range []bool{false, true} {
		t.Run(fmt.Sprintf("refusals accepted %v", meant), func(t *testing.T) {
			w := newWorld(t, append(append(names("a/", 100), names("b/", 30)...), "index.html")...)
			w.start(nil)
			w.public(131)
			begin := w.journal.Head()
			w.answer("/b/", 401)
			w.must(w.keeper.Recheck())
			w.until("the refusals need a person", func() bool { return w.keeper.Status().Mass })
			if w.bytes("a/p001.html") != "" || w.bytes("b/p001.html") != "" {
				t.Error("page bytes are delivered")
			}
			if w.journal.Head() != begin {
				t.Error("a deletion was reported")
			}
			w.end()
			w.start(nil)
			w.until("the mass refusal survives the restart", func() bool { return w.keeper.Status().Mass })
			if meant {
				w.must(w.keeper.Accept())
				w.until("they are withdrawn", func() bool {
					return !w.told("b/p000.html") && !w.told("b/p029.html") && w.keeper.Status().Refused == 30
				})
			} else {
				w.answer("/b/", 0)
				w.until("all are served again", func() bool { return !w.keeper.Status().Mass && w.bytes("b/p001.html") != "" })
				if w.journal.Head() != begin {
					t.Error("a deletion was reported")
				}
			}
			w.until("page bytes are delivered again", func() bool { return w.bytes("a/p001.html") != "" })
		})
	}
}

// Responses from one of the machine's own addresses prove nothing, except for refusals.
func TestResponsesFromPrivateAddresses(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		t.Run(fmt.Sprintf("docroot trusted %v", trusted), func(t *testing.T) {
			w := newWorld(t, "index.html", "a.html", "b.html")
			w.answer("/b.html", 403)
			var log strings.Builder
			w.start(func(k *evidence.Keeper) {
				k.SetInside(nil)
				k.Trusted, k.Logger = trusted, slog.New(slog.NewTextHandler(&log, nil))
			})
			w.until("b is withdrawn", func() bool { return !w.told("b.html") })
			w.until("all are fetched", func() bool { return w.askedFor("/a.html") > 0 && w.askedFor("/") > 0 })
			if got := w.bytes("a.html"); (got != "") != trusted {
				t.Errorf("%q was delivered", got)
			}
			if s := w.keeper.Status(); trusted != (s.Inside == "") {
				t.Errorf("%+v", s)
			}
			w.until("the round is done", func() bool { return w.keeper.Status().Round.Done })
			w.end()
			if warned := strings.Contains(log.String(), "no page contents are delivered"); warned == trusted {
				t.Errorf("the log says %s", log.String())
			}
		})
	}
}

// A web server that is down delays nothing.
func TestUnreachableServerDelaysNothing(t *testing.T) {
	w := newWorld(t, "index.html", "a/a.html", "b/b.html", "c/c.html")
	w.answerBy("/", func(rw http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	w.start(nil)
	if !w.told("") || !w.told("c/c.html") || w.bytes("c/c.html") != "" {
		t.Error("the page is not published, or its bytes were delivered")
	}
	w.answer("/", 0)
	w.public(4)
}

// If the web server is started after the notifier, its pages are fetched soon, few or many.
func TestWebServerStartedLater(t *testing.T) {
	for _, n := range []int{3, 50} {
		w := newWorld(t, names("a/", n)...)
		w.answerBy("/", func(rw http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
		w.start(func(k *evidence.Keeper) { k.Hurry = 0 })
		w.until("another round has begun", func() bool { return w.askedFor("/a/p000.html") > 4 })
		w.answer("/", 0)
		w.public(n)
		w.end()
	}
}
