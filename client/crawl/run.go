package crawl

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/client/crawl/internal/crosshost"
	"github.com/parleyweb/parley/client/crawl/internal/equal"
	"github.com/parleyweb/parley/client/crawl/internal/exchange"
	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/client/crawl/internal/sitequeue"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A run is a running Crawler, as the Crawler's methods see it. crawl builds it from components, each of which uses only those below it:
//
//	manager, answerHandler, committer: called by the Harvester and by crawl
//	batchFetches, sources
//	followers
//	announcements
//	pageQueue
//	pageReader
//	families, equalCopies
//	planner, trustRule, queue: see mode
//	siteTable, and the packages judgement, equal and crosshost
//	work, inbox
//
// Results go to the committer through the inbox.
type run struct {
	work          *work
	in            *inbox
	front         queue
	sites         *siteTable
	families      *families
	plan          planner
	queue         *pageQueue
	announcements *announcements
	followers     *followers
	sources       *sources
	count         *counters
	unfetched     []Unfetched // pending fetches of a crawl that has ended
}

// A mode is what differs between a crawl and the copy of one site.
type mode struct {
	plan  planner
	trust trustRule
	front queue
	ranks *rank.Ranks           // nil for a copy
	keep  func(context.Context) // keeps the plan up to date; nil: there is no plan
}

// newMode chooses the mode of a run: nothing else depends on whether it is a copy, or its policy has a price.
func newMode(c *setup, work *work, in *inbox, sites *siteTable, judge *judgement.Judge) (m mode, err error) {
	store := c.Collection.Queue()
	if c.Only != "" {
		sites.disbelieve()
		return mode{plan: unplanned{c.ManifestEvery}, trust: fullTrust{c}, front: sitequeue.New(store)}, nil
	}
	known := &estimates{unplanned: unplanned{c.ManifestEvery}, work: work, sites: sites, judge: judge, truths: &judgement.Calibration{}}
	m.plan, m.trust = known, &earnedTrust{c, work, sites, judge, known}
	if c.Revisit != nil {
		r := &revisits{estimates: known, c: c, in: in, budget: budget.New(c.Revisit, c.Collection)}
		m.plan, m.keep = r, r.keep
	} else {
		err = c.Collection.Revisits().Keep(fresh.Bucket{})
	}
	if err != nil {
		return m, err
	}
	o := c.Memory
	switch c.Strategy.(type) {
	case frontier.Performance, frontier.CrawlAbility:
		o.Speed = func(id frontier.SiteID) frontier.Speed { // as of the last commit, after which the committer calls Moved
			s, _ := c.Collection.SiteByID(id)
			return s.Speed
		}
	}
	front, err := frontier.New(c.Strategy, store, &o)
	if m.front = front; err == nil {
		m.ranks, err = rank.New(work.ctx, c.Collection, front, rank.Settings{Strategy: c.Strategy, Quality: c.Quality, Jump: c.PagerankJump, Every: c.RankEvery, Log: c.Log})
	}
	return m, err
}

// newExchanger returns nil if the crawl has one partition only.
func newExchanger(c *setup, work *work, in *inbox, count *counters) *exchange.Exchanger {
	if c.Exchange == nil {
		return nil
	}
	return &exchange.Exchanger{Collection: c.Collection, Partition: c.Seeder.CurrentRules().Partition, With: c.Exchange, Every: c.hurried(10 * time.Second), Log: c.Log,
		Admit: func(url string, depth int) collection.Find {
			return stored(c.Seeder.Admit(seed.Ref{URL: url, Depth: depth}), depth, collection.ByLink)
		},
		Submit: func(ctx context.Context, v []collection.Visit, f []collection.Find) error {
			return in.submit(ctx, result{visits: v, finds: f})
		},
		Busy: func(n int) { work.add(n); work.rouse() }, Sent: &count.Sent, Taken: &count.Taken}
}

