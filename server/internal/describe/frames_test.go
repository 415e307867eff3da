package describe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

const token = "0123456789abcdef"

// Crawlers' programs run in processes of this executable.
func TestMain(m *testing.M) {
	agent.Main()
	os.Exit(m.Run())
}

// A site is a docroot with every door, and a listener that records every message.
type site struct {
	*testing.T
	dir      string // docroot
	base     string
	journal  *server.Journal
	pub      *server.Publisher
	notifier *doors.Notifier
	web      *httptest.Server
	gate     gate

	mu   sync.Mutex
	said []frame
}

// A frame is one message, and the request that it answers.
type frame struct{ where, text string }

// A gate is a Log whose reads can be blocked, so that its readers fall behind.
type gate struct {
	protocol.Log
	sync.RWMutex
}

func (g *gate) Read(ctx context.Context, after protocol.Cursor, most int) ([]protocol.Change, error) {
	g.RLock()
	defer g.RUnlock()
	return g.Log.Read(ctx, after, most)
}

func newSite(t *testing.T) *site {
	dir := t.TempDir()
	s := &site{T: t, dir: filepath.Join(dir, "docroot")}
	s.must(os.Mkdir(s.dir, 0o755))
	var handler http.Handler
	s.web = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	s.base = "http://" + s.web.Listener.Addr().String() + "/docs/"
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: s.base, MaxChanges: 100}))
	s.journal, s.gate.Log = j, j
	inventory := &server.Site{Docroot: s.dir, Base: s.base}
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(s.base), Public: inventory.Public}
	s.pub = &server.Publisher{Inventory: inventory, Journal: j, Snapshot: snapshot, Pace: server.Pace{Grace: time.Nanosecond}, Pages: server.Pages{Announces: true}}
	s.notifier = &doors.Notifier{Log: &s.gate, Snapshot: snapshot, Base: s.base, Public: inventory.Public, Ready: s.pub.Ready,
		Limits:  doors.Limits{Heartbeat: time.Second, PerAddress: 100},
		Clients: doors.Clients{Announce: s.pub.Announce, AnnounceTokens: []string{token}}}
	store := &versions.Store{Dir: filepath.Join(dir, "versions"), Journal: j, Open: inventory.OpenPage, Public: inventory.Public}
	s.pub.Inventory = store.Keeping(inventory)
	maker := &archive.Maker{Dir: filepath.Join(dir, "archive"), Base: s.base, Journal: j, Pages: store, Public: inventory.Public}
	ctx, stop := context.WithCancel(context.Background())
	var owned sync.WaitGroup
	owned.Go(func() { store.Run(ctx) })
	owned.Go(func() { maker.Run(ctx) })
	callers := filepath.Join(dir, "callers")
	s.must(os.WriteFile(callers, []byte("NiceBot "+token+" agents\nOtherBot other"+token+"\n"), 0o600))
	known := must.Get(caller.Read(callers))
	self := must.Get(os.Executable())
	agents := must.Get(agent.Open(filepath.Join(dir, "agents"), agent.Options{Command: []string{self, agent.ProcessName}}))
	n := s.notifier
	n.Content.Pages, n.Content.Archive, n.Content.Items, n.Clients.Where, n.Clients.Agents, n.Clients.Identify = store, maker, server.Moments(j), new(cel.Expressions).Compile, agents, known.Identify
	n.Content.Item = func(url string) (protocol.Item, bool, error) {
		e, ok, err := j.Get(url)
		return e.Item, ok, err
	}
	handler = n
	s.web.Start()
	t.Cleanup(func() {
		s.closeStreams()
		s.web.Close()
		stop()
		owned.Wait()
		s.must(agents.Close())
		s.must(j.Close())
	})
	return s
}

func (s *site) closeStreams() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	s.must(s.notifier.Close(ctx))
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) heard(where, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, frame{where, text})
}

// kinds returns the kinds of the recorded messages.
func (s *site) kinds() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := map[string]bool{}
	for _, f := range s.said {
		var m struct{ T string }
		json.Unmarshal([]byte(f.text), &m)
		kinds[m.T] = true
	}
	return kinds
}

