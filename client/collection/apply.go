package collection

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// ApplyOptions are callbacks and settings of Apply. The callbacks run in its transaction: they must not use
// the collection.
type ApplyOptions struct {
	// Admit decides about URLs that are not known, or were excluded: exclusion wins over every hint (V19).
	// If it returns a Find without a URL, the change is skipped. Nil admits everything.
	Admit func(url string) Find

	// Take decides about a page that was visited before and that the sender's claim would make due: false
	// means that the sender is not believed, and the claim has no effect. Nil believes every sender.
	Take func(p *Page, item *protocol.Item) bool

	// Unsure: an unmoved date of a page does not prove that the page equals the stored content.
	Unsure bool

	// Listed, if not nil, is called for each listed page with stored content, as it was before this step.
	Listed func(p *Page, item *protocol.Item)

	// Under is the digest of the rules by which the manifest's URLs are admitted (Collection.Under). It is
	// stored with the manifest's validators, since pages that other rules would admit were not stored.
	Under protocol.Digest

	// Read is when the manifest was last read before this: its news may be as old as that.
	Read time.Time

	// Former is the base URL from which the site of the manifest has moved: its scheme, host and port have changed, its paths have
	// not. Content that is stored of a page there, and has the digest of the item at the same path here, moves here without a
	// request. Empty: the site has not moved, or nothing confirms it.
	Former string
}

// Apply stores the effect of a step from a source, and, in the transaction with the last of that effect, the
// step's cursor. The effect is pending fetches: pages to fetch, with the digest that the source names. A
// claim that names the stored digest causes no fetch; changes whose number was applied before are skipped;
// so are URLs of another origin than the source's. Source 0 stands for senders without cursor and site, such
// as a receiver of notices: for them the caller checks to whom the URLs belong.
//
// At the end of a whole snapshot, pages are dropped that this source named before and does not name any
// more, and no other source of the site names. If those are most of what it named, the deletion is held back
// until a whole snapshot a day later says the same, or Release is called.
//
// A step by which a copy would become too large is not stored: then Apply returns a *QuotaError, and drops
// the pages that only the unfinished snapshot names, as the Applied says.
func (c *Collection) Apply(source uint64, step client.Step, by Signal, o ApplyOptions) (Applied, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.cache.Reset(len(step.Changes))
	defer c.index.cache.Reset(0)
	a := Applied{Foreign: step.Skipped, under: o.Under}
	if step.Reset && source != 0 {
		c.naming[source] = &snapshot{}
	}
	s := &applying{o: o, by: by, a: &a, step: &step}
	err := c.update(func(u *update) error {
		s.u = u
		return s.apply(source)
	})
	if err == nil {
		u := s.u
		a.New, a.Queue, a.Dropped = u.pages.made(), u.batch.Ready, u.batch.Dropped
		a.Refused += u.out.Refused
	}
	e := &ending{c: c, source: source, step: &step, a: &a}
	if err == nil && step.Whole && source != 0 {
		err = e.end()
	}
	var quota *QuotaError
	if errors.As(err, &quota) {
		a = Applied{}
		e.step = &client.Step{}
		if drop := e.dropUnfinished(); drop != nil {
			return Applied{}, fmt.Errorf("apply step of source %d: %w: %w", source, err, drop)
		}
		delete(c.naming, source)
		return a, quota
	}
	if step.Whole || !step.Cursor.IsZero() || err != nil {
		delete(c.naming, source)
	}
	if err != nil {
		return Applied{}, fmt.Errorf("apply step of source %d: %w", source, err)
	}
	return a, nil
}

// An applying is a step while Apply stores it.
type applying struct {
	u      *update
	o      ApplyOptions
	by     Signal
	a      *Applied
	step   *client.Step
	source *Source   // nil for source 0
	prefix string    // of its site's URLs
	names  *snapshot // pages named so far by the snapshot that is arriving, nil if none is
	grown  int       // pages by which a copy grows
	used   int64     // bytes of the state in use, 0: not known
}

// listing reports whether the step lists the pages that exist, known or not, rather than changes.
func (s *applying) listing() bool {
	return s.step.Door == client.Manifest || s.step.Reset || s.step.Whole || s.step.Door == "" && s.by.code() < ByIndexNow.code()
}

