package web

import (
	"net/http"
	"time"
)

// SetDeadline sets the read and write deadline of a request, so that a client that never reads
// the response, or never ends its body, cannot hold the connection for ever.
func SetDeadline(w http.ResponseWriter, in time.Duration) {
	c, end := http.NewResponseController(w), time.Now().Add(in)
	c.SetReadDeadline(end) // a ResponseWriter may not support it; then its owner must set deadlines
	c.SetWriteDeadline(end)
}

// A Patient response renews the deadline for every piece that is written: a slow reader gets
// all the time that it needs for a manifest, as long as it keeps reading.
type Patient struct {
	http.ResponseWriter
	Wait time.Duration
}

func (p Patient) Write(b []byte) (int, error) {
	SetDeadline(p.ResponseWriter, p.Wait)
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p Patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
