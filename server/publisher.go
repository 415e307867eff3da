package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// A Publisher keeps a journal in step with what a site offers, and the manifest in
// step with the journal. It scans, compares, and appends the differences; the
// journal wakes its followers; then the manifest is written.
//
// Its methods may be called by many goroutines at once: scans run one at a time.
// The journal must have no other writer.
type Publisher struct {
	Inventory inventory.Inventory
	Journal   *Journal
	Snapshot  *manifest.Snapshot // where the manifest goes; nil means nowhere

	// Outputs are written after the manifest, in order, whenever the journal has
	// changed since the last write, and after every scan, in case somebody has
	// removed them. An output that fails does not keep the others from being written.
	Outputs []Output

	Pages Pages
	Pace  Pace

	// MaxMoves bounds how many new pages, and how many vanished ones, a scan
	// remembers to its end to find the moves among them. Beyond that, moves are
	// reported as a create and a delete. Zero means 100,000, which takes some 50 MB.
	MaxMoves int

	// Progress, if not nil, is called now and then during a scan, with its counts so far.
	Progress func(inventory.Report)

	Log *slog.Logger
	Now func() time.Time

	// state is all that is no option.
	state struct {
		once    sync.Once
		loaded  sync.Once // the Snapshot has loaded the file of an earlier run
		ready   atomic.Bool
		running atomic.Bool   // Run is running
		stale   chan struct{} // the manifest may be behind the journal
		agenda  agenda
		turn    turn
		outputs outputStates
		tally   tally
		recent  recent
	}
}

// A turn is the state that scans and announcements share. Only the goroutine that has locked it uses it.
type turn struct {
	token     chan struct{}                     // in it while it is locked
	marked    bool                              // see Publisher.mark
	began     time.Time                         // when the first scan of this Publisher began
	announced int                               // entries that exist because they were announced
	counted   bool                              // announced is valid
	refused   map[string]bool                   // see compare.Scan.Refused
	unread    map[string]*inventory.UnseenError // what could not be read and was logged, by place
	deletions deletions
}

// A tally is what Status tells of this process.
type tally struct {
	mu                sync.Mutex // guards the fields below
	status            Status
	scanErr, writeErr error
	over              error // the newest full scan, or one since, found too many pages
	published         protocol.Cursor
}

// Pages says what is particular about the pages of a site.
type Pages struct {
	// Healer, if not nil, gives files that were rewritten with the same bytes their
	// previous modification time back: so the web server's validators stay those that
	// visitors hold. A file whose bytes changed within a second that this URL had before
	// gets one that the URL never had. No time in the future is set; where it would have
	// to be, the page is scanned again once that time has come: Run does so by itself,
	// and a Turn waits up to 2 s for it.
	//
	// It is for trees that a web server serves, not for one in which make or rsync
	// compares times to decide what to do.
	Healer inventory.Healer

	// Importance, if not nil, returns the importance of a page; a full scan calls it
	// for every page. A changed importance is stored, and not reported as a change.
	Importance func(url string) protocol.Importance

	// Max is the number of pages that this site may have. If a scan finds more, it returns an error, and no new page is
	// published, while changes and deletions of known pages are; a first scan then publishes nothing. A manifest
	// that was cut at Max pages would let crawlers delete the others. New pages beyond it that are announced are
	// refused. Zero means no maximum.
	Max int

	// Announces says that this site has pages known only through [Publisher.Announce]
	// and announced with digests. It matters when the state was lost: see [OpenJournal].
	Announces bool
}

// Pace says when a Publisher acts.
type Pace struct {
	// Grace is how long a page that vanished is held before its deletion is
	// announced. Zero means 60 s.
	Grace time.Duration

	// Once says that this process runs one Turn and ends, as under cron: a page that
	// vanished is held by one run and its deletion announced by the next, whatever
	// the time between them. Grace is ignored then.
	Once bool

	// ScanEvery is how often Run scans everything, whatever the Inventory's
	// Watch has reported. Zero means 10 minutes.
	ScanEvery time.Duration

	// WriteEvery is the shortest time between two manifests that Run writes.
	// The first change after a quiet period is written at once. Zero means 10 s.
	WriteEvery time.Duration

	// Hurry, above zero, caps Run's wait before it retries what failed, or what
	// was being changed. For tests.
	Hurry time.Duration
}

func (p *Pace) grace() time.Duration { return cmp.Or(max(p.Grace, 0), time.Minute) }

