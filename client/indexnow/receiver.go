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
	maxAtOnce   = 256             // notices that are read at once,
	maxOfOne    = 4               // from one address,
	maxReading  = 64 << 20        // and bytes of them
	bodyTime    = 5 * time.Second // until a notice has come, and
	bodyRate    = 64 << 10        // bytes that it may have another second for
	maxHosts    = 10_000          // hosts and keys that are remembered
	urlBurst    = 20_000          // URLs of a host at once
	urlsPerHour = 10_000          // and after that
)

// A Receiver takes notices. Accept and Transport are needed. Its methods may
// be called by many goroutines at once; Run must be running for notices to be taken.
type Receiver struct {
	// Accept stores URLs of one host, canonical and each once, as told to have
	// changed. When it returns nil they are durable. It may be called by many
	// goroutines at once.
	Accept func(ctx context.Context, urls []string) error

	// Transport gives the way to an origin such as "https://example.org", by
	// which the file of a key is asked for.
	Transport func(origin string) http.RoundTripper

	// Wanted says whether a host, such as "example.org" or "example.org:8080",
	// is one that the crawler wants to hear of. Nil means any.
	Wanted func(host string) bool

	// UserAgent is sent with the requests for keys; empty leaves it to the Transport.
	UserAgent string

	Log *slog.Logger     // nil is silent
	Now func() time.Time // nil means time.Now

	once  sync.Once
	queue chan *check

	mu      sync.Mutex
	running bool
	reading int              // notices that are read
	of      map[string]int   // of them, by address
	bytes   int              // of them that have come
	checks  map[proof]*check // that are being looked at
	waiting int              // URLs in their left
	good    cache[proof, time.Time]
	bad     cache[proof, time.Time]
	hosts   cache[string, *account]
	fresh   bucket // looks at keys, of all hosts
	again   []*check
	counts  counts
}

// counts says what became of notices since the start. Notices =
// Accepted + Pending + Refused; Late are those of Pending that were accepted later.
type counts struct {
	Notices, Accepted, Pending, Refused, Late int64
	URLs                                      int64 // handed to Accept
	Looks                                     int64 // requests for keys
}

// Running reports whether Run has begun, and not ended: notices are taken.
func (r *Receiver) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// An account is what a host did lately.
type account struct {
	urls  bucket
	fails bucket // keys that it did not have
}

func (r *Receiver) init() {
	r.once.Do(func() {
		r.queue = make(chan *check, maxChecks)
		r.checks, r.of = make(map[proof]*check), make(map[string]int)
	})
}

func (r *Receiver) now() time.Time { return clock.Now(r.Now) }

func (r *Receiver) log() *slog.Logger { return cmp.Or(r.Log, slog.New(slog.DiscardHandler)) }

// A refusal is an answer that is not 200.
type refusal struct {
	status int
	why    string
	again  time.Duration // Retry-After
}

func (e *refusal) Error() string { return e.why }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, why: fmt.Sprintf(format, args...)}
}

// ServeHTTP takes a notice, by GET of one URL or POST of many.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.init()
	status, why := http.StatusOK, "taken"
	var no *refusal
	if err := r.take(w, req); errors.As(err, &no) {
		status, why = no.status, no.why
		if no.again > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((no.again+time.Second-1)/time.Second)))
		}
	} else if err != nil {
		if req.Context().Err() == nil { // else whoever sent it has gone
			r.log().Error("indexnow: a notice could not be stored", "err", err)
		}
		status, why = http.StatusServiceUnavailable, "it cannot be stored now"
		w.Header().Set("Retry-After", "60")
	}
	r.mu.Lock()
	r.counts.Notices++
	switch status {
	case http.StatusOK:
		r.counts.Accepted++
	case http.StatusAccepted:
		r.counts.Pending++
	default:
		r.counts.Refused++
	}
	r.mu.Unlock()
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, POST")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, why+"\n")
}

// take takes a notice in. Its error is a *refusal, or what Accept says.
func (r *Receiver) take(w http.ResponseWriter, req *http.Request) error {
	n, err := r.read(w, req)
	if err != nil {
		return err
	}
	if r.Wanted != nil && !r.Wanted(n.host) {
		return refuse(http.StatusUnprocessableEntity, "%s is not crawled here", n.host)
	}
	late, err := r.prove(req.Context(), n)
	if err != nil {
		return err
	}
	if late {
		return refuse(http.StatusAccepted, "taken; the key is yet to be looked at")
	}
	if err := r.charge(n); err != nil {
		return err
	}
	return r.hand(req.Context(), n.urls)
}

// hand gives URLs to Accept.
func (r *Receiver) hand(ctx context.Context, urls []string) error {
	if err := r.Accept(ctx, urls); err != nil {
		return err
	}
	r.mu.Lock()
	r.counts.URLs += int64(len(urls))
	r.mu.Unlock()
	return nil
}

// charge takes a proved notice's URLs from what its host may say. It is done
// after the proof, so that nobody can silence another.
func (r *Receiver) charge(n notice) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := r.account(n.host).urls.take(len(n.urls), urlBurst, urlsPerHour, r.now())
	if wait > 0 {
		return &refusal{http.StatusTooManyRequests, "too many URLs of this host", wait}
	}
	return nil
}

func (r *Receiver) account(host string) *account {
	a, ok := r.hosts.get(host)
	if !ok {
		a = new(account)
		r.hosts.put(host, a)
	}
	return a
}

// A notice is what somebody says, with everything canonical.
type notice struct {
	proof
	host  string
	scope string // host and directory that the key speaks for, without scheme
	urls  []string
}

// read reads a notice and checks all that can be checked without asking anybody.
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
		body, end := r.arriving(w, req)
		if body == nil {
			return notice{}, busy
		}
		defer end()
		d := json.NewDecoder(body)
		err := d.Decode(&said)
		if err == nil {
			if _, more := d.Token(); more != io.EOF {
				err = errors.New("something follows it")
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
		return notice{}, refuse(http.StatusMethodNotAllowed, "GET or POST")
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

// understand makes a notice of what was said.
func understand(host, key, location string, urls []string) (notice, error) {
	n := notice{proof: proof{key: key}}
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
					return n, refuse(http.StatusUnprocessableEntity, "the key is not located at %s", n.host)
				}
			}
			path, _, _ := strings.Cut(afterScheme(n.location), "?")
			n.scope = path[:strings.LastIndexByte(path, '/')+1]
		}
		if !strings.HasPrefix(afterScheme(c), n.scope) {
			return n, refuse(http.StatusUnprocessableEntity, "%.200q does not lie below %.200s, where the key is", u, n.scope)
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

// sameHost reports whether a host as somebody writes it is that of a canonical URL.
func sameHost(canonical, said string) bool {
	for _, scheme := range []string{"https://", "http://"} {
		if u, err := protocol.CanonicalURL("", scheme+said+"/"); err == nil && afterScheme(u) == canonical+"/" {
			return true
		}
	}
	return false
}

// validKey reports whether s may be a key.
func validKey(s string) bool {
	if len(s) < 8 || len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return true
}
