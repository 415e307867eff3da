package crawl_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A teller is a site that sends changes in every form, with a copy of it.
type teller struct {
	*sitetest.Site
	*copied
	rnd   *rand.Rand
	edits int
}

func newTeller(t *testing.T, n int, set func(*crawl.Copy)) *teller {
	x := &teller{rnd: rand.New(rand.NewPCG(7, 7))}
	files := map[string]string{"index.html": x.long(40)}
	for i := range n {
		files[fmt.Sprintf("d%d/p%d.html", i%3, i)] = x.long(20 + x.rnd.IntN(60))
	}
	x.Site = sitetest.NewWhole(t, files)
	x.copied = newCopy(t, x.Base, func(c *crawl.Copy) {
		c.NoStream = false
		if set != nil {
			set(c)
		}
	})
	return x
}

func (x *teller) long(words int) string {
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "<p>%x</p>\n", x.rnd.Uint64())
	}
	return b.String()
}

// live returns the expected files of the copy.
func (x *teller) live() map[string]string {
	m := map[string]string{}
	for u, text := range x.Pages() {
		m[strings.TrimPrefix(u, x.Base)] = text
	}
	return m
}

// gets returns the paths of the pages that were requested since the last call.
func (x *teller) gets() []string { return asked(x.Site) }

// edit changes some pages in all ways, and publishes the changes.
func (x *teller) edit() {
	x.edits++
	urls := []string{}
	for u := range x.live() {
		if u != "" {
			urls = append(urls, u)
		}
	}
	slices.Sort(urls)
	x.rnd.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	for _, u := range urls[:3] {
		x.Write(u, x.live()[u]+fmt.Sprintf("<p>edit %d</p>", x.edits))
	}
	x.Write("index.html", x.live()[""]+fmt.Sprintf("<p>edit %d</p>", x.edits))
	x.Remove(urls[3])
	x.Rename(urls[4], fmt.Sprintf("moved/m%d.html", x.edits))
	x.Write(fmt.Sprintf("new/n%d.html", x.edits), x.long(30))
	x.Publish()
}

// differs returns the names of files that only one of copy and site has, or that differ.
func (x *teller) differs() (names []string) {
	is, has := x.live(), x.files()
	if home, ok := is[""]; ok {
		delete(is, "")
		is["index.html"] = home
	}
	for name, text := range is {
		if has[name] != text {
			names = append(names, name)
		}
		delete(has, name)
	}
	for name := range has {
		names = append(names, name+" more")
	}
	slices.Sort(names)
	return names
}

// settled waits until the copy equals the site, has its cursor, and has no pending fetch.
func (x *teller) settled() {
	x.t.Helper()
	owed, faults := 0, []string(nil)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		began := time.Now()
		if _, owed, _, faults = x.counts(); owed == 0 && x.manifest().Cursor == x.Head() && len(x.differs()) == 0 {
			return
		}
		time.Sleep(max(2*time.Millisecond, time.Since(began))) // the others need the processor
	}
	x.t.Fatalf("differs from the site: %q; %d pages are pending, at %v, the site at %v: %v", x.differs(), owed, x.manifest().Cursor, x.Head(), faults)
}

// catchUp starts the copy, and waits until it equals the site. So does published, once changes are published.
func (x *teller) catchUp() {
	x.t.Helper()
	x.start()
	x.settled()
}

func (x *teller) published() {
	x.t.Helper()
	x.Publish()
	x.settled()
}

