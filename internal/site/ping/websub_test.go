package ping_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

const (
	hubURL    = "https://hub.example/"
	feedTopic = base + "feed.xml"
	rdfTopic  = base + "robots.rdf"
)

// A publicHub accepts pings.
type publicHub struct {
	t    testing.TB
	w    *world
	mu   sync.Mutex
	mood func() string
	got  []taken
	kill func()
}

type taken struct {
	at    time.Time
	told  int // changes that the hub finds at its fetch
	says  protocol.Cursor
	topic string
	ok    bool
	lost  bool // and the sender cannot know it
}

func newPublicHub(w *world) *publicHub {
	h := &publicHub{t: w.t, w: w}
	w.host("hub.example", h)
	return h
}

func (h *publicHub) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	form, err2 := url.ParseQuery(string(b))
	if ct, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != "POST" || ct != "application/x-www-form-urlencoded" || err != nil || err2 != nil {
		h.t.Errorf("hub got %s of %q: %v %v", r.Method, ct, err, err2)
	}
	if form.Get("hub.mode") != "publish" || form.Get("hub.url") == "" {
		h.t.Errorf("hub got %v", form)
	}
	h.w.mu.Lock()
	told, says := h.w.told, protocol.Cursor{}
	if h.w.writes {
		told, says = h.w.shown, h.w.published
	}
	h.w.mu.Unlock()
	mood := "204"
	h.mu.Lock()
	if h.mood != nil {
		mood = h.mood()
	}
	h.got = append(h.got, taken{at: time.Now(), told: told, says: says, topic: form.Get("hub.url"), ok: mood == "204" || mood == "kill", lost: mood == "kill"})
	h.mu.Unlock()
	switch mood {
	case "kill":
		h.kill()
	case "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "503 seconds":
		return response(r, 503, "", "Retry-After", "600"), nil
	case "404":
		return response(r, 404, "no such topic"), nil
	}
	return response(r, 204, ""), nil
}

func (h *publicHub) pings() (list []taken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(list, h.got...)
}

func (w *world) webSub() *ping.WebSub {
	return &ping.WebSub{Journal: w.journal, Hubs: []string{hubURL}, Topics: []string{feedTopic, rdfTopic}, HTTP: w.client(), Log: w.log}
}

func TestHubsArePinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := newPublicHub(w)
		s := w.webSub()
		stop := run(t, s)
		defer stop()
		pass(time.Minute)
		check(t, "pings before anything changed", len(h.pings()), 0)
		for range 60 {
			w.change(create(fmt.Sprint(time.Now().UnixNano())))
			pass(5 * time.Second)
		}
		pass(time.Minute)
		byTopic := make(map[string][]taken)
		for _, p := range h.pings() {
			byTopic[p.topic] = append(byTopic[p.topic], p)
		}
		for _, topic := range []string{feedTopic, rdfTopic} {
			list := byTopic[topic]
			if n := len(list); n < 8 || n > 11 {
				t.Errorf("%d pings in five minutes of changes", n)
			}
			for i := 1; i < len(list); i++ {
				if d := list[i].at.Sub(list[i-1].at); d < 30*time.Second {
					t.Errorf("pings %v apart", d)
				}
			}
			check(t, "changes told by the last ping", list[len(list)-1].told, 60)
		}
		st := must.Get(s.Status())
		check(t, "hubs and topics", len(st), 2)
		check(t, "owed", st[0].Owed, false)
		check(t, "status", st[0].Status, 204)
	})
}

// A hub that fetches before the file is written finds nothing new.
func TestPingsWaitForPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := newPublicHub(w)
		s := w.webSub()
		var mu sync.Mutex
		published := w.journal.Head()
		s.Published = func() protocol.Cursor {
			mu.Lock()
			defer mu.Unlock()
			return published
		}
		stop := run(t, s)
		defer stop()
		pass(time.Second)
		w.change(create("a.html"))
		pass(5 * time.Minute)
		check(t, "pings", len(h.pings()), 0)
		mu.Lock()
		published = w.journal.Head()
		mu.Unlock()
		w.change(create("b.html"))
		pass(5 * time.Minute)
		check(t, "pings", len(h.pings()), 2)
		mu.Lock()
		published = w.journal.Head()
		mu.Unlock()
		pass(5 * time.Minute)
		check(t, "pings", len(h.pings()), 4)
	})
}

func TestFailedPingsAreRetried(t *testing.T) {
	for mood, least := range map[string]time.Duration{"404": time.Minute, "hang": time.Minute, "503 seconds": 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h := newPublicHub(w)
			s := w.webSub()
			s.Topics = s.Topics[:1]
			stop := run(t, s)
			defer stop()
			pass(time.Second)
			h.mood = func() string {
				if len(h.got) < 2 {
					return mood
				}
				return "204"
			}
			w.change(create("a.html"))
			pass(61 * time.Second)
			st := must.Get(s.Status())
			if st[0].Trouble == "" || !st[0].Owed || st[0].Failures == 0 || st[0].RetryAt.IsZero() {
				t.Errorf("%s: %+v", mood, st[0])
			}
			pass(time.Hour)
			got := h.pings()
			check(t, "pings", len(got), 3)
			if d := got[1].at.Sub(got[0].at); d < least {
				t.Errorf("%s: retried after %v", mood, d)
			}
		})
	}
}

func TestPingsFromCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := newPublicHub(w)
		turn := func() (int, []string) {
			t.Helper()
			n, failed, err := w.webSub().Turn(t.Context())
			w.must(err)
			return n, failed
		}
		turn()
		w.change(create("a.html"))
		n, _ := turn()
		check(t, "pings", n, 2)
		n, _ = turn()
		check(t, "pings", n, 0)
		time.Sleep(time.Minute)
		w.change(create("b.html"))
		h.mood = func() string { return "404" }
		n, failed := turn()
		check(t, "pings", n, 0)
		if len(failed) != 2 || !strings.Contains(failed[0], "404") {
			t.Errorf("%q", failed)
		}
	})
}

func TestWebSubRejectsWrongConfiguration(t *testing.T) {
	w := newWorld(t)
	for _, s := range []*ping.WebSub{
		{Hubs: []string{hubURL}, Topics: []string{feedTopic}},
		{Journal: w.journal, Topics: []string{feedTopic}},
		{Journal: w.journal, Hubs: []string{"hub.example"}, Topics: []string{feedTopic}},
		{Journal: w.journal, Hubs: []string{hubURL}, Topics: []string{"/feed.xml"}},
		{Journal: w.journal, Hubs: []string{hubURL}, Topics: []string{feedTopic + "#top"}},
	} {
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

// For any answers of the hub and any kills of the publisher, the hub finds the last change at its last ping;
// and without a kill it is never pinged twice for the same change, nor twice within the debounce. In every
// other history the topics are written some time after the journal, and reported as published some time later
// still.
func TestRandomPings(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 15
	}
	dir := scratch(t)
	var kills, pings atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for seed := range n {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { randomPings(t, dir, seed, &kills, &pings) })
			})
		}
	})
	t.Logf("%d histories, %d pings, %d kills", n, pings.Load(), kills.Load())
	if kills.Load() == 0 {
		t.Error("no process was killed")
	}
}

func randomPings(t *testing.T, dir string, seed int, kills, pings *atomic.Int64) {
	rnd, moods := rand.New(rand.NewPCG(uint64(seed), 3)), rand.New(rand.NewPCG(uint64(seed), 4))
	w := &world{t: t, file: fmt.Sprintf("%s/%d", dir, seed), hosts: make(map[string]roundTripper), writes: seed%2 == 1}
	w.open()
	defer func() { w.journal.Close() }()
	w.must(w.journal.EndBaseline())
	h := newPublicHub(w)
	var killed atomic.Bool
	var ends []int
	var cancel context.CancelFunc
	var owned sync.WaitGroup
	start := func() {
		s := w.webSub()
		s.Topics, s.Log, s.Published = s.Topics[:1], nil, w.lagging()
		var ctx context.Context
		ctx, cancel = context.WithCancel(context.Background())
		owned.Go(func() { s.Run(ctx) })
	}
	h.kill = func() {
		killed.Store(true)
		cancel()
		w.journal.Close()
	}
	mood := func() string {
		return []string{"204", "204", "204", "404", "hang", "503 seconds", "kill"}[moods.IntN(7)]
	}
	h.mood = mood
	restart := func() {
		cancel()
		owned.Wait()
		w.journal.Close()
		if killed.Swap(false) {
			kills.Add(1)
			ends = append(ends, len(h.got)-1)
		}
		w.open()
		start()
	}
	start()
	synctest.Wait()
	for range 15 {
		pass(time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, time.Hour}[rnd.IntN(3)]))))
		for again := rnd.IntN(6) == 0; again || killed.Load(); again = false {
			restart()
			synctest.Wait()
		}
		if !w.writes {
			w.change(create(fmt.Sprint(time.Now().UnixNano())))
			continue
		}
		switch rnd.IntN(4) {
		case 0:
			w.write()
		case 1:
			w.publish()
		default:
			w.change(create(fmt.Sprint(time.Now().UnixNano())))
		}
	}
	h.mu.Lock()
	h.mood = nil
	h.mu.Unlock()
	pass(time.Minute)
	if killed.Load() {
		restart()
	}
	w.write()
	pass(2 * time.Minute)
	w.publish()
	pass(48 * time.Hour)
	cancel()
	owned.Wait()
	last, was := -1, -1
	for i, p := range h.got {
		if !p.ok {
			continue
		}
		pings.Add(1)
		if last >= 0 {
			prev, wasKilled := h.got[last], false
			for _, e := range ends {
				wasKilled = wasKilled || e == last
			}
			if d := p.at.Sub(prev.at); (d < 30*time.Second || p.told == prev.told && p.says == prev.says) && !wasKilled {
				t.Errorf("seed %d: pinged at %s after change %d, and at %s after %d", seed, stamp(prev.at), prev.told, stamp(p.at), p.told)
			}
		}
		last, was = i, p.told
	}
	if was != w.told && w.told > 0 {
		t.Errorf("seed %d: the hub was pinged for %d changes, want %d", seed, was, w.told)
	}
}
