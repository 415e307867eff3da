package harvest

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"sync"
)

// A budget bounds the bytes of all bodies.
type budget struct {
	mu        sync.Mutex // guards the rest
	all, free int64
	waiters   []waiter
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// take waits for n bytes, or for the whole budget if that is less, first come
// first served, and returns how many it took.
func (b *budget) take(ctx context.Context, n int64) (int64, error) {
	b.mu.Lock()
	n = min(n, b.all)
	if b.free >= n && len(b.waiters) == 0 {
		b.free -= n
		b.mu.Unlock()
		return n, nil
	}
	w := waiter{n, make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.waiters {
		if o.ready == w.ready {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.wake()
			return 0, ctx.Err()
		}
	}
	b.free += n // it was granted meanwhile
	b.wake()
	return 0, ctx.Err()
}

// more takes n bytes, if they are free now. It does not queue behind waiters: those
// wait for responses such as this one to finish.
func (b *budget) more(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.free {
		return false
	}
	b.free -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.wake()
}

func (b *budget) wake() {
	for len(b.waiters) > 0 && b.waiters[0].n <= b.free {
		b.free -= b.waiters[0].n
		close(b.waiters[0].ready)
		b.waiters = b.waiters[1:]
	}
}

// ahead bounds the bytes that are taken before a body is read. A larger body takes
// more as it grows: else a site that announces a long body and sends little would
// keep memory from all others.
const ahead = 1 << 20

// A share is the part of the budget that a response has taken.
type share struct {
	of *budget
	n  int64
}

// reach makes the share at least n bytes, if so many are free.
func (s *share) reach(n int64) bool {
	if n <= s.n {
		return true
	}
	if !s.of.more(n - s.n) {
		return false
	}
	s.n = n
	return true
}

const (
	leastBuffer = 12 // as a power of two: 4 KiB
	mostBuffer  = 20 // 1 MiB; larger buffers are not kept
)

// errNoMemory ends a response that has outgrown the free memory. Its task is repeated later.
var errNoMemory = fail(FaultStopped, errors.New("canceled: no memory for the body until others are released"))

// buffers pools memory for bodies, by size.
type buffers [mostBuffer - leastBuffer + 1]sync.Pool

// get returns an empty buffer for at least n bytes.
func (p *buffers) get(n int64) []byte {
	class := max(0, bits.Len64(uint64(max(n, 1)-1))-leastBuffer)
	if class >= len(p) {
		return make([]byte, 0, n)
	}
	if b, ok := p[class].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<(class+leastBuffer))
}

// free returns a buffer to its pool.
func (p *buffers) free(b []byte) {
	n := cap(b)
	class := bits.Len(uint(n)) - 1 - leastBuffer
	if n == 0 || n&(n-1) != 0 || class < 0 || class >= len(p) {
		return
	}
	b = b[:0]
	p[class].Put(&b)
}

// slurp reads r to its end, or up to limit bytes; over reports that there was
// more. With an error it returns the bytes read before. Length is the announced
// length, or negative. Reach reserves memory for so many bytes in b, or returns
// false.
func (p *buffers) slurp(r io.Reader, length, limit int64, reach func(int64) bool) (b []byte, over bool, err error) {
	if length < 0 {
		length = 32 << 10
	}
	if length = min(length, limit, ahead); !reach(length) {
		return nil, false, errNoMemory
	}
	b = p.get(length + 1)
	for {
		if len(b) == cap(b) {
			if !reach(min(int64(cap(b))*2, limit)) {
				return b, false, errNoMemory
			}
			more := append(p.get(int64(cap(b))*2), b...)
			p.free(b)
			b = more
		}
		n, err := r.Read(b[len(b):min(int64(cap(b)), limit+1)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return b[:limit], true, nil
		case err == io.EOF:
			return b, false, nil
		case err != nil:
			return b, false, err
		}
	}
}
