package accesslog

import (
	"bytes"
	"math"
)

// maxPaths is up to how many different paths Counts is exact, as long as they take at most 256 MiB together.
const maxPaths = 1 << 20

// The bounds in bytes: of a path, as in sitemaps, and of all together.
const (
	maxPathLen  = 2048
	maxPathsLen = 256 << 20
)

// Counts counts how often people requested each path: a GET or HEAD with status 200 or 304, by a client that
// names itself a browser. If a log has no user agents, every client counts. A path is counted without its
// query.
//
// Beyond maxPaths paths, those requested least are dropped from time to time: a count may then be too low, by
// at most Missed. Paths of more than 2048 bytes are not counted. Counts is for one goroutine at a time.
type Counts struct {
	agents  *Agents
	people  tally
	anybody tally // of lines without a field for the user agent
}

// NewCounts returns empty Counts.
func NewCounts() *Counts { return &Counts{agents: NewAgents()} }

// Add counts a request, if it is one that counts.
func (c *Counts) Add(e *Entry) {
	if e.Status != 200 && e.Status != 304 || string(e.Method) != "GET" && string(e.Method) != "HEAD" {
		return
	}
	switch {
	case e.NoAgent:
		c.anybody.add(Path(e.Target))
	case c.agents.Identify(e.Agent).Kind == Browser:
		c.people.add(Path(e.Target))
	}
}

// Importance returns the importance of a path among the requested ones, from 1 to 100 on a logarithmic scale:
// 100 is the most requested path, and half as many digits are half as important. It is 0 for a path without
// requests, of which nothing is known. So the same doubling counts as much for a small site as for a big one
// (B12).
func (c *Counts) Importance(path string) uint8 {
	t := c.tally()
	return importance(t.n[path], t.most)
}

func importance(n, most int) uint8 {
	if n <= 0 {
		return 0
	}
	return uint8(max(1, math.Round(100*math.Log1p(float64(n))/math.Log1p(float64(most)))))
}

// tally returns the counts of people, if the log has user agents.
func (c *Counts) tally() *tally {
	if len(c.people.n) > 0 {
		return &c.people
	}
	return &c.anybody
}

// Path returns the path of a request target: without query and fragment, and without the scheme and host that
// requests to a proxy have.
func Path(target []byte) []byte {
	if len(target) > 0 && target[0] != '/' {
		if i := bytes.Index(target, []byte("://")); i > 0 {
			target = target[i+3:]
			if i = bytes.IndexByte(target, '/'); i < 0 {
				return []byte("/")
			}
			target = target[i:]
		}
	}
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	return target
}

// A tally counts strings, up to a number of different ones.
type tally struct {
	n      map[string]int
	bytes  int // of all strings
	most   int // the highest count
	missed int
}

func (t *tally) add(path []byte) {
	n, ok := t.n[string(path)]
	if !ok {
		if len(path) > maxPathLen {
			return
		}
		if t.n == nil {
			t.n = map[string]int{}
		}
		if len(t.n) >= maxPaths || t.bytes > maxPathsLen {
			t.forget()
		}
		t.bytes += len(path)
	}
	t.n[string(path)] = n + 1
	t.most = max(t.most, n+1)
}

// forget makes room: it drops the least counted half of all strings or more, unless too many are counted more
// than 65,536 times. A string that comes again begins at 0, and is too low by at most the count it was
// dropped with, and by its earlier losses.
func (t *tally) forget() {
	const most = 1 << 16
	var by [most + 1]int
	for _, n := range t.n {
		by[min(n, most)]++
	}
	least, gone := 0, 0
	for gone < (len(t.n)+1)/2 && least < most {
		least++
		gone += by[least]
	}
	for path, n := range t.n {
		if n <= least {
			t.bytes -= len(path)
			delete(t.n, path)
		}
	}
	t.missed += least
}
