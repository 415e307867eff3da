package frontier

// A table holds the sites by number, in runs: the numbers are dense, and looked up all the time.
type table struct {
	runs map[SiteID]*[perRun]*site // by the first number of each, divided by perRun
	list []*site                   // in no order

	round uint32 // counts calls of Frontier.readSites
}

const perRun = 1024

func newTable() table { return table{runs: map[SiteID]*[perRun]*site{}} }

func (t *table) get(id SiteID) *site {
	if run := t.runs[id/perRun]; run != nil {
		return run[id%perRun]
	}
	return nil
}

func (t *table) add(s *site) {
	run := t.runs[s.id/perRun]
	if run == nil {
		run = new([perRun]*site)
		t.runs[s.id/perRun] = run
	}
	run[s.id%perRun] = s
	s.at = len(t.list)
	t.list = append(t.list, s)
}

func (t *table) remove(s *site) {
	t.runs[s.id/perRun][s.id%perRun] = nil
	last := t.list[len(t.list)-1]
	t.list[s.at], last.at = last, s.at
	t.list[len(t.list)-1] = nil
	t.list = t.list[:len(t.list)-1]
}
