package sim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	maxTrace  = 256 << 20 // bytes of a trace, uncompressed
	maxEvents = 8 << 20
	maxPath   = 4 << 10
	lastTime  = 253402300799 // the year 9999, in Unix seconds
)

// A trace is the real history of the pages of one site, from its version control. Unlike a crawl it misses no
// change, and it dates each.
type trace struct {
	First, Last time.Time
	Lives       []life // by birth
}

// A life is one page from its appearance to its deletion. A page that moves lives on; one that comes back
// after a deletion has another life. Times are in days since the trace's First.
type life struct {
	Path    string // the last one, if it moved
	Born    float64
	Died    float64   // +Inf: not deleted
	Changes []float64 // of its content, in order, after the birth; no two at the same time
	Pushes  []int32   // the push that each came with: many pages may share one
	Bytes   int64     // at the end
}

// TraceNames are the traces of freshness.md that have files, and which part of each is the site: the
// documentation of astro is one site per language.
func TraceNames() []string {
	return []string{"python-peps", "astro-docs", "php-net", "tldr-pages", "endoflife-date"}
}

// openTrace reads the trace X from X.csv.zst in dir. A name such as "astro-docs:src/content/docs/en/" is the
// part whose pages ended in that folder.
func openTrace(dir, name string) (*trace, error) {
	file, part, _ := strings.Cut(name, ":")
	t, err := openTraceFile(name, filepath.Join(dir, filepath.Base(file)+".csv.zst"))
	if err != nil {
		return nil, err
	}
	return t.part(part), nil
}

func openTraceFile(name, path string) (*trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	defer f.Close()
	return readTrace(name, f)
}

// part is the part of a trace whose pages ended in a folder.
func (t *trace) part(folder string) *trace {
	if folder == "" {
		return t
	}
	some := *t
	some.Lives = nil
	for _, l := range t.Lives {
		if strings.HasPrefix(l.Path, folder) {
			some.Lives = append(some.Lives, l)
		}
	}
	return &some
}

// readTrace reads a trace: CSV, compressed or not, with a header that names at least time (Unix seconds or RFC 3339, in
// order) and path. Each row is a new content of a page, and the first one is its birth. More columns are size, blob,
// commit, op and old_path: an event that leaves a page with the same blob is no change, those of a commit happen
// together, and op is A or M for a new content, D for a deletion, and R for a move from old_path. A malformed row is an
// error, and so is a trace of more than 256 MB or 8 million events.
func readTrace(name string, r io.Reader) (*trace, error) {
	t := traceBuilder{trace: &trace{}, paths: map[string]int{}}
	if err := t.read(r); err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	return t.trace, nil
}

// An event is one row of a trace.
type event struct {
	time      int64
	commit    int32
	op        byte
	path, old string
	size      int64
	blob      string
}

// A traceBuilder applies the events of a trace to its pages.
type traceBuilder struct {
	*trace
	paths map[string]int // the life at each path
	blobs []string       // the content of each life
	push  []event        // read, not yet applied
	last  int64
}

func (t *traceBuilder) read(r io.Reader) error {
	n := 0
	err := readTable(r, maxTrace, []string{"time", "commit?", "op?", "path", "old_path?", "size?", "blob?"}, func(row []string) error {
		if n++; n > maxEvents {
			return fmt.Errorf("more than %d events", maxEvents)
		}
		e, err := parseEvent(row)
		if err != nil {
			return err
		}
		return t.take(e)
	})
	if err != nil {
		return err
	}
	t.flush()
	if t.First.IsZero() {
		return errors.New("no events")
	}
	t.Last = time.Unix(t.last, 0).UTC()
	return nil
}

