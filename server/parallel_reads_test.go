package server_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// paired is a Site that reads a page only while it reads another.
type paired struct {
	*server.Site
	meet chan struct{}
}

func (p paired) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	select {
	case p.meet <- struct{}{}:
	case <-p.meet:
	case <-ctx.Done():
		return o, ctx.Err()
	}
	return p.Site.Read(ctx, o)
}

// Pages are read several at a time, and yet their changes are in the order of URLs, and
// each has the digest of its own page.
func TestPagesAreReadInParallel(t *testing.T) {
	d := newDocroot(t)
	journal, err := server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base})
	d.must(err)
	defer journal.Close()
	publisher := &server.Publisher{Inventory: paired{d.site, make(chan struct{})}, Journal: journal}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const pages = 200
	for _, text := range []string{"first", "second"} {
		for i := range pages {
			d.write(fmt.Sprintf("%03d.html", i), fmt.Sprint(text, i))
		}
		if r, err := publisher.Scan(ctx, nil); err != nil || r.New+r.Changed != pages || r.Unread > 0 {
			t.Fatalf("%s scan: %v, %v", text, r, err)
		}
	}
	head := journal.Head()
	changes, err := journal.Read(ctx, protocol.Cursor{Epoch: head.Epoch}, pages+1)
	d.must(err)
	if len(changes) != pages {
		t.Fatalf("%d changes", len(changes))
	}
	for i, c := range changes {
		if name := fmt.Sprintf("%03d.html", i); c.Item.URL != base+name || c.Item.Digest != protocol.Sum(fmt.Append(nil, "second", i)) {
			t.Errorf("change %d: %+v", i, c.Item)
		}
	}
}
