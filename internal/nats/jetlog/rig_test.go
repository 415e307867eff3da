package jetlog_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/protocol"
)

// A cluster is some NATS servers in this process.
type cluster struct {
	testing.TB
	servers natstest.Servers
	conn    *nats.Conn
	most    int // see jetlog.Options.MaxChanges
}

func newCluster(t testing.TB, n int) *cluster {
	t.Helper()
	c, err := &cluster{TB: t, servers: natstest.Start(t, n)}, error(nil)
	c.conn, err = nats.Connect(c.servers.URLs(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	c.must(err)
	t.Cleanup(c.conn.Close)
	return c
}

// current waits until a server that was down has every message again.
func (c *cluster) current(i int) {
	c.Helper()
	for end := time.Now().Add(time.Minute); !c.servers[i].JetStreamIsStreamCurrent("$G", "site"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.Fatal("a NATS server that was down does not catch up")
		}
	}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// stream opens the stream of the site, as soon as the servers have elected who leads them.
func (c *cluster) stream() *jetlog.Stream {
	c.Helper()
	for end := time.Now().Add(time.Minute); ; {
		s, err := jetlog.Open(c.Context(), c.conn, jetlog.Options{Name: "site", Replicas: len(c.servers), MaxChanges: c.most})
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			c.Fatal(err)
		}
	}
}

// stored returns the messages of a stream that have a text.
func (c *cluster) stored(name, text string) (numbers []uint64) {
	c.Helper()
	js, err := jetstream.New(c.conn)
	c.must(err)
	stream, err := js.Stream(c.Context(), name)
	c.must(err)
	info, err := stream.Info(c.Context())
	c.must(err)
	for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
		if m, err := stream.GetMsg(c.Context(), n); err == nil && bytes.Contains(m.Data, []byte(text)) {
			numbers = append(numbers, n)
		} else if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			c.Fatal(err)
		}
	}
	return numbers
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func (c *cluster) journal(o journal.Options) *journal.Journal {
	c.Helper()
	j, err := journal.Open(filepath.Join(c.TempDir(), "journal"), &o)
	c.must(err)
	c.Cleanup(func() { j.Close() })
	return j
}

// site returns a new journal of a site without pages.
func (c *cluster) site() *journal.Journal {
	j := c.journal(journal.Options{})
	c.must(j.EndBaseline())
	return j
}

func step(op protocol.Op, path, text string) journal.Step {
	return journal.Step{Op: op, Entry: journal.Entry{Item: protocol.Item{URL: "https://site.example/" + path, Type: "text/html",
		Modified: noon, Length: int64(len(text)), Digest: protocol.Sum([]byte(text))}}}
}

func (c *cluster) append(j *journal.Journal, steps ...journal.Step) protocol.Cursor {
	c.Helper()
	head, err := j.Append(c.Context(), steps)
	c.must(err)
	return head
}

// items returns what a journal offers, for the beginning of a copy.
func items(j *journal.Journal) (at protocol.Cursor, list []protocol.Item, err error) {
	v, err := j.View()
	if err != nil {
		return at, nil, err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err != nil {
			return at, nil, err
		}
		list = append(list, e.Item)
	}
	return v.Head(), list, nil
}

func each(list []protocol.Item) iter.Seq2[protocol.Item, error] {
	return func(yield func(protocol.Item, error) bool) {
		for _, it := range list {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// A running is a Log that tells or follows.
type running struct {
	*jetlog.Log
	ended chan struct{} // closed when it has ended
	stop  func() error  // ends it, and returns its error
}

func (c *cluster) run(l *jetlog.Log, run func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(c.Context())
	r, err := &running{Log: l, ended: make(chan struct{})}, error(nil)
	go func() {
		defer close(r.ended)
		err = run(ctx)
	}()
	r.stop = func() error {
		cancel()
		<-r.ended
		return err
	}
	c.Cleanup(func() { r.stop() })
	return r
}

func (c *cluster) tell(s *jetlog.Stream, j *journal.Journal) *running {
	l := &jetlog.Log{Stream: s, Journal: j}
	return c.run(l, func(ctx context.Context) error { return l.Tell(ctx, false) })
}

// follow follows the stream by a new journal, which begins with the items of another one.
func (c *cluster) follow(s *jetlog.Stream, from func() *journal.Journal) *running {
	l := &jetlog.Log{Stream: s, Journal: c.journal(journal.Options{}), Logger: slog.New(slog.NewTextHandler(c.Output(), nil)),
		Items: func(context.Context) (protocol.Cursor, iter.Seq2[protocol.Item, error], error) {
			at, list, err := items(from())
			return at, each(list), err
		}}
	return c.run(l, l.Follow)
}

// reaches waits until a log is at a cursor.
func (c *cluster) reaches(l protocol.Log, at protocol.Cursor) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	for head := l.Head(); head != at; head = l.Head() {
		if err := l.Wait(ctx, head); err != nil {
			c.Fatalf("at %v, waiting for %v: %v", head, at, err)
		}
	}
}

// eventually waits until something is so.
func (c *cluster) eventually(what string, is func() bool) {
	c.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.Fatal("never: " + what)
		}
	}
}
