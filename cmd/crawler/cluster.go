package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/bucket"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/nats/cluster"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
)

// A clusterCrawl is the options of a crawl that several machines share by NATS.
type clusterCrawl struct {
	clusterName
	partitions, events int
	lease              time.Duration
	limits             harvest.Limits // of all partitions that this machine has
}

func (c *clusterCrawl) flags() []command.Flag {
	bind := command.Bind
	c.partitions, c.events, c.lease = 16, 1_000_000, 30*time.Second
	return append(c.clusterName.flags("share the crawl with other machines through NATS JetStream at `URLS`, separated by commas, such as nats://a:4222,nats://b:4222: each gives \"crawler run\" with the same options, and has the partitions that fall to it; see docs/scale.md"),
		bind("partitions", &c.partitions, "divide the crawl of a --cluster into `N` partitions, for good: several for each machine that may ever take part"),
		bind("cluster-events", &c.events, "in a --cluster, keep the last `N` events of all machines in NATS for \"crawler events --cluster\", for 90 days (0: none)"),
		bind("lease", &c.lease, "in a --cluster, another machine takes the partitions of one that has been silent for `TIME`"))
}

// check reports what is wrong with the options.
func (c *clusterCrawl) check(set *flag.FlagSet, o *crawl.Options) (err error) {
	alone := map[string]bool{"partition": true, "exchange": true, "admin": true, "admin-token": true, "indexnow-listen": true, "batches": true,
		"stop-pages": true, "stop-bytes": true, "stop-after": true, "again": true}
	of := map[string]bool{"cluster-creds": true, "cluster-name": true, "cluster-events": true, "partitions": true, "lease": true}
	set.Visit(func(f *flag.Flag) {
		switch {
		case c.servers == "" && of[f.Name]:
			err = command.Misusef("--%s needs --cluster: the URLs of NATS", f.Name)
		case c.servers != "" && alone[f.Name]:
			err = command.Misusef("--%s and --cluster exclude each other", f.Name)
		}
	})
	switch {
	case err != nil || c.servers == "":
		return err
	case o.Once:
		return command.Misusef("--cluster is for \"crawler run\": the crawl of several machines does not end by itself")
	case o.Collection.Store != "warc" && o.Collection.Store != "none":
		return command.Misusef("--store %s: with --cluster want warc or none", o.Collection.Store)
	case c.lease < 2*time.Second || c.lease > time.Hour:
		return command.Misusef("--lease %v: want 2 s to an hour", c.lease)
	}
	if c.events < 0 {
		return command.Misusef("--cluster-events %d: want 0 or more", c.events)
	}
	if _, err := partition.Parse(fmt.Sprintf("1/%d", c.partitions)); err != nil {
		return command.Misusef("--partitions %d: want 1 to 1024", c.partitions)
	}
	_, err = o.Harvester()
	for _, u := range o.Start { // before this machine gets partitions, which it would have to give back
		err = cmp.Or(err, o.CheckURL(u))
	}
	return misuse(err)
}

// run crawls the partitions that this machine has, until ctx ends.
func (c *clusterCrawl) run(ctx context.Context, env *command.Env, o *crawl.Options) error {
	nc, err := jetlog.Connect(c.servers, c.creds)
	if err != nil {
		return fmt.Errorf("--cluster: connect to NATS: %w", err)
	}
	defer nc.Close()
	n := &cluster.Node{Conn: nc, Crawl: c.name, Dir: o.Collection.Into, Partitions: c.partitions, Lease: c.lease, Snapshots: 10 * time.Minute, Events: c.events, Log: env.Log}
	n.Engine = func(ctx context.Context, p *cluster.Part) error { return c.crawlPart(ctx, *o, p) }
	return n.Run(ctx)
}

