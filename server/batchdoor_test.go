package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/versions"
)

// A depot is a docroot with doors at which pages are handed over.
type depot struct {
	*testing.T
	root      string
	journal   *server.Journal
	publisher *server.Publisher
	notifier  *server.Notifier
	web       *httptest.Server
	base      string
}

func newDepot(t *testing.T, change ...func(*server.Notifier)) *depot {
	t.Helper()
	dir := t.TempDir()
	d := &depot{T: t, root: filepath.Join(dir, "www")}
	d.web = httptest.NewUnstartedServer(nil)
	d.base = "http://" + d.web.Listener.Addr().String() + "/"
	d.write("a.html", "<p>a")
	site := &server.Site{Docroot: d.root, Base: d.base}
	var err error
	d.journal, err = server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: d.base})
	d.must(err)
	snapshot := &server.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: server.Describe(d.base), Public: site.Public}
	d.publisher = &server.Publisher{Inventory: site, Journal: d.journal, Snapshot: snapshot}
	d.notifier = &server.Notifier{Log: d.journal, Snapshot: snapshot, Base: d.base, Public: site.Public,
		Pages: &versions.Store{Journal: d.journal, Open: site.OpenPage, Public: site.Public},
		Item: func(url string) (protocol.Item, bool, error) {
			e, ok, err := d.journal.Get(url)
			return e.Item, ok, err
		}}
	for _, f := range change {
		f(d.notifier)
	}
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

// pages is what the site holds, by URL.
func (d *depot) pages() map[string]string {
	d.Helper()
	pages := map[string]string{}
	d.must(filepath.WalkDir(d.root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".html") {
			return err
		}
		b, err := os.ReadFile(p)
		pages[d.base+filepath.ToSlash(p[len(d.root)+1:])] = string(b)
		return err
	}))
	return pages
}

// ask sends a request to a door.
func (d *depot) ask(method, ref, mediaType, body string) (*http.Response, []byte) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.base+ref, strings.NewReader(body))
	d.must(err)
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := http.DefaultClient.Do(req)
	d.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	d.must(err)
	return resp, b
}

// unpack reads a bundle, which must be a valid archive too.
func (d *depot) unpack(b []byte) (bundle.Head, []bundle.Page) {
	d.Helper()
	if _, err := warc.Validate(bytes.NewReader(b)); err != nil {
		d.Error(err)
	}
	r, err := bundle.NewReader(bytes.NewReader(b), bundle.Limits{})
	d.must(err)
	defer r.Close()
	var list []bundle.Page
	for p, err := range r.Pages() {
		d.must(err)
		list = append(list, p)
	}
	if r.Refused > 0 {
		d.Errorf("%d pages with other digests", r.Refused)
	}
	return r.Head, list
}

func (d *depot) batch(ref string) (bundle.Head, []bundle.Page) {
	d.Helper()
	resp, b := d.ask("GET", ref, "", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != bundle.MediaType {
		d.Fatalf("%s: %s: %.300s", ref, resp.Status, b)
	}
	head, list := d.unpack(b)
	if resp.Header.Get("Parley-Cursor") != head.To.String() {
		d.Errorf("Parley-Cursor %s of a bundle to %v", resp.Header.Get("Parley-Cursor"), head.To)
	}
	return head, list
}

// A mirror is kept by bundles alone.
type pageMirror map[string]string

func (m pageMirror) apply(t *testing.T, list []bundle.Page) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range list {
		url := p.Change.Item.URL
		switch {
		case seen[url]:
			t.Errorf("%s is there twice", url)
		case p.Change.Op == protocol.Delete:
			delete(m, url)
		case p.Body == nil:
			t.Errorf("%s came without its page: %+v", url, p.Change)
		default:
			m[url] = string(p.Body)
		}
		seen[url] = true
	}
}

