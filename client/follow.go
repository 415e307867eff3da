package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

const (
	firstWait     = 500 * time.Millisecond // wait after the first failure in a row
	firstAway     = 2 * time.Second        // the same where a gateway says that the site is unreachable: it restarts
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

// Follow yields what a site offers and what changes there, until ctx ends or the caller breaks out of the
// range.
//
// The zero cursor begins with the manifest, as a snapshot of many Steps; a stored cursor resumes where it
// stands. Follow then uses the best Door that works: the stream, else long polling, else reading the manifest
// from time to time; a better door is tried again every few minutes. Where the site does not accept the
// cursor, and after a gap, Follow begins a snapshot by itself. A manifest without news yields no Step. With
// Once Follow reads the manifest and ends.
//
// An error is a report, with a zero Step: the door failed or refused. Follow backs off by half a second to a
// minute (up to an hour if the site asks for that), and resumes from its cursor; the next Step, without
// Changes where nothing is new, shows that the site is reachable again. Only a Base that is no URL and an
// *OfferError end Follow. Errors wrap *StatusError where the site answered with such a status, and
// protocol.ErrEpoch, protocol.ErrTooOld or protocol.ErrTruncated where those apply.
//
// Follow runs in the caller's goroutine, and stands still while the caller handles a step; a site may close
// the stream of a caller that takes too long, which costs a reconnection. After the range nothing keeps
// running.
func Follow(ctx context.Context, src *Source, cursor protocol.Cursor) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		f, err := newFollower(src, cursor)
		if err != nil {
			yield(Step{}, fmt.Errorf("follow: %w", err))
			return
		}
		defer f.close()
		f.yield = yield
		if src.Once {
			f.once(ctx)
			return
		}
		f.run(ctx)
	}
}

// A follower is the state of one range over Follow.
type follower struct {
	*fetcher
	poll        time.Duration
	askEvery    time.Duration
	every       func() time.Duration
	maxManifest int64
	log         *slog.Logger
	yield       func(Step, error) bool

	as          protocol.Form // used where choose is nil
	choose      func(*protocol.Discovery, protocol.Cursor) protocol.Form
	filter      protocol.Filter
	late        bool // Source.ManifestFirst
	bundleEvery time.Duration
	bundleCount int
	have        func(url string, d protocol.Digest) ([]byte, error)
	archives    spool

	offer      *protocol.Discovery // nil: unknown, and not needed where As is AsMeta
	plainUntil time.Time           // until then the form is AsMeta
	noArchive  bool                // the snapshot that is needed is not available as an archive

	archiveTag  string // ETag of the last archive applied
	packing     map[string]wsconn.Packing
	recent      map[string]version
	recentBytes int

	pieces int // failures in a row to read a bundle or archive to its end

	cursor protocol.Cursor
	head   protocol.Cursor // the site's head, as last stated
	resync bool            // a snapshot is needed before anything else
	tries  int             // failures since the last success

	pardoned time.Time // when the token bucket of pardons is full again
	broken   int       // failures in a row to read the manifest to its end
	spared   time.Time // the manifest is not read again because of a failure before then

	lost            bool // the door failed, and no Step has been emitted since
	found           bool // the site has stated its doors
	stream, changes doorState
	stands          Door // the last door that delivered something

	pollAt             time.Time // when the manifest is to be read next
	etag, lastModified string    // of the last manifest read to its end
}

// A doorState is the state of the stream door or the changes door.
type doorState struct {
	url   string // empty if the site has none
	shut  bool   // the caller has disabled it
	until time.Time
	fails int  // in a row
	down  bool // not used before until; its failures are no longer reported
}

func (d *doorState) exists() bool { return d.url != "" && !d.shut }

// open reports whether the door may be tried now; works reports whether it is not known to fail: a failing
// door must not keep Follow from one that works.
func (d *doorState) open(now time.Time) bool { return d.exists() && !now.Before(d.until) }
func (d *doorState) works() bool             { return d.exists() && !d.down }

// errStop carries the caller's break up from nested calls.
var errStop = errors.New("the caller has stopped")

