package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// A delayer is a proxy that simulates a network with a round-trip time and unlimited bandwidth. A connection
// takes one round trip to establish, and then starts slowly (RFC 5681 with the initial window of RFC 6928):
// at most ten segments are in flight, and two more for each that arrived.
type delayer struct {
	ln   net.Listener
	to   string
	half time.Duration
	wait sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

const firstWindow = 10 * 1460 // bytes

func delay(to string, rtt time.Duration) (*delayer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayer{ln: ln, to: to, half: rtt / 2}
	d.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d.wait.Go(func() { d.carry(c) })
		}
	})
	return d, nil
}

func (d *delayer) addr() string { return d.ln.Addr().String() }

func (d *delayer) close() {
	d.ln.Close()
	d.mu.Lock()
	for _, c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.wait.Wait()
}

func (d *delayer) carry(c net.Conn) {
	defer c.Close()
	time.Sleep(2 * d.half) // the handshake
	up, err := net.Dial("tcp", d.to)
	if err != nil {
		return
	}
	defer up.Close()
	d.mu.Lock()
	d.conns = append(d.conns, c, up)
	d.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { d.one(up, c) })
	both.Go(func() { d.one(c, up) })
	both.Wait()
}

// A piece is data in flight.
type piece struct {
	b    []byte
	due  time.Time // when it arrives
	last bool
}

// one carries one direction.
func (d *delayer) one(dst, src net.Conn) {
	way := make(chan piece, 1<<16)
	window := &window{room: firstWindow}
	window.free.L = &window.mu
	var arriving sync.WaitGroup
	arriving.Go(func() {
		for p := range way {
			time.Sleep(time.Until(p.due))
			if p.last {
				if t, ok := dst.(*net.TCPConn); ok {
					t.CloseWrite()
				}
				continue
			}
			if _, err := dst.Write(p.b); err != nil {
				src.Close()
			}
			// The sender gets the acknowledgement half a round trip later.
			time.AfterFunc(d.half, func() { window.add(2 * len(p.b)) })
		}
	})
	for {
		b := make([]byte, min(window.take(), 64<<10))
		n, err := src.Read(b)
		window.add(-n)
		if n > 0 {
			way <- piece{b: b[:n], due: time.Now().Add(d.half)}
		}
		if err != nil {
			if err == io.EOF {
				way <- piece{due: time.Now().Add(d.half), last: true}
			} else {
				dst.Close()
			}
			break
		}
	}
	close(way)
	arriving.Wait()
}

// A window limits how many bytes may be in flight.
type window struct {
	mu   sync.Mutex
	free sync.Cond
	room int
}

const largestWindow = 16 << 20

// take waits until something may be sent, and returns how much.
func (w *window) take() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.room <= 0 {
		w.free.Wait()
	}
	return w.room
}

func (w *window) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room = min(w.room+n, largestWindow)
	w.free.Signal()
}
