//go:build linux

package anysite

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/http"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// An openedConn is a decrypted TLS connection whose HTTP/2 frames are read along: one connection carries many
// requests, and a goroutine that handles one may start long after the next has arrived.
type openedConn struct {
	net.Conn // the TLS connection; net/http does not see its type, so it uses the bytes as they are
	under    *stampedConn
	came     span // when the bytes read last arrived; guarded by under.mu

	in      []byte // bytes not parsed yet
	begun   bool   // the HTTP/2 preface has arrived
	other   bool   // it is not HTTP/2
	fields  *hpack.Decoder
	method  string // of the request being read
	path    string
	waiting map[string][]span // requests without a handler yet, by method and path; guarded by under.mu
}

func (c *openedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	at := c.under.when(nil)
	c.under.mu.Lock()
	c.came = at
	c.under.mu.Unlock()
	if !c.other {
		c.in = append(c.in, p[:n]...)
		c.understand(at)
	}
	return n, err
}

// understand parses the HTTP/2 frames (RFC 9113, section 4.1) whose last byte arrived at a time.
func (c *openedConn) understand(at span) {
	const preface = http2.ClientPreface
	if !c.begun {
		n := min(len(c.in), len(preface))
		if c.other = string(c.in[:n]) != preface[:n]; c.other || n < len(preface) {
			return
		}
		c.begun, c.in, c.waiting = true, c.in[n:], map[string][]span{}
		c.fields = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
			switch f.Name {
			case ":method":
				c.method = f.Value
			case ":path":
				c.path = f.Value
			}
		})
	}
	for len(c.in) >= 9 {
		n := 9 + int(binary.BigEndian.Uint32(c.in)>>8)
		if len(c.in) < n {
			return
		}
		kind, flags, b := http2.FrameType(c.in[3]), http2.Flags(c.in[4]), c.in[9:n]
		c.in = bytes.Clone(c.in[n:])
		if kind == http2.FrameHeaders {
			if flags.Has(http2.FlagHeadersPadded) && len(b) > int(b[0]) {
				b = b[1 : len(b)-int(b[0])]
			}
			if flags.Has(http2.FlagHeadersPriority) {
				b = b[min(5, len(b)):]
			}
		} else if kind != http2.FrameContinuation {
			continue
		}
		c.fields.Write(b)
		if !flags.Has(http2.FlagHeadersEndHeaders) { // also the flag of a continuation
			continue
		}
		c.fields.Close()
		if key := c.method + " " + c.path; c.path != "" { // else these are trailers
			c.under.mu.Lock()
			c.waiting[key] = append(c.waiting[key], at)
			c.under.mu.Unlock()
		}
		c.method, c.path = "", ""
	}
}

// when returns when a request arrived.
func (c *openedConn) when(r *http.Request) span {
	c.under.mu.Lock()
	defer c.under.mu.Unlock()
	key := r.Method + " " + r.RequestURI
	list := c.waiting[key]
	if len(list) == 0 {
		return c.came
	}
	if c.waiting[key] = list[1:]; len(list) == 1 {
		delete(c.waiting, key)
	}
	return list[0]
}
