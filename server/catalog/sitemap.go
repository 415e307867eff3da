package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
)

const (
	maxSitemaps     = 10_000 // listed by an index, directly or not
	maxSitemapLevel = 2      // indexes within an index; the protocol allows none
)

// A Sitemap is a Source: a sitemap or a sitemap index in a file or at an http(s) URL, plain or compressed.
// The sitemaps of an index file are looked up beside it by their names, and fetched if they are not there;
// those of an index on the Web must be of the same host. If one of them cannot be read, the Sitemap cannot.
type Sitemap string

// Partial is false.
func (s Sitemap) Partial() bool { return false }

func (s Sitemap) String() string { return redacted(string(s)) }

// Read implements [Source]. An index has changed if it or any sitemap that it lists has.
func (s Sitemap) Read(ctx context.Context, last string, each func(Entry) error) (string, error) {
	if last != "" {
		changed, err := sitemapsChanged(ctx, last)
		if err != nil {
			return "", err
		}
		if !changed {
			return "", errUnchanged
		}
	}
	r := sitemapReader{each: each, seen: make(map[string]bool)}
	if err := r.read(ctx, string(s), 0); err != nil || r.unknown {
		return "", err
	}
	return r.versions.String(), nil
}

// sitemapsChanged reports whether a document has changed, given the names and versions that
// a sitemapReader wrote.
func sitemapsChanged(ctx context.Context, last string) (bool, error) {
	for line := range strings.Lines(last) {
		name, version, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		version, err := url.QueryUnescape(version)
		if !ok || err != nil {
			return true, nil
		}
		d, err := openDocument(ctx, name, version)
		if errors.Is(err, errUnchanged) {
			continue
		}
		if err != nil {
			return false, err
		}
		d.Close()
		return true, nil
	}
	return false, nil
}

// A sitemapReader reads a sitemap and all that it lists.
type sitemapReader struct {
	each     func(Entry) error
	seen     map[string]bool // names of the documents
	versions strings.Builder // a line for each document
	unknown  bool            // a document has no version
}

func (r *sitemapReader) read(ctx context.Context, name string, level int) error {
	if r.seen[name] {
		return nil
	}
	r.seen[name] = true
	if len(r.seen) > maxSitemaps+1 {
		return fmt.Errorf("more than %d sitemaps", maxSitemaps)
	}
	more, err := r.document(ctx, name)
	if err != nil {
		if level > 0 {
			err = fmt.Errorf("sitemap %s: %w", redacted(name), err)
		}
		return err
	}
	if len(more) > 0 && level >= maxSitemapLevel {
		return fmt.Errorf("sitemap %s: indexes are nested too deeply", redacted(name))
	}
	for _, loc := range more {
		next, err := beside(name, loc)
		if err != nil {
			return err
		}
		if err := r.read(ctx, next, level+1); err != nil {
			return err
		}
	}
	return nil
}

// document reads one document, and returns the sitemaps that it lists.
func (r *sitemapReader) document(ctx context.Context, name string) (more []string, err error) {
	d, err := openDocument(ctx, name, "")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	plain, err := coding.NewReader(d)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	var o sitemap.Options
	if isWeb(name) {
		o.URL = name
	}
	m := sitemap.NewReader(plain, o)
	for {
		e, err := m.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if e.Sitemap {
			if more = append(more, e.Loc); len(more) > maxSitemaps {
				return nil, fmt.Errorf("more than %d sitemaps", maxSitemaps)
			}
			continue
		}
		if err := r.each(Entry{URL: e.Loc, Modified: e.Modified, Span: e.Span}); err != nil {
			return nil, err
		}
	}
	skipped, first := m.Skipped()
	for i := range skipped {
		bad := Entry{Bad: leftNotURL}
		if i < len(first) {
			bad.URL = first[i].Error()
		}
		if err := r.each(bad); err != nil {
			return nil, err
		}
	}
	v, err := d.version()
	r.unknown = r.unknown || v == "" || strings.ContainsAny(name, "\t\n")
	fmt.Fprintf(&r.versions, "%s\t%s\n", name, url.QueryEscape(v))
	return more, err
}

// beside returns the location of a sitemap that an index lists.
func beside(index, loc string) (string, error) {
	if isWeb(index) {
		at, err := protocol.CanonicalURL("", index)
		if err != nil {
			return "", err
		}
		if protocol.Origin(at) != protocol.Origin(loc) {
			return "", fmt.Errorf("the index lists %s, which is on another host: give that sitemap as a source of its own", loc)
		}
		return loc, nil
	}
	u, err := url.Parse(loc)
	if err != nil {
		return "", err
	}
	if base := path.Base(u.Path); base != "/" && base != "." {
		file := filepath.Join(filepath.Dir(index), base)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file, nil
		}
	}
	return loc, nil
}

// A Feed is a Source: an RSS, Atom or JSON feed in a file, or at an http(s) URL. A feed lists the newest
// pages only.
type Feed string

// Partial is true.
func (f Feed) Partial() bool { return true }

func (f Feed) String() string { return redacted(string(f)) }

// Read implements [Source].
func (f Feed) Read(ctx context.Context, last string, each func(Entry) error) (string, error) {
	d, err := openDocument(ctx, string(f), last)
	if err != nil {
		return "", err
	}
	defer d.Close()
	plain, err := coding.NewReader(d)
	if err != nil {
		return "", err
	}
	defer plain.Close()
	var o feed.Options
	if isWeb(string(f)) {
		o.URL = string(f)
	}
	parsed, err := feed.Read(plain, o)
	if err != nil {
		return "", err
	}
	for i := len(parsed.Entries) - 1; i >= 0; i-- { // newest last, since the last entry of a URL counts
		e := &parsed.Entries[i]
		if e.Op == protocol.Delete {
			continue // a feed only shows that a page exists
		}
		if err := each(Entry{URL: e.URL, Title: e.Title, Modified: e.Modified, Span: e.Span}); err != nil {
			return "", err
		}
	}
	return d.version()
}
