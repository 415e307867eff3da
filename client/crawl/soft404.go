package crawl

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// softAfter is how many pages make a site worth a request to find out how it answers
// for a page that does not exist (P12).
const softAfter = 20

// A softProbe is a site's answer for a page that does not exist.
type softProbe struct {
	url    string // of the probe; empty: none was sent yet
	parsed protocol.Digest
}

// probeSoft returns, once a run, a task that requests a page that does not exist, if the site has softAfter pages. The
// work's lock is held.
func (t *siteTable) probeSoft(st *site) (harvest.Task, bool) {
	if st.soft.url != "" || st.Held < softAfter && st.Pages < softAfter || t.c.NoParse {
		return harvest.Task{}, false
	}
	u := st.Origin + "/" + strings.ToLower(rand.Text()) + ".html"
	if t.seeder.Forbids(u) != "" {
		u = "-"
	}
	st.soft.url = u
	return harvest.Task{URL: u}, u != "-"
}

// softAnswered evaluates the answer for a page that does not exist.
func (r *answerHandler) softAnswered(a *harvest.Answer, rd *parser) {
	soft := a.Status == http.StatusOK && a.Fault == ""
	if soft {
		_ = rd.gatherer.Read(&rd.page, a.Task.URL, a.Header, a.Body) // a parse error does not matter
	}
	r.work.Lock()
	defer r.work.Unlock()
	switch st := r.sites.byID[a.Site]; {
	case st == nil, st.soft.url != a.Task.URL: // the answer of a source that is not known any more
	case a.Fault != "":
		st.soft.url = "" // the probe is sent again later
	default:
		if soft {
			st.soft.parsed = rd.page.Parsed
		}
		if st.Soft404 != soft {
			st.Soft404 = soft
			r.sites.touch(st)
		}
	}
	r.work.busy--
	r.work.rouse()
}

// looksGone reports whether content is a site's answer for pages that do not exist.
// The front page never is: some sites answer with it.
func (r *pageReader) looksGone(st *site, a *harvest.Answer, page *gather.Page) bool {
	if st == nil || page.Parsed.IsZero() || a.Task.URL == protocol.Origin(a.Task.URL)+"/" {
		return false
	}
	r.work.Lock()
	defer r.work.Unlock()
	return st.Soft404 && st.soft.parsed == page.Parsed
}
