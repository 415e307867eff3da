package crawl

import (
	"hash/maphash"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A page that has the very body of another page of its site, as the site says by a digest, is not
// asked for: the body is held. Of several such pages that are new one is asked for, and the others wait for it.
// That a page has these bytes does not say that everybody may see it: one that stands in another directory than
// the page that is held waits until a page of its own directory has been given. And a tenth of them are asked for all the same,
// as if the site had said nothing: where such a page is something else, no word of that kind is taken from the site any more.
type twins struct {
	seed    maphash.Seed
	leads   map[lesson]frontier.PageID // pages that are asked for, of which something is learned
	waiting map[frontier.PageID]*lead  // the same, by page
	learned map[lesson]bool            // of bodies only what has failed
	waits   int                        // pages that wait
	taking  int                        // pages that are about to be taken in
	audited map[frontier.PageID]bool   // pages that are asked for all the same, to see whether the site's word holds
	liars   map[frontier.SiteID]bool   // sites of which one of those was something else
}

// A lesson is whether pages of a site have a body, or whether those of a directory are given to us.
type lesson struct {
	site frontier.SiteID
	dir  bool
	sum  uint64
}

// A lead is what is learned of a page that is asked for, and which pages wait for that.
type lead struct {
	lessons []lesson
	pages   []frontier.PageID
}

const (
	mostTwins   = 100_000 // that wait; others are asked for
	mostTaking  = 2 * turnSize
	mostLearned = 100_000 // lessons that are remembered
)

// A twin is a page, and another one that holds its body.
type twin struct{ page, held collection.Page }

func newTwins() twins {
	return twins{seed: maphash.MakeSeed(), leads: map[lesson]frontier.PageID{}, waiting: map[frontier.PageID]*lead{}, learned: map[lesson]bool{},
		audited: map[frontier.PageID]bool{}, liars: map[frontier.SiteID]bool{}}
}

func (t *twins) bodyOf(p *collection.Page) lesson {
	return lesson{site: p.Site, sum: maphash.Bytes(t.seed, p.Debt[:])}
}

func (t *twins) dirOf(p *collection.Page) lesson {
	return lesson{site: p.Site, dir: true, sum: maphash.String(t.seed, directory(p.URL))}
}

func directory(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url[:strings.LastIndexByte(url, '/')+1]
}

// sameType reports whether two URLs are of one media type, as far as their names say.
func sameType(a, b string) bool {
	ext := func(u string) string {
		u, _, _ = strings.Cut(u, "?")
		return strings.ToLower(path.Ext(u[strings.LastIndexByte(u, '/')+1:]))
	}
	return ext(a) == ext(b)
}

// shareable reports whether a page owes a body that others of its site may have. The run's lock is held.
func (r *run) shareable(st *site, p *collection.Page) bool {
	if r.twins.liars[st.ID] || !r.Collection.Stores() || !p.Told || p.Debt.IsZero() || p.Debt == emptyBody || p.Missed > 0 || p.Fails > 0 || p.Unstable != collection.Stable || p.Ask != "" || p.DebtLength > r.mostBytes() {
		return false
	}
	if p.Signal != collection.ByManifest && p.Signal != collection.ByChanges && p.Signal != collection.ByStream {
		return false
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	if is, _ := st.trust.Bodies.ByText(); is {
		return false
	}
	for i := range st.trust.Voices {
		if _, mute := st.trust.Voices[i].Muted(); mute {
			return false
		}
	}
	return true
}

var emptyBody = protocol.Sum(nil)

// twinOf looks for the body that a page owes: held is the page that has it, if nothing need be asked for, and leader
// is the page to wait for, 0 for none. The run's lock is held.
func (r *run) twinOf(p *collection.Page) (held *collection.Page, leader frontier.PageID, err error) {
	t := &r.twins
	body := t.bodyOf(p)
	if _, failed := t.learned[body]; failed {
		return nil, 0, nil
	}
	o, ok, err := r.Collection.Holder(p.Site, p.Debt)
	switch {
	case err != nil:
		return nil, 0, err
	case !ok:
		return nil, t.leaderOf(body, p), nil
	case o.ID == p.ID, o.Length > r.mostBytes(), p.Type != "" && p.Type != o.Type, !sameType(p.URL, o.URL):
		return nil, 0, nil
	case directory(o.URL) == directory(p.URL):
		return &o, 0, nil
	}
	dir := t.dirOf(p)
	given, known := t.learned[dir]
	if !known && p.State != collection.Held { // a page that we hold has been given
		index, ok, err := r.Collection.Page(directory(p.URL))
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

// leaderOf is the page that is asked for, of which something is learned, 0 if there is none.
func (t *twins) leaderOf(l lesson, p *collection.Page) frontier.PageID {
	id := t.leads[l]
	if id == p.ID || t.waits >= mostTwins {
		return 0
	}
	return id
}

// wait has a page wait for another one.
func (t *twins) wait(id, leader frontier.PageID) {
	l := t.waiting[leader]
	l.pages = append(l.pages, id)
	t.waits++
}

// lead notes what is learned of a page that is about to be asked for.
func (t *twins) lead(p *collection.Page) {
	l := &lead{}
	for _, x := range []lesson{t.bodyOf(p), t.dirOf(p)} {
		if _, known := t.learned[x]; !known && t.leads[x] == 0 {
			t.leads[x] = p.ID
			l.lessons = append(l.lessons, x)
		}
	}
	if len(l.lessons) > 0 {
		t.waiting[p.ID] = l
	}
}

// learn takes in what asking for a page came to, and returns the pages that have waited for that. v is nil where
// it was not asked for after all.
func (t *twins) learn(id frontier.PageID, v *collection.Visit, d *collection.Visited) []frontier.PageID {
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
		delete(t.leads, x)
		switch {
		case v == nil:
		case x.dir && (v.Status == 0 || v.Status == http.StatusTooManyRequests || v.Status >= 500): // which will pass
		case x.dir:
			t.remember(x, isPage(v.Status) && v.Fault == "")
		case !d.Matched || v.Cut:
			t.remember(x, false)
		}
	}
	return l.pages
}

func (t *twins) remember(l lesson, so bool) {
	if len(t.learned) >= mostLearned {
		clear(t.learned)
	}
	t.learned[l] = so
}

// shareAll takes in the bodies of pages that others hold. Where a body is not there, or not what it was, the
// page is asked for.
func (r *run) shareAll(list []twin) {
	var same protocol.Digest // that was read last
	var body []byte
	var header http.Header
	for len(list) > 0 {
		var got []delivery
		var lost []twin
		n, bytes := 0, 0
		for ; n < len(list) && n < turnSize && bytes <= turnBytes; n++ {
			x := &list[n]
			if x.held.Digest != same {
				if body, header = r.bodyOf(&x.held); body == nil {
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
			again := read{busy: len(lost)}
			r.mu.Lock()
			for i := range lost {
				r.twins.remember(r.twins.bodyOf(&lost[i].page), false)
				again.again = append(again.again, lost[i].page.ID)
			}
			r.mu.Unlock()
			if !r.in.put(again) {
				return
			}
		}
		if err := r.deliver(got); err != nil {
			if r.ctx.Err() == nil {
				r.fail(err)
			}
			return
		}
		r.mu.Lock()
		r.twins.taking -= n
		r.mu.Unlock()
		r.rouse()
	}
}

// bodyOf reads what is held of a page, with what its header says of the bytes; nil if that is not there as it was.
func (r *run) bodyOf(p *collection.Page) ([]byte, http.Header) {
	c, err := r.Collection.Content(p)
	if err != nil {
		r.log.Debug("read what another page holds", "url", p.URL, "err", err)
		return nil, nil
	}
	defer c.Close()
	body, err := io.ReadAll(io.LimitReader(c, r.mostBytes()+1))
	if err != nil || protocol.Sum(body) != p.Digest {
		r.log.Debug("what another page holds is not what it was", "url", p.URL, "err", err)
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
