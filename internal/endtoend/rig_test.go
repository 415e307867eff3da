// Package endtoend tests stories with the real programs: notifier, crawler and rdfgen as processes, a web
// server between them, and kill -9.
package endtoend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/inventory"
)

var bin string // directory of the built programs

// programsEnv gives a test that runs as a child process of another test the directory of the programs.
const programsEnv = "PARLEY_TEST_PROGRAMS"

func TestMain(m *testing.M) {
	if file := os.Getenv(natsEnv); file != "" {
		runNATS(file)
		return
	}
	if bin = os.Getenv(programsEnv); bin != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "parley-endtoend-")
	if err != nil {
		panic(err)
	}
	bin = dir
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator),
		"../../cmd/rdfgen", "../../cmd/notifier", "../../cmd/crawler")
	if msg, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, msg)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A rig is a site, its web server, and the programs on both sides of it.
type rig struct {
	t       *testing.T
	root    string // docroot
	mirror  string
	state   string
	base    string
	sidecar string
	web     *front.Front
	flags   []string // additional flags of notifier and rdfgen

	notifier, crawler *program
}

// newRig serves an empty docroot. Nothing else runs yet.
func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	r := &rig{t: t, root: filepath.Join(dir, "public"), mirror: filepath.Join(dir, "mirror"), state: filepath.Join(dir, "state.db")}
	r.must(os.Mkdir(r.root, 0o755))
	web := must.Get(front.Serve(r.root))
	t.Cleanup(func() { web.Close() })
	r.web, r.base, r.sidecar = web, web.Base, web.Sidecar
	t.Cleanup(func() {
		r.crawler.stop()
		r.notifier.stop()
		if t.Failed() {
			r.t.Logf("log of the notifier:\n%s\nlog of the crawler:\n%s", r.notifier.said(), r.crawler.said())
		}
	})
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

func (r *rig) write(name, content string) {
	r.t.Helper()
	must.Write(r.t, r.path(name), content)
}

func (r *rig) startNotifier(flags ...string) {
	r.t.Helper()
	args := append([]string{"--docroot", r.root, "--base", r.base, "--listen", r.sidecar, "--state", r.state, "--log-level", "info"}, r.flags...)
	r.notifier = start(r.t, r.notifier, "notifier", append(args, flags...)...)
	r.until("the notifier describes the site", func() bool {
		resp, err := http.Get(r.base + "robots.rdf")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (r *rig) startCrawler(flags ...string) {
	r.t.Helper()
	r.crawler = start(r.t, r.crawler, "crawler", append([]string{"follow", r.base, "--into", r.mirror, "--log-level", "info"}, flags...)...)
}

// rdfgen runs rdfgen on the site's state and returns its output and exit code.
func (r *rig) rdfgen(flags ...string) (string, int) {
	r.t.Helper()
	args := append([]string{"--docroot", r.root, "--base", r.base, "--state", r.state, "--verbose"}, flags...)
	return run(r.t, "rdfgen", args...)
}

// look makes rdfgen scan now and returns its report.
func (r *rig) look() (found inventory.Report, code int) {
	r.t.Helper()
	out, code := r.rdfgen("--json", "--log-level", "error")
	_, text, _ := strings.Cut(out, "{")
	if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&found); err != nil && code == 0 {
		r.t.Fatalf("rdfgen --json: %v: %s", err, out)
	}
	return found, code
}

func run(t *testing.T, name string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, name), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// until waits for a condition that must become true.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for began := time.Now(); !cond(); began = time.Now() {
		if time.Now().After(deadline) {
			r.t.Fatalf("timed out waiting until %s\nlog of the notifier:\n%s\nlog of the crawler:\n%s", what, r.notifier.said(), r.crawler.said())
		}
		rest(began, 2*time.Millisecond)
	}
}

// rest waits before a condition is looked at again, which took since began the last time: the programs need the processor.
func rest(began time.Time, least time.Duration) { time.Sleep(max(least, 4*time.Since(began))) }

// identical waits until the mirror equals the docroot's public files, byte for byte, with no other file.
func (r *rig) identical() {
	r.t.Helper()
	r.identicalBut(func(string) bool { return false })
}

// identicalBut waits for the same, without the files that left selects, and for the mirror to have none of
// those: as long as the mirror changes, and 2 minutes more.
func (r *rig) identicalBut(left func(page string) bool) {
	r.t.Helper()
	var diff string
	var last map[string][32]byte
	var deadline time.Time
	for {
		began := time.Now()
		want, got := tree(r.t, r.root), tree(r.t, r.mirror)
		maps.DeleteFunc(want, func(page string, _ [32]byte) bool { return left(page) })
		if diff = difference(want, got); diff == "" {
			return
		}
		if deadline.IsZero() || !maps.Equal(got, last) {
			last, deadline = got, began.Add(2*time.Minute)
		}
		if r.crawler.ended() || time.Now().After(deadline) {
			r.t.Fatalf("the mirror differs from the site: %s\nlog of the notifier:\n%s\nlog of the crawler:\n%s", diff, r.notifier.said(), r.crawler.said())
		}
		rest(began, 20*time.Millisecond)
	}
}

// tree returns the digest of every public file below dir, by path. It is the tests' own definition of what is
// public by default.
func tree(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	m := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is being changed
		} else if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && p != dir {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() || !slices.Contains([]string{".htm", ".html", ".xhtml", ".pdf"}, strings.ToLower(filepath.Ext(p))) {
			return nil
		}
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		m[filepath.ToSlash(rel)] = sha256.Sum256(b)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return m
}

func difference(want, got map[string][32]byte) string {
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[p]; !ok {
			return "lacks " + p
		} else if g != want[p] {
			return "differs in " + p
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			return "still has " + p
		}
	}
	return ""
}

// A program is one of Parley's, running.
type program struct {
	cmd  *exec.Cmd
	log  lockedBuffer
	done chan struct{}
}

// start runs a program; the output of an earlier run is kept.
func start(t *testing.T, earlier *program, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(filepath.Join(bin, name), args...), done: make(chan struct{})}
	if earlier != nil {
		p.log.Write([]byte(earlier.said()))
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	must.OK(t, p.cmd.Start())
	go func() { p.cmd.Wait(); close(p.done) }()
	return p
}

func (p *program) said() string {
	if p == nil {
		return ""
	}
	return p.log.String()
}

// ended reports whether a started program has ended.
func (p *program) ended() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill9 ends the program as a crash would.
func (p *program) kill9() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop ends the program as an admin would, and waits.
func (p *program) stop() {
	if p == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.kill9()
	}
}

// A lockedBuffer keeps the last part of a program's output.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 1<<20 {
		b.buf.Next(1 << 19)
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.String()
	return s[max(0, len(s)-8000):]
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && !st.IsDir()
}
