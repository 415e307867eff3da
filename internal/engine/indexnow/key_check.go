package indexnow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

const (
	patience     = 5 * time.Second // how long a notice may wait for the check of its key, before the response is 202
	lookTime     = 2 * time.Minute // the longest time of a key check, including the wait for the host's lease
	maxKeyFile   = 4 << 10         // bytes of a key's file that are read
	maxRedirects = 3               // all within the host
	maxChecks    = 256             // keys that wait for their check
	maxWaiting   = 100_000         // URLs that wait for them after a 202
	looksAtOnce  = 16
	goodFor      = 24 * time.Hour
	badFor       = 10 * time.Minute
	failBurst    = 10 // keys that a host turns out not to have, in a burst
	failsPerHour = 10
	lookBurst    = 200 // key checks of all hosts, in a burst
	looksPerHour = 5 * 3600
	maxTries     = 4 // attempts before the check of a key is given up
	firstAgain   = 30 * time.Second
)

// A keyClaim is the condition to check: that a file holds a key.
type keyClaim struct{ location, key string }

// A check is a keyClaim that is being checked.
type check struct {
	keyClaim
	host  string
	tries int
	due   time.Time // of the next try

	// Guarded by the Receiver's mu until done is closed.
	left []string // URLs of notices answered by 202
	late int      // number of those notices
	done chan struct{}
	err  error // after done: nil, or a *refusal
}

// prove checks that the notice comes from its host. It returns late if that is not known yet, and the notice
// is held.
func (r *Receiver) prove(ctx context.Context, n notice) (late bool, err error) {
	r.mu.Lock()
	c, known, err := r.look(n)
	r.mu.Unlock()
	if known || err != nil {
		return false, err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-c.done:
		return false, c.err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-t.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-c.done: // just now
		return false, c.err
	default:
	}
	if r.waiting+len(n.urls) > maxWaiting {
		return false, &refusal{http.StatusTooManyRequests, "too many notices are waiting for key verification", time.Minute}
	}
	r.waiting += len(n.urls)
	c.left = append(c.left, n.urls...)
	c.late++
	return true, nil
}

// look returns the known result of a notice's keyClaim, or else its check in progress. The caller must hold mu.
func (r *Receiver) look(n notice) (c *check, known bool, err error) {
	if !r.running {
		return nil, true, &refusal{http.StatusServiceUnavailable, "the receiver is not running", time.Minute}
	}
	now := r.now()
	if until, ok := r.good.get(n.keyClaim); ok && now.Before(until) {
		return nil, true, nil
	}
	if until, ok := r.bad.get(n.keyClaim); ok && now.Before(until) {
		return nil, true, refuse(http.StatusForbidden, "%s does not contain the key", n.location)
	}
	if c := r.checks[n.keyClaim]; c != nil {
		return c, false, nil
	}
	// Each counts as a failure until it succeeds: many may come before the first is checked.
	fails := &r.account(n.host).fails
	if wait := fails.take(1, failBurst, failsPerHour, now); wait > 0 {
		return nil, true, &refusal{http.StatusTooManyRequests, "too many unproven keys for this host", wait}
	}
	if wait := r.fresh.take(1, lookBurst, looksPerHour, now); wait > 0 {
		fails.give(1)
		return nil, true, &refusal{http.StatusTooManyRequests, "too many keys to verify", wait}
	}
	c = &check{keyClaim: n.keyClaim, host: n.host, done: make(chan struct{})}
	select {
	case r.queue <- c:
	default:
		fails.give(1)
		return nil, true, &refusal{http.StatusTooManyRequests, "too many keys to verify", 10 * time.Second}
	}
	r.checks[n.keyClaim] = c
	return c, false, nil
}

// Run checks the keys of notices until ctx ends; then it returns nil, and notices that still wait for their
// key are lost. There may be one Run at a time.
func (r *Receiver) Run(ctx context.Context) error {
	r.init()
	if r.Accept == nil || r.Transport == nil {
		return errors.New("receive indexnow: no Accept or no Transport")
	}
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return errors.New("receive indexnow: already running")
	}
	r.running = true
	r.mu.Unlock()
	var owned sync.WaitGroup
	for range looksAtOnce {
		owned.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case c := <-r.queue:
					r.check(ctx, c)
				}
			}
		})
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			r.requeue()
		}
	}
	owned.Wait()
	r.end()
	return nil
}

