package versions

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/parleyweb/parley/protocol"
)

// A versionKey identifies a version of a page, in a coding: "" for the bytes
// themselves, "gzip" or "zstd".
type versionKey struct {
	id     pageID
	digest protocol.Digest
	coding string
}

// A deltaKey identifies a difference between two versions of a page.
type deltaKey struct {
	id        pageID
	base, now protocol.Digest
}

// A cacheKey is a versionKey or a deltaKey.
type cacheKey interface{ page() pageID }

func (k versionKey) page() pageID { return k.id }
func (k deltaKey) page() pageID   { return k.id }

// A cache is an LRU cache with a bound in bytes. It computes an entry once for all
// that ask at the same time.
type cache struct {
	max int64

	mu        sync.Mutex
	bytes     int64
	order     list.List // of *cached, the most recently used first
	byKey     map[cacheKey]*list.Element
	byPage    map[pageID]map[cacheKey]struct{}
	withdrawn int // number of calls of withdraw and clear
	flights   map[cacheKey]*flight
}

type cached struct {
	key  cacheKey
	data []byte
}

// perEntry is the approximate overhead of an entry, in bytes.
const perEntry = 500

func (c *cache) get(key cacheKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).data, true
}

// put stores data, which must not be modified afterwards. An entry of more than an
// eighth of the bound is not stored; nor is any if a page was withdrawn since the
// computation began: it may be the same page.
func (c *cache) put(key cacheKey, data []byte, since int) {
	size := int64(len(data)) + perEntry
	if size > c.max/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok || c.withdrawn != since {
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key, data})
	of := c.byPage[key.page()]
	if of == nil {
		of = make(map[cacheKey]struct{}, 1)
		c.byPage[key.page()] = of
	}
	of[key] = struct{}{}
	for c.bytes += size; c.bytes > c.max; {
		c.remove(c.order.Back())
	}
}

// withdraw removes all entries of a page.
func (c *cache) withdraw(id pageID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawn++
	for key := range c.byPage[id] {
		c.remove(c.byKey[key])
	}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawn++
	c.order.Init()
	clear(c.byKey)
	clear(c.byPage)
	c.bytes = 0
}

// remove removes an entry. mu is held.
func (c *cache) remove(e *list.Element) {
	old := c.order.Remove(e).(*cached)
	delete(c.byKey, old.key)
	of := c.byPage[old.key.page()]
	if delete(of, old.key); len(of) == 0 {
		delete(c.byPage, old.key.page())
	}
	c.bytes -= int64(len(old.data)) + perEntry
}

// A flight is a computation that is being made.
type flight struct {
	done chan struct{}
	data []byte
	err  error
}

var errFailed = errors.New("the caller that computed the value failed")

// load returns the entry of key or the result of compute, which concurrent callers
// of the same key share. compute runs with a token of tokens, and says whether its result
// is to be stored. If the computing caller gives up, one of the waiting callers computes it.
func (c *cache) load(ctx context.Context, key cacheKey, tokens chan struct{}, compute func() (data []byte, keep bool, err error)) ([]byte, error) {
	for {
		if data, ok := c.get(key); ok {
			return data, nil
		}
		f, mine := c.join(key)
		if mine {
			c.fly(ctx, key, f, tokens, compute)
			return f.data, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		gaveUp := errors.Is(f.err, context.Canceled) || errors.Is(f.err, context.DeadlineExceeded) || f.err == errFailed
		if !gaveUp {
			return f.data, f.err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// join returns the flight of key, and whether the caller began it, and is to end it.
func (c *cache) join(key cacheKey) (f *flight, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[key]; ok {
		return f, false
	}
	f = &flight{done: make(chan struct{}), err: errFailed}
	c.flights[key] = f
	return f, true
}

// fly ends a flight with the result of compute.
func (c *cache) fly(ctx context.Context, key cacheKey, f *flight, tokens chan struct{}, compute func() ([]byte, bool, error)) {
	defer func() { // also when compute panics
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		close(f.done)
	}()
	// Another flight may have ended since the caller looked.
	if data, ok := c.get(key); ok {
		f.data, f.err = data, nil
		return
	}
	select {
	case tokens <- struct{}{}:
		defer func() { <-tokens }()
	case <-ctx.Done():
		f.err = ctx.Err()
		return
	}
	c.mu.Lock()
	since := c.withdrawn
	c.mu.Unlock()
	data, keep, err := compute()
	if f.data, f.err = data, err; err == nil && keep {
		c.put(key, data, since)
	}
}
