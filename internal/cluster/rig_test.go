package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/cluster"
	"github.com/parleyweb/parley/internal/must"
)

// A rig is some NATS servers in this process, which sync every write, and nodes of a crawl.
type rig struct {
	*testing.T
	servers []*server.Server
	options []*server.Options
	urls    []string
}

func newRig(t *testing.T, servers int) *rig {
	r := &rig{T: t}
	dir := t.TempDir() // before the next line: it is removed after the servers have ended
	t.Cleanup(func() {
		for _, s := range r.servers {
			s.Shutdown()
			s.WaitForShutdown()
		}
	})
	var routes []string
	for i := range servers {
		o := &server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), SyncAlways: true}
		if servers > 1 {
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT}
			o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		}
		s := r.start(o.Clone()) // which goes on reading them
		r.options, r.servers, r.urls = append(r.options, o), append(r.servers, s), append(r.urls, s.ClientURL())
		o.Port = s.Addr().(*net.TCPAddr).Port // for when it starts again
		if servers > 1 {
			o.Cluster.Port = s.ClusterAddr().Port
			routes = append(routes, "nats://"+s.ClusterAddr().String())
		}
	}
	return r
}

func (r *rig) start(o *server.Options) *server.Server {
	r.Helper()
	s := must.Get(server.NewServer(o))
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		r.Fatal("a NATS server does not start")
	}
	return s
}

// restart stops a NATS server, lets something happen, and starts it again.
func (r *rig) restart(i int, meanwhile func()) {
	r.Helper()
	r.servers[i].Shutdown()
	r.servers[i].WaitForShutdown()
	meanwhile()
	r.servers[i] = r.start(r.options[i])
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
	n.Conn, err = nats.Connect(strings.Join(r.urls, ","), append(o, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1))...)
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
