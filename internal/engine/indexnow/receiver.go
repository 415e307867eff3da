package indexnow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
)

const (
	maxURLs     = 10_000          // in a notice, by the protocol
	maxBody     = 8 << 20         // bytes of a notice
	maxAtOnce   = 256             // notices being read at once,
	maxOfOne    = 4               // from one address,
	maxReading  = 64 << 20        // and bytes of all of them
	bodyTime    = 5 * time.Second // for a notice to arrive, and
	bodyRate    = 64 << 10        // bytes for which it gets another second
	maxHosts    = 10_000          // hosts and keys that are cached
	urlBurst    = 20_000          // URLs of a host at once
	urlsPerHour = 10_000          // and after that
)

// A Receiver receives notices. Accept and Transport are required. Its methods may be called by many
// goroutines at once; Run must be running for notices to be accepted.
type Receiver struct {
	// Accept stores changed URLs of one host, canonical and each once. When it returns nil they are durable.
	// It may be called by many goroutines at once.
	Accept func(ctx context.Context, urls []string) error

	// Transport returns the transport for an origin such as "https://example.org", by which the file of a key
	// is fetched.
	Transport func(origin string) http.RoundTripper

	// Wanted reports whether the crawler wants notices of a host, such as "example.org" or
	// "example.org:8080". Nil means any.
	Wanted func(host string) bool

	// UserAgent is sent with the requests for keys; empty leaves it to the Transport.
	UserAgent string

	Log *slog.Logger     // nil is silent
	Now func() time.Time // nil means time.Now

	arriving arrivals
	keys     keys

	mu     sync.Mutex             // guards the fields below
	urls   cache[string, *bucket] // limits of URLs, by host
	counts counts
}

// counts has the outcomes of notices since the start. Notices = Accepted + Pending + Refused; Late are those
// of Pending that were accepted later.
type counts struct {
	Notices, Accepted, Pending, Refused, Late int64
	URLs                                      int64 // handed to Accept
	Looks                                     int64 // requests for keys
}

// Running reports whether Run has begun and not ended: then notices are accepted.
func (r *Receiver) Running() bool {
	r.keys.mu.Lock()
	defer r.keys.mu.Unlock()
	return r.keys.queue != nil
}

func (r *Receiver) now() time.Time { return clock.Now(r.Now) }

// count adds to the counts.
func (r *Receiver) count(add func(c *counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.counts)
}

func (r *Receiver) log() *slog.Logger { return cmp.Or(r.Log, slog.New(slog.DiscardHandler)) }

// A refusal is a response other than 200.
type refusal struct {
	status int
	why    string
	again  time.Duration // Retry-After
}

func (e *refusal) Error() string { return e.why }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, why: fmt.Sprintf(format, args...)}
}

// ServeHTTP receives a notice, by GET of one URL or POST of many.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status, why := http.StatusOK, "accepted"
	var no *refusal
	if err := r.take(w, req); errors.As(err, &no) {
		status, why = no.status, no.why
		if no.again > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((no.again+time.Second-1)/time.Second)))
		}
	} else if err != nil {
		if req.Context().Err() == nil { // otherwise the client has gone
			r.log().Error("indexnow: a notice could not be stored", "err", err)
		}
		status, why = http.StatusServiceUnavailable, "the notice cannot be stored now: try again later"
		w.Header().Set("Retry-After", "60")
	}
	r.count(func(c *counts) {
		c.Notices++
		switch status {
		case http.StatusOK:
			c.Accepted++
		case http.StatusAccepted:
			c.Pending++
		default:
			c.Refused++
		}
	})
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, POST")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, why+"\n")
}

// take processes a notice. Its error is a *refusal, or that of Accept.
func (r *Receiver) take(w http.ResponseWriter, req *http.Request) error {
	n, err := r.read(w, req)
	if err != nil {
		return err
	}
	if r.Wanted != nil && !r.Wanted(n.host) {
		return refuse(http.StatusUnprocessableEntity, "%s is not crawled here", n.host)
	}
	late, err := r.keys.prove(req.Context(), n, r.now)
	if err != nil {
		return err
	}
	if late {
		return refuse(http.StatusAccepted, "accepted; the key is not verified yet")
	}
	// Only now, so that no client can exhaust the limit of another's host.
	if wait := r.charge(n.host, len(n.urls)); wait > 0 {
		return &refusal{http.StatusTooManyRequests, "too many URLs of this host", wait}
	}
	return r.hand(req.Context(), n.urls)
}

// hand passes URLs to Accept.
func (r *Receiver) hand(ctx context.Context, urls []string) error {
	if err := r.Accept(ctx, urls); err != nil {
		return err
	}
	r.count(func(c *counts) { c.URLs += int64(len(urls)) })
	return nil
}

