package server

import (
	"net/http"
	"sync"

	"github.com/parleyweb/parley/internal/coding"
)

// leastCoded is the length in bytes from which a response is worth compressing.
const leastCoded = 512

// A coder compresses short responses with the content coding that the client prefers
// (C33). The zero coder is ready to use, by many goroutines at once.
type coder struct {
	zstd coding.Messages
	gzip sync.Pool // of *coding.Packer
}

// write answers with JSON that must not be cached.
func (c *coder) write(w http.ResponseWriter, r *http.Request, b []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(b) >= leastCoded {
		if name := accepted(r.Header); name != "" {
			b = c.code(name, b)
			h.Set("Content-Encoding", name)
		}
	}
	writeJSON(w, b)
}

// code returns b in a content coding that accepted returned.
func (c *coder) code(name string, b []byte) []byte {
	if name == codingZstd {
		return c.zstd.Pack(b)
	}
	p, ok := c.gzip.Get().(*coding.Packer)
	if !ok {
		var err error
		if p, err = coding.NewPacker(codingGzip); err != nil {
			panic("server: " + err.Error()) // the coding exists
		}
	}
	defer c.gzip.Put(p)
	return p.Append(make([]byte, 0, len(b)/3+64), b)
}

const (
	codingZstd = "zstd"
	codingGzip = "gzip"
)

// accepted returns the best content coding for a request header: "zstd", "gzip", or
// "" if it names neither. Of codings with equal weight it returns the better one.
func accepted(h http.Header) string {
	a := acceptOf(h)
	for _, name := range a.Order(codingZstd, codingGzip) {
		if a.Names(name) {
			return name
		}
	}
	return ""
}

// acceptsPlain reports whether a header names identity, and neither a coding
// that accepted knows nor "*".
func acceptsPlain(h http.Header) bool {
	a := acceptOf(h)
	return a.Names("identity") && !a.Names(codingZstd) && !a.Names(codingGzip) && !a.Names("*")
}

func acceptOf(h http.Header) coding.Accept { return coding.ParseAccept(h.Values("Accept-Encoding")) }
