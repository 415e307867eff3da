package endtoend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// An indexer is a process that reads "crawler events --follow" and appends each line to a file; it resumes
// after the last cursor in the file. Both processes may be killed at any instant and are restarted.
type indexer struct {
	t    *testing.T
	dir  string // the collection
	file string
	quit chan struct{}
	done chan struct{}

	mu            sync.Mutex
	events, store *exec.Cmd
	kills         int
	fault         string
}

const indexEnv = "PARLEY_TEST_INDEX"

// TestIndexingChild is no test: it is the process that reads the events.
func TestIndexingChild(t *testing.T) {
	file := os.Getenv(indexEnv)
	if file == "" {
		t.Skip("only for tests that read events")
	}
	f := must.Get(os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0))
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // an incomplete line is not recorded
		}
		for _, part := range [][]byte{line[:len(line)/2], line[len(line)/2:]} { // killed in between, it leaves half a line
			must.Get(f.Write(part))
		}
	}
}

func startIndexer(t *testing.T, dir string) *indexer {
	x := &indexer{t: t, dir: dir, file: dir + ".events", quit: make(chan struct{}), done: make(chan struct{})}
	must.OK(t, os.WriteFile(x.file, nil, 0o600))
	go x.run()
	t.Cleanup(x.stop)
	return x
}

func (x *indexer) stop() {
	select {
	case <-x.quit:
	default:
		close(x.quit)
		x.kill(true, true)
	}
	<-x.done
}

// kill kills one of the two processes, or both, as a crash would.
func (x *indexer) kill(events, store bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kills++
	if events && x.events != nil {
		x.events.Process.Kill()
	}
	if store && x.store != nil {
		x.store.Process.Kill()
	}
}

// disturb kills it at random instants until ctx ends.
func (x *indexer) disturb(ctx context.Context, rnd *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(50+rnd.IntN(400)) * time.Millisecond): // a random instant
			k := rnd.IntN(3)
			x.kill(k != 0, k != 1)
		}
	}
}

