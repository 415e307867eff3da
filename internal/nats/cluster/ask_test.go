package cluster_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
)

// serve returns an engine that does nothing but answer.
func serve(h func(p *cluster.Part) http.HandlerFunc) func(context.Context, *cluster.Part) error {
	return func(ctx context.Context, p *cluster.Part) error {
		ln, err := p.Listen()
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: h(p)}
		context.AfterFunc(ctx, func() { srv.Close() })
		srv.Serve(ln)
		return nil
	}
}

// ask sends a request to a partition.
func ask(ctx context.Context, c *cluster.Crawl, number int, path string) (io.ReadCloser, error) {
	return holder.Over(ctx, func(ctx context.Context) (net.Conn, error) { return c.Dial(ctx, number) }, "GET", path, nil)
}

// Whoever has access to NATS asks the node that has a partition. Long responses come whole, and end when their reader goes. It is said who does not answer.
func TestAskPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	long := make([]byte, 10<<20)
	rand.Read(long)
	begun, gone := make(chan bool, 1), make(chan bool, 1)
	node := r.run(&cluster.Node{Name: "node", Partitions: 3, Lease: time.Minute, Snapshots: time.Hour, Engine: serve(func(p *cluster.Part) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			switch req.URL.Path {
			case "/long":
				w.Write(long)
			case "/endless":
				for req.Context().Err() == nil {
					if _, err := w.Write(long[:100_000]); err != nil {
						break
					}
				}
				gone <- true
			case "/silent":
				begun <- true
				<-req.Context().Done()
				gone <- true
			default:
				fmt.Fprint(w, p.Number)
			}
		}
	})})
	conn := must.Get(nats.Connect(r.servers[1].ClientURL()))
	defer conn.Close()
	var c *cluster.Crawl
	r.eventually("the crawl is there", func() (is bool) {
		var err error
		c, err = cluster.Find(t.Context(), conn, "test")
		return err == nil
	})
	if _, err := cluster.Find(t.Context(), conn, "other"); err == nil || err.Error() != `NATS has no crawl "other"` {
		t.Errorf("a crawl that is not there: %v", err)
	}
	for number := 1; number <= c.Partitions; number++ {
		r.eventually("a partition answers", func() bool {
			body, err := ask(t.Context(), c, number, "/")
			if errors.Is(err, cluster.ErrNobody) {
				return false
			}
			must.OK(t, err)
			defer body.Close()
			if text := string(must.Get(io.ReadAll(body))); text != fmt.Sprint(number) {
				t.Errorf("partition %d answers %q", number, text)
			}
			return true
		})
	}
	body := must.Get(ask(t.Context(), c, 2, "/long"))
	if got := must.Get(io.ReadAll(body)); !bytes.Equal(got, long) {
		t.Errorf("%d bytes came of %d", len(got), len(long))
	}
	body = must.Get(ask(t.Context(), c, 2, "/endless"))
	must.Get(io.CopyN(io.Discard, body, 3_000_000))
	body.Close()
	<-gone
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := ask(ctx, c, 2, "/silent"); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is given up: %v", err)
	}
	<-gone
	if c.Of("https://www.example.org/") != c.Of("http://example.org:8080/a") {
		t.Error("two hosts of a domain are in two partitions")
	}
	// Who goes on after its last message harms nobody.
	inbox := must.Get(conn.SubscribeSync(conn.NewInbox()))
	to := string(must.Get(conn.RequestWithContext(t.Context(), "parley-crawl-test-ask.2", []byte(inbox.Subject))).Data)
	for _, message := range []string{"d\x00\x00\x00\x00GET /", "l\x00\x00\x00\x01", "l\x00\x00\x00\x00", "d\x00\x00\x00\x00 HTTP", "l\x00\x00\x00\x01", "d\x00\x00\x00\x01 HTTP", "r", "l", ""} {
		must.OK(t, conn.Publish(to, []byte(message)))
	}
	must.OK(t, conn.Flush())
	if got := must.Get(io.ReadAll(must.Get(ask(t.Context(), c, 2, "/")))); string(got) != "2" {
		t.Errorf("after that partition 2 answers %q", got)
	}
	node.stop()
	if _, err := ask(t.Context(), c, 3, "/"); !errors.Is(err, cluster.ErrNobody) {
		t.Errorf("nobody is there: %v", err)
	}
}

// A connection leaves nothing running: not where it was made, once it is closed, and not where it was accepted, once the engine has ended.
func TestConnectionsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	there, here := must.Get(nats.Connect(r.servers.URLs())), must.Get(nats.Connect(r.servers.URLs()))
	defer there.Close()
	defer here.Close()
	left := map[bool]int{} // subscriptions
	for _, dial := range []bool{false, true} {
		accepted := make(chan net.Conn, 1)
		ctx, stop := context.WithCancel(t.Context())
		n := &cluster.Node{Conn: there, Crawl: "test", Name: "node", Dir: t.TempDir(), Partitions: 1, Lease: time.Minute, Snapshots: time.Hour, Log: slog.New(slog.DiscardHandler),
			Engine: func(ctx context.Context, p *cluster.Part) error {
				if !dial {
					stop()
					<-ctx.Done()
					return nil
				}
				ln := must.Get(p.Listen())
				defer ln.Close()
				accepted <- nil
				accepted <- must.Get(ln.Accept())
				<-ctx.Done()
				return nil // and leaves the connection open
			}}
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		if dial {
			<-accepted
			c := must.Get(cluster.Find(t.Context(), here, "test"))
			before := here.NumSubscriptions()
			conn := must.Get(c.Dial(t.Context(), 1))
			there := <-accepted
			go conn.Write([]byte("a"))
			must.Get(io.ReadFull(there, make([]byte, 1)))
			conn.Close()
			if n := here.NumSubscriptions(); n != before {
				t.Errorf("%d subscriptions are left, %d were there before", n, before)
			}
			if _, err := there.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the other end reads %v", err)
			}
			stop()
		}
		must.OK(t, <-ended)
		left[dial] = there.NumSubscriptions()
	}
	if left[true] != left[false] {
		t.Errorf("%d subscriptions are left, %d without connections", left[true], left[false])
	}
}

// A reader whose node loses its connection in the midst of a response hears of it.
func TestAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	cable := &wire{make(chan struct{})}
	r.run(&cluster.Node{Name: "node", Partitions: 1, Lease: 5 * time.Second, Snapshots: time.Hour, Engine: serve(func(*cluster.Part) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, "begin")
			http.NewResponseController(w).Flush()
			<-req.Context().Done()
		}
	})}, nats.SetCustomDialer(cable))
	conn := must.Get(nats.Connect(r.servers[0].ClientURL()))
	defer conn.Close()
	var body io.ReadCloser
	r.eventually("the partition answers", func() bool {
		c, err := cluster.Find(t.Context(), conn, "test")
		if err == nil {
			body, err = ask(t.Context(), c, 1, "/")
		}
		return err == nil
	})
	defer body.Close()
	must.Get(io.ReadFull(body, make([]byte, 5)))
	close(cable.cut)
	if more, err := io.ReadAll(body); err == nil || len(more) > 0 {
		t.Errorf("after the beginning came %q, %v", more, err)
	}
}
