package jetlog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
)

// accounts is a configuration as in examples/cluster: the site's account may ask how JetStream is configured.
const accounts = `
listen: 127.0.0.1:-1
jetstream { store_dir: %q, sync_interval: %s }
accounts {
  SYS { users: [ { user: admin, password: secret } ], exports: [ { service: "$SYS.REQ.SERVER.PING.JSZ", response: stream } ] }
  SITE { jetstream: enabled, users: [ { user: site, password: secret } ], imports: [ { service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } } ] }
}
system_account: SYS
`

// A server that acknowledges changes before they are on its disk is refused, in words that say what to set. What the account may
// not ask is not claimed.
func TestServerThatSyncsLater(t *testing.T) {
	for _, test := range []struct {
		sync          string
		asks, refused bool
	}{{"always", true, false}, {"2m", true, true}, {"2m", false, false}} {
		t.Run(fmt.Sprint(test.sync, test.asks), func(t *testing.T) {
			c := &cluster{TB: t}
			o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir()}
			user := ""
			if test.asks {
				file := filepath.Join(t.TempDir(), "nats.conf")
				c.must(os.WriteFile(file, fmt.Appendf(nil, accounts, t.TempDir(), test.sync), 0o600))
				var err error
				o, err = server.ProcessConfigFile(file)
				c.must(err)
				user = "site:secret@"
			}
			o.NoLog, o.NoSigs = true, true
			s := &natstest.Server{Options: o}
			c.must(s.Start())
			t.Cleanup(s.Stop)
			nc, err := jetlog.Connect("nats://"+user+s.Addr().String(), "")
			c.must(err)
			t.Cleanup(nc.Close)
			c.conn, c.servers = nc, natstest.Servers{s}
			known, err := c.stream().Durable(t.Context())
			if known != test.asks || errors.Is(err, jetlog.ErrUnsafe) != test.refused || !test.refused && err != nil {
				t.Errorf("known %v: %v", known, err)
			}
		})
	}
}

// Before a server answers, errors say so.
func TestNoServer(t *testing.T) {
	nc, err := jetlog.Connect("nats://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := jetlog.Open(t.Context(), nc, jetlog.Options{Name: "site"}); err == nil || !strings.Contains(err.Error(), "no NATS server answers") {
		t.Error(err)
	}
}
