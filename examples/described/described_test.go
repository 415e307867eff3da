// Package described contains a client that was written only from the
// descriptions that a site serves, and a test that its copy equals the site.
package described

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
)

// pythonWith returns a Python that has the package. If there is none, it skips
// the test, or fails it where all tools are required.
func pythonWith(t *testing.T, module string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} { // only the second always finds Debian's packages
		if path, err := exec.LookPath(python); err == nil && exec.Command(path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	machine.Lacks(t, "no python3 with the package "+module+" on this machine")
	return ""
}

// A program is a process that runs beside the test.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(name), p.said())
		}
	})
	return p
}

func (p *program) end(by syscall.Signal) {
	p.cmd.Process.Signal(by)
	<-p.done
}

// A mirror is the Python client's copy of a site. Tests edit the site's files,
// and stop and start its notifier.
type mirror struct {
	*testing.T
	root, copy string
	state      string
	python     string
	notifier   *program
	client     *program
	web        *front.Front
	args       []string // of the notifier
	rnd        *rand.Rand
}

func newMirror(t *testing.T, flags ...string) *mirror {
	m := &mirror{T: t, python: pythonWith(t, "websockets"), rnd: rand.New(rand.NewPCG(7, 8))}
	dir := t.TempDir()
	m.root, m.copy, m.state = filepath.Join(dir, "docroot"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "state")
	m.must(os.Mkdir(m.root, 0o755))
	m.must(os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "notifier"), "../../cmd/notifier").CombinedOutput(); err != nil {
		t.Fatalf("build notifier: %v\n%s", err, out)
	}
	var err error
	m.web, err = front.Serve(m.root)
	m.must(err)
	t.Cleanup(func() { m.web.Close() })
	m.args = append([]string{"--docroot", m.root, "--base", m.web.Base, "--listen", m.web.Sidecar, "--state", m.state,
		"--grace", "10ms", "--no-self-check", "--log-level", "info"}, flags...)
	return m
}

func (m *mirror) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *mirror) until(what string, cond func() bool) {
	m.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			m.Fatalf("timed out waiting until %s", what)
		}
	}
}

func (m *mirror) startNotifier() {
	m.Helper()
	m.notifier = start(m.T, filepath.Join(filepath.Dir(m.root), "bin", "notifier"), m.args...)
	m.until("the site is described", func() bool {
		resp, err := http.Get(m.web.Base + "robots.rdf")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
}

func (m *mirror) startClient() {
	m.Helper()
	m.client = start(m.T, m.python, "mirror.py", "follow", m.web.Base, m.copy)
}

// edit deletes, moves or writes a few pages at random.
func (m *mirror) edit() {
	for range 1 + m.rnd.IntN(4) {
		name := fmt.Sprintf("%s/page-%d.html", []string{".", "news", "a b/ü"}[m.rnd.IntN(3)], m.rnd.IntN(12))
		path := filepath.Join(m.root, filepath.FromSlash(name))
		m.must(os.MkdirAll(filepath.Dir(path), 0o755))
		switch m.rnd.IntN(8) {
		case 0:
			os.Remove(path)
		case 1:
			os.Rename(path, filepath.Join(m.root, fmt.Sprintf("moved-%d.html", m.rnd.IntN(5))))
		case 2: // larger than a page in a message may be
			m.must(os.WriteFile(path, bytes.Repeat([]byte(fmt.Sprintf("<p>%d ", m.rnd.Uint64())), 20_000), 0o644))
		case 3: // not UTF-8, or empty
			m.must(os.WriteFile(path, []byte{0xff, 0xfe, 0}[:m.rnd.IntN(4)], 0o644))
		default:
			m.must(os.WriteFile(path, []byte(fmt.Sprintf("<title>%s</title><p>%d", name, m.rnd.Uint64())), 0o644))
		}
	}
}

// files returns the digest of every file below a directory.
func (m *mirror) files(dir string) map[string][32]byte {
	m.Helper()
	found := map[string][32]byte{}
	m.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		found[filepath.ToSlash(rel)] = sha256.Sum256(b)
		return err
	}))
	return found
}

