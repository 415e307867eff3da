package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A market is what the partitions would spend at each price, as they have told in NATS. It stays while a partition has no node: another one will spend it.
type market struct {
	mu      sync.Mutex // guards the rest
	of      map[int]*fresh.Demand
	pending map[int]*fresh.Demand // of partitions that this node has; not in NATS yet
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
	for number, d := range m.of {
		if number != p.Number {
			sum.Add(d)
		}
	}
	return sum
}

// note notes what a partition would spend. What is no demand counts as none.
func (n *Node) note(key string, value []byte) {
	number, d, err := parseDemand(key, value, n.Partitions)
	m := &n.run.market
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[number] = d; err != nil {
		delete(m.of, number)
		n.Log.Warn("what a partition would spend is not known", "key", key, "err", err)
	}
}

// parseDemand returns the number of a partition, from 1 to so many, and what it would spend.
func parseDemand(key string, value []byte, partitions int) (number int, d *fresh.Demand, err error) {
	number, err = strconv.Atoi(strings.TrimPrefix(key, demandKey))
	if err != nil || number < 1 || number > partitions {
		return 0, nil, fmt.Errorf("want the number of a partition, 1 to %d", partitions)
	}
	d = new(fresh.Demand)
	return number, d, json.Unmarshal(value, d)
}

// trade stores what the partitions here have told. What cannot be stored now is stored after the next round.
func (n *Node) trade(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.wait())
	defer cancel()
	m := &n.run.market
	m.mu.Lock()
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
