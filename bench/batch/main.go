// Batch measures the time to fetch many small pages in one request, compared with one request for each over
// persistent connections: one connection, as a polite crawler has it, and eight. All go through the same
// nginx, which serves the pages from the docroot and forwards the batch door to a notifier; in every arm, the
// receiver checks each byte by its digest. The rounds of the arms take turns, each after a garbage
// collection. It also counts the processor time of the crawler, the notifier and nginx, since that depends
// less on other load on the machine.
//
// A cold batch is requested from a new notifier that has stored no page and packed nothing, a warm one from a
// notifier that has answered the same request before. nginx has no cache but the system's page cache, which
// is warm for every arm.
//
// It measures twice: over the bare loopback, and through a proxy that simulates a network with a round-trip
// time of 20 ms, including TCP's slow start and handshake.
//
//	go run ./bench/batch [--pages 5000] [--rounds 5] [--delayed 1] [--rtt 20ms] [--coding C]
//
// It needs nginx. The goals: with the delay, 20 times as fast as one
// connection and 5 times as fast as eight; without, no slower than either.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

func main() {
	var o options
	flag.IntVar(&o.pages, "pages", 5000, "number of pages")
	flag.IntVar(&o.rounds, "rounds", 5, "runs of each arm over the bare loopback")
	flag.IntVar(&o.delayed, "delayed", 1, "runs of each arm with the delay; one connection takes 100 s")
	flag.DurationVar(&o.rtt, "rtt", 20*time.Millisecond, "simulated round-trip time")
	flag.StringVar(&o.coding, "coding", "", "Accept-Encoding of a batch: gzip, zstd or identity; empty: as the client chooses, identity over loopback and otherwise zstd")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of everything but nginx to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "batch:", err)
		os.Exit(1)
	}
}

type options struct {
	pages, rounds, delayed int
	rtt                    time.Duration
	coding                 string
	profile                string
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "parley-batch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := publish(ctx, dir, o.pages)
	if err != nil {
		return err
	}
	defer w.close()
	w.coding = cmp.Or(o.coding, string(bundle.Plain))
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Fprintf(out, "%d pages of %.1f kB\n\n", len(w.items), float64(w.bytes)/float64(len(w.items))/1000)
	direct := strings.TrimSuffix(strings.TrimPrefix(w.base, "http://"), "/")
	bare, err := w.rounds(ctx, direct, o.rounds)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "bare loopback")
	goals := goal.Sheet{Out: out}
	bare.print(&goals, "", 1, 1)
	if o.delayed > 0 {
		slow, err := delay(direct, o.rtt)
		if err != nil {
			return err
		}
		defer slow.close()
		w.coding = cmp.Or(o.coding, bundle.Accepted)
		delayed, err := w.rounds(ctx, slow.addr(), o.delayed)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nround trip of %v\n", o.rtt)
		delayed.print(&goals, fmt.Sprintf(" at a round trip of %v", o.rtt), 20, 5)
	}
	return goals.Err()
}

// A world is a site that is served.
type world struct {
	base   string
	items  []protocol.Item
	places map[string]int // of each URL in items
	bytes  int64
	from   protocol.Cursor // before all pages
	coding string          // content coding requested for a batch

	site     *server.Site
	snapshot *manifest.Snapshot
	journal  *server.Journal
	doors    *http.Server
	front    *nginx.Server
	notifier atomic.Pointer[doors.Notifier] // the current one
}

// fresh makes a notifier that has not answered any request.
func (w *world) fresh() *doors.Notifier {
	return &doors.Notifier{Log: w.journal, Snapshot: w.snapshot, Base: w.base, Public: w.site.Public,
		Content: doors.Content{Pages: &versions.Store{Journal: w.journal, Open: w.site.OpenPage, Public: w.site.Public},
			Item: func(url string) (protocol.Item, bool, error) {
				e, ok, err := w.journal.Get(url)
				return e.Item, ok, err
			}}}
}

