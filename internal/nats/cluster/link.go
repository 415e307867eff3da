package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/pause"
)

// A link is one end of a connection over NATS, which carries bytes both ways as messages. Of the messages of each end at most window are on their way, so
// that no reader is overrun. A message that is lost ends the link, and so does silence: an end that has nothing to send says so from time to time.
//
// A message is its kind, of data and of the last message the number, and the data.
type link struct {
	nc    *nats.Conn
	to    string   // the subject of the other end
	inner net.Conn // one end of a pipe, whose other end the user has
	from  *nats.Subscription
	came  chan []byte   // for the user; closed by the last message
	room  chan struct{} // for messages on their way
	began time.Time
	heard atomic.Int64 // when a message came last, since began
	lost  atomic.Bool  // the other end is silent, or a message was lost
	ended context.Context
	end   context.CancelFunc
}

// Kinds of messages.
const (
	linkData  = 'd'
	linkRead  = 'r' // a message of data has been read
	linkAlive = 'a'
	linkLast  = 'l'
)

const (
	window    = 16
	mostData  = 32 << 10
	aliveTime = 4 * time.Second // between two messages
	quietTime = 4 * aliveTime
)

// errQuiet is what the user of a link reads.
var errQuiet = errors.New("it has stopped to answer, or NATS has lost a message")

// newLink returns the connection that the user of a link has. The other end of the link has to be set before it runs. It ends with ctx at the latest.
func newLink(ctx context.Context, nc *nats.Conn) (*linked, error) {
	l := &link{nc: nc, came: make(chan []byte, window), room: make(chan struct{}, window), began: time.Now()}
	for range window {
		l.room <- struct{}{}
	}
	l.ended, l.end = context.WithCancel(ctx)
	var outer net.Conn
	outer, l.inner = net.Pipe()
	next, over := uint32(0), false
	var err error
	l.from, err = nc.Subscribe(nc.NewInbox(), func(m *nats.Msg) {
		l.heard.Store(int64(time.Since(l.began)))
		switch data := m.Data; {
		case len(data) == 1 && data[0] == linkRead:
			select {
			case l.room <- struct{}{}:
			default:
			}
		case len(data) < 5 || over || l.ended.Err() != nil:
		case binary.BigEndian.Uint32(data[1:]) != next || data[0] == linkData && len(l.came) == window:
			l.breakOff()
		case data[0] == linkData:
			l.came <- data[5:]
			next++
		case data[0] == linkLast:
			close(l.came)
			over = true
		}
	})
	if err != nil {
		return nil, err
	}
	return &linked{outer, l}, nil
}

func (l *link) breakOff() {
	l.lost.Store(true)
	l.end()
}

// run carries bytes until either end closes.
func (l *link) run() {
	defer l.from.Unsubscribe()
	defer context.AfterFunc(l.ended, func() { l.inner.Close() })()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer l.end()
	beside.Go(l.receive)
	beside.Go(func() {
		for pause.For(l.ended, aliveTime) {
			if time.Since(l.began)-time.Duration(l.heard.Load()) > quietTime || l.send(linkAlive) != nil {
				l.breakOff()
			}
		}
	})
	b := make([]byte, 5+mostData)
	for number := uint32(0); ; number++ {
		n, err := l.inner.Read(b[5:])
		binary.BigEndian.PutUint32(b[1:], number)
		if err != nil {
			b[0] = linkLast
			l.send(b[:5]...)
			return
		}
		select {
		case <-l.ended.Done():
			return
		case <-l.room:
		}
		if b[0] = linkData; l.send(b[:5+n]...) != nil {
			l.breakOff()
			return
		}
	}
}

func (l *link) send(message ...byte) error { return l.nc.Publish(l.to, message) }

// receive gives the user what comes, and closes the pipe after the last of it.
func (l *link) receive() {
	for {
		select {
		case <-l.ended.Done():
			return
		case data, more := <-l.came:
			if !more {
				l.inner.Close()
				return
			} else if _, err := l.inner.Write(data); err != nil {
				return
			}
			l.send(linkRead)
		}
	}
}

// A linked is the connection that the user of a link has.
type linked struct {
	net.Conn
	*link
}

func (c *linked) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.lost.Load() {
		err = errQuiet
	}
	return n, err
}

// A dialed is the connection of the one who has made it, who waits for the link when closing it.
type dialed struct {
	net.Conn
	link    *link
	running sync.WaitGroup
}

func (c *dialed) Close() error {
	defer c.running.Wait()
	defer c.link.end()
	return c.Conn.Close()
}
