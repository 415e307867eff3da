// Crawl measures the cost of a full crawl: Parley's crawler, wget2, and a plain crawler of net/http and the
// tokenizer of golang.org/x/net/html (bench/crawl/reference) fetch the same pages from the same nginx on
// loopback, without delays.
//
//	go run ./bench/crawl [-rounds 7] [-only ROW,...] [DOCROOT ...]    # a whole crawl, by links
//	go run ./bench/crawl -mode manifest [DOCROOT ...]                 # by a manifest, reading no page
//	go run ./bench/crawl -mode recrawl [DOCROOT ...]                  # again, after 1 % of the pages changed; two minutes
//
// Each docroot is served with its .html files alone. By default they are those of cppreference-doc-en-html
// and rust-doc. In every round all rows run, one after the other, starting with another one each time. The
// goals are on the processor time of a program for 1,000 pages: other load on the machine affects wall time
// far more. Ratios are between runs of the same round, and their median counts. The requests of a row are
// read from nginx's log, and must be exactly the pages that this program found in the files by itself, each
// once; otherwise the exit code is 1. (Other requests are shown: missing files, and URLs with a query.)
//
// A crawler uses one connection to a site, as Parley always does, or eight. That makes a great difference to
// the cost of a fetch in Go, so peers run both ways, and the better of both counts. By manifests, Parley is compared
// with as many connections as it has: one to a site, and eight to eight sites.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("crawl", run) }

// A bench is one run of the program.
type bench struct {
	rounds int
	only   []string
	extra  []string // options for every run of Parley's crawler
	limit  time.Duration
	dir    string // temporary
	out    io.Writer
	goals  goal.Sheet

	wrong int // rows with a wrong result
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b := &bench{out: out, goals: goal.Sheet{Out: out}}
	flags := flag.NewFlagSet("crawl", flag.ContinueOnError)
	mode := flags.String("mode", "links", "what to measure: `links`, manifest or recrawl")
	flags.IntVar(&b.rounds, "rounds", 7, "runs of each row")
	only := flags.String("only", "", "run only the `ROWS` whose names contain one of these comma-separated words")
	extra := flags.String("crawler", "", "additional `OPTIONS` for Parley's crawler")
	share := flags.Float64("changed", 0.01, "share of the pages that change, for -mode recrawl")
	flags.DurationVar(&b.limit, "limit", 10*time.Minute, "time limit of a run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.extra = strings.Fields(*extra)
	if *only != "" {
		b.only = strings.Split(*only, ",")
	}
	docroots := flags.Args()
	if len(docroots) == 0 {
		docroots = []string{"/usr/share/cppreference/doc/html/en", "/usr/share/doc/rust-doc/html"}
	}
	measure := map[string]func(context.Context, *site, *nginx.Server) error{
		"links":    b.byLinks,
		"manifest": b.byManifest,
		"recrawl":  func(ctx context.Context, s *site, n *nginx.Server) error { return b.recrawl(ctx, s, n, *share) },
	}[*mode]
	if measure == nil {
		return fmt.Errorf("-mode %s: want links, manifest or recrawl", *mode)
	}
	if b.dir, err = os.MkdirTemp("", "parley-crawl-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	for _, from := range docroots {
		if err := b.visit(ctx, from, measure); err != nil {
			return err
		}
	}
	if *mode == "manifest" {
		if err := b.chain(ctx); err != nil {
			return err
		}
	}
	if b.wrong > 0 {
		return fmt.Errorf("%d runs did not fetch exactly the expected pages", b.wrong)
	}
	return b.goals.Err()
}

// program returns the path of a program that build makes.
func (b *bench) program(name string) string { return filepath.Join(b.dir, "bin", name) }

// build makes a program, if it does not exist yet.
func (b *bench) build(ctx context.Context, name string) error {
	if _, err := os.Stat(b.program(name)); err == nil {
		return nil
	}
	dir := filepath.Dir(b.program(name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if name != "reference" {
		return program.Build(ctx, dir, name)
	}
	if msg, err := exec.CommandContext(ctx, "go", "build", "-o", b.program(name), "github.com/parleyweb/parley/bench/crawl/reference").CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, msg)
	}
	return nil
}

// visit serves a docroot, and runs a measurement with it.
func (b *bench) visit(ctx context.Context, from string, measure func(context.Context, *site, *nginx.Server) error) (err error) {
	dir, err := os.MkdirTemp(b.dir, "site-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := docroot.Copy(from, filepath.Join(dir, "docroot"))
	if err != nil {
		return err
	}
	n, err := nginx.Start(ctx, dir, nginx.Site{Root: root.Path})
	if err != nil {
		return err
	}
	defer n.Close()
	s := &site{Docroot: root, Survey: root.Survey(), bases: n.Bases}
	fmt.Fprintf(b.out, "\n%s: %d pages, %d of them reachable within %d steps, %d MB\n", from, len(s.Docroot.Pages), len(s.Survey.Pages), s.Depth, s.Bytes/1e6)
	return measure(ctx, s, n)
}

// wanted reports whether a row is to run.
func (b *bench) wanted(name string) bool {
	return b.only == nil || slices.ContainsFunc(b.only, func(word string) bool { return strings.Contains(name, word) })
}

// byLinks measures the whole crawl of a site without Parley.
func (b *bench) byLinks(ctx context.Context, s *site, n *nginx.Server) error {
	wget := []*rival{b.wget2(1), b.wget2(8)}
	ref := []*rival{b.reference(1), b.reference(8)}
	none := b.parley("links only", "none", "none")
	plain := b.parley("WARC", "warc", "none")
	mirror := b.parley("mirror", "mirror", "none")
	rows := slices.Concat(wget, ref, []*rival{none, plain, b.parley("WARC, gzip", "warc", "gzip"), b.parley("WARC, zstd", "warc", "zstd"), mirror})
	return b.race(ctx, s, n, s.Survey.Pages, rows, []bound{
		{row: plain, peers: wget, limit: 0.7},
		{row: mirror, peers: wget, limit: 0.9},
		{row: none, peers: ref, limit: 0.75},
	})
}