// ripe reports whether a page held since then is due to be checked again: its grace
// period is over, or the clock was put back. In the latter case the scan holds it anew.
func (p *Pace) ripe(since, now time.Time) bool {
	held := now.Sub(since)
	return held >= p.grace() || held < 0
}

// hurried returns a wait, at most Hurry where that is set.
func (p *Pace) hurried(d time.Duration) time.Duration { return pause.AtMost(d, p.Hurry) }

// Status is the state of a Publisher.
type Status struct {
	Head     protocol.Cursor  `json:"head"`
	Whole    bool             `json:"whole"` // the first description is complete
	Items    int              `json:"items"`
	Held     int              `json:"held"`      // vanished pages not announced yet
	MassHeld bool             `json:"mass_held"` // a person must accept the deletions, or the pages must return
	Last     inventory.Report `json:"last"`      // the last scan that succeeded
	Looks    int              `json:"looks"`
	Failed   int              `json:"failed"` // scans that ended with an error

	// Error is why the newest scan or write failed; empty if it did not.
	Error string `json:"error,omitempty"`

	// Missed counts the pages whose change was found by a regular full scan
	// although Watch should have reported it.
	Missed int `json:"missed"`

	Changes  int             `json:"changes"`  // appended for followers by this process
	Writes   int             `json:"writes"`   // manifests written by this process
	Manifest protocol.Cursor `json:"manifest"` // cursor of the published manifest
	Path     string          `json:"path"`     // its file

	Outputs []OutputStatus `json:"outputs,omitempty"` // in the order of Publisher.Outputs
}

func (p *Publisher) init() {
	s := &p.state
	s.once.Do(func() {
		s.turn.token, s.agenda.wake, s.stale = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	})
}

func (p *Publisher) now() time.Time { return clock.Now(p.Now) }

func (p *Publisher) log() *slog.Logger { return cmp.Or(p.Log, slog.New(slog.DiscardHandler)) }

// Scan scans the given scopes, or everything if there are none, and appends the
// differences. Until the first description is whole every scan is a full one. After
// an error the Report counts what was appended before it; a failed scan neither
// holds pages nor announces them as deleted.
func (p *Publisher) Scan(ctx context.Context, scopes []inventory.Scope) (inventory.Report, error) {
	rep, _, err := p.scan(ctx, scopes, false)
	return rep, err
}

// Turn scans everything and then writes the manifest and the outputs: all the work
// of a process that runs once. If Heal could not set a time because it was still in
// the future, Turn waits for it, 2 s at most, unless Run does so.
func (p *Publisher) Turn(ctx context.Context) (inventory.Report, error) {
	return p.fullTurn(ctx, false)
}

// AcceptDeletions runs a Turn that announces every deletion at once: newly found,
// within its grace period, part of a mass disappearance, or of a page that only the
// published manifest knows (see [OpenJournal]). Where pages are announced,
// announce them again before calling it.
func (p *Publisher) AcceptDeletions(ctx context.Context) (inventory.Report, error) {
	return p.fullTurn(ctx, true)
}

func (p *Publisher) fullTurn(ctx context.Context, accept bool) (inventory.Report, error) {
	p.load()
	rep, _, err := p.scan(ctx, nil, accept)
	over := p.over()
	if err != nil && err != over {
		return rep, err
	}
	if _, err = p.write(ctx); err == nil {
		err = p.healPending(ctx, &rep)
	}
	if err == nil {
		_, err = p.write(ctx) // pages may have been edited again during the wait
	}
	return rep, errors.Join(over, err)
}

// setOver records whether a scan that succeeded found too many pages, and returns the error if it did. A scan of a part
// that has no new pages does not show that there are fewer now.
func (p *Publisher) setOver(full bool, over error) error {
	if over != nil {
		over = fmt.Errorf("scan site: %w", over)
	}
	t := &p.state.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if full || over != nil {
		t.over = over
	}
	return over
}

