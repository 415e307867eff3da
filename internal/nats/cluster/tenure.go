package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/pause"
)

// A tenure is the time for which a node has a partition.
type tenure struct {
	n      *Node
	number int
	stop   context.CancelFunc // ends the engine, and then the tenure
	err    error              // of the engine, once the tenure has ended

	ends atomic.Pointer[time.Time]

	mu       sync.Mutex // held while the record is written; guards the next two
	revision uint64     // of the record, as far as is known
	rec      record

	disk
}

var errLost = errors.New("another node has the partition")

// take gets the lease, if the record is still the one that is known.
func (t *tenure) take(ctx context.Context) error {
	t.at.whole = t.rec.Whole
	t.rec.Process, t.rec.Whole = t.n.run.process, false
	t.ends.Store(new(time.Now()))
	err := t.put(ctx, t.rec)
	t.age = t.revision
	return err
}

// put writes the record in place of the known one, which renews the lease. The lock is held, or nobody else has t yet.
func (t *tenure) put(ctx context.Context, r record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.n.wait())
	defer cancel()
	sent := time.Now()
	revision, err := t.n.in.kv.Update(ctx, partKey(t.number), value, t.revision)
	if err != nil {
		return err
	}
	if t.revision, t.rec = revision, r; r.Process != "" {
		t.ends.Store(new(sent.Add(t.n.Lease)))
	}
	return nil
}

// write changes the record. It tries again until ctx or the lease ends, or another node has the partition.
func (t *tenure) write(ctx context.Context, change func(*record)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, *t.ends.Load())
	defer cancel()
	for {
		r := t.rec
		change(&r)
		err := t.put(ctx, r)
		if err == nil {
			return nil
		}
		// It may have been stored, though that was not answered.
		if e, unread := t.get(ctx); unread == nil && e.revision > t.revision {
			is := parseRecord(e.value)
			if is.Process != t.n.run.process {
				return errLost
			}
			t.revision, t.rec = e.revision, is
			continue
		}
		if !pause.For(ctx, min(again, t.n.Lease/16)) {
			return err
		}
	}
}

func (t *tenure) get(ctx context.Context) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, t.n.wait())
	defer cancel()
	e, err := t.n.in.kv.Get(ctx, partKey(t.number))
	if err != nil {
		return entry{}, err
	}
	return entry{e.Value(), e.Revision()}, nil
}

// start returns a function that runs the tenure until stop is called, or the lease is lost.
func (t *tenure) start(ctx context.Context) (run func()) {
	has, lose := context.WithCancel(ctx) // ends with the right
	engine, stop := context.WithCancel(has)
	t.stop = stop
	return func() {
		defer stop()
		var renewing sync.WaitGroup
		renewing.Go(func() {
			defer lose()
			t.keep(has)
		})
		t.n.Log.Info("this node has a partition now", "partition", t.number)
		t.err = t.run(has, engine)
		lose()
		renewing.Wait()
	}
}

// keep renews the lease until ctx ends, or the lease has.
func (t *tenure) keep(ctx context.Context) {
	for {
		wait := min(t.n.Lease/4, time.Until(*t.ends.Load()))
		if wait > 0 && !pause.For(ctx, wait) {
			return
		}
		if err := t.write(ctx, func(*record) {}); err != nil {
			if ctx.Err() == nil {
				t.n.Log.Warn("the lease of a partition was not renewed in time: the engine stops", "partition", t.number, "err", plain(err))
			}
			return
		}
	}
}

// run runs the engine until its ctx ends, stores a snapshot and gives the lease back. It has the lease until ctx ends.
func (t *tenure) run(ctx, engine context.Context) error {
	dir, unprepared := t.prepare(engine)
	var err error
	if unprepared == nil && engine.Err() == nil {
		links, unlink := context.WithCancel(context.WithoutCancel(engine))
		p := &Part{Partition: partition.Partition{Number: t.number, Of: t.n.Partitions}, Dir: dir, is: t, links: links,
			addresses: addresses{of: map[netip.Addr]*sharedAddress{}, more: make(chan struct{}, 1)}}
		p.linked.Go(func() { p.share(links) })
		err = t.n.Engine(engine, p)
		unlink()
		p.linked.Wait()
		switch {
		case engine.Err() != nil && errors.Is(err, context.Canceled):
			err = nil
		case engine.Err() == nil && err == nil:
			err = errEnded
		}
	} else if engine.Err() == nil {
		err = unprepared
	}
	whole := unprepared != nil && t.at.whole
	switch {
	case ctx.Err() != nil: // whatever the engine says, it was stopped in the midst of something
		return nil
	case err != nil:
		err = fmt.Errorf("partition %d: %w", t.number, err)
	case unprepared == nil:
		unsaved := t.save(ctx, nil)
		for tries := 1; tries < 4 && unsaved != nil && pause.For(ctx, time.Second); tries++ { // NATS may elect a leader
			unsaved = t.save(ctx, nil)
		}
		if whole = unsaved == nil; !whole && ctx.Err() == nil {
			t.n.Log.Warn("a partition is given back without a snapshot: the next node begins with an earlier one", "partition", t.number, "err", unsaved)
		}
	}
	end, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if t.write(end, func(r *record) { r.Process, r.Whole = "", whole && r.Snapshot != "" }) == nil {
		t.n.Log.Info("this node has given a partition back", "partition", t.number)
	}
	return err
}