// Whatever happens to a site, a mirror that is kept by batches is the same to the byte.
func TestBatchesKeepAMirror(t *testing.T) {
	d := newDepot(t)
	r := rand.New(rand.NewPCG(7, 11))
	at, mirror := d.journal.Head(), pageMirror(d.pages())
	for turn := range 30 {
		for range 1 + r.IntN(6) {
			name := fmt.Sprintf("d%d/p%d.html", r.IntN(3), r.IntN(6))
			switch r.IntN(5) {
			case 0:
				os.Remove(filepath.Join(d.root, name))
			case 1:
				to := fmt.Sprintf("d%d/m%d.html", r.IntN(3), r.IntN(4))
				os.MkdirAll(filepath.Join(d.root, filepath.Dir(to)), 0o755)
				os.Rename(filepath.Join(d.root, name), filepath.Join(d.root, to))
			default:
				d.write(name, fmt.Sprintf("<p>turn %d, %d", turn, r.Uint64()))
			}
			if r.IntN(2) == 0 {
				d.publish()
			}
		}
		d.publish()
		if r.IntN(3) == 0 {
			continue // several turns in one batch
		}
		head, list := d.batch("parley/batch?after=" + at.String())
		mirror.apply(t, list)
		if head.From != at || head.To != d.journal.Head() {
			t.Fatalf("from %v to %v, after %v of %v", head.From, head.To, at, d.journal.Head())
		}
		at = head.To
		if want := d.pages(); !maps.Equal(mirror, want) {
			t.Fatalf("turn %d: the mirror holds %v, the site %v", turn, slices.Sorted(maps.Keys(mirror)), slices.Sorted(maps.Keys(want)))
		}
	}
	if at.Seq < 60 {
		t.Errorf("only %d changes", at.Seq)
	}
}

// A thousand edits of a few pages are those few pages, in their last versions,
// whether they are asked for or told (C10).
func TestEditsCoalesce(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	for i := range 200 {
		for p := range 5 {
			d.write(fmt.Sprintf("p%d.html", p), fmt.Sprintf("<p>%d edits of page %d", i, p))
		}
		if i%4 == 3 {
			d.publish()
		}
	}
	head, list := d.batch("parley/batch?after=" + from.String())
	mirror := pageMirror{d.base + "a.html": "<p>a"}
	mirror.apply(t, list)
	if len(list) != 5 || head.To.Seq-from.Seq < 250 || !maps.Equal(mirror, d.pages()) {
		t.Errorf("%d pages of %d changes: %v", len(list), head.To.Seq-from.Seq, mirror)
	}
	for _, p := range list {
		if p.Change.Op != protocol.Create || !p.Change.Prev.IsZero() {
			t.Errorf("%s: %s after %v, which the reader has never had", p.Change.Item.URL, p.Change.Op, p.Change.Prev)
		}
	}
	ref := "parley/batch?after=" + from.String() + "&to=" + head.To.String()
	_, once := d.ask("GET", ref, "", "")
	d.write("q.html", "<p>later")
	d.publish()
	if _, again := d.ask("GET", ref, "", ""); !bytes.Equal(once, again) {
		t.Error("the same question has two answers")
	}
	m := d.message("parley/changes?as=batch&after=" + from.String() + "&count=" + fmt.Sprint(head.To.Seq-from.Seq))
	if m.Kind != protocol.Bundle || m.To != head.To || m.N != 5 || !bytes.Equal(m.Body.Bytes, once) {
		t.Errorf("told: %s to %v of %d, %d bytes", m.Kind, m.To, m.N, len(m.Body.Bytes))
	}
}

func (d *depot) message(ref string) protocol.Message {
	d.Helper()
	resp, b := d.ask("GET", ref, "", "")
	if resp.StatusCode != 200 {
		d.Fatalf("%s: %s: %.300s", ref, resp.Status, b)
	}
	m, err := protocol.ParseMessage(bytes.TrimSpace(b))
	d.must(err)
	return m
}

// What is too large for a message is named by it, and is there, by the same filter.
func TestLargeBundle(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		d.write(fmt.Sprintf("in/p%d.html", i), "<p>"+strings.Repeat(fmt.Sprint(noise.Uint64()), 2000))
		d.write(fmt.Sprintf("out/p%d.html", i), "<p>")
	}
	random := make([]byte, 400_000)
	for i := range random {
		random[i] = byte(noise.Uint32())
	}
	d.write("in/noise.html", string(random))
	to := d.publish()
	m := d.message("parley/changes?as=batch&prefix=" + url.QueryEscape(d.base+"in/") + "&after=" + from.String())
	if m.Kind != protocol.Bundle || m.N != 31 || m.To != to || m.Body.Href == "" || m.Body.Bytes != nil {
		t.Fatalf("%s of %d to %v, at %q", m.Kind, m.N, m.To, m.Body.Href)
	}
	head, list := d.batch(strings.TrimPrefix(m.Body.Href, d.base))
	if head.To != to || len(list) != 31 {
		t.Errorf("%d pages to %v", len(list), head.To)
	}
	for _, p := range list {
		if !strings.HasPrefix(p.Change.Item.URL, d.base+"in/") || p.Body == nil {
			t.Errorf("%s with %d bytes", p.Change.Item.URL, len(p.Body))
		}
	}
}