// end abandons all checks when Run ends.
func (r *Receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	for _, c := range r.checks {
		c.err = &refusal{http.StatusServiceUnavailable, "the receiver is stopping", time.Minute}
		close(c.done)
	}
	clear(r.checks)
	r.waiting, r.again = 0, nil
	for len(r.queue) > 0 {
		<-r.queue
	}
}

// requeue queues checks whose next attempt is due.
func (r *Receiver) requeue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, rest := r.now(), r.again[:0]
	for _, c := range r.again {
		sent := false
		if !now.Before(c.due) {
			select {
			case r.queue <- c:
				sent = true
			default:
			}
		}
		if !sent {
			rest = append(rest, c)
		}
	}
	clear(r.again[len(rest):])
	r.again = rest
}

// check fetches a key's file, and completes the notices that wait for it.
func (r *Receiver) check(ctx context.Context, c *check) {
	r.mu.Lock()
	r.counts.Looks++
	r.mu.Unlock()
	held, err := r.fetch(ctx, c.keyClaim)
	if ctx.Err() != nil {
		return // end completes it
	}
	r.mu.Lock()
	now := r.now()
	switch {
	case err != nil:
		r.log().Info("indexnow: a key file could not be fetched", "location", c.location, "err", err, "try", c.tries+1)
		if c.tries++; c.tries < maxTries {
			c.due = now.Add(firstAgain << (2 * (c.tries - 1)))
			r.again = append(r.again, c)
			r.mu.Unlock()
			return
		}
		c.err = &refusal{http.StatusTooManyRequests, "the key file cannot be fetched now", badFor}
	case held:
		r.good.put(c.keyClaim, now.Add(goodFor))
		r.account(c.host).fails.give(1)
	default:
		r.bad.put(c.keyClaim, now.Add(badFor))
		c.err = refuse(http.StatusForbidden, "%s does not contain the key", c.location)
	}
	delete(r.checks, c.keyClaim)
	left := c.left
	r.waiting -= len(left)
	close(c.done)
	r.mu.Unlock()
	if len(left) == 0 || c.err != nil {
		return
	}
	seen := make(map[string]bool, len(left))
	urls := left[:0]
	for _, u := range left {
		if !seen[u] {
			seen[u] = true
			urls = append(urls, u)
		}
	}
	r.mu.Lock()
	n := min(len(urls), urlBurst)
	wait := r.account(c.host).urls.take(n, urlBurst, urlsPerHour, now)
	r.mu.Unlock()
	if wait > 0 {
		r.log().Info("indexnow: URLs dropped: too many for this host", "host", c.host, "urls", len(urls))
		return
	}
	if err := r.hand(ctx, urls[:n]); err != nil {
		r.log().Error("indexnow: notices could not be stored after verification of their key", "host", c.host, "err", err)
		return
	}
	r.mu.Lock()
	r.counts.Late += int64(c.late)
	r.mu.Unlock()
}

// fetch reports whether the file holds the key. An error means that this is unknown: the site is down, or
// asks for a later request.
func (r *Receiver) fetch(ctx context.Context, p keyClaim) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	at := p.location
	for range maxRedirects + 1 {
		status, next, body, err := r.get(ctx, at)
		switch {
		case err != nil:
			return false, fmt.Errorf("get %s: %w", at, err)
		case status == http.StatusOK:
			body = strings.TrimSpace(strings.TrimPrefix(body, "\ufeff"))
			return body == p.key, nil
		case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
			return false, fmt.Errorf("get %s: status %d", at, status)
		case status < 300 || status >= 400 || next == "":
			return false, nil
		}
		to, err := protocol.CanonicalURL(at, next)
		if err != nil || hostOf(to) != hostOf(p.location) {
			return false, nil // another host's file proves nothing
		}
		at = to
	}
	return false, nil
}

func (r *Receiver) get(ctx context.Context, url string) (status int, location, body string, err error) {
	c := fetch.Client{Transport: r.Transport(protocol.Origin(url)), Agent: r.UserAgent, Timeout: lookTime, MaxBytes: maxKeyFile}
	a, err := c.Get(ctx, url, http.Header{"Accept": {"text/plain"}, "Accept-Encoding": {"identity"}})
	if err != nil {
		return 0, "", "", err
	}
	defer a.Close()
	b, err := a.Bytes()
	return a.Status, a.Location, string(b), err
}
