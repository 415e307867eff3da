package endtoend

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// kills returns how often crawlers are to be killed: a few times, unless
// PARLEY_KILLS asks for another number.
func kills(t *testing.T) int {
	s := os.Getenv("PARLEY_KILLS")
	if s == "" {
		return 8
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("PARLEY_KILLS=%s: want a number", s)
	}
	return n
}

// A crawling is a crawler with a directory of its own, which outlives it.
type crawling struct {
	t    *testing.T
	dir  string
	args []string
	p    *program
}

func (c *crawling) start() {
	c.t.Helper()
	c.p = start(c.t, c.p, "crawler", append(slices.Clone(c.args), "--into", c.dir, "--allow-private", "--wait", "0", "--log-level", "info")...)
	c.t.Cleanup(c.p.kill9)
}

func (c *crawling) stop() { c.p.stop() }

// kill ends the crawler as a crash would, and reports whether it was running.
func (c *crawling) kill() bool {
	select {
	case <-c.p.done:
		return false
	default:
	}
	c.p.kill9()
	return !c.p.cmd.ProcessState.Exited()
}

// finished waits until the crawler has ended by itself.
func (c *crawling) finished() {
	c.t.Helper()
	select {
	case <-c.p.done:
	case <-time.After(time.Minute):
		c.t.Fatalf("the crawl does not end\n%s", c.p.said())
	}
	if code := c.p.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Fatalf("the crawl ends with %d\n%s", code, c.p.said())
	}
}

// stands asks the crawler for the state of each page: "held" with the digest
// of its content, "moved" with where to, or another word. It is nil while the
// crawler does not answer.
func (c *crawling) stands() map[string]string {
	out, code := run(c.t, "crawler", "pages", "--into", c.dir, "--format", "json")
	if code != 0 {
		return nil
	}
	m := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct{ URL, State, Digest, Target string }
		if err := dec.Decode(&p); err == io.EOF {
			return m
		} else if err != nil {
			return nil
		}
		m[p.URL] = standing(p.State, p.Digest, p.Target)
	}
}

func standing(state, digest, target string) string {
	switch state {
	case "held":
		return state + " " + digest
	case "moved":
		return state + " " + target
	}
	return state
}

// until waits until the pages stand as wanted.
func (c *crawling) until(what string, want func() map[string]string, of func(map[string]string) map[string]string) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		got, w := of(c.stands()), want()
		if maps.Equal(got, w) {
			return
		}
		select {
		case <-c.p.done:
			c.t.Fatalf("%s: the crawler ended with %d\n%s", what, c.p.cmd.ProcessState.ExitCode(), c.p.said())
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: waited in vain: %s\n%s", what, firstDifference(got, w), c.p.said())
		}
	}
}

func firstDifference(got, want map[string]string) string {
	n, first := 0, ""
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, u := range slices.Sorted(maps.Keys(all)) {
		if got[u] != want[u] {
			if n++; n == 1 {
				first = fmt.Sprintf("%s is %q, want %q", u, got[u], want[u])
			}
		}
	}
	return fmt.Sprintf("%d pages of %d differ; %s", n, len(all), first)
}

func every(m map[string]string) map[string]string { return m }

func onlyHeld(m map[string]string) map[string]string {
	held := maps.Clone(m)
	maps.DeleteFunc(held, func(_, s string) bool { return !strings.HasPrefix(s, "held ") })
	return held
}

// An inventory is what a collection holds when no crawler has it.
type inventory struct {
	pages  map[string]string // how each stands, and where it leads
	held   map[string]protocol.Digest
	copies map[string]bool // have the content that another page had: their links are not followed
}