func (cr *Crawler) crawl(ctx context.Context) error {
	c := cr.setUp()
	// All goroutines end when work.ctx ends; pages that were fetched are committed all the same.
	work := &work{out: map[frontier.PageID]bool{}, news: make(chan struct{}, 1)}
	work.ctx, work.cancel = context.WithCancel(ctx)
	defer work.cancel()
	work.asking, work.stop = context.WithCancel(work.ctx)
	defer work.stop()
	sites := &siteTable{c: c, seeder: c.Seeder, work: work, byID: map[frontier.SiteID]*site{}, byOrigin: map[string]*site{}, resting: map[*site]bool{}, dirty: map[*site]bool{}, dirtySources: map[*source]bool{}, moved: map[string]*source{}}
	if err := sites.load(); err != nil {
		return err
	}
	in, count := newInbox(), &counters{began: time.Now()}
	alone := c.Only != ""
	judge := judgement.New(&c.Trust)
	mode, err := newMode(c, work, in, sites, judge)
	if err != nil {
		return err
	}
	front, plan, trust := mode.front, mode.plan, mode.trust
	steered, err := collection.Steering(c.Collection)
	if err != nil {
		return err
	}
	if steered.Set() {
		c.Log.Warn("a person has paused sites, or changed the rate or the scope: see \"crawler status\"", "all_paused", steered.All, "paused", len(steered.Sites))
	}
	families := &families{work: work, sites: sites, front: front, share: c.TrapShare, tried: map[frontier.PageID]*site{}, texts: map[frontier.SiteID]*family.Text{}}
	reader := &pageReader{c, work, in, sites, judge, trust, count, make(chan *parser, runtime.GOMAXPROCS(0))}
	for range cap(reader.parsers) {
		reader.parsers <- &parser{gatherer: c.Gatherer}
	}
	copies := &equalCopies{c, work, in, equal.New(c.Collection, c.mostBytes), reader}
	queue := &pageQueue{c, work, in, front, sites, judge, trust, copies, families, plan, count, c.Once}
	announcements := &announcements{c, work, front, mode.ranks, sites, trust, plan, reader, queue, count, !c.Once, map[collection.Signal]*collection.Reception{}}
	var keep *upkeep
	if alone {
		keep = &upkeep{c: c, work: work, sites: sites, front: front, behind: count.began.Add(-saysAgain)}
	}
	followers := &followers{c: c, work: work, in: in, sites: sites, judge: judge, plan: plan, announcements: announcements, count: count, keep: keep, once: c.Once}
	hosts := crosshost.New(c.Harvester, sites.crawled, c.Seeder.Agent, protocol.Origin(c.Only), SourceBytes(collection.Robots))
	sources := &sources{c: c, work: work, in: in, sites: sites, plan: plan, announcements: announcements, followers: followers, hosts: hosts, count: count, ends: c.Once, manifest: c.Only}
	batch := &batchFetches{c, work, in, sites, reader, followers, count}
	manager := &manager{c: c, work: work, in: in, front: front, sites: sites, queue: queue, sources: sources, batch: batch, count: count, ends: c.Once, upkeep: keep}
	answers := &answerHandler{c, work, in, sites, families, reader, sources, count}
	committer := &committer{c: c, work: work, in: in, front: front, ranks: mode.ranks, sites: sites, judge: judge, equal: copies.pages, families: families, plan: plan, count: count}
	r := &run{work: work, in: in, front: front, sites: sites, families: families, plan: plan, queue: queue, announcements: announcements, followers: followers, sources: sources, count: count}

	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := committer.run(); err != nil {
			work.fail(err)
		}
	})
	sources.steer(&steered, !steered.Scoped.IsZero()) // the scope may have been changed since the last run, or this was its last act
	cr.run.Store(r)                                   // only now, since Add needs the committer
	defer func() {
		s := cr.Status()
		s.Running, s.InFlight, s.Busy = false, 0, 0
		cr.last.Store(&s)
		cr.run.Store(nil)
	}()
	if c.Stop.After > 0 {
		timer := time.AfterFunc(c.Stop.After, func() { work.checkStop(c.Stop.reached(count, time.Now())) })
		defer timer.Stop()
	}
	err = sources.begin()
	exchanger := newExchanger(c, work, in, count)
	if err == nil && exchanger != nil {
		if err = exchanger.HandOver(work.ctx); err == nil {
			exchanger.Turn(work.ctx) // a crawl that ends takes in what is there by now
			work.group.Go(func() { exchanger.Keep(work.ctx) })
		}
	}
	if err == nil && c.Once {
		sites.pollAtOnce()
	}
	if err == nil && c.Again {
		err = sources.again()
	}
	ranked := false
	if err == nil {
		ranked, err = mode.ranks.Begin(work.ctx)
	}
	if err == nil {
		if mode.keep != nil {
			work.add(1) // a crawl with Once waits for the first plan: without one, the price of a revisit would be a guess
			work.group.Go(func() { mode.keep(work.ctx) })
		}
		if ranked {
			work.add(1) // a crawl with Once waits for the first ranks
			first := sync.OnceFunc(func() { work.add(-1) })
			work.group.Go(func() { mode.ranks.Keep(work.ctx, func() { first(); work.rouse() }) })
		}
		err = cr.harvest(work.asking, manager.next, answers.take)
	}
	if err != nil && ctx.Err() == nil {
		work.fail(err)
	}
	work.cancel() // followers end
	work.group.Wait()
	work.begun.Wait()
	in.Close()
	keeping.Wait()
	if work.failed != nil { // the last commits may have failed, too
		return work.failed
	}
	if exchanger != nil {
		exchanger.Send()
	}
	sites.logSilent()
	if err = front.Settle(); err != nil || !c.Once {
		return err
	}
	list, err := sites.logUnfetched()
	work.Lock()
	defer work.Unlock()
	r.unfetched = list
	return err
}

// blindTime is how long the crawl pauses when DNS lookups fail.
const blindTime = 5 * time.Minute

// harvest runs the Harvester. If names cannot be looked up (P04), which is temporary and
// not the sites' fault, it runs it again after a pause.
func (c *Crawler) harvest(ctx context.Context, next func(context.Context, bool) (*harvest.Batch, error), take func(*harvest.Answer)) error {
	for {
		err := c.Harvester.Run(ctx, next, take)
		s := &c.settings
		if !errors.Is(err, harvest.ErrResolver) || s.Once {
			return err
		}
		s.Log.Error("host names cannot be resolved: the crawl pauses; check the name server, or name another with --resolver", "err", err, "pause", s.hurried(blindTime))
		if !pause.For(ctx, s.hurried(blindTime)) {
			return nil
		}
	}
}
