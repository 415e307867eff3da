// Firstlook measures what it takes to describe a site of a million files for
// the first time, and to look at it again when nothing has changed.
//
//	go run ./bench/firstlook [--files 1000000] [--dir DIR]
//
// It makes a tree of small files below DIR (kept there for the next run, if
// named), runs the real rdfgen twice, and prints time and peak memory: what the
// program allocated itself (anonymous), and with the mapped pages of its state
// file, which the system takes back whenever it wants them.
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
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("firstlook", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("firstlook", flag.ContinueOnError)
	files := flags.Int("files", 1_000_000, "how many files")
	dir := flags.String("dir", "", "where the tree is or is to be made; default a temporary place")
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
	if err := docroot.Plant(*dir, *files); err != nil {
		return err
	}
	if err := program.Build(ctx, tmp, "rdfgen"); err != nil {
		return err
	}
	for _, what := range []string{"first look", "second look"} {
		cmd := exec.CommandContext(ctx, filepath.Join(tmp, "rdfgen"), "--docroot", *dir, "--base", "https://www.example.org/",
			"--state", filepath.Join(tmp, "state.db"), "--out", filepath.Join(tmp, "robots.rdf"), "--verbose")
		var said bytes.Buffer
		cmd.Stderr = &said
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		total, anonymous := watch(cmd)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("rdfgen: %w\n%s", err, said.String())
		}
		fmt.Fprintf(out, "%-12s %6.1f s wall %6.1f s cpu   peak anonymous %d MB, with mapped file %d MB   %s\n", what, time.Since(began).Seconds(),
			(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), anonymous>>10, total>>10, strings.SplitN(said.String(), "\n", 2)[0])
	}
	for _, f := range []string{"robots.rdf", "state.db"} {
		st, err := os.Stat(filepath.Join(tmp, f))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-12s %6.1f MB\n", f, float64(st.Size())/1e6)
	}
	return nil
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