// inventory reads the collection in process, and wants each page to have its
// content, and each event to lead to what it tells of.
func (c *crawling) inventory(events []collection.Event) inventory {
	c.t.Helper()
	col, err := collection.Open(c.dir, &collection.Options{ReadOnly: true, Wait: 10 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	defer col.Close()
	inv := inventory{map[string]string{}, map[string]protocol.Digest{}, map[string]bool{}}
	url := map[uint32]string{}
	for p, err := range col.Pages(c.t.Context()) {
		if err != nil {
			c.t.Fatal(err)
		}
		if _, twice := inv.pages[p.URL]; twice {
			c.t.Errorf("%s is there twice", p.URL)
		}
		url[uint32(p.ID)] = p.URL
		inv.pages[p.URL] = standing(p.State.String(), p.Digest.String(), p.Target)
		inv.copies[p.URL] = p.Original != 0
		if p.State != collection.Held && p.State != collection.Failing || p.Digest.IsZero() {
			continue
		}
		inv.held[p.URL] = p.Digest
		if got, err := bodyAt(col, p.Stored); err != nil || got != p.Digest {
			c.t.Errorf("%s: what is stored is not what is held: %v", p.URL, err)
		}
	}
	for _, e := range events {
		if e.Op == protocol.Delete {
			continue
		}
		if got, err := bodyAt(col, e.Stored); err != nil || got != e.Digest || e.Signal == "" {
			c.t.Errorf("event %v leads to another body than it tells of, or says not why: %v", e.Cursor, err)
		}
	}
	for p, err := range col.Pages(c.t.Context()) {
		if err != nil {
			c.t.Fatal(err)
		}
		ids, err := col.Links(p.ID)
		if err != nil {
			c.t.Fatal(err)
		}
		var to []string
		for _, id := range ids {
			to = append(to, url[uint32(id)])
		}
		slices.Sort(to)
		inv.pages[p.URL] += fmt.Sprintf(" to %q", to)
	}
	return inv
}

func bodyAt(col *collection.Collection, at collection.Place) (protocol.Digest, error) {
	content, err := col.Body(at)
	if err != nil {
		return protocol.Digest{}, err
	}
	defer content.Close()
	body, err := io.ReadAll(content)
	return protocol.Sum(body), err
}

// mirrored wants the mirror, if there is one, to have a file for each page
// that is held, and no other.
func (c *crawling) mirrored(held map[string]protocol.Digest) {
	c.t.Helper()
	dir := filepath.Join(c.dir, "mirror")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	var files, pages []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		b, err := os.ReadFile(name)
		files = append(files, protocol.Sum(b).String())
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, d := range held {
		pages = append(pages, d.String())
	}
	slices.Sort(files)
	slices.Sort(pages)
	if !slices.Equal(files, pages) {
		c.t.Errorf("the mirror has %d files, and not the content of the %d pages that are held", len(files), len(pages))
	}
}

// archived wants the archives to be valid to the letter, and each version of a
// page to be in them once. It returns the versions.
func (c *crawling) archived() map[string]int {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "warc", "*.warc*"))
	if err != nil {
		c.t.Fatal(err)
	}
	versions, revisited := map[string]int{}, map[string]bool{}
	n := 0
	for _, name := range files {
		if strings.Contains(filepath.Base(name), ".cdxj") {
			continue
		}
		n++
		b, err := os.ReadFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := warc.Validate(bytes.NewReader(b)); err != nil {
			c.t.Errorf("%s: %v", filepath.Base(name), err)
		}
		r := warc.NewReader(bytes.NewReader(b))
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				c.t.Fatalf("%s: %v", filepath.Base(name), err)
			}
			switch rec.Type() {
			case warc.Response: // a page, and not an error or a redirect that was kept beside them
				if resp, err := http.ReadResponse(bufio.NewReader(rec.Body), nil); err != nil {
					c.t.Errorf("%s: %s: %v", filepath.Base(name), rec.URL(), err)
				} else if resp.StatusCode != http.StatusOK {
					continue
				}
			case warc.Revisit: // the first of its URL stands for a body that another URL has brought
				v := rec.URL() + " " + rec.Fields.Get("WARC-Payload-Digest")
				if of := rec.Fields.Get("WARC-Refers-To-Target-URI"); of == "" || of == rec.URL() || revisited[v] {
					continue
				}
				revisited[v] = true
			default:
				continue
			}
			d, ok := warc.ParseDigest(rec.Fields.Get("WARC-Payload-Digest"))
			if !ok {
				c.t.Errorf("%s: no digest of %s", filepath.Base(name), rec.URL())
			}
			versions[rec.URL()+" "+protocol.Digest(d).String()]++
		}
		r.Close()
	}
	for v, n := range versions {
		if n > 1 {
			c.t.Errorf("stored %d times: %s", n, v)
		}
	}
	if n == 0 {
		c.t.Error("there are no archives")
	}
	return versions
}

