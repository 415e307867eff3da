package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// For any history of a site, a mirror that is kept by batches is the same to the byte.
func TestMirrorKeptByBundlesEqualsSite(t *testing.T) {
	d := newDepot(t)
	r := rand.New(rand.NewPCG(7, 11))
	at, mirror := d.Journal.Head(), pageMirror(d.Pages())
	for turn := range 30 {
		for range 1 + r.IntN(6) {
			name := fmt.Sprintf("d%d/p%d.html", r.IntN(3), r.IntN(6))
			switch r.IntN(5) {
			case 0:
				os.Remove(filepath.Join(d.Root, name))
			case 1:
				to := fmt.Sprintf("d%d/m%d.html", r.IntN(3), r.IntN(4))
				os.MkdirAll(filepath.Join(d.Root, filepath.Dir(to)), 0o755)
				os.Rename(filepath.Join(d.Root, name), filepath.Join(d.Root, to))
			default:
				d.Write(name, fmt.Sprintf("<p>turn %d, %d", turn, r.Uint64()))
			}
			if r.IntN(2) == 0 {
				d.Publish()
			}
		}
		d.Publish()
		if r.IntN(3) == 0 {
			continue // several turns in one batch
		}
		head, list := d.batch("parley/batch?after=" + at.String())
		mirror.apply(t, list)
		if head.From != at || head.To != d.Journal.Head() {
			t.Fatalf("from %v to %v, after %v of %v", head.From, head.To, at, d.Journal.Head())
		}
		at = head.To
		if want := d.Pages(); !maps.Equal(mirror, want) {
			t.Fatalf("turn %d: the mirror holds %v, the site %v", turn, slices.Sorted(maps.Keys(mirror)), slices.Sorted(maps.Keys(want)))
		}
	}
	if at.Seq < 60 {
		t.Errorf("only %d changes", at.Seq)
	}
}

// A thousand edits of a few pages are delivered as those few pages in their last versions, polled or streamed
// (C10).
func TestEditsCoalesce(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	for i := range 200 {
		for p := range 5 {
			d.Write(fmt.Sprintf("p%d.html", p), fmt.Sprintf("<p>%d edits of page %d", i, p))
		}
		if i%4 == 3 {
			d.Publish()
		}
	}
	head, list := d.batch("parley/batch?after=" + from.String())
	mirror := pageMirror{d.Base + "a.html": "<p>a"}
	mirror.apply(t, list)
	if len(list) != 5 || head.To.Seq-from.Seq < 250 || !maps.Equal(mirror, d.Pages()) {
		t.Errorf("%d pages of %d changes: %v", len(list), head.To.Seq-from.Seq, mirror)
	}
	for _, p := range list {
		if p.Change.Op != protocol.Create || !p.Change.Prev.IsZero() {
			t.Errorf("%s: %s with previous digest %v, which the reader has never had", p.Change.Item.URL, p.Change.Op, p.Change.Prev)
		}
	}
	ref := "parley/batch?after=" + from.String() + "&to=" + head.To.String()
	_, once := d.ask("GET", ref, "", "")
	d.Write("q.html", "<p>later")
	d.Publish()
	if _, again := d.ask("GET", ref, "", ""); !bytes.Equal(once, again) {
		t.Error("the same request has two answers")
	}
	m := d.message("parley/changes?as=batch&after=" + from.String() + "&count=" + fmt.Sprint(head.To.Seq-from.Seq))
	if m.Kind != protocol.Bundle || m.To != head.To || m.N != 5 || !bytes.Equal(m.Body.Bytes, once) {
		t.Errorf("told: %s to %v of %d, %d bytes", m.Kind, m.To, m.N, len(m.Body.Bytes))
	}
}

// A bundle too large for a message is linked by it, and the link applies the same filter.
func TestLargeBundle(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		d.Write(fmt.Sprintf("in/p%d.html", i), "<p>"+strings.Repeat(fmt.Sprint(noise.Uint64()), 2000))
		d.Write(fmt.Sprintf("out/p%d.html", i), "<p>")
	}
	random := make([]byte, 400_000)
	for i := range random {
		random[i] = byte(noise.Uint32())
	}
	d.Write("in/noise.html", string(random))
	to := d.Publish()
	m := d.message("parley/changes?as=batch&prefix=" + url.QueryEscape(d.Base+"in/") + "&after=" + from.String())
	if m.Kind != protocol.Bundle || m.N != 31 || m.To != to || m.Body.Href == "" || m.Body.Bytes != nil {
		t.Fatalf("%s of %d to %v, at %q", m.Kind, m.N, m.To, m.Body.Href)
	}
	head, list := d.batch(strings.TrimPrefix(m.Body.Href, d.Base))
	if head.To != to || len(list) != 31 {
		t.Errorf("%d pages to %v", len(list), head.To)
	}
	for _, p := range list {
		if !strings.HasPrefix(p.Change.Item.URL, d.Base+"in/") || p.Body == nil {
			t.Errorf("%s with %d bytes", p.Change.Item.URL, len(p.Body))
		}
	}
}

