package collection

import (
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// Answers selects which answers without a page are archived.
type Answers uint8

const (
	// Zero means redirects, 404 and 410: the answers that say what became of a page. A replay of the
	// archive follows the redirects and shows the others.
	_ Answers = iota

	AllAnswers // all others too: 401, 403, 429, 5xx
	NoAnswers
)

// maxAnswer bounds the archived body of such an answer, in bytes.
const maxAnswer = 64 << 10

// answer archives an answer without a page, unless it equals the one before: a page that is gone says so for
// ever. The answer never counts as content.
func (x *visiting) answer() error {
	u, v, p := x.u, x.v, &x.was
	store := &u.c.sinks.store
	switch status := v.Status; {
	case !store.HasArchive(), v.Fault != "", p.stale(v), status < 300, status == http.StatusNotModified, u.c.opts.Answers == NoAnswers:
		return nil
	case status > 399 && status != http.StatusNotFound && status != http.StatusGone && u.c.opts.Answers != AllAnswers:
		return nil
	case status == p.Status && (v.Target == nil || v.Target.URL == p.Target):
		return nil
	}
	capture := x.capture()
	if len(capture.Body) > maxAnswer {
		capture.Body, capture.Cut = capture.Body[:maxAnswer], true
	}
	capture.Digest = protocol.Sum(capture.Body)
	_, err := store.Response(capture)
	return err
}
