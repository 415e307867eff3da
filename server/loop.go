package server

import (
	"cmp"
	"context"
	"errors"
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
// retried. The manifest and the outputs are written concurrently. The changes of a minute are logged in one line, and those of
// the first scan, and vanished pages, at once. Run returns nil
// when ctx has ended and so have all goroutines that it started.
func (p *Publisher) Run(ctx context.Context) error {
	p.init()
	p.load()
	p.state.running.Store(true)
	defer p.state.running.Store(false)
	defer p.sayRecent()
	inner, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()
	owned.Go(func() { p.watch(inner) })
	owned.Go(func() { p.writeLoop(inner) })
	owned.Go(func() { p.logRecent(inner) })

	a, pace := &p.state.agenda, &p.Pace
	var (
		fullAt  time.Time                 // when everything is to be scanned
		failed  time.Time                 // when a scan failed last
		notYet  time.Time                 // set after that: no scan before it
		backoff = pace.hurried(retryLook) // the wait after the next failure
		trouble scanFailure
		every   = cmp.Or(max(pace.ScanEvery, 0), 10*time.Minute)
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := p.now()
		if a.fullScan.Swap(false) && backoff > pace.hurried(retryLook) { // the docroot seems to be back
			if backoff = pace.hurried(retryLook); failed.Add(backoff).Before(notYet) {
				notYet = failed.Add(backoff)
			}
		}
		full := !now.Before(fullAt)
		scopes, all, next := p.take(now, notYet, fullAt)
		if !all && len(scopes) == 0 {
			timer.Reset(max(0, next.Sub(now)))
			select {
			case <-ctx.Done():
				return nil
			case <-a.wake:
			case <-timer.C:
			}
			continue
		}
		if all {
			scopes = nil
		}
		rep, unsettled, err := p.scan(ctx, scopes, false)
		if ctx.Err() != nil {
			return nil
		}
		now = p.now()
		over := p.over()
		if err != nil && err != over {
			trouble.fails(p.log(), "scan failed: the published state stays as it is", err, now, backoff)
			a.add(scopes, time.Time{})
			failed, notYet, backoff = now, now.Add(backoff), pace.hurried(min(2*backoff, retryMost))
			continue
		}
		notYet, backoff = time.Time{}, pace.hurried(retryLook)
		if over == nil {
			trouble.ends(p.log())
		} else if trouble.fails(p.log(), "too many pages", over, now, every); rep.Held+rep.Gone+rep.Withdrawn > 0 {
			a.add(nil, now.Add(pace.hurried(retryMost))) // there may be few enough now
		}
		if len(unsettled) > 0 {
			a.add(unsettled, now.Add(pace.hurried(retrySoon)))
		}
		if !all {
			continue
		}
		if !fullAt.IsZero() && full {
			p.countMissed(rep)
		}
		fullAt = now.Add(every)
	}
}

// relogEvery is how often scans that keep failing for the same reason are logged.
const relogEvery = time.Hour

// A scanFailure is why scans have been failing. It is logged when the reason changes, and every relogEvery.
type scanFailure struct {
	why string // without digits, such as those of times, which differ each time
	at  time.Time
}

func (l *scanFailure) fails(log *slog.Logger, msg string, err error, now time.Time, again time.Duration) {
	why := strings.Join(strings.FieldsFunc(err.Error(), unicode.IsDigit), "")
	say := log.Debug
	if why != l.why || now.Sub(l.at) >= relogEvery {
		say, l.why, l.at = log.Error, why, now
	}
	say(msg, "err", err, "again_in", again)
}

func (l *scanFailure) ends(log *slog.Logger) {
	if l.why != "" {
		log.Info("scans succeed again")
		*l = scanFailure{}
	}
}

// take returns the scopes to scan now, or all, and when there will be more if nothing wakes Run before.
func (p *Publisher) take(now, notYet, fullAt time.Time) (scopes []inventory.Scope, all bool, next time.Time) {
	if now.Before(notYet) {
		return nil, false, notYet // a failed scan waits for its retry
	}
	scopes, all, ripe, next := p.state.agenda.take(now, fullAt, &p.Pace)
	if ripe {
		scopes = append(scopes, p.ripeScopes(now)...)
	}
	return scopes, all, next
}

// ripeScopes returns the scopes of held pages whose grace period is over: their
// absence must be seen again before it is reported.
func (p *Publisher) ripeScopes(now time.Time) []inventory.Scope {
	var scopes []inventory.Scope
	last := inventory.Scope{}
	err := compare.EachHeld(p.Journal, func(e journal.Entry) {
		if s := inventory.ScopeOf(e.Item.URL); s != last && !p.Pages.mayBeAnnounced(e) && p.Pace.ripe(e.Held, now) {
			scopes, last = append(scopes, s), s
		}
	})
	if err != nil {
		p.log().Error("held pages could not be read", "err", err)
	}
	return scopes
}

// countMissed counts the changes that a regular scan found and no event had reported.
func (p *Publisher) countMissed(rep inventory.Report) {
	n := rep.New + rep.Changed + rep.Moved + rep.Withdrawn + rep.Held
	if n > 0 && !p.state.agenda.called.Load() { // else an event may be reporting it right now
		t := &p.state.tally
		t.mu.Lock()
		t.status.Missed += n
		t.mu.Unlock()
		p.log().Warn("the regular scan found changes that no event had reported", "pages", n)
	}
}

// watch keeps the Inventory's Watch running.
func (p *Publisher) watch(ctx context.Context) {
	dirty, again := p.state.agenda.dirty, p.Pace.hurried(retryMost)
	for {
		err := p.Inventory.Watch(ctx, dirty)
		if ctx.Err() != nil {
			return
		}
		p.log().Warn("watching ended: until it restarts, only the regular scan finds changes", "err", err, "again_in", again)
		if !pause.For(ctx, again) {
			return
		}
		dirty(nil) // anything may have changed meanwhile
	}
}

// writeLoop writes manifest and outputs when they are behind: at once after a quiet
// period, else every WriteEvery, and a last time at the end.
func (p *Publisher) writeLoop(ctx context.Context) {
	defer p.writeLast(ctx)
	stale, again := p.state.stale, p.Pace.hurried(retryWrite)
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-stale:
		}
		if p.isWritten() {
			continue
		}
		if wait := cmp.Or(max(p.Pace.WriteEvery, 0), 10*time.Second) - p.now().Sub(last); !last.IsZero() && wait > 0 && !pause.For(ctx, wait) {
			return
		}
		wrote, err := p.write(ctx)
		if wrote || err != nil {
			last = p.now()
		}
		if err != nil && ctx.Err() == nil {
			p.log().Error("manifest or outputs could not be written", "err", err, "again_in", again)
			if pause.For(ctx, again) {
				pause.Wake(stale)
			}
		}
	}
}

func (p *Publisher) writeLast(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer stop()
	if _, err := p.write(ctx); err != nil && !errors.Is(err, context.Canceled) { // canceled: it is not known any more what may be published
		p.log().Error("manifest or outputs could not be written at shutdown", "err", err)
	}
}
