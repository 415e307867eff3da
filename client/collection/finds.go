package collection

import (
	"math/bits"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/frontier"
)

// A findTable caches the URLs of a Commit: pages of a site have the same links again and again, and verifying
// a known URL costs a read of the file. Its memory is reused for the next Commit.
type findTable struct {
	slots []int32 // 1 + index into rows
	rows  []findRow
	shift int
}

type findRow struct {
	hash uint64
	url  string
	id   frontier.PageID // 0: refused
	seen known           // without its path; as it was at the lookup
	out  bool            // it was excluded
}

// reset empties the table and makes it ready for n URLs.
func (t *findTable) reset(n int) {
	clear(t.rows) // frees the URLs
	t.rows = t.rows[:0]
	size := 1 << bits.Len(uint(2*n+64))
	if size > len(t.slots) || size < len(t.slots)/16 {
		t.slots = make([]int32, size)
	} else {
		clear(t.slots)
	}
	t.shift = 64 - bits.TrailingZeros(uint(len(t.slots)))
}

// find returns the row of a URL, or nil and the slot for one.
func (t *findTable) find(hash uint64, url string) (*findRow, int) {
	mask := len(t.slots) - 1
	for i := int(hash >> t.shift); ; i++ {
		n := t.slots[i&mask]
		if n == 0 {
			return nil, i & mask
		}
		if r := &t.rows[n-1]; r.hash == hash && r.url == url {
			return r, 0
		}
	}
}

func (t *findTable) add(slot int, r findRow) *findRow {
	if 2*len(t.rows) >= len(t.slots) { // a Commit with more URLs than reset was called for
		t.slots = make([]int32, 2*len(t.slots))
		t.shift--
		for i := range t.rows {
			_, at := t.find(t.rows[i].hash, t.rows[i].url)
			t.slots[at] = int32(i + 1)
		}
		_, slot = t.find(r.hash, r.url)
	}
	t.rows = append(t.rows, r)
	t.slots[slot] = int32(len(t.rows))
	return &t.rows[len(t.rows)-1]
}

// lookup finds or creates the page of a URL. The row's id is 0 if it was refused; w is nil if the page was
// known, and only its known part was read.
func (u *update) lookup(f *Find) (row *findRow, w *work, err error) {
	t := &u.c.table
	hash := u.c.seen.hash(f.URL)
	row, slot := t.find(hash, f.URL)
	if row != nil {
		return row, nil, nil
	}
	if row, err = u.confirm(hash, f.URL, slot); row != nil || err != nil {
		return row, nil, err
	}
	r := findRow{hash: hash, url: f.URL}
	if w = u.create(f); w != nil {
		r.id, r.seen.depth, r.seen.site = w.ID, w.Depth, w.Site
	}
	return t.add(slot, r), w, nil
}

// confirm looks up a URL in the file, and returns nil if it is not known.
func (u *update) confirm(hash uint64, url string, slot int) (*findRow, error) {
	var buf [4]frontier.PageID
	for _, id := range u.c.seen.find(buf[:0], hash) {
		ok, err := u.block.seek(u.urls, id)
		if err != nil {
			return nil, err
		}
		k := &u.block.known
		if !ok || k.site == 0 || int(k.site) > len(u.names) {
			continue
		}
		origin := u.names[k.site-1]
		if len(url) != len(origin)+len(k.path) || url[:len(origin)] != origin || url[len(origin):] != string(k.path) {
			continue
		}
		r := findRow{hash: hash, url: url, id: id, seen: *k}
		r.seen.path = nil
		if raw := u.record(id); len(raw) > 0 {
			r.out = State(raw[0]) == Excluded
		}
		return u.c.table.add(slot, r), nil
	}
	return nil, nil
}

// create makes a page, or returns nil if it is refused.
func (u *update) create(f *Find) *work {
	origin, _, ok := split(f.URL)
	if !ok || u.last >= maxPages || u.copied == nil && int(u.last) >= u.c.opts.MaxPages {
		u.out.Refused++
		return nil
	}
	s := u.siteOf(origin)
	if s == nil {
		u.out.Refused++
		return nil
	}
	if n := u.c.opts.PerSite; n > 0 && s.Pages+u.born[s.ID] >= n && f.By != ByPerson {
		u.out.Refused++
		return nil
	}
	u.born[s.ID]++
	u.last++
	w := u.alloc()
	w.Page = Page{ID: u.last, Site: s.ID, URL: f.URL, Depth: max(0, f.Depth), Found: u.now, By: signalOf(f.By.code()),
		Dynamic: f.Dynamic, Importance: unknown, FetchURL: askable(f.URL, f.Ask)}
	w.Signal = w.By
	w.isNew, w.dirty = true, true
	u.work[w.ID] = w
	u.fresh = append(u.fresh, w)
	return w
}

// find stores a URL that was admitted, or is known but excluded, and returns its page; 0 if it was refused.
func (u *update) find(f *Find) (frontier.PageID, error) {
	row, w, err := u.lookup(f)
	if err != nil || row.id == 0 {
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
		return row.id, nil
	case exclude == "" && f.Depth >= row.seen.depth && !again(f.By) && !row.out:
		return row.id, nil // nothing new: the usual case
	}
	if w, err = u.get(row.id); err != nil || w == nil {
		return 0, err
	}
	switch {
	case exclude != "":
		// A forbidden path to the page does not undo a shorter, admitted one. Fetching a page checks the rules again.
		if w.State == Known && f.Depth <= w.Depth && !w.Told {
			w.exclude(exclude)
			u.plan(w)
		}
		return row.id, nil
	case w.State == Excluded:
		w.readmit()
		row.out = false
		if u.copied != nil { // announcements in the meantime were skipped
			u.told(w, f.By)
		}
		u.plan(w)
	case f.Depth < w.Depth:
	case !again(f.By):
		return row.id, nil
	}
	w.Depth = min(w.Depth, max(0, f.Depth))
	row.seen.depth = w.Depth
	if again(f.By) {
		u.told(w, f.By)
		u.plan(w)
	}
	u.place(w)
	return row.id, nil
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

// exclude takes a page out of the queue.
func (w *work) exclude(why string) {
	w.leaveGone()
	w.State, w.Why, w.At, w.planned, w.dirty = Excluded, why, Never, true, true
	w.settle()
}

// forget drops the last content of a gone page that is about to change its state.
func (w *work) forget() {
	w.Digest, w.Parsed, w.Text, w.Length, w.Stored, w.ETag, w.LastModified = zeroDigest, zeroDigest, zeroDigest, 0, contents.Place{}, "", ""
	w.Cut, w.Unstable = false, Stable
}

// readmit returns a page to its state before it was excluded.
func (w *work) readmit() {
	w.State, w.Why, w.planned, w.dirty = Known, "", false, true
	if !w.Digest.IsZero() {
		w.State = Held
	}
}
