package feed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
	"github.com/mmcdole/gofeed/atom"
	ext "github.com/mmcdole/gofeed/extensions"

	"github.com/parleyweb/parley/protocol"
)

// Options configure Read. Zero values are useful.
type Options struct {
	// URL is the URL of the feed: relative URLs are resolved against it. Empty means unknown.
	URL string

	// MaxBytes bounds the document. Zero means the constant of that name.
	MaxBytes int64
}

// Errors that [Read] wraps.
var (
	// ErrHTML says that the document is a page, not a feed.
	ErrHTML = errors.New("document is HTML, not a feed")

	// ErrOther says that the document is something else.
	ErrOther = errors.New("not a feed")

	// ErrLimit says that the document exceeds a limit.
	ErrLimit = errors.New("over the limit")
)

// MaxBytes is how many bytes of a feed are read by default, and how many a site writes. A feed is parsed in
// memory, by a library that has no limits.
const MaxBytes = 16 << 20

const (
	maxObjects = 200_000 // elements, or JSON objects and lists
)

// Read reads a feed. An entry without a URL that protocol.CanonicalURL accepts is left out. Entries come in
// the order of the document; those that Atom declares as deleted come last, with the Op Delete.
func Read(r io.Reader, o Options) (Feed, error) {
	f, err := read(r, o)
	if err != nil {
		name := "feed"
		if o.URL != "" {
			name = fmt.Sprintf("feed %.200s", o.URL)
		}
		return Feed{}, fmt.Errorf("read %s: %w", name, err)
	}
	return f, nil
}

func read(r io.Reader, o Options) (Feed, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	b, err := io.ReadAll(io.LimitReader(r, o.MaxBytes+1))
	switch {
	case err != nil:
		return Feed{}, err
	case int64(len(b)) > o.MaxBytes:
		return Feed{}, fmt.Errorf("more than %d bytes: %w", o.MaxBytes, ErrLimit)
	}
	if err := checkShape(b); err != nil {
		return Feed{}, err
	}
	p := gofeed.NewParser()
	p.KeepOriginalFeed = true
	g, err := p.Parse(bytes.NewReader(b))
	switch {
	case errors.Is(err, gofeed.ErrFeedTypeNotDetected) && isHTML(b):
		return Feed{}, ErrHTML
	case errors.Is(err, gofeed.ErrFeedTypeNotDetected):
		return Feed{}, ErrOther
	case err != nil:
		return Feed{}, err
	}
	return translate(g, o), nil
}

// isHTML reports whether a document begins as HTML.
func isHTML(b []byte) bool {
	b = bytes.ToLower(b[:min(len(b), 4096)])
	for _, begin := range []string{"<!doctype html", "<html", "<head", "<body", "<script", "<title"} {
		if bytes.Contains(b, []byte(begin)) {
			return true
		}
	}
	return false
}

// checkShape rejects a document that would cost the parser too much. It counts everything that may begin an
// element or an object, wherever it stands, so that no disguise helps.
func checkShape(b []byte) error {
	n := bytes.Count(b, []byte("<")) - bytes.Count(b, []byte("</"))
	if begin := bytes.TrimLeft(b, "\x00\xef\xbb\xbf\xfe\xff \t\r\n"); len(begin) > 0 && begin[0] == '{' {
		n = bytes.Count(b, []byte("{")) + bytes.Count(b, []byte("["))
	}
	if n > maxObjects {
		return fmt.Errorf("more than %d elements: %w", maxObjects, ErrLimit)
	}
	return nil
}

// translate converts the parsed feed.
func translate(g *gofeed.Feed, o Options) Feed {
	f := Feed{Title: clean(g.Title, maxTitle), Description: clean(g.Description, maxSummary),
		Kind: strings.TrimSpace(g.FeedType + " " + g.FeedVersion[strings.LastIndexByte(g.FeedVersion, '/')+1:])}
	f.Home, _ = protocol.CanonicalURL(o.URL, g.Link)
	f.Self, _ = protocol.CanonicalURL(o.URL, g.FeedLink)
	f.Hub, _ = protocol.CanonicalURL(o.URL, hub(g))
	f.Updated, _ = date(g.Updated, g.UpdatedParsed)
	if f.Updated.IsZero() {
		f.Updated, _ = date(g.Published, g.PublishedParsed)
	}
	for _, it := range g.Items {
		if e, ok := entry(it, cmp.Or(f.Home, o.URL)); ok {
			f.Entries = append(f.Entries, e)
		}
	}
	for _, byName := range g.Extensions {
		for _, x := range byName["deleted-entry"] {
			url, err := protocol.CanonicalURL("", x.Attrs["ref"])
			if err != nil {
				continue
			}
			e := Entry{URL: url, ID: x.Attrs["ref"], Op: protocol.Delete}
			e.Modified, e.Span = date(x.Attrs["when"], nil)
			f.Entries = append(f.Entries, e)
		}
	}
	return f
}

// hub returns the URL of the hub that a feed names, which the library does not return.
func hub(g *gofeed.Feed) string {
	if a, ok := g.OriginalFeed().(*atom.Feed); ok {
		for _, l := range a.Links {
			if l.Rel == "hub" {
				return l.Href
			}
		}
	}
	for _, x := range g.Extensions["atom"]["link"] {
		if x.Attrs["rel"] == "hub" {
			return x.Attrs["href"]
		}
	}
	return ""
}

// entry converts an item, and returns false if it has no URL.
func entry(it *gofeed.Item, base string) (Entry, bool) {
	url, err := protocol.CanonicalURL(base, it.Link)
	if err != nil {
		if url, err = protocol.CanonicalURL("", it.GUID); err != nil {
			return Entry{}, false
		}
	}
	e := Entry{URL: url, Title: clean(it.Title, maxTitle), Summary: clean(it.Description, maxSummary), ID: it.GUID}
	if m := modified(it.Extensions); m != "" {
		e.Modified, e.Span = date(m, nil)
	}
	if e.Modified.IsZero() {
		e.Modified, e.Span = date(it.Updated, it.UpdatedParsed)
	}
	if e.Modified.IsZero() {
		e.Modified, e.Span = date(it.Published, it.PublishedParsed)
	}
	return e, true
}

// modified returns the item's dcterms:modified.
func modified(x ext.Extensions) string {
	for _, m := range x["dcterms"]["modified"] {
		return m.Value
	}
	return ""
}

// date returns the interval of a date: in W3CDTF, or else as the library parsed it, to the second.
func date(s string, parsed *time.Time) (time.Time, time.Duration) {
	if d, err := protocol.ParseDate(strings.TrimSpace(s)); err == nil {
		return d.Time, d.Span
	}
	if parsed == nil || parsed.Year() < 1 || parsed.Year() > 9999 {
		return time.Time{}, 0
	}
	return parsed.UTC().Truncate(time.Millisecond), 0
}
