// Package exchange sends the URLs that a crawler finds of other partitions of its crawl, and takes in those that their crawlers send (V29).
package exchange

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/pause"
)

// An Exchanger does this for a run of a crawler. It is for one goroutine.
type Exchanger struct {
	Collection *collection.Collection
	Partition  partition.Partition
	With       partition.Carrier
	Every      time.Duration
	Log        *slog.Logger

	Admit       func(url string, depth int) collection.Find                        // returns a Find without a URL if it is refused
	Submit      func(context.Context, []collection.Visit, []collection.Find) error // returns when they are stored
	Busy        func(n int)                                                        // adds n to the tasks that a crawl has to wait for before it ends
	Sent, Taken *atomic.Int64                                                      // count the URLs
}

// HandOver gives the pages of other partitions to their crawlers: those of an earlier run with fewer partitions.
func (x *Exchanger) HandOver(ctx context.Context) error {
	foreign := false
	for s := range x.Collection.Sites() {
		foreign = foreign || s.Held+s.Ready > 0 && x.Partition.Foreign(s.Origin) > 0
	}
	if !foreign {
		return nil
	}
	var visits []collection.Visit
	var finds []collection.Find
	for p, err := range x.Collection.Pages(ctx) {
		if err != nil {
			return err
		}
		f := x.Admit(p.URL, p.Depth)
		if f.Partition == 0 || p.State == collection.Excluded || p.State == collection.Gone { // or it is refused by another rule, too
			continue
		}
		visits, finds = append(visits, collection.Visit{Page: p.ID, Exclude: f.Exclude}), append(finds, f)
		if len(finds) == partition.MostFinds {
			if err := x.Submit(ctx, visits, finds); err != nil {
				return err
			}
			visits, finds = nil, nil
		}
	}
	return x.Submit(ctx, visits, finds)
}

// Keep exchanges URLs until ctx ends.
func (x *Exchanger) Keep(ctx context.Context) {
	for pause.For(ctx, x.Every) {
		x.Turn(ctx)
	}
}

// Turn exchanges URLs once. What carries them may be out of reach, such as a file server: that delays them and nothing else.
func (x *Exchanger) Turn(ctx context.Context) {
	x.Send()
	err := x.With.Receive(ctx, func(finds []partition.Find, damaged error) error {
		x.Busy(1) // what is taken in may be all that is left to fetch
		defer x.Busy(-1)
		if damaged != nil {
			x.Log.Warn("URLs of another crawler are damaged: those before the damage are taken in", "err", damaged)
		}
		return x.take(ctx, finds)
	})
	if err != nil && ctx.Err() == nil {
		x.Log.Warn("URLs of other crawlers cannot be taken in: trying again", "err", err)
	}
}

// Send sends what was found. What cannot be sent is kept for the next time, and for the next run.
func (x *Exchanger) Send() {
	for {
		list, last, err := collection.Outgoing(x.Collection, 20*partition.MostFinds) // enough for large batches
		if err == nil && len(list) == 0 {
			return
		}
		if err == nil {
			err = x.With.Send(list)
		}
		if err == nil {
			err = collection.Sent(x.Collection, last)
		}
		if err != nil {
			x.Log.Warn("URLs for other crawlers are kept, and sent later", "err", err)
			return
		}
		x.Sent.Add(int64(len(list)))
	}
}

// take stores URLs that have come.
func (x *Exchanger) take(ctx context.Context, list []partition.Find) error {
	var finds []collection.Find
	for _, f := range list {
		if is := x.Admit(f.URL, f.Depth); is.URL != "" {
			finds = append(finds, is)
		}
	}
	if err := x.Submit(ctx, nil, finds); err != nil {
		return err
	}
	x.Taken.Add(int64(len(list)))
	return nil
}
