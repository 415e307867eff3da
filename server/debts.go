package server

import (
	"context"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// healRounds is how often a Turn looks again at pages whose time was still to
// come: they may have been written again meanwhile.
const healRounds = 2

// owe takes in what a look could not heal yet, and warns of what it
// never will.
func (p *Publisher) owe(found *compare.Found, now time.Time) {
	if found.Unhealed > 0 {
		p.log().Warn("some files keep the time that they have: a web server may tell visitors that they changed, or that they did not",
			"files", found.Unhealed, "err", found.Unhealing)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, at := range found.Owed {
		p.owed.Add(s, at, now)
	}
}

// pay takes off the list what is looked at now.
func (p *Publisher) pay(scopes []inventory.Scope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(scopes) == 0 {
		p.owed = nil
	}
	for _, s := range scopes {
		delete(p.owed, s)
	}
}

// healOwed waits until the times that could not be set have come, and looks at
// those pages again.
func (p *Publisher) healOwed(ctx context.Context, rep *inventory.Report) error {
	for range healRounds {
		var scopes []inventory.Scope
		var at time.Time
		p.mu.Lock()
		now := p.now()
		for s, t := range p.owed {
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
		next, _, err := p.look(ctx, scopes, false)
		next.Unchanged, next.LeftOut, next.Unread, next.Unsettled = rep.Unchanged, rep.LeftOut, rep.Unread, rep.Unsettled
		rep.Add(next) // of a few pages only
		rep.Head = next.Head
		if err != nil {
			return err
		}
	}
	return nil
}
