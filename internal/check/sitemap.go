package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
)

const (
	maxParts   = 20      // sitemaps of an index that are tried, failures included
	maxListed  = 100_000 // URLs of sitemaps that are remembered of an index
	maxSitemap = 256 << 20
)

// sitemap checks a sitemap, or an index and some of its sitemaps.
func (x *run) sitemap(ctx context.Context, d *document, r io.Reader) error {
	x.sitemapRules(ctx, d)
	sr := sitemap.NewReader(r, sitemap.Options{URL: d.url, MaxBytes: maxSitemap, MaxEntries: maxEntries})
	var parts []string
	n := 0
	var err error
	for ; ; n++ {
		var e sitemap.Entry
		if e, err = sr.Next(); err != nil {
			break
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e.Sitemap && d.part {
			x.violate("nested-index", d.place, short(e.Loc))
			continue
		}
		x.written(e)
		if e.Sitemap {
			if len(parts) < maxListed {
				parts = append(parts, e.Loc)
			}
			continue
		}
		it := entry{url: e.Loc, raw: e.RawLoc, modified: e.Modified, span: e.Span, length: -1}
		x.entry(ctx, d, it)
		x.outside(d, it)
	}
	d.bytes = sr.Bytes()
	if !d.part && sr.Kind() != sitemap.Unknown {
		x.report.Kind = sr.Kind().String()
	}
	if skipped, first := sr.Skipped(); skipped > 0 {
		x.violate("bad-url", d.place, short(first[0].Error())).amount(skipped, 0)
	}
	if space := sr.Space(); sr.Kind() != sitemap.Text && sr.Kind() != sitemap.Unknown && space != sitemap.Namespace {
		x.violate("namespace", d.place, named(space)).fixed = `write xmlns="` + sitemap.Namespace + `" in its root`
	}
	if n > sitemap.MaxURLs {
		h := x.violate("too-many-urls", d.place, "")
		h.count = max(h.count, n)
	}
	if d.bytes > sitemap.MaxBytes {
		x.violate("too-large", d.place, "").bytes[0] = d.bytes
	}
	if sr.Kind() != sitemap.Index {
		x.judge(d)
	}
	switch {
	case err != io.EOF && errors.Is(err, sitemap.ErrHTML):
		return errHTML
	case err != io.EOF && errors.Is(err, sitemap.ErrOther):
		return errUnknown{plainText(err)}
	case err != io.EOF:
		return err
	case n == 0:
		x.violate("no-entries", d.place, "")
	}
	return x.parts(ctx, d, parts)
}

func named(space string) string {
	if space == "" {
		return "none"
	}
	return short(space)
}

// written checks how an entry is written.
func (x *run) written(e sitemap.Entry) {
	if p, err := strconv.ParseFloat(e.RawPriority, 64); e.RawPriority != "" && (err != nil || !(p >= 0 && p <= 1)) {
		x.violate("bad-priority", e.Loc, fmt.Sprintf("%q of %s", short(e.RawPriority), short(e.Loc)))
	}
	if e.RawLastmod == "" {
		return
	}
	eg := fmt.Sprintf("%q of %s", short(e.RawLastmod), short(e.Loc))
	if e.Modified.IsZero() {
		x.violate("bad-date", e.Loc, eg)
		x.dated++
	} else if _, err := protocol.ParseDate(e.RawLastmod); err != nil {
		x.violate("zoneless-date", e.Loc, eg)
	}
}

// sitemapRules reads the Sitemap lines of robots.txt.
func (x *run) sitemapRules(ctx context.Context, d *document) {
	if x.fetcher == nil || d.url == "" || d.part || x.lists != nil {
		return
	}
	x.lists = make(map[string]bool)
	r := x.fetcher.robots(ctx, d.origin())
	if ctx.Err() != nil {
		return
	}
	for _, v := range r.file.Lines("sitemap") {
		if u, err := protocol.CanonicalURL("", v); err == nil {
			x.lists[u] = true
		}
	}
	if len(x.lists) == 0 {
		x.violate("no-sitemap-line", d.origin()+"/robots.txt", "").fixed = "Sitemap: " + d.url
	}
}

// parts reads some of the sitemaps of an index, spread over it. Failed fetches count
// too: an index that lists thousands of missing sitemaps costs no more requests.
func (x *run) parts(ctx context.Context, d *document, list []string) error {
	tried := 0
	for i, url := range list {
		if tried*len(list) > i*min(maxParts, len(list)) || ctx.Err() != nil {
			continue // spread the tries evenly
		}
		if x.part(ctx, d, url) {
			tried++
		}
	}
	if unread := len(list) - tried; unread > 0 {
		x.violate("parts-unread", d.place, "").amount(unread, len(list))
	}
	x.outOf(tried, "part-missing")
	return ctx.Err()
}

// part reads one sitemap of an index, and reports whether it tried to: it sent a
// request, or the file exists.
func (x *run) part(ctx context.Context, d *document, url string) bool {
	if d.url == "" && x.fetcher == nil {
		name := filepath.Join(d.beside, path.Base(url))
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return false
		}
		x.read(ctx, &document{place: name, modified: info.ModTime(), part: true}, f)
		return true
	}
	if d.url != "" && !sameSite(d.url, url) {
		return false
	}
	if ans, body := x.fetch(ctx, url, true); ans != nil {
		defer body.Close()
		p := newDocument(ans)
		p.part = true
		x.read(ctx, p, body)
	}
	return true
}
