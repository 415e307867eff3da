package collection

import (
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// lookup finds or creates the page of a URL. The row's ID is 0 if it was refused; w is nil if the page was
// known, and only its known part was read.
func (u *update) lookup(f *Find) (row *urls.Row, w *work, err error) {
	row, slot, err := u.pages.row(f.URL)
	if row != nil || err != nil {
		return row, nil, err
	}
	x := &u.c.index
	r := urls.Row{Hash: x.urls.Hash(f.URL), URL: f.URL}
	if w = u.create(f); w != nil {
		r.ID, r.Depth = w.ID, w.Depth
	}
	return x.cache.Add(slot, r), w, nil
}

// create makes a page, or returns nil if it is refused.
func (u *update) create(f *Find) *work {
	var s *Site
	last := u.pages.last
	if origin, _, ok := split(f.URL); ok && last < maxPages && (u.copied != nil || int(last) < u.c.opts.MaxPages) {
		s = u.sites.of(origin)
	}
	if s == nil || !u.counts(s, f) {
		u.out.Refused++
		return nil
	}
	w := u.pages.add(Page{Site: s.ID, URL: f.URL, Depth: max(0, f.Depth), Found: u.now, By: signalOf(f.By.code()),
		Dynamic: f.Dynamic, Importance: unknown, FetchURL: askable(f.URL, f.Ask)})
	w.Signal = w.By
	return w
}

// counts counts a new page with those of its part of the web, and of its site. It returns false if there may be no more of them.
func (u *update) counts(s *Site, f *Find) bool {
	part, stored, most := "", s.Pages+u.sites.born[s.ID], u.c.opts.PerSite
	if of := u.c.opts.Part; of != nil {
		if url, n := of(f.URL); url != "" {
			part, stored, most = url, u.c.index.parts[url]+u.sites.parts[url], n
		}
	}
	if most > 0 && stored >= most && f.By != ByPerson {
		return false
	}
	u.sites.born[s.ID]++
	if part != "" {
		u.sites.parts[part]++
	}
	return true
}

// find stores a URL that was admitted, or is known but excluded, and returns its page; 0 if it was refused, or is another crawler's.
func (u *update) find(f *Find) (frontier.PageID, error) {
	if f.Partition > 0 {
		u.keepFor(f)
		return 0, nil
	}
	row, w, err := u.lookup(f)
	if err != nil || row.ID == 0 {
		return 0, err
	}
	exclude := f.Exclude
	if exclude == "" && f.LogOnly {
		exclude = "logged only, not fetched"
	}
	switch {
	case w != nil: // new
		if exclude != "" {
			w.exclude(exclude)
		} else if f.By.code() >= BySitemap.code() {
			u.told(w, f.By)
		}
		u.plan(w)
		return row.ID, nil
	case exclude == "" && f.Depth >= row.Depth && !again(f.By) && !row.Out:
		return row.ID, nil // nothing new: the usual case
	}
	if w, err = u.pages.get(row.ID); err != nil || w == nil {
		return 0, err
	}
	switch {
	case exclude != "":
		// A forbidden path to the page does not undo a shorter, admitted one. Fetching a page checks the rules again.
		if w.State == Known && f.Depth <= w.Depth && !w.Told {
			w.exclude(exclude)
			u.plan(w)
		}
		return row.ID, nil
	case w.State == Excluded:
		w.readmit()
		row.Out = false
		if u.copied != nil { // announcements in the meantime were skipped
			u.told(w, f.By)
		}
		u.plan(w)
	case f.Depth < w.Depth:
	case !again(f.By):
		return row.ID, nil
	}
	w.Depth = min(w.Depth, max(0, f.Depth))
	row.Depth = w.Depth
	if again(f.By) {
		u.told(w, f.By)
		u.plan(w)
	}
	u.place(w)
	return row.ID, nil
}

// again reports whether a find causes a visit even of a page that was visited.
func again(by Signal) bool { return by == ByPerson || by == ByIndexNow }

// told makes a page due at once.
func (u *update) told(w *work, by Signal) {
	if !w.Told || by.code() > w.Signal.code() {
		w.Signal = by
	}
	w.Told, w.claimed, w.Missed = true, u.now, 0
	w.claim, w.Debt, w.DebtText, w.DebtLength = zeroDigest, zeroDigest, zeroDigest, 0
	w.planned, w.dirty = false, true
}
