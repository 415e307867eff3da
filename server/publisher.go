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
)

// A Publisher keeps a journal true to what a site offers, and the manifest
// true to the journal. It looks, compares, and appends what differs; the
// journal wakes whoever follows it; then the manifest is written.
//
// Its methods may be called by many goroutines at once: looks take turns. The
// journal must have no other writer.
type Publisher struct {
	Inventory inventory.Inventory
	Journal   *Journal
	Snapshot  *Snapshot // where the manifest goes; nil means nowhere

	// Outputs are written after the manifest, in order, whenever the journal
	// is not what it was when they were written last, and after every look,
	// should somebody have taken them away. One that fails keeps none of the
	// others from being written.
	Outputs []Output

	// Heal says that files which were rewritten with the bytes they had get
	// the time of their last change back, if the Inventory is an [inventory.Healer]: so
	// the web server's validators stay what visitors hold. Other bytes in a
	// second that this URL had before get one that it never had. A time that
	// is set is never in the future; where it would be, the page is looked at
	// again once it is not, which Run does by itself, and a Turn waits a
	// second for.
	//
	// It is for what a web server serves, not for a tree in which make or
	// rsync compares times to see what is to be done.
	Heal bool

	// Importance, if not nil, says how important a page is; it is asked for
	// every page by a look at everything. Another importance than before is
	// stored, and told to nobody.
	Importance func(url string) protocol.Importance

	// Announces says that this site has pages which nothing but [Publisher.Announce]
	// tells of, and whose digests are told with them. It counts when the state
	// was lost: see [OpenJournal].
	Announces bool

	// Grace is how long a page that vanished is held before its deletion is
	// announced. Zero means 60 s.
	Grace time.Duration

	// Once says that this process takes one turn and ends, as under cron: a
	// page that vanished is held by one run and announced by the next,
	// whatever the time between them. Grace does not count then.
	Once bool

	// LookEvery is how often Run looks at everything, whatever the Inventory's
	// Watch has said. Zero means 10 minutes.
	LookEvery time.Duration

	// WriteEvery is the shortest time between two manifests that Run writes.
	// A change after a quiet while is written at once. Zero means 10 s.
	WriteEvery time.Duration

	// Hurry, above zero, bounds how long Run waits until it tries again what failed, or
	// what was being changed. For tests.
	Hurry time.Duration

	// MaxMoves bounds how many new pages, and how many vanished ones, a look
	// remembers to its end to find the moves among them. With more than that,
	// moves are told as a create and a delete. Zero means 100,000, which takes
	// some 50 MB.
	MaxMoves int

	// Progress, if not nil, is called now and then during a look, with its
	// counts so far.
	Progress func(inventory.Report)

	Log *slog.Logger
	Now func() time.Time

	once  sync.Once
	turn  chan struct{} // holds one token: whoever puts it there looks
	wake  chan struct{} // something is dirty, or a look has ended
	stale chan struct{} // the manifest may be behind the journal

	ready   atomic.Bool
	running atomic.Bool // Run is

	// Whose turn it is may use these.
	marked    bool            // see mark
	began     time.Time       // the first look of this Publisher
	announced int             // entries that are there because they were announced
	counted   bool            // announced is right
	noHealer  bool            // that has been said
	refused   map[string]bool // see Look.Refused
	goings    goings

	writing sync.Mutex // held by whoever writes the outputs

	mu                sync.Mutex // guards what follows
	pending           pending
	status            Status
	lookErr, writeErr error
	held              time.Time     // since when the page is held that is ripe next; zero if none
	loaded            bool          // the Snapshot has taken over the file of an earlier run
	owed              compare.Debts // what is to be healed later
	outputs           []outputState // of Outputs
	published         protocol.Cursor
}

// pending is what waits to be looked at.
type pending struct {
	all    bool
	scopes map[inventory.Scope]bool
	calls  int  // how often dirty was called
	anew   bool // for everything, since that was asked last: what failed may not fail any more
}

