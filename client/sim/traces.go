package sim

import (
	"encoding/csv"
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

	"github.com/parleyweb/parley/internal/coding"
)

const (
	maxTrace  = 256 << 20 // bytes of a trace, uncompressed
	maxEvents = 8 << 20
	maxPath   = 4 << 10
	lastTime  = 253402300799 // the year 9999, in Unix seconds
)

// A trace is what really happened to the pages of one site, as its version
// control has kept it. Unlike a crawl it misses no change, and it dates each.
type trace struct {
	Name        string
	First, Last time.Time
	Lives       []life // by birth
}

// A life is one page from when it appeared to when it vanished. A page that moves
// lives on; one that comes back after it was deleted has another life. Times are in
// days since the trace's First.
type life struct {
	Path    string // the last one
	Born    float64
	Died    float64   // +Inf: it has not
	Changes []float64 // of its content, in order, after the birth; no two at the same time
	Pushes  []int32   // which push each came with: many pages may share one
	Bytes   int64     // at last
}

// TraceNames are the traces of freshness.md that there are files of, and what of each is
// the site: the documentation of astro is one site a language.
func TraceNames() []string {
	return []string{"python-peps", "astro-docs", "php-net", "tldr-pages", "endoflife-date"}
}

// openTrace reads the trace X of a folder of them, from X.csv.zst. A name such as
// "astro-docs:src/content/docs/en/" is the part of it that ended in that folder.
func openTrace(dir, name string) (*trace, error) {
	file, part, _ := strings.Cut(name, ":")
	f, err := os.Open(filepath.Join(dir, filepath.Base(file)+".csv.zst"))
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	defer f.Close()
	t, err := readTrace(file, f)
	if err != nil {
		return nil, err
	}
	return t.part(name, part), nil
}

// part is what of a trace is in a folder at last.
func (t *trace) part(name, folder string) *trace {
	if folder == "" {
		return t
	}
	some := *t
	some.Name, some.Lives = name, nil
	for _, l := range t.Lives {
		if strings.HasPrefix(l.Path, folder) {
			some.Lives = append(some.Lives, l)
		}
	}
	return &some
}

