package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/versions"
)

// A depot is a docroot whose archive is to be had at a door.
type depot struct {
	*testing.T
	dir, root string
	site      *server.Site
	journal   *server.Journal
	publisher *server.Publisher
	maker     *archive.Maker
	notifier  *server.Notifier
	web       *httptest.Server
	base      string

	mu  sync.Mutex // guards what follows
	now time.Time
	// before is called before a page is read.
	before func(url string)

	judges func(name string) // is called before it is said what a caller may have
}

func newDepot(t *testing.T, change ...func(*archive.Maker)) *depot {
	t.Helper()
	d := &depot{T: t, dir: t.TempDir(), now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	d.root = filepath.Join(d.dir, "www")
	d.web = httptest.NewUnstartedServer(nil)
	d.base = "http://" + d.web.Listener.Addr().String() + "/"
	for i := range 20 {
		d.write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprintf("<title>Page %d</title><p>%s", i, strings.Repeat("text ", i*50)))
	}
	d.write("index.html", "<title>Home</title>")
	d.write("empty.html", "")
	d.site = &server.Site{Docroot: d.root, Base: d.base}
	var err error
	d.journal, err = server.OpenJournal(t.Context(), filepath.Join(d.dir, "state"), server.JournalOptions{Base: d.base, Now: d.clock})
	d.must(err)
	snapshot := &server.Snapshot{Path: filepath.Join(d.dir, "robots.rdf"), Manifest: server.Describe(d.base), Public: d.site.Public}
	d.publisher = &server.Publisher{Inventory: d.site, Journal: d.journal, Snapshot: snapshot}
	pages := pagesOf{d, &versions.Store{Journal: d.journal, Open: d.site.OpenPage, Public: d.site.Public}}
	d.maker = &archive.Maker{Dir: filepath.Join(d.dir, "archive"), Base: d.base, Journal: d.journal, Pages: pages, Public: d.site.Public, Now: d.clock}
	for _, f := range change {
		f(d.maker)
	}
	d.notifier = &server.Notifier{Log: d.journal, Snapshot: snapshot, Base: d.base, Public: d.site.Public, Pages: pages, Archive: d.maker,
		Identify: func(r *http.Request) (server.Caller, error) { return server.Caller{Name: r.Header.Get("X-Name")}, nil },
		PublicTo: func(name, url string) bool {
			if d.judges != nil {
				d.judges(name)
			}
			return name != "shutout" || !strings.Contains(url, "/d2/")
		}}
	d.web.Config.Handler = d.notifier
	d.web.Start()
	t.Cleanup(func() {
		d.web.CloseClientConnections()
		d.must(d.notifier.Close(context.Background()))
		d.web.Close()
		d.must(d.journal.Close())
	})
	d.publish()
	return d
}

// pagesOf lets a test change the site while it is being packed.
type pagesOf struct {
	d *depot
	*versions.Store
}

func (p pagesOf) Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	p.d.mu.Lock()
	before := p.d.before
	p.d.mu.Unlock()
	if before != nil {
		before(item.URL)
	}
	return p.Store.Page(ctx, item, max)
}

func (d *depot) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *depot) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *depot) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *depot) write(name, text string) {
	d.Helper()
	p := filepath.Join(d.root, name)
	d.must(os.MkdirAll(filepath.Dir(p), 0o755))
	d.must(os.WriteFile(p+".new", []byte(text), 0o644))
	d.must(os.Rename(p+".new", p))
}

func (d *depot) publish() protocol.Cursor {
	d.Helper()
	_, err := d.publisher.AcceptDeletions(d.Context())
	d.must(err)
	return d.journal.Head()
}

// run runs the maker until the test ends, or until what it returns is called.
func (d *depot) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.maker.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				d.Error(err)
			}
		})
	}
	d.Cleanup(stop)
	return stop
}

// next waits until there is another archive than one.
func (d *depot) next(than server.Archived) server.Archived {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 20*time.Second)
	defer cancel()
	d.must(d.maker.Wait(ctx, than))
	a, ok := d.maker.Latest()
	if !ok {
		d.Fatal("there is none after all")
	}
	return a
}