// verify wants a collection that was killed again and again to be whole: the
// content of each page, its archives, and the events that were read of it.
func (c *crawling) verify(x *indexer) inventory {
	c.t.Helper()
	list := x.finish()
	inv := c.inventory(list)
	c.mirrored(inv.held)
	if told := replay(c.t, list); !maps.Equal(told, inv.held) {
		c.t.Errorf("the events lead to %d pages, held are %d: they differ", len(told), len(inv.held))
	}
	versions := map[string]int{}
	for _, e := range list {
		if e.Op == protocol.Create || e.Op == protocol.Update {
			versions[e.URL+" "+e.Digest.String()]++
		}
	}
	c.t.Logf("%d pages, %d events, read by an indexer that was killed %d times", len(inv.pages), len(list), x.kills)
	if got := c.archived(); !maps.Equal(got, versions) {
		c.t.Errorf("%d versions are archived, %d were told: %s", len(got), len(versions), firstVersion(got, versions))
	}
	return inv
}

func firstVersion(got, want map[string]int) string {
	for _, v := range slices.Sorted(maps.Keys(want)) {
		if got[v] != want[v] {
			return fmt.Sprintf("told %d times, archived %d times: %s", want[v], got[v], v)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(got)) {
		if want[v] == 0 {
			return "archived and never told: " + v
		}
	}
	return "none"
}

// A paper is a site that tells nothing of itself and comes out in editions:
// pages that change, come, go and move, dead links, and copies.
type paper struct {
	*httptest.Server
	edition atomic.Int64
}

const paperPages = 300

func newPaper(t *testing.T) *paper {
	w := &paper{}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// answer is what a path answers in an edition: a status, and the body or where
// it has moved to.
func (w *paper) answer(path string, edition int) (int, string) {
	var n, of int
	switch {
	case path == "/":
	case path == "/robots.txt":
		return http.StatusOK, "User-agent: *\nDisallow: /secret/\n"
	case strings.HasPrefix(path, "/copy"):
		return http.StatusOK, "<!doctype html><title>copy</title><p>The same on every page of this name.</p>"
	default:
		fmt.Sscanf(path, "/extra%d-%d.html", &of, &n)
		if path == fmt.Sprintf("/extra%d-%d.html", of, n) && of <= edition {
			return http.StatusOK, fmt.Sprintf("<!doctype html><title>extra</title><p>An extra of edition %d, page %d. <a href=/>front page</a></p>", of, n)
		}
		fmt.Sscanf(path, "/p%d.html", &n)
		if path != fmt.Sprintf("/p%d.html", n) || n >= paperPages || n == 0 {
			return http.StatusNotFound, ""
		}
	}
	leaf := 3*n+1 >= paperPages
	switch {
	case leaf && n%31 == 7:
		return http.StatusMovedPermanently, fmt.Sprintf("/p%d.html", n*7%90+1)
	case leaf && n%37 == 9:
		return http.StatusNotFound, ""
	case n%41 == 11 && edition >= 1:
		return http.StatusGone, ""
	case n%43 == 13 && edition >= 2:
		return http.StatusNotFound, ""
	}
	changed := 0 // the last edition that changed it
	for e := 1; e <= edition; e++ {
		if n%5 == e%5 {
			changed = e
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><title>Page %d</title><p>Page %d, as of edition %d. %s</p>", n, n, changed, strings.Repeat("All is well. ", n%40))
	for i := 1; i <= 3 && 3*n+i < paperPages; i++ {
		fmt.Fprintf(&b, "<a href=p%d.html>%[1]d</a> ", 3*n+i)
	}
	fmt.Fprintf(&b, "<a href=/p%d.html>see also</a> <a href='/copy%d.html'>copy</a> <a href=secret/%d.html>secret</a>", n*13%paperPages, n%7, n%3)
	if changed > 0 {
		fmt.Fprintf(&b, " <a href=/extra%d-%d.html>extra</a>", changed, n)
	}
	return http.StatusOK, b.String()
}

func (w *paper) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	status, body := w.answer(r.URL.Path, int(w.edition.Load()))
	switch {
	case status == http.StatusMovedPermanently:
		rw.Header().Set("Location", body)
		body = ""
	case status == http.StatusOK:
		etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body)))
		rw.Header().Set("ETag", etag)
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/robots.txt" {
			rw.Header().Set("Content-Type", "text/plain")
		}
		if r.Header.Get("If-None-Match") == etag {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
	}
	rw.WriteHeader(status)
	io.WriteString(rw, body)
}