func publish(ctx context.Context, dir string, pages int) (_ *world, err error) {
	w := &world{places: make(map[string]int, pages)}
	root := filepath.Join(dir, "www")
	for _, d := range []string{root, filepath.Join(dir, "nginx")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if w.front, err = nginx.Start(ctx, filepath.Join(dir, "nginx"), nginx.Site{Root: root, Sidecar: ln.Addr().String()}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	w.base = w.front.Bases[0]
	w.site = &server.Site{Docroot: root, Base: w.base}
	if w.journal, err = server.OpenJournal(ctx, filepath.Join(dir, "state"), server.JournalOptions{Base: w.base}); err != nil {
		return nil, err
	}
	w.snapshot = &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(w.base), Public: w.site.Public}
	p := &server.Publisher{Inventory: w.site, Journal: w.journal, Snapshot: w.snapshot}
	if _, err := p.Turn(ctx); err != nil { // publishes nothing yet, so that all pages are changes
		return nil, err
	}
	w.from = w.journal.Head()
	r := rand.New(rand.NewPCG(4, 2))
	for i := range pages {
		name := filepath.Join(root, fmt.Sprintf("dir%02d", i%50))
		if err := os.MkdirAll(name, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(name, fmt.Sprintf("page-%04d.html", i)), page(r, i), 0o644); err != nil {
			return nil, err
		}
	}
	if _, err := p.Turn(ctx); err != nil {
		return nil, err
	}
	v, err := w.journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err != nil {
			return nil, err
		}
		w.places[e.Item.URL] = len(w.items)
		w.items = append(w.items, e.Item)
		w.bytes += e.Item.Length
	}
	if len(w.items) != pages {
		return nil, fmt.Errorf("%d pages were published, not %d", len(w.items), pages)
	}
	w.notifier.Store(w.fresh())
	w.doors = &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.notifier.Load().ServeHTTP(rw, r) })}
	go w.doors.Serve(ln) // until close
	return w, nil
}

func (w *world) close() {
	w.front.Close()
	if w.doors != nil {
		w.doors.Close()
	}
	if w.journal != nil {
		w.journal.Close()
	}
}

// page returns a small page: some markup, and words that compress like prose.
func page(r *rand.Rand, i int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page %d</title>\n<link rel=\"stylesheet\" href=\"/style.css\"></head><body>\n<nav><a href=\"/\">Home</a> <a href=\"/news/\">News</a></nav>\n", i)
	for range 3 + r.IntN(10) {
		b.WriteString("<p>")
		for range 20 + r.IntN(60) {
			for range 1 + r.IntN(3) {
				b.WriteString(syllables[r.IntN(len(syllables))])
			}
			b.WriteByte(' ')
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}

var syllables = strings.Fields("a an the in of to re con pro de ing ed er est ly ment tion able ful less is it on or as at be by do go he if me my no so up us we ba lo mi nu ra si te vo")

// An arm is a way to fetch all pages.
type arm struct {
	name string
	cold bool // the notifier is a new one
	get  func(ctx context.Context, c *http.Client) error
}

// batches is the number of arms that use batches; they come first.
const batches = 4

func (w *world) arms() []arm {
	return []arm{
		{"one request, by URLs, cold", true, w.batchByURL},
		{"one request, by URLs, warm", false, w.batchByURL},
		{"one request, by cursor, cold", true, w.batchByCursor},
		{"one request, by cursor, warm", false, w.batchByCursor},
		{"one connection", false, func(ctx context.Context, c *http.Client) error { return w.each(ctx, c, 1) }},
		{"eight connections", false, func(ctx context.Context, c *http.Client) error { return w.each(ctx, c, 8) }},
	}
}

func (w *world) batchByURL(ctx context.Context, c *http.Client) error {
	ask := protocol.Question{Pages: make([]protocol.RequestedPage, len(w.items))}
	for i := range w.items {
		ask.Pages[i].URL = w.items[i].URL
	}
	question, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"parley/batch", bytes.NewReader(question))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return w.bundle(c, req)
}

func (w *world) batchByCursor(ctx context.Context, c *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"parley/batch?after="+w.from.String(), nil)
	if err != nil {
		return err
	}
	return w.bundle(c, req)
}