// Status is how a Publisher stands.
type Status struct {
	Head     protocol.Cursor  `json:"head"`
	Whole    bool             `json:"whole"` // the first description is complete
	Items    int              `json:"items"`
	Held     int              `json:"held"`      // vanished pages not announced yet
	MassHeld bool             `json:"mass_held"` // a person must accept, or they must return
	Last     inventory.Report `json:"last"`      // the last look that ended well
	Looks    int              `json:"looks"`
	Failed   int              `json:"failed"` // looks that ended with an error

	// Error is why the newest look or write failed; empty if it did not.
	Error string `json:"error,omitempty"`

	// Missed counts the pages whose change was found by the regular look at
	// everything although Watch was there to tell of it.
	Missed int `json:"missed"`

	Changes  int             `json:"changes"`  // appended by this process for followers
	Writes   int             `json:"writes"`   // manifests written by this process
	Manifest protocol.Cursor `json:"manifest"` // where the published manifest stands
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

// Look looks at the given scopes, or at everything if there are none, and
// appends what differs. Until the first description is whole every look is at
// everything. After an error the Report counts what was taken in before it;
// then nothing is held or announced as gone on account of that look.
func (p *Publisher) Look(ctx context.Context, scopes []inventory.Scope) (inventory.Report, error) {
	rep, _, err := p.look(ctx, scopes, false)
	return rep, err
}

// Turn looks at everything and then writes the manifest and the outputs: the
// whole work of a process that runs once. If Heal could not set a time because
// it was still to come, Turn waits for that, 2 s at most, unless Run does it.
func (p *Publisher) Turn(ctx context.Context) (inventory.Report, error) {
	return p.fullTurn(ctx, false)
}

// AcceptDeletions takes a turn that announces every deletion at once, be it
// newly found, within its grace period, a mass disappearance, or that of a page
// which only the published manifest knows (see [OpenJournal]): where pages are
// announced, they should be announced again before that.
func (p *Publisher) AcceptDeletions(ctx context.Context) (inventory.Report, error) {
	return p.fullTurn(ctx, true)
}

func (p *Publisher) fullTurn(ctx context.Context, accept bool) (inventory.Report, error) {
	p.load()
	rep, _, err := p.look(ctx, nil, accept)
	if err != nil {
		return rep, err
	}
	if _, err = p.write(ctx); err != nil {
		return rep, err
	}
	if err := p.healOwed(ctx, &rep); err != nil || p.isWritten() {
		return rep, err
	}
	_, err = p.write(ctx) // pages had been edited again meanwhile
	return rep, err
}

// load lets the Snapshot serve the file of an earlier run, once.
func (p *Publisher) load() {
	p.mu.Lock()
	loaded := p.loaded
	p.loaded = true
	p.mu.Unlock()
	if loaded || p.Snapshot == nil {
		return
	}
	if err := p.Snapshot.Load(p.Journal); err != nil {
		p.log().Warn("published manifest could not be taken over: it will be written anew", "err", err)
	}
}

// write writes the manifest and the outputs that are behind the journal.
func (p *Publisher) write(ctx context.Context) (wrote bool, err error) {
	if !p.Ready() {
		return false, nil
	}
	head := p.Journal.Head() // before anything is written: all of it will stand here, or later
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
	// Others may have written meanwhile, and later.
	if at := p.published; err == nil && (head.Epoch != at.Epoch || head.Seq > at.Seq) {
		p.published = head
	}
	return manifest || outputs, err
}

// Published is the cursor up to which everything that is published has been
// written: the manifest, and every one of Outputs. It is zero until this
// process has seen to that; while one of them cannot be written it stays where
// it was. It comes to the journal's head soon after that has moved, and waits
// for nothing. Whoever tells others to fetch what is published waits for it.
func (p *Publisher) Published() protocol.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}

// isWritten reports whether there is nothing to write. What a site publishes
// that could not be looked at yet would withhold whatever rules nobody knows
// may forbid, and say that it is whole.
func (p *Publisher) isWritten() bool {
	return !p.Ready() || p.isManifestWritten() && p.areOutputsWritten()
}

func (p *Publisher) isManifestWritten() bool {
	return p.Snapshot == nil || p.Snapshot.current(p.Journal)
}

