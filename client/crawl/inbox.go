package crawl

import (
	"context"

	"github.com/parleyweb/parley/client/crawl/internal/intake"
)

// An inbox queues results until they are committed.
type inbox struct{ *intake.Queue[result] }

func newInbox() *inbox { return &inbox{intake.New[result](commitSize, commitBytes)} }

// submit passes work from outside to the committer, and waits until it is committed.
func (b *inbox) submit(ctx context.Context, x result) error {
	done := make(chan error, 1)
	x.done = done
	if !b.Put(x) {
		return ErrRunning
	}
	if x.fetch != nil {
		x.fetch()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Weight, Urgent and End make a result an item of the inbox.
func (x result) Weight() (busy, bytes int) {
	for i := range x.visits {
		bytes += cap(x.visits[i].Body)
	}
	return x.busy, bytes
}

func (x result) Urgent() bool { return x.done != nil && x.fetch == nil }

func (x result) End(err error) {
	if x.answer != nil {
		x.answer.Release()
	}
	if x.done != nil {
		x.done <- err
	}
}
