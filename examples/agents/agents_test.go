// Package agents contains agents that a crawler may send to a site, and the tests
// that build them, send them, and follow a site with them.
package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

func TestMain(m *testing.M) {
	agent.Main() // agents run in processes of this test's executable
	os.Exit(m.Run())
}

// built contains the agents built so far, by name: several tests use them.
var built sync.Map

// build builds an agent with the command in the agent's package comment.
func build(t *testing.T, name string) []byte {
	t.Helper()
	if b, ok := built.Load(name); ok {
		return b.([]byte)
	}
	out := filepath.Join(t.TempDir(), name+".wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags", "-s -w -X main.least=0.05", "-o", out, "./"+name)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || bytes.Contains(text, []byte("unsupported GOOS/GOARCH")) {
			machine.Lacks(t, fmt.Sprintf("this toolchain does not build for wasip1: %v %s", err, text))
		}
		t.Fatalf("build %s: %v\n%s", name, err, text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	built.Store(name, b)
	return b
}

const token = "a-secret"

// A sidecar is a notifier in the test's process, with a docroot, a journal, old
// versions and all endpoints. It scans the docroot when the test calls look.
type sidecar struct {
	*testing.T
	root      string
	journal   *server.Journal
	publisher *server.Publisher
	versions  *versions.Store
	notifier  *doors.Notifier
	agents    *agent.Host
	web       *httptest.Server
}

// newSidecar publishes a docroot at the path / of a web server of its own.
func newSidecar(t *testing.T, root string) *sidecar {
	t.Helper()
	s := &sidecar{T: t, root: root}
	dir := t.TempDir()
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.notifier.ServeHTTP(w, r) }))
	t.Cleanup(s.web.Close)
	base := s.web.URL + "/"
	site := &server.Site{Docroot: root, Base: base}
	var err error
	s.journal, err = server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: base})
	s.must(err)
	t.Cleanup(func() { s.journal.Close() })
	s.versions = &versions.Store{Dir: filepath.Join(dir, "versions"), Journal: s.journal, Open: site.OpenPage, Public: site.Public}
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(base), Public: site.Public}
	s.publisher = &server.Publisher{Inventory: s.versions.Keeping(site), Journal: s.journal, Snapshot: snapshot}
	self, err := os.Executable()
	s.must(err)
	s.agents, err = agent.Open(filepath.Join(dir, "agents"), agent.Options{Command: []string{self, agent.ProcessName}, Time: 20 * time.Second})
	s.must(err)
	t.Cleanup(func() { s.agents.Close() })
	s.notifier = &doors.Notifier{Log: s.journal, Snapshot: snapshot, Base: base, Public: site.Public,
		Content: doors.Content{Pages: s.versions, Items: server.Moments(s.journal)},
		Clients: doors.Clients{Agents: s.agents, Identify: func(r *http.Request) (caller.Caller, error) {
			switch r.Header.Get("Authorization") {
			case "":
				return caller.Caller{}, nil
			case "Bearer " + token:
				return caller.Caller{Name: "bot", Agents: true}, nil
			case "Bearer reader":
				return caller.Caller{Name: "reader"}, nil
			}
			return caller.Caller{}, errors.New("no such token")
		}}}
	t.Cleanup(func() { s.notifier.Close(context.Background()) })
	s.look()
	return s
}

func (s *sidecar) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *sidecar) look() {
	s.Helper()
	_, err := s.publisher.Turn(s.Context())
	s.must(err)
	s.must(s.versions.Fill(s.Context())) // in a real notifier this runs in the background
}

func (s *sidecar) ask(method, path, auth, mediaType string, body []byte) *http.Response {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.web.URL+path, bytes.NewReader(body))
	s.must(err)
	if auth != "" {
		req.Header.Set("Authorization", "Bearer "+auth)
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	r, err := http.DefaultClient.Do(req)
	s.must(err)
	s.Cleanup(func() { r.Body.Close() })
	return r
}

func (s *sidecar) send(program []byte) string {
	s.Helper()
	r := s.ask("POST", "/parley/agents", token, "application/wasm", program)
	b, err := io.ReadAll(r.Body)
	s.must(err)
	var kept struct{ Agent string }
	if err := json.Unmarshal(b, &kept); r.StatusCode != http.StatusCreated || err != nil {
		s.Fatalf("the agent was answered %s: %s", r.Status, b)
	}
	if d, err := protocol.ParseDigest(kept.Agent); err != nil || d != protocol.Sum(program) {
		s.Fatalf("the agent is stored as %q, %v", kept.Agent, err)
	}
	return kept.Agent
}