// Status tells how the Publisher stands now. It does not wait for a look.
func (p *Publisher) Status() Status {
	p.mu.Lock()
	s := p.status
	if err := errors.Join(p.lookErr, p.writeErr); err != nil {
		s.Error = err.Error()
	}
	s.Outputs = p.outputStatus()
	p.mu.Unlock()
	s.Head, s.Whole, s.Items = p.Journal.Head(), p.Journal.Whole(), p.Journal.Len()
	if s.Looks == 0 { // nobody has counted yet
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

// takeTurn waits until nobody else looks or announces.
func (p *Publisher) takeTurn(ctx context.Context) (done func(), err error) {
	p.init()
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look is one turn of the loop. It returns scopes to look at again soon.
func (p *Publisher) look(ctx context.Context, scopes []inventory.Scope, accept bool) (rep inventory.Report, soon []inventory.Scope, err error) {
	done, err := p.takeTurn(ctx)
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
	p.pay(scopes)
	total, was := inventory.Report{At: begin}, p.Journal.Head()
	var held time.Time
	for again := true; again; {
		if err = p.countAnnounced(scopes); err != nil {
			break
		}
		l := p.nextLook(scopes, accept)
		var found compare.Found
		found, err = l.Run(ctx)
		p.announced, p.counted = found.Announced, p.counted || err == nil && len(scopes) == 0
		p.owe(&found, l.Now)
		total.Add(found.Report)
		held, soon, again = found.Held, found.Soon, found.Again && err == nil
	}
	total.Duration, total.Head = p.now().Sub(begin), p.Journal.Head()
	if err != nil {
		err = fmt.Errorf("look at site: %w", err)
	}
	p.done(total, was, held, err)
	return total, soon, err
}

// nextLook is a look that begins now.
func (p *Publisher) nextLook(scopes []inventory.Scope, accept bool) *compare.Look {
	l := &compare.Look{Inventory: p.Inventory, Journal: p.Journal, Scopes: scopes, Accept: accept, Limit: p.MaxMoves,
		Now: p.now(), Clock: p.now, Prove: p.mark, Warn: p.log().Warn, Progress: p.progress,
		Importance: p.Importance, MayBeAnnounced: p.mayBeAnnounced, Announced: p.announced}
	l.Ripe = func(since time.Time) bool {
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
			p.log().Warn("nothing is healed: this inventory has no files whose time could be set")
		}
	}
	return l
}

// Ready reports whether the Inventory has answered a look of this process: its
// rules are known, and what its Public says counts. See [Notifier].
func (p *Publisher) Ready() bool { return p.ready.Load() }

func (p *Publisher) progress(r inventory.Report) {
	p.ready.Store(true)
	if p.Progress != nil {
		p.Progress(r)
	}
}

// ripe reports whether a page held since then is to be looked for: its grace
// period is over, or the clock was put back. Then the look holds it anew.
func (p *Publisher) ripe(since, now time.Time) bool {
	held := now.Sub(since)
	return held >= p.grace() || held < 0
}

func (p *Publisher) grace() time.Duration { return orDefault(p.Grace, time.Minute) }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// done notes the end of a look that found the journal's head at from.
func (p *Publisher) done(rep inventory.Report, from protocol.Cursor, held time.Time, err error) {
	p.mu.Lock()
	was := p.status.MassHeld
	if rep.Head.Epoch == from.Epoch {
		p.status.Changes += int(rep.Head.Seq - from.Seq) // of a look that failed, what it came to append
	}
	if p.lookErr = err; err != nil {
		p.status.Failed++
	} else {
		p.status.Looks++
		p.status.Last, p.status.Held, p.status.MassHeld = rep, rep.HeldNow, rep.MassHeld
		p.held = held
		if was && !rep.MassHeld && rep.HeldNow > 0 {
			p.pending.add(nil) // some may have been ripe long since
		}
	}
	p.mu.Unlock()
	pause.Wake(p.wake)
	pause.Wake(p.stale)
	switch {
	case err != nil:
		return
	case rep.MassHeld && !was:
		p.log().Warn("most pages have vanished: their deletion is not announced until somebody accepts it or they return",
			"held", rep.HeldNow, "pages", p.Journal.Len())
	case was && !rep.MassHeld:
		p.log().Info("the mass disappearance is over", "held", rep.HeldNow)
	}
	if rep.Told() > 0 || rep.Held > 0 {
		p.log().Info("looked: "+rep.String(), "head", rep.Head.String(), "took", rep.Duration.Round(time.Millisecond/10))
	}
}