func (d *depot) get(ref string, header ...string) (*http.Response, []byte) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), "GET", d.base+ref, nil)
	d.must(err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	d.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	d.must(err)
	return resp, b
}

// pages is what the site holds, by URL.
func (d *depot) pages() map[string]string {
	d.Helper()
	pages := map[string]string{}
	d.must(filepath.WalkDir(d.root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".html") {
			return err
		}
		b, err := os.ReadFile(p)
		pages[d.base+strings.TrimSuffix(filepath.ToSlash(p[len(d.root)+1:]), "index.html")] = string(b)
		return err
	}))
	return pages
}

// unpack returns what an archive holds, by URL, with nothing where the bytes
// of a page are not in it. It checks everything that can be.
func (d *depot) unpack(a server.Archived, b []byte) (pages map[string]string, without []string) {
	t := d.T
	t.Helper()
	if int64(len(b)) != a.Length || protocol.Sum(b) != a.Digest {
		t.Errorf("%d bytes of %v, not %d of %v", len(b), protocol.Sum(b), a.Length, a.Digest)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	d.must(err)
	files := map[string][]byte{}
	for _, f := range z.File {
		if f.Method != zip.Store {
			t.Errorf("%s is not stored as it is", f.Name)
		}
		in, err := f.Open()
		d.must(err)
		files[f.Name], err = io.ReadAll(in) // which checks its sum
		d.must(err)
	}

	var p struct {
		Profile   string
		Version   string `json:"wacz_version"`
		Resources []struct {
			Name, Path, Hash string
			Bytes            int
		}
		Parley struct {
			Cursor        protocol.Cursor
			Items, Bodies int
		}
	}
	d.must(json.Unmarshal(files["datapackage.json"], &p))
	if p.Profile != "data-package" || p.Version != "1.1.1" || p.Parley.Cursor != a.Cursor || p.Parley.Items != a.Items || len(p.Resources) != 3 {
		t.Errorf("datapackage.json: %s", files["datapackage.json"])
	}
	for _, r := range p.Resources {
		if hash := fmt.Sprintf("sha256:%x", sha256.Sum256(files[r.Path])); r.Hash != hash || r.Bytes != len(files[r.Path]) || r.Name != filepath.Base(r.Path) {
			t.Errorf("%s has %s and %d bytes", r.Path, hash, len(files[r.Path]))
		}
	}
	var seal struct{ Path, Hash string }
	d.must(json.Unmarshal(files["datapackage-digest.json"], &seal))
	if seal.Path != "datapackage.json" || seal.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(files["datapackage.json"])) {
		t.Errorf("datapackage-digest.json: %+v", seal)
	}

	data := files["archive/data.warc.gz"]
	if _, err := warc.Validate(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	r, err := bundle.NewReader(bytes.NewReader(data), bundle.Limits{})
	d.must(err)
	defer r.Close()
	pages = map[string]string{}
	var stated []string
	for p, err := range r.Pages() {
		d.must(err)
		stated = append(stated, p.Change.Item.URL)
		if p.Body == nil {
			without = append(without, p.Change.Item.URL)
			continue
		}
		pages[p.Change.Item.URL] = string(p.Body)
	}
	if r.Head.To != a.Cursor || len(stated) != a.Items || p.Parley.Bodies != len(pages) || r.Refused > 0 {
		t.Errorf("%d items at %v, %d bodies, %d refused; the archive: %+v", len(stated), r.Head.To, len(pages), r.Refused, p.Parley)
	}

	var listed []string
	for line := range strings.Lines(string(files["pages/pages.jsonl"])) {
		var p struct{ URL, TS string }
		d.must(json.Unmarshal([]byte(line), &p))
		if p.URL == "" {
			continue // the first
		}
		if _, err := time.Parse(time.RFC3339, p.TS); err != nil {
			t.Error(err)
		}
		listed = append(listed, p.URL)
	}
	if !slices.Equal(listed, stated) || !slices.IsSortedFunc(stated, protocol.Compare) {
		t.Errorf("pages.jsonl lists %v, the data %v", listed, stated)
	}

	// Each page is found by the index alone.
	at := t.TempDir()
	d.must(os.WriteFile(filepath.Join(at, "data.warc.gz"), data, 0o644))
	in, err := coding.NewReader(bytes.NewReader(files["indexes/index.cdx.gz"]))
	d.must(err)
	cdxj, err := io.ReadAll(in)
	d.must(err)
	if !slices.IsSorted(slices.Collect(strings.Lines(string(cdxj)))) {
		t.Error("the index is not sorted")
	}
	d.must(os.WriteFile(filepath.Join(at, "data.warc.gz.cdxj"), cdxj, 0o644))
	for url, text := range pages {
		found, err := (&warc.Index{Dir: at}).Lookup(url)
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", url, found, err)
			continue
		}
		rec, err := warc.Open(at, found[0].Place)
		d.must(err)
		m, err := warc.ReadMessage(rec.Body)
		d.must(err)
		body, err := io.ReadAll(m.Body)
		if err != nil || string(body) != text || rec.Type() != warc.Response || rec.URL() != url || m.Status != 200 {
			t.Errorf("%s at %v: %s of %s, %d, %v", url, found[0].Place, rec.Type(), rec.URL(), m.Status, err)
		}
		rec.Close()
	}
	return pages, without
}

