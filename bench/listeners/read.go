//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A crowd is the listeners of one side.
type crowd struct {
	ports   []string // of the doors, which have the listeners in turn
	path    string
	latest  []atomic.Uint64 // by listener: the number of the last change that it has
	reading sync.WaitGroup
}

// read connects n listeners to a port and path, and does what the lines of in say.
func read(ctx context.Context, where, count string, in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ports, path, _ := strings.Cut(where, " ")
	c := &crowd{ports: strings.Split(ports, ","), path: path, latest: make([]atomic.Uint64, n)}
	defer c.reading.Wait()
	defer cancel()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, number, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "connect":
			for i := range n {
				if err := c.connect(ctx, i); err != nil {
					return fmt.Errorf("listener %d: %w", i, err)
				}
			}
		case "wait":
			seq, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				return err
			}
			for i := range c.latest {
				for end := time.Now().Add(5 * time.Minute); c.latest[i].Load() < seq; time.Sleep(200 * time.Microsecond) {
					if time.Now().After(end) {
						return fmt.Errorf("listener %d has change %d, not %d", i, c.latest[i].Load(), seq)
					}
				}
			}
		}
		fmt.Fprintln(out, n)
	}
	return nil
}

func (c *crowd) connect(ctx context.Context, i int) error {
	// Between two addresses there are fewer than 2^16 connections to one port.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.%d:%s", 1+i/20_000, c.ports[i%len(c.ports)]))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: site.example\r\nUser-Agent: Listener/1.0 (+https://crawler.example/about)\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n", c.path, protocol.Subprotocol)
	r := bufio.NewReaderSize(conn, 2048)
	resp, err := http.ReadResponse(r, nil)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("answered %s", resp.Status)
	}
	if err != nil {
		stop()
		conn.Close()
		return err
	}
	c.reading.Go(func() {
		defer conn.Close()
		defer stop()
		c.listen(r, &c.latest[i])
	})
	return nil
}

// listen reads frames, which servers do not mask, and stores the number in their cursor "to".
func (c *crowd) listen(r *bufio.Reader, latest *atomic.Uint64) {
	var text []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return
		}
		size := int(head[1])
		switch size {
		case 126:
			io.ReadFull(r, head[:2])
			size = int(head[0])<<8 | int(head[1])
		case 127:
			io.ReadFull(r, head[:])
			io.ReadFull(r, head[:])
			size = int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		}
		if cap(text) < size {
			text = make([]byte, size)
		}
		text = text[:size]
		if _, err := io.ReadFull(r, text); err != nil {
			return
		}
		_, to, ok := bytes.Cut(text, []byte(`"to":"`))
		cursor, _, found := bytes.Cut(to, []byte(`"`))
		if at, err := protocol.ParseCursor(string(cursor)); ok && found && err == nil {
			latest.Store(at.Seq)
		}
	}
}
