package crawl

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/protocol"
)

// Pages that were found only by links are fetched as far as pages like them lead to something new, see package
// family. Pages that wait stay given out, so that the frontier proceeds to others, and are returned to it
// when they may be fetched. Only the data of the families is stored: the next run holds the pages back again.

const (
	lookAll        = 40      // pages whose words are compared, at first and after each useless visit
	fillText       = 16      // pages of a known site whose text fills the memory before others are compared with it
	mostTexts      = 1000    // sites whose text is remembered, 32 KiB each
	mostWaitingAll = 500_000 // pages held back; beyond, pages are fetched
	mostTraps      = 20      // in a Status
)

// families bounds the requests that each site's crawler traps get. The work's lock guards it.
type families struct {
	work    *work
	sites   *siteTable
	front   queue
	share   float64                   // of the requests to a site that may go to poor families; 1 means no limit
	waiting int                       // pages that are held back
	tried   map[frontier.PageID]*site // pages that are being fetched, for which family.Tree.Ask returned true
	texts   map[frontier.SiteID]*family.Text
}

// A Trap is a family of a site's pages that led to little new, so that the rest of them wait.
type Trap struct {
	Site string `json:"site"`
	family.Report
}

// budgeted reports whether a page's family limits its fetch: only links have led to it, and it was never visited.
func budgeted(p *collection.Page) bool {
	return p.By == collection.ByLink && p.Visits == 0 && p.Fails == 0 && p.Depth > 0 && !p.Told && !p.Listed
}

// mayAsk reports whether a page may be fetched now. If not, it stays given out until it may. The work's lock is held.
func (fs *families) mayAsk(st *site, p *collection.Page) bool {
	if fs.share == 1 || !budgeted(p) || fs.waiting >= mostWaitingAll {
		return true
	}
	f := fs.of(st)
	was := f.Held()
	ok := f.Ask(p.ID, p.URL, fs.share)
	if fs.waiting += f.Held() - was; ok {
		fs.tried[p.ID] = st
	}
	return ok
}

// of returns the URL families of a site.
func (fs *families) of(st *site) *family.Tree {
	if st.families == nil {
		st.families = family.Parse(st.Families)
	}
	return st.families
}

// notTried records that pages were not fetched after all, and returns to the frontier the pages that may be fetched
// instead. The work's lock is held.
func (fs *families) notTried(ids []frontier.PageID) {
	met := map[*site]bool{}
	for _, id := range ids {
		if st := fs.tried[id]; st != nil {
			delete(fs.tried, id)
			st.families.Back(id)
			met[st] = true
		}
	}
	fs.release(met)
}

// release returns to the frontier the held pages of sites that may be fetched by now. The work's lock is held.
func (fs *families) release(sites map[*site]bool) {
	for st := range sites {
		list := st.families.Release(fs.share)
		fs.waiting -= len(list)
		fs.front.Return(list)
	}
}

// refuse removes links from a Commit whose family has enough waiting pages, and returns how many each visit had. The work's
// lock is held.
func (fs *families) refuse(t *collection.Commit) []int {
	refused := make([]int, len(t.Visits))
	if fs.waiting == 0 {
		return refused
	}
	for i := range t.Visits {
		v := &t.Visits[i]
		var st *site
		keep := v.Links[:0]
		for _, l := range v.Links {
			if st == nil || !strings.HasPrefix(l.URL, st.Origin+"/") {
				st = fs.sites.byOrigin[protocol.Origin(l.URL)]
			}
			if st != nil && st.families != nil && st.families.Held() > 0 && l.By == collection.ByLink && l.Exclude == "" && !l.LogOnly && st.families.Full(l.URL) {
				refused[i]++
				continue
			}
			keep = append(keep, l)
		}
		v.Links = keep
	}
	return refused
}

