package docroot

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// Debounce: how long a path must be without events before it is scanned.
const (
	settleQuiet = 15 * time.Millisecond // editors write, sync and rename within less
	settleMost  = 2 * time.Second       // the longest, for a path that keeps changing
	settleEmpty = time.Second           // an empty file is usually about to be written
	settleLimit = 10 * time.Second      // since the first event: then it is scanned all the same, so that no path starves
)

// settleAgain detects a path that keeps changing: if its next event comes within settleAgain times its last
// debounce, that doubles. So a file that is written in pieces, of whatever size, is not read anew for every
// piece.
const settleAgain = 8

// maxTold bounds the settled paths that are remembered for that.
const maxTold = 1 << 12

// maxSettling bounds the paths that are tracked one by one. Beyond it everything is dirty.
const maxSettling = 1 << 16

// settling is the set of paths that are being changed at this moment: Watch fills it, and Scan marks its
// files Unsettled. Paths are absolute and without symbolic links. The zero settling is empty.
type settling struct {
	mu    sync.Mutex
	paths map[string]changing
	told  map[string]changing // the last paths that have settled
	hurry time.Duration       // above zero: the longest debounce, see Settings
}

// changing is the recent history of a path.
type changing struct {
	path        string
	first, last time.Time // events
	least       time.Duration
	empty       bool // the file was empty after its debounce
	left        bool // by its last event it was removed or renamed
}

// rested returns when the path will have settled: it must rest for as long as it has been changing, so that
// the wait doubles while it goes on, within limits.
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

// note records an event of a path, and whether the path has left by it. It reports false if there are too many paths.
func (q *settling) note(path string, now time.Time, left bool) bool {
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
	c.last, c.empty, c.left = now, false, left
	q.paths[path] = c
	return true
}

// due returns the paths that have settled, which stay in the set, and when the next of the others will have;
// zero if there are none. If any have settled, left are the others that have left and were not returned before: a
// new file may be one of them under another name, which only a scan of both can tell.
func (q *settling) due(now time.Time) (due []changing, left []string, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.paths {
		if at := q.rested(c); !at.After(now) {
			due = append(due, c)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if len(due) == 0 {
		return nil, nil, next
	}
	for path, c := range q.paths {
		if c.left {
			c.left = false
			q.paths[path] = c
			left = append(left, path)
		}
	}
	return due, left, next
}

// wait keeps an empty file in the set for longer. It reports false if it has been kept for long enough.
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

// done removes a path from the set. It reports false, and leaves it there, if the path has changed again
// meanwhile and its settleLimit is not over.
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

// hasPath is has for an absolute path.
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