// readers is how the pages stand with somebody who has read all editions up
// to one, each of them whole.
func (w *paper) readers(edition int) map[string]string {
	m := map[string]string{w.URL + "/": ""}
	for e := range edition + 1 {
		for more := true; more; {
			more = false
			for u, was := range maps.Clone(m) {
				path := strings.TrimPrefix(u, w.URL)
				if was != "" && !strings.HasPrefix(was, "held ") {
					continue // it is not asked for again soon
				}
				status, body := w.answer(path, e)
				now := ""
				switch {
				case strings.HasPrefix(path, "/secret/"):
					now = "excluded"
				case status == http.StatusOK:
					now = "held " + protocol.Sum([]byte(body)).String()
				case status == http.StatusGone:
					now = "gone"
				case status == http.StatusMovedPermanently:
					now, body = "moved "+w.URL+body, "href="+body+">"
				case was != "":
					now = "failing"
				default:
					now = "refused"
				}
				if now == was {
					continue
				}
				m[u], more = now, true
				for _, part := range strings.Split(body, "href=")[1:] {
					to := strings.Trim(part[:strings.IndexByte(part, '>')], "'")
					if !strings.HasPrefix(to, "/") {
						to = "/" + to // there are no directories
					}
					if _, known := m[w.URL+to]; !known {
						m[w.URL+to] = ""
					}
				}
			}
		}
	}
	return m
}

