package collection

import (
	"slices"
	"time"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A work is a page in an update.
type work struct {
	Page
	was     tally          // before the update
	entry   frontier.Entry // its place in the queue before; zero: none
	isNew   bool
	dirty   bool
	planned bool // At is decided, plan leaves it
	visited bool
	proved  bool // its content has the digest that its site names: see holds
}

// pages are the pages of an update, as it has read or made them.
type pages struct {
	view    *view
	work    map[frontier.PageID]*work
	added   []*work // new pages, in the order of their IDs
	last    frontier.PageID
	spare   []work // preallocated for the next pages
	scratch []byte
}

func newPages(v *view) pages { return pages{view: v, work: map[frontier.PageID]*work{}, last: v.last} }

// alloc returns a zero work, allocated in batches.
func (p *pages) alloc() *work {
	if len(p.spare) == 0 {
		p.spare = make([]work, 32)
	}
	w := &p.spare[0]
	p.spare = p.spare[1:]
	return w
}

// get returns a page, or nil if it does not exist.
func (p *pages) get(id frontier.PageID) (*work, error) {
	if w := p.work[id]; w != nil {
		return w, nil
	}
	w := p.alloc()
	ok, err := p.view.page(id, &w.Page)
	if err != nil || !ok {
		return nil, err
	}
	w.was = w.tally()
	w.entry, _ = w.Page.entry()
	p.work[id] = w
	return w, nil
}

// add adds a new page, and sets its ID.
func (p *pages) add(page Page) *work {
	p.last++
	w := p.alloc()
	w.Page, w.ID = page, p.last
	w.isNew, w.dirty = true, true
	p.work[w.ID] = w
	p.added = append(p.added, w)
	return w
}

// made returns the new pages.
func (p *pages) made() []Page {
	list := slices.Grow([]Page(nil), len(p.added))
	for _, w := range p.added {
		list = append(list, w.Page)
	}
	return list
}

// row looks up a URL, and returns nil and its slot in the table if it is not known.
func (p *pages) row(url string) (*urls.Row, int, error) {
	v, x := p.view, &p.view.c.index
	hash := x.urls.Hash(url)
	row, slot := x.cache.Find(hash, url)
	if row != nil {
		return row, 0, nil
	}
	known, err := v.block.Find(v.urls, x.urls, hash, url, v.sites.origins)
	if err != nil || !known {
		return nil, slot, err
	}
	r := urls.Row{Hash: hash, URL: url, ID: v.block.ID, Depth: v.block.Depth}
	if raw := v.record(r.ID); len(raw) > 0 {
		r.Out = State(raw[0]) == Excluded
	}
	return x.cache.Add(slot, r), slot, nil
}

// lookFor returns the page of a URL, or nil if it is not known.
func (p *pages) lookFor(url string) (*work, error) {
	row, _, err := p.row(url)
	if err != nil || row == nil || row.ID == 0 {
		return nil, err
	}
	return p.get(row.ID)
}

// plain reports whether the URL's record alone describes a new page.
func (w *work) plain() bool { return w.State == Known && !w.Told && w.At.IsZero() && w.FetchURL == "" }

// answered clears all traces of failures.
func (w *work) answered() {
	w.Fails, w.Fault, w.Failed, w.missing, w.Why, w.Target = 0, "", time.Time{}, time.Time{}, "", ""
}

// holdsOtherThanTold reports whether the last answer lacks the content announced last: there is none, or another one.
func (w *work) holdsOtherThanTold() bool {
	return !w.claim.IsZero() && (w.State != Held || w.Digest != w.claim)
}

// settle ends a pending fetch. Announcements that no visit has judged are withdrawn from the history; a
// visit that found content has judged them, and left none.
func (w *work) settle() {
	w.Told, w.Debt, w.Missed, w.DebtText, w.DebtLength = false, zeroDigest, 0, zeroDigest, 0
	w.History = w.History.WithoutNotices()
}

// leaveGone drops the last content of a page that was gone, and is about to change its state.
func (w *work) leaveGone() {
	if w.State != Gone {
		return
	}
	w.Digest, w.Parsed, w.Text, w.Length, w.Stored, w.ETag, w.LastModified = zeroDigest, zeroDigest, zeroDigest, 0, contents.Place{}, "", ""
	w.Sketch, w.Cut, w.Unstable = "", false, Stable
}

func (w *work) fail(fault string, now time.Time) {
	if w.Fails == 0 {
		w.Failed = now
	}
	w.Fails++
	w.Fault = record.Clip(fault, maxField)
}

// exclude takes a page out of the queue.
func (w *work) exclude(why string) {
	w.leaveGone()
	w.State, w.Why, w.At, w.planned, w.dirty = Excluded, why, Never, true, true
	w.settle()
}

// readmit returns a page to its state before it was excluded. What was announced meanwhile is news if it is announced again.
func (w *work) readmit() {
	w.State, w.Why, w.claim, w.planned, w.dirty = Known, "", zeroDigest, false, true
	if !w.Digest.IsZero() {
		w.State = Held
	}
}