// listen records a stream's messages until it ends.
func (s *site) listen(query string) {
	s.Helper()
	d := websocket.Dialer{Subprotocols: []string{"parley.v1.json"}}
	conn, _, err := d.DialContext(s.Context(), "ws"+strings.TrimPrefix(s.base, "http")+"parley/stream?"+query, nil)
	s.must(err)
	done := make(chan struct{})
	go func() {
		defer func() { conn.Close(); done <- struct{}{} }()
		for {
			_, text, err := conn.ReadMessage()
			if err != nil {
				return
			}
			s.heard("stream?"+query, string(text))
		}
	}()
	s.Cleanup(func() { conn.Close(); <-done })
}

// ask returns the response of a door.
func (s *site) ask(method, url, body string, header ...string) (*http.Response, string) {
	s.Helper()
	return must.Fetch(s, method, url, body, header...)
}

// edit changes a few files at random and runs a Turn of the publisher.
func (s *site) edit(rnd *rand.Rand) {
	s.Helper()
	for range 1 + rnd.IntN(3) {
		name := fmt.Sprintf("%c%d.html", 'a'+rnd.IntN(3), rnd.IntN(3))
		path := filepath.Join(s.dir, name)
		switch rnd.IntN(6) {
		case 0:
			os.Remove(path)
		case 1:
			os.Rename(path, filepath.Join(s.dir, "moved-"+name))
		default:
			must.Write(s, path, page(rnd))
		}
	}
	must.Get(s.pub.Turn(s.Context()))
}

// page returns a page of a few hundred words, most of them the same in every page.
func page(rnd *rand.Rand) string {
	words := strings.Repeat("<p>The same words on every page of this site, and then a number: ", 20)
	if rnd.IntN(8) == 0 {
		return string([]byte{0xff, 0xfe, byte(rnd.IntN(256))}) // not valid UTF-8
	}
	return fmt.Sprintf("<html lang=en><title>Page %d</title>%s %d", rnd.IntN(1000), words, rnd.Uint64())
}

func (s *site) until(what string, cond func() bool) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("timed out waiting until %s", what)
		}
	}
}

