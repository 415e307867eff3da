package server_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// paired is a Site whose first read ends only after another has begun.
type paired struct {
	*server.Site
	begun  atomic.Int64
	second chan struct{}
}

func (p *paired) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	switch p.begun.Add(1) {
	case 1:
		select {
		case <-p.second:
		case <-ctx.Done():
			return o, ctx.Err()
		}
	case 2:
		close(p.second)
	}
	return p.Site.Read(ctx, o)
}

// Pages are read several at a time, and yet their changes are in the order of URLs, and
// each has the digest of its own page.
func TestPagesAreReadInParallel(t *testing.T) {
	d := newDocroot(t)
	journal := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base}))
	defer journal.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const pages = 200
	for _, text := range []string{"first", "second"} {
		for i := range pages {
			d.write(fmt.Sprintf("%03d.html", i), fmt.Sprint(text, i))
		}
		publisher := &server.Publisher{Inventory: &paired{Site: d.site, second: make(chan struct{})}, Journal: journal}
		if r, err := publisher.Scan(ctx, nil); err != nil || r.New+r.Changed != pages || r.Unread > 0 {
			t.Fatalf("%s scan: %v, %v", text, r, err)
		}
	}
	head := journal.Head()
	changes := must.Get(journal.Read(ctx, protocol.Cursor{Epoch: head.Epoch}, pages+1))
	if len(changes) != pages {
		t.Fatalf("%d changes", len(changes))
	}
	for i, c := range changes {
		if name := fmt.Sprintf("%03d.html", i); c.Item.URL != base+name || c.Item.Digest != protocol.Sum(fmt.Append(nil, "second", i)) {
			t.Errorf("change %d: %+v", i, c.Item)
		}
	}
}
