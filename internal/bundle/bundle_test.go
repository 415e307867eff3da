package bundle_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

var start = time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)

func cursor(seq uint64) protocol.Cursor { return protocol.Cursor{Epoch: "k3v7", Seq: seq} }

// pages returns a bundle with every kind of change and page.
func pages() []bundle.Page {
	page := func(seq uint64, op protocol.Op, body []byte) bundle.Page {
		url := fmt.Sprintf("https://www.example.org/d/%d%%C3%%A9.html", seq)
		c := protocol.Change{Seq: seq, At: start.Add(time.Duration(seq) * time.Second), Op: op, Item: protocol.Item{URL: url, Length: -1}}
		if op != protocol.Delete {
			c.Item.Type, c.Item.Modified = "text/html", start
			c.Item.Length, c.Item.Digest = int64(len(body)), protocol.Sum(body)
		}
		return bundle.Page{Change: c, Body: body}
	}
	gone := page(6, protocol.Delete, nil)
	absent := page(9, protocol.Update, []byte("not to be had any more"))
	absent.Body = nil
	return []bundle.Page{
		page(3, protocol.Create, []byte("<p>hello")), page(4, protocol.Update, []byte{}), gone, page(6, protocol.Create, []byte("moved\r\n\r\nWARC/1.1\r\n")),
		absent, page(10, protocol.Update, bytes.Repeat([]byte("a large page. "), 200_000)),
	}
}

// add writes a change, and its page if that is not nil.
func add(w *bundle.Writer, c bundle.Coding, change *protocol.Change, page []byte) error {
	packer, pages := bundle.NewPacker(c), 0
	if page != nil {
		pages = 1
	}
	records, _ := packer.Append(nil, "k3v7", change, page)
	return w.AddPacked(packer.Seal(nil, records), 1, pages)
}

func write(t testing.TB, list []bundle.Page) []byte { return writeIn(t, bundle.Gzip, list) }