func newFollower(src *Source, cursor protocol.Cursor) (*follower, error) {
	ask, err := newFetcher(src)
	if err != nil {
		return nil, err
	}
	f := &follower{fetcher: ask,
		poll: src.Poll, askEvery: src.AskEvery, every: src.Every, maxManifest: cmp.Or(src.MaxManifest, DefaultMaxManifest), log: src.Log,
		cursor: cursor, resync: cursor.IsZero(),
		stream: doorState{shut: src.NoStream}, changes: doorState{shut: src.NoChanges},
		etag: src.ETag, lastModified: src.LastModified,
		as: cmp.Or(src.As, protocol.AsMeta), choose: src.Choose, late: src.ManifestFirst, filter: src.Filter, have: src.Held,
		bundleEvery: src.BundleEvery, bundleCount: src.BundleCount,
		packing:  map[string]wsconn.Packing{protocol.SubprotocolZstd: new(coding.Messages)},
		archives: spool{dir: src.Temp, most: cmp.Or(src.MaxArchive, DefaultMaxArchive)},
	}
	if f.poll <= 0 {
		f.poll = defaultPoll
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f, nil
}

// A DoorError is the failure of one of a site's doors. The others may still be open.
type DoorError struct {
	Base string
	Door Door
	Err  error
}

func (e *DoorError) Error() string { return fmt.Sprintf("follow %s: %s: %v", e.Base, e.Door, e.Err) }

func (e *DoorError) Unwrap() error { return e.Err }

// hurried returns d, or Hurry if that is set and shorter.
func (f *fetcher) hurried(d time.Duration) time.Duration { return pause.AtMost(d, f.hurry) }

// nextLook returns the time until the manifest is read again.
func (f *follower) nextLook() time.Duration {
	if f.every != nil {
		return max(f.hurried(time.Second), f.every())
	}
	return around(f.poll)
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		door, err := f.turn(ctx)
		if err == nil {
			continue
		}
		if err == errStop || ctx.Err() != nil {
			return
		}
		if offer := f.refused(door, err); offer != nil {
			f.report(fmt.Errorf("follow %w", offer))
			return
		}
		if f.settle(ctx, door, &DoorError{f.base, door, err}) != nil {
			return
		}
	}
}

// once reads the manifest, unless it is still the one that the caller knows.
func (f *follower) once(ctx context.Context) {
	err := f.learn(ctx)
	if err == nil {
		conditional := f.etag != ""
		if err = f.takeManifest(ctx, true); err != nil && conditional && f.etag == "" {
			err = f.takeManifest(ctx, false) // the site sent a part of a manifest that the caller does not have
		}
	}
	if err == nil || err == errStop || ctx.Err() != nil {
		return
	}
	if offer := f.refused(Manifest, err); offer != nil {
		f.report(fmt.Errorf("follow %w", offer))
		return
	}
	f.report(&DoorError{f.base, Manifest, err})
}

// turn does one thing at the best available door: a connection, a request, or a wait. It returns the door and
// its error.
func (f *follower) turn(ctx context.Context) (Door, error) {
	if err := f.learn(ctx); err != nil {
		return Manifest, err
	}
	if f.resync && !f.noArchive && !f.asksSite() && f.form() == protocol.AsSite {
		return f.takeSite(ctx)
	}
	if f.resync {
		return Manifest, f.takeManifest(ctx, false)
	}
	if !f.found {
		if err := f.discover(ctx); err != nil {
			return Manifest, err
		}
	}
	due, now := f.pollAt, time.Now()
	if f.cursor.IsZero() { // the other doors need a cursor to start from
		if now.Before(due) {
			return Manifest, pause.Sleep(ctx, due.Sub(now))
		}
		return Manifest, f.look(ctx)
	}
	if now.Before(due) || f.stream.works() || f.changes.works() {
		if f.stream.open(now) {
			return Stream, f.takeStream(ctx)
		}
		if f.changes.open(now) {
			return Changes, f.takeChanges(ctx)
		}
	}
	for _, d := range []*doorState{&f.stream, &f.changes} {
		if d.exists() && d.until.Before(due) && now.Before(d.until) {
			due = d.until
		}
	}
	if now.Before(due) {
		return Manifest, pause.Sleep(ctx, due.Sub(now))
	}
	return Manifest, f.look(ctx)
}

