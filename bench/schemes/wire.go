package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A wire forwards connections to an address and counts the bytes.
type wire struct {
	ln    net.Listener
	bytes atomic.Int64
	conns sync.WaitGroup
}

func newWire() (*wire, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &wire{ln: ln}, nil
}

// serve forwards connections until close.
func (w *wire) serve(to string) {
	for {
		near, err := w.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			near.Close()
			continue
		}
		w.conns.Go(func() { w.copy(near, far) })
		w.conns.Go(func() { w.copy(far, near) })
	}
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	io.Copy(counting{to, &w.bytes}, from)
}

type counting struct {
	w io.Writer
	n *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n.Add(int64(n))
	return n, err
}

func (w *wire) close() { w.ln.Close() }