// A question for pages is answered with what they are, and with the bytes of
// those that differ from what is held.
func TestQuestionForPages(t *testing.T) {
	d := newDepot(t)
	d.write("b.html", "<p>b")
	d.write("c.html", "")
	d.write("private/p.html", "<p>secret")
	d.write("robots.txt", "User-agent: *\nDisallow: /private/\n")
	to := d.publish()
	d.write("c.html", "<p>not published yet")
	hash := func(text string) string { return protocol.Sum([]byte(text)).String() }
	question, err := json.Marshal(map[string]any{"pages": []map[string]string{
		{"url": d.base + "a.html", "hash": hash("<p>a")}, {"url": d.base + "b.html", "hash": hash("old")}, {"url": d.base + "c.html"},
		{"url": d.base + "b.html"}, {"url": d.base + "none.html"}, {"url": d.base + "private/p.html"},
	}})
	d.must(err)
	for _, method := range []string{"POST", "QUERY"} {
		resp, b := d.ask(method, "parley/batch", "application/json; charset=utf-8", string(question))
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Accept-Query"), "application/json") {
			t.Fatalf("%s: %s: %.300s", method, resp.Status, b)
		}
		head, list := d.unpack(b)
		if !head.From.IsZero() || head.To != to || len(list) != 5 {
			t.Fatalf("%s: %d pages from %v to %v", method, len(list), head.From, head.To)
		}
		for i, want := range []struct {
			op   protocol.Op
			body string
		}{{protocol.Update, ""}, {protocol.Update, "<p>b"}, {protocol.Create, ""}, {protocol.Delete, ""}, {protocol.Delete, ""}} {
			p := list[i]
			if p.Change.Op != want.op || string(p.Body) != want.body {
				t.Errorf("%s: %s is %s with %q", method, p.Change.Item.URL, p.Change.Op, p.Body)
			}
		}
		if list[0].Change.Item.Digest != protocol.Sum([]byte("<p>a")) {
			t.Error("a page that is held is not said to be the same")
		}
		if bytes.Contains(b, []byte("secret")) || list[4].Change.Item.Length != -1 || !list[4].Change.Item.Modified.IsZero() {
			t.Errorf("of what is forbidden it is said %+v", list[4].Change)
		}
	}
}

// Of what follows a cursor, pages that are held already are not sent.
func TestQuestionWithHeldPages(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	d.write("a.html", "<p>new a")
	d.write("b.html", "<p>b")
	d.publish()
	question := fmt.Sprintf(`{"after":%q,"have":{%q:%q}}`, from, d.base+"b.html", protocol.Sum([]byte("<p>b")))
	resp, b := d.ask("POST", "parley/batch", "application/json", question)
	if resp.StatusCode != 200 {
		t.Fatalf("%s: %s", resp.Status, b)
	}
	head, list := d.unpack(b)
	if head.From != from || len(list) != 2 {
		t.Fatalf("%d pages from %v", len(list), head.From)
	}
	for _, p := range list {
		if held := strings.HasSuffix(p.Change.Item.URL, "b.html"); (p.Body == nil) != held {
			t.Errorf("%s came with %q", p.Change.Item.URL, p.Body)
		}
	}
}

// Whoever reads Zstandard is sent a plain archive in that coding, which says
// the same; and what others are sent after it is not of that coding. Whoever
// accepts nothing else than identity is sent it as it is.
func TestBundleCodings(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	for i := range 100 {
		d.write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("<p>%d %s", i, strings.Repeat("text ", 100)))
	}
	d.publish()
	size := map[string]int{}
	for range 2 { // what was packed is kept
		for coding, want := range map[string]string{"gzip": "", "gzip, identity": "", "*, identity": "", "identity;q=0": "", "zstd": "zstd", "br, gzip;q=0.5, zstd": "zstd", "zstd;q=0": "",
			"identity": "plain", "Identity;q=0.5, br, gzip;q=0": "plain"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", d.base+"parley/batch?after="+from.String(), nil)
			d.must(err)
			req.Header.Set("Accept-Encoding", coding)
			resp, err := http.DefaultClient.Do(req)
			d.must(err)
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			d.must(err)
			if got := resp.Header.Get("Content-Encoding"); (got == "zstd") != (want == "zstd") || got != "" && got != "zstd" || resp.Header.Get("Content-Type") != "application/warc" || !strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding") {
				t.Errorf("%s: %q", coding, got)
			}
			r, err := bundle.NewReader(bytes.NewReader(b), bundle.Limits{})
			d.must(err)
			mirror, list := pageMirror{d.base + "a.html": "<p>a"}, []bundle.Page(nil)
			for p, err := range r.Pages() {
				d.must(err)
				list = append(list, p)
			}
			r.Close()
			if mirror.apply(t, list); !maps.Equal(mirror, d.pages()) {
				t.Errorf("%s: %d pages", coding, len(list))
			}
			if was, ok := size[want]; ok && was != len(b) {
				t.Errorf("%s: %d bytes, then %d", coding, was, len(b))
			}
			begins := map[string]string{"": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd", "plain": "WARC/1.1\r\n"}[want]
			if size[want] = len(b); !bytes.HasPrefix(b, []byte(begins)) {
				t.Errorf("%s: it begins with %x", coding, b[:4])
			}
		}
	}
	if size["zstd"] > size[""]/2 || size[""] > size["plain"] {
		t.Errorf("%d bytes of Zstandard, %d of gzip, %d plain", size["zstd"], size[""], size["plain"])
	}
}