// bundle reads all pages from one response. The Reader checks their digests.
func (w *world) bundle(c *http.Client, req *http.Request) error {
	req.Header.Set("Accept-Encoding", w.coding)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	r, err := bundle.NewReader(resp.Body, bundle.Limits{})
	if err != nil {
		return err
	}
	defer r.Close()
	came, left := make([]bool, len(w.items)), len(w.items)
	for p, err := range r.Pages() {
		if err != nil {
			return err
		}
		i, ok := w.places[p.Change.Item.URL]
		if !ok || came[i] || p.Body == nil || w.items[i].Digest != p.Change.Item.Digest {
			return fmt.Errorf("%s: missing, duplicate or not the expected bytes", p.Change.Item.URL)
		}
		came[i] = true
		left--
	}
	if left > 0 {
		return fmt.Errorf("%d pages are missing", left)
	}
	return nil
}

// each fetches every page by itself, over that many connections.
func (w *world) each(ctx context.Context, c *http.Client, conns int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range conns {
		wait.Go(func() {
			var b bytes.Buffer
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(w.items) {
					return
				}
				if err := w.one(ctx, c, &w.items[i], &b); err != nil {
					stop(err)
				}
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

func (w *world) one(ctx context.Context, c *http.Client, item *protocol.Item, b *bytes.Buffer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, item.URL, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b.Reset()
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || protocol.Sum(b.Bytes()) != item.Digest {
		return fmt.Errorf("%s: status %s, or unexpected bytes", item.URL, resp.Status)
	}
	return nil
}

// A result holds the times of every arm.
type result struct {
	arms  []arm
	times [][]time.Duration
	cpu   [][]time.Duration // of this process, which is the crawler and the notifier, and of nginx
	bytes []int64           // received in the last round
}

// counted counts the bytes received on a connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// rounds runs every arm n times, in turns; each starts without connections.
func (w *world) rounds(ctx context.Context, addr string, n int) (*result, error) {
	res := &result{arms: w.arms()}
	res.bytes = make([]int64, len(res.arms))
	res.times, res.cpu = make([][]time.Duration, len(res.arms)), make([][]time.Duration, len(res.arms))
	warm := w.fresh()
	w.notifier.Store(warm)
	for _, a := range res.arms[:batches] {
		if a.cold { // the warm arm makes the same request
			if err := a.get(ctx, http.DefaultClient); err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
		}
	}
	for round := range n {
		for k := range res.arms {
			k = (k + round) % len(res.arms)
			var came atomic.Int64
			t := &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true,
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					return counted{conn, &came}, err
				}}
			w.notifier.Store(warm)
			if res.arms[k].cold {
				w.notifier.Store(w.fresh())
			}
			runtime.GC() // no arm pays for another's garbage
			began, spent := time.Now(), cpuOf("self")+cpuOf(strconv.Itoa(w.front.PID()))
			err := res.arms[k].get(ctx, &http.Client{Transport: t})
			took := time.Since(began)
			spent = cpuOf("self") + cpuOf(strconv.Itoa(w.front.PID())) - spent
			t.CloseIdleConnections()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", res.arms[k].name, err)
			}
			res.bytes[k] = came.Load()
			res.times[k], res.cpu[k] = append(res.times[k], took), append(res.cpu[k], spent)
		}
	}
	return res, nil
}

// cpuOf returns the processor time of a process, with a resolution of 10 ms; zero if the system has no /proc.
func cpuOf(process string) time.Duration {
	b, err := os.ReadFile("/proc/" + process + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything: proc(5).
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// print prints medians, and whether all batches are faster than one connection, and than eight, by the required factors.
func (r *result) print(goals *goal.Sheet, where string, one, eight float64) {
	overOne, overEight := cost.Median(r.times[batches]), cost.Median(r.times[batches+1])
	for k, a := range r.arms {
		m := cost.Median(r.times[k])
		fmt.Fprintf(goals.Out, "  %-28s %9.1f ms  (first %.1f, %.1f to %.1f), CPU %.0f ms (first %.0f), %.1f MB\n", a.name, ms(m), ms(r.times[k][0]), ms(slices.Min(r.times[k])), ms(slices.Max(r.times[k])),
			ms(cost.Median(r.cpu[k])), ms(r.cpu[k][0]), float64(r.bytes[k])/1e6)
		if k < batches {
			goals.AtLeast(one, float64(overOne)/float64(m), "%s%s: times as fast as one connection", a.name, where)
			goals.AtLeast(eight, float64(overEight)/float64(m), "%s%s: times as fast as eight connections", a.name, where)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
