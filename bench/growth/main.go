// Growth measures how the cost of a page grows with the number of pages that the crawler knows (V27): the real crawler crawls a virtual Web
// of 10,000, 100,000 and a million pages, in sites of 1,000, and then fetches all of them again, twice, while none has changed.
//
//	go run ./bench/growth [-pages 10000,100000,1000000] [-store none]
//
// The virtual Web is computed by this program, not stored. Each site has its own address in 127.1.0.0/16, which this program resolves
// and serves (on Linux). The processor time is that of the crawler alone. A million pages take half an hour on two cores, and 3 GB of disk. The last lines
// extrapolate to ten times as many pages as the largest crawl has: a cost that grew by a factor from the last but one crawl to the
// last grows by that factor once more.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("growth", run) }

// perSite is the number of pages of a site.
const perSite = 1000

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	pages := flags.String("pages", "10000,100000,1000000", "`NUMBERS` of pages of the Webs, in increasing order")
	store := flags.String("store", "none", "how the crawler stores contents: none, warc or mirror")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var sizes []int
	for word := range strings.SplitSeq(*pages, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < perSite || n%perSite != 0 {
			return fmt.Errorf("-pages %s: want multiples of %d, separated by commas", *pages, perSite)
		}
		sizes = append(sizes, n)
	}
	dir, err := os.MkdirTemp("", "growth")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := program.Build(ctx, dir, "crawler"); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "0.0.0.0:0") // all of 127.0.0.0/8
	if err != nil {
		return err
	}
	defer l.Close()
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer names.Close()
	w := &web{port: l.Addr().(*net.TCPAddr).Port}
	go w.serve(l)
	go w.resolve(names)
	options := []string{fmt.Sprintf("http://site-0.localhost:%d/", w.port), "--resolver", names.LocalAddr().String(), "--store", *store}

	fmt.Fprintf(out, "%12s %6s %14s %21s %20s %11s %15s\n", "pages", "", "CPU ms a page", "bytes written a page", "state, bytes a page", "memory, MB", "pages a second")
	passes := map[string][]*pass{}
	for _, n := range sizes {
		w.sites.Store(int64(n / perSite))
		into := filepath.Join(dir, "collection")
		for _, what := range []string{"first", "second", "third"} {
			p, err := crawl(ctx, filepath.Join(dir, "crawler"), into, append(options, fmt.Sprintf("--again=%t", what != "first")))
			if err != nil {
				return fmt.Errorf("%d pages, %s: %w", n, what, err)
			}
			if got := w.served.Swap(0); got != int64(n) {
				return fmt.Errorf("%d pages, %s: %d responses", n, what, got)
			}
			p.pages = float64(n)
			passes[what] = append(passes[what], p)
			p.row(out, fmt.Sprint(n), what)
		}
		if err := os.RemoveAll(into); err != nil {
			return err
		}
	}
	for _, what := range []string{"first", "second", "third"} {
		if list := passes[what]; len(list) > 1 {
			list[len(list)-1].beyond(list[len(list)-2]).row(out, fmt.Sprintf("(%d)", 10*sizes[len(sizes)-1]), what)
		}
	}
	return nil
}

// A pass is the cost of fetching all pages once, in total.
type pass struct {
	pages, processor, wall float64 // seconds
	written, state         float64 // bytes
	memory                 float64 // bytes that the crawler has allocated itself, the most seen
}

func (p *pass) row(w io.Writer, n, what string) {
	fmt.Fprintf(w, "%12s %6s %14.3f %21.0f %20.0f %11.0f %15.0f\n", n, what, 1000*p.processor/p.pages, p.written/p.pages, p.state/p.pages,
		p.memory/1e6, p.pages/p.wall)
}

// beyond extrapolates to ten times as many pages, from a smaller crawl and this one.
func (p *pass) beyond(small *pass) *pass {
	next := func(of func(*pass) float64) float64 { return of(p) * of(p) / of(small) * 10 * small.pages / p.pages }
	return &pass{
		pages:     10 * p.pages,
		processor: next(func(p *pass) float64 { return p.processor }),
		wall:      next(func(p *pass) float64 { return p.wall }),
		written:   next(func(p *pass) float64 { return p.written }),
		state:     next(func(p *pass) float64 { return p.state }),
		memory:    next(func(p *pass) float64 { return p.memory }),
	}
}

// crawl runs the crawler until it has fetched all pages.
func crawl(ctx context.Context, crawler, into string, options []string) (*pass, error) {
	args := append([]string{"crawl", "--into", into, "--domain", "localhost", "--wait", "0", "--wait-big", "0", "--per-address", "1000/s,64", "--allow-private",
		"--per-site", "1000000", "--max-pages", "100000000", "--no-manifests", "--no-sitemaps", "--no-feeds"}, options...)
	cmd := exec.CommandContext(ctx, crawler, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &pass{}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				text := said.String()
				return nil, fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
			}
			p.wall = time.Since(began).Seconds()
			p.processor = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
			p.state, err = size(into)
			return p, err
		case <-time.After(100 * time.Millisecond):
			p.memory = max(p.memory, float64(cost.Anonymous(cmd.Process.Pid)))
			p.written = max(p.written, written(cmd.Process.Pid))
		}
	}
}

// written returns the bytes that a process has sent to disks, on Linux; 0 elsewhere.
func written(pid int) (n float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid)) // none once it has ended
	if _, rest, ok := strings.Cut(string(text), "\nwrite_bytes: "); ok {
		fmt.Sscan(rest, &n)
	}
	return n
}

// size returns the bytes of all files of a directory.
func size(dir string) (n float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += float64(info.Size())
		}
		return err
	})
	return n, err
}
