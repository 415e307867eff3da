package xmlpull_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/xmlpull"
)

func TestWellFormed(t *testing.T) {
	for _, c := range wellFormed {
		t.Run(c.name, func(t *testing.T) {
			got, err := dumpString(c.doc)
			if err != nil || got != c.want {
				t.Errorf("tokens of %q:\ngot  %s, %v\nwant %s", c.doc, got, err, c.want)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			r := xmlpull.NewReader(strings.NewReader(c.doc), xmlpull.Limits{})
			got, err := dump(r)
			var syntax *xmlpull.SyntaxError
			if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.msg) {
				t.Fatalf("%q gave %s, %v; want a SyntaxError that has %q", c.doc, got, err, c.msg)
			}
			if syntax.Offset < 0 || syntax.Offset > int64(len(c.doc)) || syntax.Line < 1 {
				t.Errorf("fault at %d, line %d of %d bytes", syntax.Offset, syntax.Line, len(c.doc))
			}
			if _, again := r.Next(); again != err {
				t.Errorf("then: %v", again)
			}
			if _, again := r.Content(nil); again != err {
				t.Errorf("then Content: %v", again)
			}
		})
	}
}

// However the bytes are split, the tokens and the errors are the same.
func TestSlowReaders(t *testing.T) {
	check := func(doc string) {
		t.Helper()
		want, wantErr := dumpString(doc)
		for name, slow := range map[string]func(io.Reader) io.Reader{
			"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "error with data": iotest.DataErrReader,
		} {
			got, err := dump(xmlpull.NewReader(slow(strings.NewReader(doc)), xmlpull.Limits{}))
			if got != want || (err == nil) != (wantErr == nil) {
				t.Errorf("%s reader, %.100q:\ngot  %.500s, %v\nwant %.500s, %v", name, doc, got, err, want, wantErr)
			}
		}
	}
	for _, c := range wellFormed {
		check(c.doc)
	}
	for _, c := range malformed {
		check(c.doc)
	}
	check(manifest(1000))
}

func TestTruncated(t *testing.T) {
	docs := []string{manifest(2)}
	for _, c := range wellFormed {
		docs = append(docs, c.doc)
	}
	for _, doc := range docs {
		// Content after the root element may be missing.
		root := strings.LastIndex(doc, "</")
		if i := strings.LastIndex(doc, "/>"); i > root {
			root = i
		}
		root += strings.IndexByte(doc[root:], '>')
		for n := range root {
			if _, err := dumpString(doc[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q cut to %q: %v, want io.ErrUnexpectedEOF", doc, doc[:n], err)
			}
		}
		for n := root + 1; n < len(doc); n++ {
			if _, err := dumpString(doc[:n]); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q cut to %q: %v", doc, doc[:n], err)
			}
		}
	}
}

// Text at the end of a buffer is read like anywhere else.
func TestBufferEnds(t *testing.T) {
	const buffer = 64 << 10
	for _, c := range []struct{ name, piece, want string }{
		{"characters", "é€\U0001F600", "é€\U0001F600"},
		{"references", "&#x1F600;&amp;", "\U0001F600&"},
		{"lines", "\r\n\r", "\n\n"},
		{"brackets", "]]]]&gt;]] >]", "]]]]>]] >]"},
		{"comments", "a<!--\r\n- é-->", "a"},
		{"cdata", "<![CDATA[]]é\r\n>]]]]>", "]]é\n>]]"},
		{"instructions", "<?a ? > \r\n?>b", "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for shift := range 12 {
				n := 3 * buffer / len(c.piece)
				pad := strings.Repeat("x", shift)
				doc := "<a>" + pad + strings.Repeat(c.piece, n) + "</a>"
				r := xmlpull.NewReader(strings.NewReader(doc), xmlpull.Limits{})
				must.Get(r.Next())
				got, err := r.Content(nil)
				if err != nil || string(got) != pad+strings.Repeat(c.want, n) {
					t.Fatalf("shift %d: %d bytes, %v", shift, len(got), err)
				}
			}
		})
	}
	t.Run("long sections", func(t *testing.T) {
		for shift := range 12 {
			long := strings.Repeat("x", buffer/2-shift) + strings.Repeat("]]é\r\n- ?", buffer/4)
			doc := "<a><!--" + long + "--><?p " + long + "?><![CDATA[" + long + "]]></a>"
			want := strings.ReplaceAll(long, "\r\n", "\n")
			r := xmlpull.NewReader(strings.NewReader(doc), xmlpull.Limits{})
			must.Get(r.Next())
			if got, err := r.Content(nil); err != nil || string(got) != want {
				t.Fatalf("shift %d: %d bytes, %v", shift, len(got), err)
			}
		}
	})
	t.Run("long tags", func(t *testing.T) {
		// Longer than the buffer, which has to grow, and with > in it.
		value := strings.Repeat("x>&lt;\n", buffer/2)
		doc := "<a><b c='" + value + "' d=\"" + value + "\">e</b></a>"
		for _, slow := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader} {
			r := xmlpull.NewReader(slow(strings.NewReader(doc)), xmlpull.Limits{Tag: 1 << 20})
			for range 2 {
				must.Get(r.Next())
			}
			want := strings.Repeat("x>< ", buffer/2)
			for _, name := range []string{"c", "d"} {
				if got, ok := r.Attr("", name); !ok || string(got) != want {
					t.Fatalf("attribute %s: %d bytes, %v", name, len(got), ok)
				}
			}
			if got, err := r.Content(nil); string(got) != "e" || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
		}
	})
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	for _, doc := range []string{"", "<a", "<a>", "<a>b", "<a><!--", "<a><![CDATA[b", "<a/>"} {
		_, err := dump(xmlpull.NewReader(io.MultiReader(strings.NewReader(doc), iotest.ErrReader(broken)), xmlpull.Limits{}))
		if err != broken {
			t.Errorf("after %q: %v, want the reader's error", doc, err)
		}
		_, err = dump(xmlpull.NewReader(io.MultiReader(strings.NewReader(doc), idle{}), xmlpull.Limits{}))
		if err != io.ErrNoProgress {
			t.Errorf("idle after %q: %v, want io.ErrNoProgress", doc, err)
		}
	}
	for _, n := range []int{-1, 1 << 30} {
		if _, err := dump(xmlpull.NewReader(liar(n), xmlpull.Limits{})); err == nil {
			t.Errorf("a reader that returns %d: no error", n)
		}
	}
}

