package xmlpull_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// An endless reader gives head, then piece for ever, and counts.
type endless struct {
	head, piece string
	rest        string
	given       int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.given == 0 {
		e.rest = e.head
	}
	n := 0
	for n < len(p) {
		if e.rest == "" {
			e.rest = e.piece
		}
		c := copy(p[n:], e.rest)
		e.rest = e.rest[c:]
		n += c
	}
	e.given += int64(n)
	return n, nil
}

// Endless documents are abandoned soon after the limit that they exceed.
func TestEndlessDocuments(t *testing.T) {
	for _, c := range []struct {
		name, head, piece string
		most              int64 // bytes read of it
	}{
		{"nested", "", "<a>", 128 << 10},
		{"nested with long names", "", "<" + strings.Repeat("a", 1000) + ">", 256 << 10},
		{"text", "<a>", "x", 2 << 20},
		{"white space in text", "<a>", "\n", 2 << 20},
		{"references", "<a>", "&amp;", 2 << 20},
		{"brackets", "<a>", "]", 2 << 20},
		{"carriage returns", "<a>", "\r", 2 << 20},
		{"cdata", "<a><![CDATA[", "x", 2 << 20},
		{"cdata sections", "<a>", "<![CDATA[xxxxxxxxxxx]]>", 4 << 20},
		{"text and comments", "<a>", "xxxxxxxx<!---->", 4 << 20},
		{"comment", "<!--", "x", 2 << 20},
		{"dashes", "<!--", "- ", 2 << 20},
		{"instruction", "<?a ", "?", 2 << 20},
		{"instruction's name", "<?", "a", 512 << 10},
		{"value", "<a b='", "x", 512 << 10},
		{"value of >", "<a b='", ">", 512 << 10},
		{"value of quotes", "<a b='", `"`, 512 << 10},
		{"attributes", "<a", ` b="1"`, 512 << 10},
		{"blanks in a tag", "<a", " ", 512 << 10},
		{"name", "<", "a", 512 << 10},
		{"end tag", "<a></", "a", 512 << 10},
		{"end tag's blanks", "<a></a", " ", 512 << 10},
		{"declaration", "<?xml ", " ", 512 << 10},
		{"blanks before", "", " ", 9 << 20},
		{"blanks after", "<a/>", " ", 9 << 20},
		{"comments before", "", "<!-- x -->", 9 << 20},
		{"children", "<a>", "<b/>", 9 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &endless{head: c.head, piece: c.piece}
			r := xmlpull.NewReader(e, xmlpull.Limits{Bytes: 8 << 20})
			var err error
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, xmlpull.ErrLimit) || e.given > c.most {
				t.Errorf("%d bytes read, then %v; want at most %d, then ErrLimit", e.given, err, c.most)
			}
			if _, again := r.Next(); again != err {
				t.Errorf("then %v", again)
			}
		})
	}
}

// A reference without an end, which cannot become valid, is refused.
func TestEndlessReference(t *testing.T) {
	e := &endless{head: "<a>&#x", piece: "0"}
	_, err := dump(xmlpull.NewReader(e, xmlpull.Limits{}))
	var syntax *xmlpull.SyntaxError
	if !errors.As(err, &syntax) || e.given > 128<<10 {
		t.Errorf("%d bytes read, then %v", e.given, err)
	}
}

// Each limit allows exactly its number, and no more.
func TestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	attrs := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " b%d=''", i)
		}
		return "<a" + b.String() + "/>"
	}
	declared := func(n int) string {
		var b strings.Builder
		for i := range n - 1 {
			fmt.Fprintf(&b, " xmlns:b%d='u'", i)
		}
		return "<a" + b.String() + "><b xmlns='v'/><b xmlns='w'/></a>"
	}
	tag := func(n int) string { return "<a b='" + strings.Repeat("x", n-9) + "'/>" }
	greater := func(n int) string { return "<a b='" + strings.Repeat(">", n-9) + "'/>" }
	text := func(n int) string { return "<a>\n<b>" + strings.Repeat("x", n) + "</b>\n</a>" }
	for _, c := range []struct {
		name   string
		limits xmlpull.Limits
		n      int
		doc    func(int) string
	}{
		{"depth", xmlpull.Limits{}, 64, nested},
		{"depth", xmlpull.Limits{Depth: 3}, 3, nested},
		{"attributes", xmlpull.Limits{}, 64, attrs},
		{"attributes", xmlpull.Limits{Attrs: 2}, 2, attrs},
		{"attributes", xmlpull.Limits{Attrs: 3000}, 3000, attrs},
		{"names", xmlpull.Limits{Attrs: 100}, 64, declared},
		{"names", xmlpull.Limits{Names: 2}, 2, declared},
		{"tag", xmlpull.Limits{}, 64 << 10, tag},
		{"tag", xmlpull.Limits{Tag: 100}, 100, tag},
		{"tag", xmlpull.Limits{Tag: 1 << 20}, 1 << 20, tag},
		{"tag with >", xmlpull.Limits{}, 64 << 10, greater},
		{"tag with >", xmlpull.Limits{Tag: 100}, 100, greater},
		{"end tag", xmlpull.Limits{Tag: 100}, 100, func(n int) string { return "<a></a" + strings.Repeat(" ", n-4) + ">" }},
		{"text", xmlpull.Limits{}, 1 << 20, text},
		{"text", xmlpull.Limits{Text: 10}, 10, text},
		{"text in parts", xmlpull.Limits{Text: 11}, 11, func(n int) string {
			return "<a>xxx<!-- -->yyy<![CDATA[" + strings.Repeat("z", n-6) + "]]></a>"
		}},
		{"comment", xmlpull.Limits{}, 1 << 20, func(n int) string { return "<a><!--" + strings.Repeat("x", n) + "--></a>" }},
		{"comment", xmlpull.Limits{Text: 10}, 10, func(n int) string { return "<a><!--" + strings.Repeat("x", n) + "--></a>" }},
		{"instruction", xmlpull.Limits{Text: 10}, 10, func(n int) string { return "<a><?b" + strings.Repeat(" ", n) + "?></a>" }},
		{"bytes", xmlpull.Limits{Bytes: 100}, 100, tag},
		{"bytes", xmlpull.Limits{Bytes: 200_000}, 200_000, func(n int) string { return "<a/>" + strings.Repeat(" ", n-4) }},
	} {
		t.Run(fmt.Sprintf("%s %d", c.name, c.n), func(t *testing.T) {
			if _, err := dump(xmlpull.NewReader(strings.NewReader(c.doc(c.n)), c.limits)); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			if _, err := dump(xmlpull.NewReader(strings.NewReader(c.doc(c.n+1)), c.limits)); !errors.Is(err, xmlpull.ErrLimit) {
				t.Errorf("one more: %v, want ErrLimit", err)
			}
		})
	}
}

// Millions of small elements cost no memory: only what is open is kept.
func TestManyElementsNeedNoMemory(t *testing.T) {
	e := &endless{head: "<a xmlns:p='u'>", piece: "<b xmlns:q='v' c='1'/>\n"}
	r := xmlpull.NewReader(io.LimitReader(e, 8<<20), xmlpull.Limits{})
	next := func() bool {
		_, err := r.Next()
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		return err == nil
	}
	for range 10_000 {
		next()
	}
	if n := testing.AllocsPerRun(1, func() {
		for range 300_000 {
			next()
		}
	}); n > 100 { // the whole process is counted, and the runtime allocates too
		t.Errorf("%v allocations for 300,000 elements", n)
	}
	for next() {
	}
}
