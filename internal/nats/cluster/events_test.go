package cluster_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
	"github.com/parleyweb/parley/protocol"
)

// A state is a collection that has only events, and the pages as they are after them. It implements protocol.Log, as far as a Source needs.
type state struct {
	protocol.Log
	epoch string

	mu     sync.Mutex // guards the rest
	events []cluster.Event
	pages  map[string]cluster.Event
	more   chan struct{} // closed when there is another event
}

func newState(epoch string) *state {
	return &state{epoch: epoch, pages: map[string]cluster.Event{}, more: make(chan struct{})}
}

// event returns one that says what a page is; an empty content means that it is gone.
func event(url, content string) cluster.Event {
	if content == "" {
		return cluster.Event{JSON: fmt.Appendf(nil, `{"op":"delete","url":%q}`, url)}
	}
	return cluster.Event{JSON: fmt.Appendf(nil, `{"op":"update","url":%q,"digest":%q,"content":%q}`, url, protocol.Digest(sha256.Sum256([]byte(content))), content)}
}

// is adds an event, which says what a page is.
func (s *state) is(url, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := event(url, content)
	e.Cursor = protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.events)) + 1}
	s.events, s.pages[url] = append(s.events, e), e
	close(s.more)
	s.more = make(chan struct{})
}

func (s *state) Floor() protocol.Cursor { return protocol.Cursor{Epoch: s.epoch} }

func (s *state) Head() protocol.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.events))}
}