// parseEvent reads a row of the columns that read names.
func parseEvent(row []string) (e event, err error) {
	at, push, op, size := row[0], row[1], row[2], row[5]
	e.path, e.old, e.blob = row[3], row[4], cmp.Or(row[6], at)
	if date, bad := time.Parse(time.RFC3339, at); bad == nil {
		e.time = date.Unix()
	} else {
		e.time, err = strconv.ParseInt(at, 10, 64)
	}
	if err != nil || e.time < 0 || e.time > lastTime {
		return e, fmt.Errorf("invalid time: %.40q: want Unix seconds, or a date such as 2024-05-31T12:00:00Z", at)
	}
	commit, err := strconv.ParseInt(cmp.Or(push, "0"), 10, 32)
	if err != nil {
		return e, fmt.Errorf("invalid commit: %.40q", push)
	}
	if op = cmp.Or(op, "M"); len(op) != 1 || !strings.Contains("AMDR", op) {
		return e, fmt.Errorf("invalid operation: %.40q", op)
	}
	if size != "" {
		if e.size, err = strconv.ParseInt(size, 10, 64); err != nil || e.size < 0 {
			return e, fmt.Errorf("invalid size: %.40q", size)
		}
	}
	if n := max(len(e.path), len(e.old), len(e.blob)); n > maxPath || e.path == "" {
		return e, fmt.Errorf("path missing or too long: %.40q", e.path)
	}
	// The row is one string, and any part of it would keep all of it in memory.
	e.commit, e.op = int32(commit), op[0]
	e.path, e.old, e.blob = strings.Clone(e.path), strings.Clone(e.old), strings.Clone(e.blob)
	return e, nil
}

// take collects the events of one push: they happened at the same time, so that pages may change places.
func (t *traceBuilder) take(e event) error {
	if t.First.IsZero() {
		t.First = time.Unix(e.time, 0).UTC()
	} else if e.time < t.last {
		return fmt.Errorf("time %d is earlier than on the line before", e.time)
	}
	if len(t.push) > 0 && (e.commit != t.push[0].commit || e.time != t.push[0].time) {
		t.flush()
	}
	t.last = e.time
	t.push = append(t.push, e)
	return nil
}

func (t *traceBuilder) flush() {
	moved := map[string]int{}
	for _, e := range t.push {
		switch from := e.path; e.op {
		case 'R':
			from = e.old
			if i, ok := t.paths[from]; ok {
				moved[from] = i
				delete(t.paths, from)
			}
		case 'D':
			if i, ok := t.paths[from]; ok {
				t.Lives[i].Died = t.at(e.time)
				delete(t.paths, from)
			}
		}
	}
	for _, e := range t.push {
		if e.op == 'D' {
			continue
		}
		i, ok := t.paths[e.path]
		if e.op == 'R' {
			if ok { // it replaces another page
				t.Lives[i].Died = t.at(e.time)
			}
			i, ok = moved[e.old]
			delete(moved, e.old) // another page from the same path is new
		}
		t.stand(e, i, ok)
	}
	for _, i := range moved { // only of a page that moved twice
		t.Lives[i].Died = t.at(t.last)
	}
	t.push = t.push[:0]
}

// stand records a page at the event's path: the life i, or a new one.
func (t *traceBuilder) stand(e event, i int, known bool) {
	at := t.at(e.time)
	if !known {
		i = len(t.Lives)
		t.Lives = append(t.Lives, life{Born: at, Died: math.Inf(1)})
		t.blobs = append(t.blobs, e.blob)
	}
	l := &t.Lives[i]
	// Content that was there for no time at all could not be seen.
	if last := len(l.Changes) - 1; t.blobs[i] != e.blob && at > l.Born && (last < 0 || at > l.Changes[last]) {
		l.Changes, l.Pushes = append(l.Changes, at), append(l.Pushes, e.commit)
	}
	l.Path, l.Bytes, t.blobs[i] = e.path, e.size, e.blob
	t.paths[e.path] = i
}

// Days is the length of the trace.
func (t *trace) Days() float64 { return t.at(t.Last.Unix()) }

// at converts Unix seconds to days since First.
func (t *trace) at(unix int64) float64 { return float64(unix-t.First.Unix()) / (24 * 3600) }

// Alive returns the pages that lived throughout some days, from one time to another in days since First: with
// the times of their changes in between, in days since from, and the push of each.
func (t *trace) Alive(from, to float64) []life {
	var alive []life
	for _, l := range t.Lives {
		if !(l.Born <= from) || l.Died <= to {
			continue
		}
		a, b := sort.SearchFloat64s(l.Changes, from), sort.SearchFloat64s(l.Changes, to)
		changes := make([]float64, 0, max(0, b-a)) // not nil: its changes are known
		for _, at := range l.Changes[a:max(a, b)] {
			changes = append(changes, at-from)
		}
		l.Changes, l.Pushes = changes, l.Pushes[a:max(a, b)]
		l.Born, l.Died = l.Born-from, l.Died-from
		alive = append(alive, l)
	}
	return alive
}