// A copy is the same in each form, pulled and pushed (C02), and a form that delivers pages causes no fetch.
func TestCopyInEveryForm(t *testing.T) {
	for _, as := range append(protocol.Forms(), "") {
		for _, pulled := range []bool{false, true} {
			name := string(as)
			if as == "" {
				name = "auto"
			}
			t.Run(fmt.Sprintf("%s, pulled %v", name, pulled), func(t *testing.T) {
				t.Parallel() // they mostly wait
				x := newTeller(t, 30, func(c *crawl.Copy) { c.As, c.NoStream = as, pulled })
				if as == protocol.AsSite || as == "" {
					x.Archive()
				}
				x.catchUp()
				if got := x.gets(); len(got) > 0 {
					t.Errorf("the first copy fetched %q", got) // an archive, or a batch, has it all
				}
				edits := 5
				if pulled {
					edits = 2
				}
				for range edits {
					x.edit()
					x.settled()
				}
				got := x.gets()
				if whole := as == protocol.AsMeta || as == protocol.AsSite; whole != (len(got) > 0) {
					t.Errorf("fetched %q", got)
				}
				x.stop()
				x.edit()
				x.edit() // while nobody listens
				x.catchUp()
				c := x.c.Listening(strings.TrimSuffix(x.Base, "/"))[x.Base+"robots.rdf"]
				if want := as; want == "" {
					if c.As != protocol.AsDelta || c.Why == "" {
						t.Errorf("chosen: %v", c)
					}
				} else if c.As != want {
					t.Errorf("chosen: %v", c)
				}
				s := x.c.Status()
				for by, n := range s.Received {
					if n.Received == 0 || n.Received != n.Processed+n.Enqueued+n.Ignored {
						t.Errorf("%s: %+v", by, n)
					}
				}
				if as == protocol.AsDelta && s.Delivered == 0 {
					t.Errorf("%+v", s)
				}
				if y, err := x.c.Why(x.Base); err != nil || !strings.Contains(strings.Join(y.Signals, "\n"), "followed via ") {
					t.Errorf("%+v, %v", y, err)
				}
			})
		}
	}
}

// The bytes of a site are counted, whichever form delivers them.
func TestArchiveIsCounted(t *testing.T) {
	for _, pulled := range []bool{false, true} {
		x := newTeller(t, 30, func(c *crawl.Copy) { c.As, c.NoStream = protocol.AsSite, pulled })
		x.Archive()
		resp, _ := must.Fetch(t, "GET", x.Base+"parley/site.wacz", "")
		x.catchUp()
		s := x.c.Status()
		if s.Listened < resp.ContentLength || s.Listened > resp.ContentLength+20_000 || s.Came() != s.Wire+s.Listened {
			t.Errorf("pulled %v: %d bytes by subscription, %d otherwise, of an archive of %d", pulled, s.Listened, s.Wire, resp.ContentLength)
		}
		x.Write("index.html", x.long(10))
		x.published()
		if after := x.c.Status().Listened; after <= s.Listened {
			t.Errorf("pulled %v: an announced change took %d bytes", pulled, after-s.Listened)
		}
	}
}

// A copy that began with an archive, and then followed only some of the pages, becomes equal to the site when it follows all again.
func TestSelectionAfterAnArchive(t *testing.T) {
	x := newTeller(t, 30, nil)
	x.Archive()
	x.catchUp()
	x.stop()
	x.m.Filter.Prefixes = []string{"/d1/"}
	x.start()
	x.Write("d0/p0.html", x.long(10)) // which is not selected
	x.Write("d1/p1.html", x.long(10))
	x.Publish()
	until(t, crawl.EngineOf(x.c), "the selected page is stored", func() bool { return x.files()["d1/p1.html"] == x.live()["d1/p1.html"] })
	if x.files()["d0/p0.html"] == x.live()["d0/p0.html"] {
		t.Error("a page that is not selected is stored")
	}
	x.stop()
	x.m.Filter = protocol.Filter{}
	x.catchUp()
}

// A copy that began with an archive, and had changes since, goes on from its cursor when it starts again, whatever form they came in: it
// does not go back to the archive.
func TestRestartAfterAnArchive(t *testing.T) {
	for _, polls := range []bool{false, true} {
		x := newTeller(t, 30, func(c *crawl.Copy) { c.NoStream = polls })
		events := func() (n int) {
			for _, err := range x.c.Collection.Events(t.Context(), protocol.Cursor{}, false) {
				must.OK(t, err)
				n++
			}
			return n
		}
		x.Archive()
		x.catchUp()
		x.edit()
		x.settled()
		before := events()
		x.stop()
		x.ForgetRequests()
		x.start()
		x.Write("d1/p1.html", x.long(10))
		x.published()
		if n := events() - before; n != 1 {
			t.Errorf("polls %v: %d events of one change", polls, n)
		}
		for _, path := range []string{"/parley/site.wacz", "/robots.rdf"} {
			if n := x.Hits(path, ""); n > 0 {
				t.Errorf("polls %v: %d requests for %s", polls, n, path)
			}
		}
		x.stop()
	}
}

