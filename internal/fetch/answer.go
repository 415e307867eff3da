package fetch

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// An Answer is what a server said. It is to be closed. One goroutine may use it.
type Answer struct {
	URL      string // that was asked for, after redirects
	Status   int
	Proto    string // such as "HTTP/2.0"
	Header   http.Header
	Length   int64      // of the body, as the header says it; -1 is unknown
	Location string     // where it redirects to, resolved; empty if it does not
	Remote   netip.Addr // at which it was answered; a proxy's, if there is one

	body  io.ReadCloser
	left  int64 // bytes that may be read yet
	cut   bool
	idle  time.Duration
	timer *time.Timer
	cause func(error) error
	end   func()
}

// OK reports whether the status is 200.
func (a *Answer) OK() bool { return a.Status == http.StatusOK }

// Says returns the status and its name, such as "404 Not Found".
func (a *Answer) Says() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)))
}

// Read reads the body, up to MaxBytes of the Client; what it gives then is io.EOF, see Cut.
func (a *Answer) Read(p []byte) (int, error) {
	if a.cut {
		return 0, io.EOF
	}
	// One byte more than may be read tells whether there is more.
	if int64(len(p)) > a.left+1 {
		p = p[:a.left+1]
	}
	if a.timer != nil {
		a.timer.Reset(a.idle)
	}
	n, err := a.body.Read(p)
	a.rest()
	if int64(n) > a.left {
		n, a.cut, err = int(a.left), true, io.EOF
	}
	a.left -= int64(n)
	if err != nil && err != io.EOF {
		err = a.cause(err)
	}
	return n, err
}

// rest stops the timer of what may be idle: who reads may take their time.
func (a *Answer) rest() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Cut reports whether the body was longer than MaxBytes, once it was read to the end.
func (a *Answer) Cut() bool { return a.cut }

// Bytes reads the body to its end.
func (a *Answer) Bytes() ([]byte, error) { return io.ReadAll(a) }

// Close ends the request.
func (a *Answer) Close() error {
	a.rest()
	a.end()
	return a.body.Close()
}
