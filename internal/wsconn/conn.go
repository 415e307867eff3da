// Package wsconn is a WebSocket connection with the manners that both sides
// of Parley want: context first, bounded, one reader and one writer, text only.
// It is the only importer of gorilla/websocket, and knows nothing of what it carries.
package wsconn

import (
	"context"
	"net/http"
	"time"
)

// Options of a connection, the same on both sides. Zero values are useful.
type Options struct {
	Subprotocol string        // offered by Dial, required by Accept; empty means none
	MaxMessage  int64         // largest message read, in bytes; 0 means 64 KiB
	WriteWait   time.Duration // longest a write may take; 0 means 10 s
	Handshake   time.Duration // longest the handshake may take; 0 means 10 s
	Ping        time.Duration // interval of pings; a peer silent for two of them is gone; 0 means none
}

// A Conn is one connection. Read and Write may be called at the same time,
// each by one goroutine; Close by any.
type Conn struct{}

// A CloseError is returned by Read when the peer has closed with a code.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string { panic("unwritten") }

// A Prepared is a message framed once and written to many connections.
type Prepared struct{}

func Prepare(text []byte) (*Prepared, error) { panic("unwritten") }

// Accept upgrades a request. On error it has answered the request.
func Accept(w http.ResponseWriter, r *http.Request, o Options) (*Conn, error) { panic("unwritten") }

// Dial opens ws:// or wss:// (http and https are taken for them). When the
// server answers with anything but 101 the error is a *StatusError.
func Dial(ctx context.Context, url string, h http.Header, c *http.Client, o Options) (*Conn, error) {
	panic("unwritten")
}

// A StatusError is a handshake that the server answered with another status.
// Body holds at most its first 64 KiB.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte
}

func (e *StatusError) Error() string { panic("unwritten") }

func (c *Conn) Read(ctx context.Context) ([]byte, error)             { panic("unwritten") }
func (c *Conn) Write(ctx context.Context, text []byte) error         { panic("unwritten") }
func (c *Conn) WritePrepared(ctx context.Context, p *Prepared) error { panic("unwritten") }

// Close says goodbye with a code and closes. It does not wait for the peer.
func (c *Conn) Close(code int, reason string) error { panic("unwritten") }
