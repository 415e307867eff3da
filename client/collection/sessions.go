package collection

import (
	"net/http"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// Some sites insist on a session: requested by its name, which has no session, a page redirects to itself
// with one, or is refused. So the request URL of a page may differ from its name (E30). Sessions end: a
// refused one is dropped, and a page that redirects to itself gives the next one.

// askable returns the request URL of a page, empty if that is its name.
func askable(name, ask string) string {
	if ask == name || len(ask) > protocol.MaxURL {
		return ""
	}
	if origin, _, ok := split(name); !ok || !strings.HasPrefix(ask, origin+"/") {
		return ""
	}
	return strings.Clone(ask)
}

// stale reports whether an answer may be caused by the session in the request, not by the page.
func (p *Page) stale(v *Visit) bool {
	switch {
	case p.FetchURL == "" || p.Fails > 0 || v.Fault != "":
		return false
	case v.Status >= 300 && v.Status <= 399:
		return v.Target != nil && v.Target.URL != p.URL && p.Visits > 0
	}
	return v.Status >= 400 && v.Status <= 499 && v.Status != http.StatusRequestTimeout && v.Status != http.StatusTooEarly && v.Status != http.StatusTooManyRequests
}

// forgetSession drops the session, so that the page is requested by its name once more.
func (x *visiting) forgetSession() {
	x.w.FetchURL = ""
	x.retry(answer(x.v.Status) + ", with a session ID")
}

// newSession stores the session of a page that redirects to itself with one. A page that does so again and
// again insists on more than a session.
func (x *visiting) newSession(ask string) {
	const fault = "redirects to itself with a session ID"
	w := x.w
	again := w.Fails > 0 || w.FetchURL == ask
	if w.FetchURL = ask; again {
		x.failed(fault)
		return
	}
	x.retry(fault)
}

// retry makes the page due almost at once.
func (x *visiting) retry(fault string) {
	x.w.fail(fault, x.u.now)
	x.w.State = Failing
	x.later(x.u.c.opts.hurried(leastWait))
}