// settle handles a failure: it decides whether to leave the door, reports the error, and backs off. It
// returns an error if the caller or ctx has ended the range.
func (f *follower) settle(ctx context.Context, door Door, err error) error {
	if f.resync && !f.noArchive && f.offer != nil && f.form() == protocol.AsSite {
		f.noArchive = true // the failed request was for an archive: use the manifest instead
		return f.report(err)
	}
	d := f.state(door)
	bye := new(byeError)
	isBye := errors.As(err, &bye)
	var asked time.Duration // Retry-After of the site
	var status *StatusError
	if errors.As(err, &status) {
		asked = status.RetryAfter
	}
	if status != nil && status.Status == http.StatusBadRequest && d != nil && f.choose != nil && f.form() != protocol.AsMeta {
		f.plainUntil = time.Now().Add(around(f.hurried(retryDoor))) // the site does not deliver in that form after all
		f.offer = nil
		return f.report(err)
	}
	if broken := new(pieceError); errors.As(err, &broken) {
		if f.pieces++; refuses(err) {
			f.pieces = max(f.pieces, maxFails)
		}
		if now := time.Now(); f.pieces >= maxFails && f.form() != protocol.AsMeta { // the changes alone may be readable, and each page by itself
			plain := f.hurried(min(retryDoor<<min(f.pieces-maxFails, 16), longestMeta))
			f.plainUntil = now.Add(around(plain))
			f.log.Warn("changes are requested without page contents", "site", f.base, "failures", f.pieces, "for", plain)
			if err := f.report(err); err != nil {
				return err
			}
			return pause.Sleep(ctx, asked)
		}
	}
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
		f.lost = true
		f.log.Info("the site closes the stream", "site", f.base, "reason", bye.reason)
	case isBye:
		leave = forever
	case refuses(err):
		leave = around(f.hurried(retryDoor))
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
			leave = around(f.hurried(leave))
		}
	}
	if leave > 0 { // use a lesser door at once
		d.until = time.Now().Add(leave)
		if d.down {
			return nil
		}
		d.down = true
		f.log.Info("a door is not used for a while", "site", f.base, "door", string(door), "for", leave.Round(time.Second), "meanwhile", string(f.best()))
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
	wait = f.hurried(min(wait<<min(f.tries, 16), longestWait))
	f.tries++
	wait -= rand.N(wait/2 + 1)
	if asked > 0 {
		wait = max(wait, asked+rand.N(asked/5+1))
	}
	if f.resync || door == Manifest {
		wait = max(wait, time.Until(f.spared))
	}
	return pause.Sleep(ctx, wait)
}

// isAway reports whether a status, which may be nil, is a gateway's answer for a site that it cannot reach.
func isAway(s *StatusError) bool {
	return s != nil && (s.Status == http.StatusBadGateway || s.Status == http.StatusServiceUnavailable || s.Status == http.StatusGatewayTimeout)
}

// best returns the best door that is not known to fail.
func (f *follower) best() Door {
	switch {
	case f.stream.works():
		return Stream
	case f.changes.works():
		return Changes
	}
	return Manifest
}

