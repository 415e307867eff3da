package html_test

import (
	"bytes"
	"iter"
	"testing"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
)

// wildPages yields some 600 pages of all kinds, as broken as pages are: where a
// site has no robots.txt, many servers answer with a page all the same.
func wildPages(t *testing.T) iter.Seq2[string, []byte] {
	recorded := machine.Recorded(t, "robots-top1m-2017")
	return func(yield func(string, []byte) bool) {
		for name, page := range recorded {
			start := bytes.ToLower(page[:min(len(page), 4096)])
			if !bytes.Contains(start, []byte("<html")) && !bytes.Contains(start, []byte("<body")) {
				continue
			}
			if !yield(name, page) {
				return
			}
		}
	}
}

func TestWildPagesAgainstParser(t *testing.T) {
	n, other, titles, languages, canonical, links, differ := 0, 0, 0, 0, 0, 0, 0
	for name, page := range wildPages(t) {
		p := html.Read("https://example.org/robots.txt", page, html.Options{Links: true, Text: true})
		if !utf8.Valid(page) {
			other++ // where the oracle has no answer
			continue
		}
		n++
		links += len(p.Links)
		for _, c := range []struct {
			has string
			n   *int
		}{{p.Title, &titles}, {p.Language, &languages}, {p.Canonical, &canonical}} {
			if c.has != "" {
				*c.n++
			}
		}
		if want := oracleText(t, string(page)); string(p.Text) != want {
			differ++
			t.Logf("%s: text differs from that of the tree", name)
		}
	}
	t.Logf("%d pages of UTF-8 and %d others: %d have a title, %d a language, %d another canonical URL; %d links; the text of %d differs from that of a parser",
		n, other, titles, languages, canonical, links, differ)
	if n < 300 || differ > 2 {
		t.Errorf("of %d pages %d differ, want 2", n, differ)
	}
}

// The Scanner finds on them what readTokens finds, even where <noscript> and
// drawings, that the two take differently, are in the way.
func TestScanWildPages(t *testing.T) {
	n, heads, texts := 0, 0, 0
	s := html.Scanner{MainText: true}
	for name, page := range wildPages(t) {
		if n++; bytes.HasPrefix(page, []byte("\xff\xfe")) || bytes.HasPrefix(page, []byte("\xfe\xff")) {
			continue // the oracle reads no UTF-16
		}
		if err := agree(bytes.TrimPrefix(page, []byte("\uFEFF"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Scan(page)
		p := readTokens("https://example.org/robots.txt", page, html.Options{Text: true}, true)
		if s.Head.Title != p.Title || s.Head.Language != p.Language || s.Head.NoIndex != p.NoIndex {
			heads++
		}
		if !bytes.Equal(s.Text.Lines, p.Text) {
			texts++
		}
	}
	t.Logf("%d pages: the heads of %d and the main texts of %d differ from those of readTokens", n, heads, texts)
	if n < 300 || heads > 0 || texts > 0 {
		t.Errorf("of %d pages %d heads and %d texts differ", n, heads, texts)
	}
}
