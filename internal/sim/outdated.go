package sim

// An Outdating counts how often what each reading of fresh.Outdated speaks of is outdated when a run polls a manifest: it has changed
// since the poll before.
type Outdating struct {
	run      *Run
	sites    [][]int32 // pages
	changers []changer // of the pages, in the same state as at the last poll
	polls    float64
	found    map[string]float64
}

// CountOutdated returns an Outdating that the run fills. The run's Seed must be set before.
func (r *Run) CountOutdated() *Outdating {
	o := &Outdating{run: r, sites: r.World.bySite(), found: map[string]float64{}}
	for i := range r.World.Pages {
		o.changers = append(o.changers, newChanger(r.Seed, i, &r.World.Pages[i]))
	}
	watch := r.Watch
	r.Watch = func(e Event) {
		if e.Kind == Polled {
			o.polled(e)
		}
		if watch != nil {
			watch(e)
		}
	}
	return o
}

func (o *Outdating) polled(e Event) {
	changed, fastest, rate := 0., false, -1.
	for _, i := range o.sites[e.Site] {
		c := &o.changers[i]
		is := c.next <= e.At
		for c.next <= e.At {
			c.step()
		}
		if is {
			changed++
		}
		if r := o.run.World.Pages[i].Rate; r > rate {
			rate, fastest = r, is
		}
	}
	if e.At < o.run.From {
		return
	}
	o.polls++
	o.found["mean"] += changed / float64(len(o.sites[e.Site]))
	if changed > 0 {
		o.found["any"]++
	}
	if fastest {
		o.found["fastest"]++
	}
}

// Of is the measured frequency of a reading, as the mean of all polls from Run.From on.
func (o *Outdating) Of(reading string) float64 { return o.found[reading] / o.polls }