// story plays a random history, polls and subscribes in every form, and causes every kind of message.
func (s *site) story() {
	rnd := rand.New(rand.NewPCG(1, 2))
	refused := func(method, path, body string, want int, header ...string) {
		s.Helper()
		resp, text := s.ask(method, s.base+path, body, header...)
		if resp.StatusCode != want || resp.Header.Get("Content-Type") != "application/problem+json" {
			s.Errorf("%s %s: %d %s, want %d: %s", method, path, resp.StatusCode, resp.Header.Get("Content-Type"), want, text)
			return
		}
		s.heard("problem", text)
	}
	refused("GET", "parley/changes", "", 503) // it has not been scanned

	for range 4 {
		s.edit(rnd)
	}
	resp, text := s.ask("GET", s.web.URL+"/.well-known/parley", "")
	s.heard("discovery", text)
	var found protocol.Discovery
	s.must(json.Unmarshal([]byte(text), &found))
	if !strings.Contains(fmt.Sprint(resp.Header["Link"]), "<"+found.OpenAPI+`>; rel="service-desc"`) || found.AsyncAPI == "" {
		s.Errorf("the descriptions are linked by %q and %+v", resp.Header["Link"], found)
	}
	start := s.journal.Head()
	for _, form := range found.Forms {
		for _, filter := range []string{"", "&op=delete&op=update", "&match=/docs/a*"} {
			s.listen("after=" + start.String() + "&as=" + string(form) + filter)
		}
	}
	for range 20 {
		at := s.journal.Head()
		s.edit(rnd)
		for _, form := range found.Forms {
			for _, more := range []string{"", "&limit=2", "&op=delete"} {
				resp, text := s.ask("GET", s.base+"parley/changes?after="+at.String()+"&as="+string(form)+more, "")
				switch {
				case resp.StatusCode == 503 && form == protocol.AsSite: // an archive is being made
					s.heard("problem", strings.TrimSpace(text))
					continue
				case resp.StatusCode != 200:
					s.Errorf("changes as %s: %d: %s", form, resp.StatusCode, text)
				}
				s.heard("answer", strings.TrimSpace(text))
			}
		}
	}
	announced, text := s.ask("POST", s.base+"parley/announce", `{"pages":[{"url":"said","modified":"2026-01-02T03:04:05Z"},{"url":"http://elsewhere.example/"}]}`,
		"Authorization", "Bearer "+token, "Content-Type", "application/json")
	if announced.StatusCode != 200 {
		s.Errorf("announce: %d: %s", announced.StatusCode, text)
	}
	s.heard("announced", text)
	s.until("there was a heartbeat, and a bundle", func() bool { k := s.kinds(); return k["mark"] && k["bundle"] })
	s.until("an archive exists", func() bool {
		resp, text := s.ask("GET", s.base+"parley/changes?as=site", "")
		if resp.StatusCode == 200 {
			s.heard("answer", strings.TrimSpace(text))
		}
		return resp.StatusCode == 200
	})
	s.listen("as=site")
	s.until("the archive was announced", func() bool { return s.kinds()["site"] })
	for _, q := range []string{`{"after":"` + start.String() + `","have":{"` + s.base + `a1.html":"` + protocol.Sum(nil).String() + `"}}`,
		`{"pages":[{"url":"` + s.base + `a1.html"},{"url":"` + s.base + `a2.html","hash":"` + protocol.Sum(nil).String() + `"}]}`} {
		s.heard("batchQuestion", q)
		if resp, text := s.ask("POST", found.Batch, q, "Content-Type", "application/json"); resp.StatusCode != 200 || resp.Header.Get("Parley-Cursor") == "" {
			s.Errorf("batch: %d: %s", resp.StatusCode, text)
		}
	}
	refused("POST", "parley/batch", `{"pages":[{"url":"http://elsewhere.example/"}]}`, 422, "Content-Type", "application/json")
	refused("GET", "parley/changes?where=1%2B", "", 400)
	refused("GET", "parley/changes", "", 401, "Authorization", "Bearer unheard-of")
	refused("POST", "parley/agents", "x", 403, "Authorization", "Bearer other"+token, "Content-Type", "application/wasm")
	refused("POST", "parley/agents", "x", 422, "Authorization", "Bearer "+token, "Content-Type", "application/wasm")
	sent, text := s.ask("POST", found.Agents, string(tellsAll), "Authorization", "Bearer "+token, "Content-Type", "application/wasm")
	if sent.StatusCode != 201 {
		s.Errorf("agents: %d: %s", sent.StatusCode, text)
	}
	s.heard("agent", text)
	var kept struct{ Agent string }
	s.must(json.Unmarshal([]byte(text), &kept))
	ran, text := s.ask("POST", found.Agents+"/run?agent="+url.QueryEscape(kept.Agent), "", "Authorization", "Bearer "+token)
	if ran.StatusCode != 200 {
		s.Errorf("agents/run: %d: %s", ran.StatusCode, text)
	}
	for line := range strings.Lines(text) {
		s.heard("agentLine", line)
	}
	resp, text = s.ask("GET", s.base+"parley/changes?after="+start.String()+"&agent="+url.QueryEscape(kept.Agent), "", "Authorization", "Bearer "+token)
	if resp.StatusCode != 200 || !strings.Contains(text, `"enc":"agent"`) {
		s.Errorf("changes by an agent: %d: %.500s", resp.StatusCode, text)
	}
	s.heard("answer", strings.TrimSpace(text))

	// A subscriber that falls behind is told so.
	s.gate.Lock()
	at := s.journal.Head()
	for i := 0; s.journal.Floor().Seq <= at.Seq; i++ {
		for k := range 50 {
			must.Write(s, filepath.Join(s.dir, fmt.Sprintf("many-%d.html", k)), fmt.Sprint(i))
		}
		must.Get(s.pub.Turn(s.Context()))
	}
	s.gate.Unlock()
	s.until("there was a gap", func() bool { return s.kinds()["gap"] })

	other := "otherepoch:3"
	refused("GET", "parley/changes?after="+other, "", 409)
	refused("GET", "parley/changes?after="+start.Epoch+":0", "", 410)
	refused("GET", "parley/changes?after=x", "", 400)
	refused("GET", "parley/changes?as=song", "", 400)
	refused("GET", "parley/changes?colour=red", "", 400)
	refused("GET", "parley/stream?after="+start.String(), "", 426)
	refused("GET", "parley/nothing", "", 404)
	refused("DELETE", "parley/changes", "", 405)
	refused("POST", "parley/changes", "{}", 415)
	refused("POST", "parley/announce", "{}", 401)
	refused("POST", "parley/announce", "{", 400, "Authorization", "Bearer "+token, "Content-Type", "application/json")
	s.closeStreams()
	s.until("all streams ended with bye", func() bool { return s.kinds()["bye"] })
	refused("GET", "parley/changes?wait=5&after="+s.journal.Head().String(), "", 503)
}

