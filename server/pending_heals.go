package server

import (
	"context"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// healRounds is how often a Turn scans pages again whose time was in the
// future: they may have been written again meanwhile.
const healRounds = 2

// addPendingHeals adds the heals that a scan left pending, and warns of files that cannot be healed.
func (p *Publisher) addPendingHeals(found *compare.Found, now time.Time) {
	if found.Unhealed > 0 {
		p.log().Warn("some mtimes could not be restored: the web server may report a wrong Last-Modified for these files",
			"files", found.Unhealed, "err", found.Unhealing)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, at := range found.PendingHeals {
		p.pendingHeals.Add(s, at, now)
	}
}

// removePendingHeals removes the pending heals of the scopes that are scanned now.
func (p *Publisher) removePendingHeals(scopes []inventory.Scope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(scopes) == 0 {
		p.pendingHeals = nil
	}
	for _, s := range scopes {
		delete(p.pendingHeals, s)
	}
}

// healPending waits until the times that could not be set have come, and scans
// those pages again.
func (p *Publisher) healPending(ctx context.Context, rep *inventory.Report) error {
	for range healRounds {
		var scopes []inventory.Scope
		var at time.Time
		p.mu.Lock()
		now := p.now()
		for s, t := range p.pendingHeals {
			if t.Sub(now) <= compare.HealPatience {
				scopes, at = append(scopes, s), clock.Later(at, t)
			}
		}
		p.mu.Unlock()
		if len(scopes) == 0 || p.running.Load() {
			return nil
		}
		if !pause.For(ctx, at.Sub(now)) {
			return ctx.Err()
		}
		next, _, err := p.scan(ctx, scopes, false)
		next.Unchanged, next.LeftOut, next.Unread, next.Unsettled = rep.Unchanged, rep.LeftOut, rep.Unread, rep.Unsettled
		rep.Add(next) // these are of a few pages only
		rep.Head = next.Head
		if err != nil {
			return err
		}
	}
	return nil
}
