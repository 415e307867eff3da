package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/internal/robots"
)

// stallTimeout is how long a site may send nothing.
const stallTimeout = 30 * time.Second

var (
	errStall = fmt.Errorf("nothing arrived for %v", stallTimeout)
	errSlow  = errors.New("took too long")
)

// pageClient returns the client that fetches pages: one connection, no
// compression, no redirects. A client that the caller gave is kept to, so far as it goes.
func pageClient(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxConnsPerHost:        1,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		}
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Timeout = 0 // see ask
	return &c
}

// fetchAll pays debts, one at a time, until ctx ends.
func (r *run) fetchAll(ctx context.Context) error {
	for r.sleep(ctx, r.manners.at(), false) {
		m, n := &r.manners, r.col.Counts()
		stale := m.robots == nil || !time.Now().Before(m.stale)
		switch {
		case m.robots != nil && n.Owed == 0 && (n.Parked == 0 || !stale):
			// Nothing to ask for, and so no need for a newer robots.txt either.
			if err := r.col.Tidy(); err != nil {
				return err
			}
			var until time.Time
			if n.Parked > 0 {
				until = m.stale
			}
			r.sleep(ctx, until, true)
			continue
		case stale:
			if err := r.readRobots(ctx); err != nil {
				return err
			}
			continue
		}
		debt, ok, next, err := r.col.Next()
		if err != nil {
			return err
		}
		if !ok {
			r.sleep(ctx, next, true)
			continue
		}
		res, err := r.fetch(ctx, debt)
		if err != nil {
			return err
		}
		if ctx.Err() != nil && res.Answer != holding.Fetched {
			return nil
		}
		r.results <- res
	}
	return nil
}

// sleep waits until t, and with early set no longer than until there is news;
// the zero time then means only that. It returns false if ctx ended.
func (r *run) sleep(ctx context.Context, t time.Time, early bool) bool {
	var timer <-chan time.Time
	var wake chan struct{}
	if early {
		wake = r.wake
	}
	if !t.IsZero() || !early {
		d := time.Until(t)
		if d <= 0 {
			return ctx.Err() == nil
		}
		tm := time.NewTimer(d)
		defer tm.Stop()
		timer = tm.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer:
	case <-wake:
	}
	return true
}

// fetch asks for one page. Its error means that this side cannot go on.
func (r *run) fetch(ctx context.Context, d holding.Debt) (holding.Result, error) {
	res := holding.Result{Debt: d}
	path := strings.TrimPrefix(d.URL, r.origin)
	switch {
	case !r.manners.robots.Allowed(Agent, path):
		r.log.Info("robots.txt forbids", "url", d.URL)
		res.Answer = holding.Forbidden
		return res, nil
	case d.Item.Length > r.maxPage():
		r.fault(d.URL, fmt.Errorf("%d bytes, more than %d", d.Item.Length, r.maxPage()))
		res.Answer = holding.TooLarge
		return res, nil
	}
	body, err := r.col.NewBody()
	if err != nil {
		return res, err
	}
	err = r.get(ctx, d, body, &res)
	r.status.asked(body.Len())
	if local := body.Err(); local != nil {
		body.Discard() // to ask the site again and again would not help
		return res, fmt.Errorf("keep %s: %w", d.URL, local)
	}
	if err != nil && ctx.Err() == nil {
		r.fault(d.URL, err)
	}
	if res.Answer == holding.Fetched {
		res.Body = body
	} else {
		body.Discard()
	}
	return res, nil
}

func (r *run) fault(url string, err error) {
	err = fmt.Errorf("fetch %s: %w", url, err)
	r.status.fault(err)
	r.log.Warn("fetch page", "err", err)
}

func (r *run) maxPage() int64 {
	if r.MaxPage > 0 {
		return r.MaxPage
	}
	return DefaultMaxPage
}

// get makes the request for a debt, fills res and body, and notes in the
// manners what the site made of it. Its error is for people.
func (r *run) get(ctx context.Context, d holding.Debt, body *holding.Body, res *holding.Result) error {
	header := http.Header{}
	etag, since := d.Conditional()
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	if since != "" {
		header.Set("If-Modified-Since", since)
	}
	resp, err := r.ask(ctx, d.URL, header)
	if err != nil {
		res.Retry = r.manners.trouble(time.Now(), true, 0)
		return err
	}
	defer resp.Body.Close()
	res.Status = resp.StatusCode
	res.Type, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	res.Type = strings.ToLower(strings.TrimSpace(res.Type))
	res.ETag, res.LastModified = resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")

	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return r.read(resp, body, res)
	case code == http.StatusNotModified && etag+since != "":
		res.Answer = holding.Unchanged
		r.manners.done(time.Now())
		return nil
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500:
		res.Retry = r.manners.trouble(time.Now(), false, retryAfter(resp))
		return answered(code)
	case code == http.StatusNotFound, code == http.StatusGone:
		res.Answer = holding.Gone
	default:
		res.Answer = holding.Refused
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // keep the connection
	r.manners.done(time.Now())
	if to := resp.Header.Get("Location"); to != "" {
		return fmt.Errorf("%w to %.200q, not followed: the site should name the URL it serves", answered(res.Status), to)
	}
	return answered(res.Status)
}

