package jetlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/nats/jetlog"
)

// A holder is a program that has, or waits for, the lease.
type holder struct {
	has   chan struct{} // closed once it has the lease
	ended chan struct{}
	err   error  // after ended
	stop  func() // ends it
}

func (c *cluster) hold(s *jetlog.Stream, name string, lasts time.Duration) *holder {
	ctx, cancel := context.WithCancel(c.Context())
	h := &holder{has: make(chan struct{}), ended: make(chan struct{})}
	h.stop = func() { cancel(); <-h.ended }
	go func() {
		defer close(h.ended)
		l := s.Lease(name, lasts)
		if h.err = l.Acquire(ctx); h.err != nil {
			return
		}
		close(h.has)
		h.err = l.Keep(ctx)
	}()
	c.Cleanup(h.stop)
	return h
}

// acquires waits until a program has the lease.
func (c *cluster) acquires(h *holder) {
	c.Helper()
	select {
	case <-h.has:
	case <-time.After(time.Minute):
		c.Fatal("it never has the lease")
	}
}

// A program that gives its lease back is followed at once; one that is silent is followed later, and ends when it goes on.
func TestLeaseGoesOn(t *testing.T) {
	c := newCluster(t, 1)
	s := c.stream()
	first := c.hold(s, "first", time.Minute)
	c.acquires(first)
	silent := s.Lease("silent", time.Second)
	done := make(chan error, 1)
	go func() { done <- silent.Acquire(t.Context()) }()
	first.stop()
	if first.err != nil {
		t.Error(first.err)
	}
	c.must(<-done)
	third := c.hold(s, "third", time.Second)
	c.acquires(third)
	if err := silent.Keep(t.Context()); !errors.Is(err, jetlog.ErrFenced) {
		t.Errorf("the program that was silent: %v", err)
	}
}

// While NATS is away for longer than the lease, it does not end: the program that had it has it when NATS is back, though another one waits for it.
func TestLeaseWhileNATSIsAway(t *testing.T) {
	const lasts = 4 * time.Second
	c := newCluster(t, 1)
	s := c.stream()
	first := c.hold(s, "first", lasts)
	c.acquires(first)
	second := c.hold(s, "second", lasts)
	keeps := func(d time.Duration) {
		t.Helper()
		select {
		case <-second.has:
			t.Error("another program has it")
		case <-first.ended:
			t.Errorf("the first program has lost it: %v", first.err)
		case <-time.After(d):
		}
	}
	keeps(lasts / 2)
	c.servers[0].Stop()
	keeps(lasts + lasts/4)
	c.must(c.servers[0].Start())
	keeps(lasts + lasts/2)
	first.stop()
	c.acquires(second)
}

// When NATS has lost all that it had, the holder stands by, and does not wait for the next change to notice it: then the log begins again. So it does if another
// program has made the bucket anew before it looks.
func TestLeaseIsLost(t *testing.T) {
	c := newCluster(t, 1)
	h := c.hold(c.stream(), "holder", time.Second)
	c.acquires(h)
	c.servers[0].Stop()
	c.servers[0].Options.StoreDir = t.TempDir()
	c.must(c.servers[0].Start())
	c.isFenced(h)
	next := c.hold(c.stream(), "next", time.Second)
	c.acquires(next)

	js, err := jetstream.New(c.conn)
	c.must(err)
	kv, err := js.KeyValue(t.Context(), "site-lease")
	c.must(err)
	for range 300 { // so that the new bucket is behind the old one for long
		_, err := kv.PutString(t.Context(), "standby", "somebody")
		c.must(err)
	}
	c.must(js.DeleteKeyValue(t.Context(), "site-lease"))
	last := c.hold(c.stream(), "last", time.Second)
	c.isFenced(next)
	c.acquires(last)
}

// isFenced waits until a program has lost the lease.
func (c *cluster) isFenced(h *holder) {
	c.Helper()
	select {
	case <-h.ended:
	case <-time.After(time.Minute):
		c.Fatal("it goes on")
	}
	if !errors.Is(h.err, jetlog.ErrFenced) {
		c.Errorf("it ends with %v", h.err)
	}
}
