package static

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// The notes of a sitemap: of the whole, and of each part by the name of its file.
const (
	sitemapKey   = "output/sitemap"
	sitemapPlace = "output/sitemap/part/"
)

// partGrace is how long a part stays that the index does not name any more.
const partGrace = 6 * time.Hour

// A sitemapNote is what is noted of the whole.
type sitemapNote struct {
	outputState
	Cursor protocol.Cursor `json:"cursor"` // of the journal when it was written
	Quiet  string          `json:"quiet"`  // value of journal.QuietNote then
	Unsure bool            `json:"unsure"` // rules withheld pages that the journal has
}

// A sitemapPart is the note of a part.
type sitemapPart struct {
	First    string        `json:"first"`         // the group of URLs with which its range begins; empty at the beginning of the site
	Nth      int           `json:"nth,omitempty"` // of the parts of this range, which has several if one may not hold all its pages
	Modified time.Time     `json:"modified"`      // when its content changed last, zero if unknown
	Span     time.Duration `json:"span,omitempty"`
	Until    time.Time     `json:"until,omitzero"` // when its file is removed; zero while the index names it

	name string // of the file
}

// A sitemapState is all notes of a sitemap.
type sitemapState struct {
	sitemapNote
	parts []sitemapPart          // in order; none: it is one file
	old   map[string]sitemapPart // by name: parts that the index does not name any more
	keys  []string               // of the notes of parts
}

// read reads the notes; unreadable ones, and those of parts elsewhere, are ignored. It returns false if they do not say which
// files were written.
func (st *sitemapState) read(j *server.Journal, s *Sitemap, place string) (known bool, err error) {
	st.old = make(map[string]sitemapPart)
	b, err := j.Note(sitemapKey)
	if known = err == nil && b != nil && json.Unmarshal(b, &st.sitemapNote) == nil; !known {
		st.sitemapNote = sitemapNote{}
	}
	err = j.EachNote(sitemapPlace, func(key string, value []byte) error {
		st.keys = append(st.keys, key)
		x := sitemapPart{name: strings.TrimPrefix(key, sitemapPlace)}
		switch {
		case st.Place != place || json.Unmarshal(value, &x) != nil || !s.owns(x.name):
		case x.Until.IsZero():
			st.parts = append(st.parts, x)
		default:
			st.old[x.name] = x
		}
		return nil
	})
	slices.SortFunc(st.parts, func(a, b sitemapPart) int {
		return cmp.Or(protocol.Compare(a.First, b.First), cmp.Compare(a.Nth, b.Nth))
	})
	return known && st.Cursor.Epoch != "", err
}

// store stores the notes in place of others.
func (st *sitemapState) store(j *server.Journal, instead []string) error {
	notes := make(map[string][]byte)
	for _, key := range instead {
		notes[key] = nil
	}
	note := func(key string, value any) (err error) {
		notes[key], err = json.Marshal(value)
		return err
	}
	err := note(sitemapKey, st.sitemapNote)
	for _, x := range slices.AppendSeq(slices.Clone(st.parts), maps.Values(st.old)) {
		err = cmp.Or(err, note(sitemapPlace+x.name, x))
	}
	return cmp.Or(err, j.SetNotes(notes))
}

// isDue reports whether a part is to be removed now.
func (st *sitemapState) isDue(now time.Time) bool {
	for _, x := range st.old {
		if !x.Until.After(now) {
			return true
		}
	}
	return false
}

// files returns the files of the sitemap that a state describes.
func (s *Sitemap) files(st *sitemapState) []string {
	files := []string{s.Path}
	if st.Siblings {
		files = withSiblings(s.Path)
	}
	for _, x := range st.parts {
		if p := s.beside(x.name); st.Siblings && !compressed(p) {
			files = append(files, withSiblings(p)...)
		} else {
			files = append(files, p)
		}
	}
	return files
}

// A sitemapPass leads from one state of the files to the next.
type sitemapPass struct {
	s        *Sitemap
	at       time.Time
	was, now sitemapState
	v        *journal.View

	dirty     map[string]bool // First of the ranges with a touched page; nil: all are written
	withdrawn bool            // a page is gone because rules forbid it

	made   *set
	names  map[sitemapPart]sitemapPart // the parts of was, and those not removed yet, by First and Nth
	taken  map[string]bool             // names of files without their suffixes
	number int                         // the last one that was taken

	counts sitemapCounts
}

