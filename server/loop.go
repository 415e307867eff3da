package server

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// Waits of Run before it tries again.
const (
	retryLook  = 2 * time.Second // after a failed scan, doubled up to...
	retryMost  = time.Minute
	retrySoon  = 2 * time.Second // for files that were being changed
	retryWrite = 10 * time.Second
	lastWrite  = 10 * time.Second // the longest that writing the last manifest may take at the end
)

// Run scans everything, and then, until ctx ends: what the Inventory's Watch
// reports as dirty, at once; the places of held pages whose grace period is over; and
// everything every LookEvery. A scan that fails is logged, shown in Status and
// retried. The manifest and the outputs are written concurrently. Run returns nil
// when ctx has ended and so have all goroutines that it started.
func (p *Publisher) Run(ctx context.Context) error {
	p.init()
	p.load()
	p.running.Store(true)
	defer p.running.Store(false)
	inner, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()
	owned.Go(func() { p.watch(inner) })
	owned.Go(func() { p.writeLoop(inner) })

	var (
		fullAt  time.Time                     // when everything is to be scanned
		failed  time.Time                     // when a scan failed last
		notYet  time.Time                     // set after that: no scan before it
		backoff = p.atMostHurry(retryLook)    // the wait after the next failure
		soon    map[inventory.Scope]time.Time // unsettled scopes, and when to scan them again
		trouble scanFailure
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := p.now()
		if p.takeFullScanRequest() && backoff > p.atMostHurry(retryLook) { // the docroot seems to be back
			if backoff = p.atMostHurry(retryLook); failed.Add(backoff).Before(notYet) {
				notYet = failed.Add(backoff)
			}
		}
		full := !now.Before(fullAt)
		scopes, all, calls := p.take(now, notYet, full, soon)
		if !all && len(scopes) == 0 {
			timer.Reset(max(0, p.nextAt(now, fullAt, notYet, soon).Sub(now)))
			select {
			case <-ctx.Done():
				return nil
			case <-p.wake:
			case <-timer.C:
			}
			continue
		}
		if all {
			scopes, soon = nil, nil
		}
		rep, unsettled, err := p.scan(ctx, scopes, false)
		if ctx.Err() != nil {
			return nil
		}
		now = p.now()
		if err != nil {
			trouble.fails(p.log(), err, now, backoff)
			p.giveBack(scopes)
			failed, notYet, backoff = now, now.Add(backoff), p.atMostHurry(min(2*backoff, retryMost))
			continue
		}
		notYet, backoff = time.Time{}, p.atMostHurry(retryLook)
		trouble.ends(p.log())
		for _, s := range unsettled {
			if soon == nil {
				soon = make(map[inventory.Scope]time.Time)
			}
			soon[s] = now.Add(p.atMostHurry(retrySoon))
		}
		if !all {
			continue
		}
		if !fullAt.IsZero() && full {
			p.countMissed(rep, calls)
		}
		fullAt = now.Add(cmp.Or(max(p.ScanEvery, 0), 10*time.Minute))
	}
}

// relogEvery is how often scans that keep failing for the same reason are logged.
const relogEvery = time.Hour

// A scanFailure is why scans have been failing. It is logged when the reason changes, and every relogEvery.
type scanFailure struct {
	why string // without digits, such as those of times, which differ each time
	at  time.Time
}

func (l *scanFailure) fails(log *slog.Logger, err error, now time.Time, again time.Duration) {
	why := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
	say := log.Debug
	if why != l.why || now.Sub(l.at) >= relogEvery {
		say, l.why, l.at = log.Error, why, now
	}
	say("scan failed: the published state stays as it is", "err", err, "again_in", again)
}

func (l *scanFailure) ends(log *slog.Logger) {
	if l.why != "" {
		log.Info("scans succeed again")
		*l = scanFailure{}
	}
}

// dirty is what the Inventory's Watch calls. It does not block.
func (p *Publisher) dirty(scopes []inventory.Scope) {
	p.mu.Lock()
	p.pending.calls++
	p.pending.fullScan = p.pending.fullScan || len(scopes) == 0
	p.pending.add(scopes)
	p.mu.Unlock()
	pause.Wake(p.wake)
}

// takeFullScanRequest reports whether dirty was called for everything since its own last call.
func (p *Publisher) takeFullScanRequest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := p.pending.fullScan
	p.pending.fullScan = false
	return anew
}

// giveBack puts back scopes whose scan failed.
func (p *Publisher) giveBack(scopes []inventory.Scope) {
	p.mu.Lock()
	p.pending.add(scopes)
	p.mu.Unlock()
}

func (q *pending) add(scopes []inventory.Scope) {
	if len(scopes) == 0 || len(q.scopes)+len(scopes) > 4*inventory.MaxScopes {
		q.all, q.scopes = true, nil
	}
	if q.all {
		return
	}
	if q.scopes == nil {
		q.scopes = make(map[inventory.Scope]bool)
	}
	for _, s := range scopes {
		q.scopes[s] = true
	}
}