// A page is fetched if its delivered bytes do not match the digest, or if a diff cannot be applied.
func TestWrongDeliveredBodiesAreFetched(t *testing.T) {
	noTotals(t)
	for _, as := range []protocol.Form{protocol.AsDelta, protocol.AsPage} {
		x := newTeller(t, 10, func(c *crawl.Copy) { c.As, c.NoStream = as, true })
		x.catchUp()
		x.gets()
		x.Break("/parley/changes", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			r.Header.Del("Accept-Encoding")
			rec := &recorder{header: w.Header()}
			own(rec, r)
			m, err := protocol.ParseMessage(rec.body)
			if err != nil || rec.status != http.StatusOK {
				w.WriteHeader(max(rec.status, http.StatusBadGateway))
				w.Write(rec.body)
				return
			}
			for i := range m.Bodies {
				if b := &m.Bodies[i]; len(b.Bytes) > 0 {
					b.Bytes[len(b.Bytes)/2] ^= 1
				}
			}
			b := m.Encode()
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(b)
		})
		for range 2 {
			x.edit()
			x.settled()
		}
		if got := x.gets(); len(got) < 5 || x.c.Status().Delivered > 11 {
			t.Errorf("%s: fetched %q; %d pages delivered", as, got, x.c.Status().Delivered)
		}
	}
}

type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(n int)   { r.status = n }
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.body = append(r.body, b...)
	return len(b), nil
}

// A base file that was modified locally cannot serve as the base of a diff: the page is fetched.
func TestDamagedDeltaBase(t *testing.T) {
	x := newTeller(t, 5, func(c *crawl.Copy) { c.As = protocol.AsDelta })
	x.catchUp()
	x.gets()
	for name := range x.files() {
		must.OK(t, os.WriteFile(filepath.Join(x.m.Dir, filepath.FromSlash(name)), []byte("somebody was here"), 0o644))
	}
	for u, text := range x.live() {
		if u == "" {
			u = "index.html"
		}
		x.Write(u, text+"<p>more</p>")
	}
	x.published()
	if got := x.gets(); len(got) == 0 {
		t.Errorf("fetched %q", got)
	}
}

// If the batch door fails, or breaks off after the start of a response, pages are fetched one by one.
func TestBatchFails(t *testing.T) {
	for name, fault := range map[string]sitetest.Fault{
		"cut": sitetest.Truncate(10_000), "refused": sitetest.Status(http.StatusInternalServerError, 0), "garbage": sitetest.Bytes("no bundle"),
		"busy": sitetest.Status(http.StatusServiceUnavailable, 0), // which says nothing about pages
	} {
		t.Run(name, func(t *testing.T) {
			x := newTeller(t, 40, func(c *crawl.Copy) { c.As = protocol.AsMeta })
			x.Break("/parley/batch", fault)
			x.catchUp()
			if got := x.gets(); len(got) == 0 || len(got) > 41 || name != "cut" && len(got) != 41 {
				t.Errorf("fetched %d pages of 41", len(got))
			}
		})
	}
}

// If the batch door describes pages without their contents, they are fetched one by one, and it is not asked again for a while.
func TestBatchWithoutPages(t *testing.T) {
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("p%d.html", i)] = page(fmt.Sprint(i))
	}
	x := sitetest.NewWhole(t, files)
	x.Break("/parley/batch", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		r.Body = io.NopCloser(strings.NewReader(`{"pages":[{"url":"` + x.Base + `unknown.html"}]}`))
		own(w, r)
	})
	c := crawler(t, "", x.Base)
	c.Batch.Size, c.Bulk = 10, 5
	finish(t, c)
	batches, pages := 0, 0
	for _, r := range x.Requests() {
		if r.Path == "/parley/batch" {
			batches++
		} else if files[strings.TrimPrefix(r.Path, "/")] != "" { // other names are made up, to learn how missing pages are answered
			pages++
		}
	}
	if batches != 1 || pages != 40 {
		t.Errorf("%d requests for a batch, and %d for pages", batches, pages)
	}
}