// Every message of a site matches its description, and has no undescribed member.
func TestMessagesMatchDescription(t *testing.T) {
	s := newSite(t)
	t.Run("story", func(t *testing.T) { // a subtest, so that its listeners have ended
		s.T = t
		s.story()
	})
	s.T = t
	strict, open := schemasOf(t, true), schemasOf(t, false)
	byKind := map[string]any{}
	for _, f := range s.said {
		v := value(t, []byte(f.text))
		kind := "message"
		switch f.where {
		case "problem", "discovery", "announced", "answer", "batchQuestion", "agent", "agentLine":
			kind = f.where
		}
		if err := strict[kind].Validate(v); err != nil {
			t.Errorf("%s: %v\n%.2000s", f.where, err, f.text)
		}
		if name, ok := v.(map[string]any)["t"].(string); ok {
			kind = name
			if err := strict[kind].Validate(v); err != nil {
				t.Errorf("%s: %v\n%.2000s", f.where, err, f.text)
			}
		}
		if byKind[kind] == nil || kind == "ev" && byKind[kind].(map[string]any)["body"] == nil {
			byKind[kind] = v
		}
	}
	t.Logf("%d messages of the kinds %v", len(s.said), slices.Sorted(maps.Keys(byKind)))
	for _, kind := range []string{"hello", "ev", "batch", "mark", "gap", "bye", "bundle", "site", "problem", "discovery", "announced", "batchQuestion", "agent", "agentLine"} {
		if byKind[kind] == nil {
			t.Errorf("no message of kind %s", kind)
		}
	}

	// A schema that never fails proves nothing.
	for kind, v := range byKind {
		broken := 0
		breakEach(t, v, func(what string, v any) {
			broken++
			for _, schemas := range []map[string]*jsonschema.Schema{strict, open} {
				if schemas[kind].Validate(v) == nil {
					t.Errorf("%s with %s is accepted as valid", kind, what)
				}
			}
		})
		if broken == 0 {
			t.Errorf("%s: only %d ways to break it", kind, broken)
		}
		m := v.(map[string]any)
		m["unheard-of"] = 1
		if strict[kind].Validate(v) == nil {
			t.Errorf("%s with an undescribed member passes the strict schema", kind)
		}
		if err := open[kind].Validate(v); err != nil {
			t.Errorf("%s with a future member is rejected: %v", kind, err)
		}
	}
}

// breakEach calls try with v after replacing each member, at any depth, by an invalid value; it restores v
// afterwards.
func breakEach(t *testing.T, v any, try func(what string, v any)) {
	var walk func(path string, at any)
	walk = func(path string, at any) {
		switch at := at.(type) {
		case []any:
			for i, e := range at {
				at[i] = map[string]any{"no": nil}
				try(fmt.Sprintf("%s[%d] broken", path, i), v)
				at[i] = e
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(at)) {
				was := at[name]
				at[name] = []any{nil}
				try(path+"."+name+" broken", v)
				at[name] = was
				walk(path+"."+name, was)
			}
		}
	}
	before := must.Get(json.Marshal(v))
	walk("", v)
	if after, _ := json.Marshal(v); !bytes.Equal(before, after) {
		t.Fatal("broken for good")
	}
}

// tellsAll is the shortest possible program: it accepts every change and answers "hi".
var tellsAll = slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
	[]byte("\x01\x0c\x02\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e"), // types: (i32) i32, (i32, i32) i64
	[]byte("\x03\x03\x02\x00\x01\x05\x03\x01\x00\x02"),                 // one function of each, and 128 KiB
	[]byte("\x07\x29\x03\x06memory\x02\x00\x0cparley_alloc\x00\x00\x0dparley_change\x00\x01"),
	[]byte("\x0a\x0c\x02\x05\x00\x41\x80\x08\x0b\x04\x00\x42\x03\x0b"), // the buffer is at 1024; the answer at 0, 3 bytes
	[]byte("\x0b\x09\x01\x00\x41\x00\x0b\x03\x01hi"))
