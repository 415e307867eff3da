package jetlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/pause"
)

// A Lease decides which of several programs tries to write a stream. That only one can is not its business: the stream refuses the
// second one. So a holder that cannot renew its lease goes on, until another program has it.
//
// The holder renews the lease each quarter of its time, and tries again soon when that fails or is not answered within half of it.
// Another program takes the lease once it has seen no renewal for its whole time, on its own monotonic clock, if in that time NATS has
// stored its own messages with no interruption of more than half of it. So no lease ends while NATS is away or elects a leader, and
// once NATS answers again the holder has the whole time to renew. A holder that runs loses its lease only if it, and not the other
// program, is cut off from NATS for the whole time; or if NATS has lost the bucket.
//
// At most one goroutine uses it.
type Lease struct {
	stream   *Stream
	name     string // of the program that asks
	lasts    time.Duration
	kv       jetstream.KeyValue
	created  time.Time // of the bucket: one that is created later does not have this lease
	revision uint64    // of the last renewal that is known
}

// Lease returns a lease of the stream, which has to be acquired. Its time should be the same for all programs. The name says to people
// which one has it.
func (s *Stream) Lease(name string, lasts time.Duration) *Lease {
	return &Lease{stream: s, name: name + " " + rand.Text(), lasts: lasts}
}

// Keys of the bucket.
const (
	leaseKey = "writer"  // the holder; each of its revisions is a renewal
	waitKey  = "standby" // the program that stored something last while it waited
)

// Acquire waits until it has the lease, or ctx ends, and then returns its error.
func (l *Lease) Acquire(ctx context.Context) error {
	var since, stored time.Time // when the last renewal was seen first, and when NATS stored something from here last
	for {
		if time.Since(stored) > l.lasts/4 && l.wait(ctx) == nil {
			now := time.Now()
			if now.Sub(stored) > l.lasts/2 {
				since = now
			}
			stored = now
		}
		if l.kv != nil && time.Since(stored) <= l.lasts/2 {
			seen := l.revision
			if holder, err := l.claim(ctx, time.Since(since) > l.lasts); err == nil && holder == l.name {
				return nil
			}
			if l.revision != seen {
				since = time.Now()
			}
		}
		if !pause.For(ctx, min(again, l.lasts/4)) {
			return ctx.Err()
		}
	}
}

// wait stores that this program waits for the lease. The bucket is created if need be. Nothing in it expires: for that NATS would go by
// its own clock.
func (l *Lease) wait(ctx context.Context) (err error) {
	limit := l.lasts / 2
	if l.kv == nil {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if l.kv == nil {
		l.revision = 0
		l.kv, err = l.stream.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: l.bucket(),
			Replicas: l.stream.replicas(), Storage: jetstream.FileStorage})
		if err == nil {
			if l.created, err = l.bucketCreated(ctx); err != nil {
				l.kv = nil
			}
		}
	}
	if err == nil {
		_, err = l.kv.PutString(ctx, waitKey, l.name)
	}
	if err != nil && ctx.Err() == nil {
		l.kv = nil // the bucket may have been deleted
	}
	return err
}

// claim renews the lease if this program has it, and takes it if nobody has, or if it is old: not renewed since revision. It returns the
// name of the program that has it then.
func (l *Lease) claim(ctx context.Context, old bool) (holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.lasts/2)
	defer cancel()
	is, err := l.kv.Get(ctx, leaseKey)
	revision := uint64(0)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		revision, err = l.kv.Create(ctx, leaseKey, []byte(l.name))
	case err != nil:
	case is.Revision() < l.revision:
		err = errors.New("a server that is behind has answered")
	case string(is.Value()) == l.name || old && is.Revision() == l.revision:
		revision, err = l.kv.Update(ctx, leaseKey, []byte(l.name), is.Revision())
	default:
		l.revision = is.Revision()
		return string(is.Value()), nil
	}
	if err == nil {
		l.revision = revision
	}
	return l.name, err
}

// isLost reports whether NATS answers, and has no bucket, or another one: it may have lost the stream, too.
func (l *Lease) isLost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.lasts/4)
	defer cancel()
	created, err := l.bucketCreated(ctx)
	return errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && !created.Equal(l.created)
}

func (l *Lease) bucketCreated(ctx context.Context) (time.Time, error) {
	s, err := l.stream.js.Stream(ctx, "KV_"+l.bucket())
	if err != nil {
		return time.Time{}, err
	}
	return s.CachedInfo().Created, nil
}

func (l *Lease) bucket() string { return l.stream.name + "-lease" }

// Keep renews the lease until ctx ends, and then gives it back; or until another program has it, or NATS has lost it: ErrFenced.
func (l *Lease) Keep(ctx context.Context) error {
	for wait := l.lasts / 4; pause.For(ctx, wait); {
		before := l.revision
		holder, err := l.claim(ctx, false)
		if holder != l.name {
			return fmt.Errorf("%w: %s", ErrFenced, holder)
		}
		if (err != nil && !errors.Is(err, context.DeadlineExceeded) || l.revision < before) && l.isLost(ctx) { // no second wait for a server that does not answer
			return fmt.Errorf("%w: NATS has lost the lease", ErrFenced)
		}
		if wait = l.lasts / 4; err != nil {
			wait = min(again, wait)
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	l.kv.Delete(end, leaseKey, jetstream.LastRevision(l.revision)) // else the others wait for its time
	return nil
}