// readTrace reads a trace: CSV, compressed or not, with a header that names at least time
// (Unix seconds, in order), commit, op (A, M, D, R), path, old_path, size and
// blob. An event that leaves a page with the same blob has changed nothing. What
// it cannot make sense of is an error, and so is a trace of more than 256 MB.
func readTrace(name string, r io.Reader) (*trace, error) {
	plain, err := coding.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	defer plain.Close()
	t := teller{t: &trace{Name: name}, at: map[string]int{}}
	if err := t.read(plain); err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	return t.t, nil
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

// A teller follows the pages of a trace through its events.
type teller struct {
	t     *trace
	at    map[string]int // the life that is at a path
	blobs []string       // the content of each life
	push  []event        // read, and not yet applied
	last  int64
}

var errLong = fmt.Errorf("more than %d MB", maxTrace>>20)

func (t *teller) read(plain io.Reader) error {
	limit := &io.LimitedReader{R: plain, N: maxTrace + 1}
	rows := csv.NewReader(limit)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return whole(err)
	}
	columns, err := columnsOf(header)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		row, err := rows.Read()
		if limit.N <= 0 || n > maxEvents {
			return errLong
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		e, err := columns.event(row)
		if err == nil {
			err = t.take(e)
		}
		if err != nil {
			line, _ := rows.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	t.flush()
	if t.t.First.IsZero() {
		return errors.New("no events")
	}
	t.t.Last = time.Unix(t.last, 0).UTC()
	return nil
}

func whole(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// columns says which column is which.
type columns struct{ time, commit, op, path, old, size, blob int }

func columnsOf(header []string) (c columns, err error) {
	for _, f := range []struct {
		name string
		at   *int
	}{{"time", &c.time}, {"commit", &c.commit}, {"op", &c.op}, {"path", &c.path}, {"old_path", &c.old}, {"size", &c.size}, {"blob", &c.blob}} {
		*f.at = -1
		for i, name := range header {
			if name == f.name {
				*f.at = i
			}
		}
		if *f.at < 0 {
			return c, fmt.Errorf("no column %q", f.name)
		}
	}
	return c, nil
}

func (c columns) event(row []string) (e event, err error) {
	if e.time, err = strconv.ParseInt(row[c.time], 10, 64); err != nil || e.time < 0 || e.time > lastTime {
		return e, fmt.Errorf("no time: %.40q", row[c.time])
	}
	commit, err := strconv.ParseInt(row[c.commit], 10, 32)
	if err != nil {
		return e, fmt.Errorf("no commit: %.40q", row[c.commit])
	}
	if len(row[c.op]) != 1 || !strings.Contains("AMDR", row[c.op]) {
		return e, fmt.Errorf("no operation: %.40q", row[c.op])
	}
	if s := row[c.size]; s != "" {
		if e.size, err = strconv.ParseInt(s, 10, 64); err != nil || e.size < 0 {
			return e, fmt.Errorf("no size: %.40q", s)
		}
	}
	if n := max(len(row[c.path]), len(row[c.old]), len(row[c.blob])); n > maxPath || row[c.path] == "" {
		return e, fmt.Errorf("no path: %.40q", row[c.path])
	}
	// The row is one string, which would be kept whole by any part of it.
	e.commit, e.op = int32(commit), row[c.op][0]
	e.path, e.old, e.blob = strings.Clone(row[c.path]), strings.Clone(row[c.old]), strings.Clone(row[c.blob])
	return e, nil
}

// take collects what came with one push: it happened all at once, so that pages
// may change places.
func (t *teller) take(e event) error {
	if t.t.First.IsZero() {
		t.t.First = time.Unix(e.time, 0).UTC()
	} else if e.time < t.last {
		return fmt.Errorf("time %d is before that of the line before", e.time)
	}
	if len(t.push) > 0 && e.commit != t.push[0].commit {
		t.flush()
	}
	t.last = e.time
	t.push = append(t.push, e)
	return nil
}

func (t *teller) flush() {
	moved := map[string]int{}
	for _, e := range t.push {
		switch from := e.path; e.op {
		case 'R':
			from = e.old
			if i, ok := t.at[from]; ok {
				moved[from] = i
				delete(t.at, from)
			}
		case 'D':
			if i, ok := t.at[from]; ok {
				t.t.Lives[i].Died = t.t.at(e.time)
				delete(t.at, from)
			}
		}
	}
	for _, e := range t.push {
		if e.op == 'D' {
			continue
		}
		i, ok := t.at[e.path]
		if e.op == 'R' {
			if ok { // it takes the place of another
				t.t.Lives[i].Died = t.t.at(e.time)
			}
			i, ok = moved[e.old]
			delete(moved, e.old) // whatever else has come from there is new
		}
		t.stand(e, i, ok)
	}
	for _, i := range moved { // cannot be, but for a page that moved twice
		t.t.Lives[i].Died = t.t.at(t.last)
	}
	t.push = t.push[:0]
}

// stand puts a page where the event says: the life i, or a new one.
func (t *teller) stand(e event, i int, known bool) {
	at := t.t.at(e.time)
	if !known {
		i = len(t.t.Lives)
		t.t.Lives = append(t.t.Lives, life{Born: at, Died: math.Inf(1)})
		t.blobs = append(t.blobs, e.blob)
	}
	l := &t.t.Lives[i]
	// Nobody could have seen what stood there for no time at all.
	if last := len(l.Changes) - 1; t.blobs[i] != e.blob && at > l.Born && (last < 0 || at > l.Changes[last]) {
		l.Changes, l.Pushes = append(l.Changes, at), append(l.Pushes, e.commit)
	}
	l.Path, l.Bytes, t.blobs[i] = e.path, e.size, e.blob
	t.at[e.path] = i
}

// Days is how long the trace is.
func (t *trace) Days() float64 { return t.at(t.Last.Unix()) }

// at is a time in days since First.
func (t *trace) at(unix int64) float64 { return float64(unix-t.First.Unix()) / (24 * 3600) }

// Alive returns the pages that lived throughout some days, from one time to
// another in days since First: with the times of their changes in between, in
// days since from, and which push each came with.
func (t *trace) Alive(from, to float64) []life {
	var alive []life
	for _, l := range t.Lives {
		if !(l.Born <= from) || l.Died <= to {
			continue
		}
		a, b := sort.SearchFloat64s(l.Changes, from), sort.SearchFloat64s(l.Changes, to)
		changes := make([]float64, 0, max(0, b-a)) // not nil: it is known when it changed
		for _, at := range l.Changes[a:max(a, b)] {
			changes = append(changes, at-from)
		}
		l.Changes, l.Pushes = changes, l.Pushes[a:max(a, b)]
		l.Born, l.Died = l.Born-from, l.Died-from
		alive = append(alive, l)
	}
	return alive
}