// learn updates the families by a Commit's visits, and returns to the frontier the pages that may be fetched by now. The
// work's lock is held.
func (fs *families) learn(t *collection.Commit, done *collection.Committed, pairs map[int][]uint32, refused []int) {
	if fs.share == 1 {
		return
	}
	fresh := map[string]frontier.SiteID{}
	for i := range done.New {
		if p := &done.New[i]; p.By == collection.ByLink && p.State != collection.Excluded { // URLs that are never fetched multiply nothing
			fresh[p.URL] = p.Site
		}
	}
	met := map[*site]bool{}
	for i := range t.Visits {
		v, d := &t.Visits[i], &done.Visited[i]
		st := fs.sites.of(d.Page.Site)
		if st == nil || v.Delivered || v.Shared || v.Exclude != "" {
			continue
		}
		f := fs.of(st)
		met[st] = true
		_, was := fs.tried[v.Page]
		delete(fs.tried, v.Page)
		f.Requested()
		x := family.Visit{Page: v.Page, URL: d.Page.URL, Text: -1, Refused: refused[i]}
		found := func(url string) {
			id, ok := fresh[url]
			if !ok {
				return
			}
			delete(fresh, url)
			if id == st.ID {
				x.Found = append(x.Found, url)
			} else {
				x.CrossHost = true
			}
		}
		if len(fresh) > 0 {
			for j := range v.Links {
				found(v.Links[j].URL)
			}
			if v.Target != nil {
				found(v.Target.URL)
			}
		}
		if v.Fault != "" || v.Status == 0 || v.Status >= 500 || v.Status == http.StatusTooManyRequests || d.Before.Visits > 0 {
			f.Back(v.Page)
			continue
		}
		if p, ok := pairs[i]; ok {
			x.Text = fs.textOf(st).Share(p)
		}
		x.Told = !was
		x.Spoiled = d.Duplicate || !gather.IsPage(v.Status)
		if f.Visited(&x) {
			st.compared = 0
			fs.sites.touch(st)
		}
	}
	for i := 0; i < len(done.Queue) && fs.waiting > 0; i++ {
		e := &done.Queue[i]
		if st := fs.sites.byID[e.Site]; st != nil && st.families != nil && st.families.Holds(e.Page) {
			st.families.Let(e.Page) // it may have been announced
			fs.waiting--
			fs.front.Return([]frontier.PageID{e.Page})
		}
	}
	fs.release(met)
}

// traps returns the families with waiting pages. The work's lock is held.
func (fs *families) traps() (list []Trap) {
	if fs.waiting == 0 {
		return nil
	}
	for _, st := range fs.sites.byID {
		if st.families != nil && st.families.Held() > 0 {
			for _, x := range st.families.Reports() {
				list = append(list, Trap{st.Origin, x})
			}
		}
	}
	slices.SortFunc(list, func(a, b Trap) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Like, b.Like))
	})
	return list[:min(len(list), mostTraps)]
}

// compares reports whether the words of a site's next page are compared with those before it: those of the first pages of a
// run, and of the pages after each useless visit; later one page in eight, as a sample.
func (fs *families) compares(id frontier.SiteID) bool {
	if fs.share == 1 {
		return false
	}
	fs.work.Lock()
	defer fs.work.Unlock()
	st := fs.sites.byID[id]
	if st == nil {
		return false
	}
	st.visits++
	if st.compared < lookAll {
		st.compared++
		return true
	}
	return st.visits%8 == 0
}

// textOf returns the memory of a site's text. The work's lock is held.
func (fs *families) textOf(st *site) *family.Text {
	if x := fs.texts[st.ID]; x != nil {
		return x
	}
	if len(fs.texts) >= mostTexts {
		for id := range fs.texts {
			delete(fs.texts, id)
			break
		}
	}
	x := &family.Text{Fill: 1}
	if st.families.Requests() > fillText { // whose text was forgotten
		x.Fill = fillText
	}
	fs.texts[st.ID] = x
	return x
}
