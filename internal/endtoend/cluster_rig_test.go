//go:build unix

package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// natsConfig is the part of a server's configuration that differs from that in examples/cluster, which follows.
const natsConfig = `
server_name: n%d
listen: %q
log_file: %q
jetstream { store_dir: %q, sync_interval: always }
cluster { name: parley, listen: %q, routes: [ %s ] }
`

// A cluster is three NATS servers, two notifiers with the same docroot, of which one writes, and two doors. A load
// balancer stands between the web server and them.
type cluster struct {
	*rig
	dir     string
	urls    string // of the NATS servers
	configs []string
	nats    []*program
	mounted bool // each NATS server has a disk of its own
	members []*member
	balance *balancer
}

// A member is one of the notifiers.
type member struct {
	name, address, admin string
	args                 []string
	*program
}

func newClusterOfDoors(t *testing.T) *cluster {
	c := &cluster{rig: newRig(t), dir: t.TempDir()}
	var urls, routes, listen, between []string
	for range 3 {
		listen, between = append(listen, front.FreeAddress()), append(between, front.FreeAddress())
		urls = append(urls, "nats://site:secret@"+listen[len(listen)-1])
		routes = append(routes, `"nats://`+between[len(between)-1]+`"`)
	}
	c.urls = strings.Join(urls, ",")
	example := must.Get(os.ReadFile("../../examples/cluster/nats.conf"))
	_, accounts, ok := strings.Cut(string(example), "\naccounts {")
	if !ok {
		t.Fatal("examples/cluster/nats.conf has no accounts")
	}
	for i := range 3 {
		file := filepath.Join(c.dir, fmt.Sprint("nats", i, ".conf"))
		config := fmt.Sprintf(natsConfig, i, listen[i], file+".log", file+".data", between[i], strings.Join(routes, ", "))
		c.must(os.WriteFile(file, []byte(config+"accounts {"+accounts), 0o600))
		c.mount(file + ".data")
		c.configs, c.nats = append(c.configs, file), append(c.nats, nil)
		c.startNATS(i)
	}
	for _, name := range []string{"writer", "standby", "door1", "door2"} {
		m := &member{name: name, address: front.FreeAddress(), admin: front.FreeAddress()}
		m.args = []string{"--base", c.base, "--listen", m.address, "--admin", m.admin, "--log", c.urls, "--hurry", "200ms", "--pages",
			"--state", filepath.Join(c.dir, name, "state.db")}
		if strings.HasPrefix(name, "door") {
			m.args = append(m.args, "--door")
		} else {
			m.args = append(m.args, "--docroot", c.root, "--no-self-check", "--ask-rate", "0", "--trust-docroot")
		}
		c.members = append(c.members, m)
	}
	c.balance = &balancer{members: c.members}
	server := &http.Server{Handler: c.balance.handler()}
	ln := must.Get(net.Listen("tcp", c.sidecar))
	go server.Serve(ln)
	t.Cleanup(func() {
		server.Close()
		for _, m := range c.members {
			m.stop()
		}
		for i := range c.nats {
			c.nats[i].cmd.Process.Signal(syscall.SIGCONT)
			c.nats[i].kill9()
		}
		if t.Failed() {
			for _, m := range c.members {
				t.Logf("log of %s:\n%s", m.name, m.said())
			}
		}
	})
	return c
}

func (c *cluster) startNATS(i int) {
	p := &program{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), natsEnv+"="+c.configs[i], "NATS_SITE_PASSWORD=secret", "NATS_CRAWL_PASSWORD=secret", "NATS_ADMIN_PASSWORD=secret")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	c.must(p.cmd.Start())
	go func() { p.cmd.Wait(); close(p.done) }()
	c.nats[i] = p
}

// disk is the size of a NATS server's disk, in bytes.
const disk = 64 << 20