// The archive holds what the manifest lists, to the byte (C11).
func TestWholeSite(t *testing.T) {
	d := newDepot(t)
	d.write("private/p.html", "<p>secret")
	d.write("robots.txt", "User-agent: *\nDisallow: /private/\n")
	d.publish()
	if resp, b := d.get("parley/site.wacz"); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("before there is one: %s: %s", resp.Status, b)
	}
	d.run()
	a := d.next(server.Archived{})
	resp, b := d.get("parley/site.wacz")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/wacz" || resp.Header.Get("Parley-Cursor") != a.Cursor.String() || resp.Header.Get("Repr-Digest") != a.Digest.String() {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	pages, without := d.unpack(a, b)
	want := d.pages()
	delete(want, d.base+"private/p.html")
	if !maps.Equal(pages, want) || len(without) > 0 || a.Cursor != d.journal.Head() {
		t.Errorf("%d pages at %v, without %v", len(pages), a.Cursor, without)
	}
	if bytes.Contains(b, []byte("private")) {
		t.Error("what is forbidden is in it")
	}
	tool, err := exec.LookPath("unzip")
	if err != nil {
		t.Skip("no unzip on this machine")
	}
	name := filepath.Join(t.TempDir(), "site.wacz")
	d.must(os.WriteFile(name, b, 0o644))
	if out, err := exec.Command(tool, "-tq", name).CombinedOutput(); err != nil {
		t.Errorf("unzip: %v: %s", err, out)
	}
}

// A download that was cut is continued, also when there is a newer archive by
// then; and each can be asked for by where it stands, as long as it is kept.
func TestResume(t *testing.T) {
	d := newDepot(t)
	d.run()
	first := d.next(server.Archived{})
	resp, whole := d.get("parley/site.wacz")
	etag := resp.Header.Get("Etag")
	if resp, b := d.get("parley/site.wacz", "If-None-Match", etag); resp.StatusCode != 304 || len(b) > 0 {
		t.Errorf("of the one that is known: %s", resp.Status)
	}
	renew := func(than server.Archived) server.Archived {
		for i := range 20 {
			d.write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprint("<p>after ", than.Cursor, i))
		}
		d.publish()
		d.pass(time.Hour)
		return d.next(than)
	}
	second := renew(first)
	at := "parley/site.wacz?at=" + url.QueryEscape(first.Cursor.String())
	for _, ref := range []string{"parley/site.wacz", at} {
		resp, rest := d.get(ref, "Range", "bytes=1000-", "If-Range", etag)
		if resp.StatusCode != 206 || !bytes.Equal(rest, whole[1000:]) || resp.Header.Get("Etag") != etag {
			t.Errorf("%s: %s: %d bytes of %s", ref, resp.Status, len(rest), resp.Header.Get("Etag"))
		}
	}
	resp, b := d.get("parley/site.wacz")
	if pages, _ := d.unpack(second, b); !maps.Equal(pages, d.pages()) || resp.Header.Get("Etag") == etag {
		t.Errorf("%d pages of %s", len(pages), resp.Header.Get("Etag"))
	}
	third := renew(second)
	if resp, b := d.get(at); resp.StatusCode != http.StatusGone || !strings.Contains(string(b), "newest") {
		t.Errorf("of one that is not kept: %s: %s", resp.Status, b)
	}
	if resp, b := d.get("parley/site.wacz", "Range", "bytes=1000-", "If-Range", etag); resp.StatusCode != 200 || protocol.Sum(b) != third.Digest {
		t.Errorf("a part of one that is not kept: %s", resp.Status)
	}
	if list, _ := filepath.Glob(filepath.Join(d.dir, "archive", "*")); len(list) != 2 {
		t.Errorf("on the disk are %v", list)
	}
}

