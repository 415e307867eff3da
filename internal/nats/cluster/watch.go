package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A sighting is the newest value of a key, and since when it is known, on the monotonic clock.
type sighting struct {
	entry
	since time.Time
}

// A watch is the list of all keys that NATS sends, and continues with each change.
type watch struct {
	jetstream.KeyWatcher
	cancel context.CancelFunc
	seen   map[string]*sighting // without demands, which the market has
	whole  bool                 // all keys have come
	last   uint64               // the last revision that has come
}

var errBroken = errors.New("the list of keys has broken off")

// hear notes what NATS has up to a revision: that of a value which this node has just stored. So a watch that NATS has forgotten, or that a server
// sends which is behind, is not taken for silence of the other nodes. It is closed then, and another one is opened.
func (n *Node) hear(ctx context.Context, revision uint64) error {
	if n.run.watch != nil {
		soon, cancel := context.WithTimeout(ctx, n.wait()/2)
		defer cancel()
		if n.run.watch.read(soon, n, revision) == nil {
			return nil
		}
		n.unwatch()
	}
	open, cancel := context.WithCancel(context.WithoutCancel(ctx))
	list, err := n.in.kv.WatchAll(open)
	if err != nil {
		cancel()
		return err
	}
	n.run.watch = &watch{KeyWatcher: list, cancel: cancel, seen: map[string]*sighting{}}
	if err := n.run.watch.read(ctx, n, revision); err != nil {
		n.unwatch()
		return err
	}
	n.run.seen = n.run.watch.seen
	return nil
}

// read notes what comes until the list is whole and has a revision. What the node knew before stays as old as it is.
func (w *watch) read(ctx context.Context, n *Node, revision uint64) error {
	for !w.whole || w.last < revision {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			if !ok {
				return errBroken
			} else if e == nil {
				w.whole = true
				continue
			}
			if w.last = max(w.last, e.Revision()); strings.HasPrefix(e.Key(), demandKey) {
				n.note(e.Key(), e.Value())
				continue
			}
			is := &sighting{entry{e.Value(), e.Revision()}, time.Now()}
			if known := n.run.seen[e.Key()]; known != nil && known.revision == is.revision {
				is = known
			}
			if w.seen[e.Key()] = is; e.Operation() != jetstream.KeyValuePut {
				delete(w.seen, e.Key())
			}
		}
	}
	return nil
}

// unwatch closes the watch, if there is one.
func (n *Node) unwatch() {
	if n.run.watch == nil {
		return
	}
	n.run.watch.cancel()
	for range n.run.watch.Updates() { // the NATS client cannot close it before all is taken
	}
	n.run.watch = nil
}
