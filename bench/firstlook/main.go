// Firstlook measures the cost of describing a site of a million files for the first time, and of scanning it
// again when nothing has changed.
//
//	go run ./bench/firstlook [--files 1000000] [--dir DIR] [--rounds 1]
//	go run ./bench/firstlook --sitemap [--rounds 5] [--npm DIR]
//	go run ./bench/firstlook --edits 200 [--files 100000]
//	go run ./bench/firstlook --compare DIR [--rounds 5]
//
// It makes a tree of small files below DIR (reused by the next run, if named), runs the real rdfgen once and
// then in rounds, and prints time and peak memory: anonymous memory, which the program allocated itself, and
// total memory with the mapped pages of its state file, which the system can reclaim at any time.
//
// With --sitemap rdfgen writes a sitemap too, beside a manifest in parts, which is the default in a docroot. In each round
// it runs on the unchanged tree and after an edit of one page, and is followed by a generator that gets the names of all
// files and writes everything anew, the npm package "sitemap":
//
//	find DIR -name '*.html' -printf 'https://www.example.org/%P\n' | sitemap
//
// The package is installed into a temporary directory by "npm install sitemap@9", and never into this
// project; --npm names a directory with an existing installation, and --npm none omits the generator. Other
// load on the machine can only slow a round down, so the best of each side counts, also for CPU time.
//
// With --edits all files are in one directory, and the cost of one edit is printed.
//
// With --compare the files of DIR are scanned in this process, and the costs are those of the scan alone: no manifest is written.
package main

import (
	"bytes"
	"context"
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

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/server/manifest"
)

func main() { program.Main("firstlook", run) }

const base = "https://www.example.org/"

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("firstlook", flag.ContinueOnError)
	files := flags.Int("files", 1_000_000, "number of files")
	dir := flags.String("dir", "", "directory of the generated tree, created if it does not exist; default: a temporary directory")
	sitemap := flags.Bool("sitemap", false, "also write a sitemap, and compare with the npm package sitemap")
	rounds := flags.Int("rounds", 1, "runs of each side on the unchanged tree")
	edits := flags.Int("edits", 0, "put all files into one directory, and measure this many edits, one after the other")
	real := flags.String("compare", "", "scan the files of `DIR`, and compare with sha256sum and find")
	npm := flags.String("npm", "", `directory in which "npm install sitemap@9" was run; "none" skips that side`)
	if err := flags.Parse(args); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "parley-firstlook-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if *dir == "" {
		*dir = filepath.Join(tmp, "docroot")
	}
	if *real != "" {
		return compared(ctx, out, tmp, *real, *rounds)
	}
	if *edits > 0 {
		return flat(ctx, out, tmp, *dir, *files, *edits)
	}
	if err := docroot.Plant(*dir, *files); err != nil {
		return err
	}
	if err := program.Build(ctx, tmp, "rdfgen"); err != nil {
		return err
	}
	rival := *sitemap && *npm != "none"
	if rival && *npm == "" {
		*npm = filepath.Join(tmp, "npm")
		if _, err := cost.Run(exec.CommandContext(ctx, "npm", "install", "--no-save", "--prefix", *npm, "sitemap@9")); err != nil {
			return err
		}
	}
	look := []string{"--docroot", *dir, "--base", base, "--state", filepath.Join(tmp, "state.db"), "--out", filepath.Join(tmp, "robots.rdf"), "--verbose"}
	if *sitemap {
		look = append(look, "--sitemap", filepath.Join(tmp, "sitemap.xml"), "--parts", fmt.Sprint(manifest.DefaultParts))
	}
	fmt.Fprintf(out, "%d files, %d CPUs\n", *files, runtime.NumCPU())
	if _, err := looked(ctx, out, "first scan", filepath.Join(tmp, "rdfgen"), look); err != nil {
		return err
	}
	var ours, edited, theirs cost.Cost
	for i := range *rounds {
		c, err := looked(ctx, out, "unchanged", filepath.Join(tmp, "rdfgen"), look)
		if err != nil {
			return err
		}
		ours = ours.Best(c)
		if !*sitemap {
			continue
		}
		if err := editOne(*dir, i); err != nil {
			return err
		}
		if c, err = looked(ctx, out, "one edit", filepath.Join(tmp, "rdfgen"), look); err != nil {
			return err
		}
		edited = edited.Best(c)
		if !rival {
			continue
		}
		const pipe = `find "$1" -name '*.html' -printf '` + base + `%P\n' | "$2" > "$3"`
		c, err = cost.Run(exec.CommandContext(ctx, "sh", "-c", pipe, "sh", *dir, filepath.Join(*npm, "node_modules", ".bin", "sitemap"), filepath.Join(tmp, "npm.xml")))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-12s %s\n", "npm sitemap", c)
		theirs = theirs.Best(c)
	}
	goals := goal.Sheet{Out: out}
	if rival {
		fmt.Fprintf(out, "rdfgen takes %.2fx the wall time, after an edit %.2fx\n", ours.Wall.Seconds()/theirs.Wall.Seconds(), edited.Wall.Seconds()/theirs.Wall.Seconds())
		goals.AtMost(0.4, ours.CPU.Seconds()/theirs.CPU.Seconds(), "CPU for the sitemap of %d unchanged files / that of npm's sitemap", *files)
		goals.AtMost(0.45, edited.CPU.Seconds()/theirs.CPU.Seconds(), "CPU for the sitemap of %d files after one edit / that of npm's sitemap", *files)
	}
	for _, f := range []string{"robots.rdf", "state.db"} {
		st, err := os.Stat(filepath.Join(tmp, f))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-12s %6.1f MB\n", f, float64(st.Size())/1e6)
	}
	return goals.Err()
}

// editOne changes one of the pages, another one in each round.
func editOne(dir string, round int) error {
	n := 0
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".html" {
			return err
		}
		if n++; n <= 37*round {
			return nil
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := fmt.Fprintf(f, "<p>Edited in round %d.\n", round); err != nil {
			return err
		}
		return filepath.SkipAll
	})
}

// looked runs rdfgen once, and prints the time and memory that it took.
func looked(ctx context.Context, out io.Writer, what, rdfgen string, args []string) (cost.Cost, error) {
	cmd := exec.CommandContext(ctx, rdfgen, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return cost.Cost{}, err
	}
	total, anonymous := watch(cmd)
	if err := cmd.Wait(); err != nil {
		return cost.Cost{}, fmt.Errorf("rdfgen: %w\n%s", err, said.String())
	}
	c := cost.Cost{Wall: time.Since(began), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	fmt.Fprintf(out, "%-12s %s   peak anonymous %d MB, with mapped file %d MB   %s\n", what, c, anonymous>>10, total>>10, strings.SplitN(said.String(), "\n", 2)[0])
	return c, nil
}

// watch samples the memory of a running program until it ends, in KiB.
func watch(cmd *exec.Cmd) (total, anonymous int) {
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	for {
		b, err := os.ReadFile(status)
		if err != nil || !bytes.Contains(b, []byte("RssAnon:")) { // ended, or not Linux
			return total, anonymous
		}
		total = max(total, field(b, "VmHWM:"))
		anonymous = max(anonymous, field(b, "RssAnon:"))
		time.Sleep(5 * time.Millisecond)
	}
}

func field(status []byte, name string) int {
	_, rest, _ := strings.Cut(string(status), name)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(words[0])
	return n
}
