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
// stands, with a Step without Changes if nothing is new, or the door is the stream. Follow then uses the best
// Door that works: the stream, else long polling, else reading the manifest from time to time; a better door
// is tried again every few minutes. Of a manifest in parts Follow fetches those with the changes after the
// cursor; where they do not reach back so far, it fetches all parts before the first Step. Where the site does
// not accept the cursor, and after a gap, Follow begins a snapshot by itself. A manifest without news yields no
// Step. With Once Follow reads the manifest and ends.
//
// An error is a report, with a zero Step: the door failed or refused. Follow backs off by half a second to a
// minute (up to an hour if the site asks for that), and resumes from its cursor; the next Step, without
// Changes where nothing is new, shows that the site is reachable again. Only a Base that is no URL and an
// *OfferError end Follow. Errors wrap *StatusError where the site answered with such a status, and
// protocol.ErrEpoch, protocol.ErrTooOld, protocol.ErrTruncated or protocol.ErrPart where those apply.
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
		defer f.want.close()
		defer f.manifest.spool.close()
		f.yield = yield
		if src.Once {
			f.once(ctx)
			return
		}
		f.run(ctx)
	}
}

// A follower is one range over Follow, in the caller's goroutine. It chooses a door for each request, and backs
// off after a failure. Position, selection and schedule are shared with the doors.
type follower struct {
	*position
	want     *selection
	manifest *manifestDoor
	messages *messageDoor
	archives *archiveDoor
}

func newFollower(s *Source, cursor protocol.Cursor) (*follower, error) {
	ask, err := newFetcher(s)
	if err != nil {
		return nil, err
	}
	src := ask.src
	table := []*doorState{{door: Stream, shut: src.NoStream}, {door: Changes, shut: src.NoChanges}}
	p := &position{doors: &doors{site: ask.site, log: src.Log, table: table}, cursor: cursor, resync: cursor.IsZero(), doubtful: src.Doubtful}
	if src.Once || cursor.IsZero() {
		p.told = noDoor
	}
	want, next := &selection{fetcher: ask, pos: p, filter: src.Filter}, &schedule{src: src}
	archives := &archiveDoor{p, want, next, ""}
	return &follower{p, want,
		&manifestDoor{position: p, want: want, schedule: next, known: fetch.Validators{ETag: src.ETag, LastModified: src.LastModified},
			spool: partSpool{temp: src.Temp, manifest: ask.manifest}},
		&messageDoor{p, want, archives, decoder{src: src}},
		archives,
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
		if err != nil && (f.ends(ctx, door, err) || f.handleFailure(ctx, door, &DoorError{f.want.base, door, err}) != nil) {
			return
		}
	}
}

// once reads the manifest, unless it is still the one that the caller knows.
func (f *follower) once(ctx context.Context) {
	err := f.want.learn(ctx)
	if err == nil {
		conditional := f.manifest.known.ETag != ""
		if err = f.manifest.take(ctx, true); err != nil && conditional && f.manifest.known.ETag == "" {
			err = f.manifest.take(ctx, false) // the site sent a part of a manifest that the caller does not have
		}
	}
	if err != nil && !f.ends(ctx, Manifest, err) {
		f.report(&DoorError{f.want.base, Manifest, err})
	}
}

// ends reports whether an error ends Follow: the caller or ctx has ended it, or the site does not offer what
// is requested, which is reported.
func (f *follower) ends(ctx context.Context, door Door, err error) bool {
	if err == errStop || ctx.Err() != nil {
		return true
	}
	offer := f.want.refused(door, err)
	if offer != nil {
		f.report(fmt.Errorf("follow %w", offer))
	}
	return offer != nil
}

// turn does one thing at the best available door: a connection, a request, or a wait. It returns the door and
// its error.
func (f *follower) turn(ctx context.Context) (Door, error) {
	if err := f.want.learn(ctx); err != nil {
		return Manifest, err
	}
	if f.resync { // with an archive, from any door, if that is the form; else with the manifest
		if f.noArchive || f.want.asksSite() || f.want.form() != protocol.AsSite {
			return Manifest, f.manifest.take(ctx, false)
		}
		return f.use(ctx, f.doors.best(isOpen))
	}
	if !f.doors.found && !f.want.discover(ctx) { // the manifest names the doors too
		return Manifest, f.manifest.take(ctx, false)
	}
	if next := f.manifest.schedule; time.Since(next.placed) >= askAgain {
		next.place()
	}
	door, due, now := Manifest, f.manifest.schedule.due, time.Now()
	if !f.cursor.IsZero() && !f.doubtful { // the other doors need a cursor to start from
		if now.Before(due) || f.doors.best(works) != Manifest {
			door = f.doors.best(isOpen)
		}
		for _, d := range f.doors.table {
			if exists(d) && d.until.Before(due) && now.Before(d.until) {
				due = d.until
			}
		}
	}
	if door == Manifest && now.Before(due) {
		return door, pause.Sleep(ctx, min(due.Sub(now), askAgain))
	}
	return f.use(ctx, door)
}

// askAgain is how often Source.Every is asked.
const askAgain = time.Hour

// use requests news at a door, once. An archive takes the place of the manifest where that is the form.
func (f *follower) use(ctx context.Context, door Door) (Door, error) {
	switch {
	case door == Stream:
		return door, f.messages.stream(ctx)
	case door == Changes:
		return door, f.messages.changes(ctx)
	case f.resync, f.want.form() == protocol.AsSite && !f.doubtful && !f.cursor.IsZero() && f.want.offer != nil && f.want.offer.Site != "":
		return door, f.archives.get(ctx)
	}
	return door, f.manifest.take(ctx, true)
}
