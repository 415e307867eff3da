package seed_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitemap"
)

func gz(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	must.OK(t, w.Close())
	return b.Bytes()
}

func show(l seed.List) string {
	var b strings.Builder
	fmt.Fprint(&b, l.Kind)
	for _, n := range l.Sitemaps {
		fmt.Fprint(&b, " [", n.URL, "]")
	}
	for _, n := range l.Pages {
		fmt.Fprint(&b, " ", n.URL)
		if !n.Modified.IsZero() {
			fmt.Fprintf(&b, " %s+%v", n.Modified.UTC().Format(time.RFC3339), n.Span)
		}
		if n.Foreign {
			b.WriteString(" foreign")
		}
		if n.Deleted {
			b.WriteString(" deleted")
		}
	}
	return b.String()
}

func TestReadSitemap(t *testing.T) {
	const at = "https://a.example/dir/sitemap.xml"
	const set = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://a.example/1</loc><lastmod>2026-11-21T10:00:00Z</lastmod></url>` +
		`<url><loc>https://A.example:443/2#x</loc></url><url><loc>https://b.example/</loc></url><url><loc>mailto:x</loc></url></urlset>`
	const pages = "sitemap https://a.example/1 2026-11-21T10:00:00Z+0s https://a.example/2 https://b.example/ foreign"
	for _, c := range []struct {
		name string
		body []byte
		want string
		err  error
	}{
		{"plain", []byte(set), pages, nil},
		{"gzip", gz(t, set), pages, nil},
		{"index", []byte(`<sitemapindex><sitemap><loc>https://a.example/s1.xml.gz</loc></sitemap><sitemap><loc>/s2.xml</loc></sitemap></sitemapindex>`),
			"sitemap index [https://a.example/s1.xml.gz] [https://a.example/s2.xml]", nil},
		{"text", []byte("https://a.example/1\r\nhttps://a.example/2\n"), "text sitemap https://a.example/1 https://a.example/2", nil},
		{"cut short", []byte(set[:180]), "sitemap https://a.example/1 2026-11-21T10:00:00Z+0s", sitemap.ErrTruncated},
		{"a gzip file cut short", gz(t, set)[:60], "unknown", io.ErrUnexpectedEOF},
		{"a page", []byte("<!doctype html><html><title>Not found</title></html>"), "unknown", seed.ErrNone},
		{"a feed", []byte("<rss version='2.0'><channel/></rss>"), "unknown", seed.ErrNone},
		{"a bomb", nil, "sitemap", sitemap.ErrLimit},
	} {
		if c.name == "a bomb" {
			if testing.Short() {
				continue
			}
			c.body = gz(t, "<urlset>"+strings.Repeat(" ", 60<<20))
		}
		l, err := seed.ReadSitemap(at, c.body)
		if got := show(l); got != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %s, %v; want %s, %v", c.name, got, err, c.want, c.err)
		}
	}
	if l, _ := seed.ReadSitemap(at, []byte(set)); l.Skipped != 1 {
		t.Errorf("skipped %d", l.Skipped)
	}
}

func TestReadFeed(t *testing.T) {
	const at = "https://a.example/feed"
	const atom = `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:at="http://purl.org/atompub/tombstones/1.0"><title>t</title><id>x</id><updated>2026-11-21T10:00:00Z</updated>` +
		`<link rel="hub" href="https://hub.example/"/>` +
		`<entry><title>One</title><id>1</id><link href="/1"/><updated>2026-11-21T10:00:00Z</updated></entry>` +
		`<entry><title>Two</title><id>2</id><link href="https://b.example/2"/><updated>2026-11-20T10:00:00Z</updated></entry></feed>`
	const want = "atom 1.0 https://a.example/1 2026-11-21T10:00:00Z+0s https://b.example/2 2026-11-20T10:00:00Z+0s foreign"
	for name, body := range map[string][]byte{"plain": []byte(atom), "gzip": gz(t, atom)} {
		l, err := seed.ReadFeed(at, body)
		if got := show(l); got != want || err != nil || l.Hub != "https://hub.example/" || l.Pages[0].Title != "One" {
			t.Errorf("%s: %s, hub %q, %v", name, got, l.Hub, err)
		}
	}
	for name, body := range map[string]string{"a page": "<!doctype html><p>no", "a sitemap": "<urlset/>", "nothing": ""} {
		if l, err := seed.ReadFeed(at, []byte(body)); !errors.Is(err, seed.ErrNone) {
			t.Errorf("%s: %s, %v", name, show(l), err)
		}
	}
	if testing.Short() {
		return
	}
	if _, err := seed.ReadFeed(at, gz(t, "<rss>"+strings.Repeat(" ", 60<<20))); err == nil || errors.Is(err, seed.ErrNone) {
		t.Errorf("a bomb: %v", err)
	}
}