// refuses reports whether err says that the door does not exist for us, rather than that it fails now.
func refuses(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
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

// went records that a door delivered something. That resets the failure count, but only so often (pardons): a
// door that delivers a little and fails, again and again, is soon tried no more often than one that delivers
// nothing.
func (f *follower) went(door Door) {
	if now := time.Now(); f.tries > 0 {
		if f.pardoned.Before(now) {
			f.pardoned = now
		}
		if next := f.pardoned.Add(pardonEvery); next.Sub(now) <= pardons*pardonEvery {
			f.tries, f.pardoned = 0, next
		}
	}
	if d := f.state(door); d != nil {
		d.fails, d.down, d.until = 0, false, time.Time{}
	}
	f.standsOn(door)
}

// standsOn logs which door is in use, if that has changed or an error was reported since.
func (f *follower) standsOn(door Door) {
	if f.stands != door || f.lost {
		f.stands = door
		f.log.Info("connected", "site", f.base, "door", string(door), "cursor", f.cursor.String())
	}
}

func (f *follower) state(door Door) *doorState {
	switch door {
	case Stream:
		return &f.stream
	case Changes:
		return &f.changes
	}
	return nil
}

// mended emits a Step without changes after a failure, so that the caller learns that the door works again
// though nothing is new.
func (f *follower) mended(door Door, as protocol.Form) error {
	if !f.lost {
		return nil
	}
	return f.emit(Step{Cursor: f.cursor, Door: door, As: as})
}

func (f *follower) emit(s Step) error {
	f.lost, s.Discovery = false, f.discovery
	if !f.yield(s, nil) {
		return errStop
	}
	return nil
}

func (f *follower) report(err error) error {
	f.lost = true
	if !f.yield(Step{}, err) {
		return errStop
	}
	return nil
}

// at returns the cursor of the next request: zero if a snapshot is needed.
func (f *follower) at() protocol.Cursor {
	if f.resync {
		return protocol.Cursor{}
	}
	return f.cursor
}

// take applies a message: it checks that the message continues the cursor, and emits its changes.
func (f *follower) take(ctx context.Context, door Door, as protocol.Form, m *protocol.Message) error {
	f.heads(m)
	switch m.Kind {
	case protocol.Bundle:
		if as != protocol.AsBatch {
			return fmt.Errorf("received a bundle, but requested the form %s", as)
		}
		return f.takeBundle(ctx, door, m)
	case protocol.Archive:
		if as != protocol.AsSite {
			return fmt.Errorf("received an archive, but requested the form %s", as)
		}
		return f.takeArchive(ctx, door, m)
	case protocol.Batch:
		if m.From != f.at() {
			return fmt.Errorf("batch starts after cursor %v, not %v", m.From, f.at())
		}
	case protocol.Ev, protocol.Mark:
	default:
		return nil // a message kind of a later version
	}
	if f.resync { // changes are of no use without a snapshot: an archive was requested
		return errNoArchive
	}
	if !m.From.IsZero() && m.From != f.cursor { // a message before this one was lost
		return fmt.Errorf("%s message starts after cursor %v, not %v", m.Kind, m.From, f.cursor)
	}
	return f.advance(door, as, m)
}

// advance emits the changes up to m.To, which must continue the caller's cursor.
func (f *follower) advance(door Door, as protocol.Form, m *protocol.Message) error {
	if err := f.continues(m.To); err != nil {
		return err
	}
	for _, c := range m.Changes {
		if c.Seq <= f.cursor.Seq || c.Seq > m.To.Seq {
			return fmt.Errorf("change %d is outside the range from %v to %v", c.Seq, f.cursor, m.To)
		}
	}
	f.went(door)
	if m.To == f.cursor {
		return f.mended(door, as)
	}
	kept, with, skipped := local(f.base, m.Changes, m.Bodies)
	s := Step{Changes: kept, Cursor: m.To, Door: door, As: as, Skipped: skipped, Behind: behind(m.To, f.head)}
	s.Bodies, s.Outputs = f.decode(kept, with)
	f.cursor = m.To
	return f.emit(s)
}

// heads records the site's head where a message states it.
func (f *follower) heads(m *protocol.Message) {
	if !m.Head.IsZero() {
		f.head = m.Head
	}
}

// continues refuses a watermark that does not continue the caller's cursor.
func (f *follower) continues(to protocol.Cursor) error {
	if to.Epoch != f.cursor.Epoch || to.Seq < f.cursor.Seq {
		return fmt.Errorf("watermark %v does not continue %v", to, f.cursor)
	}
	return nil
}

// around varies a duration by a tenth, so that followers spread.
func around(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
