package versions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

const (
	fewestChanges = 3       // of a page before its next one is predicted: two intervals
	mostForecast  = 100_000 // pages whose changes are remembered
	readAtOnce    = 10      // batches of changes that one request reads, so that none waits for a long history
)

// A forecast predicts when pages change next, from the changes that the journal remembers (C37). It reads them as requests come: the
// first ones after a start of the program may get no prediction yet.
type forecast struct {
	mu    sync.Mutex
	at    protocol.Cursor // read up to here
	pages map[string]past
}

// A past is what is known of the changes of a page. All of them are known, so its rate is (X-1)/T, the limit of the thesis's estimate
// with dates where each visit finds a change (F09).
type past struct {
	first, last time.Time
	changes     int // X
}

// next returns when a page probably changes next, the zero time if nothing shows that: it has changed too seldom, or its next change is
// overdue.
func (f *forecast) next(ctx context.Context, log protocol.Log, url string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range readAtOnce {
		if f.at.IsZero() {
			f.at = log.Floor()
		}
		changes, err := log.Read(ctx, f.at, 0)
		if errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch) {
			f.at = protocol.Cursor{} // the journal has dropped changes: the next request goes on at its floor
		}
		if err != nil || len(changes) == 0 {
			break
		}
		for i := range changes {
			f.learn(&changes[i])
		}
		f.at.Seq = changes[len(changes)-1].Seq
	}
	p := f.pages[url]
	if p.changes < fewestChanges {
		return time.Time{}
	}
	if at := p.last.Add(p.last.Sub(p.first) / time.Duration(p.changes-1)); at.After(now) {
		return at
	}
	return time.Time{}
}

func (f *forecast) learn(c *protocol.Change) {
	url := c.Item.URL
	p, known := f.pages[url]
	switch {
	case c.Op == protocol.Delete:
		delete(f.pages, url)
		return
	case c.Op == protocol.Move: // its bytes stay
		p, known = f.pages[c.From]
		delete(f.pages, c.From)
	default:
		if p.last = c.At; p.changes == 0 {
			p.first = c.At
		}
		p.changes++
	}
	if !known && (p.changes == 0 || len(f.pages) >= mostForecast) {
		return
	}
	if f.pages == nil {
		f.pages = map[string]past{}
	}
	f.pages[url] = p
}
