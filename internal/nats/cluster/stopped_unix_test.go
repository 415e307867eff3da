//go:build unix

package cluster_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// Nodes are processes whose clocks are an hour apart. Again and again one is stopped for three leases, as a machine that is suspended, and goes on: the others have
// its hosts then, and it has not heard that. No host gets two requests within its wait. With PARLEY_RESUMES=10000 there are that many stopped owners of a partition, which
// takes 25 minutes: give go test a -timeout. (V29)
func TestOwnersThatAreStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program, and stops each of three processes for 6 s")
	}
	t.Parallel()
	const lease, wait = 2 * time.Second, 500 * time.Millisecond
	partitions, resumes := 24, 24
	if n, err := strconv.Atoi(os.Getenv("PARLEY_RESUMES")); err == nil && n > 0 {
		partitions, resumes = 240, n
	}
	r, w := newRig(t, 1), &askedWeb{wait: wait, hosts: map[string]asked{}}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	nodes := []string{"node0", "node1", "node2"}
	var processes []*os.Process
	var clocks []time.Time
	program := buildNode(t)
	for i, name := range nodes {
		c := exec.Command(program, r.servers.URLs(), s.Listener.Addr().String(), t.TempDir(), name, strconv.Itoa(partitions), lease.String(), wait.String())
		c.Env, c.Stderr = append(os.Environ(), skewEnv+"="+strings.Repeat("h", i)), r.Output()
		out := must.Get(c.StdoutPipe())
		must.OK(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		line := must.Get(bufio.NewReader(out).ReadString('\n'))
		processes, clocks = append(processes, c.Process), append(clocks, must.Get(time.Parse(time.RFC3339, strings.TrimSpace(line))))
	}
	for i := range clocks[1:] {
		if apart := clocks[i+1].Sub(clocks[i]); apart < time.Hour {
			t.Fatalf("the clocks of %s and %s are %v apart", nodes[i], nodes[i+1], apart)
		}
	}
	share := map[string]int{}
	for p := 1; p <= partitions; p++ {
		share[partition.Owner(p, nodes)]++
	}
	has := func(name string) func() bool { return func() bool { return w.asks(name) >= share[name] } }
	for _, name := range nodes {
		r.eventually(name+" asks its hosts", has(name))
	}
	stops, stopped := 0, 0
	for ; stopped < resumes; stops++ {
		i := stops % len(nodes)
		began := time.Now()
		must.OK(t, processes[i].Signal(syscall.SIGSTOP))
		r.eventually("others ask the hosts of "+nodes[i], func() bool { return w.asks(nodes[i]) == 0 && time.Since(began) > 3*lease })
		must.OK(t, processes[i].Signal(syscall.SIGCONT))
		r.eventually(nodes[i]+" asks them again", has(nodes[i]))
		stopped += share[nodes[i]]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.early {
		t.Error(e)
	}
	if most := lease + 5*time.Second + w.wait; partitions > 24 && w.idle > most { // the short form runs beside other tests
		t.Errorf("a host had no request for %v, though it may be idle for %v", w.idle, most)
	}
	if w.moves < stopped {
		t.Errorf("%d times a host got another node, for %d owners that were stopped", w.moves, stopped)
	}
	t.Logf("%d requests to %d hosts; %d owners stopped and resumed, in %d stops of a node; %d times a host got another node, after %v without a request at most",
		w.requests, partitions, stopped, stops, w.moves, w.idle.Round(time.Millisecond))
}

// An askedWeb is a web server that notes who asks its hosts.
type askedWeb struct {
	wait time.Duration

	mu       sync.Mutex // guards the rest
	hosts    map[string]asked
	early    []string // requests that came too early
	requests int
	moves    int           // requests by another node than the one before
	idle     time.Duration // the longest time without a request to a host
}

type asked struct {
	at time.Time
	by string
}

// ServeHTTP notes the time before it answers: a crawler that waits after the answer waits at least as long from then on.
func (w *askedWeb) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, last := asked{time.Now(), req.UserAgent()}, w.hosts[req.Host]
	if since := now.at.Sub(last.at); since < w.wait {
		w.early = append(w.early, fmt.Sprintf("%s is asked by %s, and %v later by %s for %s", req.Host, last.by, since, now.by, req.URL))
	}
	if w.requests++; !last.at.IsZero() {
		w.idle = max(w.idle, now.at.Sub(last.at))
	}
	if last.by != "" && last.by != now.by {
		w.moves++
	}
	w.hosts[req.Host] = now
}

// asks returns how many hosts a node was the last to ask.
func (w *askedWeb) asks(node string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.hosts {
		if a.by == node {
			n++
		}
	}
	return n
}

// skewEnv has a letter for each hour by which the clock of a node is wrong.
const skewEnv = "PARLEY_TEST_SKEW"

// buildNode builds testdata/node with a time package whose clock is wrong.
func buildNode(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	root := must.Get(exec.Command("go", "env", "GOROOT").Output())
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	const now = "sec, nsec, mono := runtimeNow()"
	text := string(must.Get(os.ReadFile(file)))
	if strings.Count(text, now) != 1 {
		machine.Lacks(t, "a Go whose function time.Now this test can change: "+file)
	}
	text = strings.Replace(text, now, now+"\n\tsec += 3600 * int64(len(skew))", 1) + "\nvar skew, _ = syscall.Getenv(\"" + skewEnv + "\")\n"
	text = strings.Replace(text, "import (", "import (\n\t\"syscall\"", 1)
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	must.OK(t, os.WriteFile(changed, []byte(text), 0o644))
	must.OK(t, os.WriteFile(overlay, must.Get(json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})), 0o644))
	program = filepath.Join(dir, "node")
	if msg, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./testdata/node").CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, msg)
	}
	return program
}