// sitemapCounts counts the pages that were listed, and those that were left out.
type sitemapCounts struct{ listed, long, elsewhere int }

// touched reads the changes since the last state. It returns the First of each range with a changed page, nil if the
// journal does not have all those changes.
func (p *sitemapPass) touched(ctx context.Context, j *server.Journal) (map[string]bool, error) {
	p.withdrawn = true // unless all changes can be read
	dirty, withdrawn, parts := make(map[string]bool), false, p.was.parts
	if p.was.Cursor.Epoch != p.now.Cursor.Epoch {
		return nil, nil
	}
	touch := func(url string) {
		if len(parts) > 0 {
			i := sort.Search(len(parts), func(i int) bool { return protocol.Compare(parts[i].First, url) > 0 })
			dirty[parts[max(i-1, 0)].First] = true
		}
	}
	for c, err := range changesTo(ctx, j, p.was.Cursor, p.now.Cursor.Seq) {
		if errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if dead, isDead := c.Tombstone(); isDead {
			touch(dead.URL)
			withdrawn = withdrawn || !p.s.isPublic(dead.URL)
		}
		if c.Op != protocol.Delete {
			touch(c.Item.URL)
		}
	}
	p.withdrawn = withdrawn
	return dirty, nil
}

// begin begins a set of files.
func (p *sitemapPass) begin() {
	p.made.drop()
	s := p.s
	p.made = &set{owns: s.owns, compress: s.Precompress, is: isSitemap, known: p.was.written(p.now.Place, s.files(&p.was))}
	p.names, p.taken, p.number = make(map[sitemapPart]sitemapPart), make(map[string]bool), 0
	for name, x := range p.was.old {
		if p.made.known != nil {
			p.made.known[s.beside(name)] = true
		}
		p.names[sitemapPart{First: x.First, Nth: x.Nth}], p.taken[stem(name)] = x, true
	}
	for _, x := range p.was.parts {
		p.names[sitemapPart{First: x.First, Nth: x.Nth}], p.taken[stem(x.name)] = x, true
	}
	p.counts = sitemapCounts{}
}

// stem returns the name of a part's file without its suffixes.
func stem(name string) string {
	name, _, _ = strings.Cut(name, ".xml")
	return name
}

// make prepares the files.
func (p *sitemapPass) make(ctx context.Context, j *server.Journal) (err error) {
	s := p.s
	if p.v, err = j.View(); err != nil {
		return err
	}
	defer p.v.Close()
	p.begin()
	if len(p.was.parts) > 0 && 2*p.v.Len() >= sitemap.Limit(s.MaxURLs, sitemap.MaxURLs) {
		if p.now.parts, err = p.rewrite(ctx); err != nil {
			return err
		}
	}
	if len(p.now.parts) == 0 {
		p.begin()
		p.dirty = nil
		fits, err := p.one(ctx)
		if err == nil && !fits {
			p.begin()
			p.now.parts, _, err = p.cut(ctx, "", "")
		}
		if err != nil {
			return err
		}
	}
	n := p.counts
	if p.dirty == nil && n.listed == 0 && n.elsewhere > 0 {
		return fmt.Errorf("%s: none of the %d pages is at or below %s, and a sitemap may list only pages at or below its own directory: "+
			"choose a path at the root of the site", s.Path, n.elsewhere, s.base())
	}
	if n.long+n.elsewhere > 0 {
		orDiscard(s.Log).Warn("sitemap: left out pages whose URL is too long or not below the sitemap's directory",
			"sitemap", s.Path, "too_long", n.long, "not_below_it", n.elsewhere)
	}
	if len(p.now.parts) == 0 {
		return nil
	}
	var list []sitemap.Page
	for _, x := range p.now.parts {
		list = append(list, sitemap.Page{Loc: s.base() + url.PathEscape(x.name), Modified: x.Modified, Span: x.Span})
	}
	m, err := p.made.create(s.Path)
	if err != nil {
		return err
	}
	return cmp.Or(sitemap.WriteIndex(m, list), m.Close())
}

