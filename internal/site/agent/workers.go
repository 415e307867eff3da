package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// slots bound the programs that run at a time: Options.Running in all, and one of each sender. Any goroutine may call enter.
type slots struct {
	running chan struct{} // a semaphore
	closed  chan struct{} // closed by workers.close

	mu      sync.Mutex               // guards senders
	senders map[string]chan struct{} // a semaphore of one slot for each
}

// enter waits for a slot. A sender has one at a time, so that a sender with
// many questions waits behind its own, and does not delay others.
func (s *slots) enter(ctx context.Context, who string) (leave func(), err error) {
	s.mu.Lock()
	own := s.senders[who]
	if own == nil { // few senders may upload programs: the map stays small
		own = make(chan struct{}, 1)
		if s.senders == nil {
			s.senders = make(map[string]chan struct{})
		}
		s.senders[who] = own
	}
	s.mu.Unlock()
	var taken []chan struct{}
	leave = func() {
		for _, slot := range slices.Backward(taken) {
			<-slot
		}
	}
	for _, slot := range []chan struct{}{own, s.running} {
		select {
		case slot <- struct{}{}:
			taken = append(taken, slot)
		case <-ctx.Done():
		case <-s.closed:
		}
		if ctx.Err() != nil || isClosed(s.closed) { // several cases may have been ready
			leave()
			return nil, cmp.Or(ctx.Err(), errClosed)
		}
	}
	return leave, nil
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// workers are idle processes, each kept for the next question to its program. Any goroutine may call the methods but reap.
type workers struct {
	opts   *Options
	closed chan struct{}  // closed by close
	owned  sync.WaitGroup // has reap, from the first process to close

	mu      sync.Mutex // guards the fields below
	idle    []*worker  // the longest unused first
	reaping bool
}

// take returns a process that has loaded a program, nil if there is none.
func (p *workers) take(k key) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.idle {
		if w.key == k {
			p.idle = slices.Delete(p.idle, i, i+1)
			return w
		}
	}
	return nil
}

// put adds a process, and ends those beyond Options.Resident.
func (p *workers) put(w *worker) {
	w.used = p.opts.Now()
	p.mu.Lock()
	p.idle = append(p.idle, w)
	n := len(p.idle)
	if !isClosed(p.closed) {
		n -= p.opts.Resident
		if !p.reaping {
			p.reaping = true
			p.owned.Go(p.reap)
		}
	}
	p.unlockWithout(n)
}

// unlockWithout ends the n processes that have been idle for longest. The caller holds mu.
func (p *workers) unlockWithout(n int) {
	gone := p.idle[:max(0, n)]
	p.idle = p.idle[len(gone):]
	p.mu.Unlock()
	for _, w := range gone {
		w.stop()
	}
}

// close ends the idle processes; those that are put later end at once. It returns false if it has been called before.
func (p *workers) close() bool {
	p.mu.Lock()
	first := !isClosed(p.closed)
	if first {
		close(p.closed)
	}
	p.unlockWithout(len(p.idle))
	return first
}

// reap ends processes that have been idle for Options.Idle.
func (p *workers) reap() {
	tick := time.NewTicker(p.opts.Idle)
	defer tick.Stop()
	for {
		select {
		case <-p.closed:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		n := 0
		for n < len(p.idle) && p.opts.Now().Sub(p.idle[n].used) >= p.opts.Idle {
			n++
		}
		p.unlockWithout(n)
	}
}
