package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// Every arm fetches every page; this test does not check the goals.
func TestRun(t *testing.T) {
	machine.Tool(t, "nginx")
	var out strings.Builder
	if err := run(t.Context(), options{pages: 80, rounds: 2, delayed: 1, rtt: 2 * time.Millisecond}, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, ", CPU ") != 12 || strings.Count(text, "\ngoal ") != 16 {
		t.Errorf("it printed:\n%s", text)
	}
}

// Data through the delayer arrives unchanged, and not too early: after a handshake, and at the pace of a
// window that starts small.
func TestDelay(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.ReadFull(c, make([]byte, 1))
		c.Write(sent)
	}()
	const rtt = 20 * time.Millisecond
	d := must.Get(delay(ln.Addr().String(), rtt))
	defer d.close()
	began := time.Now()
	c := must.Get(net.Dial("tcp", d.addr()))
	defer c.Close()
	must.Get(c.Write([]byte{1}))
	got, err := io.ReadAll(c)
	took := time.Since(began)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("received %d bytes, %v", len(got), err)
	}
	// 1 MiB is 72 first windows: seven round trips, and two before them.
	if took < 7*rtt {
		t.Errorf("it took %v", took)
	}
}
