package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// served is a site of a few pages that runs the programs of two callers.
type served struct {
	*testing.T
	web     *httptest.Server
	host    *agent.Host
	journal *server.Journal
	look    func()
	write   func(name, text string)
	rename  func(from, to string)
	remove  func(name string)
}

func serve(t *testing.T, o agent.Options) *served {
	s := &served{T: t, host: open(t, t.TempDir(), o)}
	dir := t.TempDir()
	root := filepath.Join(dir, "www")
	must.OK(t, os.Mkdir(root, 0o755))
	var n *doors.Notifier
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.ServeHTTP(w, r) }))
	t.Cleanup(s.web.Close)
	site := &server.Site{Docroot: root, Base: s.web.URL + "/"}
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: site.Base}))
	t.Cleanup(func() { j.Close() })
	s.journal = j
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(site.Base), Public: site.Public}
	p := &server.Publisher{Inventory: site, Journal: j, Snapshot: snapshot}
	n = &doors.Notifier{Log: j, Snapshot: snapshot, Base: site.Base, Public: site.Public,
		Clients: doors.Clients{Agents: s.host, Identify: func(r *http.Request) (caller.Caller, error) {
			return caller.Caller{Name: r.Header.Get("Authorization"), Agents: r.Header.Get("Authorization") != ""}, nil
		}},
		Content: doors.Content{Items: server.Moments(j)}}
	t.Cleanup(func() { n.Close(context.Background()) })
	s.look = func() {
		t.Helper()
		must.Get(p.AcceptDeletions(t.Context()))
	}
	s.write = func(name, text string) {
		t.Helper()
		must.Write(t, filepath.Join(root, name+"~"), text)
		must.OK(t, os.Rename(filepath.Join(root, name+"~"), filepath.Join(root, name)))
	}
	s.rename = func(from, to string) {
		t.Helper()
		must.OK(t, os.Rename(filepath.Join(root, from), filepath.Join(root, to)))
	}
	s.remove = func(name string) { t.Helper(); must.OK(t, os.Remove(filepath.Join(root, name))) }
	s.write("index.html", "home")
	s.look()
	return s
}

// changes fetches the changes after a cursor.
func (s *served) changes(ctx context.Context, who string, after protocol.Cursor, agent protocol.Digest) (protocol.Message, int, error) {
	q := url.Values{"after": {after.String()}}
	if !agent.IsZero() {
		q.Set("agent", agent.String())
	}
	req, err := http.NewRequestWithContext(ctx, "GET", s.web.URL+"/parley/changes?"+q.Encode(), nil)
	if err != nil {
		return protocol.Message{}, 0, err
	}
	if who != "" {
		req.Header.Set("Authorization", who)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return protocol.Message{}, 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return protocol.Message{}, r.StatusCode, err
	}
	m, err := protocol.ParseMessage(bytes.TrimSpace(b))
	return m, r.StatusCode, err
}

// If a program fails, no change is lost; nor if it would reject a delete or a move.
func TestFailingProgramLosesNoChanges(t *testing.T) {
	s := serve(t, agent.Options{Failures: 100})
	broken, never := keep(t, s.host, "bot", plain(unreachable)), keep(t, s.host, "bot", plain(telling(0)...))
	start := s.journal.Head()
	for i := range 3 {
		s.write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("page %d", i))
	}
	s.look()
	middle := s.journal.Head()
	root := s.web.URL + "/"
	ops := func(after protocol.Cursor, d protocol.Digest) (list []string) {
		t.Helper()
		m, _, err := s.changes(t.Context(), "bot", after, d)
		if err != nil || m.To != s.journal.Head() {
			t.Fatalf("changes: to %v, %v", m.To, err)
		}
		for i, c := range m.Changes {
			if i < len(m.Bodies) && !m.Bodies[i].IsZero() {
				t.Errorf("%s comes with %+v", c.Item.URL, m.Bodies[i])
			}
			list = append(list, string(c.Op)+" "+c.Item.URL)
		}
		slices.Sort(list)
		return list
	}
	if got, want := ops(start, broken), []string{"create " + root + "p0.html", "create " + root + "p1.html", "create " + root + "p2.html"}; !slices.Equal(got, want) {
		t.Errorf("an agent that fails: %q, want %q", got, want)
	}
	if got := ops(start, never); got != nil {
		t.Errorf("an agent that rejects everything: %q", got)
	}
	s.write("p1.html", "other") // an update
	s.remove("p0.html")
	s.rename("p2.html", "q2.html")
	s.look()
	if got, want := ops(middle, never), []string{"delete " + root + "p0.html", "move " + root + "q2.html"}; !slices.Equal(got, want) {
		t.Errorf("an agent that rejects everything: %q, want %q", got, want)
	}
}

// A caller whose program never answers slows nobody else down.
func TestLoopingProgramDelaysNobody(t *testing.T) {
	s := serve(t, agent.Options{Time: 200 * time.Millisecond, Failures: 1 << 20})
	loops := keep(t, s.host, "bad", plain(loop, void, br, 0, end, unreachable))
	good := keep(t, s.host, "good", plain(telling(1)...))
	start := s.journal.Head()
	for i := range 50 {
		s.write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("page %d", i))
	}
	s.look()
	median := func(who string, d protocol.Digest, n int) time.Duration {
		t.Helper()
		var took []time.Duration
		for range n {
			begun := time.Now()
			m, status, err := s.changes(t.Context(), who, start, d)
			if err != nil || len(m.Changes) == 0 {
				t.Fatalf("%d: %d changes, %v", status, len(m.Changes), err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		return took[n/2]
	}
	alone := median("", protocol.Digest{}, 200)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				s.changes(ctx, "bad", start, loops)
			}
		})
	}
	for s.host.Stats().Failed == 0 { // until the slow runs have begun
		median("", protocol.Digest{}, 1)
	}
	beside := median("", protocol.Digest{}, 200)
	other := median("good", good, 1)
	stop()
	wg.Wait()
	t.Logf("changes take %v, and %v beside four looping programs; with an agent of their own %v", alone, beside, other)
	if beside > 4*alone+20*time.Millisecond {
		t.Errorf("changes take %v, and %v beside four looping programs", alone, beside)
	}
	if st := s.host.Stats(); st.Failed == 0 {
		t.Errorf("no run has failed: %+v", st)
	}
}