func (s *applying) apply(source uint64) error {
	u := s.u
	if source != 0 {
		var err error
		if s.source, err = u.sources.get(source); err != nil {
			return err
		}
		site, err := u.sites.get(s.source.Site)
		if err != nil {
			return err
		}
		s.prefix = site.Origin + "/"
		s.names = u.c.naming[source]
	}
	s.a.Reception.Received = len(s.step.Changes) + s.step.Skipped
	for i := range s.step.Changes {
		owed, left := s.a.Pending, s.left()
		if err := s.change(&s.step.Changes[i]); err != nil {
			return err
		}
		switch {
		case s.a.Pending > owed:
			s.a.Reception.Enqueued++
		case s.left() > left:
			s.a.Reception.Ignored++
		default:
			s.a.Reception.Processed++
		}
	}
	s.a.Reception.Ignored += s.step.Skipped
	if s.source == nil || s.step.Whole {
		return nil
	}
	return u.stand(s.source, s.step, s.a)
}

// left returns the number of changes skipped so far.
func (s *applying) left() int { return s.a.Ignored + s.a.Refused + s.a.Foreign + s.u.out.Refused }

func (s *applying) change(ch *protocol.Change) error {
	if src := s.source; src != nil && !s.listing() && ch.Seq != 0 && ch.Seq <= src.Cursor.Seq && s.step.Cursor.Epoch == src.Cursor.Epoch {
		s.a.Known++
		return nil
	}
	url := ch.Item.URL
	if !s.own(url) {
		s.a.Foreign++
		return nil
	}
	switch ch.Op {
	case protocol.Delete:
		w, err := s.u.pages.lookFor(url)
		if err != nil {
			return err
		}
		if w == nil || w.State == Gone {
			s.a.Known++
			return nil
		}
		s.a.Gone++
		return s.drop(w)
	case protocol.Move:
		if s.own(ch.From) && ch.From != url {
			return s.move(ch)
		}
	}
	w, isNew, err := s.admitted(url)
	if err != nil || w == nil {
		return err
	}
	from, err := s.former(w, &ch.Item)
	if from != nil {
		isNew = false
		s.a.Moved++
		err = s.carry(from, w)
	}
	if err != nil {
		return err
	}
	return s.offer(w, isNew, &ch.Item)
}

// own reports whether a URL is of the source's origin, and valid for the collection.
func (s *applying) own(url string) bool {
	_, _, ok := split(url)
	return ok && strings.HasPrefix(url, s.prefix)
}

// admitted returns the page of a URL that a source lists, creating it if needed; nil if it is not to be fetched.
func (s *applying) admitted(url string) (w *work, isNew bool, err error) {
	u := s.u
	w, err = u.pages.lookFor(url)
	if err == nil && (w == nil || w.State == Gone) {
		err = s.room(w == nil)
	}
	if err != nil || w != nil && w.State != Excluded {
		return w, false, err
	}
	if w != nil { // an excluded page, too, is dropped only by a snapshot without it
		if err := s.name(w); err != nil {
			return nil, false, err
		}
	}
	f := Find{URL: url, Depth: protocol.Depth(url)}
	if s.o.Admit != nil {
		f = s.o.Admit(url)
	}
	f.By = s.by
	if f.URL == "" || !s.own(f.URL) {
		s.a.Refused++
		return nil, false, nil
	}
	if w != nil && f.URL == url {
		if f.Exclude != "" || f.LogOnly {
			s.a.Refused++
			return nil, false, nil
		}
		w.readmit()
		u.plan(w)
		return w, false, nil
	}
	before := len(u.pages.added)
	id, err := u.find(&f)
	if err != nil || id == 0 {
		return nil, false, err // create has counted it
	}
	if w, err = u.pages.get(id); err != nil {
		return nil, false, err
	}
	if w.State == Excluded {
		s.a.Refused++
		if u.copied != nil {
			err = s.name(w)
		}
		return nil, false, err
	}
	return w, len(u.pages.added) > before, nil
}

// A source's confirmation of a stored page is written only after a quarter of the time since the last visit:
// writing it at every poll would rewrite all pages.
const confirmShare = 4

// offer stores that the site has an item now.
func (s *applying) offer(w *work, isNew bool, item *protocol.Item) error {
	if err := s.name(w); err != nil {
		return err
	}
	if item.Importance != 0 {
		if i := share(item.Importance); i != w.Importance {
			w.Importance, w.dirty = i, true
			s.u.place(w)
		}
	}
	if s.o.Listed != nil && s.listing() && !isNew && w.has() {
		s.o.Listed(&w.Page, item)
	}
	told := w.Told && !isNew
	switch s.judge(w, isNew, item) {
	case nothing:
		s.a.Known++
	case confirmed:
		s.a.Known++
		s.confirmed(w, item)
	case owed:
		if s.o.Take != nil && !isNew && w.Visits > 0 && !s.o.Take(&w.Page, item) {
			s.a.Ignored++
			return nil
		}
		if !told || item.Digest != w.claim {
			s.a.Pending++
		} else {
			s.a.Known++
		}
		s.addPendingFetch(w, item)
		if s.names != nil && s.u.copied != nil {
			s.names.owe(item.Digest, w.ID)
		}
	}
	return nil
}