// one writes one file of all pages. It returns false if they do not fit.
func (p *sitemapPass) one(ctx context.Context) (fits bool, err error) {
	m, err := p.made.create(p.s.Path)
	if err != nil {
		return false, err
	}
	w := p.writer(m)
	for page, err := range p.pages(ctx, "", "") {
		if err == nil {
			fits, err = w.Add(page)
		}
		if err != nil || !fits {
			return false, err
		}
		p.counts.listed++
	}
	return true, cmp.Or(w.Close(), m.Close())
}

func (p *sitemapPass) writer(to io.Writer) sitemap.Writer {
	return sitemap.Writer{To: to, MaxURLs: p.s.MaxURLs, MaxBytes: p.s.MaxBytes}
}

// rewrite returns the parts, with those of the dirty ranges written: from the last to the first, since a range may become
// part of the one before it.
func (p *sitemapPass) rewrite(ctx context.Context) ([]sitemapPart, error) {
	if p.dirty == nil {
		parts, _, err := p.cut(ctx, "", "")
		return parts, err
	}
	var ranges [][]sitemapPart
	parts, to, joined := p.was.parts, "", false
	for end := len(parts); end > 0; {
		from := parts[end-1].First
		i := slices.IndexFunc(parts, func(x sitemapPart) bool { return x.First == from })
		out, ok, err := parts[i:end], true, error(nil)
		if p.dirty[from] || joined {
			if i == 0 {
				from = "" // the first range has what comes before it, too
			}
			out, ok, err = p.cut(ctx, from, to)
		}
		if err != nil {
			return nil, err
		}
		if end, joined = i, !ok; ok {
			ranges, to = append(ranges, out), from
		}
	}
	slices.Reverse(ranges)
	return slices.Concat(ranges...), nil
}

// cut writes the pages from one group of URLs on, and before another one, as parts. It returns false, and writes nothing, if
// the first page does not begin a range any more: then the pages belong to the range before.
func (p *sitemapPass) cut(ctx context.Context, from, to string) (parts []sitemapPart, ok bool, err error) {
	begins := p.s.begins
	if begins == nil {
		begins = beginsRange
	}
	var m io.WriteCloser // nil before the first part
	var w sitemap.Writer
	var u *update
	end := func() error {
		if m == nil {
			return nil
		}
		err := cmp.Or(w.Close(), m.Close())
		p.date(&parts[len(parts)-1], w.Newest, u)
		return err
	}
	begin := func(first string, nth int) error {
		if err := end(); err != nil {
			return err
		}
		x := p.part(first, nth)
		parts = append(parts, x)
		m, err = p.made.createNamed(p.s.beside(x.name))
		if err == nil {
			u, w = p.made.updates[len(p.made.updates)-1], p.writer(m)
		}
		return err
	}
	group, first, nth, counts := "", from, 0, p.counts
	for page, err := range p.pages(ctx, from, to) {
		was := group
		group = groupOf(page.Loc)
		switch {
		case err != nil:
		case group != was && begins(group):
			first, nth = group, 0
			err = begin(first, nth)
		case m == nil && from != "":
			p.counts = counts
			return nil, false, nil
		case m == nil:
			err = begin(first, nth)
		}
		fits := true
		if err == nil {
			fits, err = w.Add(page)
		}
		if !fits && err == nil {
			nth++
			if err = begin(first, nth); err == nil {
				_, err = w.Add(page)
			}
		}
		if err != nil {
			return nil, false, err
		}
		p.counts.listed++
	}
	return parts, true, end()
}

// beginsRange reports whether a group of URLs begins a range wherever it stands: one of 2,048 does. An edit costs reading
// the pages of one range, and some work for each part, such as a stat and a line of the index: with ranges of this size the
// two are about equal for a few million pages.
func beginsRange(group string) bool {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(group) {
		h = (h ^ uint64(group[i])) * 1099511628211
	}
	return h>>40%2048 == 0
}

// part returns the note of a part that is to be written: with the name that it had, or a free one.
func (p *sitemapPass) part(first string, nth int) sitemapPart {
	x := sitemapPart{First: first, Nth: nth}
	ext := ".xml"
	if p.s.Gzip {
		ext = ".xml.gz"
	}
	if was, ok := p.names[x]; ok {
		x.name = stem(was.name) + ext
		return x
	}
	for {
		p.number++
		if x.name = filepath.Base(p.s.part(p.number, ext)); !p.taken[stem(x.name)] {
			return x
		}
	}
}

