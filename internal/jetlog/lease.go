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

// LeaseTime is how long a lease lasts, by default, that is not renewed.
const LeaseTime = 5 * time.Second

// A Lease decides which of several programs tries to write a stream. That only one can is not its business: the stream
// refuses the second one. At most one goroutine uses it.
type Lease struct {
	stream   *Stream
	name     string // of who asks
	lasts    time.Duration
	kv       jetstream.KeyValue
	revision uint64
}

// Lease returns a lease of the stream, which has to be acquired, and ends when it has not been renewed for a while, the same
// for all. The name says to people who has it.
func (s *Stream) Lease(name string, lasts time.Duration) *Lease {
	return &Lease{stream: s, name: name + " " + rand.Text(), lasts: lasts}
}

const leaseKey = "writer"

// Acquire waits until it has the lease, or ctx ends, and then returns its error.
func (l *Lease) Acquire(ctx context.Context) error {
	for {
		if l.create(ctx) == nil {
			return nil
		}
		if !pause.For(ctx, again) {
			return ctx.Err()
		}
	}
}

func (l *Lease) create(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.kv == nil {
		l.kv, err = l.stream.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: l.stream.name + "-lease",
			TTL: l.lasts, Replicas: l.stream.replicas(), Storage: jetstream.FileStorage})
		if err != nil {
			l.kv = nil
			return err
		}
	}
	l.revision, err = l.kv.Create(ctx, leaseKey, []byte(l.name))
	return err
}

// Keep renews the lease until ctx ends, and then gives it back; or until another program has it: ErrFenced. While NATS
// is away nobody can have it.
func (l *Lease) Keep(ctx context.Context) error {
	for pause.For(ctx, l.lasts/4) {
		renew, cancel := context.WithTimeout(ctx, patience)
		revision, err := l.kv.Update(renew, leaseKey, []byte(l.name), l.revision)
		cancel()
		wrong := new(jetstream.APIError)
		switch {
		case err == nil:
			l.revision = revision
		case errors.As(err, &wrong) && wrong.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
			if l.create(ctx) == nil {
				continue // it had expired
			}
			if has, err := l.kv.Get(ctx, leaseKey); err == nil && string(has.Value()) != l.name {
				return fmt.Errorf("%w: %s", ErrFenced, has.Value())
			} else if err == nil {
				l.revision = has.Revision() // it was stored, and not acknowledged
			}
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	l.kv.Delete(end, leaseKey, jetstream.LastRevision(l.revision)) // else it expires
	return nil
}
