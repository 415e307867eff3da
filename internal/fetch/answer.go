package fetch

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
)

// An Answer is a server's response. The caller must close it. It is not safe for concurrent use.
type Answer struct {
	URL      string // that was requested, after redirects
	Status   int
	Proto    string // such as "HTTP/2.0"
	Header   http.Header
	Length   int64      // Content-Length; -1 if unknown
	Location string     // target of a redirect, resolved; empty if it is none
	Remote   netip.Addr // address of the peer; a proxy's, if there is one
	Received int64      // bytes of the body that Read has returned

	body  io.ReadCloser
	most  int64 // bytes that Read may return
	cut   bool
	limit deadline
}

// OK reports whether the status is 200.
func (a *Answer) OK() bool { return a.Status == http.StatusOK }

// Says returns the status and its name, such as "404 Not Found".
func (a *Answer) Says() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)))
}

// Read reads the body, up to MaxBytes of the Client, and then returns io.EOF; see Cut.
func (a *Answer) Read(p []byte) (int, error) {
	if a.cut {
		return 0, io.EOF
	}
	left := a.most - a.Received
	// One byte beyond the limit shows whether the body is longer.
	p = p[:min(int64(len(p)), left+1)]
	a.limit.timer.Reset(a.limit.idle)
	n, err := a.body.Read(p)
	a.limit.timer.Stop() // the caller may take its time between reads
	if int64(n) > left {
		n, a.cut, err = int(left), true, io.EOF
	}
	a.Received += int64(n)
	if err != nil && err != io.EOF {
		err = a.limit.cause(err)
	}
	return n, err
}

// Cut reports whether the body was longer than MaxBytes, once it was read to the end.
func (a *Answer) Cut() bool { return a.cut }

// Bytes reads the body to its end.
func (a *Answer) Bytes() ([]byte, error) { return io.ReadAll(a) }

// Close ends the request.
func (a *Answer) Close() error {
	a.limit.end()
	return a.body.Close()
}
