package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A market is what the partitions would spend at each price, as they have told in NATS. It stays while a partition has no node: another one will spend it.
type market struct {
	mu      sync.Mutex // guards the rest
	of      map[int]*offered
	pending map[int]*fresh.Demand // of partitions that this node has; not in NATS yet
}

type offered struct {
	revision uint64
	fresh.Demand
}

const demandKey = "demand."

var _ fresh.Market = (*Part)(nil)

// Bid implements fresh.Market. The other nodes hear it with the next round.
func (p *Part) Bid(own fresh.Demand) {
	m := &p.is.n.run.market
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending[p.Number] = &own
}

// Others implements fresh.Market.
func (p *Part) Others() (sum fresh.Demand) {
	m := &p.is.n.run.market
	m.mu.Lock()
	defer m.mu.Unlock()
	for number, o := range m.of {
		if number != p.Number {
			sum.Add(&o.Demand)
		}
	}
	return sum
}

// trade stores what the partitions here have told, and takes over what others have. What cannot be stored now is stored after the next round.
func (n *Node) trade(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.wait())
	defer cancel()
	m := &n.run.market
	m.mu.Lock()
	for key, s := range n.run.seen {
		text, is := strings.CutPrefix(key, demandKey)
		number, err := strconv.Atoi(text)
		if o := m.of[number]; !is || err != nil || number < 1 || number > n.Partitions || o != nil && o.revision == s.revision {
			continue
		}
		o := &offered{revision: s.revision}
		if json.Unmarshal(s.value, &o.Demand) != nil { // whatever it is, it is none
			o.Demand = fresh.Demand{}
		}
		m.of[number] = o
	}
	pending := maps.Clone(m.pending)
	m.mu.Unlock()
	for number, d := range pending {
		text, err := json.Marshal(d)
		if err == nil {
			_, err = n.in.kv.Put(ctx, demandKey+strconv.Itoa(number), text)
		}
		if err != nil {
			n.Log.Debug("what a partition would spend is not told yet", "partition", number, "err", err)
			return
		}
		m.mu.Lock()
		if m.pending[number] == d {
			delete(m.pending, number)
		}
		m.mu.Unlock()
	}
}
