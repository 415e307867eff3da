package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
)

// slowly returns a notifier with 100 changes, and the cursor before them. The expression slow takes five
// milliseconds for each change.
func slowly(t *testing.T) (n *doors.Notifier, begin protocol.Cursor) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	begin = w.journal.Head()
	for i := range 100 {
		w.write(fmt.Sprintf("p%d.html", i), "p")
	}
	w.turn()
	return &doors.Notifier{Log: w.journal, Base: base,
		Clients: doors.Clients{Where: func(expression string) (caller.Predicate, error) {
			return func(context.Context, *protocol.Change) (bool, error) {
				if expression == "slow" {
					time.Sleep(5 * time.Millisecond)
				}
				return true, nil
			}, nil
		}}}, begin
}

// A message ends early if its changes took long to find; a client that continues from its cursor gets
// everything.
func TestMessageEndsAfterLongWork(t *testing.T) {
	n, at := slowly(t)
	head := n.Log.Head()
	synctest.Test(t, func(t *testing.T) {
		told, asks := 0, 0
		for ; at != head && asks < 200; asks++ {
			begun := time.Now()
			a := answers(n, "/parley/changes?where=slow&after="+at.String())
			m, err := protocol.ParseMessage(a.Body.Bytes())
			if err != nil || m.From != at || m.To.Seq <= at.Seq {
				t.Fatalf("%v %+v", err, m)
			}
			if took := time.Since(begun); took > 50*time.Millisecond {
				t.Errorf("a message of %d changes took %v", len(m.Changes), took)
			}
			told, at = told+len(m.Changes), m.To
		}
		if told != 100 || asks < 5 {
			t.Errorf("%d changes by %d messages", told, asks)
		}
		n.Close(t.Context())
	})
}

// A client with a small request waits for the slot in use, but not for all the slots that others wait for,
// whether these come from one address or many.
func TestSlotsRotateAmongAddresses(t *testing.T) {
	for _, c := range []struct{ peers, each int }{{1, 40}, {64, 1}, {64, 4}} {
		n, begin := slowly(t)
		synctest.Test(t, func(t *testing.T) {
			path := "/parley/changes?where=slow&after=" + begin.String()
			end := time.Now().Add(10 * time.Second)
			var mu sync.Mutex
			codes := map[int]int{}
			var busy sync.WaitGroup
			for i := range c.peers * c.each {
				busy.Go(func() {
					for time.Now().Before(end) {
						a := answersTo(n, path, fmt.Sprintf("192.0.2.%d:1", i%c.peers))
						if a.Code != 200 && (a.Header().Get("Retry-After") == "" || a.Header().Get("Content-Type") != "application/problem+json") {
							t.Errorf("%d %s", a.Code, a.Body)
						}
						mu.Lock()
						codes[a.Code]++
						mu.Unlock()
					}
				})
			}
			time.Sleep(5 * time.Second)
			for range 10 {
				begun := time.Now()
				a := answersTo(n, strings.Replace(path, "slow", "quick", 1), "198.51.100.1:1")
				if took := time.Since(begun); a.Code != 200 || took > 60*time.Millisecond {
					t.Errorf("beside %d requests of each of %d addresses: status %d after %v", c.each, c.peers, a.Code, took)
				}
				begun = time.Now()
				a = answersTo(n, strings.Replace(path, "where=slow", "minlen=1", 1), "198.51.100.1:1")
				if took := time.Since(begun); a.Code != 200 || took > time.Millisecond {
					t.Errorf("without an expression, beside %d requests of each of %d addresses: status %d after %v", c.each, c.peers, a.Code, took)
				}
				time.Sleep(100 * time.Millisecond)
			}
			busy.Wait()
			if crowd := c.each > 8+runtime.GOMAXPROCS(0); codes[200] == 0 || crowd != (codes[429] > 0) {
				t.Errorf("%d of each of %d: %v", c.each, c.peers, codes)
			}
			if codes[429] > 2000 { // once a second, and some at the start
				t.Errorf("%d requests of each of %d addresses are rejected without a delay: %v", c.each, c.peers, codes)
			}
			n.Close(t.Context())
		})
	}
}

