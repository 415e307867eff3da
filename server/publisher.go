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

	// Heal gives files that were rewritten with the same bytes their previous
	// modification time back, if the Inventory is an [inventory.Healer]: so the web
	// server's validators stay those that visitors hold. A file whose bytes changed
	// within a second that this URL had before gets one that the URL never had. Heal
	// never sets a time in the future; where it would have to, the page is scanned
	// again once that time has come: Run does so by itself, and a Turn waits up to 2 s
	// for it.
	//
	// It is for trees that a web server serves, not for one in which make or rsync
	// compares times to decide what to do.
	Heal bool

	// Importance, if not nil, returns the importance of a page; a full scan calls it
	// for every page. A changed importance is stored, and not reported as a change.
	Importance func(url string) protocol.Importance

	// Announces says that this site has pages known only through [Publisher.Announce]
	// and announced with digests. It matters when the state was lost: see [OpenJournal].
	Announces bool

	// Grace is how long a page that vanished is held before its deletion is
	// announced. Zero means 60 s.
	Grace time.Duration

	// Once says that this process runs one Turn and ends, as under cron: a page that
	// vanished is held by one run and its deletion announced by the next, whatever
	// the time between them. Grace is ignored then.
	Once bool

	// LookEvery is how often Run scans everything, whatever the Inventory's
	// Watch has reported. Zero means 10 minutes.
	ScanEvery time.Duration

	// WriteEvery is the shortest time between two manifests that Run writes.
	// The first change after a quiet period is written at once. Zero means 10 s.
	WriteEvery time.Duration

	// Hurry, above zero, caps Run's wait before it retries what failed, or what
	// was being changed. For tests.
	Hurry time.Duration

	// MaxMoves bounds how many new pages, and how many vanished ones, a scan
	// remembers to its end to find the moves among them. Beyond that, moves are
	// reported as a create and a delete. Zero means 100,000, which takes some 50 MB.
	MaxMoves int

	// Progress, if not nil, is called now and then during a scan, with its counts so far.
	Progress func(inventory.Report)

	Log *slog.Logger
	Now func() time.Time

	once  sync.Once
	turn  chan struct{} // a lock: the goroutine whose token is in it may scan
	wake  chan struct{} // a scope is dirty, or a scan has ended
	stale chan struct{} // the manifest may be behind the journal

	ready   atomic.Bool
	running atomic.Bool // Run is running

	// Only the goroutine that holds turn may use these.
	marked    bool            // see mark
	began     time.Time       // when the first scan of this Publisher began
	announced int             // entries that exist because they were announced
	counted   bool            // announced is valid
	noHealer  bool            // the warning about a missing Healer was logged
	refused   map[string]bool // see compare.Scan.Refused
	deletions deletions

	writing sync.Mutex // held while the outputs are written

	mu                sync.Mutex // guards the fields below
	pending           pending
	status            Status
	scanErr, writeErr error
	held              time.Time            // when the page was held whose deletion is due next; zero if none
	loaded            bool                 // the Snapshot has loaded the file of an earlier run
	pendingHeals      compare.PendingHeals // scopes to scan again, and when
	outputs           []outputState        // of Outputs
	published         protocol.Cursor
}

// pending is what waits to be scanned.
type pending struct {
	all      bool
	scopes   map[inventory.Scope]bool
	calls    int  // how often dirty was called
	fullScan bool // dirty was called for everything since takeFullScanRequest: a cause of failure may be gone
}

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
	p.once.Do(func() {
		p.turn, p.wake, p.stale = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	})
}

func (p *Publisher) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Publisher) log() *slog.Logger { return orDiscard(p.Log) }

func orDiscard(l *slog.Logger) *slog.Logger {
	return cmp.Or(l, slog.New(slog.DiscardHandler))
}

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
	if err != nil {
		return rep, err
	}
	if _, err = p.write(ctx); err != nil {
		return rep, err
	}
	if err := p.healPending(ctx, &rep); err != nil || p.isWritten() {
		return rep, err
	}
	_, err = p.write(ctx) // pages had been edited again during the wait
	return rep, err
}

// load makes the Snapshot serve the file of an earlier run, once.
func (p *Publisher) load() {
	p.mu.Lock()
	loaded := p.loaded
	p.loaded = true
	p.mu.Unlock()
	if loaded || p.Snapshot == nil {
		return
	}
	if err := p.Snapshot.Load(p.Journal); err != nil {
		p.log().Warn("published manifest could not be loaded: it will be written again", "err", err)
	}
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
	outputs, oerr := p.writeOutputs(ctx)
	err = errors.Join(err, oerr)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writeErr = err; manifest {
		p.status.Writes++
	}
	// Another goroutine may have written a later one meanwhile.
	if at := p.published; err == nil && (head.Epoch != at.Epoch || head.Seq > at.Seq) {
		p.published = head
	}
	return manifest || outputs, err
}

// Published returns the cursor up to which everything has been written: the manifest
// and all Outputs. It is zero until this process has checked that; while one of them
// cannot be written it does not advance. It reaches the journal's head soon after the
// head has moved. It does not block. A sender that tells others to fetch what is
// published waits for it.
func (p *Publisher) Published() protocol.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}