// What changes while the site is packed is left out, and follows as a change.
func TestChangesMeanwhile(t *testing.T) {
	d := newDepot(t)
	changed := d.base + "d1/p4.html"
	d.mu.Lock()
	d.before = func(url string) {
		if url == changed {
			d.write("d1/p4.html", "<p>other bytes")
		}
	}
	d.mu.Unlock()
	d.run()
	a := d.next(server.Archived{})
	_, b := d.get("parley/site.wacz")
	pages, without := d.unpack(a, b)
	if !slices.Equal(without, []string{changed}) || len(pages) != len(d.pages())-1 {
		t.Errorf("%d pages, without %v", len(pages), without)
	}
	d.publish()
	changes, err := d.journal.Read(t.Context(), a.Cursor, 0)
	if err != nil || len(changes) != 1 || changes[0].Item.URL != changed {
		t.Errorf("after it follow %+v, %v", changes, err)
	}
}

// What is not public any more takes the archive with it, at once.
func TestPrivacy(t *testing.T) {
	d := newDepot(t)
	stop := d.run()
	a := d.next(server.Archived{})
	at := "parley/site.wacz?at=" + url.QueryEscape(a.Cursor.String())
	stop()
	d.write("robots.txt", "User-agent: *\nDisallow: /d1/\n")
	d.publish()
	d.pass(time.Minute)
	for _, ref := range []string{at, "parley/site.wacz"} {
		if resp, b := d.get(ref); resp.StatusCode < 400 || bytes.Contains(b, []byte("/d1/")) {
			t.Errorf("%s: %s", ref, resp.Status)
		}
	}
	if _, ok := d.maker.Latest(); ok {
		t.Error("it may still be given to anybody")
	}
	if list, _ := filepath.Glob(filepath.Join(d.dir, "archive", "*.wacz")); len(list) != 0 {
		t.Errorf("on the disk are %v", list)
	}
	d.run()
	d.pass(time.Hour)
	b := d.next(server.Archived{})
	_, content := d.get("parley/site.wacz")
	if pages, _ := d.unpack(b, content); len(pages) != 15 || bytes.Contains(content, []byte("/d1/")) {
		t.Errorf("%d pages", len(pages))
	}
}

// A page that is taken away is in no archive for longer than it takes to make
// another, and one that nobody has asked for is not given to whoever asks late.
func TestPagesThatGo(t *testing.T) {
	d := newDepot(t)
	d.write("secret.html", "<p>the password is 12345")
	d.publish()
	stop := d.run()
	a := d.next(server.Archived{})
	holds := func() bool {
		t.Helper()
		resp, b := d.get("parley/site.wacz")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %.200s", resp.Status, b)
		}
		pages, _ := d.unpack(server.Archived{Cursor: a.Cursor, Items: a.Items, Length: int64(len(b)), Digest: protocol.Sum(b)}, b)
		return pages[d.base+"secret.html"] != ""
	}
	if !holds() {
		t.Fatal("the page is not in the archive")
	}
	d.must(os.Remove(filepath.Join(d.root, "secret.html")))
	d.publish()
	d.pass(9 * time.Minute)
	if now, ok := d.maker.Latest(); !ok || now != a || d.maker.Coming() {
		t.Errorf("another so soon: %+v", now)
	}
	d.pass(2 * time.Minute)
	a = d.next(a)
	if holds() {
		t.Error("the page is in the next archive too")
	}
	// Nobody asks, and nothing is made for that.
	stop()
	d.must(os.Remove(filepath.Join(d.root, "d0/p0.html")))
	d.publish()
	d.pass(time.Hour)
	if now, ok := d.maker.Latest(); !ok || now != a {
		t.Errorf("an hour later: %+v", now)
	}
	d.pass(24 * time.Hour)
	if now, ok := d.maker.Latest(); ok {
		t.Errorf("a day later: %+v", now)
	}
	if resp, b := d.get("parley/site.wacz?at=" + url.QueryEscape(a.Cursor.String())); resp.StatusCode != 410 {
		t.Errorf("%s: %.200s", resp.Status, b)
	}
	// Nor by a process that finds it there.
	d.run()
	b := d.next(server.Archived{})
	d.write("d1/p1.html", "<p>gone with the next look")
	d.must(os.Remove(filepath.Join(d.root, "d1/p1.html")))
	d.publish()
	d.pass(25 * time.Hour)
	again := &archive.Maker{Dir: d.maker.Dir, Base: d.base, Journal: d.journal, Pages: d.maker.Pages, Public: d.site.Public, Now: d.clock}
	if st := again.Stats(); st.Cursor != b.Cursor || st.Items != b.Items || st.Bytes != b.Length {
		t.Errorf("it is said to be %+v", st)
	}
	if now, ok := again.Latest(); ok {
		t.Errorf("after a restart: %+v", now)
	}
}

