package evidence

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A job is a page to be asked for.
type job struct {
	page   string
	want   protocol.Digest // of the bytes that are held; zero if nobody knows
	length int64
	tries  int // how often other bytes came
}

const (
	mostUrgent = 100_000 // edits that wait to be asked for; more are found by the next round
	mostWanted = 1000    // pages that somebody asked the bytes of
	mostWaits  = 64      // edits: with more of them nobody waits for one
)

// work is what is to be asked for: what was edited at once, all else in turn.
type work struct {
	mu      sync.Mutex
	urgent  []job
	later   []laterJob // by their time
	wanted  map[string]struct{}
	waiting map[string]chan struct{} // closed when the page was asked for

	wake   chan struct{} // something is urgent
	round  chan struct{} // a round is to begin
	wants  chan struct{} // something is wanted
	doubts chan struct{} // pages are refused that were public
	timer  chan struct{} // later has become another
}

type laterJob struct {
	job
	at time.Time
}

func (w *work) init() {
	w.wanted, w.waiting = make(map[string]struct{}), make(map[string]chan struct{})
	w.wake, w.round, w.wants = make(chan struct{}, atOnce), make(chan struct{}, 1), make(chan struct{}, 1)
	w.doubts, w.timer = make(chan struct{}, 1), make(chan struct{}, 1)
}

func (w *work) anew()  { pause.Wake(w.round) }
func (w *work) doubt() { pause.Wake(w.doubts) }

// urge has a page asked for before all others.
func (w *work) urge(j job) {
	w.mu.Lock()
	if len(w.urgent) < mostUrgent {
		w.urgent = append(w.urgent, j)
		if w.waiting[j.page] == nil {
			w.waiting[j.page] = make(chan struct{})
		}
	}
	w.mu.Unlock()
	pause.Wake(w.wake)
}

// next returns what is most urgent.
func (w *work) next() (job, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.urgent) == 0 {
		w.urgent = nil
		return job{}, false
	}
	j := w.urgent[0]
	if w.urgent = w.urgent[1:]; len(w.urgent) > 0 {
		pause.Wake(w.wake)
	}
	return j, true
}

// answered lets those go on who wait for a page.
func (w *work) answered(page string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.waiting[page]; c != nil {
		close(c)
		delete(w.waiting, page)
	}
}

// wait returns what is closed when a page was asked for; nil if it is not
// about to be.
func (w *work) wait(page string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.urgent) > mostWaits {
		return nil
	}
	return w.waiting[page]
}

// postpone has a page asked for again at a time.
func (w *work) postpone(j job, at time.Time) {
	w.mu.Lock()
	if len(w.later) < mostUrgent {
		w.later = append(w.later, laterJob{j, at})
	}
	w.mu.Unlock()
	pause.Wake(w.timer)
}

// due makes urgent what was postponed until now, and returns when the next is.
func (w *work) due(now time.Time) (next time.Time) {
	w.mu.Lock()
	rest := w.later[:0]
	for _, l := range w.later {
		switch {
		case !l.at.After(now):
			w.urgent = append(w.urgent, l.job)
			pause.Wake(w.wake)
			continue
		case next.IsZero() || l.at.Before(next):
			next = l.at
		}
		rest = append(rest, l)
	}
	w.later = rest
	w.mu.Unlock()
	return next
}

// want notes that somebody asked for the bytes of a page.
func (w *work) want(page string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wanted) < mostWanted {
		w.wanted[page] = struct{}{}
		pause.Wake(w.wants)
	}
}

// takeWanted returns them, once.
func (w *work) takeWanted() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for page := range w.wanted {
		list = append(list, page)
	}
	clear(w.wanted)
	return list
}