// A site that sends Retry-After gets no request until then, and the log says so.
func TestBatchRetryAfter(t *testing.T) {
	var log strings.Builder
	x := newTeller(t, 40, func(c *crawl.Copy) {
		c.As, c.Log = protocol.AsMeta, slog.New(slog.NewTextHandler(&log, nil))
	})
	var refused, asked atomic.Int64 // when, in nanoseconds
	x.Break("/parley/batch", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		refused.Store(time.Now().UnixNano())
		sitetest.Status(http.StatusServiceUnavailable, 2*time.Second)(w, r, own)
	})
	x.Break("/d0/p0.html", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		asked.CompareAndSwap(0, time.Now().UnixNano())
		own(w, r)
	})
	x.catchUp()
	x.stop()
	if d := time.Duration(asked.Load() - refused.Load()); d < 2*time.Second {
		t.Errorf("next request after %v", d)
	}
	if !strings.Contains(log.String(), "asks for a pause") || !strings.Contains(log.String(), "retry_after=2s") {
		t.Errorf("the log says %s", &log)
	}
}

// A page that is fetched separately arrives as a diff if the site makes diffs.
func TestFetchedDelta(t *testing.T) {
	x := newTeller(t, 3, func(c *crawl.Copy) { c.As = protocol.AsMeta })
	x.catchUp()
	before := x.c.Status().Wire
	x.Write("index.html", x.live()[""]+"<p>a little more</p>")
	x.published()
	if wire := x.c.Status().Wire - before; wire > 300 {
		t.Errorf("%d bytes for one line", wire)
	}
}

// A collection with an archive stores delivered pages like fetched ones.
func TestDeliveredPagesAreStored(t *testing.T) {
	x := newTeller(t, 30, nil)
	c := crawler(t, "", x.Base)
	col := c.Collection
	c.As, c.Once = protocol.AsPage, false
	begin(t, c)
	holds := func() bool {
		for u, text := range x.Pages() {
			if pageOf(t, col, u).Digest != protocol.Sum([]byte(text)) {
				return false
			}
		}
		return true
	}
	until(t, c, "pages are stored", holds)
	until(t, c, "the site is followed", func() bool { return c.Status().Followed == 1 })
	x.gets()
	x.edit()
	until(t, c, "edits are stored", holds)
	if got := x.gets(); len(got) > 0 || c.Status().Delivered < 5 {
		t.Errorf("fetched %q: %+v", got, c.Status())
	}
	holdsAll(t, col, x.Site)
	if v := must.Get(col.Contents().Versions(x.Base)); len(v) != 2 || v[0].Digest == v[1].Digest {
		t.Errorf("versions %+v", v)
	}
}

// Killed at any instant while pages are being delivered, the copy ends equal to the site.
func TestKilledDuringDelivery(t *testing.T) {
	for _, as := range []protocol.Form{protocol.AsDelta, protocol.AsPage, protocol.AsBatch} {
		t.Run(string(as), func(t *testing.T) {
			x := newTeller(t, 60, func(c *crawl.Copy) { c.As = as })
			for range 5 {
				child := exec.Command(os.Args[0])
				child.Env, child.Dir = append(os.Environ(), copyEnv+"="+x.Base, copyEnv+"_AS="+string(as)), filepath.Dir(x.m.Dir)
				must.OK(t, child.Start())
				for over := time.After(time.Duration(100+x.rnd.IntN(200)) * time.Millisecond); over != nil; {
					x.edit()
					select {
					case <-over:
						over = nil
					default:
					}
				}
				child.Process.Kill()
				child.Wait()
			}
			x.catchUp()
		})
	}
}

// A diff that cannot be applied, or leads to bytes other than announced, or is requested
// from a server that has no such page, costs one more request, and no more than that.
func TestInvalidDeltaCostsOneRequest(t *testing.T) {
	x := newTeller(t, 3, func(c *crawl.Copy) { c.As = protocol.AsMeta })
	x.catchUp()
	was := x.live()["d0/p0.html"]
	garbage := []byte("this is no difference")
	other := must.Get(coding.Delta([]byte(was), []byte(was+"<p>something else</p>")))
	for i, sent := range [][]byte{garbage, other, nil} {
		x.gets()
		x.Break("/d0/p0.html", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			if r.Header.Get("Available-Dictionary") == "" {
				own(w, r)
				return
			}
			if sent == nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Encoding", "dcz")
			w.Header().Set("Content-Type", "text/html")
			w.Write(sent)
		})
		x.Write("d0/p0.html", was+fmt.Sprintf("<p>edit %d</p>", i))
		x.published()
		if got := x.gets(); len(got) != 2 {
			t.Errorf("fetched %q", got)
		}
		x.Break("/d0/p0.html", nil)
		x.Write("d0/p0.html", was)
		x.published()
	}
}
