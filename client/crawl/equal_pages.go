package crawl

import (
	"hash/maphash"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// equalPages avoid requests for equal pages. If a site announces for a page the digest of another stored page, that
// page's body is copied and no request is made. Of several new equal pages one is fetched, and the others wait for it.
// Equal bytes do not prove that a page is public: if it is in another directory than the stored page, it waits until a
// page of its own directory was fetched successfully. As an audit, a tenth of such pages are fetched all the same:
// if one differs from the announced digest, no page of its site is copied any more.
// The work's lock guards them.
type equalPages struct {
	c        *setup
	seed     maphash.Seed
	fetching map[equalityKey]frontier.PageID // pages that are being fetched, by the question that they answer
	waiting  map[frontier.PageID]*lead       // the same, by page
	learned  map[equalityKey]bool            // for bodies only failures
	waits    int                             // pages that wait
	taking   int                             // pages that are about to be copied
	audited  map[frontier.PageID]bool        // pages that are fetched as an audit
	liars    map[frontier.SiteID]bool        // sites that have failed an audit
}

// An equalityKey is the question whether pages of a site have a body, or whether pages of a directory may be fetched.
type equalityKey struct {
	site frontier.SiteID
	dir  bool
	sum  uint64
}

// A lead holds the questions that a page that is being fetched answers, and the pages that wait for it.
type lead struct {
	lessons []equalityKey
	pages   []frontier.PageID
}

const (
	mostWaitingEqual = 100_000 // pages that wait; beyond, pages are fetched
	mostTaking       = 2 * commitSize
	mostLearned      = 100_000 // answers that are remembered
)

// An equalPair is a page, and a stored one with the same body.
type equalPair struct{ page, held collection.Page }

func newEqualPages(c *setup) *equalPages {
	return &equalPages{c: c, seed: maphash.MakeSeed(), fetching: map[equalityKey]frontier.PageID{}, waiting: map[frontier.PageID]*lead{}, learned: map[equalityKey]bool{},
		audited: map[frontier.PageID]bool{}, liars: map[frontier.SiteID]bool{}}
}

func (t *equalPages) bodyOf(p *collection.Page) equalityKey {
	return equalityKey{site: p.Site, sum: maphash.Bytes(t.seed, p.Debt[:])}
}

func (t *equalPages) dirOf(p *collection.Page) equalityKey {
	return equalityKey{site: p.Site, dir: true, sum: maphash.String(t.seed, directory(p.URL))}
}

func directory(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url[:strings.LastIndexByte(url, '/')+1]
}

// sameType reports whether two URLs have the same extension.
func sameType(a, b string) bool {
	ext := func(u string) string {
		u, _, _ = strings.Cut(u, "?")
		return strings.ToLower(path.Ext(u[strings.LastIndexByte(u, '/')+1:]))
	}
	return ext(a) == ext(b)
}

// shareable reports whether a page's pending body may be copied from another page of its site. The work's lock is held.
func (t *equalPages) shareable(st *site, p *collection.Page) bool {
	if t.liars[st.ID] || !t.c.Collection.Stores() || !p.Told || p.Debt.IsZero() || p.Debt == emptyBody || p.Missed > 0 || p.Fails > 0 || p.Unstable != collection.Stable || p.FetchURL != "" || p.DebtLength > t.c.mostBytes {
		return false
	}
	return p.Signal == collection.ByManifest || p.Signal == collection.ByChanges || p.Signal == collection.ByStream
}

var emptyBody = protocol.Sum(nil)

// of looks for the pending body of a page: held is the page to copy it from, nil for none, and leader
// is the page to wait for, 0 for none. The work's lock is held.
func (t *equalPages) of(p *collection.Page) (held *collection.Page, leader frontier.PageID, err error) {
	body := t.bodyOf(p)
	if _, failed := t.learned[body]; failed {
		return nil, 0, nil
	}
	o, ok, err := t.c.Collection.Holder(p.Site, p.Debt)
	switch {
	case err != nil:
		return nil, 0, err
	case !ok:
		return nil, t.leaderOf(body, p), nil
	case o.ID == p.ID, o.Length > t.c.mostBytes, p.Type != "" && p.Type != o.Type, !sameType(p.URL, o.URL):
		return nil, 0, nil
	case directory(o.URL) == directory(p.URL):
		return &o, 0, nil
	}
	dir := t.dirOf(p)
	given, known := t.learned[dir]
	if !known && p.State != collection.Held { // a stored page was fetched before
		index, ok, err := t.c.Collection.Page(directory(p.URL))
		if err != nil {
			return nil, 0, err
		}
		given = ok && index.State == collection.Held
	}
	switch {
	case given, !known && p.State == collection.Held:
		return &o, 0, nil
	case known:
		return nil, 0, nil
	}
	return nil, t.leaderOf(dir, p), nil
}

// leaderOf returns the page whose fetch will answer an equalityKey, 0 if there is none.
func (t *equalPages) leaderOf(l equalityKey, p *collection.Page) frontier.PageID {
	id := t.fetching[l]
	if id == p.ID || t.waits >= mostWaitingEqual {
		return 0
	}
	return id
}

// wait makes a page wait for another one.
func (t *equalPages) wait(id, leader frontier.PageID) {
	l := t.waiting[leader]
	l.pages = append(l.pages, id)
	t.waits++
}

// fetchFor records which questions a page that is about to be fetched will answer.
func (t *equalPages) fetchFor(p *collection.Page) {
	l := &lead{}
	for _, x := range []equalityKey{t.bodyOf(p), t.dirOf(p)} {
		if _, known := t.learned[x]; !known && t.fetching[x] == 0 {
			t.fetching[x] = p.ID
			l.lessons = append(l.lessons, x)
		}
	}
	if len(l.lessons) > 0 {
		t.waiting[p.ID] = l
	}
}

// learn evaluates the fetch of a page, and returns the pages that have waited for it. v is nil where
// it was not fetched after all.
func (t *equalPages) learn(id frontier.PageID, v *collection.Visit, d *collection.Visited) []frontier.PageID {
	if t.audited[id] {
		delete(t.audited, id)
		if v != nil && v.Fault == "" && isPage(v.Status) && d.Mismatched {
			t.liars[d.Page.Site] = true
		}
	}
	l := t.waiting[id]
	if l == nil {
		if v != nil && (v.Status == http.StatusUnauthorized || v.Status == http.StatusForbidden || v.Status == http.StatusUnavailableForLegalReasons) {
			if dir := t.dirOf(&d.Page); t.learned[dir] {
				t.learned[dir] = false
			}
		}
		return nil
	}
	delete(t.waiting, id)
	t.waits -= len(l.pages)
	for _, x := range l.lessons {
		delete(t.fetching, x)
		switch {
		case v == nil:
		case x.dir && (v.Status == 0 || v.Status == http.StatusTooManyRequests || v.Status >= 500): // a temporary failure
		case x.dir:
			t.remember(x, isPage(v.Status) && v.Fault == "")
		case !d.Matched || v.Cut:
			t.remember(x, false)
		}
	}
	return l.pages
}

func (t *equalPages) remember(l equalityKey, so bool) {
	if len(t.learned) >= mostLearned {
		clear(t.learned)
	}
	t.learned[l] = so
}

// shareAll copies bodies from equal pages. A page is fetched instead if the stored body is missing, or has
// another digest.
func (q *pageQueue) shareAll(list []equalPair) {
	work := q.work
	var same protocol.Digest // of the body that was read last
	var body []byte
	var header http.Header
	for len(list) > 0 {
		var got []delivery
		var lost []equalPair
		n, bytes := 0, 0
		for ; n < len(list) && n < commitSize && bytes <= commitBytes; n++ {
			x := &list[n]
			if x.held.Digest != same {
				if body, header = q.bodyOf(&x.held); body == nil {
					same = protocol.Digest{}
					lost = append(lost, *x)
					continue
				}
				same = x.held.Digest
			}
			bytes += len(body)
			got = append(got, delivery{page: x.page, header: header, body: body})
		}
		list = list[n:]
		if len(lost) > 0 {
			again := result{busy: len(lost)}
			work.Lock()
			for i := range lost {
				q.equal.remember(q.equal.bodyOf(&lost[i].page), false)
				again.again = append(again.again, lost[i].page.ID)
			}
			work.Unlock()
			if !q.in.put(again) {
				return
			}
		}
		if err := q.reader.deliver(got); err != nil {
			if work.ctx.Err() == nil {
				work.fail(err)
			}
			return
		}
		work.Lock()
		q.equal.taking -= n
		work.Unlock()
		work.rouse()
	}
}

// bodyOf reads the stored body of a page, with the headers that describe it; nil if it is missing or has another digest.
func (q *pageQueue) bodyOf(p *collection.Page) ([]byte, http.Header) {
	c, err := q.c.Collection.Content(p)
	if err != nil {
		q.c.Log.Debug("cannot read the content of an equal page", "url", p.URL, "err", err)
		return nil, nil
	}
	defer c.Close()
	body, err := io.ReadAll(io.LimitReader(c, q.c.mostBytes+1))
	if err != nil || protocol.Sum(body) != p.Digest {
		q.c.Log.Debug("the content of an equal page has changed", "url", p.URL, "err", err)
		return nil, nil
	}
	h := headerOf(&protocol.Item{Type: p.Type}, protocol.AsMeta)
	for _, name := range []string{"Content-Type", "Content-Language", "X-Robots-Tag"} {
		if v := c.Header.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	return body, h
}
