package collection

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// visit takes in what asking for a page came to.
func (u *update) visit(v *Visit, out *Visited) (*work, error) {
	w, err := u.get(v.Page)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("not known")
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
		out.Gone = true // the site has said so since we asked
		return w, nil
	}
	w.History = u.believed(w).History
	before := w.Page
	w.dirty, w.planned = true, false
	w.Status, w.Latency, w.Took = v.Status, v.Latency, v.Took
	out.Before, out.Stated, out.Asked = before.History, before.LastModified, before.Missed
	place := Place{}
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
		// Told after we had asked: whatever came is of before, and is asked for again.
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

// account counts a request of a site.
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
	const often = time.Hour // the record need not be written for less
	if v.IP.IsValid() && (v.IP != s.IP || u.now.Sub(s.Resolved) > often) {
		s.IP, s.Resolved = v.IP, u.now
	}
	return nil
}

// answered forgets that there were failures.
func (w *work) answered() {
	w.Fails, w.Fault, w.Failed, w.missing, w.Why, w.Target = 0, "", time.Time{}, time.Time{}, "", ""
}

// content takes in a page.
func (u *update) content(w *work, v *Visit, asked time.Time, place Place, out *Visited) error {
	had := w.has()
	out.Changed = !had || w.Digest != v.Digest && (w.Parsed != v.Parsed || v.Parsed.IsZero())
	changed := w.Visits > 0 && !w.Digest.IsZero() && w.Digest != v.Digest && (w.Parsed != v.Parsed || v.Parsed.IsZero())
	modified := keepable(v.Modified)
	if u.c.opts.TextOnly && changed && !v.Text.IsZero() && v.Text == w.Text {
		changed, modified = false, w.Modified // of the bytes, which say nothing about the text
	}
	if out.Unstable = w.waver(v, asked, out); changed && out.Unstable != Stable {
		changed = w.differs(v, out.Unstable)
		modified = w.Modified // of the answer
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
			// Of the same site: what is alike on two of them, such as the front page of
			// a fresh installation, leads to pages of its own on each.
			out.Duplicate = original.Site == w.Site
			follows = !out.Duplicate || leadsElsewhere(w.URL, original.URL)
		}
	}
	u.pay(w, v, asked, out)
	return u.follow(w, v, follows)
}

// leadsElsewhere reports whether a page that is like another one leads to pages of its own: its
// relative links begin in another directory. It is to be one of the same depth: what answers the same below
// itself for ever is a trap, and links between directories of one depth come to an end.
func leadsElsewhere(url, original string) bool {
	dir := func(u string) string {
		u, _, _ = strings.Cut(u, "?")
		return u[:strings.LastIndexByte(u, '/')+1]
	}
	own, other := dir(url), dir(original)
	return own != other && strings.Count(own, "/") == strings.Count(other, "/")
}

// waver finds out whether a page differs at each request: where an answer is not what was told, the page is
// asked for again, and nobody has changed it meanwhile. It returns what is known of the page by now, or of its site.
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

// differs reports whether an unstable page has changed, as far as that can be seen: by its main text, and where
// that is unstable too, or not known, by what was told.
func (w *work) differs(v *Visit, unstable Unstable) bool {
	if unstable == UnstableBody && !v.Text.IsZero() && !w.Text.IsZero() {
		return v.Text != w.Text
	}
	return w.Told && w.Missed == 0
}

// follow admits what a page leads to, unless that is what another page leads to, too.
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

// unchanged takes in a 304. Where the body cannot be read that it speaks of, that
// is to be asked for.
func (u *update) unchanged(w *work, v *Visit, asked time.Time, place Place, out *Visited) {
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
	if u.pay(w, v, asked, out); lost {
		w.Stored, w.At, w.planned = Place{}, keepable(u.now.Add(u.c.opts.hurried(leastWait))), true
	}
}

