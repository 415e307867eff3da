package doors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A group is the streams of equal selections that have everything. One goroutine reads the log for all of them, writes to
// each what its connection takes at once, and sends heartbeats. A stream that cannot be served so, for example because its
// client reads slowly, leaves the group, and returns when it has everything again. So an idle stream needs neither
// a goroutine that writes nor a timer.
type group struct {
	of   *groups
	key  string     // of the selection
	sel  *selection // of its own: that of a stream notes the stream's bundles
	ctx  context.Context
	stop context.CancelFunc // without streams the group ends

	mu      sync.Mutex // guards the fields below, and those of the streams that writers use
	at      protocol.Cursor
	streams []*stream // at this cursor, or at a later one
	over    bool
}

// groups are all groups of a site. Any number of goroutines may use them.
type groups struct {
	frames      *frames
	subscribers *subscribers
	counts      *counters
	heartbeat   time.Duration

	mu    sync.Mutex
	byKey map[string]*group // by the key of the selection
}

// sweepEvery is the time between two looks for heartbeats that are due.
func (gs *groups) sweepEvery() time.Duration { return gs.heartbeat / 10 }

// join gives a stream to the group of its selection. It returns false if the stream has to write for itself: if it has
// ended, or the group has begun to send what this reader does not have.
func (gs *groups) join(s *stream) bool {
	for {
		gs.mu.Lock()
		if s.life.loop.Err() != nil { // checked with gs.mu held: see takeBack
			gs.mu.Unlock()
			return false
		}
		g, found := gs.byKey[s.sel.key]
		if !found {
			sel := *s.sel
			g = &group{of: gs, key: sel.key, sel: &sel, at: s.pos.at}
			g.ctx, g.stop = context.WithCancel(context.Background())
			if gs.byKey == nil {
				gs.byKey = make(map[string]*group)
			}
			gs.byKey[g.key] = g
			g.mu.Lock() // at once: nobody else has it yet
		}
		gs.mu.Unlock()
		if found {
			g.mu.Lock()
		}
		over := g.over
		joined := !over && s.life.loop.Err() == nil && s.pos.at.Epoch == g.at.Epoch && s.pos.at.Seq >= g.at.Seq
		if joined {
			g.add(s)
		}
		if g.endIfEmpty(); !found && !g.over {
			gs.subscribers.served.Add(1)
			go g.run()
		}
		g.mu.Unlock()
		if !over {
			return joined
		}
	}
}

// takeBack takes a stream whose loop has ended from its group, and returns false if it is in none: then a goroutine of its own
// writes, or it has ended. That goroutine joins no group any more.
func (gs *groups) takeBack(s *stream) bool {
	gs.mu.Lock()
	g := gs.byKey[s.sel.key]
	gs.mu.Unlock()
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ok := s.place >= 0
	g.remove(s)
	g.endIfEmpty()
	return ok
}

// add, and the methods below it, are called with mu held.
func (g *group) add(s *stream) {
	s.place = len(g.streams)
	g.streams = append(g.streams, s)
}

// remove removes a stream, if it is there. The last one takes its place.
func (g *group) remove(s *stream) {
	if s.place < 0 {
		return
	}
	last := len(g.streams) - 1
	g.streams[s.place] = g.streams[last]
	g.streams[s.place].place = s.place
	g.streams[last] = nil
	g.streams = g.streams[:last]
	s.place = -1
}

func (g *group) endIfEmpty() {
	if len(g.streams) > 0 || g.over {
		return
	}
	g.over = true
	g.stop()
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	delete(g.of.byKey, g.key)
}

// run serves the group until it has no streams.
func (g *group) run() {
	defer g.of.subscribers.served.Done()
	var waited *notReady
	for swept := time.Now(); g.ctx.Err() == nil; {
		if time.Since(swept) >= g.of.sweepEvery() {
			g.sweep()
			swept = time.Now()
		}
		fr, err := g.of.frames.after(g.ctx, g.sel, g.at, waited)
		none := (*notReady)(nil)
		switch {
		case err == nil:
			g.send(fr)
		case errors.As(err, &none) && none.head:
			ctx, cancel := context.WithDeadline(g.ctx, swept.Add(g.of.sweepEvery()))
			if err := none.until(ctx); err == nil {
				waited = none
			} else if ctx.Err() == nil {
				g.all(g.release)
			}
			cancel()
		default:
			g.all(g.release) // each reader is told by itself
		}
	}
}

