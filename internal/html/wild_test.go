package html_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyweb/parley/internal/html"
)

// Where a site has no robots.txt, many servers answer with a page all the
// same: some 600 pages of all kinds, as broken as pages are.
func TestWildPagesAgainstParser(t *testing.T) {
	data := os.Getenv("PARLEY_DATA")
	if data == "" {
		t.Skip("PARLEY_DATA names no folder of recorded corpora")
	}
	packed, err := os.Open(filepath.Join(data, "parsers", "robots-top1m-2017.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := zstd.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	n, other, titles, languages, canonical, links, differ := 0, 0, 0, 0, 0, 0, 0
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if start := bytes.ToLower(page[:min(len(page), 4096)]); !bytes.Contains(start, []byte("<html")) && !bytes.Contains(start, []byte("<body")) {
			continue
		}
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
			t.Logf("%s: text differs from that of the tree", h.Name)
		}
	}
	t.Logf("%d pages of UTF-8 and %d others: %d have a title, %d a language, %d another canonical URL; %d links; the text of %d differs from that of a parser",
		n, other, titles, languages, canonical, links, differ)
	if n < 300 || differ > 2 {
		t.Errorf("of %d pages %d differ, where 2 did", n, differ)
	}
}
