package crawl

import (
	"context"
	"iter"
	"slices"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// welcomed applies a site's welcome, see harvest. If there are several sites on a host, one without
// a welcome does not revoke that of another.
func (f *followers) welcomed(st *site, d *protocol.Discovery) {
	f.work.Lock()
	before := st.welcomedBy
	if d.Welcome != nil {
		st.welcomedBy = d.Base
	}
	f.work.Unlock()
	switch {
	case d.Welcome != nil:
		f.c.Harvester.Welcome(st.Origin, d.Welcome.Rate, d.Welcome.Connections)
	case before == d.Base && before != "":
		f.c.Harvester.Unwelcome(st.Origin)
	}
}

// batches fetches pages in batches of the size that a site allows.
func batches(ctx context.Context, from *client.Source, d *protocol.Discovery, want []client.Want) iter.Seq2[client.Got, error] {
	most := client.MaxWants
	if d.Welcome != nil && d.Welcome.Batch > 0 {
		most = min(most, d.Welcome.Batch)
	}
	return func(yield func(client.Got, error) bool) {
		for part := range slices.Chunk(want, most) {
			for got, err := range client.Batch(ctx, from, d.Batch, part) {
				if !yield(got, err) || err != nil {
					return
				}
			}
		}
	}
}
