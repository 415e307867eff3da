package doors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// A site is what every door knows of the site behind it: where it is, its journal to read,
// and how long its clients may take. It does not change.
type site struct {
	urls      urls
	log       protocol.Log
	ready     func() bool   // nil: always
	writeWait time.Duration // see Limits.WriteWait
	logger    *slog.Logger
	now       func() time.Time
}

// urls are the URLs and the paths of a site's doors.
type urls struct {
	base, manifest, changes, stream, discovery string // URLs

	path string // of the base, decoded
	host string
	err  error
}

func urlsOf(base string) urls {
	u, err := url.Parse(base)
	if err == nil && (u.Host == "" || !strings.HasSuffix(base, "/") || u.Scheme != "http" && u.Scheme != "https") {
		err = fmt.Errorf("base %.200q: want http://HOST/ or https://HOST/, ending in a slash", base)
	}
	if err != nil {
		return urls{base: base, err: err}
	}
	return urls{base: base, manifest: base + manifestPath, changes: base + changesPath, discovery: base + protocol.DiscoveryPath,
		stream: "ws" + strings.TrimPrefix(base, "http") + streamPath, path: u.Path, host: u.Host}
}

// Describe returns the manifest fields of a site, with the doors that a
// [Notifier] has below base. A site without a notifier clears Stream and Changes.
func Describe(base string) protocol.Manifest {
	u := urlsOf(base)
	return protocol.Manifest{URL: u.manifest, Base: base, Stream: u.stream, Changes: u.changes, Discovery: u.discovery}
}

// deadline gives a client some time for its request, and writeWait to read the response.
func (s *site) deadline(w http.ResponseWriter, wait time.Duration) {
	web.SetDeadline(w, wait+s.writeWait)
}

// patient gives a client writeWait for every piece of the response.
func (s *site) patient(w http.ResponseWriter) web.Patient {
	return web.Patient{ResponseWriter: w, Wait: s.writeWait}
}

// isOurs reports whether a URL is of the site's origin, and canonical.
func (s *site) isOurs(url string) bool {
	u, err := protocol.CanonicalURL("", url)
	return err == nil && u == url && strings.HasPrefix(url, protocol.Origin(s.urls.base)+"/")
}

// scanning returns the problem to answer with before the first scan has ended; else nil.
func (s *site) scanning() *web.Problem {
	if s.log.Head().IsZero() || s.ready != nil && !s.ready() {
		return web.Unavailable("the first scan of the site has not finished")
	}
	return nil
}

// cursorProblem returns the answer to a cursor that the log refuses; nil if err is
// not about the cursor.
func (s *site) cursorProblem(after protocol.Cursor, err error) *web.Problem {
	head, floor := s.log.Head(), s.log.Floor()
	p := &web.Problem{Head: &head, Floor: &floor, Manifest: s.urls.manifest}
	switch {
	case errors.Is(err, protocol.ErrEpoch):
		p.Type, p.Status, p.Title = web.TypeEpoch, http.StatusConflict, "the cursor belongs to another epoch"
		p.Detail = fmt.Sprintf("the journal is not known to continue from %s: read the manifest, and continue from its cursor", after)
	case errors.Is(err, protocol.ErrTooOld):
		p.Type, p.Status, p.Title = web.TypeTooOld, http.StatusGone, "the changes after the cursor are no longer stored"
		p.Detail = fmt.Sprintf("changes are stored after %s: read the manifest, and continue from its cursor", floor)
	default:
		return nil
	}
	return p
}

// awayRetry is the Retry-After while the log of the site cannot be reached.
const awayRetry = 5 * time.Second

// failed returns the answer for an error while reading what follows a cursor; nil
// if the client has gone.
func (s *site) failed(r *http.Request, after protocol.Cursor, err error) *web.Problem {
	if r.Context().Err() != nil {
		return nil
	}
	if errors.Is(err, limit.ErrBusy) || errors.Is(err, limit.ErrAddressBusy) {
		return limit.Busy(err)
	}
	if p := s.cursorProblem(after, err); p != nil {
		return p
	}
	if errors.Is(err, protocol.ErrAway) {
		p := web.Unavailable("the log of this site cannot be reached: send the request again")
		p.Title, p.Retry = "the cursor cannot be judged now", awayRetry
		return p
	}
	s.logger.Error("the journal could not be read", "path", r.URL.Path, "after", after.String(), "err", err)
	return web.Plain(http.StatusInternalServerError, "the journal could not be read")
}

// atHead returns the error for a reader that has everything.
func (s *site) atHead(at protocol.Cursor) *notReady {
	return &notReady{until: func(ctx context.Context) error { return s.log.Wait(ctx, at) }, head: true}
}
