package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/server"
)

// Sitemap writes the site's sitemap: one file, or, if one may not hold all pages, an index at Path and
// numbered parts beside it (sitemap-0001.xml).
//
// It lists present and public pages, including held ones, since vanished is not deleted. A page with another
// canonical URL is left out (Item.Canonical), and so is what the protocol does not allow: URLs that do not
// begin with Base, and URLs of 2,048 characters or more. Pages whose names differ only in their language, such as page.html.en and
// page.html.de, are linked with each other (hreflang). If pages are left out it warns, and if all are left
// out because of Base, it is an error. A date is written only if it is known, and no more precisely.
//
// The files depend on the journal alone. All are ready before the first is put in place, the index last;
// parts that are no longer needed are removed after it. While neither the journal nor the files' metadata
// change, a Write takes a few calls of stat.
//
// Its methods are not safe for concurrent use.
type Sitemap struct {
	// Path is the absolute path of the file, such as DOCROOT/sitemap.xml. An existing file is replaced only
	// if it is a sitemap, or empty.
	Path string

	Base string // URL of the directory that Path is in

	// Gzip compresses the parts: they are named sitemap-0001.xml.gz then. The file at Path is never
	// compressed, so that its URL is always the same.
	Gzip bool

	// Precompress maintains compressed siblings of every file that is not compressed itself. See
	// [Compressed].
	Precompress bool

	// Public reports which URLs may be published now, by robots.txt and by the choice of pages; nil means all.
	Public func(url string) bool

	// MaxURLs and MaxBytes bound one file more tightly than the protocol (50,000 URLs, 52,428,800 bytes).
	// Zero means the protocol's bound.
	MaxURLs, MaxBytes int

	Log *slog.Logger
}

var _ server.Output = (*Sitemap)(nil)

const sitemapNote = "output/sitemap"

// URL returns the sitemap's URL, for a line in robots.txt.
func (s *Sitemap) URL() string { return s.base() + url.PathEscape(filepath.Base(s.Path)) }

func (s *Sitemap) base() string { return strings.TrimSuffix(s.Base, "/") + "/" }

// ownParts is how many parts Own lists in advance: for five million pages.
const ownParts = 100

// Own returns the files that it writes: all existing parts, and some that may come.
func (s *Sitemap) Own() []string {
	own := withSiblings(s.Path)
	for i, there := 1, true; i <= ownParts || there && i <= sitemap.MaxURLs; i++ {
		there = false
		for _, ext := range []string{".xml", ".xml.gz", ".xml.zst"} {
			p := s.part(i, ext)
			own = append(own, p)
			if i >= ownParts && !there {
				_, err := os.Lstat(p)
				there = err == nil
			}
		}
	}
	return own
}

// part returns the path of part i.
func (s *Sitemap) part(i int, ext string) string {
	return filepath.Join(filepath.Dir(s.Path), sitemap.PartName(filepath.Base(s.Path), i, ext))
}

// owns reports whether a file name can be one of the sitemap's.
func (s *Sitemap) owns(name string) bool {
	base := filepath.Base(s.Path)
	if part, ok := strings.CutPrefix(name, strings.TrimSuffix(base, ".xml")); ok && partName.MatchString(part) {
		return true
	}
	return name == base || slices.Contains(siblingsOf(base), name)
}

var partName = regexp.MustCompile(`^-[0-9]{4,}\.xml(\.gz|\.zst)?$`)

func (s *Sitemap) partExt() string {
	if s.Gzip {
		return ".xml.gz"
	}
	return ".xml"
}

// Write implements [server.Output]. It writes nothing before the journal is whole.
func (s *Sitemap) Write(ctx context.Context, j *server.Journal) (bool, error) {
	wrote, err := s.write(ctx, j)
	if errors.Is(err, sitemap.ErrFull) { // the public pages have changed between two passes
		wrote, err = s.write(ctx, j)
	}
	return wrote, err
}

// String names the output in messages.
func (s *Sitemap) String() string { return "sitemap" }

