package crawl

import (
	"container/heap"
	"errors"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/protocol"
)

// steered returns a Crawler with these options, as far as a person has not set others.
func (o Options) steered(s *steer.Steering, col *collection.Collection) (*Crawler, error) {
	given := o
	err := s.Rate.Apply(&o.Revisits.Budget, &o.Fetch.Wait, &o.Fetch.WaitBig, &o.Fetch.MaxRate, &o.Fetch.PerAddress)
	switch s.Scope.Apply(&o.Scope.Domain, &o.Scope.Accept, &o.Scope.Reject); {
	case err != nil:
		return nil, err
	case (o.Fetch.Wait == 0) != (given.Fetch.Wait == 0):
		return nil, wrong("\"crawler rate\" cannot change a %s of %s to %s: neither may be 0", field("Wait"), given.Fetch.Wait, o.Fetch.Wait)
	case s.Rate.Budget != "" && !o.hasPrice():
		return nil, wrong("\"crawler rate\" has set a %s of %s: %s thesis has none", field("Budget"), s.Rate.Budget, field("Policy"))
	}
	c, err := o.crawler()
	if err != nil {
		return nil, err
	}
	c.Collection, c.options = col, &given
	return c, o.begin(c)
}

// Steer changes what a person has set on a running crawl, stores it, and puts it into force: in later runs, too. It returns what is
// then in force. A copy can only be paused and resumed.
func (c *Crawler) Steer(change func(*steer.Steering) error) (s steer.Steering, err error) {
	r := c.run.Load()
	if r == nil {
		return s, ErrRunning
	}
	c.steers.Lock()
	defer c.steers.Unlock()
	if s, err = collection.Steering(c.Collection); err != nil {
		return s, err
	}
	was, next := s, (*Crawler)(nil)
	if err = change(&s); err != nil {
		return s, err
	}
	rescoped := !was.Scope.Equal(s.Scope)
	switch changed := rescoped || was.Rate != s.Rate; { // else nothing may keep a pause from being in force
	case changed && c.options == nil:
		err = errors.New("a copy has no rate and no scope to change: it can only be paused and resumed")
	case changed:
		next, err = c.options.steered(&s, c.Collection)
	}
	if err == nil {
		_, err = c.Collection.Commit(&collection.Commit{Steering: s.Text()})
	}
	if err != nil {
		return s, err
	}
	if next != nil {
		c.Harvester.SetRate(next.Harvester.Options)
		if plan, ok := r.plan.(*revisits); ok {
			plan.budget.Set(next.settings.Revisit.PerDay, next.settings.Revisit.PerPage)
		}
	}
	if rescoped {
		c.settings.Seeder.SetRules(next.settings.Seeder.Rules)
	}
	r.sources.steer(&s, rescoped)
	return s, nil
}

// steer puts pauses into force. It ends the streams and other requests of followers of sites that are paused or no longer crawled, and
// fetches the sources of all others again: those that became due meanwhile, and if the scope has changed, lists of pages that were read before.
func (r *sources) steer(s *steer.Steering, rescoped bool) {
	r.work.Lock()
	defer r.work.Unlock()
	if rescoped { // waiting tasks come back, and are checked again
		r.c.Harvester.Pause(func(string) bool { return true })
	}
	r.c.Harvester.Pause(s.Pauses()) // under the work's lock, so that a resumed site's robots.txt comes before its pages
	r.sites.halt.confined = s.Scope.Confines() || r.c.Exchange != nil
	for _, st := range r.sites.byID {
		for _, src := range st.sources.byURL {
			if src.follow.end != nil && (rescoped || r.halted(src)) {
				src.follow.end() // what was announced by then is stored with the cursor from which it is followed again
			}
			if rescoped && (src.Kind == collection.SitemapXML || src.Kind == collection.NewsFeed) && src.Polled.Before(s.Scoped) {
				if src.Digest, src.ETag, src.LastModified, src.At = (protocol.Digest{}), "", "", time.Now(); src.index >= 0 {
					heap.Fix(&r.sites.due, src.index)
				}
			}
		}
	}
	for _, src := range r.sites.halt.sources {
		heap.Push(&r.sites.due, src)
	}
	r.sites.halt.sources = nil
	if rescoped {
		r.readmit(nil)
	}
	r.work.rouse()
}

// halted reports whether a source is not fetched, as a person has decided. The work's lock is held.
func (r *sources) halted(src *source) bool {
	h := r.c.Harvester
	return h.Paused(src.site.Origin) || h.Paused(protocol.Origin(src.URL)) || r.sites.outside(src.site)
}
