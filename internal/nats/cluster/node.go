// Package cluster divides a crawl among machines that come and go, by NATS JetStream (V29). The crawl has partitions, each a collection and an engine
// of its own, and each node runs those that it has at the moment.
//
// For a crawl there are in NATS:
//
//	parley-crawl-NAME          key-value: the nodes, and for each partition who has it and its newest snapshot
//	parley-crawl-NAME-urls     stream: the URLs that partitions have found for others, a subject for each receiver
//	parley-crawl-NAME-events   stream: the events of all partitions, a subject for each
//	parley-crawl-NAME-states   objects: the snapshots, which are copies of state.db
//	parley-crawl-NAME-addresses   key-value: which partition may send requests to an address
//
// # The right to ask
//
// Of the nodes that live, rendezvous hashing says which one should have a partition. Which one has it, is a record of NATS with a revision: a lease. The node
// that has it renews it, each time naming the revision that it knows. It may send requests until the lease time has passed since it sent the last
// renewal that succeeded, by its own monotonic clock. Another node may take the partition when it has seen no new revision for the lease time and a margin, by its
// own monotonic clock, and only if NATS then still has that revision. So the right of one node has ended when that of the next one begins. No node compares its
// time with that of another, and NATS lets nothing expire.
//
// A node that runs but does not reach NATS stops its engines when their right ends. While no node reaches NATS, none takes anything from another: see rounds.
//
// # What a node has on its disk
//
// A directory of a partition is as old as the last lease under which it was used, and so is a snapshot: the revision with which a lease began is its age. A node that takes a
// partition goes on with its own directory, unless the snapshot is younger. A state that comes from a snapshot begins a new epoch of events, and its
// bodies are not there: pages are fetched as if they had none.
//
// What a state from before has lost is in the stream of events, after the number that is stored with the state. See teller.
//
// URLs for a partition stay in the stream until a snapshot has them, so that a state that is older than its directory was gets them once more.
package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/pause"
)

// A Node runs partitions of a crawl. Its fields must not change while it runs.
type Node struct {
	Conn       *nats.Conn
	Crawl      string        // its name: letters, digits, '-' and '_'
	Name       string        // of the node, the same whenever it runs; letters, digits, '-' and '_'. Empty: one that is stored in Dir
	Dir        string        // has a directory for each partition
	Partitions int           // the same for all nodes
	Lease      time.Duration // a partition whose node is silent is taken by another one after this time. The same for all nodes
	Snapshots  time.Duration // between two snapshots of a partition that changes
	Events     int           // how many the stream of events keeps; 0: there is none, and Part.Tell must not be called. The same for all nodes
	Log        *slog.Logger

	// Engine runs a partition until ctx ends: because the node does, another node shall have the partition, or Part.Ends has come. When it returns, state.db in
	// Part.Dir is closed. An error ends the node.
	Engine func(ctx context.Context, p *Part) error

	in  bucket
	run life
}

// A life is a run of a node.
type life struct {
	process string               // whoever has a lease has this name
	copying chan struct{}        // has room for the snapshots that are made at once
	last    time.Time            // when NATS was last heard
	seen    map[string]*sighting // what it has, by key
	watch   *watch               // nil: none is open
	market  market
	tenants tenants
}

// Part is a partition that a node has.
type Part struct {
	partition.Partition
	Dir    string
	is     *tenure
	links  context.Context // ends when the engine has: of the connections that it has accepted, and of what it shares
	linked sync.WaitGroup  // for them

	addresses addresses
}

// Ends returns until when requests to the hosts of the partition may be sent. It becomes later while the node has the partition.
func (p *Part) Ends() time.Time { return *p.is.ends.Load() }

// margin is how much longer than the lease time another node waits, should one clock be faster.
func (n *Node) margin() time.Duration { return min(n.Lease/8, 2*time.Second) }

// silent reports whether a key was not renewed for so long that its writer has stopped.
func (n *Node) silent(s *sighting) bool { return time.Since(s.since) > n.Lease+n.margin() }

// Run takes and runs partitions until ctx ends, gives them back, and returns nil. An error means that it cannot run, or an engine.
func (n *Node) Run(ctx context.Context) error {
	if err := n.name(); err != nil {
		return fmt.Errorf("run node in %s: %w", n.Dir, err)
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	n.run.copying, n.run.seen = make(chan struct{}, 2), map[string]*sighting{}
	n.run.market.of, n.run.market.pending = map[int]*fresh.Demand{}, map[int]*fresh.Demand{}
	held, ended := map[int]*tenure{}, make(chan *tenure)
	var failed error
	every := min(n.Lease/8, 2*time.Second)
	next := time.NewTimer(0)
	defer next.Stop()
	for ctx.Err() == nil && failed == nil {
		select {
		case <-ctx.Done():
		case t := <-ended:
			failed = t.err
			delete(held, t.number)
		case <-next.C:
			if err := n.round(ctx); err == nil {
				n.trade(ctx)
				n.assign(ctx, held, ended)
			} else if ctx.Err() == nil {
				n.Log.Warn("NATS does not answer: partitions stop when their lease ends", "err", plain(err))
				if len(held) == 0 { // NATS may have lost all that it had
					n.unwatch()
					failed, n.run.seen = n.open(ctx), map[string]*sighting{}
				}
			}
			next.Reset(every)
		}
	}
	for _, t := range held {
		t.stop()
	}
	for range held {
		t := <-ended
		failed = cmp.Or(failed, t.err)
	}
	n.unwatch()
	if n.in.kv != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		n.in.kv.Delete(end, nodeKey(n.Name)) // else the others wait for the lease time
	}
	return failed
}

