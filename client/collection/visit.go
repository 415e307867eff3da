package collection

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// visit stores the result of a visit.
func (u *update) visit(v *Visit, out *Visited) (*work, error) {
	w, err := u.get(v.Page)
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
	asked := keepable(v.Asked)
	if asked.IsZero() || asked.After(u.now) {
		asked = u.now
	}
	if err := u.account(w, v); err != nil {
		return nil, err
	}
	w.visited = true
	if w.State == Gone && w.At.Equal(Never) && (asked.Before(w.claimed) || u.copied != nil) {
		out.Gone = true // the site said so after the request
		return w, nil
	}
	w.History = u.believed(w).History
	before := w.Page
	w.dirty, w.planned = true, false
	w.Status, w.Latency, w.Took = v.Status, v.Latency, v.Took
	out.Before, out.Stated, out.Asked = before.History, before.LastModified, before.Missed
	place := contents.Place{}
	if v.Status != 0 && (u.copied == nil || v.serves(w)) {
		if place, err = u.keep(v, &before); err != nil {
			return nil, err
		}
	}
	switch {
	case u.copied != nil && !v.serves(w):
		u.unserved(w, v)
	case v.Fault != "" && !v.Cut:
		u.failed(w, v, v.Fault)
	case before.stale(v):
		u.forgetSession(w, v)
	case v.Status == http.StatusOK, v.Status == http.StatusNonAuthoritativeInfo, v.Status == http.StatusPartialContent:
		if v.Soft404 && w.has() {
			u.failed(w, v, soft404)
			break
		} else if v.Soft404 {
			u.refused(w, v, soft404)
			break
		}
		if err := u.content(w, v, asked, place, out); err != nil {
			return nil, err
		}
	case v.Status == http.StatusNotModified && !w.Digest.IsZero():
		u.unchanged(w, v, asked, place, out)
	case v.Target != nil && v.Status >= 300 && v.Status <= 399:
		if err := u.moved(w, v); err != nil {
			return nil, err
		}
	case v.Status == http.StatusGone:
		err = u.gone(w, "410", out)
	case v.Status == http.StatusNotFound:
		err = u.notFound(w, asked, out)
	case v.Status >= 500, v.Status == 0, v.Status == http.StatusRequestTimeout, v.Status == http.StatusTooEarly, v.Status == http.StatusTooManyRequests:
		u.failed(w, v, answer(v.Status))
	default:
		u.refused(w, v, answer(v.Status))
	}
	if err != nil {
		return nil, err
	}
	if v.before(asked, &before) && (before.Told && w.State != Held || !before.Told && w.holdsOtherThanTold()) {
		// Announced after the request: the answer may be older than the change, so the page is fetched again.
		w.Told, w.Debt, w.Missed, w.At, w.planned = true, before.claim, 0, time.Time{}, true
		w.DebtText, w.DebtLength = before.DebtText, before.DebtLength
	}
	if err := u.report(w, &before); err != nil {
		return nil, err
	}
	u.plan(w)
	return w, nil
}

const soft404 = "soft 404"

func answer(status int) string {
	if s := http.StatusText(status); s != "" {
		return s
	}
	return fmt.Sprintf("status %d", status)
}