// over returns the error of too many pages, nil if there are not too many. A scan returns it once everything
// else has been recorded.
func (p *Publisher) over() error {
	t := &p.state.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// healRounds is how often a Turn scans pages again whose time was in the
// future: they may have been written again meanwhile.
const healRounds = 2

// healPending waits until the times that could not be set have come, and scans
// those pages again.
func (p *Publisher) healPending(ctx context.Context, rep *inventory.Report) error {
	for range healRounds {
		now := p.now()
		scopes, until := p.state.agenda.nearHeals(now)
		if len(scopes) == 0 || p.state.running.Load() {
			return nil
		}
		if !pause.For(ctx, until.Sub(now)) {
			return ctx.Err()
		}
		next, _, err := p.scan(ctx, scopes, false)
		next.Unchanged, next.LeftOut, next.Unread, next.Unsettled = rep.Unchanged, rep.LeftOut, rep.Unread, rep.Unsettled
		next.Unreadable = rep.Unreadable
		if err != nil && err == p.over() {
			err = nil // fullTurn returns it
		}
		rep.Add(next) // these are of a few pages only
		rep.Head = next.Head
		if err != nil {
			return err
		}
	}
	return nil
}

// load makes the Snapshot serve the file of an earlier run, once.
func (p *Publisher) load() {
	p.state.loaded.Do(func() {
		if p.Snapshot == nil {
			return
		}
		if err := p.Snapshot.Load(p.Journal); err != nil {
			p.log().Warn("published manifest could not be loaded: it will be written again", "err", err)
		}
	})
}

// write writes the manifest and the outputs that are behind the journal.
func (p *Publisher) write(ctx context.Context) (wrote bool, err error) {
	if !p.Ready() {
		return false, nil
	}
	head := p.Journal.Head() // read before writing: everything written is at this cursor, or later
	manifest := false
	if !p.isManifestWritten() {
		manifest, err = p.Snapshot.Write(ctx, p.Journal)
	}
	outputs, oerr := p.state.outputs.write(ctx, p.Outputs, p.Journal)
	err = errors.Join(err, oerr)
	t := &p.state.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writeErr = err; manifest {
		t.status.Writes++
	}
	// Another goroutine may have written a later one meanwhile.
	if at := t.published; err == nil && (head.Epoch != at.Epoch || head.Seq > at.Seq) {
		t.published = head
	}
	return manifest || outputs, err
}

// Published returns the cursor up to which everything has been written: the manifest
// and all Outputs. It is zero until this process has checked that; while one of them
// cannot be written it does not advance. It reaches the journal's head soon after the
// head has moved. It does not block. A sender that tells others to fetch what is
// published waits for it.
func (p *Publisher) Published() protocol.Cursor {
	t := &p.state.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.published
}

// isWritten reports whether there is nothing to write. A site that has not been
// scanned yet is not published: its rules are unknown, so the manifest would leave
// out whatever they may forbid, and yet claim to be complete.
func (p *Publisher) isWritten() bool {
	return !p.Ready() || p.isManifestWritten() && p.state.outputs.areWritten(p.Outputs, p.Journal)
}

func (p *Publisher) isManifestWritten() bool {
	return p.Snapshot == nil || p.Snapshot.IsCurrent(p.Journal)
}

// Status returns the present state. It does not wait for a scan.
func (p *Publisher) Status() Status {
	t := &p.state.tally
	t.mu.Lock()
	s, err := t.status, errors.Join(t.scanErr, t.over, t.writeErr)
	t.mu.Unlock()
	if err != nil {
		s.Error = err.Error()
	}
	s.Outputs = p.state.outputs.status(p.Outputs)
	s.Head, s.Whole, s.Items = p.Journal.Head(), p.Journal.Whole(), p.Journal.Len()
	if s.Looks == 0 { // no scan of this process has counted yet
		waiting := 0
		err := compare.EachHeld(p.Journal, func(e journal.Entry) {
			if s.Held++; p.Pages.mayBeAnnounced(e) {
				waiting++
			}
		})
		s.MassHeld = err == nil && compare.IsMass(s.Held-waiting, s.Items-waiting)
	}
	if p.Snapshot != nil {
		s.Manifest, s.Path = p.Snapshot.Cursor(), p.Snapshot.Path
	}
	return s
}

// lockTurn waits until no other goroutine scans or announces.
func (p *Publisher) lockTurn(ctx context.Context) (t *turn, unlock func(), err error) {
	p.init()
	t = &p.state.turn
	select {
	case t.token <- struct{}{}:
		return t, func() { <-t.token }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// scan runs one scan, and again while more is due than one scan can hold. It returns scopes to scan again soon.
func (p *Publisher) scan(ctx context.Context, scopes []inventory.Scope, accept bool) (rep inventory.Report, soon []inventory.Scope, err error) {
	t, unlock, err := p.lockTurn(ctx)
	if err != nil {
		return rep, nil, err
	}
	defer unlock()
	a, begin := &p.state.agenda, p.now()
	if t.began.IsZero() {
		t.began = begin.Truncate(time.Millisecond)
	}
	if !p.Journal.Whole() {
		scopes = nil
	}
	scopes = inventory.Covering(scopes)
	a.removeHeals(scopes)
	total, was := inventory.Report{At: begin}, p.Journal.Head()
	var held time.Time
	var over error
	for again := true; again; {
		if err = t.countAnnounced(p.Journal, scopes); err != nil {
			break
		}
		l := p.nextScan(t, scopes, accept)
		var found compare.Found
		found, err = l.Run(ctx)
		t.announced, t.counted = found.Announced, t.counted || err == nil && len(scopes) == 0
		a.addHeals(found.PendingHeals, l.Now)
		if found.Unhealed > 0 {
			p.log().Warn("some mtimes could not be restored: the web server may report a wrong Last-Modified for these files",
				"files", found.Unhealed, "err", found.Unhealing)
		}
		total.Add(found.Report)
		if over == nil {
			over = found.Over
		}
		if err == nil {
			total.Unreadable = t.unreadable(p.log(), scopes, &found)
		}
		held, soon, again = found.Held, found.Soon, found.Again && err == nil
	}
	total.Duration, total.Head = p.now().Sub(begin), p.Journal.Head()
	if err != nil {
		err = fmt.Errorf("scan site: %w", err)
	}
	p.done(total, was, held, err)
	if err == nil {
		err = p.setOver(len(scopes) == 0, over)
	}
	return total, soon, err
}

// nextScan returns a scan that begins now.
func (p *Publisher) nextScan(t *turn, scopes []inventory.Scope, accept bool) *compare.Scan {
	l := &compare.Scan{Inventory: p.Inventory, Journal: p.Journal, Scopes: scopes, Accept: accept, Limit: cmp.Or(max(p.MaxMoves, 0), 100_000), Max: max(p.Pages.Max, 0),
		Now: p.now(), Clock: p.now, WriteMark: p.mark, Warn: p.log().Warn, Progress: p.progress,
		Importance: p.Pages.Importance, MayBeAnnounced: p.Pages.mayBeAnnounced, Announced: t.announced}
	l.Due = func(since time.Time) bool {
		if p.Pace.Once {
			return since.Before(t.began)
		}
		return p.Pace.ripe(since, l.Now)
	}
	if l.Healer = p.Pages.Healer; l.Healer != nil {
		if t.refused == nil {
			t.refused = make(map[string]bool)
		}
		l.Refused = t.refused
	}
	return l
}

// Ready reports whether the Inventory has answered a scan of this process: its
// rules are known, so the answers of its Public are valid. See doors.Notifier.
func (p *Publisher) Ready() bool { return p.state.ready.Load() }

func (p *Publisher) progress(r inventory.Report) {
	p.state.ready.Store(true)
	if p.Progress != nil {
		p.Progress(r)
	}
}

// done records the end of a scan; from is the journal's head before it.
func (p *Publisher) done(rep inventory.Report, from protocol.Cursor, held time.Time, err error) {
	a, t := &p.state.agenda, &p.state.tally
	t.mu.Lock()
	s := &t.status
	was, first := s.MassHeld, s.Looks == 0
	if rep.Head.Epoch == from.Epoch {
		s.Changes += int(rep.Head.Seq - from.Seq) // also what a failed scan had appended
	}
	if t.scanErr = err; err != nil {
		s.Failed++
	} else {
		s.Looks++
		s.Last, s.Held, s.MassHeld = rep, rep.HeldNow, rep.MassHeld
		p.state.outputs.scans.Add(1)
		if rep.MassHeld {
			held = time.Time{}
		}
		a.hold(held)
		if was && !rep.MassHeld && rep.HeldNow > 0 {
			a.add(nil, time.Time{}) // some may have been due for long
		}
	}
	t.mu.Unlock()
	pause.Wake(a.wake)
	pause.Wake(p.state.stale)
	switch {
	case err != nil:
		return
	case rep.MassHeld && !was:
		p.log().Warn("most pages are missing: their deletion is held until a person accepts it or the pages return",
			"held", rep.HeldNow, "pages", p.Journal.Len())
	case was && !rep.MassHeld:
		p.log().Info("the mass disappearance is over", "held", rep.HeldNow)
	}
	if rep.ChangeCount() > 0 || rep.Held > 0 {
		say := p.log().Info
		if p.state.running.Load() && !first && rep.Held == 0 {
			say = p.log().Debug
			p.state.recent.add(rep, from)
		}
		say("scanned: "+rep.String(), "head", rep.Head.String(), "took", rep.Duration.Round(time.Millisecond/10))
	}
}
