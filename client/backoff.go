package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

const (
	firstWait     = 500 * time.Millisecond // wait after the first failure in a row
	firstAway     = 2 * time.Second        // the same where a gateway says that the site is unreachable: it is probably restarting
	longestWait   = time.Minute            // upper bound of that wait, however many failures
	retryDoor     = 5 * time.Minute        // until a door that refused us is tried again
	retrySoon     = time.Minute            // until a door that failed several times is tried again
	retryAway     = 10 * time.Second       // the same behind such a gateway; doubled each time
	maxFails      = 3                      // failures of a door before a lesser one is used, and of bundles or archives before pages are requested
	longestMeta   = 6 * time.Hour          // upper bound until bundles or archives that failed are tried again
	pardons       = 20                     // token bucket: failures in a row that are forgiven when the door delivers something in between
	pardonEvery   = 10 * time.Second       // until the bucket gains one token
	longestBroken = 24 * time.Hour         // upper bound until a manifest that could not be read to its end is read again
	manifestTax   = 2                      // after a failure, a manifest is read again after this many times its reading time at the earliest
	forever       = 100 * 365 * 24 * time.Hour
)

// handleFailure handles a failure: it decides whether to leave the door, reports the error, and backs off. It
// returns an error if the caller or ctx has ended the range.
func (f *follower) handleFailure(ctx context.Context, door Door, err error) error {
	var asked time.Duration // Retry-After of the site
	status := statusOf(err)
	if status != nil {
		asked = status.RetryAfter
	}
	if f.want.dropForm(door, status) {
		return f.report(err)
	}
	if f.want.dropContents(err) {
		if err := f.report(err); err != nil {
			return err
		}
		return pause.Sleep(ctx, asked)
	}
	d := f.doors.state(door)
	bye := new(byeError)
	isBye := errors.As(err, &bye)
	var leave time.Duration // how long this door is not used; the others may be
	switch {
	case d == nil:
	case errors.Is(err, protocol.ErrEpoch), errors.Is(err, protocol.ErrTooOld):
		f.resync = true
		if status != nil && status.Status == http.StatusConflict && status.head.Epoch == f.cursor.Epoch {
			f.cursor = protocol.Cursor{} // the site was set back: its manifest may stand before our cursor
		}
	case isBye && bye.code < 4500:
		asked = min(bye.retry, maxHint)
		f.told = ""
		f.doors.log.Info("the site closes the stream", "reason", bye.reason)
	case isBye:
		leave = forever
	case refuses(err):
		leave = around(f.want.hurried(retryDoor))
	case door == Stream && asked > 0: // the stream is full; other doors may not be
		leave = asked + rand.N(asked/5+1)
	default:
		// A network failure does not justify reading the whole manifest.
		network := new(url.Error)
		if d.fails++; d.fails >= maxFails && (door == Stream || !errors.As(err, &network)) {
			leave = retrySoon
			if isAway(status) {
				leave = min(leave, retryAway<<min(d.fails-maxFails, 16))
			}
			leave = around(f.want.hurried(leave))
		}
	}
	if leave > 0 { // use a lesser door at once
		d.until = time.Now().Add(leave)
		if d.down {
			return nil
		}
		d.down = true
		f.doors.log.Info("a door is not used for a while", "door", string(door), "for", leave.Round(time.Second), "meanwhile", string(f.doors.best(works)))
		return f.report(err)
	}
	if !isBye {
		if err := f.report(err); err != nil {
			return err
		}
	}
	wait := firstWait
	if isAway(status) {
		wait = firstAway
	}
	wait = f.want.hurried(min(wait<<min(f.doors.tries, 16), longestWait))
	f.doors.tries++
	wait -= rand.N(wait/2 + 1)
	if asked > 0 {
		wait = max(wait, asked+rand.N(asked/5+1))
	}
	if f.resync || door == Manifest {
		wait = max(wait, time.Until(f.manifest.schedule.spared))
	}
	return pause.Sleep(ctx, wait)
}

// isAway reports whether a status, which may be nil, is a gateway's answer for a site that it cannot reach.
func isAway(s *StatusError) bool {
	return s != nil && (s.Status == http.StatusBadGateway || s.Status == http.StatusServiceUnavailable || s.Status == http.StatusGatewayTimeout)
}

// refuses reports whether err says that the door does not exist for us, rather than that it fails now.
func refuses(err error) bool {
	if status := statusOf(err); status != nil {
		switch status.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
			return true
		}
		return status.Status < 500
	}
	var page *typeError
	return errors.As(err, &page) || errors.Is(err, wsconn.ErrSubprotocol)
}

// around varies a duration by a tenth, so that followers spread.
func around(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
