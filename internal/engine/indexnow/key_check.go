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

// A check is a keyClaim that is being checked. Its other fields are guarded by the lock of keys until done is
// closed.
type check struct {
	keyClaim
	host  string
	tries int
	due   time.Time // of the next try

	left []string // URLs of notices answered by 202
	late int      // number of those notices
	done chan struct{}
	err  error // after done: nil, or a *refusal
}

// keys is what is known of the keys of hosts, and the checks of those that are not known.
type keys struct {
	mu      sync.Mutex
	queue   chan *check         // nil while Run does not run
	checks  map[keyClaim]*check // checks in progress
	again   []*check            // those of them that are tried again
	waiting int                 // URLs in their left fields
	good    cache[keyClaim, time.Time]
	bad     cache[keyClaim, time.Time]
	fails   cache[string, *bucket] // keys that a host did not have
	fresh   bucket                 // key checks, of all hosts
}

// prove checks that the notice comes from its host. It returns late if that is not known yet, and the notice
// is held.
func (k *keys) prove(ctx context.Context, n notice, now func() time.Time) (late bool, err error) {
	k.mu.Lock()
	c, known, err := k.look(n, now())
	k.mu.Unlock()
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
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-c.done: // just now
		return false, c.err
	default:
	}
	if k.waiting+len(n.urls) > maxWaiting {
		return false, &refusal{http.StatusTooManyRequests, "too many notices are waiting for key verification", time.Minute}
	}
	k.waiting += len(n.urls)
	c.left = append(c.left, n.urls...)
	c.late++
	return true, nil
}

// look returns the known result of a notice's keyClaim, or else its check in progress. The caller must hold mu.
func (k *keys) look(n notice, now time.Time) (c *check, known bool, err error) {
	if k.queue == nil {
		return nil, true, &refusal{http.StatusServiceUnavailable, "the receiver is not running", time.Minute}
	}
	if until, ok := k.good.get(n.keyClaim); ok && now.Before(until) {
		return nil, true, nil
	}
	if until, ok := k.bad.get(n.keyClaim); ok && now.Before(until) {
		return nil, true, refuse(http.StatusForbidden, "%s does not contain the key", n.location)
	}
	if c := k.checks[n.keyClaim]; c != nil {
		return c, false, nil
	}
	// Each counts as a failure until it succeeds: many may come before the first is checked.
	fails := bucketOf(&k.fails, n.host)
	if wait := fails.take(1, failBurst, failsPerHour, now); wait > 0 {
		return nil, true, &refusal{http.StatusTooManyRequests, "too many unproven keys for this host", wait}
	}
	if wait := k.fresh.take(1, lookBurst, looksPerHour, now); wait > 0 {
		fails.give(1)
		return nil, true, &refusal{http.StatusTooManyRequests, "too many keys to verify", wait}
	}
	c = &check{keyClaim: n.keyClaim, host: n.host, done: make(chan struct{})}
	select {
	case k.queue <- c:
	default:
		fails.give(1)
		return nil, true, &refusal{http.StatusTooManyRequests, "too many keys to verify", 10 * time.Second}
	}
	k.checks[n.keyClaim] = c
	return c, false, nil
}

// begin returns the queue of checks for Run, nil if there is one already.
func (k *keys) begin() <-chan *check {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue != nil {
		return nil
	}
	k.queue, k.checks = make(chan *check, maxChecks), make(map[keyClaim]*check)
	return k.queue
}

// end abandons all checks when Run ends.
func (k *keys) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.checks {
		c.err = &refusal{http.StatusServiceUnavailable, "the receiver is stopping", time.Minute}
		close(c.done)
	}
	k.queue, k.checks, k.again, k.waiting = nil, nil, nil, 0
}

// requeue queues checks whose next attempt is due.
func (k *keys) requeue(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rest := k.again[:0]
	for _, c := range k.again {
		sent := false
		if !now.Before(c.due) {
			select {
			case k.queue <- c:
				sent = true
			default:
			}
		}
		if !sent {
			rest = append(rest, c)
		}
	}
	clear(k.again[len(rest):])
	k.again = rest
}

// checked records the result of a check: whether the host has the key, or the error for which that is unknown.
// It returns the URLs that have waited for the key, which now is proved.
func (k *keys) checked(c *check, held bool, err error, now time.Time) (left []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil:
		if c.tries++; c.tries < maxTries {
			c.due = now.Add(firstAgain << (2 * (c.tries - 1)))
			k.again = append(k.again, c)
			return nil
		}
		c.err = &refusal{http.StatusTooManyRequests, "the key file cannot be fetched now", badFor}
	case held:
		k.good.put(c.keyClaim, now.Add(goodFor))
		bucketOf(&k.fails, c.host).give(1)
	default:
		k.bad.put(c.keyClaim, now.Add(badFor))
		c.err = refuse(http.StatusForbidden, "%s does not contain the key", c.location)
	}
	delete(k.checks, c.keyClaim)
	k.waiting -= len(c.left)
	close(c.done)
	if c.err != nil {
		return nil
	}
	return c.left
}

// Run checks the keys of notices until ctx ends; then it returns nil, and notices that still wait for their
// key are lost. There may be one Run at a time.
func (r *Receiver) Run(ctx context.Context) error {
	if r.Accept == nil || r.Transport == nil {
		return errors.New("receive indexnow: no Accept or no Transport")
	}
	queue := r.keys.begin()
	if queue == nil {
		return errors.New("receive indexnow: already running")
	}
	var owned sync.WaitGroup
	for range looksAtOnce {
		owned.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case c := <-queue:
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
			r.keys.requeue(r.now())
		}
	}
	owned.Wait()
	r.keys.end()
	return nil
}

// check fetches a key's file, and completes the notices that wait for it.
func (r *Receiver) check(ctx context.Context, c *check) {
	r.count(func(c *counts) { c.Looks++ })
	held, err := r.fetch(ctx, c.keyClaim)
	if ctx.Err() != nil {
		return // end completes it
	}
	if err != nil {
		r.log().Info("indexnow: a key file could not be fetched", "location", c.location, "err", err, "try", c.tries+1)
	}
	seen := make(map[string]bool)
	var urls []string
	for _, u := range r.keys.checked(c, held, err, r.now()) {
		if !seen[u] {
			seen[u] = true
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		return
	}
	n := min(len(urls), urlBurst)
	if r.charge(c.host, n) > 0 {
		r.log().Info("indexnow: URLs dropped: too many for this host", "host", c.host, "urls", len(urls))
		return
	}
	if err := r.hand(ctx, urls[:n]); err != nil {
		r.log().Error("indexnow: notices could not be stored after verification of their key", "host", c.host, "err", err)
		return
	}
	r.count(func(n *counts) { n.Late += int64(c.late) })
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
