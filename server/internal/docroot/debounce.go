package docroot

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
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

// A file that is complete, since its writer has closed it or it was renamed to its name, needs no debounce.
const (
	settleOpen  = 30 * time.Second       // since the first event: how long a file waits for a writer that is known to have it open
	settleBurst = 100 * time.Millisecond // how long no file must be created after a burst of creations, before its files are scanned
	burstLeast  = 4                      // creations in settleMost that are no burst
)

// An event is what has happened to a path.
type event int

const (
	touched  event = iota // its content or its metadata have changed
	left                  // it was removed or renamed
	otherDir              // a directory stands there now, or no longer: one that was renamed is scanned under both names at once
	created               // the file is new
	written               // a writer that has not closed the file has changed it, or its length was changed
	complete              // its writer has closed it, or it was renamed to this name
)

// settling is the set of paths that are being changed at this moment: Watch fills it, and Scan marks its
// files Unsettled. Paths are absolute and without symbolic links. The zero settling is empty.
type settling struct {
	mu     sync.Mutex
	paths  map[string]changing
	told   map[string]changing // the last paths that have settled
	robots string              // the path of robots.txt: while that is in the set, no other path is due
	burst  int                 // files created, without a pause of settleMost
	newest time.Time           // when the last of them was
	hurry  time.Duration       // above zero: the longest debounce, see Settings
}

// changing is the recent history of a path.
type changing struct {
	path        string
	first, last time.Time // events
	least       time.Duration
	empty       bool      // the file was empty after its debounce
	left        bool      // by its last event it was removed or renamed
	isNew       bool      // it was created, and not renamed since
	writes      int       // since it was complete: if there are several, a writer has it open
	complete    bool      // its last event says so, and it was not complete within settleMost before
	completed   time.Time // the last time
}

// limit returns when the path is scanned whatever happens to it.
func (q *settling) limit(c changing) time.Time {
	if c.writes > 1 {
		return c.first.Add(pause.AtMost(settleOpen, q.hurry))
	}
	return c.first.Add(settleLimit)
}

// rested returns when the path will have settled: it must rest for as long as it has been changing, so that
// the wait doubles while it goes on, within limits. A complete file has settled, a file that is open for writing has not.
func (q *settling) rested(c changing) time.Time {
	limit := q.limit(c)
	if c.writes > 1 {
		return limit
	}
	quiet := min(max(c.last.Sub(c.first), c.least), settleMost)
	if c.complete {
		quiet = 0
	}
	if c.empty {
		quiet = max(quiet, settleEmpty)
	}
	at := c.last.Add(pause.AtMost(quiet, q.hurry))
	if c.isNew && q.burst > burstLeast {
		at = clock.Later(at, q.newest.Add(pause.AtMost(settleBurst, q.hurry)))
	}
	return clock.Earlier(at, limit)
}

// dueAt returns when the path is due: not before robots.txt, nor before its directory, if that is new.
func (q *settling) dueAt(c changing) time.Time {
	return clock.Later(q.rested(c), clock.Later(q.restedAt(q.robots), q.restedAt(filepath.Dir(c.path))))
}

// restedAt is rested for a path; the zero time if it is not in the set.
func (q *settling) restedAt(path string) (at time.Time) {
	if p, ok := q.paths[path]; ok {
		at = q.rested(p)
	}
	return at
}

// note records an event of a path. It reports whether the path is due at once, and false for tracked if there are too many paths.
func (q *settling) note(path string, now time.Time, e event) (tracked, atOnce bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, known := q.paths[path]
	if !known {
		if len(q.paths) >= maxSettling {
			return false, false
		}
		if q.paths == nil {
			q.paths = make(map[string]changing)
		}
		t, ok := q.told[path]
		c = changing{path: path, first: now, least: settleQuiet, isNew: t.isNew && now.Sub(t.last) < settleMost, writes: t.writes, completed: t.completed}
		if ok && now.Sub(t.last) < settleAgain*t.least {
			c.least = min(2*t.least, settleMost)
		}
	}
	c.last, c.empty, c.left = now, false, e == left
	switch e {
	case otherDir:
		c.least = settleMost
	case left:
		if c.isNew {
			q.burst--
		}
		c.isNew, c.writes, c.complete = false, 0, false
	case created:
		if now.Sub(q.newest) > settleMost {
			q.burst = 0
		}
		q.burst++
		q.newest = now
		c.isNew, c.writes, c.complete = true, 1, false
	case written:
		c.writes++
		c.complete = false
	case complete:
		c.writes, c.complete, c.completed = 0, now.Sub(c.completed) >= settleMost, now
	}
	q.paths[path] = c
	return true, c.complete && !q.dueAt(c).After(now)
}

// due returns the paths that have settled, which stay in the set, and when the next of the others will have;
// zero if there are none. If any have settled, left are the others that have left and were not returned before: a
// new file may be one of them under another name, which only a scan of both can tell.
func (q *settling) due(now time.Time) (due []changing, left []string, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	robots := q.restedAt(q.robots)
	for _, c := range q.paths {
		at := clock.Later(q.rested(c), robots)
		if !at.After(now) || next.IsZero() || at.Before(next) { // else its directory makes no difference
			at = clock.Later(at, q.restedAt(filepath.Dir(c.path)))
		}
		if !at.After(now) {
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
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.empty = true; !q.rested(c).After(now) {
		return false
	}
	if q.paths[c.path].last.Equal(c.last) {
		q.paths[c.path] = c
	}
	return true
}

// done removes a path from the set. It reports false, and leaves it there, if the path has changed again
// meanwhile and its limit is not over.
func (q *settling) done(c changing, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.paths[c.path]
	if !p.last.Equal(c.last) && now.Before(q.limit(p)) {
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

func (q *settling) setRobots(path string) {
	q.mu.Lock()
	q.robots = path
	q.mu.Unlock()
}

func (q *settling) clear() {
	q.mu.Lock()
	q.paths, q.told = nil, nil
	q.mu.Unlock()
}