// confirmed stores that a page still equals the stored content. A sender that has claimed otherwise since was wrong.
func (s *applying) confirmed(w *work, item *protocol.Item) {
	u := s.u
	replan := false
	if item.Digest == w.Digest && (w.Told || w.claim != item.Digest) {
		u.said(w, item)
		w.settle()
		w.planned, replan, w.proved = false, true, true
	}
	since := u.now.Sub(clock.Later(w.Heard.Confirmed, w.Last))
	if !s.heeded(w) && since >= max(leastWait, u.now.Sub(w.Last)/confirmShare) && !w.Told {
		w.Heard.Notified = false
		w.History = w.History.Confirm(u.now)
		replan = true
	}
	if replan {
		u.plan(w)
	}
}

// heeded reports whether the step is the site's manifest, and known to show changes: then an unchanged entry is evidence.
func (s *applying) heeded(w *work) bool {
	b := s.u.sites.at(w.Site).Belief
	return s.by == ByManifest && w.Listed && b != nil && b.Manifest.Recall > 0
}

// A judgement is the effect of an offer on a page.
type judgement int

const (
	nothing   judgement = iota
	confirmed           // it equals the stored content
	owed                // it is to be fetched
)

func (s *applying) judge(w *work, isNew bool, item *protocol.Item) judgement {
	u := s.u
	if isNew {
		return owed
	}
	if u.copied != nil {
		return s.judgeCopy(w, item)
	}
	modified, sane := protocol.SaneModified(item.Modified, u.now, u.c.opts.Dates)
	if !item.Digest.IsZero() {
		switch {
		case w.has() && w.Digest == item.Digest:
			return confirmed
		case w.claim == item.Digest && (w.Told || s.listing()):
			return nothing // the same claim again: the plan, or the decision to give up, stands
		}
		return owed
	}
	if w.State == Gone || w.Visits == 0 {
		again := !w.claimed.IsZero() && keepable(item.Modified).Equal(w.said) && s.listing()
		if w.Told && s.listing() || again && !(w.State == Gone && w.At.Equal(Never)) {
			return nothing
		}
		return owed
	}
	// A claim that was made before, and checked by a visit after it.
	same := sane && keepable(item.Modified).Equal(w.said) && w.Last.After(w.claimed)
	switch {
	case same && !modified.Add(item.Span).After(w.Last):
		return nothing
	case same: // the named day is not over: visit once more when it is
		u.sooner(w, modified.Add(item.Span))
		return nothing
	case sane && modified.After(w.Last):
		return owed
	case !s.listing():
		return owed // its clock may differ from ours
	case sane && modified.Add(item.Span).After(w.Last):
		u.said(w, item)
		u.sooner(w, modified.Add(item.Span))
		return nothing
	case sane && !s.o.Unsure:
		return confirmed
	}
	return nothing
}

// addPendingFetch makes the announced content of a page a pending fetch.
func (s *applying) addPendingFetch(w *work, item *protocol.Item) {
	u := s.u
	if w.Visits > 0 && (!w.Told || item.Digest != w.claim) {
		if s.heeded(w) {
			site := *u.sites.at(w.Site).Belief
			site.Manifest.Read = s.o.Read
			b := fresh.Page{History: w.History, Site: &site, Listed: true, Directory: fresh.Directory(w.URL)}
			b.Listen()
			w.History = b.History
		}
		precision, recall := s.worth(w)
		m, ok := protocol.SaneModified(item.Modified, u.now, u.c.opts.Dates)
		if !ok {
			m = time.Time{}
		}
		w.History = w.History.Notice(u.now, m, precision, recall)
	}
	u.said(w, item)
	if !w.Told || s.by.code() > w.Signal.code() {
		w.Signal = s.by
	}
	w.Told, w.Debt, w.Missed, w.planned = true, item.Digest, 0, false
	w.DebtText, w.DebtLength = item.Text, max(0, item.Length)
	if m, ok := protocol.SaneModified(item.Modified, u.now, u.c.opts.Dates); ok && m.After(w.Modified) {
		w.Modified = keepable(m)
	}
	if w.State == Gone {
		w.leaveGone()
		w.State = Known
	}
	u.plan(w)
}

