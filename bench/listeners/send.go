//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

const base = "http://site.example/"

// most bounds the listeners of a side.
const most = 100_000

var limits = doors.Limits{MaxSubscribers: most, PerAddress: most, Heartbeat: protocol.MaxHeartbeat}

// A sender sends changes to the listeners that have connected to its handler.
type sender interface {
	http.Handler
	listeners() int
	change(ctx context.Context, seq uint64) error
}

// send serves one side, and does what the lines of in say.
func send(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	var s sender
	path := "/"
	switch name {
	case "doors":
		return sendShared(ctx, in, out)
	case "parley":
		tmp, err := os.MkdirTemp("", "parley-listeners-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		j, err := journal.Open(filepath.Join(tmp, "journal"), nil)
		if err != nil {
			return err
		}
		defer j.Close()
		if err := j.EndBaseline(); err != nil {
			return err
		}
		p := &parley{journal: j, Notifier: &doors.Notifier{Log: j, Base: base, Limits: limits}}
		defer p.Notifier.Close(ctx)
		s, path = p, "/parley/stream?after="+j.Head().String()
	case "gorilla":
		s = &broadcast{}
	case "write":
		s = &broadcast{bare: true}
	default:
		return fmt.Errorf("no side %q", name)
	}
	ln, err := net.Listen("tcp4", ":0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(ln) })
	defer serving.Wait()
	defer server.Close()
	fmt.Fprintf(out, "%d %s\n", ln.Addr().(*net.TCPAddr).Port, path)
	return obey(ctx, s, in, out)
}

// obey does what the lines of in say.
func obey(ctx context.Context, s sender, in io.Reader, out io.Writer) error {
	seq := uint64(0)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, number, _ := strings.Cut(lines.Text(), " ")
		n := 0
		fmt.Sscan(number, &n)
		switch verb {
		case "cpu":
			fmt.Fprintln(out, int64(cost.Processor()))
		case "memory":
			for end := time.Now().Add(time.Minute); s.listeners() < n; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					return fmt.Errorf("%d listeners of %d", s.listeners(), n)
				}
			}
			memory, err := anonymous()
			if err != nil {
				return err
			}
			fmt.Fprintln(out, memory)
		case "change":
			for range n {
				seq++
				if err := s.change(ctx, seq); err != nil {
					return err
				}
			}
			fmt.Fprintln(out, n)
		}
	}
	return nil
}

// anonymous returns the anonymous memory of this process that is in use.
func anonymous() (int64, error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // stacks that the first has freed
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var kB int64
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, err = fmt.Sscan(rest, &kB)
	return kB << 10, err
}

func changed(seq uint64) protocol.Item {
	return protocol.Item{URL: base + "news/a-page-of-the-site.html", Modified: time.Unix(1_790_000_000+int64(seq), 0).UTC(), Length: 12_345,
		Type: "text/html", Digest: sha256.Sum256(fmt.Append(nil, seq)), Title: "A page of the site"}
}

type parley struct {
	*doors.Notifier
	journal *journal.Journal
}

func (p *parley) listeners() int { return p.Stats().Subscribers }

func (p *parley) change(ctx context.Context, seq uint64) error {
	op := protocol.Update
	if seq == 1 {
		op = protocol.Create
	}
	_, err := p.journal.Append(ctx, []journal.Step{{Op: op, Entry: journal.Entry{Item: changed(seq)}}})
	return err
}

// A broadcast sends one prepared message to all connections.
type broadcast struct {
	bare bool // by write(2), not by gorilla

	mu    sync.Mutex
	conns []*websocket.Conn
	fds   []int
}

func (b *broadcast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}}
	conn, err := u.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	raw, err := conn.NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	b.mu.Lock()
	b.conns = append(b.conns, conn)
	raw.Control(func(fd uintptr) { b.fds = append(b.fds, int(fd)) })
	b.mu.Unlock()
	conn.ReadMessage() // until it is closed
}

func (b *broadcast) listeners() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

func (b *broadcast) change(_ context.Context, seq uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := func(n uint64) protocol.Cursor { return protocol.Cursor{Epoch: "0123456789abcdef", Seq: n} }
	m := protocol.Message{Kind: protocol.Ev, From: at(seq - 1), To: at(seq), Head: at(seq),
		Changes: []protocol.Change{{Seq: seq, Op: protocol.Update, At: time.Now(), Item: changed(seq)}}}
	text := m.Encode()
	if !b.bare {
		prepared, err := websocket.NewPreparedMessage(websocket.TextMessage, text)
		if err != nil {
			return err
		}
		for _, c := range b.conns {
			c.SetWriteDeadline(time.Now().Add(20 * time.Second))
			if err := c.WritePreparedMessage(prepared); err != nil {
				return err
			}
		}
		return nil
	}
	frame := append([]byte{0x81, 126, byte(len(text) >> 8), byte(len(text))}, text...)
	for _, fd := range b.fds {
		if n, err := syscall.Write(fd, frame); err != nil || n < len(frame) {
			return fmt.Errorf("wrote %d of %d bytes: %w", n, len(frame), err)
		}
	}
	return nil
}
