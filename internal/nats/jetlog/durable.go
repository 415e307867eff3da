package jetlog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pingJSZ is what a NATS server answers with how its JetStream is configured. Only the system account may ask it, and accounts
// that import it from there.
const pingJSZ = "$SYS.REQ.SERVER.PING.JSZ"

// hearing is how long servers may take to answer it.
const hearing = 2 * time.Second

// Durable asks the servers that store the stream whether they sync every write to disk before they acknowledge it. The error wraps
// ErrUnsafe if one does not. Known is false if not all have answered: this account may not ask them.
func (s *Stream) Durable(ctx context.Context) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := s.open(ctx)
	if err == nil {
		known, err = Durable(ctx, s.nc, stream)
	}
	if err != nil {
		err = s.fail("use", err)
	}
	return known, err
}

// Durable does the same for any stream.
func Durable(ctx context.Context, nc *nats.Conn, stream jetstream.Stream) (known bool, err error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return false, err
	}
	silent := map[string]bool{} // servers that have not answered
	if c := info.Cluster; c != nil && c.Leader != "" {
		silent[c.Leader] = true
		for _, r := range c.Replicas {
			silent[r.Name] = true
		}
	} else {
		silent[nc.ConnectedServerName()] = true
	}
	inbox := nc.NewRespInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return false, err
	}
	defer answers.Unsubscribe()
	if err := nc.PublishRequest(pingJSZ, inbox, nil); err != nil {
		return false, err
	}
	late, stop := context.WithTimeout(ctx, hearing)
	defer stop()
	for len(silent) > 0 {
		m, err := answers.NextMsgWithContext(late)
		if err != nil || m.Header.Get("Status") != "" { // nobody may, or does, answer
			return false, ctx.Err()
		}
		var says struct {
			Server struct{ Name string }
			Data   *struct {
				Config struct {
					SyncAlways bool `json:"sync_always"`
				}
			}
		}
		if json.Unmarshal(m.Data, &says) != nil || says.Data == nil || !silent[says.Server.Name] {
			continue
		}
		if !says.Data.Config.SyncAlways {
			return true, fmt.Errorf("%w: server %s acknowledges changes up to two minutes before they are on its disk, so that a power failure may "+
				"take back what crawlers were told; set sync_interval: always in the jetstream block of its configuration, and restart it", ErrUnsafe, says.Server.Name)
		}
		delete(silent, says.Server.Name)
	}
	return true, nil
}

// Options of a connection.
const (
	reconnectWait = 500 * time.Millisecond
	pingEvery     = time.Second // after two of them without an answer, and a third one, a connection to a stopped server is given up
)

// Connect connects to NATS: servers are URLs, separated by commas, with a user and a password or a token if need be, and
// tls:// for TLS. Credentials is a file of them, as nsc writes it; empty means none. The connection may come later: it is tried,
// and tried again whenever it is lost, until it is closed.
func Connect(servers, credentials string) (*nats.Conn, error) {
	options := []nats.Option{nats.Name("parley"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingEvery), nats.Timeout(patience), nats.ReconnectBufSize(-1)}
	if credentials != "" {
		options = append(options, nats.UserCredentials(credentials))
	}
	return nats.Connect(servers, options...)
}
