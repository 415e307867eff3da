package static

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// Feeds writes the news feeds of a site: its newest changes in up to three formats.
//
// A page is in a feed once, in its newest state. An update that is known to have changed next to nothing of
// the main text is not listed; a move is. A deletion is listed in Atom only, which has a word for it, and
// takes no page's place. If there are fewer changes than entries in a feed, the pages with the latest
// Modified follow: so the feed of a new site is not empty. A page with another canonical URL is not listed.
//
// The time of an entry is the page's Modified, if that is known exactly, and otherwise, and for a move or a
// deletion, when the journal recorded it.
//
// The files depend on the journal alone; see [Sitemap] for how they are written. Its methods are not safe for
// concurrent use.
type Feeds struct {
	// RSS, Atom and JSON are absolute paths, such as DOCROOT/feed.xml; empty means not wanted. An existing
	// file is replaced only if it is a feed, or empty.
	RSS, Atom, JSON string

	Base        string // URL of the directory that the feeds are in, and the site's home page
	Title       string // of the site; empty means Base
	Description string // empty means a default sentence
	Hub         string // URL of a WebSub hub that announces new feeds; empty means none

	// Entries bounds the pages of a feed, and the deletions. Zero means 50.
	Entries int

	// MinSignificance is how much of a page's main text, from 0 to 1, an update must have changed to be
	// listed. Zero means 0.01; below zero every update is listed.
	MinSignificance float64

	// Precompress maintains compressed siblings of every feed. See [Compressed].
	Precompress bool

	// Public reports which URLs may be published now, by robots.txt and by the choice of pages; nil means all.
	Public func(url string) bool

	Log *slog.Logger
}

var _ server.Output = (*Feeds)(nil)

const (
	feedsNote = "output/feeds"

	entriesDefault = 50
	minimumDefault = 0.01

	// feedReach bounds the changes that are read, per entry: a site with almost only insignificant changes
	// has a feed of the significant ones among its newest.
	feedReach = 400
)

// A form is a feed format.
type form struct {
	path  string
	write func(io.Writer, feed.Feed) error
}

// forms returns the formats that are wanted. Atom is the most detailed.
func (f *Feeds) forms() []form {
	all := []form{{f.Atom, feed.WriteAtom}, {f.RSS, feed.WriteRSS}, {f.JSON, feed.WriteJSON}}
	return slices.DeleteFunc(all, func(o form) bool { return o.path == "" })
}

func (f *Feeds) paths() (paths []string) {
	for _, o := range f.forms() {
		paths = append(paths, o.path)
	}
	return paths
}

// Own returns the files that it writes.
func (f *Feeds) Own() []string { return withSiblings(f.paths()...) }

func (f *Feeds) base() string { return strings.TrimSuffix(f.Base, "/") + "/" }

func (f *Feeds) urlOf(path string) string { return f.base() + url.PathEscape(filepath.Base(path)) }

// String names the output in messages.
func (f *Feeds) String() string { return "feeds" }

// Write implements [server.Output]. It writes nothing before the journal is whole.
func (f *Feeds) Write(ctx context.Context, j *server.Journal) (bool, error) {
	paths := f.paths()
	if !j.Whole() || len(paths) == 0 {
		return false, nil
	}
	var was outputState
	was.read(j, feedsNote)
	now := outputState{
		Revision: j.Revision(),
		Config:   hashOf(1, paths, f.base(), f.Title, f.Description, f.Hub, f.Entries, f.MinSignificance, f.Precompress),
		Siblings: f.Precompress,
		Place:    hashOf(paths),
	}
	files := paths
	if f.Precompress {
		files = withSiblings(paths...)
	}
	if was.isCurrent(now) && was.Files == fileStamps(files) {
		return false, nil
	}
	made := &set{owns: f.owns, compress: f.Precompress, is: isFeed, known: was.written(now.Place, paths)}
	if was.Siblings {
		made.known = was.written(now.Place, withSiblings(paths...))
	}
	defer made.drop()
	if err := f.make(ctx, j, made); err != nil {
		return false, err
	}
	if err := was.intend(now, j, feedsNote); err != nil {
		return false, err
	}
	var stale []string
	if was.Siblings && !f.Precompress {
		for _, p := range paths {
			stale = append(stale, siblingsOf(p)...)
		}
	}
	wrote, err := made.commit(stale, nil)
	if err != nil {
		return wrote, err
	}
	now.Files = fileStamps(files)
	if now != was {
		now.note(j, feedsNote, orDiscard(f.Log))
	}
	return wrote, nil
}

