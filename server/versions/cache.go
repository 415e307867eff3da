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

// A cache is an LRU cache with a bound in bytes.
type cache struct {
	max int64

	mu        sync.Mutex
	bytes     int64
	order     list.List // of *cached, the most recently used first
	byKey     map[cacheKey]*list.Element
	byPage    map[pageID]map[cacheKey]struct{}
	withdrawn int // number of calls of withdraw and clear
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

// since returns the value for put's parameter since. Call it before you begin to
// compute the data.
func (c *cache) since() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.withdrawn
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
	if c.byKey == nil {
		c.byKey, c.byPage = make(map[cacheKey]*list.Element), make(map[pageID]map[cacheKey]struct{})
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
	c.byKey, c.byPage, c.bytes = nil, nil, 0
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

// flights let concurrent callers share one computation of the same key.
type flights[K comparable, V any] struct {
	mu  sync.Mutex
	now map[K]*flight[V]
}

type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

var errFailed = errors.New("the caller that computed the value failed")

// do returns the result of f, or of a concurrent call for the same key. If the
// computing caller gives up, one of the waiting callers computes it.
func (g *flights[K, V]) do(ctx context.Context, key K, f func() (V, error)) (V, error) {
	for {
		g.mu.Lock()
		if g.now == nil {
			g.now = make(map[K]*flight[V])
		}
		w, ok := g.now[key]
		if !ok {
			w = &flight[V]{done: make(chan struct{}), err: errFailed}
			g.now[key] = w
			g.mu.Unlock()
			func() {
				defer func() { // also when f panics
					g.mu.Lock()
					delete(g.now, key)
					g.mu.Unlock()
					close(w.done)
				}()
				w.value, w.err = f()
			}()
			return w.value, w.err
		}
		g.mu.Unlock()
		select {
		case <-w.done:
		case <-ctx.Done():
			return w.value, ctx.Err()
		}
		gaveUp := errors.Is(w.err, context.Canceled) || errors.Is(w.err, context.DeadlineExceeded) || w.err == errFailed
		if !gaveUp {
			return w.value, w.err
		}
		if err := ctx.Err(); err != nil {
			return w.value, err
		}
	}
}
