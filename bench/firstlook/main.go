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
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	files := flag.Int("files", 1_000_000, "how many files")
	dir := flag.String("dir", "", "where the tree is or is to be made; default a temporary place")
	flag.Parse()
	if err := run(*files, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "firstlook:", err)
		os.Exit(1)
	}
}

func run(files int, dir string) error {
	tmp, err := os.MkdirTemp("", "parley-firstlook-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if dir == "" {
		dir = filepath.Join(tmp, "docroot")
	}
	if err := plant(dir, files); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", tmp+string(filepath.Separator), "github.com/parleyweb/parley/cmd/rdfgen")
	if msg, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, msg)
	}
	for _, what := range []string{"first look", "second look"} {
		cmd := exec.Command(filepath.Join(tmp, "rdfgen"), "--docroot", dir, "--base", "https://www.example.org/",
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
		fmt.Printf("%-12s %6.1f s wall %6.1f s cpu   peak anonymous %d MB, with mapped file %d MB   %s\n", what, time.Since(began).Seconds(),
			(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), anonymous>>10, total>>10, strings.SplitN(said.String(), "\n", 2)[0])
	}
	for _, f := range []string{"robots.rdf", "state.db"} {
		st, err := os.Stat(filepath.Join(tmp, f))
		if err != nil {
			return err
		}
		fmt.Printf("%-12s %6.1f MB\n", f, float64(st.Size())/1e6)
	}
	return nil
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
