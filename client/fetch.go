package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

const (
	stall        = 30 * time.Second // the longest wait for the next byte of a response
	longestRead  = 6 * time.Hour    // the longest time for a whole response
	maxRedirects = 5
	maxSmall     = 64 << 10  // bytes of an error response that are read
	maxHint      = time.Hour // upper bound of Retry-After
)

// A StatusError is a response with an unexpected status. It wraps protocol.ErrEpoch or protocol.ErrTooOld
// where the site refuses a cursor.
type StatusError struct {
	URL        string
	Status     int
	Title      string        // the site's explanation (RFC 9457), or empty: it may be a proxy's response
	Parameter  string        // the request parameter that is wrong, if the site says so
	RetryAfter time.Duration // at most an hour; 0 if the site does not say

	cursor bool            // the request had a cursor
	head   protocol.Cursor // the site's head, if stated
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Title != "" {
		s += fmt.Sprintf(": %.200q", e.Title)
	}
	return s
}

// statusOf returns the status that err reports, or nil.
func statusOf(err error) (status *StatusError) {
	errors.As(err, &status)
	return status
}

// Unwrap returns what the status means for a cursor.
func (e *StatusError) Unwrap() error {
	switch {
	case e.cursor && e.Status == http.StatusConflict:
		return protocol.ErrEpoch
	case e.cursor && e.Status == http.StatusGone:
		return protocol.ErrTooOld
	}
	return nil
}

// An ElsewhereError reports that a response belongs to another origin than the site that was named: another
// scheme, host or port. Nothing of that is believed.
type ElsewhereError struct {
	URL string // the URL that was requested
	To  string // where it redirects to; empty if it answered
	Of  string // the base URL of the site that a manifest describes
}

func (e *ElsewhereError) Error() string {
	if e.To != "" {
		base := e.To[:strings.LastIndexByte(e.To, '/')+1]
		for _, below := range []string{"/.well-known/", "/parley/"} { // the doors are below the base
			if door := strings.TrimSuffix(base, below); door != base {
				base = door + "/"
			}
		}
		return fmt.Sprintf("%.200s redirects to another origin, %.200s: name the site as %.200s", e.URL, e.To, base)
	}
	return fmt.Sprintf("%.200s describes no page of %s: it describes the site %.200s; name that, or publish a manifest for this address too", e.URL, protocol.Origin(e.URL), e.Of)
}

func statusError(u string, status int, h http.Header, body []byte) *StatusError {
	e := &StatusError{URL: u, Status: status}
	e.RetryAfter, _ = fetch.RetryAfter(h, time.Now(), maxHint)
	if t, _, _ := mime.ParseMediaType(h.Get("Content-Type")); t == "application/problem+json" {
		var problem struct {
			Title, Detail, Parameter string
			Head                     protocol.Cursor
		}
		if json.Unmarshal(body, &problem) == nil {
			e.Title, e.Parameter, e.head = cmp.Or(problem.Detail, problem.Title), problem.Parameter, problem.Head
		}
	}
	return e
}

// cursorError returns err as the response of the door u to a cursor.
func cursorError(err error, u string) error {
	if e := statusOf(err); e != nil {
		e.URL, e.cursor = u, true
	}
	return err
}

// A fetcher sends requests to one site.
type fetcher struct {
	*site
	src    *Source // with its defaults filled in
	client *http.Client
}

func newFetcher(s *Source) (*fetcher, error) {
	base, manifest, err := s.Site()
	if err != nil {
		return nil, err
	}
	f := &fetcher{&site{base, protocol.Origin(base), manifest, ""}, s.withDefaults(), new(http.Client)}
	f.src.Log = f.src.Log.With("site", base)
	f.named(s.Discovery)
	if s.HTTP != nil {
		*f.client = *s.HTTP
	} else {
		t := &http.Transport{Proxy: http.ProxyFromEnvironment}
		if d, ok := http.DefaultTransport.(*http.Transport); ok {
			t = d.Clone()
		}
		t.MaxResponseHeaderBytes = 256 << 10
		f.client.Transport = t
	}
	next := f.client.CheckRedirect
	f.client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if protocol.Origin(r.URL.String()) != f.origin {
			return &ElsewhereError{URL: via[0].URL.String(), To: r.URL.String()}
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if err := f.allowed(r.URL.String()); err != nil {
			return err
		}
		if next != nil {
			return next(r, via)
		}
		return nil
	}
	return f, nil
}

// allowed calls Source.Allow with a URL. A stream's ws URL becomes the http URL of its handshake, which is a
// request like any other.
func (f *fetcher) allowed(u string) error {
	if f.src.Allow == nil {
		return nil
	}
	if rest, ok := strings.CutPrefix(u, "ws"); ok {
		u = "http" + rest
	}
	return f.src.Allow(u)
}

