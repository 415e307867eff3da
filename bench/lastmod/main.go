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
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lastmod:", err)
		os.Exit(1)
	}
}

const base = "https://www.example.org/"

func run(args []string, w io.Writer) error {
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
	if err := plant(*dir, *files); err != nil {
		return err
	}
	if err := say("build", exec.Command("go", "build", "-o", tmp+string(filepath.Separator), "github.com/parleyweb/parley/cmd/rdfgen")); err != nil {
		return err
	}
	if *npm == "" {
		*npm = filepath.Join(tmp, "npm")
		if err := say("install the npm package", exec.Command("npm", "install", "--no-save", "--prefix", *npm, "sitemap@9")); err != nil {
			return err
		}
	}
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	ours := func() *exec.Cmd {
		return exec.Command(filepath.Join(tmp, "rdfgen"), "--docroot", *dir, "--base", base, "--state", filepath.Join(tmp, "state.db"),
			"--out", filepath.Join(out, "robots.rdf"), "--sitemap", filepath.Join(out, "sitemap.xml"), "--verbose")
	}
	theirs := func() *exec.Cmd {
		const pipe = `find "$1" -name '*.html' -printf '` + base + `%P\n' | "$2" > "$3"`
		return exec.Command("sh", "-c", pipe, "sh", *dir, filepath.Join(*npm, "node_modules", ".bin", "sitemap"), filepath.Join(out, "npm.xml"))
	}
	first, err := measure(ours())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d files, %d CPUs\nfirst run, every file digested:  %v\n", *files, runtime.NumCPU(), first)
	var best [2]cost
	for i := range *rounds {
		for side, cmd := range []func() *exec.Cmd{ours, theirs} {
			if side == 1 && *npm == "none" {
				continue
			}
			c, err := measure(cmd())
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "round %d  %-22s %v\n", i+1, []string{"rdfgen, unchanged", "find | sitemap (npm)"}[side], c)
			best[side] = best[side].least(c)
		}
	}
	if best[1].wall > 0 {
		fmt.Fprintf(w, "rdfgen takes %.2fx the wall time and %.2fx the CPU time\n",
			best[0].wall.Seconds()/best[1].wall.Seconds(), best[0].cpu.Seconds()/best[1].cpu.Seconds())
	}
	return nil
}

// say runs a command, and repeats what it said if it failed.
func say(what string, cmd *exec.Cmd) error {
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, msg)
	}
	return nil
}

// A cost is what one run took.
type cost struct {
	wall, cpu time.Duration
	memory    int64 // the most of one process, in bytes; 0 if unknown
}

func (c cost) String() string {
	s := fmt.Sprintf("%6.2f s wall %6.2f s cpu", c.wall.Seconds(), c.cpu.Seconds())
	if c.memory > 0 {
		s += fmt.Sprintf("  %4d MB", c.memory>>20)
	}
	return s
}

func (c cost) least(o cost) cost {
	if c.wall == 0 {
		return o
	}
	return cost{min(c.wall, o.wall), min(c.cpu, o.cpu), max(c.memory, o.memory)}
}

func measure(cmd *exec.Cmd) (c cost, err error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return c, fmt.Errorf("%s: %w\n%s", cmd.Path, err, &said)
	}
	c.wall = time.Since(began)
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // with all children that it waited for
	c.memory = peak(cmd.ProcessState)
	return c, nil
}

// plant makes the tree, unless it is there already.
func plant(dir string, files int) error {
	mark := filepath.Join(dir, ".planted-"+strconv.Itoa(files))
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	const each = 50 // files in a directory
	for i := 0; i < files; i += each {
		d := filepath.Join(dir, fmt.Sprintf("s%02d", i/each%97), fmt.Sprintf("t%03d", i/each/97%211), fmt.Sprintf("u%d", i/each))
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		for j := i; j < min(i+each, files); j++ {
			page := fmt.Appendf(nil, "<!doctype html><title>%d</title><p>%s</p>", j, strings.Repeat("words ", j%80))
			if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("page-%d.html", j)), page, 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(mark, nil, 0o644)
}
