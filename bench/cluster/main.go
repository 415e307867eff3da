//go:build linux

// Cluster measures what a crawl costs that several crawlers share over NATS, beside one crawler alone.
//
//	go run ./bench/cluster [--hosts 120] [--pages 800] [--nodes 3] [--partitions 12] [--rounds 3]
//
// The hosts, of this machine, have as many pages each, whose links lead to each other, and four of each to other hosts. In each round one crawler fetches all
// pages, then the nodes do, without and with events in NATS: one process with three NATS servers, which sync every write. The crawlers run until all pages are
// there, and 15 s more; nodes hand over their partitions then. Printed are the medians of the processor time, in ms a page, and of its ratios, and how many URLs
// there are in a message between partitions.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/internal/pause"
)

func main() {
	program.Main("cluster", func(ctx context.Context, args []string, out io.Writer) error {
		if len(args) == 2 && args[0] == "nats" {
			return serveNATS(ctx, args[1], out)
		}
		return run(ctx, args, out)
	})
}

// serveNATS runs three NATS servers until ctx ends, and prints their URLs.
func serveNATS(ctx context.Context, dir string, out io.Writer) error {
	servers, err := natstest.New(dir, 3)
	if err != nil {
		return err
	}
	defer servers.Stop()
	fmt.Fprintln(out, servers.URLs())
	<-ctx.Done()
	return nil
}

// A web is some hosts of this machine, which are asked for all their pages.
type web struct {
	hosts, pages int
	port         string

	mu   sync.Mutex
	seen map[string]bool // pages
}

func (w *web) host(i int) string { return fmt.Sprintf("127.2.%d.%d:%s", i/200, i%200+1, w.port) }

// ServeHTTP answers with a page of 30 kB.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	n := 0
	if r.URL.Path != "/" {
		var err error
		if n, err = number(r.URL.Path); err != nil || n >= w.pages {
			http.NotFound(rw, r)
			return
		}
	}
	w.mu.Lock()
	w.seen[r.Host+strconv.Itoa(n)] = true
	w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "<title>Page %d of %s</title>\n", n, r.Host)
	for i := range 60 {
		fmt.Fprintf(&b, "<p>%s <a href=\"%s\">here</a>\n", strings.Repeat(fmt.Sprintf("word%d ", (n*31+i*7)%997), 60), path((n*7+i+1)%w.pages))
	}
	var high, low int
	fmt.Sscanf(r.Host, "127.2.%d.%d", &high, &low)
	for i := range 4 {
		to := n + i // what pages of many hosts link to
		if i%2 == 0 {
			to += 31 * (200*high + low) // what few do
		}
		fmt.Fprintf(&b, "<p><a href=\"http://%s%s\">elsewhere</a>\n", w.host((n*13+i*17)%w.hosts), path(to%w.pages))
	}
	rw.Header().Set("Content-Type", "text/html")
	io.WriteString(rw, b.String())
}

// path returns the path of a page, and number its number: a word without digits, since pages that are numbered look like those of a calendar.
func path(n int) string {
	return "/" + strings.Map(func(d rune) rune { return d - '0' + 'a' }, strconv.Itoa(n))
}

func number(path string) (int, error) {
	n, err := strconv.ParseUint(strings.Map(func(c rune) rune { return c - 'a' + '0' }, path[1:]), 10, 31)
	return int(n), err
}

// fetched returns how many pages were fetched since forget was called.
func (w *web) fetched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func (w *web) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = map[string]bool{}
}

// A setting is what is measured.
type setting struct {
	*web
	dir               string // of the programs
	nodes, partitions int
	wait              time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	s := &setting{web: &web{}}
	flags.IntVar(&s.hosts, "hosts", 120, "hosts")
	flags.IntVar(&s.pages, "pages", 800, "pages of each host")
	flags.IntVar(&s.nodes, "nodes", 3, "crawlers that share a crawl")
	flags.IntVar(&s.partitions, "partitions", 12, "partitions of that crawl")
	flags.DurationVar(&s.wait, "wait", 10*time.Millisecond, "between two requests to a host")
	rounds := flags.Int("rounds", 3, "rounds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "parley-cluster-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	if err := program.Build(ctx, s.dir, "crawler"); err != nil {
		return err
	}
	ln, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	s.port = strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: s.web}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(ln) })
	defer serving.Wait()
	defer server.Close()

	var alone []float64
	var shared, nats [2][]float64 // without events, and with
	var urls []float64
	for range *rounds {
		cpu, err := s.alone(ctx)
		if err != nil {
			return err
		}
		alone = append(alone, cpu)
		fmt.Fprintf(out, "one crawler %.2f ms a page", cpu)
		for i, events := range []string{"0", "1000000"} {
			cpu, of, each, err := s.shared(ctx, events)
			if err != nil {
				return err
			}
			shared[i], nats[i], urls = append(shared[i], cpu), append(nats[i], of), append(urls, each)
			fmt.Fprintf(out, "; %s events: crawlers %.2f, NATS %.2f, %.0f URLs a message", events, cpu, of, each)
		}
		fmt.Fprintln(out)
	}
	goals := goal.Sheet{Out: out}
	one := median(alone)
	for i, what := range []string{"without events", "with events"} {
		goals.AtMost([]float64{1.1, 1.2}[i], median(shared[i])/one, "%d crawlers of a crawl, %s: CPU time a page / that of one crawler", s.nodes, what)
		goals.AtMost(.2, median(nats[i])/median(shared[i]), "three NATS servers, %s: CPU time / that of the crawlers", what)
	}
	goals.AtLeast(100, median(urls), "URLs in a message from one partition to another")
	return goals.Err()
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// args returns the arguments of a crawler whose collection is in a directory.
func (s *setting) args(into string, more ...string) []string {
	args := []string{"run"}
	for i := range s.hosts {
		args = append(args, "http://"+s.host(i)+"/")
	}
	return append(append(args, "--into", into, "--allow-private", "--contact", "bench@example.org", "--wait", s.wait.String(), "--wait-big", s.wait.String(),
		"--trap-share", "1", "--no-manifests", "--no-sitemaps", "--no-feeds", "--log-level", "warn"), more...)
}