// charge deducts n URLs from the limit of a host, or returns how long to wait.
func (r *Receiver) charge(host string, n int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bucketOf(&r.urls, host).take(n, urlBurst, urlsPerHour, r.now())
}

// A notice is a request, with everything canonical.
type notice struct {
	keyClaim
	host  string
	scope string // host and directory for which the key is valid, without scheme
	urls  []string
}

// read reads a notice and makes all checks that need no request.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request) (notice, error) {
	var said struct {
		Host        string   `json:"host"`
		Key         string   `json:"key"`
		KeyLocation string   `json:"keyLocation"`
		URLList     []string `json:"urlList"`
	}
	switch req.Method {
	case http.MethodGet:
		q := req.URL.Query()
		said.Key, said.KeyLocation = q.Get("key"), q.Get("keyLocation")
		if u := q.Get("url"); u != "" {
			said.URLList = []string{u}
		}
	case http.MethodPost:
		body, end := r.arriving.begin(w, req)
		if body == nil {
			return notice{}, busy
		}
		defer end()
		d := json.NewDecoder(body)
		err := d.Decode(&said)
		if err == nil {
			if _, more := d.Token(); more != io.EOF {
				err = errors.New("data after the notice")
			}
		}
		if tooBig := new(http.MaxBytesError); errors.As(err, &tooBig) {
			return notice{}, refuse(http.StatusRequestEntityTooLarge, "more than %d bytes", maxBody)
		} else if errors.Is(err, busy) {
			return notice{}, busy
		} else if err != nil {
			return notice{}, refuse(http.StatusBadRequest, "not a notice in JSON: %.200s", err)
		}
	default:
		return notice{}, refuse(http.StatusMethodNotAllowed, "use GET or POST")
	}
	switch {
	case len(said.URLList) == 0:
		return notice{}, refuse(http.StatusBadRequest, "no URL")
	case len(said.URLList) > maxURLs:
		return notice{}, refuse(http.StatusRequestEntityTooLarge, "more than %d URLs", maxURLs)
	case said.Key == "":
		return notice{}, refuse(http.StatusBadRequest, "no key")
	case !validKey(said.Key):
		return notice{}, refuse(http.StatusUnprocessableEntity, "a key is 8 to 128 letters, digits and dashes")
	}
	return understand(said.Host, said.Key, said.KeyLocation, said.URLList)
}

// understand canonicalizes and checks the fields of a notice.
func understand(host, key, location string, urls []string) (notice, error) {
	n := notice{keyClaim: keyClaim{key: key}}
	seen := make(map[string]bool, len(urls))
	for i, u := range urls {
		c, err := protocol.CanonicalURL("", u)
		if err != nil {
			return n, refuse(http.StatusUnprocessableEntity, "%v", err)
		}
		if i == 0 {
			n.host = hostOf(c)
			if host != "" && !sameHost(n.host, host) {
				return n, refuse(http.StatusUnprocessableEntity, "%.200q is not a URL of %.200q", u, host)
			}
			n.location = protocol.Origin(c) + "/" + key + ".txt"
			if location != "" {
				if n.location, err = protocol.CanonicalURL("", location); err != nil {
					return n, refuse(http.StatusUnprocessableEntity, "key location: %v", err)
				}
				if hostOf(n.location) != n.host {
					return n, refuse(http.StatusUnprocessableEntity, "the key location is not on %s", n.host)
				}
			}
			path, _, _ := strings.Cut(afterScheme(n.location), "?")
			n.scope = path[:strings.LastIndexByte(path, '/')+1]
		}
		if !strings.HasPrefix(afterScheme(c), n.scope) {
			return n, refuse(http.StatusUnprocessableEntity, "%.200q is not below %.200s, the directory of the key", u, n.scope)
		}
		if !seen[c] {
			seen[c] = true
			n.urls = append(n.urls, c)
		}
	}
	return n, nil
}

func afterScheme(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	return rest
}

// hostOf returns the host, with its port, of a canonical URL.
func hostOf(url string) string { return afterScheme(protocol.Origin(url)) }

// sameHost reports whether a host, in any spelling, is that of a canonical URL.
func sameHost(canonical, said string) bool {
	for _, scheme := range []string{"https://", "http://"} {
		if u, err := protocol.CanonicalURL("", scheme+said+"/"); err == nil && afterScheme(u) == canonical+"/" {
			return true
		}
	}
	return false
}

// validKey reports whether s may be a key: 8 to 128 letters, digits and dashes.
func validKey(s string) bool {
	return len(s) >= 8 && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
