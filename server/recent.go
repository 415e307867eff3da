package server

import (
	"context"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// recent is what Run has found since it was last logged.
type recent struct {
	mu    sync.Mutex // guards the fields below
	scans int
	found inventory.Report
	since protocol.Cursor // before the first of the changes
}

func (r *recent) add(found inventory.Report, from protocol.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scans == 0 {
		r.since = from
	}
	r.scans++
	r.found.Add(found)
}

// take returns what was added since its last call.
func (r *recent) take() (scans int, found inventory.Report, since protocol.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	scans, found, since = r.scans, r.found, r.since
	r.scans, r.found = 0, inventory.Report{}
	return scans, found, since
}

// logRecent logs, until ctx ends, what was found in each minute.
func (p *Publisher) logRecent(ctx context.Context) {
	for pause.For(ctx, time.Minute) {
		p.sayRecent()
	}
}

// sayRecent logs the changes since its last call in one line, if there are any, with the first of their URLs.
func (p *Publisher) sayRecent() {
	scans, found, since := p.state.recent.take()
	if scans == 0 {
		return
	}
	var urls []string
	changes, _ := p.Journal.Read(context.Background(), since, 3) // the line without URLs says enough
	for _, c := range changes {
		urls = append(urls, c.Item.URL)
	}
	p.log().Info("scanned: "+found.String(), "scans", scans, "head", p.Journal.Head().String(), "first", few(urls))
}