// Whoever only wants to know how things stand has nothing made.
func TestStatsMakeNothing(t *testing.T) {
	d := newDepot(t)
	d.run()
	for range 10 {
		if st := d.maker.Stats(); st != (archive.Stats{}) {
			t.Fatalf("%+v", st)
		}
	}
	if d.maker.Coming() {
		t.Error("an archive is being made that nobody wants")
	}
	a := d.next(server.Archived{})
	if st := d.maker.Stats(); st.Made != 1 || st.Cursor != a.Cursor || st.Items != a.Items || st.Bytes != a.Length {
		t.Errorf("%+v", st)
	}
}

// An archive is made again when most of the site has changed, not sooner than
// the least time after the one before, and not for less.
func TestWhenItIsDue(t *testing.T) {
	d := newDepot(t)
	d.run()
	a := d.next(server.Archived{})
	edit := func(n, text int) {
		for i := range n {
			d.write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprint("<p>", text))
		}
		d.publish()
	}
	edit(10, 1) // of 22
	d.pass(time.Hour)
	if now, ok := d.maker.Latest(); !ok || now != a || d.maker.Coming() {
		t.Errorf("ten changes make another: %+v", now)
	}
	edit(3, 2)
	d.pass(-59 * time.Minute)
	if _, ok := d.maker.Latest(); !ok || d.maker.Coming() {
		t.Error("another so soon")
	}
	d.pass(59 * time.Minute)
	if b := d.next(a); b.Cursor != d.journal.Head() {
		t.Errorf("%+v", b)
	}
}