func (f *Feeds) owns(name string) bool {
	return slices.ContainsFunc(f.Own(), func(p string) bool { return filepath.Base(p) == name })
}

// make prepares the feeds.
func (f *Feeds) make(ctx context.Context, j *server.Journal, made *set) error {
	entries, err := f.entries(ctx, j)
	if err != nil {
		return err
	}
	entries = fitting(entries)
	for _, o := range f.forms() {
		m, err := made.create(o.path)
		if err != nil {
			return err
		}
		d := feed.Feed{Title: f.Title, Home: f.base(), Self: f.urlOf(o.path), Description: f.Description,
			Hub: f.Hub, Entries: entries}
		if err := o.write(m, d); err != nil {
			return err
		}
		if err := m.Close(); err != nil {
			return err
		}
	}
	return nil
}

// fitting returns the leading entries that fit into feed.MaxBytes, so that readers accept the whole feed.
// Each is counted as the most verbose format would write it, with every character escaped.
func fitting(entries []feed.Entry) []feed.Entry {
	room := feed.MaxBytes - 64<<10 // for the feed's header
	for i := range entries {
		e := &entries[i]
		if room -= 15*len(e.URL) + 6*(len(e.Title)+len(e.Summary)) + 500; room < 0 {
			return entries[:i]
		}
	}
	return entries
}

// entries returns the entries of the feeds, newest first.
func (f *Feeds) entries(ctx context.Context, j *server.Journal) ([]feed.Entry, error) {
	n := &news{f: f, most: f.Entries, min: f.MinSignificance, seen: make(map[string]bool), minor: make(map[string]bool)}
	if n.most <= 0 {
		n.most = entriesDefault
	}
	if n.min == 0 {
		n.min = minimumDefault
	}
	if err := n.readBack(ctx, j, j.Head()); err != nil {
		return nil, err
	}
	if n.pages == n.most {
		return n.entries, nil
	}
	v, err := j.View() // not earlier: changes must not be read while a view is open
	if err != nil {
		return nil, err
	}
	defer v.Close()
	err = n.fill(ctx, v)
	return n.entries, err
}

// news collects the entries of the feeds.
type news struct {
	f    *Feeds
	most int
	min  float64

	entries        []feed.Entry
	pages, deleted int
	seen           map[string]bool // URLs whose newest state was judged
	minor          map[string]bool // URLs with only insignificant changes so far
}

// readBack collects the changes up to head, newest first, until it has enough. A journal can only be read
// forwards: so it is read in stretches, each before the previous one, and longer.
func (n *news) readBack(ctx context.Context, j *server.Journal, head protocol.Cursor) error {
	end, left := head.Seq, uint64(feedReach*n.most)
	for length := uint64(4 * n.most); end > 0 && left > 0 && n.pages < n.most; length *= 2 {
		length = min(length, left, end)
		left -= length
		after := protocol.Cursor{Epoch: head.Epoch, Seq: end - length}
		if floor := j.Floor(); after.Epoch == floor.Epoch && after.Seq < floor.Seq {
			after.Seq, left = floor.Seq, 0
		}
		if after.Seq >= end {
			return nil
		}
		var changes []protocol.Change
		for c, err := range changesTo(ctx, j, after, end) {
			if errors.Is(err, protocol.ErrTooOld) { // it was pruned just now
				return nil
			}
			if err != nil {
				return err
			}
			changes = append(changes, c)
		}
		for _, c := range slices.Backward(changes) {
			if err := n.take(j, c); err != nil {
				return err
			}
			if n.pages == n.most {
				return nil
			}
		}
		end = after.Seq
	}
	return nil
}

