package collection

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/protocol"
)

// A visiting is a visit while an update stores it.
type visiting struct {
	u     *update
	v     *Visit
	w     *work
	was   Page // before the visit
	asked time.Time
	place contents.Place // of the body
	out   *Visited
}

// visit stores the result of a visit.
func (u *update) visit(v *Visit, out *Visited) (*work, error) {
	w, err := u.pages.get(v.Page)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("unknown page")
	}
	if v.Exclude != "" {
		w.exclude(v.Exclude)
		u.plan(w)
		return w, nil
	}
	if !v.Want.IsZero() && v.Want == w.claim && w.claimed.Equal(u.now) {
		v.Claimed = w.claimed // it was requested because of a step of this transaction
	}
	x := &visiting{u: u, v: v, w: w, asked: keepable(v.Asked), out: out}
	if x.asked.IsZero() || x.asked.After(u.now) {
		x.asked = u.now
	}
	return w, x.store()
}

func (x *visiting) store() (err error) {
	u, v, w, out := x.u, x.v, x.w, x.out
	if err := x.account(); err != nil {
		return err
	}
	w.visited = true
	if w.State == Gone && w.At.Equal(Never) && (x.asked.Before(w.claimed) || u.copied != nil) {
		out.Gone = true // the site said so after the request
		return nil
	}
	w.History = u.believed(w).History
	x.was = w.Page
	w.dirty, w.planned = true, false
	w.Status, w.Latency, w.Took = v.Status, v.Latency, v.Took
	out.Before, out.Stated, out.Asked = x.was.History, x.was.LastModified, x.was.Missed
	out.First = x.was.Visits == 0 && x.was.State != Moved
	if v.Status != 0 && (u.copied == nil || x.serves()) {
		if x.place, err = x.keep(); err != nil {
			return err
		}
	}
	switch {
	case u.copied != nil && !x.serves():
		x.unserved()
	case v.Fault != "" && !v.Cut:
		x.failed(v.Fault)
	case x.was.stale(v):
		x.forgetSession()
	case v.Status == http.StatusOK, v.Status == http.StatusNonAuthoritativeInfo, v.Status == http.StatusPartialContent:
		switch {
		case v.Soft404 && w.has():
			x.failed(soft404)
		case v.Soft404:
			x.refused(soft404)
		default:
			err = x.content()
		}
	case v.Status == http.StatusNotModified && !w.Digest.IsZero():
		x.unchanged()
	case v.Target != nil && v.Status >= 300 && v.Status <= 399:
		err = x.moved()
	case v.Status == http.StatusGone:
		x.gone("410")
	case v.Status == http.StatusNotFound:
		x.notFound()
	case v.Status >= 500, v.Status == 0, v.Status == http.StatusRequestTimeout, v.Status == http.StatusTooEarly, v.Status == http.StatusTooManyRequests:
		x.failed(answer(v.Status))
	default:
		x.refused(answer(v.Status))
	}
	if err != nil {
		return err
	}
	if was := &x.was; v.before(x.asked, was) && (was.Told && w.State != Held || !was.Told && w.holdsOtherThanTold()) {
		// Announced after the request: the answer may be older than the change, so the page is fetched again.
		w.Told, w.Debt, w.Missed, w.At, w.planned = true, was.claim, 0, time.Time{}, true
		w.DebtText, w.DebtLength = was.DebtText, was.DebtLength
	}
	if err := x.report(); err != nil {
		return err
	}
	u.plan(w)
	return nil
}

const soft404 = "soft 404"

func answer(status int) string {
	if s := http.StatusText(status); s != "" {
		return s
	}
	return fmt.Sprintf("status %d", status)
}

