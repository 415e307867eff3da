package web

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/parleyweb/parley/internal/coding"
)

// LeastCoded is the length in bytes from which a response is worth compressing.
const LeastCoded = 512

// A Coder compresses short responses with the content coding that the client prefers
// (C33). The zero Coder is ready to use, by many goroutines at once.
type Coder struct {
	zstd coding.Messages
	gzip sync.Pool // of *coding.Packer
}

// Write answers with JSON that must not be cached.
func (c *Coder) Write(w http.ResponseWriter, r *http.Request, b []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(b) >= LeastCoded {
		if name := Accepted(r.Header); name != "" {
			b = c.Code(name, b)
			h.Set("Content-Encoding", name)
		}
	}
	WriteJSON(w, b)
}

// Code returns b in a content coding that Accepted returned.
func (c *Coder) Code(name string, b []byte) []byte {
	if name == Zstd {
		return c.zstd.Pack(b)
	}
	p, ok := c.gzip.Get().(*coding.Packer)
	if !ok {
		var err error
		if p, err = coding.NewPacker(Gzip); err != nil {
			panic("web: " + err.Error()) // the coding exists
		}
	}
	defer c.gzip.Put(p)
	return p.Append(make([]byte, 0, len(b)/3+64), b)
}

const (
	Zstd = "zstd"
	Gzip = "gzip"
)

// Accepted returns the best content coding for a request header: "zstd", "gzip", or
// "" if it names neither. Of codings with equal weight it returns the better one.
func Accepted(h http.Header) string {
	a := acceptOf(h)
	for _, name := range a.Order(Zstd, Gzip) {
		if a.Names(name) {
			return name
		}
	}
	return ""
}

// AcceptsPlain reports whether a header names identity, and neither a coding
// that Accepted knows nor "*".
func AcceptsPlain(h http.Header) bool {
	a := acceptOf(h)
	return a.Names("identity") && !a.Names(Zstd) && !a.Names(Gzip) && !a.Names("*")
}

func acceptOf(h http.Header) coding.Accept { return coding.ParseAccept(h.Values("Accept-Encoding")) }

// SetType sets the media type of a response, and who may cache it, as Cache-Control says that.
func SetType(w http.ResponseWriter, media, cache string) http.Header {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	return h
}

// WriteJSON answers with JSON that must not be cached.
func WriteJSON(w http.ResponseWriter, b []byte) {
	h := SetType(w, "application/json", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.Write(b) // the client may have gone
}