// A request for given pages is answered with their state, and with the bytes of those that differ from the
// client's copies.
func TestBatchRequestNamesPages(t *testing.T) {
	d := newDepot(t)
	d.Write("b.html", "<p>b")
	d.Write("c.html", "")
	d.Write("private/p.html", "<p>secret")
	d.Write("robots.txt", "User-agent: *\nDisallow: /private/\n")
	to := d.Publish()
	d.Write("c.html", "<p>not published yet")
	hash := func(text string) string { return protocol.Sum([]byte(text)).String() }
	question := must.Get(json.Marshal(map[string]any{"pages": []map[string]string{
		{"url": d.Base + "a.html", "hash": hash("<p>a")}, {"url": d.Base + "b.html", "hash": hash("old")}, {"url": d.Base + "c.html"},
		{"url": d.Base + "b.html"}, {"url": d.Base + "none.html"}, {"url": d.Base + "private/p.html"},
	}}))
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
			t.Error("a page that the client has is not reported as unchanged")
		}
		if bytes.Contains(b, []byte("secret")) || list[4].Change.Item.Length != -1 || !list[4].Change.Item.Modified.IsZero() {
			t.Errorf("a forbidden page is described: %+v", list[4].Change)
		}
	}
}

// Pages that the client already has are left out of the changes after a cursor.
func TestBatchOmitsPagesTheClientHas(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	d.Write("a.html", "<p>new a")
	d.Write("b.html", "<p>b")
	d.Publish()
	question := fmt.Sprintf(`{"after":%q,"have":{%q:%q}}`, from, d.Base+"b.html", protocol.Sum([]byte("<p>b")))
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

// A client that accepts Zstandard gets the plain archive in that coding, with the same content; clients after
// it still get their own coding. A client that accepts only identity gets it uncoded.
func TestBundleCodings(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	for i := range 100 {
		d.Write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("<p>%d %s", i, strings.Repeat("text ", 100)))
	}
	d.Publish()
	size := map[string]int{}
	for range 2 { // the packed form is cached
		for coding, want := range map[string]string{"gzip": "", "gzip, identity": "", "*, identity": "", "identity;q=0": "", "zstd": "zstd", "br, gzip;q=0.5, zstd": "zstd", "zstd;q=0": "",
			"identity": "plain", "Identity;q=0.5, br, gzip;q=0": "plain"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", d.Base+"parley/batch?after="+from.String(), nil)
			d.Must(err)
			req.Header.Set("Accept-Encoding", coding)
			resp := must.Get(http.DefaultClient.Do(req))
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			d.Must(err)
			if got := resp.Header.Get("Content-Encoding"); (got == "zstd") != (want == "zstd") || got != "" && got != "zstd" || resp.Header.Get("Content-Type") != "application/warc" || !strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding") {
				t.Errorf("%s: %q", coding, got)
			}
			r := must.Get(bundle.NewReader(bytes.NewReader(b), bundle.Limits{}))
			mirror, list := pageMirror{d.Base + "a.html": "<p>a"}, []bundle.Page(nil)
			for p, err := range r.Pages() {
				d.Must(err)
				list = append(list, p)
			}
			r.Close()
			if mirror.apply(t, list); !maps.Equal(mirror, d.Pages()) {
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

// A page whose bytes are not available yet is listed, and its bytes come once they are.
func TestBundleListsPageWithoutItsBytes(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	d.Write("b.html", "<p>b")
	d.Publish()
	for _, there := range []bool{false, true, false} {
		text := "<p>b"
		if !there {
			text = "<p>not published"
		}
		d.Write("b.html", text)
		_, list := d.batch("parley/batch?after=" + from.String())
		if len(list) != 1 || there && list[0].Body == nil {
			t.Errorf("available: %v, and it came with %q", there, list[0].Body)
		}
		if b := list[0].Body; b != nil && string(b) != "<p>b" {
			t.Errorf("the page came with other bytes: %q", b)
		}
	}
}

// A page that is not public any more is in no bundle of earlier changes.
func TestBundlesOmitForbiddenPages(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	d.Write("secret.html", "<p>secret")
	d.Write("b.html", "<p>b")
	d.Publish()
	_, list := d.batch("parley/batch?after=" + from.String())
	if len(list) != 2 {
		t.Fatalf("%d pages", len(list))
	}
	d.Write("robots.txt", "User-agent: *\nDisallow: /secret\n")
	d.Publish()
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