// isWritten reports whether there is nothing to write. A site that has not been
// scanned yet is not published: its rules are unknown, so the manifest would leave
// out whatever they may forbid, and yet claim to be complete.
func (p *Publisher) isWritten() bool {
	return !p.Ready() || p.isManifestWritten() && p.areOutputsWritten()
}

func (p *Publisher) isManifestWritten() bool {
	return p.Snapshot == nil || p.Snapshot.IsCurrent(p.Journal)
}

// Status returns the present state. It does not wait for a scan.
func (p *Publisher) Status() Status {
	p.mu.Lock()
	s := p.status
	if err := errors.Join(p.scanErr, p.writeErr); err != nil {
		s.Error = err.Error()
	}
	s.Outputs = p.outputStatus()
	p.mu.Unlock()
	s.Head, s.Whole, s.Items = p.Journal.Head(), p.Journal.Whole(), p.Journal.Len()
	if s.Looks == 0 { // no scan of this process has counted yet
		waiting := 0
		err := compare.EachHeld(p.Journal, func(e journal.Entry) {
			if s.Held++; p.mayBeAnnounced(e) {
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
func (p *Publisher) lockTurn(ctx context.Context) (done func(), err error) {
	p.init()
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// scan runs one scan, and again while more is due than one scan can hold. It returns scopes to scan again soon.
func (p *Publisher) scan(ctx context.Context, scopes []inventory.Scope, accept bool) (rep inventory.Report, soon []inventory.Scope, err error) {
	done, err := p.lockTurn(ctx)
	if err != nil {
		return rep, nil, err
	}
	defer done()
	begin := p.now()
	if p.began.IsZero() {
		p.began = begin.Truncate(time.Millisecond)
	}
	if !p.Journal.Whole() {
		scopes = nil
	}
	scopes = inventory.Covering(scopes)
	p.removePendingHeals(scopes)
	total, was := inventory.Report{At: begin}, p.Journal.Head()
	var held time.Time
	for again := true; again; {
		if err = p.countAnnounced(scopes); err != nil {
			break
		}
		l := p.nextScan(scopes, accept)
		var found compare.Found
		found, err = l.Run(ctx)
		p.announced, p.counted = found.Announced, p.counted || err == nil && len(scopes) == 0
		p.addPendingHeals(&found, l.Now)
		total.Add(found.Report)
		held, soon, again = found.Held, found.Soon, found.Again && err == nil
	}
	total.Duration, total.Head = p.now().Sub(begin), p.Journal.Head()
	if err != nil {
		err = fmt.Errorf("scan site: %w", err)
	}
	p.done(total, was, held, err)
	return total, soon, err
}

// nextScan returns a scan that begins now.
func (p *Publisher) nextScan(scopes []inventory.Scope, accept bool) *compare.Scan {
	l := &compare.Scan{Inventory: p.Inventory, Journal: p.Journal, Scopes: scopes, Accept: accept, Limit: p.MaxMoves,
		Now: p.now(), Clock: p.now, WriteMark: p.mark, Warn: p.log().Warn, Progress: p.progress,
		Importance: p.Importance, MayBeAnnounced: p.mayBeAnnounced, Announced: p.announced}
	l.Due = func(since time.Time) bool {
		if p.Once {
			return since.Before(p.began)
		}
		return p.ripe(since, l.Now)
	}
	if p.Heal {
		if p.refused == nil {
			p.refused = make(map[string]bool)
		}
		l.Refused = p.refused
		var ok bool
		if l.Healer, ok = p.Inventory.(inventory.Healer); !ok && !p.noHealer {
			p.noHealer = true
			p.log().Warn("nothing is healed: this inventory has no files whose mtime could be set")
		}
	}
	return l
}

// Ready reports whether the Inventory has answered a scan of this process: its
// rules are known, so the answers of its Public are valid. See doors.Notifier.
func (p *Publisher) Ready() bool { return p.ready.Load() }

func (p *Publisher) progress(r inventory.Report) {
	p.ready.Store(true)
	if p.Progress != nil {
		p.Progress(r)
	}
}

// ripe reports whether a page held since then is due to be checked again: its grace
// period is over, or the clock was put back. In the latter case the scan holds it anew.
func (p *Publisher) ripe(since, now time.Time) bool {
	held := now.Sub(since)
	return held >= p.grace() || held < 0
}

func (p *Publisher) grace() time.Duration { return cmp.Or(max(p.Grace, 0), time.Minute) }

// done records the end of a scan; from is the journal's head before it.
func (p *Publisher) done(rep inventory.Report, from protocol.Cursor, held time.Time, err error) {
	p.mu.Lock()
	was := p.status.MassHeld
	if rep.Head.Epoch == from.Epoch {
		p.status.Changes += int(rep.Head.Seq - from.Seq) // also what a failed scan had appended
	}
	if p.scanErr = err; err != nil {
		p.status.Failed++
	} else {
		p.status.Looks++
		p.status.Last, p.status.Held, p.status.MassHeld = rep, rep.HeldNow, rep.MassHeld
		p.held = held
		if was && !rep.MassHeld && rep.HeldNow > 0 {
			p.pending.add(nil) // some may have been due for long
		}
	}
	p.mu.Unlock()
	pause.Wake(p.wake)
	pause.Wake(p.stale)
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
		p.log().Info("scanned: "+rep.String(), "head", rep.Head.String(), "took", rep.Duration.Round(time.Millisecond/10))
	}
}
