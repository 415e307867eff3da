package sitetest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// A Fault responds in place of the site; own is the site's response.
type Fault func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc)

// Break switches a fault on, for a path such as "/parley/stream", or with "*" for every path that has none of
// its own. A nil Fault switches it off.
func (s *Site) Break(path string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil {
		delete(s.faults, path)
		return
	}
	s.faults[path] = f
}

// Heal switches all faults off.
func (s *Site) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// Status responds with a status, and with Retry-After if that is a second or more.
func Status(code int, retryAfter time.Duration) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		if n := int(retryAfter / time.Second); n > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(n))
		}
		w.WriteHeader(code)
	}
}

// NoUpgrade acts as a proxy that does not know WebSocket.
func NoUpgrade(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
	r.Header.Del("Connection")
	r.Header.Del("Upgrade")
	own(w, r)
}

// Truncate ends the connection after the first bytes of the body.
func Truncate(bytes int) Fault {
	return func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		own(&bodyWriter{ResponseWriter: w, left: bytes}, r)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// Bytes responds with another body, like a proxy that modifies pages.
func Bytes(body string) Fault {
	return func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		own(&bodyWriter{ResponseWriter: w, instead: &body}, r)
	}
}

// Slow delays the response.
func Slow(d time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		if pause.For(r.Context(), d) {
			own(w, r)
		}
	}
}

// Times applies a fault to the first n requests.
func Times(n int, f Fault) Fault {
	left := make(chan bool, n)
	for range n {
		left <- true
	}
	return func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		select {
		case <-left:
			f(w, r, own)
		default:
			own(w, r)
		}
	}
}

// A bodyWriter passes on only the beginning of a body, or replaces it.
type bodyWriter struct {
	http.ResponseWriter
	left    int
	instead *string
	begun   bool
}

func (w *bodyWriter) WriteHeader(code int) {
	if w.instead != nil {
		w.Header().Del("Content-Length")
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *bodyWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	send := b[:min(len(b), w.left)]
	w.left -= len(send)
	if w.instead != nil {
		send, *w = []byte(*w.instead), bodyWriter{ResponseWriter: w.ResponseWriter, begun: true, instead: new(string)}
	}
	if len(send) > 0 {
		if _, err := w.ResponseWriter.Write(send); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