func (x *indexer) run() {
	defer close(x.done)
	for {
		if err := x.once(); err != nil {
			x.mu.Lock()
			x.fault = err.Error()
			x.mu.Unlock()
			return
		}
		select {
		case <-x.quit:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (x *indexer) once() error {
	lines, err := x.lines()
	if err != nil {
		return err
	}
	args := []string{"events", "--into", x.dir, "--follow"}
	if len(lines) > 0 {
		var last collection.Event
		if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
			return fmt.Errorf("line %d: %w", len(lines), err)
		}
		args = append(args, "--after", last.Cursor.String())
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	events, store := exec.Command(filepath.Join(bin, "crawler"), args...), exec.Command(os.Args[0], "-test.run=^TestIndexingChild$")
	var said bytes.Buffer
	events.Stdout, events.Stderr = w, &said
	store.Stdin, store.Env = r, append(os.Environ(), indexEnv+"="+x.file, programsEnv+"="+bin)
	x.mu.Lock()
	select {
	case <-x.quit:
		x.mu.Unlock()
		r.Close()
		w.Close()
		return nil
	default:
	}
	err = errors.Join(events.Start(), store.Start())
	x.events, x.store = events, store
	x.mu.Unlock()
	r.Close()
	w.Close()
	if err != nil {
		return err
	}
	stored := make(chan error, 1)
	go func() {
		stored <- store.Wait()
		events.Process.Kill() // it would notice that nobody reads only when it writes
	}()
	err = events.Wait()
	<-stored
	x.mu.Lock()
	x.events, x.store = nil, nil
	x.mu.Unlock()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		return fmt.Errorf("crawler %q: %s", args, said.String())
	}
	return nil
}

// lines returns the recorded lines, and cuts off what a kill left unfinished. No process may be writing.
func (x *indexer) lines() ([][]byte, error) {
	b, err := os.ReadFile(x.file)
	if err != nil {
		return nil, err
	}
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	if len(whole) < len(b) {
		if err := os.Truncate(x.file, int64(len(whole))); err != nil {
			return nil, err
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	return lines[:len(lines)-1], nil
}

// until waits until the indexer has recorded that many events.
func (x *indexer) until(n int) {
	x.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(x.file)
		if err != nil || time.Now().After(deadline) {
			status, _ := run(x.t, "crawler", "status", x.dir)
			x.t.Fatalf("timed out waiting for %d events, got %d: %v\n%s", n, bytes.Count(b, []byte("\n")), err, status)
		}
		if bytes.Count(b, []byte("\n")) >= n {
			return
		}
	}
}

// finish waits until the indexer has recorded the events of a collection that no crawler has open any more,
// and wants exactly those, in order. It returns them.
func (x *indexer) finish() []collection.Event {
	x.t.Helper()
	out, err := exec.Command(filepath.Join(bin, "crawler"), "events", "--into", x.dir).Output()
	if err != nil {
		x.t.Fatalf("events: %v", err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got, err := os.ReadFile(x.file)
		x.mu.Lock()
		fault := x.fault
		x.mu.Unlock()
		if err != nil || fault != "" {
			x.t.Fatalf("indexer: %v %s", err, fault)
		}
		if bytes.Equal(got, out) {
			break
		}
		if same := len(got) <= len(out) && bytes.Equal(got, out[:len(got)]); !same || time.Now().After(deadline) {
			n := 0
			for n < min(len(got), len(out)) && got[n] == out[n] {
				n++
			}
			n = bytes.LastIndexByte(out[:n], '\n') + 1
			x.t.Fatalf("%d of %d bytes were processed, and they differ from line %d on:\n%.600s\nwant\n%.600s",
				len(got), len(out), bytes.Count(out[:n], []byte("\n"))+1, got[min(n, len(got)):], out[n:])
		}
	}
	x.stop()
	var list []collection.Event
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var e collection.Event
		if err := dec.Decode(&e); err == io.EOF {
			return list
		} else if err != nil {
			x.t.Fatal(err)
		}
		list = append(list, e)
	}
}

// replay computes an indexer's content from events, by URL, and fails the test if an event cannot follow
// those before it.
func replay(t *testing.T, list []collection.Event) map[string]protocol.Digest {
	t.Helper()
	held := map[string]protocol.Digest{}
	for i, e := range list {
		was, has := held[e.URL]
		ok := e.Cursor.Seq == uint64(i+1) && e.Cursor.Epoch == list[0].Cursor.Epoch && !e.Snapshot
		switch e.Op {
		case protocol.Create:
			ok = ok && !has
		case protocol.Update:
			ok = ok && has && was != e.Digest
		case protocol.Delete:
			ok = ok && has
		case protocol.Move:
			_, had := held[e.From]
			ok = ok && had && !has
			delete(held, e.From)
		default:
			ok = false
		}
		if !ok {
			t.Fatalf("event %d of %d contradicts those before it: %+v; stored: %v", i+1, len(list), e, was)
		}
		if held[e.URL] = e.Digest; e.Op == protocol.Delete {
			delete(held, e.URL)
		}
	}
	return held
}

// restless returns a page with another footer and another nonce at every load, and always the same main text.
func restless(load int64) string {
	return fmt.Sprintf(`<!doctype html><html lang="en"><head><title>The old bridge</title><meta name="csrf-token" content="%[1]x"></head>
<body><nav><a href="/">Home</a></nav><main><h1>The old bridge</h1>
<p>The bridge was built of oak when the mill still stood, and carried carts until the flood took its middle span.</p>
<p>What is left of it can be seen at low water, a row of black piles that children count on their way to school.</p>
<form action="/comment"><input type="hidden" name="nonce" value="%[2]x"><textarea name="text"></textarea></form></main>
<footer>Page made in 0.%03[3]d s. You are visitor number %[4]d. <a href="/?visit=%[4]d">Again</a></footer>
<script nonce="%[2]x">track(%[4]d)</script></body></html>`, uint64(load)*0x9e3779b97f4a7c15, uint64(load)*0xbf58476d1ce4e5b9, load%1000, load)
}

// An indexer that indexes a page again only when its text changed has no work with a page whose footer and
// nonce change at every load.
func TestMinorChangesCostAnIndexerNothing(t *testing.T) {
	const loads = 10_000
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	c := must.Get(collection.Open(filepath.Join(t.TempDir(), "crawl"), &collection.Options{Now: func() time.Time { return now }}))
	defer c.Close()
	const url = "https://www.example.org/bridge.html"
	done := must.Get(c.Commit(&collection.Commit{Finds: []collection.Find{{URL: url, By: collection.ByPerson}}}))
	id := done.New[0].ID
	g := gather.Gatherer{Text: true}
	var page gather.Page
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	load := int64(0)
	visit := func(n int, body func() string) {
		t.Helper()
		var turn collection.Commit
		for range n {
			now = now.Add(time.Minute)
			b := []byte(body())
			must.OK(t, g.Read(&page, url, header, b))
			turn.Visits = append(turn.Visits, collection.Visit{Page: id, Asked: now, Status: http.StatusOK, Header: header, Body: b, Type: "text/html",
				Title: page.Title, Language: page.Language, Digest: page.Body, Parsed: page.Parsed, Text: page.Text})
		}
		must.Get(c.Commit(&turn))
	}
	next := func() string { load++; return restless(load) }
	for range loads / 1000 {
		visit(1000, next)
	}
	if p, _, err := c.Page(url); err != nil || p.Visits != loads {
		t.Fatalf("%d visits, %v", p.Visits, err)
	}
	// The rule does not hide changes: another text is work, once.
	visit(1, func() string { return string(bytes.Replace([]byte(next()), []byte("oak"), []byte("stone"), 1)) })

	var work []uint64
	told := 0
	for e, err := range c.Events(t.Context(), protocol.Cursor{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		if told++; e.Cursor.Seq != uint64(told) {
			t.Fatalf("event %d has the cursor %v", told, e.Cursor)
		}
		if e.TextChanged {
			work = append(work, e.Cursor.Seq)
		}
	}
	if told != loads+1 || fmt.Sprint(work) != fmt.Sprint([]uint64{1, loads + 1}) {
		t.Errorf("%d events, of which %v need work; want %d, of which only the first and the last need work", told, work, loads+1)
	}
}

// The same with the real programs, over HTTP.
func TestMinorChangesOverHTTP(t *testing.T) {
	var loads atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.URL.RawQuery != "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, restless(loads.Add(1)))
	}))
	defer web.Close()
	dir := filepath.Join(t.TempDir(), "crawl")
	c := &crawling{t: t, dir: dir, args: []string{"run", web.URL + "/", "--text-digest", "--policy", "thesis", "--max-period", "1s"}}
	c.start()
	defer c.stop()
	x := startIndexer(t, dir)
	for deadline := time.Now().Add(time.Minute); loads.Load() < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d loads\n%s", loads.Load(), c.p.said())
		}
	}
	c.stop()
	list := x.finish()
	for i, e := range list {
		if e.TextChanged != (i == 0) || e.Text.IsZero() || e.Digest == list[max(i-1, 0)].Digest && i > 0 {
			t.Errorf("event %d: %+v", i+1, e)
		}
	}
	if len(list) < 3 {
		t.Errorf("%d events", len(list))
	}
}
