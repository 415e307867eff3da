package docroot

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// How long a path must rest before it is looked at.
const (
	settleQuiet = 15 * time.Millisecond // editors write, sync and rename within less
	settleMost  = 2 * time.Second       // the longest, for a path that keeps changing
	settleEmpty = time.Second           // an empty file is about to be written, as a rule
	settleLimit = 10 * time.Second      // looked at all the same, so that nothing can starve
)

// settleAgain is how soon a path must change again after its last event, in
// terms of what it had to rest then, to be one that keeps changing: it must
// rest twice as long this time. So a file that is being written in pieces, of
// whatever size, is not read anew for every piece.
const settleAgain = 8

// maxTold is how many paths that have settled are remembered for that.
const maxTold = 1 << 12

// maxSettling is how many paths are followed one by one. Beyond it everything is dirty.
const maxSettling = 1 << 16

// settling is the set of paths that are being changed at this moment: Watch
// fills it, and Look leaves alone what is in it. Paths are absolute and
// without symbolic links. The zero settling is empty.
type settling struct {
	mu    sync.Mutex
	paths map[string]changing
	told  map[string]changing // the last that have settled
	hurry time.Duration       // above zero: the longest rest of a path, see Settings
}

// changing is how a path has been changing.
type changing struct {
	path        string
	first, last time.Time // events
	least       time.Duration
	empty       bool // it was when it had rested for long enough
}

// rested is when the path will have rested long enough: as long as it has been
// changing, so that the wait doubles while it goes on, within limits.
func (q *settling) rested(c changing) time.Time {
	quiet := pause.AtMost(min(max(c.last.Sub(c.first), c.least), settleMost), q.hurry)
	if c.empty {
		quiet = max(quiet, pause.AtMost(settleEmpty, q.hurry))
	}
	at := c.last.Add(quiet)
	if limit := c.first.Add(settleLimit); limit.Before(at) {
		return limit
	}
	return at
}

// note takes in that a path changed. It reports false if there are too many.
func (q *settling) note(path string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, known := q.paths[path]
	if !known {
		if len(q.paths) >= maxSettling {
			return false
		}
		if q.paths == nil {
			q.paths = make(map[string]changing)
		}
		c = changing{path: path, first: now, least: settleQuiet}
		if t, ok := q.told[path]; ok && now.Sub(t.last) < settleAgain*t.least {
			c.least = min(2*t.least, settleMost)
		}
	}
	c.last, c.empty = now, false
	q.paths[path] = c
	return true
}

// due returns the paths that have rested, which stay in the set, and when the
// next of the others will have; zero if there are none.
func (q *settling) due(now time.Time) (due []changing, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.paths {
		if at := q.rested(c); !at.After(now) {
			due = append(due, c)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return due, next
}

// wait keeps a path in the set for longer because it is empty. It reports
// false if the path has been kept for long enough.
func (q *settling) wait(c changing, now time.Time) bool {
	c.empty = true
	if !q.rested(c).After(now) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paths[c.path].last.Equal(c.last) {
		q.paths[c.path] = c
	}
	return true
}

// done takes a path out of the set. It reports false, and leaves it there, if
// the path has changed again meanwhile.
func (q *settling) done(c changing, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.paths[c.path]
	if !p.last.Equal(c.last) && now.Before(p.first.Add(settleLimit)) {
		return false
	}
	delete(q.paths, c.path)
	if q.told == nil || len(q.told) >= maxTold {
		q.told = make(map[string]changing)
	}
	q.told[c.path] = p
	return true
}

// has reports whether a file of a tree is being changed.
func (q *settling) has(t *tree, real string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.paths) == 0 {
		return false
	}
	_, ok := q.paths[t.abs(real)]
	return ok
}

// hasPath is has for a path of its own.
func (q *settling) hasPath(path string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.paths[path]
	return ok
}

func (q *settling) clear() {
	q.mu.Lock()
	q.paths, q.told = nil, nil
	q.mu.Unlock()
}
