package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/engine/partition"
)

// A Crawl is a crawl as others see it that take no part in it.
type Crawl struct {
	Name       string
	Partitions int
	id         string
	nc         *nats.Conn
}

// Find returns a crawl that NATS has.
func Find(ctx context.Context, nc *nats.Conn, name string) (*Crawl, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	is, err := find(ctx, nc, name)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrInvalidBucketName):
		return nil, fmt.Errorf("NATS has no crawl %q", name)
	case err != nil:
		return nil, fmt.Errorf("find crawl %q: %w", name, plain(err))
	}
	return &Crawl{name, is.Partitions, is.ID, nc}, nil
}

func find(ctx context.Context, nc *nats.Conn, name string) (is settings, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return is, err
	}
	kv, err := js.KeyValue(ctx, bucketName(name))
	if err != nil {
		return is, err
	}
	e, err := kv.Get(ctx, crawlKey)
	if err == nil {
		err = json.Unmarshal(e.Value(), &is)
	}
	return is, err
}

// Of returns the partition that has the host of a URL.
func (c *Crawl) Of(url string) int {
	return max(1, partition.Partition{Of: c.Partitions}.Foreign(url))
}

// ErrNobody is returned by Dial if no node has a partition, or the one that has it does not answer.
var ErrNobody = errors.New("no machine answers for it")

// Dial connects to the API of the node that has a partition.
func (c *Crawl) Dial(ctx context.Context, number int) (net.Conn, error) {
	l, err := newLink(context.WithoutCancel(ctx), c.nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, askSubject(c.Name, number), []byte(l.from.Subject))
	if err != nil {
		l.from.Unsubscribe()
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) {
			err = ErrNobody
		}
		return nil, plain(err)
	}
	l.to = string(m.Data)
	conn := &dialed{Conn: l, link: l.link}
	conn.running.Go(l.run)
	return conn, nil
}

// Listen returns a listener for connections of Crawl.Dial, which end when the engine has. They are accepted as long as the node may send requests.
func (p *Part) Listen() (net.Listener, error) {
	n := p.is.n
	x := &listener{p: p, accepted: make(chan *linked), closed: make(chan struct{})}
	var err error
	x.asked, err = n.Conn.QueueSubscribe(askSubject(n.Crawl, p.Number), "node", func(m *nats.Msg) {
		if time.Now().After(p.Ends()) {
			return
		}
		l, err := newLink(p.links, n.Conn)
		if err != nil {
			return
		}
		l.to = string(m.Data)
		select {
		case x.accepted <- l:
			m.Respond([]byte(l.from.Subject))
		case <-x.closed:
			l.from.Unsubscribe()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for partition %d: %w", p.Number, err)
	}
	return x, nil
}

// A listener implements net.Listener.
type listener struct {
	p        *Part
	asked    *nats.Subscription
	accepted chan *linked
	once     sync.Once
	closed   chan struct{}
}

func (x *listener) Accept() (net.Conn, error) {
	select {
	case c := <-x.accepted:
		x.p.linked.Go(c.run)
		return c, nil
	case <-x.closed:
		return nil, net.ErrClosed
	}
}

func (x *listener) Close() error {
	x.once.Do(func() {
		x.asked.Unsubscribe()
		close(x.closed)
	})
	return nil
}

func (x *listener) Addr() net.Addr { return address(x.asked.Subject) }

// An address is a subject of NATS.
type address string

func (a address) Network() string { return "nats" }
func (a address) String() string  { return string(a) }

func bucketName(crawl string) string { return "parley-crawl-" + crawl }

func askSubject(crawl string, number int) string {
	return fmt.Sprintf("%s-ask.%d", bucketName(crawl), number)
}