func writeIn(t testing.TB, c bundle.Coding, list []bundle.Page) []byte {
	t.Helper()
	var b bytes.Buffer
	w := bundle.NewWriter(&b, bundle.Head{From: cursor(2), To: cursor(10), Changes: len(list), At: start}, c)
	for i, p := range list {
		var err error
		if i%2 == 0 {
			err = add(w, c, &p.Change, p.Body)
		} else {
			packer, pages := bundle.NewPacker(c), 0
			records, at := packer.Append([]byte{}, "k3v7", &p.Change, p.Body)
			if (at < len(records)) != (p.Body != nil) {
				t.Errorf("record of page %d of %d bytes at %d", i, len(records), at)
			}
			if p.Body != nil {
				pages = 1
			}
			err = w.AddPacked(packer.Seal(nil, records), 1, pages)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

func read(r io.Reader, l bundle.Limits) (head bundle.Head, list []bundle.Page, refused int, err error) {
	b, err := bundle.NewReader(r, l)
	if err != nil {
		return head, nil, 0, err
	}
	defer b.Close()
	for p, err := range b.Pages() {
		if err != nil {
			return b.Head, list, b.Refused, err
		}
		list = append(list, p)
	}
	return b.Head, list, b.Refused, nil
}

func same(a, b bundle.Page) bool {
	return a.Change.Seq == b.Change.Seq && a.Change.Op == b.Change.Op && a.Change.Item.Equal(b.Change.Item) &&
		a.Change.At.Equal(b.Change.At) && (a.Body == nil) == (b.Body == nil) && bytes.Equal(a.Body, b.Body)
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []bundle.Coding{bundle.Gzip, bundle.Zstd, bundle.Plain} {
		t.Run(string(c), func(t *testing.T) { roundTrip(t, c) })
	}
}

func roundTrip(t *testing.T, c bundle.Coding) {
	list := pages()
	b := writeIn(t, c, list)
	head, got, refused, err := read(iotest.HalfReader(bytes.NewReader(b)), bundle.Limits{})
	if err != nil || refused != 0 || len(got) != len(list) {
		t.Fatalf("%d pages, %d refused, %v", len(got), refused, err)
	}
	for i := range list {
		if !same(got[i], list[i]) {
			t.Errorf("page %d came as %+v, body of %d bytes", i, got[i].Change, len(got[i].Body))
		}
	}
	if head.From != cursor(2) || head.To != cursor(10) || head.Changes != len(list) || !head.At.Equal(start) {
		t.Errorf("head %+v", head)
	}
	if !bytes.Equal(b, writeIn(t, c, list)) {
		t.Error("written twice, the streams differ")
	}
}

// It is a valid archive, and gzip reads it.
func TestBundleIsValidWARC(t *testing.T) {
	b := write(t, pages())
	report, err := warctest.Validate(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Types; n[warc.Warcinfo] != 1 || n[warc.Metadata] != 7 || n[warc.Response] != 4 || len(report.Places) != 12 {
		t.Errorf("records %v", n)
	}
	tool, err := exec.LookPath("gzip")
	if err != nil {
		t.Skip("no gzip on this machine")
	}
	cmd := exec.Command(tool, "-dc")
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.Output(); err != nil || strings.Count(string(out), "WARC/1.1\r\nWARC-Type: ") != 12 {
		t.Errorf("gzip: %d bytes, %v", len(out), err)
	}
}

// Wherever a stream is cut, the complete pages are returned, and the cut is reported.
func TestTruncatedStreams(t *testing.T) {
	for _, c := range []bundle.Coding{bundle.Gzip, bundle.Zstd, bundle.Plain} {
		t.Run(string(c), func(t *testing.T) { cut(t, c) })
	}
}

func cut(t *testing.T, c bundle.Coding) {
	list := pages()
	list = list[:len(list)-1] // without the large one
	b := writeIn(t, c, list)
	for n := range len(b) {
		_, got, _, err := read(bytes.NewReader(b[:n]), bundle.Limits{})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d of %d: %v", n, len(b), err)
		}
		for i := range got {
			if !same(got[i], list[i]) {
				t.Fatalf("cut at %d: page %d came as %+v", n, i, got[i])
			}
		}
	}
	_, got, _, err := read(io.MultiReader(bytes.NewReader(b[:len(b)-1]), iotest.ErrReader(errors.New("connection reset"))), bundle.Limits{})
	if len(got) < len(list)-1 || err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("%d pages, %v", len(got), err)
	}
}

// stream builds a stream by hand.
func stream(t testing.TB, drafts ...*warc.Draft) []byte {
	press := must.Get(warc.NewPress("gzip"))
	var b []byte
	for i, d := range drafts {
		d.Name, d.Date = protocol.Sum([]byte{byte(i)}), start
		b = press.Append(b, d)
	}
	return b
}

func info(text string) *warc.Draft {
	return &warc.Draft{Type: warc.Warcinfo, MediaType: warc.InfoType, Body: []byte(text)}
}

func last(text string) *warc.Draft {
	return &warc.Draft{Type: warc.Metadata, MediaType: warc.InfoType, Body: []byte(text)}
}

func change(text string) *warc.Draft {
	return &warc.Draft{Type: warc.Metadata, MediaType: "application/json", Body: []byte(text)}
}

func page(url, head, body string) *warc.Draft {
	return &warc.Draft{Type: warc.Response, URL: url, MediaType: warc.AnswerType, Head: []byte(head), Body: []byte(body)}
}

const (
	first  = "parley-from: e:4\r\nparley-to: e:9\r\nparley-changes: 1\r\n"
	update = `{"t":"ev","to":"e:5","seq":5,"op":"update","url":"https://e.example/a","hash":"` // the digest follows
	ok     = "HTTP/1.1 200 OK\r\n\r\n"
	urlA   = "https://e.example/a"
)

func updateTo(body string) string { return update + protocol.Sum([]byte(body)).String() + `"}` }

func TestHostileStreams(t *testing.T) {
	zeros := strings.Repeat("\x00", 3<<20)
	for what, c := range map[string]struct {
		stream []byte
		want   string // of the error; empty: a page is passed over instead
	}{
		"another page":         {stream(t, info(first), change(updateTo("right")), page(urlA, ok, "wrong"), last("parley-changes: 1\r\nparley-pages: 1\r\n")), ""},
		"no digest":            {stream(t, info(first), change(update+`"}`), page(urlA, ok, "a"), last("parley-changes: 1\r\nparley-pages: 1\r\n")), ""},
		"too large":            {stream(t, info(first), change(updateTo(zeros)), page(urlA, ok, zeros), last("parley-changes: 1\r\nparley-pages: 1\r\n")), ""},
		"a page of a deletion": {stream(t, info(first), change(`{"t":"ev","to":"e:5","seq":5,"op":"delete","url":"https://e.example/a"}`), page(urlA, ok, "a"), last("parley-changes: 1\r\nparley-pages: 1\r\n")), ""},

		"no archive":         {[]byte("<html>\n\n"), "malformed"},
		"nothing":            {nil, "unexpected EOF"},
		"no head":            {stream(t, change(updateTo("a"))), "first record"},
		"no cursor":          {stream(t, info("parley-from: e:4\r\n")), "parley-to"},
		"the wrong way":      {stream(t, info("parley-from: e:4\r\nparley-to: e:3\r\nparley-changes: 1\r\n")), "from e:4 to e:3"},
		"another epoch":      {stream(t, info("parley-from: d:4\r\nparley-to: e:9\r\nparley-changes: 1\r\n")), "from d:4 to e:9"},
		"no number":          {stream(t, info("parley-from: e:4\r\nparley-to: e:9\r\n")), "parley-changes"},
		"a great number":     {stream(t, info("parley-from: e:4\r\nparley-to: e:9\r\nparley-changes: 2000000000\r\n")), "more than 100"},
		"large fields":       {stream(t, info(zeros)), "warcinfo record of"},
		"a large change":     {stream(t, info(first), change(zeros)), "change of"},
		"no message":         {stream(t, info(first), change("{}")), "no member t"},
		"another message":    {stream(t, info(first), change(`{"t":"mark","to":"e:5"}`)), "mark"},
		"a change before":    {stream(t, info(first), change(strings.ReplaceAll(updateTo("a"), "5", "4"))), "out of order"},
		"a change after":     {stream(t, info(first), change(strings.NewReplacer(`:5"`, `:10"`, `"seq":5`, `"seq":10`).Replace(updateTo("a")))), "out of order"},
		"a change elsewhere": {stream(t, info(first), change(strings.Replace(updateTo("a"), "e:5", "d:5", 1))), "out of order"},
		"a change too many":  {stream(t, info(first), change(updateTo("a")), change(updateTo("a"))), "more changes"},
		"another URL":        {stream(t, info(first), change(updateTo("a")), page("https://e.example/b", ok, "a")), "change of another URL"},
		"no response":        {stream(t, info(first), change(updateTo("a")), page(urlA, "HTTP/1.1 200 OK\r\n", "a")), "does not end"},
		"an error page":      {stream(t, info(first), change(updateTo("a")), page(urlA, "HTTP/1.1 404 Not Found\r\n\r\n", "a")), "status line"},
		"one too few":        {stream(t, info(first), last("parley-changes: 1\r\nparley-pages: 0\r\n")), "after 0 changes"},
		"a page lost":        {stream(t, info(first), change(updateTo("a")), last("parley-changes: 1\r\nparley-pages: 1\r\n")), "after 0 pages"},
		"more behind it":     {stream(t, info(first), change(updateTo("a")), last("parley-changes: 1\r\nparley-pages: 0\r\n"), info("")), "after the last record"},
		"more than in all":   {stream(t, info(first), page(urlA, ok, zeros), page(urlA, ok, zeros)), "more than 5000000 bytes"},
		"an empty end":       {append(stream(t, info(first)), "\x1f\x8b\x08"...), "unexpected EOF"},
	} {
		limits := bundle.Limits{Page: 1 << 20, Total: 5_000_000, Changes: 100}
		_, got, refused, err := read(bytes.NewReader(c.stream), limits)
		switch {
		case c.want == "":
			if err != nil || len(got) != 1 || got[0].Body != nil || refused != 1 {
				t.Errorf("%s: %+v, %d refused, %v", what, got, refused, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

// Unused records are skipped, and so are unknown fields.
func TestUnknownRecordsAreSkipped(t *testing.T) {
	b := stream(t, info("isPartOf: x\r\n"+first), &warc.Draft{Type: "request", URL: urlA, MediaType: "application/http", Body: []byte("GET")}, change(updateTo("a")),
		&warc.Draft{Type: "novelty"}, page(urlA, ok, "a"), &warc.Draft{Type: "resource", URL: urlA, MediaType: "text/plain", Body: []byte("b")},
		last("parley-changes: 1\r\nparley-pages: 1\r\n"))
	if _, got, _, err := read(bytes.NewReader(b), bundle.Limits{}); err != nil || len(got) != 1 || string(got[0].Body) != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A bundle from the very beginning of an epoch has a stream too.
func TestBundleFromStartOfEpoch(t *testing.T) {
	var b bytes.Buffer
	w := bundle.NewWriter(&b, bundle.Head{To: cursor(0), Changes: 1}, bundle.Gzip)
	c := protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: urlA, Length: 1, Digest: protocol.Sum([]byte("a"))}}
	must.OK(t, errors.Join(add(w, bundle.Gzip, &c, []byte("a")), w.Close()))
	if head, got, _, err := read(&b, bundle.Limits{}); err != nil || len(got) != 1 || string(got[0].Body) != "a" || !head.From.IsZero() || head.To != cursor(0) {
		t.Errorf("%+v: %+v, %v", head, got, err)
	}
}

// A Writer does not mark an incomplete stream as complete.
func TestIncompleteBundleIsAnError(t *testing.T) {
	list := pages()
	w := bundle.NewWriter(io.Discard, bundle.Head{To: cursor(10), Changes: 2}, bundle.Gzip)
	must.OK(t, add(w, bundle.Gzip, &list[0].Change, nil))
	if w.Close() == nil || add(w, bundle.Gzip, &list[0].Change, nil) == nil {
		t.Error("a bundle with one of two changes is closed without an error")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(write(f, pages()[:5]))
	f.Add(writeIn(f, bundle.Zstd, pages()[:5]))
	f.Add(writeIn(f, bundle.Plain, pages()[:5]))
	f.Add(stream(f, info(first), change(updateTo("right")), page(urlA, ok, "wrong"), last("parley-changes: 1\r\nparley-pages: 1\r\n")))
	f.Add(stream(f, info(first), change(updateTo("a")), page(urlA, ok, "a"), last("parley-changes: 1\r\nparley-pages: 1\r\n")))
	plain := func(b []byte) []byte {
		r := must.Get(coding.NewReader(bytes.NewReader(b)))
		return must.Get(io.ReadAll(r))
	}
	f.Add(plain(write(f, pages()[:5])))
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := bundle.Limits{Page: 1 << 16, Total: 1 << 20, Changes: 50}
		head, list, _, err := read(bytes.NewReader(b), limits)
		if err == nil && len(list) != head.Changes {
			t.Errorf("%d changes of %d", len(list), head.Changes)
		}
		for _, p := range list {
			if p.Body != nil && (protocol.Sum(p.Body) != p.Change.Item.Digest || len(p.Body) > 1<<16) {
				t.Errorf("%s: a body that is not the page", p.Change.Item.URL)
			}
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	body := []byte(strings.Repeat("<p>The quick brown fox jumps over the lazy dog, and <a href=\"/x\">so on</a>.\n", 60))
	c := protocol.Change{Seq: 7, At: start, Op: protocol.Update, Item: protocol.Item{URL: "https://www.example.org/some/page.html", Length: int64(len(body)),
		Type: "text/html", Modified: start, Digest: protocol.Sum(body)}}
	b.Run("pack", func(b *testing.B) {
		p := bundle.NewPacker(bundle.Gzip)
		var buf []byte
		for b.Loop() {
			buf, _ = p.Append(buf[:0], "k3v7", &c, body)
		}
		b.ReportMetric(float64(len(buf)), "bytes/page")
	})
	for _, coding := range []bundle.Coding{bundle.Gzip, bundle.Zstd, bundle.Plain} {
		b.Run("read "+string(coding), func(b *testing.B) {
			const n = 1000
			var out bytes.Buffer
			w := bundle.NewWriter(&out, bundle.Head{From: cursor(2), To: cursor(9), Changes: n}, coding)
			packer := bundle.NewPacker(coding)
			for range n / 50 {
				var records []byte
				for range 50 {
					records, _ = packer.Append(records, "k3v7", &c, body)
				}
				w.AddPacked(packer.Seal(nil, records), 50, 50)
			}
			w.Close()
			for b.Loop() {
				if _, list, _, err := read(bytes.NewReader(out.Bytes()), bundle.Limits{}); err != nil || len(list) != n {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/page")
		})
	}
}