func (s *state) Wait(ctx context.Context, after protocol.Cursor) error {
	s.mu.Lock()
	more, there := s.more, after.Seq < uint64(len(s.events))
	s.mu.Unlock()
	if there {
		return nil
	}
	select {
	case <-more:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *state) source() cluster.Source {
	return cluster.Source{
		Log: s,
		Events: func(_ context.Context, after protocol.Cursor, most int) ([]cluster.Event, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Clone(s.events[after.Seq:min(len(s.events), int(after.Seq)+most)]), nil
		},
		Page: func(url string) (cluster.Event, time.Time, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			e, fetched := s.pages[url]
			if !fetched {
				return e, time.Time{}, nil
			}
			return e, time.Now().Add(-3 * time.Second), nil
		},
	}
}

// told returns the events in the stream after a number, as "url=content", and checks their numbers.
func (r *rig) told(conn *nats.Conn, after uint64) (list []string) {
	r.Helper()
	r.eventually("the events are read", func() bool { // NATS may elect a leader
		c, err := cluster.Find(r.Context(), conn, "test")
		next := uint64(0)
		list = nil
		return err == nil && c.Events(r.Context(), protocol.Cursor{}, false, func(at protocol.Cursor, partition int, e []byte) error {
			if next++; at.Seq != next || partition != 1 {
				r.Errorf("event %v of partition %d, want %d", at, partition, next)
			}
			_, url, _ := strings.Cut(string(e), `"url":"`)
			url, _, _ = strings.Cut(url, `"`)
			_, content, _ := strings.Cut(string(e), `"content":"`)
			if at.Seq > after {
				list = append(list, url+"="+strings.TrimSuffix(content, `"}`))
			}
			return nil
		}) == nil
	})
	return list
}

// A partition that goes on with an earlier state does not tell again what its pages become once more, and tells what they are instead.
func TestEventsOfAnEarlierState(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	conn := must.Get(nats.Connect(r.servers[0].ClientURL()))
	defer conn.Close()
	run := func(name string, s *state) (*running, *cluster.Part) {
		parts := make(chan *cluster.Part, 1)
		n := r.run(&cluster.Node{Name: name, Partitions: 1, Lease: 5 * time.Second, Snapshots: time.Second, Events: 1000, Engine: func(ctx context.Context, p *cluster.Part) error {
			select {
			case parts <- p:
			default: // the lease has ended on a busy machine
			}
			p.Tell(ctx, s.source())
			<-ctx.Done()
			return nil
		}})
		return n, <-parts
	}
	before, after := newState("before"), newState("after")
	before.is("/same", "1")
	before.is("/other", "1")
	before.is("/gone", "1")
	before.is("/gone", "")
	before.is("/back", "2")
	first, p := run("first", before)
	must.OK(t, p.Told(t.Context(), before.Head()))
	want := []string{"/same=1", "/other=1", "/gone=1", "/gone=", "/back=2"}
	if got := r.told(conn, 0); !slices.Equal(got, want) {
		t.Errorf("told: %q, want %q", got, want)
	}
	first.abandon()

	after.pages["/back"] = event("/back", "1") // fetched, and as in this state: no event
	after.is("/same", "1")
	after.is("/other", "2")
	after.is("/gone", "")
	after.is("/new", "1")
	_, p = run("second", after)
	must.OK(t, p.Told(t.Context(), after.Head()))
	want = []string{"/other=2", "/new=1", "/back=1"}
	r.eventually("the page that is as before is told", func() bool { return len(r.told(conn, 5)) == 3 })
	if got := r.told(conn, 5); !slices.Equal(got, want) {
		t.Errorf("told then: %q, want %q", got, want)
	}
	after.is("/same", "2")
	must.OK(t, p.Told(t.Context(), after.Head()))
	if got, want := r.told(conn, 8), []string{"/same=2"}; !slices.Equal(got, want) {
		t.Errorf("told at last: %q, want %q", got, want)
	}
}

// Of two writers at once the stream refuses one, which goes on after what the other one has told: each event is told once.
func TestTwoTell(t *testing.T) {
	t.Parallel()
	const rounds, events = 3, 40
	r := newRig(t, 3)
	conn := must.Get(nats.Connect(r.servers[0].ClientURL()))
	defer conn.Close()
	a, b := newState("a"), newState("b")
	r.run(&cluster.Node{Name: "node", Partitions: 1, Lease: time.Minute, Snapshots: time.Hour, Events: 10_000, Engine: func(ctx context.Context, p *cluster.Part) error {
		var both sync.WaitGroup
		both.Go(func() { p.Tell(ctx, a.source()) })
		both.Go(func() { p.Tell(ctx, b.source()) })
		both.Wait()
		return nil
	}})
	var want, got []string
	for round := range rounds {
		for i := range events {
			for _, s := range []*state{a, b} {
				url := fmt.Sprintf("/%s%d-%d", s.epoch, round, i)
				s.is(url, "1")
				want = append(want, url+"=1")
			}
		}
		r.eventually("all is told", func() bool {
			got = r.told(conn, 0)
			return len(got) >= len(want)
		})
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%d of %d events are told", len(got), len(want))
	}
}

// A reader that was away for too long is told so.
func TestTooFarBehind(t *testing.T) {
	t.Parallel()
	const kept = 20
	r, s := newRig(t, 1), newState("a")
	conn := must.Get(nats.Connect(r.servers[0].ClientURL()))
	defer conn.Close()
	for i := range 2 * kept {
		s.is(fmt.Sprint("/", i), "1")
	}
	parts := make(chan *cluster.Part, 1)
	r.run(&cluster.Node{Name: "node", Partitions: 1, Lease: time.Minute, Snapshots: time.Hour, Events: kept, Engine: func(ctx context.Context, p *cluster.Part) error {
		parts <- p
		p.Tell(ctx, s.source())
		return nil
	}})
	must.OK(t, (<-parts).Told(t.Context(), s.Head()))
	c := must.Get(cluster.Find(t.Context(), conn, "test"))
	var first protocol.Cursor
	n := 0
	must.OK(t, c.Events(t.Context(), protocol.Cursor{}, false, func(at protocol.Cursor, _ int, _ []byte) error {
		if n++; n == 1 {
			first = at
		}
		return nil
	}))
	if n != kept || first.Seq != kept+1 {
		t.Errorf("%d events from %v on, want %d from %d on", n, first, kept, kept+1)
	}
	first.Seq = kept / 2
	none := func(protocol.Cursor, int, []byte) error { return errors.New("an event") }
	if err := c.Events(t.Context(), first, false, none); !errors.Is(err, protocol.ErrTooOld) {
		t.Errorf("a cursor before the first event: %v", err)
	}
	first.Epoch, first.Seq = "other", 2*kept
	if err := c.Events(t.Context(), first, false, none); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("a cursor of another crawl: %v", err)
	}
}
