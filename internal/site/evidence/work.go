package evidence

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// A job is a page to fetch.
type job struct {
	page   string
	want   protocol.Digest // of the file; zero if unknown
	length int64
	tries  int // how often other bytes came
}

const (
	mostUrgent = 100_000 // edited pages waiting for a fetch; the next round finds the others
	mostWanted = 1000    // pages whose bytes were requested
	mostWaits  = 64      // with more urgent pages than this no reader waits for one
)

// work is the queue of pages to fetch: edited pages at once, all others in rounds.
type work struct {
	mu      sync.Mutex
	urgent  []job
	later   []laterJob
	wanted  map[string]bool
	waiting map[string]chan struct{} // closed when the page was fetched

	wake   chan struct{} // urgent is not empty
	round  chan struct{} // start a round
	wants  chan struct{} // wanted is not empty
	doubts chan struct{} // public pages were refused
	timer  chan struct{} // later has changed

	news    chan inventory.Scope // to be scanned again; see Keeper.Watching
	changed func(page string)    // see Keeper.Changed; may be nil
}

type laterJob struct {
	job
	at time.Time
}

func (w *work) init() {
	w.wanted, w.waiting = make(map[string]bool), make(map[string]chan struct{})
	w.wake, w.round, w.wants = make(chan struct{}, atOnce), make(chan struct{}, 1), make(chan struct{}, 1)
	w.doubts, w.timer = make(chan struct{}, 1), make(chan struct{}, 1)
	w.news = make(chan inventory.Scope, 1000)
}

// tell requests a scan of a page's directory, or of everything if too many are queued.
func (w *work) tell(page string) {
	select {
	case w.news <- inventory.ScopeOf(page):
	default: // the reader finds the queue full, and scans everything
	}
	if w.changed != nil {
		w.changed(page)
	}
}

// urge queues a page before all pages of a round.
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

// answered wakes the readers that wait for a page.
func (w *work) answered(page string) {
	if w.changed != nil {
		w.changed(page)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.waiting[page]; c != nil {
		close(c)
		delete(w.waiting, page)
	}
}

// wait returns a channel that is closed when a page has been fetched; nil if that
// is not about to happen.
func (w *work) wait(page string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.urgent) > mostWaits {
		return nil
	}
	return w.waiting[page]
}

// postpone queues a page for another fetch at a time.
func (w *work) postpone(j job, at time.Time) {
	w.mu.Lock()
	if len(w.later) < mostUrgent {
		w.later = append(w.later, laterJob{j, at})
	}
	w.mu.Unlock()
	pause.Wake(w.timer)
}

// due makes the postponed pages that are due urgent, and returns when the next one is due.
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

// want records that a reader requested the bytes of a page.
func (w *work) want(page string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wanted) < mostWanted {
		w.wanted[page] = true
		pause.Wake(w.wants)
	}
}

// takeWanted returns the wanted pages, and clears the set.
func (w *work) takeWanted() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for page := range w.wanted {
		list = append(list, page)
	}
	clear(w.wanted)
	return list
}
