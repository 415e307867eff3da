// Frontier measures the cost of keeping millions of known URLs in order: the crawler's frontier over its
// collection, against pebble doing the same logical work with records and an index of due pages. Both are
// separate processes that get their orders in turn, so that other load on the machine affects both.
//
//	go run ./bench/frontier [-n 1000000] [-pops 200] [-pebble id,url]
//
// An insert adds new URLs, 10,000 in a synced transaction; a pop takes the 1,000 that come first and
// reschedules them in another: either without a response ("reschedule"), or as visited, with the result of a
// visit ("visit").
//
// Pebble plays twice. By URL is the straightforward design: the URL is the key, and a lookup says whether it
// is known. By id has a seen-set of hashes in memory, which it trusts without a lookup, and keys that only
// grow. Both omit much of Parley's work: their queue has no sites and no ranks, their state is opaque bytes,
// and their only notification of changes is one more record.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/goal"
)

const (
	insertBatch = 10_000
	popBatch    = 1000
)

// A result is what a side reports after each piece of work.
type result struct {
	Done     int           `json:"done"`
	Elapsed  time.Duration `json:"elapsed"`
	CPU      time.Duration `json:"cpu"`
	Written  int64         `json:"written"`
	Anon     int64         `json:"anon"` // anonymous memory of the process after the work, in bytes
	Disk     int64         `json:"disk,omitempty"`
	Seen     int64         `json:"seen,omitempty"` // bytes of the seen-set, part of Anon
	Settled  int64         `json:"settled,omitempty"`
	Reopened time.Duration `json:"reopened,omitempty"`
	Error    string        `json:"error,omitempty"`
}

func main() {
	n := flag.Int("n", 1_000_000, "number of known URLs; the published figures use 5,000,000")
	pops := flag.Int("pops", 200, "number of pops of each kind, 1,000 URLs each")
	keys := flag.String("pebble", "id,url", "key formats of pebble, one side for each: id, url or both; empty: no comparison with pebble")
	dir := flag.String("dir", "", "directory of the data; empty: a temporary directory")
	side := flag.String("side", "", "internal: run as this side")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	if *side != "" {
		err = serve(*side, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, *n, *pops, strings.FieldsFunc(*keys, func(c rune) bool { return c == ',' }), *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "frontier:", err)
		os.Exit(1)
	}
}

// A player is one side, as a process.
type player struct {
	name string
	cmd  *exec.Cmd
	in   *bufio.Writer
	pipe io.Closer
	out  *json.Decoder
	sums map[string]*sum
	peak int64
}

type sum struct {
	done         int
	written      int64
	elapsed, cpu time.Duration
	last         []result
}

func start(ctx context.Context, name, program string, args ...string) (*player, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &player{name: name, cmd: cmd, in: bufio.NewWriterSize(in, 1<<20), pipe: in, out: json.NewDecoder(out), sums: map[string]*sum{}}, nil
}

// tell sends an order and returns its result.
func (p *player) tell(what string, op byte, n int, body []byte) (result, error) {
	var head [5]byte
	head[0] = op
	binary.LittleEndian.PutUint32(head[1:], uint32(n))
	p.in.Write(head[:])
	p.in.Write(body)
	if err := p.in.Flush(); err != nil {
		return result{}, fmt.Errorf("%s: %w", p.name, err)
	}
	var r result
	if err := p.out.Decode(&r); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s: %s: %s", p.name, what, r.Error)
	}
	s := p.sums[what]
	if s == nil {
		s = &sum{}
		p.sums[what] = s
	}
	s.done += r.Done
	s.elapsed += r.Elapsed
	s.cpu += r.CPU
	s.written += r.Written
	s.last = append(s.last, r)
	p.peak = max(p.peak, r.Anon)
	return r, nil
}

// tail returns the cost of the last tenth of the work, when the data are largest.
func (s *sum) tail() (done int, elapsed, cpu time.Duration) {
	for _, r := range s.last[len(s.last)-max(1, len(s.last)/10):] {
		done += r.Done
		elapsed += r.Elapsed
		cpu += r.CPU
	}
	return done, elapsed, cpu
}