// account adds a visit to its site's counts of requests and bytes.
func (x *visiting) account() error {
	u, v := x.u, x.v
	s, err := u.sites.get(x.w.Site)
	if err != nil {
		return err
	}
	if !v.Delivered && !v.Shared {
		s.Requests++
		if v.Fault == "" {
			s.Speed.Learn(v.Connect.Seconds(), (v.Took - v.Connect).Seconds(), v.PerConnection)
		}
	}
	s.Withheld = s.Withheld || v.Authorized
	s.Bytes += int64(len(v.Body))
	if v.File != nil {
		s.Bytes += v.Length
	}
	const often = time.Hour // no need to write the record more often
	if v.IP.IsValid() && (v.IP != s.IP || u.now.Sub(s.Resolved) > often) {
		s.IP, s.Resolved = v.IP, u.now
	}
	return nil
}

// trifle is the share of the main text below which a change does not count when visits are planned.
const trifle = .01

// content stores a page's new content.
func (x *visiting) content() error {
	u, v, w, out := x.u, x.v, x.w, x.out
	had := w.has()
	out.Changed = !had || w.Digest != v.Digest && (w.Parsed != v.Parsed || v.Parsed.IsZero())
	changed := w.Visits > 0 && !w.Digest.IsZero() && w.Digest != v.Digest && (w.Parsed != v.Parsed || v.Parsed.IsZero())
	modified := keepable(v.Modified)
	if share, known := maintext.Share([]byte(w.Sketch), []byte(v.Sketch)); changed && known && share < trifle {
		changed, modified, out.Trifling = false, w.Modified, true // v.Modified dates the bytes, not the text
	}
	if out.Unstable = x.waver(); changed && out.Unstable != Stable {
		changed = x.differs()
		modified = w.Modified // v.Modified dates the answer, not the page
	}
	out.Differs = changed
	w.History = u.c.index.dates.Visit(uint32(w.Site), w.History, x.asked, changed, modified)
	w.Heard.Expires = keepable(v.Expires)
	w.answered()
	w.State = Held
	w.Digest, w.Parsed, w.Text, w.Sketch, w.Length, w.Stored = v.Digest, v.Parsed, v.Text, v.Sketch, max(v.Length, int64(len(v.Body))), x.place
	w.Type, w.ETag, w.LastModified, w.Cut = v.Type, v.ETag, v.LastModified, v.Cut
	w.Title, w.Language, w.Canonical = record.Clip(v.Title, maxTitle), v.Language, v.Canonical
	w.NoIndex, w.NoFollow = v.NoIndex, v.NoFollow
	w.Original = 0
	follows := true
	if !v.Parsed.IsZero() {
		original, err := u.original(v.Parsed, w.ID)
		if err != nil {
			return err
		}
		if original != nil {
			w.Original = original.ID
			// Only on the same site: equal pages of two sites, such as the front page of a fresh
			// installation, link to different pages.
			out.Duplicate = original.Site == w.Site
			follows = !out.Duplicate || leadsElsewhere(w.URL, original.URL)
		}
	}
	x.clearPendingFetch()
	if !follows {
		u.links.Set(w.ID, nil, nil)
		return nil
	}
	return x.follow()
}

// leadsElsewhere reports whether a duplicate of another page links to other pages: its relative links start
// in another directory. That directory must have the same depth: a site that gives the same answer at ever
// greater depth is a trap, but links between directories of one depth come to an end.
func leadsElsewhere(url, original string) bool {
	dir := func(u string) string {
		u, _, _ = strings.Cut(u, "?")
		return u[:strings.LastIndexByte(u, '/')+1]
	}
	own, other := dir(url), dir(original)
	return own != other && strings.Count(own, "/") == strings.Count(other, "/")
}

// waver finds out whether a page differs at each request: an answer had another digest than announced, the
// retry gave a third body, and nobody has changed the page meanwhile. It returns what is now known of the
// page, or of its site.
func (x *visiting) waver() Unstable {
	v, w := x.v, x.w
	switch {
	case w.Told && !w.claim.IsZero() && w.claim == v.Digest:
		w.Unstable = Stable
	case w.Told && w.Missed > 0 && !v.before(x.asked, &w.Page) && !w.Digest.IsZero() && w.Digest != v.Digest:
		x.out.Wavered, w.Unstable = true, UnstableText
		if !v.Text.IsZero() && v.Text == w.Text {
			w.Unstable = UnstableBody
		}
	default:
		return max(w.Unstable, v.Unstable)
	}
	return w.Unstable
}