// name gives the node its name.
func (n *Node) name() error {
	file := filepath.Join(n.Dir, "node.txt")
	b, err := os.ReadFile(file)
	switch name := strings.TrimSpace(string(b)); {
	case n.Name != "":
	case err == nil && inKey.MatchString(name):
		n.Name = name
	default:
		host, _ := os.Hostname()
		n.Name = regexp.MustCompile(`[^A-Za-z0-9-]`).ReplaceAllString(host, "-") + "-" + rand.Text()[:10]
		if err = os.MkdirAll(n.Dir, 0o755); err == nil {
			err = atomicfile.Write(file, n.Name+"\n", 0o644)
		}
		if err != nil {
			return err
		}
	}
	n.run.process = n.Name + " " + rand.Text()
	return nil
}

// round tells the others that this node lives, and hears what they have told until then. After a time without NATS, everything counts as just seen: whoever was silent then
// could not have been heard.
func (n *Node) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.Lease/4)
	defer cancel()
	revision, err := n.in.kv.PutString(ctx, nodeKey(n.Name), n.run.process)
	if err == nil {
		err = n.hear(ctx, revision)
	}
	if err != nil {
		return err
	}
	if is := (settings{}); n.run.seen[crawlKey] == nil || json.Unmarshal(n.run.seen[crawlKey].value, &is) != nil || is.ID != n.in.id {
		return errOther
	}
	now := time.Now()
	if now.Sub(n.run.last) > n.Lease/2 {
		for _, s := range n.run.seen {
			s.since = now
		}
	}
	n.run.last = now
	n.run.tenants.note(n)
	for key, s := range n.run.seen {
		if isNode(key) && now.Sub(s.since) > 10*n.Lease {
			n.in.kv.Delete(ctx, key, jetstream.LastRevision(s.revision))
		}
	}
	return nil
}

// assign takes the partitions that this node should have, and hands over those that another one should.
func (n *Node) assign(ctx context.Context, held map[int]*tenure, ended chan<- *tenure) {
	nodes := []string{n.Name}
	for key, s := range n.run.seen {
		if name, is := strings.CutPrefix(key, nodeKey("")); is && name != n.Name && !n.silent(s) {
			nodes = append(nodes, name)
		}
	}
	for number := 1; number <= n.Partitions && ctx.Err() == nil; number++ {
		t, owner := held[number], partition.Owner(number, nodes)
		if t != nil {
			if owner != n.Name {
				t.stop()
			}
			continue
		}
		s := n.run.seen[partKey(number)]
		if s == nil {
			s = new(sighting)
		}
		rec := parseRecord(s.value)
		if owner != n.Name || rec.Process != "" && rec.Process != n.run.process && !n.silent(s) {
			continue
		}
		t = &tenure{n: n, number: number, revision: s.revision, rec: rec, disk: disk{at: progress{hurry: make(chan struct{}, 1)}}}
		if err := t.take(ctx); err != nil {
			n.Log.Info("a partition is not taken", "partition", number, "err", err)
			continue
		}
		held[number] = t
		running := t.start(context.WithoutCancel(ctx))
		go func() { running(); ended <- t }()
	}
}

var (
	errEnded = errors.New("the engine has ended by itself")
	errOther = errors.New("NATS has lost what it had of this crawl")
)

// patience is how long a group of requests to NATS may take, and again the wait before what has failed is tried once more.
const (
	patience = 5 * time.Second
	again    = 250 * time.Millisecond
)

// retry tries something until it succeeds, or ctx ends, or it fails for another reason than that NATS does not answer.
func (n *Node) retry(ctx context.Context, try func() error) error {
	for trouble := ""; ; {
		err := plain(try())
		if err == nil || errors.Is(err, errDiffers) || errors.Is(err, jetlog.ErrUnsafe) || errors.Is(err, jetstream.ErrObjectNotFound) ||
			errors.Is(err, errDamaged) || errors.As(err, new(*fs.PathError)) {
			return err
		}
		if text := err.Error(); text != trouble && ctx.Err() == nil {
			trouble = text
			n.Log.Warn("waiting for NATS", "err", err)
		}
		if !pause.For(ctx, again) {
			return err
		}
	}
}

// carry returns a context for moving so many bytes to or from NATS at 1 MiB a second or more. Without its deadline, the NATS client waits for ever after some failures of
// a server.
func carry(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Minute+time.Duration(size>>20)*time.Second)
}
