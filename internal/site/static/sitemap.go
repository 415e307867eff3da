package static

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
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
// A part has the pages of a range, in order, and keeps its name. Hashes of URLs say where a range begins, so that a
// new page changes one part. After an edit only the parts with touched pages are read
// from the journal and written. For each part the index states when its content changed last; for a part that has not
// changed since it was first written, the date of its newest page. A sitemap stays in parts until the site has less than
// half as many pages as one file may hold.
//
// All files are ready before the first is put in place, the index last. Parts that it does not name any more stay for
// six hours, for crawlers that have read the index before; they are removed at once if a page was withdrawn by a rule.
// While neither the journal nor the files' metadata change, a Write takes a few calls of stat.
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

	// Now is the clock for the dates of parts and the removal of old ones, time.Now if nil.
	Now func() time.Time

	Log *slog.Logger

	begins func(group string) bool // which groups of URLs begin a range; nil: beginsRange
}

var _ server.Output = (*Sitemap)(nil)

// URL returns the sitemap's URL, for a line in robots.txt.
func (s *Sitemap) URL() string { return s.base() + url.PathEscape(filepath.Base(s.Path)) }

func (s *Sitemap) isPublic(url string) bool { return s.Public == nil || s.Public(url) }

func (s *Sitemap) base() string { return strings.TrimSuffix(s.Base, "/") + "/" }

// ownParts is how many parts Own lists in advance: for two million pages.
const ownParts = 1000

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
	return strings.TrimSuffix(s.Path, ".xml") + fmt.Sprintf("-%04d", i) + ext
}

// beside returns the path of a file of that name.
func (s *Sitemap) beside(name string) string { return filepath.Join(filepath.Dir(s.Path), name) }

// owns reports whether a file name can be one of the sitemap's.
func (s *Sitemap) owns(name string) bool {
	base := filepath.Base(s.Path)
	if part, ok := strings.CutPrefix(name, strings.TrimSuffix(base, ".xml")); ok && partName.MatchString(part) {
		return true
	}
	return name == base || slices.Contains(siblingsOf(base), name)
}

var partName = regexp.MustCompile(`^-[0-9]{4,}\.xml(\.gz|\.zst)?$`)

// String names the output in messages.
func (s *Sitemap) String() string { return "sitemap" }

// Write implements [server.Output]. It writes nothing before the journal is whole.
func (s *Sitemap) Write(ctx context.Context, j *server.Journal) (bool, error) {
	if !j.Whole() {
		return false, nil
	}
	p := &sitemapPass{s: s, at: clock.Now(s.Now), made: new(set)}
	p.now.outputState = outputState{
		Revision: j.Revision(), // before all else: later changes count for the next Write
		Config:   hashOf(3, s.Path, s.base(), s.Gzip, s.Precompress, s.MaxURLs, s.MaxBytes),
		Siblings: s.Precompress,
		Place:    hashOf(s.Path),
	}
	quiet, err := j.Note(journal.QuietNote)
	if err != nil {
		return false, err
	}
	p.now.Quiet, p.now.Cursor = string(quiet), j.Head()
	known, err := p.was.read(j, s, p.now.Place)
	if err != nil {
		return false, err
	}
	intact := p.was.Files != "" && p.was.Files == fileStamps(s.files(&p.was))
	if p.was.isCurrent(p.now.outputState) && intact && !p.was.isDue(p.at) {
		return false, nil
	}
	if p.dirty, err = p.touched(ctx, j); err != nil {
		return false, err
	}
	if !intact || p.was.Config != p.now.Config || p.was.Quiet != p.now.Quiet || p.was.Unsure {
		p.dirty = nil
	}
	defer func() { p.made.drop() }()
	if err := p.make(ctx, j); err != nil {
		return false, err
	}
	wrote, err := p.commit(j)
	if err == nil && !known {
		s.orphans(&p.now)
	}
	return wrote, err
}