// A restart takes over what is there; what a killed process left of an
// archive goes, and so does an archive of another epoch.
func TestRestart(t *testing.T) {
	d := newDepot(t)
	stop := d.run()
	a := d.next(server.Archived{})
	stop()
	dir := d.maker.Dir
	d.must(os.WriteFile(filepath.Join(dir, ".site-123.tmp"), []byte("half"), 0o600))
	d.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("site.otherepoch.7.3.%x.wacz", a.Digest[:])), []byte("PK"), 0o600))
	d.must(os.WriteFile(filepath.Join(dir, "note.txt"), []byte("of a person"), 0o600))
	again := &archive.Maker{Dir: dir, Base: d.base, Journal: d.journal, Pages: d.maker.Pages, Public: d.site.Public}
	if b, ok := again.Latest(); ok {
		t.Errorf("nobody has looked at it, and it is given: %+v", b)
	}
	d.maker = again
	d.run()
	if b := d.next(server.Archived{}); b != a || again.Stats().Made != 0 {
		t.Errorf("%+v, %+v", b, again.Stats())
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// Ranges by the thousand are refused.
func TestManyRanges(t *testing.T) {
	d := newDepot(t)
	d.run()
	d.next(server.Archived{})
	many := "bytes=0-0" + strings.Repeat(",5-6", 1000)
	if resp, b := d.get("parley/site.wacz", "Range", many); resp.StatusCode != 416 || !strings.Contains(string(b), "ranges") {
		t.Errorf("%s: %s", resp.Status, b)
	}
	if resp, b := d.get("parley/site.wacz", "Range", "bytes=0-3,8-9"); resp.StatusCode != 206 || !strings.Contains(string(b), "PK") {
		t.Errorf("two ranges: %s", resp.Status)
	}
	if resp, b := d.get("parley/site.wacz?at=x"); resp.StatusCode != 400 || !strings.Contains(string(b), "cursor") {
		t.Errorf("no cursor: %s: %s", resp.Status, b)
	}
}

// Whoever comes first is told of the archive, and so is whoever has missed
// most of the site; with it each has everything in one transfer (C12).
func TestAnnouncement(t *testing.T) {
	d := newDepot(t)
	const door = "parley/changes?as=site&after="
	if resp, b := d.get(door + "0:0"); resp.StatusCode != 503 {
		t.Errorf("before there is one: %s: %s", resp.Status, b)
	}
	d.run()
	a := d.next(server.Archived{})
	message := func(ref string) protocol.Message {
		t.Helper()
		resp, b := d.get(ref)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s: %s", ref, resp.Status, b)
		}
		m, err := protocol.ParseMessage(bytes.TrimSpace(b))
		d.must(err)
		return m
	}
	m := message(door + "0:0")
	if m.Kind != protocol.Archive || m.To != a.Cursor || m.N != a.Items || m.Body.Digest != a.Digest || m.Body.Length != a.Length {
		t.Fatalf("%+v", m)
	}
	_, b := d.get(strings.TrimPrefix(m.Body.Href, d.base))
	if pages, _ := d.unpack(a, b); !maps.Equal(pages, d.pages()) {
		t.Error("one transfer does not make a mirror")
	}
	d.write("d0/p0.html", "<p>one change")
	d.publish()
	if m := message(door + a.Cursor.String()); m.Kind != protocol.Batch || len(m.Changes) != 1 {
		t.Errorf("one change is told as %s", m.Kind)
	}
	for i := range 20 {
		d.write("d0/p0.html", fmt.Sprint("<p>the same page again ", i))
		d.publish()
	}
	if m := message(door + a.Cursor.String()); m.Kind != protocol.Batch || len(m.Changes) != 21 {
		t.Errorf("many changes of one page are told as %s", m.Kind)
	}
	for i := range 20 {
		d.write(fmt.Sprintf("d%d/p%d.html", i%3, i), "<p>a new design")
	}
	d.publish()
	d.pass(time.Hour)
	d.next(a)
	if m := message(door + a.Cursor.String()); m.Kind != protocol.Archive || m.To != d.journal.Head() {
		t.Errorf("a new design is told as %s to %v", m.Kind, m.To)
	}
	if m := message(door + "otherepoch:7"); m.Kind != protocol.Archive {
		t.Errorf("a lost cursor is told as %s", m.Kind)
	}
}

// Who has rules of his own in robots.txt gets no archive that holds what they forbid.
func TestRulesOfOneCaller(t *testing.T) {
	d := newDepot(t)
	d.run()
	d.next(server.Archived{})
	for name, status := range map[string]int{"": 200, "friend": 200, "shutout": 403} {
		if resp, b := d.get("parley/site.wacz", "X-Name", name); resp.StatusCode != status {
			t.Errorf("%q: %s: %.100s", name, resp.Status, b)
		}
	}
	if resp, b := d.get("parley/changes?as=site&after=0:0", "X-Name", "shutout"); resp.StatusCode != 403 {
		t.Errorf("%s: %s", resp.Status, b)
	}
}

