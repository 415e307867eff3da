package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/robots"
)

// How long robots.txt is believed, and how often it is asked for when the
// site does not answer.
const (
	robotsAge   = 24 * time.Hour
	robotsRetry = time.Minute
)

// Limits of waiting for a site that is in trouble.
const (
	firstBackoff  = time.Second // doubled with each answer of the kind
	lastBackoff   = 10 * time.Minute
	silentBackoff = time.Minute // for no answer at all: that costs the site nothing
	maxRetryAfter = 24 * time.Hour
	maxCrawlDelay = time.Hour
)

// manners is when the site may be asked again. The fetching goroutine owns
// it, but for alive.
type manners struct {
	robots *robots.File // nil before the first answer
	body   string       // of the robots.txt in force
	stale  time.Time    // when robots.txt is to be asked for again

	mu     sync.Mutex
	gap    time.Duration // between two requests
	last   time.Time     // when the last request of any kind began
	next   time.Time     // the earliest next request
	faults int           // answers in a row that say that the site is in trouble
	silent bool          // the last of them was no answer at all
}

// obey puts a robots.txt in force.
func (m *manners) obey(f *robots.File, body string, delay time.Duration, now time.Time) {
	m.robots, m.body, m.stale = f, body, now.Add(robotsAge)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gap = max(0, delay, min(f.CrawlDelay(Agent), maxCrawlDelay))
}

// at returns the earliest time of the next request.
func (m *manners) at() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next
}

// pace waits until the gap after the last request of any kind is over, and
// then counts as a request.
func (m *manners) pace(ctx context.Context) error {
	for {
		m.mu.Lock()
		wait := time.Until(m.last.Add(m.gap))
		if wait <= 0 {
			m.last = time.Now()
		}
		m.mu.Unlock()
		if wait <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// done notes the end of a request that the site could answer.
func (m *manners) done(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults, m.silent = 0, false
	m.next = now.Add(m.gap)
}

// trouble notes an answer that says to come later, or none at all.
func (m *manners) trouble(now time.Time, silent bool, retryAfter time.Duration) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := lastBackoff
	if silent {
		most = silentBackoff
	}
	wait := min(firstBackoff<<min(m.faults, 20), most)
	m.faults++
	m.silent = silent
	m.next = now.Add(max(wait, min(retryAfter, maxRetryAfter), m.gap))
	return m.next
}

// alive notes that the site was heard of by another way: if it was silent, it
// need not be waited for any longer. What it asked for itself stands.
func (m *manners) alive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent {
		m.faults, m.silent, m.next = 0, false, time.Now().Add(m.gap)
	}
}
