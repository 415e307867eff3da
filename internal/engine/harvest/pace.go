package harvest

import (
	"io"
	"sync"
	"time"
)

// A pace cuts a connection whose response is silent for too long, or too slow. The goroutine
// that reads the response starts and stops it.
type pace struct {
	mu      sync.Mutex // guards the rest
	timer   *time.Timer
	cut     func() // nil: nothing is awaited
	late    error  // why it has cut the connection
	window  time.Duration
	minimum int64     // bytes a window; 0 means any number over 0
	due     time.Time // end of the window
	got     int64     // bytes in it
	end     time.Time // deadline of the whole
	busy    time.Time // since when our own side has been busy, which is not the site's fault; zero: the site is awaited
}

// start requires minimum bytes in every window, and the end of the response within whole. Nothing counts
// the bytes of a header: it is due at the end of the first window.
func (p *pace) start(cut func(), window, whole time.Duration, minimum int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.cut, p.window, p.minimum, p.end, p.busy = cut, window, minimum, now.Add(whole), time.Time{}
	if p.timer == nil {
		p.timer = time.AfterFunc(whole, p.tick)
	}
	p.begin(now)
}

// begin begins a window. The lock is held.
func (p *pace) begin(now time.Time) {
	wait := min(p.window, p.end.Sub(now))
	p.got, p.due = 0, now.Add(wait)
	p.timer.Reset(wait)
}

func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = nil
	p.timer.Stop()
}

func (p *pace) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.cut == nil || now.Before(p.due) || !p.busy.IsZero():
		return // stopped, started again or paused since the timer fired
	case !now.Before(p.end):
		p.late = errLong
	case p.got == 0:
		p.late = errSilent
	case p.got < p.minimum:
		p.late = errSlow
	default:
		p.begin(now)
		return
	}
	p.cut()
	p.cut = nil
}

// cause returns why the connection was cut, or else err.
func (p *pace) cause(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || p.late == nil {
		return err
	}
	return p.late
}

// pause says that n bytes came, and that nothing is awaited for now.
func (p *pace) pause(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got += int64(n)
	p.busy = time.Now()
}

// resume awaits bytes again: the window is longer by the pause.
func (p *pace) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == nil || p.busy.IsZero() {
		return
	}
	now := time.Now()
	if d := now.Sub(p.busy); d > shortPause || !now.Before(p.due) {
		p.due = p.due.Add(d)
		p.timer.Reset(p.due.Sub(now))
	}
	p.busy = time.Time{}
}

const shortPause = 10 * time.Millisecond // not worth setting the timer for

// A paced body counts its bytes.
type paced struct {
	io.ReadCloser
	pace *pace
}

func (b paced) Read(p []byte) (int, error) {
	b.pace.resume()
	n, err := b.ReadCloser.Read(p)
	b.pace.pause(n)
	return n, err
}