// Long work leaves half of the time to others, and short work is done without a pause.
func TestSlotsPauseAfterLongWork(t *testing.T) {
	n, begin := slowly(t)
	var worked atomic.Int64 // in milliseconds
	slow := n.Clients.Where
	n.Clients.Where = func(e string) (caller.Predicate, error) {
		p, err := slow(e)
		return func(ctx context.Context, c *protocol.Change) (bool, error) {
			defer worked.Add(5)
			return p(ctx, c)
		}, err
	}
	synctest.Test(t, func(t *testing.T) {
		over, stop := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for i := range 20 {
			busy.Go(func() {
				for over.Err() == nil {
					answersTo(n, "/parley/changes?where=slow&after="+begin.String(), fmt.Sprintf("192.0.2.%d:1", i))
				}
			})
		}
		most := int64(max(1, runtime.GOMAXPROCS(0)/2))
		time.Sleep(500 * time.Millisecond / time.Duration(most))
		if share := worked.Load() * 100 / 500; share < 90 {
			t.Errorf("%d %% of the time is used at first", share)
		}
		time.Sleep(4500 * time.Millisecond)
		worked.Store(0)
		time.Sleep(5 * time.Second)
		if share := worked.Load() * 100 / (5000 * most); share < 30 || share > 60 {
			t.Errorf("%d %% of the time is used in the long run", share)
		}
		stop()
		busy.Wait()
		n.Close(t.Context())
	})
}

// Pauses do not count against the limits on work, neither for a query nor for a bundle.
func TestPausesDoNotCountAsWork(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	begin := w.journal.Head()
	for i := range 1400 {
		w.write(fmt.Sprintf("p%d.html", i), "p")
	}
	w.turn()
	synctest.Test(t, func(t *testing.T) {
		n := &doors.Notifier{Log: w.journal, Base: base,
			Content: doors.Content{Pages: struct{ content.Pages }{}, Items: func(context.Context) (*content.Moment, error) {
				return endless(func() { time.Sleep(5 * time.Millisecond) }), nil
			}},
			Clients: doors.Clients{Where: func(string) (caller.Predicate, error) {
				return func(context.Context, *protocol.Change) (bool, error) {
					time.Sleep(2 * time.Millisecond)
					return false, nil
				}, nil
			}}}
		for range 2 { // the second one pauses from the beginning
			if a := answers(n, "/parley/query?limit=1900"); a.Code != 200 || strings.Count(a.Body.String(), "<item ") != 1900 {
				t.Errorf("9.5 s of work: %d %.300s", a.Code, a.Body)
			}
			if a := answers(n, "/parley/query?limit=2100"); a.Code != 422 || !strings.Contains(a.Body.String(), "prefix") {
				t.Errorf("10.5 s of work: %d %.300s", a.Code, a.Body)
			}
		}
		a := answers(n, "/parley/changes?as=batch&where=none&after="+begin.String())
		if m, err := protocol.ParseMessage(a.Body.Bytes()); err != nil || m.To != n.Log.Head() {
			t.Errorf("2.8 s of work: %v, %d: %+v", err, a.Code, m)
		}
		// A client that goes unanswered because of others is not told that its request was too large.
		codes := make(chan int)
		peers := 8 * runtime.GOMAXPROCS(0)
		for i := range peers {
			go func() {
				codes <- answersTo(n, "/parley/query?limit=1900", fmt.Sprintf("192.0.2.%d:1", i)).Code
			}()
		}
		count := map[int]int{}
		for range peers {
			count[<-codes]++
		}
		if count[503] == 0 || count[422] > 0 {
			t.Errorf("answers to %d requests: %v", peers, count)
		}
		n.Close(t.Context())
	})
}

// A pause is short, even after a long step.
func TestPausesAreShort(t *testing.T) {
	n, begin := slowly(t)
	n.Clients.Where = func(e string) (caller.Predicate, error) {
		if e == "bad" {
			time.Sleep(2 * time.Second)
			return nil, errors.New("this is none")
		}
		return func(context.Context, *protocol.Change) (bool, error) {
			time.Sleep(2 * time.Second)
			return true, nil
		}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		for range 2 { // in the second round pauses are due
			begun := time.Now()
			answers(n, "/parley/changes?where=bad&after="+begin.String())
			if took := time.Since(begun); took > 2100*time.Millisecond {
				t.Errorf("an expression is rejected after %v", took)
			}
			begun = time.Now()
			answers(n, "/parley/changes?where=good&after="+begin.String())
			if took := time.Since(begun); took > 2100*time.Millisecond {
				t.Errorf("a message that takes 2 s takes %v", took)
			}
		}
		n.Close(t.Context())
	})
}

