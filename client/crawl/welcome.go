package crawl

import (
	"context"
	"iter"
	"slices"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// welcomed takes in how a site wishes to be asked.
func (r *run) welcomed(st *site, d *protocol.Discovery) {
	if d.Welcome == nil {
		return
	}
	r.Harvester.Welcome(st.Origin, d.Welcome.Rate, d.Welcome.Connections)
}

// batches asks for pages by as many batches as a site wishes.
func batches(ctx context.Context, from *client.Source, d *protocol.Discovery, want []client.Want) iter.Seq2[client.Got, error] {
	return func(yield func(client.Got, error) bool) {
		for part := range slices.Chunk(want, mostWants(d)) {
			for got, err := range client.Batch(ctx, from, d.Batch, part) {
				if !yield(got, err) || err != nil {
					return
				}
			}
		}
	}
}

// mostWants is how many pages a site is asked for in one batch, by what it offers.
func mostWants(d *protocol.Discovery) int {
	if d.Welcome != nil && d.Welcome.Batch > 0 {
		return min(d.Welcome.Batch, client.MaxWants)
	}
	return client.MaxWants
}