// A page whose bytes are not to be had yet is stated, and comes when they are.
func TestBytesThatAreNotThere(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	d.write("b.html", "<p>b")
	d.publish()
	for _, there := range []bool{false, true, false} {
		text := "<p>b"
		if !there {
			text = "<p>not published"
		}
		d.write("b.html", text)
		_, list := d.batch("parley/batch?after=" + from.String())
		if len(list) != 1 || there && list[0].Body == nil {
			t.Errorf("there: %v, and it came with %q", there, list[0].Body)
		}
		if b := list[0].Body; b != nil && string(b) != "<p>b" {
			t.Errorf("other bytes came: %q", b)
		}
	}
}

// What is not public now is in no bundle of what was.
func TestForbiddenPagesLeaveBundles(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	d.write("secret.html", "<p>secret")
	d.write("b.html", "<p>b")
	d.publish()
	_, list := d.batch("parley/batch?after=" + from.String())
	if len(list) != 2 {
		t.Fatalf("%d pages", len(list))
	}
	d.write("robots.txt", "User-agent: *\nDisallow: /secret\n")
	d.publish()
	_, list = d.batch("parley/batch?after=" + from.String())
	for _, p := range list {
		if strings.Contains(p.Change.Item.URL, "secret") && (p.Change.Op != protocol.Delete || p.Body != nil) {
			t.Errorf("%+v, %q", p.Change, p.Body)
		}
	}
	if len(list) != 2 {
		t.Errorf("%d pages", len(list))
	}
}

func TestBatchRefusals(t *testing.T) {
	d := newDepot(t)
	d.write("a.html", "<p>again")
	head := d.publish()
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"pages":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"url":"%sp/%d.html"}`, d.base, i)
		}
		return b.String() + "]}"
	}
	const js = "application/json"
	for _, c := range []struct {
		what, method, ref, mediaType, body string
		status                             int
	}{
		{"no cursor", "GET", "parley/batch", "", "", 410},
		{"another epoch", "GET", "parley/batch?after=nope:1", "", "", 409},
		{"after the head", "GET", "parley/batch?after=" + head.Epoch + ":999", "", "", 409},
		{"to after the head", "GET", "parley/batch?after=" + head.String() + "&to=" + head.Epoch + ":999", "", "", 409},
		{"to before after", "GET", "parley/batch?after=" + head.String() + "&to=" + head.Epoch + ":0", "", "", 400},
		{"to of another epoch", "GET", "parley/batch?after=" + head.String() + "&to=nope:9", "", "", 400},
		{"no cursor at to", "GET", "parley/batch?after=" + head.String() + "&to=x", "", "", 400},
		{"another form", "GET", "parley/batch?as=page&after=" + head.String(), "", "", 400},
		{"unknown parameter", "GET", "parley/batch?nope=1", "", "", 400},
		{"another method", "PUT", "parley/batch", js, "{}", 405},
		{"no type", "QUERY", "parley/batch", "", "{}", 400},
		{"another type", "QUERY", "parley/batch", "text/csv", "{}", 415},
		{"no JSON", "QUERY", "parley/batch", js, "{", 400},
		{"a list", "QUERY", "parley/batch", js, "[]", 422},
		{"an unknown member", "QUERY", "parley/batch", js, `{"afterwards":"x:1"}`, 422},
		{"no cursor in it", "POST", "parley/batch", js, `{"after":7}`, 422},
		{"no digest in it", "POST", "parley/batch", js, `{"after":"` + head.String() + `","have":{"` + d.base + `a.html":"md5"}}`, 422},
		{"both", "POST", "parley/batch", js, `{"after":"` + head.String() + `","pages":[]}`, 422},
		{"a foreign page", "POST", "parley/batch", js, `{"pages":[{"url":"https://elsewhere.example/"}]}`, 422},
		{"a page by its path", "POST", "parley/batch", js, `{"pages":[{"url":"/a.html"}]}`, 422},
		{"a page of user:password", "POST", "parley/batch", js, `{"pages":[{"url":"` + strings.Replace(d.base, "//", "//u:p@", 1) + `"}]}`, 422},
		{"a filter for pages", "POST", "parley/batch?op=create", js, `{"pages":[]}`, 400},
		{"pages as an object", "POST", "parley/batch", js, `{"pages":{}}`, 422},
		{"a few too many", "POST", "parley/batch", js, many(10_001), 413},
		{"100,000", "POST", "parley/batch", js, many(100_000), 413},
		{"very long", "POST", "parley/batch", js, `{"pages":[{"url":"` + strings.Repeat("a", 9<<20) + `"}]}`, 413},
		{"coded", "HEAD", "parley/batch?after=" + head.String(), "", "", 200},
		{"nothing new", "GET", "parley/batch?after=" + head.String(), "", "", 200},
		{"no pages", "POST", "parley/batch", js, `{"pages":[]}`, 200},
		{"10,000", "POST", "parley/batch", js, many(10_000), 200},
	} {
		resp, b := d.ask(c.method, c.ref, c.mediaType, c.body)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %s: %.300s", c.what, resp.Status, b)
		}
		if resp.StatusCode >= 400 {
			var p struct{ Title, Detail string }
			if err := json.Unmarshal(b, &p); err != nil || p.Detail == "" && p.Title == "" {
				t.Errorf("%s: refused without a word: %.200q", c.what, b)
			}
		}
	}
}