// ms returns the processor time of programs that have ended, in ms a page.
func (s *setting) ms(programs ...*program.Program) (sum float64) {
	for _, p := range programs {
		user, system := p.Used()
		sum += float64((user + system).Microseconds()) / 1000 / float64(s.hosts*s.pages)
	}
	return sum
}

// crawl has n crawlers fetch all pages, each with its own directory and the same further arguments, and returns their processor time once they have ended. Beside them
// runs a program that they need, or nil.
func (s *setting) crawl(ctx context.Context, dir string, n int, beside *program.Program, more ...string) (cpu float64, err error) {
	s.forget()
	var crawlers, all []*program.Program
	if beside != nil {
		all = append(all, beside)
	}
	end := func() {
		var ending sync.WaitGroup
		for _, p := range crawlers {
			ending.Go(p.End)
		}
		ending.Wait()
	}
	defer end()
	for i := range n {
		p, err := program.Start(ctx, nil, filepath.Join(s.dir, "crawler"), s.args(filepath.Join(dir, fmt.Sprint("crawler", i)), more...)...)
		if err != nil {
			return 0, err
		}
		crawlers, all = append(crawlers, p), append(all, p)
	}
	if err := program.Until(ctx, "all pages", func() bool { return s.fetched() == s.hosts*s.pages }, all...); err != nil {
		return 0, fmt.Errorf("%d of %d: %w", s.fetched(), s.hosts*s.pages, err)
	}
	if err := pause.Sleep(ctx, 15*time.Second); err != nil {
		return 0, err
	}
	end()
	for _, p := range crawlers {
		if p.Err() != nil {
			return 0, fmt.Errorf("%s: %w: %s", p.Name, p.Err(), p.Tail())
		}
	}
	return s.ms(crawlers...), nil
}

// alone has one crawler fetch all pages.
func (s *setting) alone(ctx context.Context) (cpu float64, err error) {
	dir, err := os.MkdirTemp(s.dir, "alone-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	return s.crawl(ctx, dir, 1, nil)
}

// shared has some crawlers fetch all pages together, and also returns the processor time of NATS, and how many URLs a message has.
func (s *setting) shared(ctx context.Context, events string) (cpu, nats, each float64, err error) {
	fail := func(err error) (cpu, nats, each float64, _ error) { return 0, 0, 0, err }
	dir, err := os.MkdirTemp(s.dir, "shared-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	urls := make(chan string, 1)
	broker, err := program.Start(ctx, func(line []byte) error { urls <- strings.TrimSpace(string(line)); return nil }, self, "nats", filepath.Join(dir, "nats"))
	if err != nil {
		return fail(err)
	}
	defer broker.End()
	if err := program.Until(ctx, "NATS", func() bool { return len(urls) > 0 }, broker); err != nil {
		return fail(err)
	}
	at := <-urls
	conn, err := jetlog.Connect(at, "")
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	listening, err := conn.SubscribeSync("parley-crawl-crawl-urls.*")
	if err != nil {
		return fail(err)
	}
	cpu, err = s.crawl(ctx, dir, s.nodes, broker, "--cluster", at, "--partitions", strconv.Itoa(s.partitions), "--cluster-events", events)
	if err != nil {
		return fail(err)
	}
	messages, sent := 0, 0
	for m, err := listening.NextMsg(time.Second); err == nil; m, err = listening.NextMsg(time.Second) {
		messages, sent = messages+1, sent+bytes.Count(m.Data, []byte("\n"))
	}
	broker.End()
	if err := broker.Err(); err != nil {
		return fail(fmt.Errorf("NATS: %w: %s", err, broker.Tail()))
	}
	return cpu, s.ms(broker), float64(sent) / float64(messages), nil
}