// mount gives a NATS server that does not run yet a disk of its own, if this test may do that.
func (c *cluster) mount(dir string) {
	c.must(os.Mkdir(dir, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprint("size=", disk), "parley-test", dir).CombinedOutput(); err != nil {
		c.t.Logf("no disk will be full: %v: %s", err, out)
		return
	}
	c.mounted = true
	c.t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
}

func (c *cluster) ballast(i int) string { return filepath.Join(c.configs[i]+".data", "ballast") }

// fill leaves no room on the disk of a NATS server, and returns false if that has no disk of its own.
func (c *cluster) fill(i int) bool {
	if !c.mounted {
		return false
	}
	f, err := os.Create(c.ballast(i))
	c.must(err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		c.t.Fatal(err)
	}
	return true
}

func (c *cluster) empty(i int) { c.must(os.Remove(c.ballast(i))) }

// start starts a member, and waits until its doors answer.
func (c *cluster) start(m *member) {
	c.t.Helper()
	m.program = start(c.t, m.program, "notifier", m.args...)
	c.until(m.name+" answers", func() bool {
		if m.ended() {
			c.t.Fatalf("%s has ended:\n%s", m.name, m.said())
		}
		return m.head() != protocol.Cursor{}
	})
}

// get fetches from one member, without a content coding.
func (m *member) get(path string) (status int, header http.Header, body string, err error) {
	return m.request(http.MethodGet, path, "")
}

func (m *member) request(method, path, ask string) (status int, header http.Header, body string, err error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "http://"+m.address+path, strings.NewReader(ask))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if ask != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// head returns the newest change that a member delivers, the zero Cursor if none.
func (m *member) head() protocol.Cursor {
	var d protocol.Discovery
	if status, _, body, err := m.get("/.well-known/parley"); err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &d) != nil {
		return protocol.Cursor{}
	}
	return d.Head
}

// bundle returns the pages that a member delivers after a cursor, as a bundle.
func (m *member) bundle(after protocol.Cursor) string {
	status, _, body, err := m.get("/parley/batch?after=" + after.String())
	if err != nil || status != http.StatusOK {
		return fmt.Sprint(m.name, " ", status, err, body)
	}
	return body
}

// pages returns the bundle of some pages that a member delivers.
func (m *member) pages(urls []string) string {
	status, _, body, err := m.request(http.MethodPost, "/parley/batch", `{"pages":[{"url":"`+strings.Join(urls, `"},{"url":"`)+`"}]}`)
	if err != nil || status != http.StatusOK {
		return fmt.Sprint(m.name, " ", status, err, body)
	}
	return body
}

// health returns what a member says of itself.
func (m *member) health() (h struct{ Role, Away string }) {
	resp, err := http.Get("http://" + m.admin + "/healthz")
	if err != nil {
		return h
	}
	defer resp.Body.Close()
	var says struct{ Log struct{ Role, Away string } }
	json.NewDecoder(resp.Body).Decode(&says)
	return says.Log
}

// A balancer forwards each request to another member, and to the next one if that does not answer. It counts what
// readers were told.
type balancer struct {
	members []*member

	mu    sync.Mutex
	turn  int
	conns map[net.Conn]bool
	says  map[int]int // responses by status
}

func (b *balancer) handler() http.Handler {
	b.conns, b.says = map[net.Conn]bool{}, map[int]int{}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var errs []error
		for range b.members {
			b.mu.Lock()
			b.turn = (b.turn + 1) % len(b.members)
			m := b.members[b.turn]
			b.mu.Unlock()
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.address)
			if err == nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.conns[conn] = true
				return conn, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}}
	return &httputil.ReverseProxy{Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "doors"; r.SetXForwarded() },
		ModifyResponse: func(r *http.Response) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.says[r.StatusCode]++
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
}

// hop ends all connections, so that readers come back to other members.
func (b *balancer) hop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		conn.Close()
	}
	clear(b.conns)
}

// said returns how many responses had a status.
func (b *balancer) said(status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.says[status]
}

// A reader polls the changes of a site, each time at another member, and records what is wrong with what it is told.
type reader struct {
	members []*member
	at      protocol.Cursor
	changes int
	wrong   error
	refused map[int]int // responses that were not 200, by status
}

// read polls until stop is closed, and then until it has end.
func (r *reader) read(stop <-chan struct{}, end func() protocol.Cursor) {
	r.refused = map[int]int{}
	for turn := 0; r.wrong == nil; turn++ {
		select {
		case <-stop:
			if r.at == end() {
				return
			}
		default:
		}
		status, _, body, err := r.members[turn%len(r.members)].get("/parley/changes?wait=1&after=" + r.at.String())
		if err != nil {
			continue // it is down
		}
		if status != http.StatusOK {
			if r.refused[status]++; status != http.StatusServiceUnavailable && status != http.StatusBadGateway {
				r.wrong = fmt.Errorf("after %v %s answers %d: %s", r.at, r.members[turn%len(r.members)].name, status, body)
			}
			continue
		}
		m, err := protocol.ParseMessage([]byte(body))
		if err != nil {
			r.wrong = err
			return
		}
		for _, change := range m.Changes {
			if change.Seq != r.at.Seq+1 {
				r.wrong = fmt.Errorf("change %d after %v", change.Seq, r.at)
			}
			r.at.Seq = change.Seq
			r.changes++
		}
		if r.at != m.To {
			r.wrong = fmt.Errorf("read up to %v, of %v", r.at, m.To)
		}
	}
}
