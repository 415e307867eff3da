package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// problemType is the media type of RFC 9457.
const problemType = "application/problem+json"

// A problem is an error response as in RFC 9457, with extension members of our own.
type problem struct {
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

	retry     time.Duration // the Retry-After; zero sends none
	allow     string        // the methods that are allowed
	challenge string        // the WWW-Authenticate header
}

// The problem types that a client may want to distinguish beyond the status.
const (
	problemParameter = "urn:parley:problem:parameter"
	problemEpoch     = "urn:parley:problem:epoch"
	problemTooOld    = "urn:parley:problem:too-old"
	problemScanning  = "urn:parley:problem:scanning"
	problemLimit     = "urn:parley:problem:limit"
)

func badParameter(name, detail string) *problem {
	return &problem{Type: problemParameter, Title: "the request has an invalid parameter",
		Status: http.StatusBadRequest, Detail: detail, Parameter: name}
}

// unavailable is the answer while there is nothing to send yet.
func unavailable(detail string) *problem {
	return &problem{Type: problemScanning, Title: "the site is being scanned", Status: http.StatusServiceUnavailable,
		Detail: detail, retry: 2 * time.Second}
}

// busy is the answer to a request that waited in vain for a slot: behind other clients'
// requests (errBusy) or its own address's (errCrowd).
func busy(err error) *problem {
	p := &problem{Type: problemLimit, Title: "too many requests at a time", Status: http.StatusServiceUnavailable,
		Detail: "the site is busy with other requests: try again later", retry: 2 * time.Second}
	if errors.Is(err, errCrowd) {
		p.Status = http.StatusTooManyRequests
		p.Detail = fmt.Sprintf("%d requests from your address are waiting: send one at a time", mostAskingEach)
	}
	return p
}

func plainProblem(status int, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// write answers the request.
func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", problemType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retry+time.Second-1)/time.Second)))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("server: encode problem: " + err.Error()) // plain values always encode
	}
	b = append(b, '\n')
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		w.Write(b)
	}
}
