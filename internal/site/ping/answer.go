package ping

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/fetch"
)

const (
	// askTime bounds one request, from the dial to the last byte read.
	askTime = 30 * time.Second

	// askGrace is how long a request in flight may continue after the process is
	// told to end: if its response still arrives, it need not be repeated.
	askGrace = 5 * time.Second

	// maxAnswer bounds the bytes read of a response. It is needed only for the
	// reason of a refusal.
	maxAnswer = 2 << 10

	userAgent = "parley"
)

// An answer is the result of one request.
type answer struct {
	status int // 0: there was no response, see err
	header http.Header
	body   string // as far as it was read
	err    error
}

// ok reports whether the receiver accepted the request.
func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// unclear reports whether the receiver may have accepted the request although
// the response does not say so: the response was lost, by the network or a gateway.
func (a answer) unclear() bool {
	if a.status != 0 {
		return a.status >= 500 && a.status != http.StatusServiceUnavailable && a.status != http.StatusNotImplemented
	}
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	unsent := errors.As(a.err, &op) && op.Op == "dial" || errors.As(a.err, &dns) || errors.As(a.err, &cert) || errors.Is(a.err, fetch.ErrPrivate) || errors.Is(a.err, errEnded)
	return !unsent
}

// String describes the answer for people.
func (a answer) String() string {
	switch {
	case a.status == 0:
		return clip(a.err.Error(), 300)
	case a.status >= 300 && a.status < 400:
		return fmt.Sprintf("%d, a redirect to %s", a.status, clip(a.header.Get("Location"), 200))
	case a.ok() || a.body == "":
		return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
	}
	return fmt.Sprintf("%d: %s", a.status, clip(a.body, 200))
}

// clip makes a single line for people of untrusted text: at most n bytes, and an
// ellipsis if it was cut.
func clip(s string, n int) string {
	cut := len(s) > n
	if cut {
		s = s[:n]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }), " ")
	if cut {
		s += "..."
	}
	return s
}

// errEnded is the error of a request that was not sent because ctx had ended.
var errEnded = errors.New("not sent: the process is stopping")

// graced returns a context that ends askGrace after ctx: what is in flight then may still succeed. The caller
// calls done.
func graced(ctx context.Context) (inner context.Context, done func()) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(askGrace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-inner.Done():
		}
	})
	return inner, func() { stop(); cancel() }
}

// ask sends a request and reads the response, for at most the given time.
// When ctx ends, a request in flight has askGrace to end too.
func ask(ctx context.Context, via http.RoundTripper, req *http.Request, most time.Duration) answer {
	if ctx.Err() != nil {
		return answer{err: errEnded}
	}
	inner, done := graced(ctx)
	defer done()
	c := fetch.Client{Transport: via, Agent: userAgent, Timeout: most, MaxBytes: maxAnswer}
	a, err := c.Do(inner, req)
	if err != nil {
		return answer{err: err}
	}
	defer a.Close()
	b, _ := a.Bytes() // the status is the answer
	return answer{status: a.Status, header: a.Header, body: string(b)}
}

// transport returns the client's Transport, or nil if there is no client.
func transport(c *http.Client) http.RoundTripper {
	if c == nil {
		return nil
	}
	return c.Transport
}

const (
	firstWait   = time.Minute    // after the first failure, doubled with each...
	longestWait = 6 * time.Hour  // up to this
	longestHint = 24 * time.Hour // the longest Retry-After that is honoured
)

// backoff returns how long to wait after n failures in a row. It adds up to a
// quarter, which depends on who waits, so that senders that failed together do
// not retry together.
func backoff(who string, n int) time.Duration {
	d := longestWait
	if n < 10 {
		d = min(firstWait<<max(n-1, 0), longestWait)
	}
	h := fnv.New32a()
	fmt.Fprint(h, who, n)
	return d + time.Duration(float64(d)/4*float64(h.Sum32())/(1<<32))
}

// pause returns how long to wait after a response that refuses everything: its
// Retry-After, or else backoff.
func (a answer) pause(who string, failures int, now time.Time) time.Duration {
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		if d, ok := fetch.RetryAfter(a.header, now, longestHint); ok {
			return max(d, time.Second)
		}
	}
	return backoff(who, failures)
}

// over reports whether the time t, which was set at most `most` ahead, has come.
// A t more than twice as far ahead was set before the clock was put back, and
// counts as come.
func over(t, now time.Time, most time.Duration) bool {
	d := t.Sub(now)
	return d <= 0 || d > 2*most
}