// An idle reader never has anything.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// A liar returns an impossible number of bytes from Read.
type liar int

func (l liar) Read([]byte) (int, error) { return int(l), nil }

func TestPositions(t *testing.T) {
	doc := "<a>\n<b>\n" + strings.Repeat("x\n", 100_000) + "</b>&nbsp;</a>"
	_, err := dumpString(doc)
	var syntax *xmlpull.SyntaxError
	if !errors.As(err, &syntax) {
		t.Fatal(err)
	}
	if want := int64(strings.Index(doc, "&")); syntax.Line != 100_003 || syntax.Offset != want {
		t.Errorf("fault at line %d, offset %d; want 100003, %d", syntax.Line, syntax.Offset, want)
	}
	if want := "line 100003: unknown or bad reference"; err.Error() != want {
		t.Errorf("message %q, want %q", err, want)
	}

	r := xmlpull.NewReader(strings.NewReader("<a>\n<b/></a>"), xmlpull.Limits{})
	for _, want := range []struct {
		depth, line int
		offset      int64
	}{{1, 1, 3}, {1, 2, 4}, {2, 2, 8}, {2, 2, 8}, {1, 2, 12}} {
		must.Get(r.Next())
		if r.Depth() != want.depth || r.Line() != want.line || r.Offset() != want.offset {
			t.Errorf("depth %d, line %d, offset %d; want %v", r.Depth(), r.Line(), r.Offset(), want)
		}
	}
	if _, err := r.Next(); err != io.EOF || r.Depth() != 0 {
		t.Errorf("at the end: %v, depth %d", err, r.Depth())
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestNames(t *testing.T) {
	r := xmlpull.NewReader(strings.NewReader(`<a xmlns="u" xmlns:p="v" p:b="1" c="2">t</a>`), xmlpull.Limits{})
	if r.Space() != nil || r.Local() != nil || r.Is("u", "a") || r.Depth() != 0 {
		t.Error("an element before the first token")
	}
	if k, err := r.Next(); k != xmlpull.Start || err != nil {
		t.Fatal(k, err)
	}
	if !r.Is("u", "a") || r.Is("", "a") || r.Is("v", "a") || r.Is("u", "b") {
		t.Errorf("Is is wrong for {%s}%s", r.Space(), r.Local())
	}
	for _, c := range []struct {
		space, local, want string
		ok                 bool
	}{{"v", "b", "1", true}, {"", "c", "2", true}, {"", "b", "", false}, {"u", "c", "", false}, {"", "xmlns", "", false}} {
		if got, ok := r.Attr(c.space, c.local); string(got) != c.want || ok != c.ok {
			t.Errorf("attribute {%s}%s: %q, %v", c.space, c.local, got, ok)
		}
	}
	if k, _ := r.Next(); k != xmlpull.Text || !r.Is("u", "a") || r.Attrs() != 0 {
		t.Errorf("kind %d in {%s}%s with %d attributes", k, r.Space(), r.Local(), r.Attrs())
	}
	if _, ok := r.Attr("", "c"); ok {
		t.Error("attribute of a text")
	}
}

func TestNoAllocations(t *testing.T) {
	extra := `<x xml:lang="de" a="1&#50;&lt;" b='2'><y xmlns:q="w" q:c="1&#10;"/><!-- n --><?i j?><![CDATA[k` + "\r\n" + `]]>é&amp;</x>`
	doc := manifest(300)
	i := strings.Index(doc, "<item")
	doc = doc[:i] + strings.Repeat(extra+doc[i:strings.Index(doc, "</rdf:RDF>")], 40) + "</rdf:RDF>"
	r := xmlpull.NewReader(strings.NewReader(doc), xmlpull.Limits{})
	next := func() {
		must.Get(r.Next())
	}
	for range 10_000 {
		next() // what grows has grown
	}
	if n := testing.AllocsPerRun(100, func() {
		for range 1000 {
			next()
		}
	}); n != 0 {
		t.Errorf("%v allocations for 1000 tokens", n)
	}
}

func BenchmarkReader(b *testing.B) {
	doc := []byte(manifest(2000))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r := xmlpull.NewReader(bytes.NewReader(doc), xmlpull.Limits{})
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// Each byte at each position of a text, for every way in which the text is scanned.
func TestEveryByte(t *testing.T) {
	for c := range 256 {
		for i := range 18 {
			text := []byte(strings.Repeat("x", 18))
			text[i] = byte(c)
			ok := c >= ' ' && c < 0x80 && c != '<' && c != '&' || c == '\t' || c == '\n' || c == '\r'
			want := strings.ReplaceAll(string(text), "\r", "\n")
			r := xmlpull.NewReader(strings.NewReader("<a>"+string(text)+"</a>"), xmlpull.Limits{})
			must.Get(r.Next())
			if got, err := r.Content(nil); (err == nil) != ok || ok && string(got) != want {
				t.Errorf("byte %#x at %d: %q, %v", c, i, got, err)
			}
		}
	}
}