// answered names a status in our own words: those of the site may be anything,
// and stand on a terminal in the end.
func answered(code int) error { return fmt.Errorf("%d %s", code, http.StatusText(code)) }

// read takes in the body of a page.
func (r *run) read(resp *http.Response, body *holding.Body, res *holding.Result) error {
	if c := resp.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		res.Answer = holding.Refused
		r.manners.done(time.Now())
		return fmt.Errorf("content coding %.50q, which was not asked for", c)
	}
	n, err := int64(0), error(nil)
	if resp.ContentLength <= r.maxPage() {
		n, err = io.Copy(body, io.LimitReader(resp.Body, r.maxPage()+1))
	}
	switch {
	case n > r.maxPage(), resp.ContentLength > r.maxPage():
		res.Answer = holding.TooLarge
		r.manners.done(time.Now())
		return fmt.Errorf("more than %d bytes", r.maxPage())
	case err != nil:
		res.Retry = r.manners.trouble(time.Now(), true, 0)
		return err
	}
	res.Answer = holding.Fetched
	r.manners.done(time.Now())
	return nil
}

// ask makes a request. It is given up if it takes longer than the Mirror's
// Timeout in all, or if nothing arrives for stallTimeout; the body of the
// answer too.
func (r *run) ask(ctx context.Context, url string, header http.Header) (*http.Response, error) {
	if err := r.manners.pace(ctx); err != nil {
		return nil, err
	}
	limit := r.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	whole := time.AfterFunc(limit, func() { cancel(errSlow) })
	stall := time.AfterFunc(stallTimeout, func() { cancel(errStall) })
	stop := func() {
		whole.Stop()
		stall.Stop()
		cancel(nil)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		stop()
		return nil, err
	}
	req.Header = header
	req.Header.Set("User-Agent", r.source.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if strings.Contains(r.Contact, "@") && !strings.ContainsAny(r.Contact, "\r\n/") {
		req.Header.Set("From", r.Contact)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		stop()
		return nil, err
	}
	stall.Reset(stallTimeout)
	resp.Body = &watchedBody{ReadCloser: resp.Body, ctx: ctx, stall: stall, stop: stop}
	return resp, nil
}

// A watchedBody gives up when nothing arrives.
type watchedBody struct {
	io.ReadCloser
	ctx   context.Context
	stall *time.Timer
	stop  func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.stall.Reset(stallTimeout)
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

// readRobots asks for robots.txt. While the site has never answered it, the
// manners have none and nothing may be fetched; later the last answer stays
// in force.
func (r *run) readRobots(ctx context.Context) error {
	status, body, after, err := r.askRobots(ctx)
	if ctx.Err() != nil {
		return nil
	}
	m, now := &r.manners, time.Now()
	if err != nil || status >= 500 || status == http.StatusTooManyRequests {
		if err == nil {
			err = fmt.Errorf("status %d", status)
		}
		r.fault(r.origin+"/robots.txt", err)
		m.trouble(now, status == 0, after)
		m.stale = now.Add(robotsRetry)
		return nil
	}
	first := m.robots == nil
	changed := first || m.body != string(body)
	m.obey(robots.ForStatus(status, body), string(body), r.delay, now)
	m.done(now)
	if path := strings.TrimPrefix(r.manifest, r.origin); !m.robots.Allowed(Agent, path) {
		return fmt.Errorf("robots.txt forbids %s, so the site cannot be followed", r.manifest)
	}
	if first {
		close(r.known)
	}
	if !changed {
		return nil
	}
	n, err := r.col.Unpark()
	if n > 0 {
		r.log.Info("robots.txt is new: what it forbade is tried again", "pages", n)
	}
	return err
}

// askRobots asks for robots.txt, following up to five redirects (RFC 9309,
// 2.3.1.2), but only on the site's own host: nothing a site says leads elsewhere.
func (r *run) askRobots(ctx context.Context) (status int, body []byte, after time.Duration, err error) {
	url := r.origin + "/robots.txt"
	for range 6 {
		resp, err := r.ask(ctx, url, http.Header{})
		if err != nil {
			return 0, nil, 0, err
		}
		body, err = io.ReadAll(io.LimitReader(resp.Body, robots.MaxBytes+1)) // one more, so that Parse knows that there is more
		resp.Body.Close()
		r.status.asked(int64(len(body)))
		to, locErr := resp.Location()
		switch {
		case err != nil:
			return 0, nil, 0, err
		case resp.StatusCode/100 != 3 || locErr != nil || to.Host != resp.Request.URL.Host:
			return resp.StatusCode, body, retryAfter(resp), nil
		}
		status, url = resp.StatusCode, to.String()
	}
	return status, nil, 0, nil
}

// retryAfter returns how long an answer asks to wait: seconds, or until a date.
func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return time.Duration(max(0, min(n, int64(maxRetryAfter/time.Second)))) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}