func (s *Sitemap) write(ctx context.Context, j *server.Journal) (bool, error) {
	if !j.Whole() {
		return false, nil
	}
	var was outputState
	known := was.read(j, sitemapNote)
	now := outputState{
		Revision: j.Revision(), // before the view: later changes count for the next Write
		Config:   hashOf(2, s.Path, s.base(), s.Gzip, s.Precompress, s.MaxURLs, s.MaxBytes),
		Siblings: s.Precompress,
		Place:    hashOf(s.Path),
	}
	if was.isCurrent(now) && was.Files == fileStamps(s.files(was)) {
		return false, nil
	}
	made := &set{owns: s.owns, compress: s.Precompress, is: isSitemap, known: was.written(now.Place, s.files(was))}
	defer made.drop()
	parts, err := s.make(ctx, j, made)
	if err != nil {
		return false, err
	}
	if s.Gzip {
		now.GzipParts = parts
	} else {
		now.Parts = parts
	}
	if err := was.intend(now, j, sitemapNote); err != nil {
		return false, err
	}
	stale, surplus := s.leftovers(was, now)
	wrote, err := made.commit(stale, surplus)
	if err != nil {
		return wrote, err
	}
	if !known {
		s.orphans(now)
	}
	now.Files = fileStamps(s.files(now))
	if now != was {
		now.note(j, sitemapNote, orDiscard(s.Log))
	}
	return wrote, nil
}

// make prepares the files, and returns the number of parts.
func (s *Sitemap) make(ctx context.Context, j *server.Journal, made *set) (parts int, err error) {
	v, err := j.View()
	if err != nil {
		return 0, err
	}
	defer v.Close()
	listed, elsewhere := 0, 0
	pages := s.pages(ctx, v, &elsewhere)
	fits, err := sitemap.Fit(pages, s.MaxURLs, s.MaxBytes)
	if err != nil {
		return 0, err
	}
	w := sitemap.Writer{Base: s.base(), Name: filepath.Base(s.Path), Parts: !fits, PartExt: s.partExt(),
		MaxURLs: s.MaxURLs, MaxBytes: s.MaxBytes}
	w.Create = func(name string) (io.WriteCloser, error) {
		return made.createNamed(filepath.Join(filepath.Dir(s.Path), name))
	}
	elsewhere = 0
	for p, err := range pages {
		if err != nil {
			return 0, err
		}
		if err := w.Add(p); err != nil {
			return 0, err
		}
		listed++
	}
	if listed == 0 && elsewhere > 0 {
		return 0, fmt.Errorf("%s: none of the %d pages is at or below %s, and a sitemap may list only pages at or below its own directory: "+
			"choose a path at the root of the site", s.Path, elsewhere, s.base())
	}
	done, err := w.Close()
	if err == nil && done.LeftOut+elsewhere > 0 {
		orDiscard(s.Log).Warn("sitemap: left out pages whose URL is too long or not below the sitemap's directory",
			"sitemap", s.Path, "too_long", done.LeftOut, "not_below_it", elsewhere)
	}
	return done.Parts, err
}

// pages yields the pages to list. It counts those that are not below Base.
func (s *Sitemap) pages(ctx context.Context, v *journal.View, elsewhere *int) iter.Seq2[sitemap.Page, error] {
	base := s.base()
	return linked(func(yield func(listing, error) bool) {
		n := 0
		for e, err := range v.Entries() {
			if n++; err == nil && n%1024 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(listing{}, err)
				return
			}
			it := e.Item
			switch {
			case it.Canonical != "" && it.Canonical != it.URL, s.Public != nil && !s.Public(it.URL):
			case !strings.HasPrefix(it.URL, base):
				*elsewhere++
			case !yield(listingOf(&it), nil):
				return
			}
		}
	})
}

// files returns the files of the sitemap that a describes.
func (s *Sitemap) files(a outputState) []string {
	var files []string
	for i := 1; i <= a.Parts; i++ {
		files = append(files, s.part(i, ".xml"))
	}
	files = append(files, s.Path)
	if a.Siblings {
		files = withSiblings(files...)
	}
	for i := 1; i <= a.GzipParts; i++ {
		files = append(files, s.part(i, ".xml.gz"))
	}
	return files
}

// leftovers returns the files that were written and are no longer needed: siblings of files that still are,
// which would be wrong beside them, and the rest.
func (s *Sitemap) leftovers(was, now outputState) (stale, surplus []string) {
	needed := make(map[string]bool)
	for _, p := range s.files(now) {
		needed[p] = true
	}
	for _, p := range s.files(was) {
		switch {
		case needed[p] || p == s.Path:
		case needed[strings.TrimSuffix(strings.TrimSuffix(p, ".gz"), ".zst")]:
			stale = append(stale, p)
		default:
			surplus = append(surplus, p)
		}
	}
	return stale, surplus
}

// orphans warns of files that an unknown earlier run seems to have written: perhaps they are somebody else's.
func (s *Sitemap) orphans(now outputState) {
	needed := s.files(now)
	for _, p := range s.Own() {
		if _, err := os.Lstat(p); err == nil && !slices.Contains(needed, p) {
			orDiscard(s.Log).Warn("sitemap: a file seems to be left over from an earlier sitemap: remove it", "file", p)
		}
	}
}
