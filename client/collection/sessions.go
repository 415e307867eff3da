package collection

import (
	"net/http"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// Some sites insist on a session: asked by its name, which has none, a page leads to
// itself with one, or is refused. So a page may be asked for by another URL than the one
// that names it (E30). Sessions end: one that is refused is forgotten, and a
// page that leads to itself says what the next one is.

// askable returns the URL by which a page is asked for, empty if that is its name.
func askable(name, ask string) string {
	if ask == name || len(ask) > protocol.MaxURL {
		return ""
	}
	if origin, _, ok := split(name); !ok || !strings.HasPrefix(ask, origin+"/") {
		return ""
	}
	return strings.Clone(ask)
}

// stale reports whether an answer may be due to the session that the page was asked for
// with, and not to the page.
func (p *Page) stale(v *Visit) bool {
	switch {
	case p.Ask == "" || p.Fails > 0 || v.Fault != "":
		return false
	case v.Status >= 300 && v.Status <= 399:
		return v.Target != nil && v.Target.URL != p.URL && p.Visits > 0
	}
	return v.Status >= 400 && v.Status <= 499 && v.Status != http.StatusRequestTimeout && v.Status != http.StatusTooEarly && v.Status != http.StatusTooManyRequests
}

// forgetSession has a page asked for by its name, once more.
func (u *update) forgetSession(w *work, v *Visit) {
	w.Ask = ""
	w.fail(answer(v.Status)+", with a session", u.now)
	w.State = Failing
	u.later(w, v, u.c.opts.hurried(leastWait))
}

// newSession takes in that a page leads to itself, with a session. One that does so
// again and again insists on more than that.
func (u *update) newSession(w *work, v *Visit, ask string) {
	const fault = "it leads to itself, with a session"
	again := w.Fails > 0 || w.Ask == ask
	if w.Ask = ask; again {
		u.failed(w, v, fault)
		return
	}
	w.fail(fault, u.now)
	w.State = Failing
	u.later(w, v, u.c.opts.hurried(leastWait))
}
