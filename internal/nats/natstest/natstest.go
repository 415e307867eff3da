// Package natstest runs NATS servers in the process of a test or a measurement.
package natstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A Server is a NATS server.
type Server struct {
	*server.Server
	Options *server.Options // with which it starts; must not change while it runs, but StoreDir
}

// Start starts the server, and waits until it can be reached. After Stop it has the same address again.
func (s *Server) Start() (err error) {
	if s.Server, err = server.NewServer(s.Options.Clone()); err != nil { // a copy: the server goes on reading them
		return err
	}
	if s.Server.Start(); !s.ReadyForConnections(time.Minute) {
		return errors.New("a NATS server does not start")
	}
	s.Options.Port = s.Addr().(*net.TCPAddr).Port
	if s.Options.Cluster.Name != "" {
		s.Options.Cluster.Port = s.ClusterAddr().Port
	}
	return nil
}

// Stop stops the server, and returns once it has ended.
func (s *Server) Stop() {
	if s.Server != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Servers are some NATS servers with JetStream that sync every write: a cluster, if there are several.
type Servers []*Server

// New starts n servers, with their data below dir, on free ports of this machine. They run until Stop is called.
func New(dir string, n int) (list Servers, err error) {
	var routes []string
	for i := range n {
		o := &server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), SyncAlways: true}
		if n > 1 {
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT}
			o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		}
		s := &Server{Options: o}
		list = append(list, s)
		if err := s.Start(); err != nil {
			list.Stop()
			return nil, err
		}
		if n > 1 {
			routes = append(routes, "nats://"+s.ClusterAddr().String())
		}
	}
	return list, nil
}

// Start starts n servers as New does. They are stopped when the test ends.
func Start(t testing.TB, n int) Servers {
	t.Helper()
	list, err := New(t.TempDir(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(list.Stop) // before the directory is removed
	return list
}

// accounts is a configuration as in examples/cluster: the site's account may ask how JetStream is configured. Who gives no name
// has an account that may not.
const accounts = `
listen: 127.0.0.1:-1
jetstream { store_dir: %q, sync_interval: %s }
accounts {
  SYS { users: [ { user: admin, password: secret } ], exports: [ { service: "$SYS.REQ.SERVER.PING.JSZ", response: stream } ] }
  SITE { jetstream: enabled, users: [ { user: site, password: secret } ], imports: [ { service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } } ] }
  OTHER { jetstream: enabled, users: [ { user: other, password: secret } ] }
}
no_auth_user: other
system_account: SYS
`

// User goes before the address of a server of Syncing: it may ask how JetStream is configured.
const User = "site:secret@"

// Syncing starts a server that syncs its writes after a time, such as "always" or "2m". It is stopped when the test ends.
func Syncing(t testing.TB, after string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	o, err := (*server.Options)(nil), os.WriteFile(file, fmt.Appendf(nil, accounts, t.TempDir(), after), 0o600)
	if err == nil {
		o, err = server.ProcessConfigFile(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.NoLog, o.NoSigs = true, true
	s := &Server{Options: o}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Stop stops all of them.
func (l Servers) Stop() {
	for _, s := range l {
		s.Stop()
	}
}

// URLs returns where clients connect, separated by commas.
func (l Servers) URLs() string {
	var urls []string
	for _, s := range l {
		urls = append(urls, s.ClientURL())
	}
	return strings.Join(urls, ",")
}