// A told is a delivered change, with the output of the agent.
type told struct {
	protocol.Change
	output []byte
}

func (s *sidecar) changes(after protocol.Cursor, filter url.Values) (list []told) {
	s.Helper()
	for head := s.journal.Head(); after != head; {
		q := url.Values{"after": {after.String()}}
		for name, v := range filter {
			q[name] = v
		}
		r := s.ask("GET", "/parley/changes?"+q.Encode(), token, "", nil)
		b, err := io.ReadAll(r.Body)
		s.must(err)
		m, err := protocol.ParseMessage(bytes.TrimSpace(b))
		if err != nil || r.StatusCode != http.StatusOK {
			s.Fatalf("changes: %s, %v: %.300s", r.Status, err, b)
		}
		for i, c := range m.Changes {
			t := told{Change: c}
			if i < len(m.Bodies) && !m.Bodies[i].IsZero() {
				if m.Bodies[i].Coding != protocol.CodingAgent {
					s.Errorf("%s has a body with the coding %q", c.Item.URL, m.Bodies[i].Coding)
				}
				t.output = m.Bodies[i].Bytes
			}
			list = append(list, t)
		}
		if m.To == after {
			s.Fatalf("changes stop at %v, but the head is %v", after, head)
		}
		after = m.To
	}
	return list
}

func (s *sidecar) path(u string) string { return strings.TrimPrefix(u, s.web.URL) }

func (s *sidecar) write(name, text string) {
	s.Helper()
	name = filepath.Join(s.root, filepath.FromSlash(name))
	s.must(os.MkdirAll(filepath.Dir(name), 0o755))
	s.must(os.WriteFile(name+"~", []byte(text), 0o644))
	s.must(os.Rename(name+"~", name))
}

// The error for an invalid request is clear.
func TestRefusals(t *testing.T) {
	s := newSidecar(t, t.TempDir())
	s.write("index.html", "<p>Hello")
	s.look()
	digest := url.QueryEscape(protocol.Sum([]byte("none")).String())
	for _, c := range []struct {
		name, method, path, auth, mediaType string
		body                                []byte
		status                              int
		says                                string
	}{
		{"nobody", "POST", "/parley/agents", "", "application/wasm", nil, 401, "send a bearer token"},
		{"a wrong token", "POST", "/parley/agents", "guess", "application/wasm", nil, 401, "no such token"},
		{"a token without permission", "POST", "/parley/agents", "reader", "application/wasm", nil, 403, "may run programs"},
		{"by GET", "GET", "/parley/agents", token, "", nil, 405, "POST"},
		{"no media type", "POST", "/parley/agents", token, "", []byte("x"), 415, "application/wasm"},
		{"another media type", "POST", "/parley/agents", token, "application/javascript", []byte("x"), 415, "application/wasm"},
		{"too large", "POST", "/parley/agents", token, "application/wasm", make([]byte, 8<<20+1), 413, "8388608"},
		{"no program", "POST", "/parley/agents", token, "application/wasm", []byte("x"), 422, "magic"},
		{"not there", "GET", "/parley/changes?after=0:0&agent=" + digest, token, "", nil, 400, "send it"},
		{"an agent of another caller", "GET", "/parley/changes?after=0:0&agent=" + digest, "reader", "", nil, 403, "may run programs"},
		{"run without a token", "POST", "/parley/agents/run?agent=" + digest, "", "", nil, 401, "send a bearer token"},
		{"run of an unknown agent", "POST", "/parley/agents/run?agent=" + digest, token, "", nil, 400, "send it"},
		{"run without an agent", "POST", "/parley/agents/run", token, "", nil, 400, "the program is missing"},
		{"run with an unknown parameter", "POST", "/parley/agents/run?wait=3", token, "", nil, 400, "wait"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.ask(c.method, c.path, c.auth, c.mediaType, c.body)
			b, _ := io.ReadAll(r.Body)
			if r.StatusCode != c.status || !strings.Contains(string(b), c.says) || r.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s: %s; want %d and %q", r.Status, r.Header.Get("Content-Type"), b, c.status, c.says)
			}
			if (r.StatusCode == 401) != (r.Header.Get("WWW-Authenticate") != "") {
				t.Errorf("%s with the challenge %q", r.Status, r.Header.Get("WWW-Authenticate"))
			}
		})
	}
}