// worth returns the precision and recall of the site's announcements of a page.
func (s *applying) worth(w *work) (precision, recall float64) {
	var signal fresh.Signal
	if b := s.u.sites.at(w.Site).Belief; b != nil {
		signal = b.Signal
	}
	if !s.listing() && s.by != ByIndexNow {
		recall = signal.Recall()
	}
	b := fresh.Page{History: w.History, Site: s.u.sites.at(w.Site).Belief}
	post := b.Posterior()
	return signal.PrecisionOf(&post), recall
}

// drop stores that the site says a page is gone.
func (s *applying) drop(w *work) error {
	u := s.u
	if u.copied != nil && s.source != nil { // it may come back in a snapshot that will not be whole
		if err := u.unname(s.source.ID, []frontier.PageID{w.ID}); err != nil {
			return err
		}
	}
	return u.dropped1(w, "")
}

func (u *update) dropped1(w *work, to string) error {
	if w.has() && to == "" {
		if err := u.tell(news{op: protocol.Delete, page: &w.Page, prev: w.Digest, text: w.Text, signal: w.Signal, changed: u.now}); err != nil {
			return err
		}
	}
	w.answered()
	w.State, w.Target, w.Original = Gone, to, 0
	w.settle()
	w.claim, w.claimed, w.said, w.span = zeroDigest, u.now, time.Time{}, 0
	w.At, w.planned = Never, true
	u.plan(w)
	u.links.Set(w.ID, nil, nil)
	return nil
}

// move stores that the bytes of ch.From are now at ch.Item.URL. Stored content moves there without a request.
func (s *applying) move(ch *protocol.Change) error {
	u := s.u
	from, err := u.pages.lookFor(ch.From)
	if err != nil {
		return err
	}
	to, isNew, err := s.admitted(ch.Item.URL)
	if err != nil {
		return err
	}
	if from == nil || from.State == Gone {
		if to == nil {
			return nil
		}
		return s.offer(to, isNew, &ch.Item)
	}
	item := ch.Item
	if item.Digest.IsZero() && from.has() && !from.Told {
		item.Digest = from.Digest // announced without digest: the bytes are unchanged
	}
	held := to != nil && from.has() && from.Digest == item.Digest && !(to.has() && to.Digest == item.Digest)
	if u.copied != nil && from.Stored.File == "" {
		held = false // the file was removed
	}
	if !held {
		s.a.Gone++
		if err := s.drop(from); err != nil || to == nil {
			return err
		}
		return s.offer(to, isNew, &item)
	}
	if err := s.name(to); err != nil {
		return err
	}
	if err := s.carry(from, to); err != nil {
		return err
	}
	if u.copied != nil {
		if u.said(to, &item); to.Stored.File == "" { // the file was not there
			s.a.Pending++
			u.lose(to)
			return nil
		}
	}
	s.a.Moved++
	return nil
}

// carry moves the stored content of one page to another.
func (s *applying) carry(from, to *work) error {
	u := s.u
	to.answered()
	to.State = Held
	to.History = from.History
	to.Digest, to.Parsed, to.Text, to.Length, to.Stored = from.Digest, from.Parsed, from.Text, from.Length, from.Stored
	to.Sketch, to.NoFollow, to.Cut, to.Unstable = from.Sketch, from.NoFollow, from.Cut, from.Unstable
	to.Type, to.Title, to.Language, to.Canonical, to.NoIndex = from.Type, from.Title, from.Language, from.Canonical, from.NoIndex
	to.Status, to.Original = from.Status, from.Original
	to.ETag, to.LastModified = "", "" // validators belong to a URL
	to.settle()
	to.claim, to.claimed, to.said, to.span = zeroDigest, time.Time{}, time.Time{}, 0
	to.planned, to.proved = false, true
	if !to.Parsed.IsZero() && to.Original == 0 {
		u.firsts.changed[digestKey(to.Parsed)] = to.ID
	}
	links, err := u.links.Links(from.ID)
	if err == nil && from.Site != to.Site {
		links, err = s.relinked(links)
	}
	if err != nil {
		return err
	}
	u.links.Set(to.ID, links, u.links.References(from.ID))
	if err := u.tell(news{op: protocol.Move, page: &to.Page, prev: from.Digest, text: from.Text, from: from.URL, source: from.ID, signal: s.by, changed: u.now}); err != nil {
		return err
	}
	if err := u.dropped1(from, to.URL); err != nil {
		return err
	}
	u.plan(to)
	return nil
}