// crawlPart crawls a partition until ctx ends.
func (k *clusterCrawl) crawlPart(ctx context.Context, o crawl.Options, p *cluster.Part) error {
	o.Collection.Into, o.Log = p.Dir, o.Log.With("partition", p.Number)
	if o.Collection.CopyTo != "" {
		o.Collection.CopyTo = bucket.Below(o.Collection.CopyTo, filepath.Base(p.Dir))
	}
	o.Scope.Share = &partition.Share{Partition: p.Partition, Carrier: p, Ends: p.Ends, Market: p}
	if h, err := o.Harvester(); err == nil && k.partitions > h.Options.Shares() {
		o.Scope.Share.Addresses = p // else each has its part of the rate: with turns, hosts wait where many partitions have hosts at an address
	}
	c, err := o.Open(ctx)
	for errors.Is(err, collection.ErrHeld) && ctx.Err() == nil {
		o.Log.Warn("a command reads the collection of this partition: it is crawled once that has ended", "err", err)
		c, err = o.Open(ctx) // which waits, too
	}
	if err != nil {
		return misuse(err)
	}
	c.Harvester.Options.Limits = &k.limits
	var beside sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &localAPI{col: c.Collection, crawler: c, log: o.Log}
	beside.Go(func() { d.serveNATS(ctx, p, o.Log) })
	if o.Collection.CopyTo != "" {
		beside.Go(func() { copyWARC(ctx, c.Collection, o.Log) })
	}
	beside.Go(func() {
		if err := holder.Serve(ctx, statePath(p.Dir), d.handler(), o.Log); err != nil && ctx.Err() == nil {
			o.Log.Warn("commands such as \"crawler status\" do not work for this partition", "err", err)
		}
	})
	telling, told := context.WithCancel(context.WithoutCancel(ctx)) // ends after the crawler
	var last sync.WaitGroup
	if k.events > 0 {
		last.Go(func() { p.Tell(telling, cluster.Source{Log: c.Collection.Log(), Events: d.untold, Page: d.pageEvent}) })
	}
	beside.Go(func() {
		p.Save(ctx, func(w io.Writer) error {
			err := collection.Backup(c.Collection, w)
			if err == nil && k.events > 0 {
				soon, stop := context.WithTimeout(ctx, time.Minute) // then a warning says why there is no snapshot
				defer stop()
				err = p.Told(soon, c.Collection.Log().Head())
			}
			return err
		})
	})
	err = c.Run(ctx)
	cancel()
	beside.Wait()
	if k.events > 0 {
		end, stop := context.WithTimeout(telling, toldTime)
		p.Told(end, c.Collection.Log().Head())
		stop()
	}
	told()
	last.Wait()
	if o.Collection.CopyTo != "" {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), copyTime)
		if err := collection.CopyWARC(end, c.Collection, true); err != nil {
			o.Log.Warn("not all WARC files of the partition are copied: the next machine fetches their pages again", "err", err)
		}
		stop()
	}
	return errors.Join(err, c.Collection.Close())
}

// copyTime is how long the end of a partition may be delayed until its last WARC file is copied: its last snapshot comes after that, and
// whoever stops the program does not wait for ever.
const copyTime = 45 * time.Second

// toldTime is how long the end of a partition may be delayed until its last events are told.
const toldTime = 10 * time.Second

// untold returns events for all readers of a cluster.
func (d *localAPI) untold(ctx context.Context, after protocol.Cursor, most int) (list []cluster.Event, err error) {
	for e, err := range d.col.Events(ctx, after, false) {
		if err != nil {
			return nil, err
		}
		at := e.Cursor
		e.Cursor = protocol.Cursor{}
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if list = append(list, cluster.Event{Cursor: at, JSON: text}); len(list) == most {
			break
		}
	}
	return list, nil
}

// pageEvent returns an event that says what a page is now, and when it was fetched last.
func (d *localAPI) pageEvent(url string) (cluster.Event, time.Time, error) {
	p, known, err := d.col.Page(url)
	if err != nil || !known {
		return cluster.Event{}, time.Time{}, err
	}
	e := collection.Event{At: p.Last, Op: protocol.Delete, URL: url, TextChanged: true, Length: -1}
	if site, _ := d.col.SiteByID(p.Site); p.State == collection.Held && !site.Withheld {
		e.Op, e.Title, e.Language, e.Canonical, e.Digest, e.Text, e.Length = protocol.Update, p.Title, p.Language, p.Canonical, p.Digest, p.Text, p.Length
		e.Type, e.Stored, e.Signal, e.Marks = p.Type, p.Stored, p.Signal, collection.Marks{Truncated: p.Cut, NoIndex: p.NoIndex, NoFollow: p.NoFollow}
	}
	text, err := json.Marshal(e)
	return cluster.Event{JSON: text}, p.Last, err
}

// partitionsIn returns the directories of the partitions that a machine of a cluster has, or has had.
func partitionsIn(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "partition-*", contents.StateFile))
	for i, state := range list {
		list[i] = filepath.Dir(state)
	}
	return list
}

// clusterStatus prints a line for each of them.
func clusterStatus(ctx context.Context, env *command.Env, dirs []string) error {
	for _, dir := range dirs {
		var s summary
		if err := (&collectionFlags{dir: dir}).askJSON(ctx, "GET", "/status", nil, &s, env.Log); err != nil {
			return err
		}
		state := "not running here"
		if s.Running {
			state = fmt.Sprintf("running, %d sites in flight", s.InFlight)
		}
		fmt.Fprintf(env.Stdout, "%s  %d known, %d stored, %d gone, %d due now, %d sites; %s\n", filepath.Base(dir), s.Known, s.Held, s.Gone, s.Ready, s.Of, state)
	}
	return nil
}
