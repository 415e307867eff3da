package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
)

// A table is which node runs which partition, and how often each was begun.
type table struct {
	mu    sync.Mutex // guards the rest
	of    map[int]string
	begun map[int]int
}

// engine is an engine that does nothing.
func (b *table) engine(name string) func(context.Context, *cluster.Part) error {
	return func(ctx context.Context, p *cluster.Part) error {
		b.mu.Lock()
		if other := b.of[p.Number]; other != "" {
			return fmt.Errorf("partition %d is run by %s", p.Number, other)
		}
		b.of[p.Number] = name
		b.begun[p.Number]++
		b.mu.Unlock()
		<-ctx.Done()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.of, p.Number)
		return nil
	}
}

func (b *table) snapshot() (of map[int]string, begun int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of = map[int]string{}
	for p, n := range b.of {
		of[p] = n
		begun += b.begun[p]
	}
	return of, begun
}

// settled waits until each partition is run by the node that should have it.
func (r *rig) settled(b *table, partitions int, names []string) (of map[int]string, begun int) {
	r.Helper()
	r.eventually(fmt.Sprintf("%v run all partitions", names), func() bool {
		of, begun = b.snapshot()
		for p := 1; p <= partitions; p++ {
			if of[p] != partition.Owner(p, names) {
				return false
			}
		}
		return true
	})
	return of, begun
}

// When a node comes or goes, its share of the partitions moves, and no other: not more than one in n, and a tenth. An engine whose partition does
// not move is not stopped. Nodes with other settings are refused.
func TestOnlyAShareMoves(t *testing.T) {
	t.Parallel()
	const partitions, nodes = 64, 4
	r, b := newRig(t, 1), &table{of: map[int]string{}, begun: map[int]int{}}
	var names []string
	add := func() *running {
		name := fmt.Sprint("node", len(names))
		names = append(names, name)
		return r.run(&cluster.Node{Name: name, Partitions: partitions, Lease: time.Minute, Snapshots: time.Hour, Engine: b.engine(name)})
	}
	for range nodes {
		add()
	}
	before, begun := r.settled(b, partitions, names)
	moved := func(what string) {
		t.Helper()
		after, now := r.settled(b, partitions, names)
		n := 0
		for p, was := range before {
			if after[p] != was {
				n++
			}
		}
		if most := partitions * (10 + nodes + 1) / (10 * (nodes + 1)); n == 0 || n > most || now-begun != n {
			t.Errorf("when a node %s, %d of %d partitions move, at most %d should; %d engines are begun", what, n, partitions, most, now-begun)
		}
		before, begun = after, now
	}
	last := add()
	moved("comes")
	last.stop()
	names = names[:nodes]
	moved("goes")

	last.Partitions = 8
	last.Conn = must.Get(nats.Connect(r.servers[0].ClientURL()))
	defer last.Conn.Close()
	if err := last.Node.Run(t.Context()); err == nil {
		t.Error("a node with another number of partitions runs")
	}
}

// A node whose renewals hang asks nothing after its right has ended, though its engine does not stop, and the next one asks nothing before.
func TestANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	var mu sync.Mutex // guards the rest
	asked := map[string][2]time.Time{}
	ended := map[string]bool{}
	engine := func(name string) func(context.Context, *cluster.Part) error {
		return func(ctx context.Context, p *cluster.Part) error {
			for {
				mu.Lock()
				now := time.Now()
				if right := now.Before(p.Ends()); right {
					span := asked[name]
					if span[0].IsZero() {
						span[0] = now
					}
					span[1] = now
					asked[name] = span
				} else if ctx.Err() != nil {
					ended[name] = true
					mu.Unlock()
					return nil
				}
				if name == "second" && ctx.Err() != nil {
					mu.Unlock()
					return nil
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		}
	}
	cable := &wire{make(chan struct{})}
	node := func(name string) *cluster.Node {
		return &cluster.Node{Name: name, Partitions: 1, Lease: 2 * time.Second, Snapshots: time.Hour, Engine: engine(name)}
	}
	first := r.run(node("first"), nats.SetCustomDialer(cable))
	has := func(name string) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return !asked[name][0].IsZero() }
	}
	r.eventually("the first node asks", has("first"))
	second := r.run(node("second"))
	close(cable.cut)
	r.eventually("the second node asks", has("second"))
	second.stop()
	first.stop()
	if a, b := asked["first"], asked["second"]; !a[1].Before(b[0]) || !ended["first"] {
		t.Errorf("the first node asked until %v, the second from %v on; the first was stopped: %v", a[1], b[0], ended["first"])
	}
}