// wait calls Source.Allow and Source.Pace before a request.
func (f *fetcher) wait(ctx context.Context, u string) error {
	if err := f.allowed(u); err != nil {
		return err
	}
	if f.src.Pace == nil {
		return ctx.Err()
	}
	return f.src.Pace(ctx)
}

// close closes the connections of a client of our own.
func (f *fetcher) close() {
	if f.src.HTTP == nil {
		f.client.CloseIdleConnections()
	}
}

func (f *fetcher) header() http.Header {
	h := http.Header{"User-Agent": {f.src.UserAgent}}
	if f.src.Token != "" {
		h.Set("Authorization", "Bearer "+f.src.Token)
	}
	return h
}

var errStalled = errors.New("timed out: no data received")

// get requests u and returns a response with status 200, or with a status that the header asks for: 304 with
// a condition, 206 with Range, 226 with A-IM; anything else is an error. The headers must come within
// patience of the moment when the transport begins to send, since that of a crawler may first wait for the site's
// turn; then no read of the body may take longer than stall. The body must be closed.
func (f *fetcher) get(ctx context.Context, u string, h http.Header, patience time.Duration) (*http.Response, error) {
	return f.ask(ctx, http.MethodGet, u, h, nil, patience)
}

// ask is get with another method, and a request body.
func (f *fetcher) ask(ctx context.Context, method, u string, h http.Header, say []byte, patience time.Duration) (*http.Response, error) {
	if err := f.wait(ctx, u); err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, longestRead)
	ctx, cancel := context.WithCancelCause(ctx)
	b := &body{ctx: ctx, cancel: func() { cancel(nil); end() }}
	b.timer = time.AfterFunc(patience, func() { cancel(errStalled) })
	if _, traced := f.client.Transport.(*http.Transport); traced {
		b.timer.Stop()
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) { b.timer.Reset(patience) }})
	}
	var content io.Reader
	if say != nil {
		content = bytes.NewReader(say)
	}
	r, err := http.NewRequestWithContext(ctx, method, u, content)
	if err != nil {
		b.timer.Stop()
		b.cancel()
		return nil, err
	}
	r.Header = h
	resp, err := f.client.Do(r)
	b.timer.Stop()
	if err != nil {
		err = b.explain(err)
		b.cancel()
		return nil, err
	}
	b.ReadCloser, resp.Body = resp.Body, b
	if wanted(resp.StatusCode, h) {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxSmall)) // a response cut short still has its status
	return nil, statusError(u, resp.StatusCode, resp.Header, text)
}

// wanted reports whether a status is what a request with this header asks for.
func wanted(status int, h http.Header) bool {
	switch status {
	case http.StatusOK:
		return true
	case http.StatusCreated:
		return h.Get("Content-Type") != "" // something was sent
	case http.StatusNotModified:
		return h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != ""
	case http.StatusPartialContent:
		return h.Get("Range") != ""
	case http.StatusIMUsed:
		return h.Get("A-IM") != ""
	}
	return false
}

// A typeError is a response of another media type: a page instead of a door.
type typeError struct{ url, got, want string }

func (e *typeError) Error() string {
	return fmt.Sprintf("%s has content type %.80q, not %s", e.url, e.got, e.want)
}

// getJSON returns the body of a JSON response of at most max bytes.
func (f *fetcher) getJSON(ctx context.Context, u string, patience time.Duration, max int64) ([]byte, error) {
	h := f.header()
	h.Set("Accept", "application/json")
	resp, err := f.get(ctx, u, h, patience)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "application/json" {
		return nil, &typeError{u, resp.Header.Get("Content-Type"), "JSON"}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, max+1))
	if err != nil {
		return nil, &url.Error{Op: "Get", URL: u, Err: err}
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("%s answered more than %d bytes", u, max)
	}
	return b, nil
}

// A body is a response body whose request is cancelled when a read takes longer than stall.
type body struct {
	io.ReadCloser
	ctx    context.Context // of the request, for its cause
	cancel func()
	timer  *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(stall)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF {
		err = b.explain(err)
	}
	return n, err
}

func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

func (b *body) explain(err error) error {
	if context.Cause(b.ctx) != errStalled {
		return err
	}
	var e *url.Error
	if errors.As(err, &e) {
		return &url.Error{Op: e.Op, URL: e.URL, Err: errStalled}
	}
	return errStalled
}

// hurried returns d, or Hurry if that is set and shorter.
func (f *fetcher) hurried(d time.Duration) time.Duration { return pause.AtMost(d, f.src.Hurry) }