// A client that is rejected over and over is delayed, and slows down nobody else. A query that is too long
// causes no delay.
func TestRejectedClientDelaysNobody(t *testing.T) {
	n, begin := slowly(t)
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		n.Content.Items = func(context.Context) (*content.Moment, error) {
			<-free
			return endless(func() {}), nil
		}
		n.Content.Pages = struct{ content.Pages }{}
		var held sync.WaitGroup
		for range 4 {
			held.Go(func() { answers(n, "/parley/query?limit=1") })
		}
		synctest.Wait()
		begun := time.Now()
		for range 300 {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/parley/batch", http.NoBody)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = protocol.MaxQuestion + 1
			if n.ServeHTTP(w, r); w.Code != 413 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		for range 300 {
			if a := answers(n, "/parley/query?limit=1"); a.Code != 429 {
				t.Fatalf("%d %s", a.Code, a.Body)
			}
		}
		if took := time.Since(begun); took < time.Second || took > 40*time.Second {
			t.Errorf("600 requests are rejected within %v", took)
		}
		begun = time.Now()
		for at := begin; at != n.Log.Head(); {
			m, err := protocol.ParseMessage(answersTo(n, "/parley/changes?where=slow&after="+at.String(), "198.51.100.1:1").Body.Bytes())
			if err != nil || m.To == at {
				t.Fatalf("%v %+v", err, m)
			}
			at = m.To
		}
		if took := time.Since(begun); took > 600*time.Millisecond {
			t.Errorf("half a second of work takes %v", took)
		}
		close(free)
		held.Wait()
		n.Close(t.Context())
	})
}

// An expression is also compiled in a slot, since that takes CPU time too.
func TestCompilingNeedsSlot(t *testing.T) {
	n, begin := slowly(t)
	var at, most atomic.Int64
	n.Clients.Where = func(string) (caller.Predicate, error) {
		if now := at.Add(1); now > most.Load() {
			most.Store(now)
		}
		time.Sleep(5 * time.Millisecond)
		at.Add(-1)
		return nil, errors.New("this is none")
	}
	synctest.Test(t, func(t *testing.T) {
		var busy sync.WaitGroup
		for i := range 20 {
			busy.Go(func() {
				if a := answersTo(n, "/parley/changes?where=x&after="+begin.String(), fmt.Sprintf("192.0.2.%d:1", i)); a.Code != 400 {
					t.Errorf("%d %s", a.Code, a.Body)
				}
			})
		}
		busy.Wait()
		if want := int64(max(1, runtime.GOMAXPROCS(0)/2)); most.Load() != want {
			t.Errorf("%d expressions are compiled at a time, want %d", most.Load(), want)
		}
		n.Close(t.Context())
	})
}

// sends begins a request whose body stays open until end is called, which returns the response.
func sends(n *doors.Notifier, method, path, mediaType, peer, begin string) (end func() *httptest.ResponseRecorder) {
	in, out := io.Pipe()
	r := httptest.NewRequest(method, path, in)
	r.RemoteAddr = peer
	r.Header.Set("Content-Type", mediaType)
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		n.ServeHTTP(w, r)
		in.Close()
		answer <- w
	}()
	io.WriteString(out, begin) // until it is read or rejected
	return func() *httptest.ResponseRecorder {
		out.Close()
		return <-answer
	}
}

// The request bodies held in memory are bounded in total bytes, for all clients together.
func TestRequestBodiesInMemoryAreBounded(t *testing.T) {
	d := newDepot(t)
	question := `{"pages":[{"url":"` + strings.Repeat("a", 7<<20)
	var open []func() *httptest.ResponseRecorder
	for i := range 2 {
		open = append(open, sends(d.Notifier, "POST", "/parley/batch", "application/json", fmt.Sprintf("192.0.2.%d:1", i), question))
	}
	if a := sends(d.Notifier, "POST", "/parley/batch", "application/json", "192.0.2.9:1", question)(); a.Code != 503 || a.Header().Get("Retry-After") == "" {
		t.Errorf("%d %.300s", a.Code, a.Body)
	}
	for _, end := range open {
		if a := end(); a.Code != 400 {
			t.Errorf("%d %.300s", a.Code, a.Body)
		}
	}
	if a := sends(d.Notifier, "POST", "/parley/batch", "application/json", "192.0.2.9:1", `{"pages":[]}`)(); a.Code != 200 {
		t.Errorf("afterwards: %d %.300s", a.Code, a.Body)
	}
}

// A caller uploads one program at a time, and only a few uploads run at all.
func TestProgramUploadsAreBounded(t *testing.T) {
	w := newWorld(t)
	n := &doors.Notifier{Log: w.journal, Base: base,
		Clients: doors.Clients{Agents: struct{ caller.Agents }{}, Identify: func(r *http.Request) (caller.Caller, error) {
			return caller.Caller{Name: r.RemoteAddr, Agents: true}, nil
		}}}
	begin := func(who string) func() *httptest.ResponseRecorder {
		return sends(n, "POST", "/parley/agents", "application/wasm", who, "\x00asm")
	}
	var open []func() *httptest.ResponseRecorder
	open = append(open, begin("one"))
	if a := begin("one")(); a.Code != 429 || a.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	for _, who := range []string{"two", "three", "four"} {
		open = append(open, begin(who))
	}
	if a := begin("five")(); a.Code != 429 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	if len(open) != 4 {
		t.Errorf("%d", len(open))
	}
}
