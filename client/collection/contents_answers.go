package collection

import (
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// Answers says which answers are archived that bring no page.
type Answers uint8

const (
	// UsualAnswers are those that tell what became of a page: redirects, 404 and
	// 410. Who replays the archive follows the ones, and is shown the others.
	UsualAnswers Answers = iota

	AllAnswers // every other too: 401, 403, 429, 5xx
	NoAnswers
)

// maxAnswer is how much of the body of such an answer is archived, in bytes.
const maxAnswer = 64 << 10

// answer archives an answer that brings no page, unless it is as the one before:
// a page that is gone says so for ever. Whatever it is, it is no content.
func (u *update) answer(v *Visit, p *Page) error {
	w := u.c.contents.archive
	switch status := v.Status; {
	case w == nil, v.Fault != "", p.stale(v), status < 300, status == http.StatusNotModified, u.c.opts.Answers == NoAnswers:
		return nil
	case status > 399 && status != http.StatusNotFound && status != http.StatusGone && u.c.opts.Answers != AllAnswers:
		return nil
	case status == p.Status && (v.Target == nil || v.Target.URL == p.Target):
		return nil
	}
	capture := u.capture(v, p)
	if len(capture.Body) > maxAnswer {
		capture.Body, capture.Cut = capture.Body[:maxAnswer], true
	}
	capture.Digest = protocol.Sum(capture.Body)
	_, err := w.Response(capture)
	return err
}

// isPage reports whether an answer brings the page: what a proxy has changed on the way (203) is one, too.
func isPage(status int) bool {
	return status == http.StatusOK || status == http.StatusNonAuthoritativeInfo || status == http.StatusPartialContent
}

// brings reports whether a version is of the page, and not of an error or a redirect.
func (v *Version) brings() bool { return v.Same || v.Status == 0 || isPage(v.Status) }