// differs reports whether an unstable page has changed, as far as can be seen: by its main text, or, if that
// is unstable too, or not known, by the announcement.
func (x *visiting) differs() bool {
	v, w := x.v, x.w
	if x.out.Unstable == UnstableBody && !v.Text.IsZero() && !w.Text.IsZero() {
		return v.Text != w.Text
	}
	return w.Told && w.Missed == 0
}

// follow admits a page's links.
func (x *visiting) follow() error {
	u, list := x.u, x.v.Links
	to := u.links.List(len(list))
	for i := range list {
		id, err := u.find(&list[i])
		if err != nil {
			return err
		}
		if id != 0 {
			to = append(to, id)
		}
	}
	u.links.Set(x.w.ID, to, x.v.References)
	return nil
}

// unchanged stores a 304. If the stored body that it confirms is lost, the page is fetched again.
func (x *visiting) unchanged() {
	u, v, w := x.u, x.v, x.w
	lost := !u.c.sinks.store.None && x.place.File == "" && w.Stored.File != ""
	w.History = w.History.Visit(x.asked, false, keepable(v.Modified))
	w.Heard.Expires = keepable(v.Expires)
	w.answered()
	w.State = Held
	if v.ETag != "" {
		w.ETag = v.ETag
	}
	if v.LastModified != "" {
		w.LastModified = v.LastModified
	}
	if x.clearPendingFetch(); lost {
		w.Stored, w.At, w.planned = contents.Place{}, keepable(u.now.Add(u.c.opts.hurried(leastWait))), true
	}
}

// clearPendingFetch settles the pending fetch of a page that was answered, if the answer has the announced digest, or
// never will have it: another body counts as a newer change, and the page is fetched again a few times,
// unless the body is cut or differs at each request.
func (x *visiting) clearPendingFetch() {
	u, v, w, out := x.u, x.v, x.w, x.out
	if !w.Told {
		return
	}
	if !w.claim.IsZero() {
		if v.Shared && u.copied != nil && !v.before(x.asked, &w.Page) {
			w.claim = w.Digest // in a batch the site sends each page as it is now, whatever it announced
		}
		if w.claim == w.Digest {
			w.proved = true
			if out.Matched = true; u.copied != nil {
				u.copied.matched()
			}
			w.settle()
			return
		}
		if v.before(x.asked, &w.Page) { // announced after the request
			return
		}
		out.Mismatched = true
		if u.copied != nil {
			var believe bool
			if believe, out.Demoted = u.copied.missed(w.Missed == 0); believe {
				w.settle()
				return
			}
		}
		if v.Cut || v.Unstable != Stable { // the next answer would match no better
			w.settle()
			return
		}
		most := len(u.c.opts.Again.Missed)
		if w.Unstable != Stable {
			most = min(most, 1) // this answer may have been half-written, and the page stable by now
		}
		if w.Missed < most {
			w.At, w.planned = keepable(u.now.Add(u.c.opts.Again.Missed[w.Missed])), true
			w.Missed++
			return
		}
	} else if v.before(x.asked, &w.Page) {
		return
	}
	w.settle()
}

// before reports whether a page was requested before the last claim about it was made.
func (v *Visit) before(asked time.Time, p *Page) bool {
	if v.Claimed.IsZero() {
		return asked.Before(p.claimed)
	}
	// Two claims within a millisecond differ in their digests. A page without a pending fetch was requested
	// without one.
	return !v.Claimed.Equal(p.claimed) || v.Want != p.claim && (p.Told || !v.Want.IsZero())
}