// A bundle ends before its pages are more than whoever reads it takes, and the rest comes with the next.
func TestBundlesOfLargePages(t *testing.T) {
	d := newDepot(t)
	from := d.journal.Head()
	var steps []journal.Step
	for i := range 300 {
		steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{
			URL: fmt.Sprintf("%sd/%d.html", d.base, i), Length: 16 << 20, Digest: protocol.Sum(fmt.Append(nil, i))}}})
	}
	head, err := d.journal.Append(t.Context(), steps)
	d.must(err)
	bundles := 0
	for at := from; at != head; bundles++ {
		resp, err := http.Get(d.base + "parley/batch?after=" + at.String())
		d.must(err)
		resp.Body.Close()
		to, err := protocol.ParseCursor(resp.Header.Get("Parley-Cursor"))
		if err != nil || to.Seq <= at.Seq || (to.Seq-at.Seq)*16<<20 > server.MaxBundle {
			t.Fatalf("%s: from %v to %v, %v", resp.Status, at, to, err)
		}
		at = to
	}
	if bundles != 3 {
		t.Errorf("%d bundles", bundles)
	}
}

// Whoever does not read his bundle is cut off, and the number of those who are
// answered at a time is bounded, for each address.
func TestBundlesAreBounded(t *testing.T) {
	d := newDepot(t, func(n *server.Notifier) { n.WriteWait = 1500 * time.Millisecond })
	from := d.journal.Head()
	noise := rand.New(rand.NewPCG(1, 2))
	page := make([]byte, 1<<20)
	for i := range 16 {
		for j := range page {
			page[j] = byte(noise.Uint32())
		}
		d.write(fmt.Sprintf("large%d.html", i), string(page))
	}
	d.publish()
	ask := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.base+"parley/batch?after="+from.String(), nil)
		d.must(err)
		req.Header.Set("X-Forwarded-For", "192.0.2.7")
		resp, err := http.DefaultClient.Do(req)
		d.must(err)
		return resp
	}
	var open []*http.Response
	for range 4 {
		resp := ask()
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		open = append(open, resp)
	}
	resp := ask()
	if resp.Body.Close(); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a fifth at the same time: %s", resp.Status)
	}
	until(t, "those who do not read are cut off", func() bool {
		resp := ask()
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	cut := false
	for _, resp := range open {
		r, err := bundle.NewReader(resp.Body, bundle.Limits{})
		if err == nil {
			for _, e := range r.Pages() {
				err = errors.Join(err, e)
			}
			r.Close()
		}
		cut = cut || errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), "reset")
		resp.Body.Close()
	}
	if !cut {
		t.Error("a bundle that was cut off seems whole")
	}
}