// TestCrawlKilled kills crawlers at random instants, and those who read their
// events. Whatever is killed, in the end the collection is that of a crawler
// that nobody disturbed: no page is lost, none is stored twice, and no event
// is lost, told twice or out of order.
func TestCrawlKilled(t *testing.T) {
	n := kills(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	t.Run("crawl", func(t *testing.T) {
		t.Parallel()
		killCrawl(t, rand.New(rand.NewPCG(seed, 1)), max(1, n/4))
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		killRun(t, rand.New(rand.NewPCG(seed, 2)), max(1, n/2))
	})
	t.Run("told", func(t *testing.T) {
		t.Parallel()
		killTold(t, rand.New(rand.NewPCG(seed, 3)), max(1, n-n/4-n/2))
	})
}

// killCrawl kills crawls that end.
func killCrawl(t *testing.T, rnd *rand.Rand, n int) {
	site := newPaper(t)
	dir := t.TempDir()
	calm := &crawling{t: t, dir: filepath.Join(dir, "calm"), args: []string{"crawl", site.URL + "/"}}
	began := time.Now()
	calm.start()
	calm.finished()
	took := time.Since(began)
	if diff := calm.stands(); !maps.Equal(diff, site.readers(0)) {
		t.Fatalf("undisturbed: %s", firstDifference(diff, site.readers(0)))
	}
	want := calm.inventory(nil)
	for round := 0; n > 0; round++ {
		c := &crawling{t: t, dir: filepath.Join(dir, fmt.Sprint("killed", round)), args: append(slices.Clone(calm.args),
			"--strategy", []string{"breadth-first", "opic", "larger-sites-first"}[round%3], "--coding", []string{"gzip", "none", "zstd"}[round%3])}
		x := startIndexer(t, c.dir)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		seed := rnd.Uint64()
		others.Go(func() { x.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
		c.start()
		for n > 0 {
			time.Sleep(time.Duration(rnd.Int64N(int64(took)))) // a random instant
			if !c.kill() {
				break
			}
			n--
			c.start()
		}
		c.finished()
		stop()
		others.Wait()
		same(t, c.verify(x), want)
	}
}

func same(t *testing.T, got, want inventory) {
	t.Helper()
	if !maps.Equal(got.pages, want.pages) {
		t.Errorf("the collection is not that of an undisturbed crawl: %s", firstDifference(got.pages, want.pages))
	}
}

// killRun kills crawlers that go on, while new editions appear.
func killRun(t *testing.T, rnd *rand.Rand, n int) {
	const editions = 2
	site := newPaper(t)
	for round := 0; n > 0; round++ {
		site.edition.Store(0)
		dir := t.TempDir()
		args := []string{"run", site.URL + "/", "--policy", "thesis", "--min-period", "1s", "--max-period", "1s"}
		calm := &crawling{t: t, dir: filepath.Join(dir, "calm"), args: args}
		c := &crawling{t: t, dir: filepath.Join(dir, "killed"), args: append(slices.Clone(args), "--max-warc", "200KB",
			"--coding", []string{"none", "zstd", "gzip"}[round%3], "--store", []string{"both", "warc"}[round%2])}
		x := startIndexer(t, c.dir)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		seed := rnd.Uint64()
		others.Go(func() { x.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
		calm.start()
		c.start()
		for e := range editions + 1 {
			site.edition.Store(int64(e))
			want := func() map[string]string { return site.readers(e) }
			for k := 0; k < 2 && n > 0; k++ {
				time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // a random instant
				if !c.kill() {
					t.Fatalf("the crawler has ended\n%s", c.p.said())
				}
				n--
				c.start()
			}
			calm.until(fmt.Sprint("undisturbed, edition ", e), want, every)
			c.until(fmt.Sprint("killed, edition ", e), want, every)
		}
		calm.stop()
		c.stop()
		stop()
		others.Wait()
		same(t, c.verify(x), calm.inventory(nil))
	}
}

// killTold kills crawlers of a site that tells of its changes, while it changes.
func killTold(t *testing.T, rnd *rand.Rand, n int) {
	version := 0
	page := func(i int) string {
		version++
		return fmt.Sprintf("<!doctype html><title>Page %d</title><p>Page %[1]d, version %d. <a href=/p%d.html>next</a> <a href=/lost%d.html>lost</a></p>",
			i, version, (i+1)%120, i%9)
	}
	files := map[string]string{}
	for i := range 80 {
		files[fmt.Sprintf("p%d.html", i)] = page(i)
	}
	files["index.html"] = page(120)
	site := sitetest.NewSite(t, files)
	site.Watch()
	want := func() map[string]string {
		m := map[string]string{}
		for u, body := range site.Pages() {
			m[u] = "held " + protocol.Sum([]byte(body)).String()
		}
		return m
	}
	for round := 0; n > 0; round++ {
		dir := t.TempDir()
		args := []string{"run", site.Base, "--coding", "none"}
		calm := &crawling{t: t, dir: filepath.Join(dir, "calm"), args: args}
		c := &crawling{t: t, dir: filepath.Join(dir, "killed"), args: args}
		x := startIndexer(t, c.dir)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		seed := rnd.Uint64()
		others.Go(func() { x.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
		edits := rand.New(rand.NewPCG(seed, 2))
		calm.start()
		c.start()
		others.Go(func() {
			moved := round << 20
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(edits.IntN(20)) * time.Millisecond): // as people edit
				}
				i := edits.IntN(120)
				name := fmt.Sprintf("p%d.html", i)
				_, err := os.Stat(filepath.Join(site.Dir, name))
				switch k := edits.IntN(10); {
				case k < 7 || err != nil:
					site.Write(name, page(i))
				case k < 9:
					site.Remove(name)
				default:
					moved++
					site.Rename(name, fmt.Sprintf("moved/m%d.html", moved))
				}
			}
		})
		for k := 0; k < 4 && n > 0; k++ {
			time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // a random instant
			if !c.kill() {
				t.Fatalf("the crawler has ended\n%s", c.p.said())
			}
			n--
			c.start()
		}
		x.until(150) // so that it was told of changes, not of a snapshot alone
		stop()
		others.Wait()
		calm.until("undisturbed", want, onlyHeld)
		c.until("killed", want, onlyHeld)
		calm.stop()
		c.stop()
		got, other := c.verify(x), calm.inventory(nil)
		if !maps.Equal(got.held, other.held) {
			t.Errorf("%d pages are held, and by an undisturbed crawler %d", len(got.held), len(other.held))
		}
		for u := range got.held {
			// A renamed page is a copy for whoever had it before the old name was gone.
			if got.pages[u] != other.pages[u] && got.copies[u] == other.copies[u] {
				t.Errorf("%s is %s, and of an undisturbed crawl %s", u, got.pages[u], other.pages[u])
			}
		}
	}
}
