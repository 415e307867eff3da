package jetlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
)

// A server that acknowledges changes before they are on its disk is refused, in words that say what to set. What the account may
// not ask is not claimed.
func TestServerThatSyncsLater(t *testing.T) {
	for _, test := range []struct {
		sync          string
		asks, refused bool
	}{{"always", true, false}, {"2m", true, true}, {"2m", false, false}} {
		t.Run(fmt.Sprint(test.sync, test.asks), func(t *testing.T) {
			c := &cluster{TB: t}
			c.servers = natstest.Servers{natstest.Syncing(t, test.sync)}
			user := ""
			if test.asks {
				user = natstest.User
			}
			nc, err := jetlog.Connect("nats://"+user+c.servers[0].Addr().String(), "")
			c.must(err)
			t.Cleanup(nc.Close)
			c.conn = nc
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
