package crawl

import (
	"context"
	"sync"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// work counts what a run has under way, and ends the run. Its lock guards the fields below it, and all state whose comment names
// "the work's lock": a site, its sources and the frontier must change together with the count of tasks under way. Otherwise the
// Manager could find no task under way between two of these changes, and end the crawl.
type work struct {
	ctx    context.Context // of all work; the last commits are made after it has ended
	asking context.Context // ends with ctx, or when a Stop is reached: tasks not fetched yet are given back
	cancel context.CancelFunc
	stop   context.CancelFunc // ends asking
	news   chan struct{}      // the frontier or a source has something new
	group  sync.WaitGroup     // followers and other background work
	begun  sync.WaitGroup     // goroutines that readers have started

	sync.Mutex
	busy   int                      // tasks given to the harvester and not committed, and other work that may find pages
	out    map[frontier.PageID]bool // pages that are being fetched
	reason string                   // why the crawl is to end; empty: it continues
	failed error                    // the first fatal error
}

// fail ends the run with an error; the first one counts.
func (w *work) fail(err error) {
	w.Lock()
	defer w.Unlock()
	if w.failed == nil {
		w.failed = err
	}
	w.cancel()
}

// add counts work that may make pages ready.
func (w *work) add(busy int) {
	w.Lock()
	defer w.Unlock()
	w.busy += busy
}

// checkStop ends the crawl if a limit is reached; reached is the result of Stop.reached. It does not
// wait for the open batch, which may take hours.
func (w *work) checkStop(reached string) {
	w.Lock()
	defer w.Unlock()
	if w.reason == "" {
		w.reason = reached
	}
	if w.reason != "" {
		w.stop()
		w.rouse()
	}
}

// rouse wakes the Manager.
func (w *work) rouse() {
	pause.Wake(w.news)
}