// date says when the content of a part that was written changed last.
func (p *sitemapPass) date(x *sitemapPart, newest sitemap.Page, u *update) {
	x.Modified, x.Span = newest.Modified, newest.Span
	was := p.names[sitemapPart{First: x.First, Nth: x.Nth}]
	switch {
	case was.name != x.name:
	case u.was != nil && u.next != "": // its file was another one
		x.Modified, x.Span = p.at.UTC().Truncate(time.Second), 0
	case was.Modified.After(x.Modified):
		x.Modified, x.Span = was.Modified, was.Span
	}
}

// pages yields the pages to list from one group of URLs on, and before another one; empty means the beginning and the
// end. It counts those that are left out.
func (p *sitemapPass) pages(ctx context.Context, from, to string) iter.Seq2[sitemap.Page, error] {
	base := p.s.base()
	return linked(func(yield func(listing, error) bool) {
		n := 0
		for e, err := range p.v.Between(from, to) {
			if n++; err == nil && n%1024 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(listing{}, err)
				return
			}
			it := e.Item
			switch {
			case it.Canonical != "" && it.Canonical != it.URL:
			case !p.s.isPublic(it.URL):
				p.now.Unsure = true
			case !strings.HasPrefix(it.URL, base):
				p.counts.elsewhere++
			case len(it.URL) >= sitemap.MaxLoc:
				p.counts.long++
			case !yield(listingOf(&it), nil):
				return
			}
		}
	})
}

// commit puts the files in place, and stores the notes. New names are noted before that, so that a kill leaves no file
// without a note.
func (p *sitemapPass) commit(j *server.Journal) (bool, error) {
	s := p.s
	p.now.old = maps.Clone(p.was.old)
	for _, x := range p.was.parts {
		x.Until = p.at.Add(partGrace)
		p.now.old[x.name] = x
	}
	may := p.was
	may.Place, may.Siblings, may.parts = p.now.Place, p.was.Siblings || p.now.Siblings, slices.Clone(p.was.parts)
	for _, x := range p.now.parts {
		if _, ok := p.now.old[x.name]; !ok {
			may.parts = append(may.parts, x)
		}
		delete(p.now.old, x.name)
	}
	if len(may.parts) > len(p.was.parts) || may.Siblings != p.was.Siblings {
		if err := may.store(j, nil); err != nil {
			return false, err
		}
	}
	needed := make(map[string]bool)
	for _, f := range s.files(&p.now) {
		needed[f] = true
	}
	var stale, surplus []string
	for _, f := range s.files(&p.was) {
		if plain := strings.TrimSuffix(strings.TrimSuffix(f, ".gz"), ".zst"); !needed[f] && needed[plain] { // a sibling, wrong from now on
			stale = append(stale, f)
		}
	}
	for name, x := range p.now.old {
		if p.withdrawn || !x.Until.After(p.at) {
			delete(p.now.old, name)
			surplus = append(surplus, slices.DeleteFunc(withSiblings(s.beside(name)), func(f string) bool { return needed[f] })...)
		}
	}
	wrote, err := p.made.commit(stale, surplus)
	if err != nil {
		return wrote, err
	}
	p.now.Files = fileStamps(s.files(&p.now))
	if err := p.now.store(j, p.was.keys); err != nil {
		orDiscard(s.Log).Warn("output: could not store its state; the next run repeats its work", "output", sitemapKey, "err", err)
	}
	return wrote, nil
}

// orphans warns of files that an unknown earlier run seems to have written: perhaps they are somebody else's.
func (s *Sitemap) orphans(now *sitemapState) {
	needed := s.files(now)
	for name := range now.old {
		needed = append(needed, withSiblings(s.beside(name))...)
	}
	for _, f := range s.Own() {
		if _, err := os.Lstat(f); err == nil && !slices.Contains(needed, f) {
			orDiscard(s.Log).Warn("sitemap: a file seems to be left over from an earlier sitemap: remove it", "file", f)
		}
	}
}