// pay strikes out the debt of a page that was answered, if the answer is what
// was told, or will not become that: a body that is not counts as a newer
// change, and is asked for again a few times, unless it is cut or another one each time.
func (u *update) pay(w *work, v *Visit, asked time.Time, out *Visited) {
	if !w.Told {
		return
	}
	if !w.claim.IsZero() {
		if v.Shared && u.copied != nil && !v.before(asked, &w.Page) {
			w.claim = w.Digest // with each page of a batch the site says what it is by now
		}
		if w.claim == w.Digest {
			w.proved = true
			if out.Matched = true; u.copied != nil {
				u.copied.matched()
			}
			w.settle()
			return
		}
		if v.before(asked, &w.Page) { // told after we had asked
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
		if v.Cut || v.Unstable != Stable { // the next answer would be no nearer to what was told
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

// before reports whether a page was asked for before the last claim was made about it.
func (v *Visit) before(asked time.Time, p *Page) bool {
	if v.Claimed.IsZero() {
		return asked.Before(p.claimed)
	}
	// Of two claims within a millisecond the digests differ. A page that owed nothing was asked for without one.
	return !v.Claimed.Equal(p.claimed) || v.Want != p.claim && (p.Told || !v.Want.IsZero())
}

// holdsOtherThanTold reports whether the last answer is not the content that was told last: there is none,
// or another one.
func (w *work) holdsOtherThanTold() bool {
	return !w.claim.IsZero() && (w.State != Held || w.Digest != w.claim)
}

// settle says that nothing is owed. What was said of the page and no visit has judged is taken
// back: a visit that found its content has, so that then nothing is left of it.
func (w *work) settle() {
	w.Told, w.Debt, w.Missed, w.DebtText, w.DebtLength = false, zeroDigest, 0, zeroDigest, 0
	w.History = w.History.Unsaid()
}

// moved takes in a redirect. Where it leads becomes a page if it is one that a
// link would make: else whoever redirects to a host each for its pages would fill
// the collection with sites that are not wanted.
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
			fault = "redirect to what may not be known"
		}
	} else {
		fault = clip("redirect to what is not admitted: "+t.Exclude, maxField)
	}
	w.answered()
	w.leaveGone()
	w.State, w.Target, w.Fault = Moved, t.URL, fault
	w.settle()
	u.later(w, v, u.c.opts.Again.Moved)
	return nil
}

// failed takes in that there was no answer, or one that will pass: what is
// held stays held, and the page is asked for again (P01), first soon, then
// seldom.
func (u *update) failed(w *work, v *Visit, fault string) {
	a := &u.c.opts.Again
	wait := a.Lost
	if w.Fails < len(a.Failing) {
		wait = a.Failing[w.Fails]
		if v.DNS { // a name that is not there now is not there in a minute, but may be when a network is up again (P05)
			wait = max(wait, u.c.opts.hurried(time.Hour))
		}
	}
	w.fail(fault, u.now)
	w.leaveGone()
	w.State = Failing
	u.later(w, v, wait)
}

// leaveGone drops what was held of a page that was gone, and that has another answer now, but no content.
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

// refused takes in an answer that will not pass soon.
func (u *update) refused(w *work, v *Visit, fault string) {
	w.fail(fault, u.now)
	w.leaveGone()
	w.State = Refused
	w.settle()
	u.later(w, v, u.c.opts.Again.Refused)
}

// longestAgain bounds what a site may ask for.
const longestAgain = 30 * 24 * time.Hour

// later plans the next visit, no sooner than the site wants.
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

// notFound takes in a 404. One proves nothing: it may be a deployment. A
// second one, hours later, does.
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

// gone takes in that a page does not exist any more. What was held is kept,
// for whoever asks for the past.
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

// report tells what became of a page's content.
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
		again, err := u.c.restore(u.tx, &w.Page)
		if again {
			u.news++
		}
		return err
	}
	return u.tell(n)
}

func (u *update) tell(n news) error {
	u.news++
	return u.c.tell(u.tx, n)
}