// One caller is judged once, however many ask in that name, and holds up nobody else.
func TestJudgedOnce(t *testing.T) {
	d := newDepot(t)
	d.run()
	a := d.next(server.Archived{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	var judged atomic.Int64
	d.judges = func(name string) {
		if name == "slow" && judged.Add(1) == 1 {
			close(begun)
			<-goOn
		}
	}
	var wait sync.WaitGroup
	answers := make(chan int, 3)
	ask := func() {
		wait.Go(func() {
			req, err := http.NewRequest("HEAD", d.base+"parley/site.wacz", nil)
			if err == nil {
				req.Header.Set("X-Name", "slow")
				var resp *http.Response
				if resp, err = http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
					answers <- resp.StatusCode
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	ask()
	<-begun
	for range 2 {
		ask()
	}
	if resp, b := d.get("parley/site.wacz", "X-Name", "friend"); resp.StatusCode != 200 {
		t.Errorf("while another is judged: %s: %.100s", resp.Status, b)
	}
	close(goOn)
	wait.Wait()
	close(answers)
	n := 0
	for status := range answers {
		if n++; status != 200 {
			t.Errorf("%d", status)
		}
	}
	if n != 3 || judged.Load() > int64(a.Items) {
		t.Errorf("%d answers, for which %d URLs of %d were judged", n, judged.Load(), a.Items)
	}
}

// An archive whose bytes are not what they were is given to nobody, and another
// is made.
func TestRottenArchive(t *testing.T) {
	d := newDepot(t)
	stop := d.run()
	a := d.next(server.Archived{})
	stop()
	names, err := filepath.Glob(filepath.Join(d.maker.Dir, "site.*.wacz"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	b, err := os.ReadFile(names[0])
	d.must(err)
	at := bytes.Index(b, []byte("archive/data.warc.gz")) + 200 // within the data: the directory and pages.jsonl are good
	whole := bytes.Clone(b)
	for i := range 100 {
		b[at+i] ^= 0x55
	}
	d.must(os.WriteFile(names[0], b, 0o600))
	d.maker = &archive.Maker{Dir: d.maker.Dir, Base: d.base, Journal: d.journal, Pages: d.maker.Pages, Public: d.site.Public}
	d.notifier.Archive = d.maker
	if resp, _ := d.get("parley/site.wacz"); resp.StatusCode != 503 {
		t.Errorf("before anybody has looked at it: %s", resp.Status)
	}
	if resp, _ := d.get("parley/site.wacz?at=" + a.Cursor.String()); resp.StatusCode != 410 {
		t.Errorf("by its cursor: %s", resp.Status)
	}
	if resp, _ := d.get("parley/site.wacz", "If-Range", fmt.Sprintf(`"%x"`, a.Digest[:16]), "Range", "bytes=100-"); resp.StatusCode != 503 {
		t.Errorf("going on with it: %s", resp.Status)
	}
	d.run()
	if n := d.next(server.Archived{}); n != a || d.maker.Stats().Made != 1 {
		t.Errorf("%+v instead of %+v, %+v", n, a, d.maker.Stats())
	}
	resp, got := d.get("parley/site.wacz")
	if resp.StatusCode != 200 || protocol.Sum(got) != a.Digest || !bytes.Equal(got, whole) {
		t.Errorf("%s: %d bytes", resp.Status, len(got))
	}
}

// On a disk that is nearly full no archive is made, which is said once, and
// nothing is left behind.
func TestReserve(t *testing.T) {
	var said bytes.Buffer
	d := newDepot(t, func(m *archive.Maker) {
		m.Reserve, m.Logger = math.MaxInt64, slog.New(slog.NewTextHandler(&said, nil))
	})
	stop := d.run()
	for tried := 1; tried <= 3; tried++ {
		if a, ok := d.maker.Latest(); ok {
			t.Fatalf("%+v", a)
		}
		for end := time.Now().Add(20 * time.Second); d.maker.Stats().Failed < tried || d.maker.Coming(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%+v", d.maker.Stats())
			}
		}
		d.pass(time.Hour)
	}
	stop()
	list, err := os.ReadDir(d.maker.Dir)
	if err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "nearly full") {
		t.Errorf("it says %s", &said)
	}
}

// Where no archive can stand that is said at once.
func TestNoPlace(t *testing.T) {
	d := newDepot(t, func(m *archive.Maker) {
		if err := os.WriteFile(m.Dir, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if err := d.maker.Open(); err == nil {
		t.Error("it can be opened")
	}
	if a, ok := d.maker.Latest(); ok {
		t.Errorf("%+v", a)
	}
	if err := d.maker.Run(t.Context()); err == nil || t.Context().Err() != nil {
		t.Errorf("it ran: %v", err)
	}
}
