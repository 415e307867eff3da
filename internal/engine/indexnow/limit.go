package indexnow

import (
	"container/list"
	"time"
)

// A bucket is a rate limit. The zero bucket is full.
type bucket struct {
	used float64
	at   time.Time
}

// take takes n and returns 0, or takes nothing and returns the time until n may be taken.
func (b *bucket) take(n, burst, perHour int, now time.Time) time.Duration {
	if since := now.Sub(b.at); since > 0 {
		b.used = max(b.used-since.Hours()*float64(perHour), 0)
	}
	b.at = now
	if over := b.used + float64(n) - float64(burst); over > 0 {
		return max(time.Duration(over/float64(perHour)*float64(time.Hour)), time.Second)
	}
	b.used += float64(n)
	return 0
}

// give returns n to the bucket.
func (b *bucket) give(n int) { b.used = max(b.used-float64(n), 0) }

// bucketOf returns the bucket of a host.
func bucketOf(c *cache[string, *bucket], host string) *bucket {
	b, ok := c.get(host)
	if !ok {
		b = new(bucket)
		c.put(host, b)
	}
	return b
}

// A cache stores the maxHosts entries used last. The zero value is empty.
type cache[K comparable, V any] struct {
	byKey map[K]*list.Element
	order list.List // of cached, most recently used first
}

type cached[K comparable, V any] struct {
	key   K
	value V
}

func (c *cache[K, V]) get(k K) (v V, ok bool) {
	e := c.byKey[k]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(cached[K, V]).value, true
}

func (c *cache[K, V]) put(k K, v V) {
	if c.byKey == nil {
		c.byKey = make(map[K]*list.Element)
	}
	if e := c.byKey[k]; e != nil {
		e.Value = cached[K, V]{k, v}
		c.order.MoveToFront(e)
		return
	}
	c.byKey[k] = c.order.PushFront(cached[K, V]{k, v})
	if len(c.byKey) > maxHosts {
		last := c.order.Back()
		delete(c.byKey, last.Value.(cached[K, V]).key)
		c.order.Remove(last)
	}
}