// identical waits until the copy equals the site, byte for byte.
func (m *mirror) identical(when string) {
	m.Helper()
	begun, want := time.Now(), m.files(m.root)
	var got map[string][32]byte
	var stands string
	defer func() {
		if m.Failed() {
			m.Logf("%s: the copy, at %s, has %v, and the site %v", when, stands, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}()
	m.until("the copy is the site "+when, func() bool {
		into := filepath.Join(m.TempDir(), "written")
		m.must(os.MkdirAll(into, 0o755))
		cmd := exec.Command(m.python, "mirror.py", "write", m.copy, into)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil && strings.Contains(errs.String(), "locked") {
			return false // the client is writing
		} else if err != nil {
			m.Fatalf("write: %v: %s", err, errs.String())
		}
		got, stands = m.files(into), strings.TrimSpace(string(out))
		return maps.Equal(got, want)
	})
	m.Logf("%s: identical after %v", when, time.Since(begun).Round(time.Millisecond))
	if len(want) < 5 {
		m.Errorf("%s: there are only %d pages", when, len(want))
	}
}

// The copy becomes equal to the site, whichever of notifier and client is killed,
// and whatever is edited meanwhile: for a site that delivers the content of pages
// with their changes, and for one that only announces the changes.
func TestMirror(t *testing.T) {
	for form, kills := range map[string]int{"page": 2, "meta": 1} {
		t.Run(form, func(t *testing.T) {
			if form != "page" && testing.Short() {
				t.Skip("tested with form page only in short mode")
			}
			flags := []string{"--preset", "moderate"}
			if form == "page" {
				flags = []string{"--preset", "high", "--trust-docroot"}
			}
			newMirror(t, flags...).story(form, kills)
		})
	}
}

func (m *mirror) story(form string, kills int) {
	for range 20 {
		m.edit()
	}
	m.startNotifier()
	m.startClient()
	m.identical("at first")
	for range 30 {
		m.edit()
		time.Sleep(time.Duration(m.rnd.IntN(30)) * time.Millisecond) // so that edits are spread over time
	}
	m.identical("after edits")

	for i := range kills {
		m.notifier.end(syscall.SIGKILL)
		for range 10 {
			m.edit()
		}
		m.startNotifier()
		for range 10 {
			m.edit()
			time.Sleep(time.Duration(m.rnd.IntN(30)) * time.Millisecond)
		}
		m.identical(fmt.Sprintf("after the sidecar was killed %d times", i+1))
	}

	m.client.end(syscall.SIGKILL)
	for range 10 {
		m.edit()
	}
	m.notifier.end(syscall.SIGTERM)
	m.startNotifier()
	m.startClient()
	m.identical("after both were started again")
	if said := m.client.said(); strings.Contains(said, "the manifest names") {
		m.Errorf("after a restart the client read the manifest although it has a cursor:\n%s", said)
	}

	// A lost state means a new epoch: the existing pages are read anew.
	m.notifier.end(syscall.SIGKILL)
	m.edit()
	lost, err := filepath.Glob(m.state + "*")
	m.must(err)
	if len(lost) == 0 {
		m.Fatal("no state files")
	}
	for _, file := range lost {
		m.must(os.RemoveAll(file))
	}
	m.startNotifier()
	m.edit()
	m.identical("after the state was lost")
	if said := m.client.said(); !strings.Contains(said, "the manifest names") {
		m.Errorf("after the state was lost the client did not read the manifest:\n%s", said)
	}
	status, err := exec.Command(m.notifier.cmd.Path, "status", "--base", m.web.Base, "--state", m.state).CombinedOutput()
	m.must(err)
	if !regexp.MustCompile(`as ` + form + ` +1 subscribers; [1-9]`).Match(status) {
		m.Errorf("nothing was delivered as=%s:\n%s", form, status)
	}
	m.client.end(syscall.SIGTERM)
	if code := m.client.cmd.ProcessState.ExitCode(); code != 0 {
		m.Errorf("exit code %d after SIGTERM:\n%s", code, m.client.said())
	}
}
