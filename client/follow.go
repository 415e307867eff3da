package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
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
	*position
	schedule *schedule

	offer      *protocol.Discovery // nil: unknown, and not needed where As is AsMeta
	plainUntil time.Time           // until then the form is AsMeta

	archiveTag string // ETag of the last archive applied
	bodies     decoder
	known      fetch.Validators // of the last manifest read to its end
}

func newFollower(src *Source, cursor protocol.Cursor) (*follower, error) {
	ask, err := newFetcher(src)
	if err != nil {
		return nil, err
	}
	table := []*doorState{{door: Stream, shut: src.NoStream}, {door: Changes, shut: src.NoChanges}}
	return &follower{fetcher: ask, bodies: decoder{src: ask.src}, schedule: &schedule{src: ask.src},
		position: &position{doors: &doors{site: ask.site, log: ask.src.Log, table: table}, cursor: cursor, resync: cursor.IsZero()},
		known:    fetch.Validators{ETag: src.ETag, LastModified: src.LastModified},
	}, nil
}

// A DoorError is the failure of one of a site's doors. The others may still be open.
type DoorError struct {
	Base string
	Door Door
	Err  error
}

func (e *DoorError) Error() string { return fmt.Sprintf("follow %s: %s: %v", e.Base, e.Door, e.Err) }

func (e *DoorError) Unwrap() error { return e.Err }

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
		conditional := f.known.ETag != ""
		if err = f.takeManifest(ctx, true); err != nil && conditional && f.known.ETag == "" {
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
	if !f.doors.found {
		if err := f.discover(ctx); err != nil {
			return Manifest, err
		}
	}
	due, now := f.schedule.due, time.Now()
	if !f.cursor.IsZero() { // the other doors need a cursor to start from
		if now.Before(due) || f.doors.best((*doorState).works) != Manifest {
			switch f.doors.best((*doorState).open) {
			case Stream:
				return Stream, f.takeStream(ctx)
			case Changes:
				return Changes, f.takeChanges(ctx)
			}
		}
		for _, d := range f.doors.table {
			if d.exists() && d.until.Before(due) && now.Before(d.until) {
				due = d.until
			}
		}
	}
	if now.Before(due) {
		return Manifest, pause.Sleep(ctx, due.Sub(now))
	}
	return Manifest, f.look(ctx)
}
