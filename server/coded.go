package server

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/parleyweb/parley/internal/coding"
)

// leastCoded is how long an answer is, in bytes, that is worth a content coding.
const leastCoded = 512

// A coder gives short answers the content coding that their reader prefers
// (C33). The zero coder is ready, for many goroutines at once.
type coder struct {
	zstd coding.Messages
	gzip sync.Pool // of *coding.Packer
}

// write answers with JSON that is not to be kept.
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

// code returns b in a content coding that accepted returns.
func (c *coder) code(name string, b []byte) []byte {
	if name == codingZstd {
		return c.zstd.Pack(b)
	}
	p, ok := c.gzip.Get().(*coding.Packer)
	if !ok {
		var err error
		if p, err = coding.NewPacker(codingGzip); err != nil {
			panic("server: " + err.Error()) // there is that coding
		}
	}
	defer c.gzip.Put(p)
	return p.Append(make([]byte, 0, len(b)/3+64), b)
}

const (
	codingZstd = "zstd"
	codingGzip = "gzip"
)

// accepted returns the content coding that is best for whoever sends a header:
// "zstd", "gzip", or none. Of what is as welcome, the better one.
func accepted(h http.Header) string {
	best, most := "", 0.0
	for name, q := range codings(h) {
		if name != codingZstd && name != codingGzip {
			continue
		}
		if q > most || q == most && q > 0 && name == codingZstd {
			best, most = name, q
		}
	}
	return best
}

// acceptsPlain reports whether a header names identity, and neither a coding
// that accepted knows nor any other.
func acceptsPlain(h http.Header) bool {
	named := false
	for name, q := range codings(h) {
		switch name {
		case "identity":
			named = q > 0
		case codingZstd, codingGzip, "*":
			if q > 0 {
				return false
			}
		}
	}
	return named
}

// codings yields what Accept-Encoding names, and how welcome that is.
func codings(h http.Header) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, list := range h.Values("Accept-Encoding") {
			for one := range strings.SplitSeq(list, ",") {
				name, params, _ := strings.Cut(one, ";")
				q := 1.0
				if v, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q="); ok {
					var err error
					if q, err = strconv.ParseFloat(v, 64); err != nil {
						q = 0
					}
				}
				if !yield(strings.ToLower(strings.TrimSpace(name)), q) {
					return
				}
			}
		}
	}
}
