package server

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// An agenda is what waits to be scanned. Any goroutine may call its methods; only Run takes from it.
type agenda struct {
	wake     chan struct{} // a scope is dirty, or a scan has ended
	called   atomic.Bool   // dirty was called since take
	fullScan atomic.Bool   // dirty was called for everything: a cause of failure may be gone

	mu     sync.Mutex // guards the fields below
	all    bool       // everything is to be scanned, not before allAt
	allAt  time.Time
	scopes map[inventory.Scope]time.Time // and when to scan them: those that were being changed, a little later
	heals  compare.PendingHeals          // scopes to scan again, and when
	held   time.Time                     // when the page was held whose deletion is due next; zero if none, or if a person must accept it
}

// dirty is what the Inventory's Watch calls. It does not block.
func (a *agenda) dirty(scopes []inventory.Scope) {
	a.add(scopes, time.Time{})
	a.called.Store(true) // not before it is added: take may come in between
	if len(scopes) == 0 {
		a.fullScan.Store(true)
	}
	pause.Wake(a.wake)
}

// add adds scopes to be scanned at some time, zero for now, or everything if there are none. If there would be too many, it
// adds the directories of pages or, if that does not suffice, everything, at the time of the first of them.
func (a *agenda) add(scopes []inventory.Scope, at time.Time) {
	const most = 4 * inventory.MaxScopes
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.all && len(a.scopes)+len(scopes) > most {
		for _, was := range a.scopes {
			at = clock.Earlier(at, was)
		}
		scopes = inventory.Covering(slices.AppendSeq(slices.Clone(scopes), maps.Keys(a.scopes)))
		a.scopes = nil
	}
	if !a.all && len(scopes) == 0 {
		a.all, a.allAt = true, at
		for _, was := range a.scopes {
			a.allAt = clock.Earlier(a.allAt, was)
		}
		a.scopes = nil
	}
	if a.all {
		a.allAt = clock.Earlier(a.allAt, at)
		return
	}
	if a.scopes == nil {
		a.scopes = make(map[inventory.Scope]time.Time)
	}
	for _, s := range scopes {
		if was, ok := a.scopes[s]; !ok || at.Before(was) {
			a.scopes[s] = at
		}
	}
}

// addHeals adds the heals that a scan left pending.
func (a *agenda) addHeals(heals compare.PendingHeals, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, at := range heals {
		a.heals.Add(s, at, now)
	}
}

// removeHeals removes the pending heals of the scopes that are scanned now.
func (a *agenda) removeHeals(scopes []inventory.Scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(scopes) == 0 {
		a.heals = nil
	}
	for _, s := range scopes {
		delete(a.heals, s)
	}
}

// nearHeals returns the scopes of the pending heals for which a Turn waits, and until when.
func (a *agenda) nearHeals(now time.Time) (scopes []inventory.Scope, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, at := range a.heals {
		if at.Sub(now) <= compare.HealPatience {
			scopes, until = append(scopes, s), clock.Later(until, at)
		}
	}
	return scopes, until
}

// hold sets when the page was held whose deletion is due next.
func (a *agenda) hold(since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = since
}

// take returns the scopes to scan now, or all; whether a held page is to be checked again; and when there will be
// more, fullAt or earlier, if nothing is added.
func (a *agenda) take(now, fullAt time.Time, pace *Pace) (scopes []inventory.Scope, all, ripe bool, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next = fullAt
	if a.all {
		next = clock.Earlier(next, a.allAt)
	}
	if all = !now.Before(next); all {
		a.all, next = false, fullAt
	}
	a.called.Store(false)
	for _, waiting := range []map[inventory.Scope]time.Time{a.heals, a.scopes} {
		for s, at := range waiting {
			if !now.Before(at) {
				scopes = append(scopes, s)
			} else if at.Before(next) {
				next = at
			}
		}
	}
	maps.DeleteFunc(a.scopes, func(_ inventory.Scope, at time.Time) bool { return all || !now.Before(at) })
	if a.held.IsZero() {
		return scopes, all, false, next
	}
	// Counted from now: the clock may have been changed since they were held.
	if at := now.Add(min(a.held.Sub(now), pace.grace()) + pace.grace()); at.Before(next) && !pace.Once {
		next = at
	}
	return scopes, all, pace.ripe(a.held, now), next
}