// take returns the scopes to scan now, or all, and how often dirty was called.
func (p *Publisher) take(now, notYet time.Time, full bool, soon map[inventory.Scope]time.Time) (scopes []inventory.Scope, all bool, calls int) {
	if now.Before(notYet) {
		return nil, false, 0
	}
	ripe := p.ripeScopes(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.pending
	all, calls = q.all || full, q.calls
	for s := range q.scopes {
		scopes = append(scopes, s)
	}
	q.all, q.scopes = false, nil
	for s, at := range soon {
		if !now.Before(at) {
			scopes = append(scopes, s)
			delete(soon, s)
		}
	}
	for s, at := range p.pendingHeals {
		if !now.Before(at) {
			scopes = append(scopes, s)
		}
	}
	return append(scopes, ripe...), all, calls
}

// ripeScopes returns the scopes of held pages whose grace period is over: their
// absence must be seen again before it is reported.
func (p *Publisher) ripeScopes(now time.Time) []inventory.Scope {
	p.mu.Lock()
	due := !p.held.IsZero() && !p.status.MassHeld && p.ripe(p.held, now)
	p.mu.Unlock()
	if !due {
		return nil
	}
	var scopes []inventory.Scope
	last := inventory.Scope{}
	err := compare.EachHeld(p.Journal, func(e journal.Entry) {
		if s := inventory.ScopeOf(e.Item.URL); s != last && !p.mayBeAnnounced(e) && p.ripe(e.Held, now) {
			scopes, last = append(scopes, s), s
		}
	})
	if err != nil {
		p.log().Error("held pages could not be read", "err", err)
	}
	return scopes
}

// nextAt returns when there is something to do if nothing wakes Run before.
func (p *Publisher) nextAt(now, fullAt, notYet time.Time, soon map[inventory.Scope]time.Time) time.Time {
	if !notYet.IsZero() {
		return notYet // a failed scan waits for its retry
	}
	at := fullAt
	p.mu.Lock()
	if !p.held.IsZero() && !p.status.MassHeld && !p.Once {
		// Counted from now: the clock may have been changed since they were held.
		if ripe := now.Add(min(p.held.Sub(now), p.grace()) + p.grace()); ripe.Before(at) {
			at = ripe
		}
	}
	for _, t := range p.pendingHeals {
		if t.Before(at) {
			at = t
		}
	}
	p.mu.Unlock()
	for _, t := range soon {
		if t.Before(at) {
			at = t
		}
	}
	return at
}

// countMissed counts the changes that a regular scan found and no event had reported.
func (p *Publisher) countMissed(rep inventory.Report, calls int) {
	n := rep.New + rep.Changed + rep.Moved + rep.Withdrawn + rep.Held
	p.mu.Lock()
	if p.pending.calls != calls {
		n = 0 // an event may be reporting it right now
	}
	p.status.Missed += n
	p.mu.Unlock()
	if n > 0 {
		p.log().Warn("the regular scan found changes that no event had reported", "pages", n)
	}
}

// watch keeps the Inventory's Watch running.
func (p *Publisher) watch(ctx context.Context) {
	for first := true; ; first = false {
		if !first {
			p.dirty(nil) // anything may have changed meanwhile
		}
		err := p.Inventory.Watch(ctx, p.dirty)
		if ctx.Err() != nil {
			return
		}
		p.log().Warn("watching ended: until it restarts, only the regular scan finds changes", "err", err, "again_in", p.atMostHurry(retryMost))
		if !pause.For(ctx, p.atMostHurry(retryMost)) {
			return
		}
	}
}

// writeLoop writes manifest and outputs when they are behind: at once after a quiet
// period, else every WriteEvery, and a last time at the end.
func (p *Publisher) writeLoop(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			p.writeLast(ctx)
			return
		case <-p.stale:
		}
		if p.isWritten() {
			continue
		}
		if wait := cmp.Or(max(p.WriteEvery, 0), 10*time.Second) - p.now().Sub(last); !last.IsZero() && wait > 0 && !pause.For(ctx, wait) {
			p.writeLast(ctx)
			return
		}
		wrote, err := p.write(ctx)
		if wrote || err != nil {
			last = p.now()
		}
		if err != nil && ctx.Err() == nil {
			p.log().Error("manifest or outputs could not be written", "err", err, "again_in", p.atMostHurry(retryWrite))
			if pause.For(ctx, p.atMostHurry(retryWrite)) {
				pause.Wake(p.stale)
			}
		}
	}
}

func (p *Publisher) writeLast(ctx context.Context) {
	if p.isWritten() {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer stop()
	if _, err := p.write(ctx); err != nil {
		p.log().Error("manifest or outputs could not be written at shutdown", "err", err)
	}
}

// atMostHurry returns a wait, at most Hurry where that is set.
func (p *Publisher) atMostHurry(d time.Duration) time.Duration { return pause.AtMost(d, p.Hurry) }