// While NATS is away all engines stop. When it is back, all go on: also if it has lost all that it had.
func TestNATSIsAway(t *testing.T) {
	t.Parallel()
	const partitions = 6
	r, b := newRig(t, 1), &table{of: map[int]string{}, begun: map[int]int{}}
	names := []string{"node0", "node1"}
	for _, name := range names {
		r.run(&cluster.Node{Name: name, Partitions: partitions, Lease: 2 * time.Second, Snapshots: time.Hour, Engine: b.engine(name)})
	}
	r.settled(b, partitions, names)
	for lost := range 2 {
		r.restart(0, func() {
			r.eventually("all engines have stopped", func() bool { of, _ := b.snapshot(); return len(of) == 0 })
			if lost > 0 {
				r.servers[0].Options.StoreDir = t.TempDir()
			}
		})
		r.settled(b, partitions, names)
	}
}

// When NATS stops to send what it has, nobody takes that for the silence of another node: all engines go on, and a node that comes gets its share.
func TestTheListOfKeysBreaksOff(t *testing.T) {
	t.Parallel()
	const partitions = 12
	r, b := newRig(t, 1), &table{of: map[int]string{}, begun: map[int]int{}}
	names := []string{"node0", "node1", "node2"}
	run := func(name string) {
		r.run(&cluster.Node{Name: name, Partitions: partitions, Lease: time.Minute, Snapshots: time.Hour, Engine: b.engine(name)})
	}
	run(names[0])
	run(names[1])
	_, before := r.settled(b, partitions, names[:2])
	js := must.Get(jetstream.New(must.Get(nats.Connect(r.servers[0].ClientURL()))))
	defer js.Conn().Close()
	keys := must.Get(js.Stream(t.Context(), "KV_parley-crawl-test"))
	broken := map[string]bool{}
	for c := range keys.ConsumerNames(t.Context()).Name() {
		broken[c] = true
		must.OK(t, keys.DeleteConsumer(t.Context(), c))
	}
	r.eventually("both nodes hear again", func() bool {
		again := 0
		for c := range keys.ConsumerNames(t.Context()).Name() {
			if !broken[c] {
				again++
			}
		}
		return again >= len(broken)
	})
	if of, now := b.snapshot(); len(broken) != 2 || len(of) != partitions || now != before {
		t.Errorf("%d lists were open; of %d partitions %d run, and %d engines were begun since", len(broken), partitions, len(of), now-before)
	}
	run(names[2])
	r.settled(b, partitions, names)
}

// An engine that cannot go on ends its node, which gives its partitions back: nobody waits for its leases.
func TestAnEngineFails(t *testing.T) {
	t.Parallel()
	r, b := newRig(t, 1), &table{of: map[int]string{}, begun: map[int]int{}}
	full := errors.New("no space left")
	conn := must.Get(nats.Connect(r.servers[0].ClientURL()))
	defer conn.Close()
	fails := &cluster.Node{Conn: conn, Crawl: "test", Name: "fails", Dir: t.TempDir(), Partitions: 4, Lease: time.Hour, Snapshots: time.Hour, Log: slog.New(slog.DiscardHandler),
		Engine: func(ctx context.Context, p *cluster.Part) error {
			if p.Number == 4 {
				return full
			}
			return b.engine("fails")(ctx, p)
		}}
	if err := fails.Run(t.Context()); !errors.Is(err, full) {
		t.Errorf("the node ends with %v", err)
	}
	r.run(&cluster.Node{Name: "next", Partitions: 4, Lease: time.Hour, Snapshots: time.Hour, Engine: b.engine("next")})
	r.eventually("the next node has all partitions", func() bool { of, _ := b.snapshot(); return len(of) == 4 })
}

// Each partition hears what the others would spend, also those that no node has at the moment, and what they tell anew.
func TestPartitionsTellWhatTheyWouldSpend(t *testing.T) {
	t.Parallel()
	const partitions = 12
	r := newRig(t, 1)
	var mu sync.Mutex
	parts := map[int]*cluster.Part{}
	sum := 0.
	tell := func(p *cluster.Part, budget float64) { p.Bid(fresh.Demand{Budget: budget, Base: budget / 2}) }
	run := func(name string) *running {
		return r.run(&cluster.Node{Name: name, Partitions: partitions, Lease: 20 * time.Second, Snapshots: time.Hour, Engine: func(ctx context.Context, p *cluster.Part) error {
			mu.Lock()
			if parts[p.Number] == nil {
				sum += float64(p.Number)
				tell(p, float64(p.Number))
			}
			parts[p.Number] = p
			mu.Unlock()
			<-ctx.Done()
			return nil
		}})
	}
	run("node0")
	other := run("node1")
	heard := func(what string) {
		t.Helper()
		r.eventually(what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			for number, p := range parts {
				if o := p.Others(); o.Budget != sum-float64(number) || o.Base != o.Budget/2 {
					return false
				}
			}
			return len(parts) == partitions
		})
	}
	heard("all hear of all others")
	other.stop()
	heard("what was told stays")
	mu.Lock()
	for number, p := range parts {
		if number == 5 {
			tell(p, 1005)
			sum += 1000
		}
	}
	mu.Unlock()
	r.eventually("the new demand is heard", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return parts[7].Others().Budget == sum-7 && parts[5].Others().Budget == sum-1005
	})
}
