// Package equal avoids requests for equal pages.
package equal

import (
	"hash/maphash"
	"net/http"
	"path"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/protocol"
)

// Pages knows which pages are equal to others. If a site announces for a page the digest of another stored page, that
// page's body is copied and no request is made. Of several new equal pages one is fetched, and the others wait for it.
// Equal bytes do not prove that a page is public: if it is in another directory than the stored page, it waits until a
// page of its own directory was fetched successfully. As an audit, a tenth of such pages are fetched all the same:
// if one differs from the announced digest, no page of its site is copied any more.
// They are not safe for concurrent use.
type Pages struct {
	col      *collection.Collection
	most     int64 // bytes of a page that may be copied
	seed     maphash.Seed
	fetching map[question]frontier.PageID // pages that are being fetched, by the question that they answer
	waiting  map[frontier.PageID]*lead    // the same, by page
	learned  map[question]bool            // for bodies only failures
	waits    int                          // pages that wait
	copying  int                          // pages that are about to be copied
	audited  map[frontier.PageID]bool     // pages that are fetched as an audit
	liars    map[frontier.SiteID]bool     // sites that have failed an audit
}

// A question is whether pages of a site have a body, or whether pages of a directory may be fetched.
type question struct {
	site frontier.SiteID
	dir  bool
	sum  uint64
}

// A lead holds the questions that a page that is being fetched answers, and the pages that wait for it.
type lead struct {
	lessons []question
	pages   []frontier.PageID
}

const (
	mostWaitingEqual = 100_000 // pages that wait; beyond, pages are fetched
	mostCopying      = 2000    // pages that are about to be copied
	mostLearned      = 100_000 // answers that are remembered
)

// New returns the equal pages of a collection, of at most so many bytes each.
func New(col *collection.Collection, most int64) *Pages {
	return &Pages{col: col, most: most, seed: maphash.MakeSeed(), fetching: map[question]frontier.PageID{}, waiting: map[frontier.PageID]*lead{}, learned: map[question]bool{},
		audited: map[frontier.PageID]bool{}, liars: map[frontier.SiteID]bool{}}
}

func (t *Pages) bodyOf(p *collection.Page) question {
	return question{site: p.Site, sum: maphash.Bytes(t.seed, p.Debt[:])}
}

func (t *Pages) dirOf(p *collection.Page) question {
	return question{site: p.Site, dir: true, sum: maphash.String(t.seed, directory(p.URL))}
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

// Shares reports whether a page's pending body may be copied from another page of its site.
func (t *Pages) Shares(p *collection.Page) bool {
	if t.liars[p.Site] || t.col.Contents().None || !p.Told || p.Debt.IsZero() || p.Debt == emptyBody || p.Missed > 0 || p.Fails > 0 || p.Unstable != collection.Stable || p.FetchURL != "" || p.DebtLength > t.most {
		return false
	}
	return p.Signal == collection.ByManifest || p.Signal == collection.ByChanges || p.Signal == collection.ByStream
}

var emptyBody = protocol.Sum(nil)

// Find looks for the pending body of a page: held is the page to copy it from, nil for none, and leader
// is the page to wait for, 0 for none.
func (t *Pages) Find(p *collection.Page) (held *collection.Page, leader frontier.PageID, err error) {
	body := t.bodyOf(p)
	if _, failed := t.learned[body]; failed {
		return nil, 0, nil
	}
	o, ok, err := t.col.Holder(p.Site, p.Debt)
	switch {
	case err != nil:
		return nil, 0, err
	case !ok:
		return nil, t.leaderOf(body, p), nil
	case o.ID == p.ID, o.Length > t.most, p.Type != "" && p.Type != o.Type, !sameType(p.URL, o.URL):
		return nil, 0, nil
	case directory(o.URL) == directory(p.URL):
		return &o, 0, nil
	}
	dir := t.dirOf(p)
	given, known := t.learned[dir]
	if !known && p.State != collection.Held { // a stored page was fetched before
		index, ok, err := t.col.Page(directory(p.URL))
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

// leaderOf returns the page whose fetch will answer a question, 0 if there is none.
func (t *Pages) leaderOf(l question, p *collection.Page) frontier.PageID {
	id := t.fetching[l]
	if id == p.ID || t.waits >= mostWaitingEqual {
		return 0
	}
	return id
}

// Wait makes a page wait for another one.
func (t *Pages) Wait(id, leader frontier.PageID) {
	l := t.waiting[leader]
	l.pages = append(l.pages, id)
	t.waits++
}

// Fetch records which questions a page that is about to be fetched will answer.
func (t *Pages) Fetch(p *collection.Page) {
	l := &lead{}
	for _, x := range []question{t.bodyOf(p), t.dirOf(p)} {
		if _, known := t.learned[x]; !known && t.fetching[x] == 0 {
			t.fetching[x] = p.ID
			l.lessons = append(l.lessons, x)
		}
	}
	if len(l.lessons) > 0 {
		t.waiting[p.ID] = l
	}
}

// Visited evaluates the fetch of a page, and returns the pages that have waited for it. v is nil if
// it was not fetched after all.
func (t *Pages) Visited(id frontier.PageID, v *collection.Visit, d *collection.Visited) []frontier.PageID {
	if t.audited[id] {
		delete(t.audited, id)
		if v != nil && v.Fault == "" && gather.IsPage(v.Status) && d.Mismatched {
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
			t.remember(x, gather.IsPage(v.Status) && v.Fault == "")
		case !d.Matched || v.Cut:
			t.remember(x, false)
		}
	}
	return l.pages
}

func (t *Pages) remember(l question, so bool) {
	if len(t.learned) >= mostLearned {
		clear(t.learned)
	}
	t.learned[l] = so
}

// Audit records that a page is fetched although an equal one is stored, to check that its site tells the truth.
func (t *Pages) Audit(id frontier.PageID) { t.audited[id] = true }

// Copy records that n pages are about to be copied, or that -n were; Busy reports whether those are many.
func (t *Pages) Copy(n int) { t.copying += n }

func (t *Pages) Busy() bool { return t.copying >= mostCopying }

// Lost records that the body of a page cannot be copied.
func (t *Pages) Lost(p *collection.Page) { t.remember(t.bodyOf(p), false) }