// account adds a visit to its site's counts of requests and bytes.
func (u *update) account(w *work, v *Visit) error {
	s, err := u.site(w.Site)
	if err != nil {
		return err
	}
	if !v.Delivered && !v.Shared {
		s.Requests++
	}
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

// answered clears all traces of failures.
func (w *work) answered() {
	w.Fails, w.Fault, w.Failed, w.missing, w.Why, w.Target = 0, "", time.Time{}, time.Time{}, "", ""
}

// content stores a page's new content.
func (u *update) content(w *work, v *Visit, asked time.Time, place contents.Place, out *Visited) error {
	had := w.has()
	out.Changed = !had || w.Digest != v.Digest && (w.Parsed != v.Parsed || v.Parsed.IsZero())
	changed := w.Visits > 0 && !w.Digest.IsZero() && w.Digest != v.Digest && (w.Parsed != v.Parsed || v.Parsed.IsZero())
	modified := keepable(v.Modified)
	if u.c.opts.TextOnly && changed && !v.Text.IsZero() && v.Text == w.Text {
		changed, modified = false, w.Modified // v.Modified dates the bytes, not the text
	}
	if out.Unstable = w.waver(v, asked, out); changed && out.Unstable != Stable {
		changed = w.differs(v, out.Unstable)
		modified = w.Modified // v.Modified dates the answer, not the page
	}
	out.Differs = changed
	w.History = w.History.Visit(asked, changed, modified)
	w.answered()
	w.State = Held
	w.Digest, w.Parsed, w.Text, w.Length, w.Stored = v.Digest, v.Parsed, v.Text, max(v.Length, int64(len(v.Body))), place
	w.Type, w.ETag, w.LastModified, w.Cut = v.Type, v.ETag, v.LastModified, v.Cut
	w.Title, w.Language, w.Canonical = clip(v.Title, maxTitle), v.Language, v.Canonical
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
	u.clearPendingFetch(w, v, asked, out)
	return u.follow(w, v, follows)
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
func (w *work) waver(v *Visit, asked time.Time, out *Visited) Unstable {
	switch {
	case w.Told && !w.claim.IsZero() && w.claim == v.Digest:
		w.Unstable = Stable
	case w.Told && w.Missed > 0 && !v.before(asked, &w.Page) && !w.Digest.IsZero() && w.Digest != v.Digest:
		out.Wavered, w.Unstable = true, UnstableText
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
func (w *work) differs(v *Visit, unstable Unstable) bool {
	if unstable == UnstableBody && !v.Text.IsZero() && !w.Text.IsZero() {
		return v.Text != w.Text
	}
	return w.Told && w.Missed == 0
}

// follow admits a page's links, unless another page has the same links.
func (u *update) follow(w *work, v *Visit, follows bool) error {
	var to []frontier.PageID
	if follows {
		to = u.idsFor(len(v.Links))
		for i := range v.Links {
			id, err := u.find(&v.Links[i])
			if err != nil {
				return err
			}
			if id != 0 {
				to = append(to, id)
			}
		}
	}
	u.links[w.ID] = to
	return nil
}

// unchanged stores a 304. If the stored body that it confirms is lost, the page is fetched again.
func (u *update) unchanged(w *work, v *Visit, asked time.Time, place contents.Place, out *Visited) {
	lost := u.c.Stores() && place.File == "" && w.Stored.File != ""
	w.History = w.History.Visit(asked, false, keepable(v.Modified))
	w.answered()
	w.State = Held
	if v.ETag != "" {
		w.ETag = v.ETag
	}
	if v.LastModified != "" {
		w.LastModified = v.LastModified
	}
	if u.clearPendingFetch(w, v, asked, out); lost {
		w.Stored, w.At, w.planned = contents.Place{}, keepable(u.now.Add(u.c.opts.hurried(leastWait))), true
	}
}

// clearPendingFetch settles the pending fetch of a page that was answered, if the answer has the announced digest, or
// never will have it: another body counts as a newer change, and the page is fetched again a few times,
// unless the body is cut or differs at each request.
func (u *update) clearPendingFetch(w *work, v *Visit, asked time.Time, out *Visited) {
	if !w.Told {
		return
	}
	if !w.claim.IsZero() {
		if v.Shared && u.copied != nil && !v.before(asked, &w.Page) {
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
		if v.before(asked, &w.Page) { // announced after the request
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
	} else if v.before(asked, &w.Page) {
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

// holdsOtherThanTold reports whether the last answer lacks the content announced last: there is none, or another one.
func (w *work) holdsOtherThanTold() bool {
	return !w.claim.IsZero() && (w.State != Held || w.Digest != w.claim)
}

// settle ends a pending fetch. Announcements that no visit has judged are withdrawn from the history; a
// visit that found content has judged them, and left none.
func (w *work) settle() {
	w.Told, w.Debt, w.Missed, w.DebtText, w.DebtLength = false, zeroDigest, 0, zeroDigest, 0
	w.History = w.History.WithoutNotices()
}

// moved stores a redirect. Its target becomes a page if a link to it would: otherwise a site that redirects
// each of its pages to a host of its own would fill the collection with unwanted sites.
func (u *update) moved(w *work, v *Visit) error {
	t := v.Target
	if ask := askable(w.URL, t.Ask); t.URL == w.URL && ask != "" {
		u.newSession(w, v, ask)
		return nil
	}
	fault := ""
	if t.Exclude == "" || strings.HasPrefix(t.Exclude, "robots.txt") {
		id, err := u.find(t)
		if err != nil {
			return err
		}
		if id == 0 {
			fault = "redirect to a URL that may not be stored"
		}
	} else {
		fault = clip("redirect to a URL that is not admitted: "+t.Exclude, maxField)
	}
	w.answered()
	w.leaveGone()
	w.State, w.Target, w.Fault = Moved, t.URL, fault
	w.settle()
	u.later(w, v, u.c.opts.Again.Moved)
	return nil
}

// failed stores that there was no answer, or a temporary error: stored content stays, and the page is
// retried (P01), soon at first, then seldom.
func (u *update) failed(w *work, v *Visit, fault string) {
	a := &u.c.opts.Again
	wait := a.Lost
	if w.Fails < len(a.Failing) {
		wait = a.Failing[w.Fails]
		if v.DNS { // an unknown name stays unknown for more than a minute, but may exist once a network is up again (P05)
			wait = max(wait, u.c.opts.hurried(time.Hour))
		}
	}
	w.fail(fault, u.now)
	w.leaveGone()
	w.State = Failing
	u.later(w, v, wait)
}

// leaveGone forgets the last content of a page that was gone, and now has another answer without content.
func (w *work) leaveGone() {
	if w.State == Gone {
		w.forget()
	}
}

func (w *work) fail(fault string, now time.Time) {
	if w.Fails == 0 {
		w.Failed = now
	}
	w.Fails++
	w.Fault = clip(fault, maxField)
}

// refused stores a lasting error.
func (u *update) refused(w *work, v *Visit, fault string) {
	w.fail(fault, u.now)
	w.leaveGone()
	w.State = Refused
	w.settle()
	u.later(w, v, u.c.opts.Again.Refused)
}

// longestAgain bounds the wait that a site may ask for.
const longestAgain = 30 * 24 * time.Hour

// later plans the next visit, no earlier than the site allows.
func (u *update) later(w *work, v *Visit, wait time.Duration) {
	w.At, w.planned = u.now.Add(wait), true
	if again := v.Again; again.After(w.At) {
		if most := u.now.Add(longestAgain); again.After(most) {
			again = most
		}
		w.At = again
	}
	w.At = keepable(w.At)
}

// notFound stores a 404. One proves nothing: it may be a deployment. A second one, hours later, does.
func (u *update) notFound(w *work, asked time.Time, out *Visited) error {
	a := &u.c.opts.Again
	if w.missing.IsZero() || asked.Before(w.missing) {
		w.missing = asked
	}
	if w.State == Gone || asked.Sub(w.missing) >= a.Missing {
		return u.gone(w, answer(http.StatusNotFound), out)
	}
	w.fail(answer(http.StatusNotFound), u.now)
	if w.State = Refused; w.has() {
		w.State = Failing
	}
	w.At, w.planned = keepable(w.missing.Add(a.Missing)), true
	return nil
}

// gone stores that a page does not exist any more. Its last content is kept for readers of its history.
func (u *update) gone(w *work, fault string, out *Visited) error {
	out.Gone = true
	w.answered()
	w.State, w.Fault = Gone, fault
	w.Original = 0
	w.settle()
	w.At, w.planned = keepable(u.now.Add(u.c.opts.Again.Gone)), true
	u.links[w.ID] = nil
	return nil
}

// report sends the event for a change of a page's content.
func (u *update) report(w *work, before *Page) error {
	n := news{page: &w.Page, prev: before.Digest, text: before.Text, signal: before.Signal, changed: u.now}
	if before.Visits > 0 && !before.Told {
		n.signal = ByAge
	}
	switch had, has := before.has(), w.has(); {
	case has && !had:
		n.op, n.prev, n.text = protocol.Create, zeroDigest, zeroDigest
	case has && before.Digest != w.Digest:
		n.op = protocol.Update
	case had && !has:
		n.op = protocol.Delete
	default:
		return u.restore(&w.Page)
	}
	return u.tell(n)
}