// changesTo yields the changes after a cursor, up to number end. An error is the last.
func changesTo(ctx context.Context, log protocol.Log, after protocol.Cursor, end uint64) iter.Seq2[protocol.Change, error] {
	return func(yield func(protocol.Change, error) bool) {
		for after.Seq < end {
			some, err := log.Read(ctx, after, int(min(end-after.Seq, protocol.MaxBatch)))
			if err != nil {
				yield(protocol.Change{}, err)
				return
			}
			for _, c := range some {
				if !yield(c, nil) {
					return
				}
				after.Seq = c.Seq
			}
			if len(some) == 0 {
				return
			}
		}
	}
}

// take handles a change that is older than all before.
func (n *news) take(j *server.Journal, c protocol.Change) error {
	if t, ok := c.Tombstone(); ok && !n.seen[t.URL] {
		n.seen[t.URL] = true
		if n.deleted < n.most && n.public(t.URL) {
			n.deleted++
			n.entries = append(n.entries, feed.Entry{URL: t.URL, Op: protocol.Delete, Modified: t.At})
		}
	}
	if c.Op == protocol.Delete || n.seen[c.Item.URL] {
		return nil
	}
	if share, known := c.Significance.Share(); c.Op == protocol.Update && known && share < n.min {
		n.minor[c.Item.URL] = true
		return nil // an earlier change may be significant
	}
	n.seen[c.Item.URL] = true
	e, ok, err := j.Get(c.Item.URL)
	if err != nil {
		return err
	}
	if !ok || !n.lists(e.Item) {
		return nil
	}
	entry := feed.Entry{URL: c.Item.URL, Title: e.Item.Title, Op: c.Op, Significance: c.Significance,
		Modified: c.Item.Modified, Summary: summary(c, n.public)}
	if c.Op == protocol.Move || c.Item.Modified.IsZero() || c.Item.Span > 0 {
		entry.Modified = c.At
	}
	n.add(entry)
	return nil
}

func (n *news) add(e feed.Entry) {
	n.pages++
	n.entries = append(n.entries, e)
}

func (n *news) public(url string) bool { return n.f.Public == nil || n.f.Public(url) }

// lists reports whether a present page belongs in a feed.
func (n *news) lists(it protocol.Item) bool {
	return (it.Canonical == "" || it.Canonical == it.URL) && n.public(it.URL)
}

// summary describes a change.
func summary(c protocol.Change, public func(string) bool) string {
	switch c.Op {
	case protocol.Create:
		return "New page"
	case protocol.Move:
		if public(c.From) {
			return "Moved here from " + c.From
		}
		return "Moved here"
	}
	if share, known := c.Significance.Share(); known {
		return fmt.Sprintf("Changed: %d%% of its text", max(1, int(100*share+0.5)))
	}
	return "Changed"
}

// fill adds the pages with the latest Modified that no listed change is about.
func (n *news) fill(ctx context.Context, v *journal.View) error {
	most := n.most - n.pages
	newer := func(a, b protocol.Item) int {
		return cmp.Or(b.Modified.Compare(a.Modified), protocol.Compare(a.URL, b.URL))
	}
	var best []protocol.Item // sorted, at most twice as many as are wanted
	i := 0
	for e, err := range v.Entries() {
		if i++; err == nil && i%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		it := e.Item
		if it.Modified.IsZero() || it.Span > 0 || n.seen[it.URL] || n.minor[it.URL] {
			continue
		}
		if len(best) >= most && newer(it, best[most-1]) > 0 || !n.lists(it) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, it, newer)
		best = slices.Insert(best, at, it)
		best = best[:min(len(best), most)]
	}
	for _, it := range best {
		n.add(feed.Entry{URL: it.URL, Title: it.Title, Modified: it.Modified})
	}
	return nil
}