// moved stores a redirect. Its target becomes a page if a link to it would: otherwise a site that redirects
// each of its pages to a host of its own would fill the collection with unwanted sites.
func (x *visiting) moved() error {
	u, w, t := x.u, x.w, x.v.Target
	if ask := askable(w.URL, t.Ask); t.URL == w.URL && ask != "" {
		x.newSession(ask)
		return nil
	}
	fault := ""
	if t.Partition > 0 {
		u.keepFor(t)
		u.links.Set(w.ID, nil, nil)
	} else if t.Exclude == "" || strings.HasPrefix(t.Exclude, "robots.txt") {
		id, err := u.find(t)
		if err != nil {
			return err
		}
		if id == 0 {
			fault = "redirect to a URL that may not be stored"
		}
		u.links.Set(w.ID, append(u.links.List(1), id)[:min(1, id)], nil)
	} else {
		fault = record.Clip("redirect to a URL that is not admitted: "+t.Exclude, maxField)
	}
	w.answered()
	w.leaveGone()
	w.State, w.Target, w.Fault = Moved, t.URL, fault
	w.settle()
	x.later(u.c.opts.Again.Moved)
	return nil
}

// failed stores that there was no answer, or a temporary error: stored content stays, and the page is
// retried (P01), soon at first, then seldom.
func (x *visiting) failed(fault string) {
	w, o := x.w, &x.u.c.opts
	a := &o.Again
	wait := a.Lost
	if w.Fails < len(a.Failing) {
		wait = a.Failing[w.Fails]
		if x.v.DNS { // an unknown name stays unknown for more than a minute, but may exist once a network is up again (P05)
			wait = max(wait, o.hurried(time.Hour))
		}
	}
	w.fail(fault, x.u.now)
	w.leaveGone()
	w.State = Failing
	x.later(wait)
}

// refused stores a lasting error.
func (x *visiting) refused(fault string) {
	w := x.w
	w.fail(fault, x.u.now)
	w.leaveGone()
	w.State = Refused
	w.settle()
	x.later(x.u.c.opts.Again.Refused)
}

// longestAgain bounds the wait that a site may ask for.
const longestAgain = 30 * 24 * time.Hour

// later plans the next visit, no earlier than the site allows.
func (x *visiting) later(wait time.Duration) {
	w, now := x.w, x.u.now
	w.At, w.planned = now.Add(wait), true
	if again := x.v.Again; again.After(w.At) {
		if most := now.Add(longestAgain); again.After(most) {
			again = most
		}
		w.At = again
	}
	w.At = keepable(w.At)
}

// notFound stores a 404. One proves nothing: it may be a deployment. A second one, hours later, does.
func (x *visiting) notFound() {
	w, a := x.w, &x.u.c.opts.Again
	if w.missing.IsZero() || x.asked.Before(w.missing) {
		w.missing = x.asked
	}
	if w.State == Gone || x.asked.Sub(w.missing) >= a.Missing {
		x.gone(answer(http.StatusNotFound))
		return
	}
	w.fail(answer(http.StatusNotFound), x.u.now)
	if w.State = Refused; w.has() {
		w.State = Failing
	}
	w.At, w.planned = keepable(w.missing.Add(a.Missing)), true
}

// gone stores that a page does not exist any more. Its last content is kept for readers of its history.
func (x *visiting) gone(fault string) {
	u, w := x.u, x.w
	x.out.Gone = true
	w.answered()
	w.State, w.Fault = Gone, fault
	w.Original = 0
	w.settle()
	w.At, w.planned = keepable(u.now.Add(u.c.opts.Again.Gone)), true
	u.links.Set(w.ID, nil, nil)
}

// report sends the event for a change of a page's content.
func (x *visiting) report() error {
	u, w, was := x.u, x.w, &x.was
	n := news{page: &w.Page, prev: was.Digest, text: was.Text, signal: was.Signal, changed: u.now}
	if was.Visits > 0 && !was.Told {
		n.signal = byAge
	}
	switch had, has := was.has(), w.has(); {
	case has && !had:
		n.op, n.prev, n.text = protocol.Create, zeroDigest, zeroDigest
	case has && was.Digest != w.Digest:
		n.op = protocol.Update
	case had && !has:
		n.op = protocol.Delete
	default:
		return u.restore(&w.Page)
	}
	return u.tell(n)
}
