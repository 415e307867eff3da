package cluster_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
	"github.com/parleyweb/parley/internal/nats/natstest"
)

// A rig is some NATS servers in this process, and nodes of a crawl.
type rig struct {
	*testing.T
	servers natstest.Servers
}

func newRig(t *testing.T, servers int) *rig { return &rig{t, natstest.Start(t, servers)} }

// restart stops a NATS server, lets something happen, and starts it again.
func (r *rig) restart(i int, meanwhile func()) {
	r.Helper()
	r.servers[i].Stop()
	meanwhile()
	must.OK(r, r.servers[i].Start())
}

// A running is a node that runs.
type running struct {
	*cluster.Node
	stop    func() // gives its partitions back
	abandon func() // as if the machine had lost its power: it gives nothing back
}

// run runs a node. Its connection is one of its own.
func (r *rig) run(n *cluster.Node, o ...nats.Option) *running {
	r.Helper()
	var err error
	n.Conn, err = nats.Connect(r.servers.URLs(), append(o, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1))...)
	must.OK(r, err)
	n.Crawl = "test"
	if n.Log == nil {
		n.Log = slog.New(slog.NewTextHandler(r.Output(), nil))
	}
	n.Log = n.Log.With("node", n.Name)
	if n.Dir == "" {
		n.Dir = r.TempDir()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.Run(ctx); err != nil {
			r.Error(err)
		}
	}()
	end := func() { cancel(); <-done; n.Conn.Close() }
	r.Cleanup(end)
	return &running{n, end, func() { n.Conn.Close(); end() }}
}

// eventually waits until something is so.
func (r *rig) eventually(what string, is func() bool) {
	r.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatal("never: " + what)
		}
	}
}

// A wire connects to NATS until it is cut: then everything hangs.
type wire struct{ cut chan struct{} }

func (w *wire) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &wired{c, w}, err
}

type wired struct {
	net.Conn
	*wire
}

func (c *wired) Write(b []byte) (int, error) {
	select {
	case <-c.cut:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}