func run(ctx context.Context, n, pops int, keys []string, dir string) error {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "parley-frontier-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		dir = tmp
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	parley, err := start(ctx, "parley", self, "-side", filepath.Join(dir, "parley"))
	if err != nil {
		return err
	}
	players := []*player{parley}
	if len(keys) > 0 {
		program := filepath.Join(dir, "pebble-side")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
		build.Dir = filepath.Join("bench", "frontier", "pebble")
		if msg, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build pebble's side; run this in the root of the repository: %w\n%s", err, msg)
		}
		for _, k := range keys {
			p, err := start(ctx, "pebble/"+k, program, "-keys", k, filepath.Join(dir, "pebble-"+k))
			if err != nil {
				return err
			}
			players = append(players, p)
		}
	}
	order := slices.Clone(players) // the order in which they play

	each := func(what string, op byte, n int, body []byte) error {
		for _, p := range order {
			if _, err := p.tell(what, op, n, body); err != nil {
				return err
			}
		}
		order = append(order[1:], order[0]) // no player is always first
		return nil
	}
	urls := newURLs(n)
	for known := 0; known < n; known += insertBatch {
		if err := each("insert", 'I', min(insertBatch, n-known), urls.next(min(insertBatch, n-known))); err != nil {
			return err
		}
		if known%(n/10+1) < insertBatch {
			fmt.Fprintf(os.Stderr, "%d URLs known\n", known)
		}
	}
	if err := each("at rest", 'S', 0, nil); err != nil {
		return err
	}
	for _, kind := range []struct {
		name string
		op   byte
	}{{"reschedule", 'R'}, {"visit", 'V'}} {
		for range pops {
			if err := each(kind.name, kind.op, popBatch, nil); err != nil {
				return err
			}
		}
	}
	if err := each("at the end", 'S', 0, nil); err != nil {
		return err
	}
	goals := goal.Sheet{Out: os.Stdout}
	report(n, players, &goals)
	for _, p := range players {
		p.pipe.Close()
		if err := p.cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return goals.Err()
}

func report(n int, players []*player, goals *goal.Sheet) {
	fmt.Printf("%d known URLs, synced; inserts by %d, pops by %d\n\n", n, insertBatch, popBatch)
	fmt.Printf("%-26s", "")
	for _, p := range players {
		fmt.Printf("%-18s", p.name)
	}
	fmt.Println("(Parley's figure divided by pebble's)")
	row := func(name string, f func(*player) float64, format string) {
		fmt.Printf("%-26s", name)
		for i, p := range players {
			x := f(p)
			cell := fmt.Sprintf(format, x)
			if i > 0 && x > 0 {
				cell += fmt.Sprintf(" (%.2f)", f(players[0])/x)
			}
			fmt.Printf("%-18s", cell)
		}
		fmt.Println()
	}
	for _, what := range []string{"insert", "reschedule", "visit"} {
		row(what+"s/s", func(p *player) float64 { return float64(p.sums[what].done) / p.sums[what].elapsed.Seconds() }, "%.0f")
		row("  last tenth", func(p *player) float64 {
			done, elapsed, _ := p.sums[what].tail()
			return float64(done) / elapsed.Seconds()
		}, "%.0f")
		row("  CPU µs each", func(p *player) float64 {
			return float64(p.sums[what].cpu.Microseconds()) / float64(p.sums[what].done)
		}, "%.1f")
	}
	row("B written per insert", func(p *player) float64 { return float64(p.sums["insert"].written) / float64(n) }, "%.0f")
	row("B written per pop", func(p *player) float64 {
		a, b := p.sums["reschedule"], p.sums["visit"]
		return float64(a.written+b.written) / float64(a.done+b.done)
	}, "%.0f")
	N := float64(n)
	for _, when := range []string{"at rest", "at the end"} {
		row("B/URL on disk, "+when, func(p *player) float64 { return float64(p.sums[when].last[0].Disk) / N }, "%.0f")
		row("B/URL in memory", func(p *player) float64 { return float64(p.sums[when].last[0].Settled) / N }, "%.1f")
		row("  of which seen-set", func(p *player) float64 { return float64(p.sums[when].last[0].Seen) / N }, "%.1f")
	}
	row("MB in memory, peak", func(p *player) float64 { return float64(p.peak) / 1e6 }, "%.0f")
	if r := players[0].sums["at the end"].last[0]; r.Reopened > 0 {
		fmt.Printf("%-26s%s\n", "opened again in", r.Reopened.Round(time.Millisecond))
	}
	for _, p := range players[1:] {
		for _, what := range []string{"insert", "reschedule", "visit"} {
			ours, theirs := players[0].sums[what], p.sums[what]
			goals.AtLeast(1, float64(ours.done)/ours.elapsed.Seconds()/(float64(theirs.done)/theirs.elapsed.Seconds()), "%ss a second / those of %s", what, p.name)
		}
	}
}

// urls generates distinct URLs of many sites, of which few have most pages, in an order in which a crawler
// might find them.
type urls struct {
	rng   *rand.Rand
	sites int
	count map[int]int
	buf   []byte
}

func newURLs(n int) *urls {
	return &urls{rng: rand.New(rand.NewPCG(1, 2)), sites: max(1, n/100), count: map[int]int{}}
}

// next returns n URLs, each preceded by its length in two bytes.
func (u *urls) next(n int) []byte {
	u.buf = u.buf[:0]
	for range n {
		x := u.rng.Float64()
		site := int(x * x * float64(u.sites))
		if u.count[site] >= 25_000 { // G04
			site = u.rng.IntN(u.sites)
		}
		u.count[site]++
		page := u.count[site]
		at := len(u.buf)
		u.buf = fmt.Appendf(append(u.buf, 0, 0), "https://www.site-%06d.example/section-%d/page-%d-%06x.html", site, page%30, page, u.rng.Uint32N(1<<24))
		binary.LittleEndian.PutUint16(u.buf[at:], uint16(len(u.buf)-at-2))
	}
	return u.buf
}