// all calls f with each stream, which f may remove.
func (g *group) all(f func(*stream)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.each(f)
}

func (g *group) each(f func(*stream)) {
	for i := len(g.streams) - 1; i >= 0; i-- {
		f(g.streams[i])
	}
}

// send sends a frame to all streams, to those of addresses with many streams last.
func (g *group) send(fr *frame) {
	at := fr.to // not the frame's, which would stay in memory
	p := &pass{now: time.Now(), at: &at}
	var crowded []*stream
	g.mu.Lock()
	defer g.mu.Unlock()
	g.each(func(s *stream) {
		switch {
		case s.pos.at != fr.from && s.pos.at.Seq < fr.to.Seq:
			g.release(s) // it came between two frames
		case s.pos.at != fr.from: // it has all of the frame
		case s.skips(fr):
			s.pos.at = fr.to
			s.request.at.Store(p.at)
		case g.of.subscribers.admitted.Crowded(s.sel.addr):
			crowded = append(crowded, s)
		default:
			g.sendTo(s, fr, p)
		}
	})
	for _, s := range crowded {
		g.sendTo(s, fr, p)
	}
	g.at = fr.to
	g.of.counts.sent(g.sel.as, p.sent, fr)
}

// A pass is one message to all streams of a group.
type pass struct {
	now   time.Time
	at    *protocol.Cursor // where the streams are after it
	sent  int
	marks map[place]*frame // see mark
}

func (g *group) sendTo(s *stream, fr *frame, p *pass) {
	if !s.conn.CanTry() || s.r != nil && !s.sel.isStillKnown(s.r) {
		g.release(s)
		return
	}
	if fr.from != s.pos.said && !g.mark(s, p) {
		return
	}
	s.pos.at, s.pos.said = fr.to, fr.to
	s.request.at.Store(p.at)
	p.sent++
	g.try(s, fr, p.now)
}

// markOf returns the mark that moves a reader from a cursor to another.
func (gs *groups) markOf(from, to protocol.Cursor) protocol.Message {
	return protocol.Message{Kind: protocol.Mark, From: from, To: to, Head: gs.frames.log.Head(), At: gs.frames.now()}
}

// mark sends a mark to a stream, and returns false if the stream had to leave.
func (g *group) mark(s *stream, p *pass) bool {
	at := place{selection: s.pos.said.String(), at: s.pos.at}
	fr := p.marks[at]
	if fr == nil {
		m := g.of.markOf(s.pos.said, s.pos.at)
		fr = &frame{text: m.Encode()}
		if p.marks == nil {
			p.marks = make(map[place]*frame)
		}
		p.marks[at] = fr
	}
	s.pos.said = s.pos.at
	g.of.counts.frames.Add(1)
	return g.try(s, fr, p.now)
}

// try writes a frame to a stream, and returns false if the stream had to leave.
func (g *group) try(s *stream, fr *frame, now time.Time) (done bool) {
	s.pos.told = now
	if done, s.broken = s.conn.TryWrite(fr.prepared(s.packing)); !done {
		g.release(s)
	}
	return done
}

// release makes a stream write for itself.
func (g *group) release(s *stream) {
	g.remove(s)
	g.endIfEmpty()
	go s.write(nil)
}

// sweep sends the heartbeats that are due before the next sweep.
func (g *group) sweep() {
	p := &pass{now: time.Now()}
	g.all(func(s *stream) {
		quiet := s.quiet() <= g.of.sweepEvery()
		switch {
		case !quiet && p.now.Sub(s.pos.pinged) < g.of.heartbeat:
		case !s.conn.CanTry():
			g.release(s)
		default:
			s.ping()
			if quiet {
				g.mark(s, p)
			}
		}
	})
}
