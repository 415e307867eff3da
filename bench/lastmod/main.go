// Lastmod measures what it takes to keep the sitemap of a big site true while
// nothing changes: rdfgen, which knows it, beside a generator that is handed the
// names of all files and writes everything anew, the npm package "sitemap".
//
//	go run ./bench/lastmod [--files 1000000] [--dir DIR] [--rounds 5] [--npm DIR]
//
// It makes a tree of small files below DIR (kept there for the next run, if
// named; the tree of bench/firstlook will do), and runs rdfgen --sitemap on it
// once, which reads and digests every file. Then come rounds in which both
// sides run, one after the other: rdfgen again, and
//
//	find DIR -name '*.html' -printf 'https://www.example.org/%P\n' | sitemap
//
// the output of both going to files. The package is installed into a temporary
// place by "npm install sitemap@9", and never into this project; --npm names a
// directory where it was installed before, and --npm none leaves it out. What
// else a machine does can only slow a round down, so the best of each side
// counts, and so does CPU time.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("lastmod", run) }

const base = "https://www.example.org/"

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("lastmod", flag.ContinueOnError)
	files := flags.Int("files", 1_000_000, "how many files")
	dir := flags.String("dir", "", "where the tree is or is to be made; default a temporary place")
	rounds := flags.Int("rounds", 5, "how often each side runs")
	npm := flags.String("npm", "", `where "npm install sitemap@9" was run before; "none" leaves that side out`)
	if err := flags.Parse(args); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "parley-lastmod-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if *dir == "" {
		*dir = filepath.Join(tmp, "docroot")
	}
	if err := docroot.Plant(*dir, *files); err != nil {
		return err
	}
	if err := program.Build(ctx, tmp, "rdfgen"); err != nil {
		return err
	}
	if *npm == "" {
		*npm = filepath.Join(tmp, "npm")
		if _, err := cost.Run(exec.CommandContext(ctx, "npm", "install", "--no-save", "--prefix", *npm, "sitemap@9")); err != nil {
			return err
		}
	}
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	ours := func() *exec.Cmd {
		return exec.CommandContext(ctx, filepath.Join(tmp, "rdfgen"), "--docroot", *dir, "--base", base, "--state", filepath.Join(tmp, "state.db"),
			"--out", filepath.Join(out, "robots.rdf"), "--sitemap", filepath.Join(out, "sitemap.xml"), "--verbose")
	}
	theirs := func() *exec.Cmd {
		const pipe = `find "$1" -name '*.html' -printf '` + base + `%P\n' | "$2" > "$3"`
		return exec.CommandContext(ctx, "sh", "-c", pipe, "sh", *dir, filepath.Join(*npm, "node_modules", ".bin", "sitemap"), filepath.Join(out, "npm.xml"))
	}
	first, err := cost.Run(ours())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d files, %d CPUs\nfirst run, every file digested:  %s\n", *files, runtime.NumCPU(), first)
	var best [2]cost.Cost
	for i := range *rounds {
		for side, cmd := range []func() *exec.Cmd{ours, theirs} {
			if side == 1 && *npm == "none" {
				continue
			}
			c, err := cost.Run(cmd())
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "round %d  %-22s %s\n", i+1, []string{"rdfgen, unchanged", "find | sitemap (npm)"}[side], c)
			best[side] = best[side].Best(c)
		}
	}
	if best[1].Wall > 0 {
		fmt.Fprintf(w, "rdfgen takes %.2fx the wall time and %.2fx the CPU time\n",
			best[0].Wall.Seconds()/best[1].Wall.Seconds(), best[0].CPU.Seconds()/best[1].CPU.Seconds())
	}
	return nil
}
