package sim

import (
	"math"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// An agenda has the times of all visits and polls, in the frontier's queue: numbers below that of the pages are
// pages, and the rest are manifests.
type agenda struct {
	store store
	queue *frontier.Frontier
}

func newAgenda() (a *agenda, err error) {
	a = &agenda{}
	a.queue, err = frontier.New(frontier.Profit{}, &a.store, nil)
	return a, err
}

// put places something in the queue.
func (a *agenda) put(i int, now, at, rank float64) {
	x := frontier.Entry{Page: frontier.PageID(i) + 1, Site: 1, Rank: float32(rank)} // no host has a limit: there is one queue
	if at > now {
		x.At = millis(at)
	}
	old, ok := a.store.Entry(x.Page)
	if ok && old.At == 0 && x.At != 0 {
		a.queue.Drop([]frontier.Entry{old})
	}
	a.store.Put(x)
	if x.At == 0 {
		a.queue.Add([]frontier.Entry{x})
	}
}

// due calls f for up to n things that are due, in order of their ranks, and returns their number.
func (a *agenda) due(now float64, n int, f func(i int)) (found int, err error) {
	list, err := a.queue.Batch(millis(now), frontier.BatchOptions{Size: n, SameSite: n, Round: n})
	for _, s := range list {
		for _, x := range s.Entries {
			a.queue.Done([]frontier.PageID{x.Page})
			f(int(x.Page) - 1)
		}
	}
	return len(list), err
}

// next is the time at which something is due: now, if it is already, and +Inf if nothing is planned.
func (a *agenda) next(now float64) float64 {
	if a.queue.Len() > 0 {
		return now
	}
	if ms := a.queue.Wake(millis(now)); ms > 0 {
		return daysOf(ms)
	}
	return math.Inf(1)
}

// A store is the frontier's, in memory. It promotes few entries at a time: the frontier asks for thousands,
// while two or three are ready.
type store struct{ frontier.MemoryStore }

// Promote implements frontier.Store.
func (s *store) Promote(now int64, n int) (ready []frontier.Entry, err error) {
	const bite = 8
	for len(ready) < n {
		if next, _ := s.Next(); next == 0 || next > now {
			break
		}
		list, err := s.MemoryStore.Promote(now, bite)
		ready = append(ready, list...)
		if err != nil || len(list) < bite {
			return ready, err
		}
	}
	return ready, nil
}
