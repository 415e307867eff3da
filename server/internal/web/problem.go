// Package web reads the requests that crawlers send, and writes the answers, as all doors of a site do.
package web

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// problemType is the media type of RFC 9457.
const problemType = "application/problem+json"

// A Problem is an error response as in RFC 9457, with extension members of our own.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// Parameter is the invalid parameter of the request.
	Parameter string `json:"parameter,omitempty"`

	// Where to resynchronise when a cursor is rejected.
	Head     *protocol.Cursor `json:"head,omitempty"`
	Floor    *protocol.Cursor `json:"floor,omitempty"`
	Manifest string           `json:"manifest,omitempty"`

	Retry     time.Duration `json:"-"` // the Retry-After; zero sends none
	Allow     string        `json:"-"` // the methods that are allowed
	Challenge string        `json:"-"` // the WWW-Authenticate header
}

// Problem types that a client may want to distinguish beyond the status.
const (
	typeParameter = "urn:parley:problem:parameter"
	TypeEpoch     = "urn:parley:problem:epoch"
	TypeTooOld    = "urn:parley:problem:too-old"
	typeScanning  = "urn:parley:problem:scanning"
	TypeLimit     = "urn:parley:problem:limit"
)

// BadParameter is the answer to a request with an invalid parameter.
func BadParameter(name, detail string) *Problem {
	return &Problem{Type: typeParameter, Title: "the request has an invalid parameter",
		Status: http.StatusBadRequest, Detail: detail, Parameter: name}
}

// Unavailable is the answer while there is nothing to send yet.
func Unavailable(detail string) *Problem {
	return &Problem{Type: typeScanning, Title: "the site is being scanned", Status: http.StatusServiceUnavailable,
		Detail: detail, Retry: 2 * time.Second}
}

// Plain is a problem that its status describes (RFC 9457, section 4.2.1).
func Plain(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// Write answers the request.
func (p *Problem) Write(w http.ResponseWriter, r *http.Request) {
	h := SetType(w, problemType, "no-store")
	if p.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.Retry+time.Second-1)/time.Second)))
	}
	if p.Allow != "" {
		h.Set("Allow", p.Allow)
	}
	if p.Challenge != "" {
		h.Set("WWW-Authenticate", p.Challenge)
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("web: encode problem: " + err.Error()) // plain values always encode
	}
	b = append(b, '\n')
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		w.Write(b)
	}
}
