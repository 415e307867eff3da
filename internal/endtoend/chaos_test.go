package endtoend

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// A chaos is a proxy between crawlers and a web server: it cuts connections in the middle of a transfer, and
// drops single messages from streams, as a broken middlebox would.
type chaos struct {
	ln    net.Listener
	to    string
	wg    sync.WaitGroup
	calm  atomic.Bool // forwards everything
	cuts  atomic.Int64
	drops atomic.Int64

	mu   sync.Mutex // guards rnd and open
	rnd  *rand.Rand
	open map[net.Conn]bool
}

// newChaos listens on a loopback address until the test ends, and forwards to another.
func newChaos(t *testing.T, to string, seed uint64) *chaos {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	c := &chaos{ln: ln, to: to, rnd: rand.New(rand.NewPCG(seed, 99)), open: map[net.Conn]bool{}}
	c.calm.Store(true)
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		ln.Close()
		c.mu.Lock()
		for conn := range c.open {
			conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *chaos) base() string { return "http://" + c.ln.Addr().String() + "/" }

func (c *chaos) accept() {
	for {
		near, err := c.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to)
		if err != nil {
			near.Close()
			continue
		}
		c.mu.Lock()
		c.open[near], c.open[far] = true, true
		c.mu.Unlock()
		c.wg.Go(func() { io.Copy(far, near); c.end(near, far) })
		c.wg.Go(func() { c.hand(near, far); c.end(near, far) })
	}
}

func (c *chaos) end(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(c.open, conn)
	}
}

// chance is true k times in n, unless calm is set.
func (c *chaos) chance(k, n int) bool {
	if c.calm.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.IntN(n) < k
}

var errCut = errors.New("cut")

// bytesUncut is the average number of bytes forwarded between two cuts. It counts bytes and not reads: the
// largest page of the test comes through in nine of ten tries, however small the pieces it comes in.
const bytesUncut = 4 << 20

// hand forwards the web server's response.
func (c *chaos) hand(near io.Writer, far io.Reader) error {
	r := bufio.NewReaderSize(far, 64<<10)
	if first, err := r.Peek(len("HTTP/1.1 101")); err == nil && string(first) == "HTTP/1.1 101" {
		return c.stream(near, r)
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		if c.chance(n, bytesUncut) {
			c.cuts.Add(1)
			near.Write(buf[:n/2])
			return errCut
		}
		if _, e := near.Write(buf[:n]); e != nil || err != nil {
			return errors.Join(e, err)
		}
	}
}

// stream forwards a WebSocket, frame by frame (RFC 6455, 5.2).
func (c *chaos) stream(near io.Writer, r *bufio.Reader) error {
	for { // the response to the handshake
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if _, err := io.WriteString(near, line); err != nil {
			return err
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	for first := true; ; first = false {
		head, err := r.Peek(2)
		if err != nil {
			return err
		}
		size, n := 2, int64(head[1]&0x7f)
		switch n {
		case 126:
			size = 4
		case 127:
			size = 10
		}
		if head, err = r.Peek(size); err != nil {
			return err
		}
		switch size {
		case 4:
			n = int64(binary.BigEndian.Uint16(head[2:]))
		case 10:
			n = int64(binary.BigEndian.Uint64(head[2:]))
		}
		data := head[0]&0x0f <= 2
		all := io.LimitReader(r, int64(size)+n)
		switch {
		case data && !first && c.chance(1, 6):
			c.drops.Add(1)
			_, err = io.Copy(io.Discard, all)
		case data && c.chance(1, 25):
			c.cuts.Add(1)
			io.CopyN(near, all, (int64(size)+n)/2)
			return errCut
		default:
			_, err = io.Copy(near, all)
		}
		if err != nil {
			return err
		}
	}
}
