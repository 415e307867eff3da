package seed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
)

// A Named is an entry of a sitemap or a feed, before it is admitted.
type Named struct {
	URL string // as protocol.CanonicalURL writes it

	// Modified is when the page last changed, and Span the resolution of that: see
	// protocol.Item. Zero if not stated.
	Modified time.Time
	Span     time.Duration

	Title   string // of a feed's entry
	Deleted bool   // the feed marks it as deleted
	Foreign bool   // of another origin than the document
}

// A List is a parsed sitemap or feed.
type List struct {
	Kind     string // "sitemap", "sitemap index", "text sitemap", "rss 2.0" and the like
	Pages    []Named
	Sitemaps []Named // of an index
	Hub      string  // URL of a feed's WebSub hub
	Skipped  int     // entries without a usable URL
}

// MaxSitemap and MaxFeed bound the bytes that are read of a sitemap, uncompressed, and of a feed.
const (
	MaxSitemap = sitemap.MaxBytes + 1<<20
	MaxFeed    = feed.MaxBytes
)

const maxEntries = 4 * sitemap.MaxURLs // many sitemaps are longer than the protocol allows, and still useful

// ErrNone says that a document is not of the requested kind: most often it is a
// "not found" page with status 200.
var ErrNone = errors.New("not a document of the expected kind")

// ReadSitemap reads a sitemap, an index of sitemaps, or a list of URLs, plain
// or as a gzip or Zstandard file. If the document is truncated, or over a limit, it
// returns the entries so far with the error, which wraps ErrNone for other documents.
func ReadSitemap(url string, body []byte) (List, error) {
	var d List
	z, err := coding.NewReader(bytes.NewReader(body))
	if err != nil {
		return d, fmt.Errorf("read sitemap %.200s: %w", url, err)
	}
	defer z.Close()
	r := sitemap.NewReader(z, sitemap.Options{URL: url, MaxBytes: MaxSitemap, MaxEntries: maxEntries})
	for {
		e, err := r.Next()
		d.Kind = r.Kind().String()
		d.Skipped, _ = r.Skipped()
		switch {
		case err == io.EOF:
			return d, nil
		case errors.Is(err, sitemap.ErrHTML), errors.Is(err, sitemap.ErrOther):
			return d, fmt.Errorf("%w: %w", ErrNone, err)
		case err != nil:
			return d, err
		}
		n := Named{URL: e.Loc, Modified: e.Modified, Span: e.Span, Foreign: e.Foreign}
		if e.Sitemap {
			d.Sitemaps = append(d.Sitemaps, n)
		} else {
			d.Pages = append(d.Pages, n)
		}
	}
}

// ReadFeed reads RSS, Atom or JSON Feed, plain or compressed. The error wraps
// ErrNone if the document is not a feed.
func ReadFeed(url string, body []byte) (List, error) {
	z, err := coding.NewReader(bytes.NewReader(body))
	if err != nil {
		return List{}, fmt.Errorf("read feed %.200s: %w", url, err)
	}
	defer z.Close()
	f, err := feed.Read(z, feed.Options{URL: url, MaxBytes: MaxFeed})
	if errors.Is(err, feed.ErrHTML) || errors.Is(err, feed.ErrOther) {
		err = fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return List{}, err
	}
	d := List{Kind: f.Kind, Hub: f.Hub}
	origin := protocol.Origin(url)
	for _, e := range f.Entries {
		d.Pages = append(d.Pages, Named{URL: e.URL, Modified: e.Modified, Span: e.Span, Title: e.Title,
			Deleted: e.Op == protocol.Delete, Foreign: origin != "" && protocol.Origin(e.URL) != origin})
	}
	return d, nil
}
