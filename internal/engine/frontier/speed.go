package frontier

// A Speed is what is known of how fast a site answers (Q06).
type Speed struct {
	// Connect is how long it takes to connect, and Response how long from a request to the end of its response,
	// in seconds. What is not between a microsecond and 1,000,000 s is not known: then it is the mean of the sites where
	// it is, within a tenth, or 1 s if it is known of none.
	Connect, Response float64

	PerConnection int  // pages that the site sends over one connection; 0 means 50
	Pipelined     bool // the site takes a request before it has answered the one before

	// Busy means that the site may not be asked now: it is left out of batches. BatchOptions.Skip does the same,
	// but is asked anew by every Batch, for every site that would come before those that are taken.
	Busy bool
}

// pipelining is by what factor pipelined requests shorten the responses (Cao 4.2).
const pipelining = 1.2

// seconds returns how long n pages take over one connection.
func (s Speed) seconds(n int) float64 {
	response := s.Response
	if s.Pipelined {
		response /= pipelining
	}
	return 2*s.Connect + float64(float64(n)*response) // the product is rounded on every processor
}

// Performance fetches from the sites that send most pages a second over one connection, and on each the pages
// found first (Q03).
type Performance struct{}

func (Performance) Name() string       { return "performance" }
func (Performance) Page(Facts) float32 { return 0 }
func (Performance) Site(s SiteFacts) float32 {
	n := min(s.Ready, s.Speed.PerConnection)
	return float32(float64(n) / s.Speed.seconds(n))
}

// CrawlAbility fetches from the sites that send most quality a second over one connection, that is the sum of the
// qualities of their pages, and on each the best pages (Q05).
type CrawlAbility struct{}

func (CrawlAbility) Name() string         { return "crawl-ability" }
func (CrawlAbility) Page(f Facts) float32 { return f.Value }
func (CrawlAbility) Site(s SiteFacts) float32 {
	return float32(float64(s.Sum) / s.Speed.seconds(min(s.Ready, s.Speed.PerConnection)))
}

// needsSum makes the Frontier keep the means of the speeds, and for true compute SiteFacts.Sum, for which it must
// have many pages of each site in memory.
func (Performance) needsSum() bool  { return false }
func (CrawlAbility) needsSum() bool { return true }

// Moved says that the Speed of a site has changed. It may be a site of which the Frontier knows no page.
func (f *Frontier) Moved(id SiteID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measure(id)
	if s := f.sites.get(id); s != nil {
		f.mark(s)
	}
}

func (o *Options) speed(id SiteID) (s Speed) {
	if o.Speed != nil {
		s = o.Speed(id)
	}
	return s
}

// speeds are the means of what is known of the sites' speeds, for a Strategy that needs them.
type speeds struct {
	timed, summed     bool // it needs SiteFacts.Speed, and SiteFacts.Sum
	connect, response mean
	guesses           bool    // some site in the heap depends on the means
	step              float64 // by which a mean must change before those sites move
}

// meanStep is speeds.step. All sites of unknown speed move together, which must not happen at each measurement.
const meanStep = 1.1

func newSpeeds(s Strategy) speeds {
	n, timed := s.(interface{ needsSum() bool })
	return speeds{timed: timed, summed: timed && n.needsSum(), connect: newMean(), response: newMean(), step: meanStep}
}

// measure counts what is known of a site in the means.
func (f *Frontier) measure(id SiteID) {
	if m := &f.ranking.speeds; m.timed {
		s := f.o.speed(id)
		m.connect.set(id, s.Connect)
		m.response.set(id, s.Response)
	}
}

// guess completes a speed; true means that it was not whole.
func (m *speeds) guess(s *Speed) (guessed bool) {
	if guessed = !known(s.Connect) || !known(s.Response); guessed {
		s.Connect, s.Response = m.connect.or(s.Connect), m.response.or(s.Response)
		m.guesses = true
	}
	if s.PerConnection <= 0 {
		s.PerConnection = 50
	}
	return guessed
}

// followMeans uses the present means, by which sites of unknown speed move.
func (f *Frontier) followMeans() {
	m := &f.ranking.speeds
	connect, response := m.connect.follow(m.step), m.response.follow(m.step)
	if !connect && !response || !m.guesses {
		return
	}
	m.guesses = false
	for _, s := range f.ranking.heap {
		if s.standing.guessed {
			m.guesses = true
			f.mark(s)
		}
	}
}

// A mean is that of a number which is known for some sites.
type mean struct {
	of   map[SiteID]float64
	sum  float64
	used float64 // the mean by which sites of unknown speed are ranked
}

func newMean() mean { return mean{of: map[SiteID]float64{}, used: 1} }

// known reports whether x is a number of seconds that does not spoil a sum for the others.
func known(x float64) bool { return x >= 1e-6 && x <= 1e6 }

func (m *mean) set(id SiteID, x float64) {
	m.sum -= m.of[id]
	delete(m.of, id)
	if known(x) {
		m.of[id] = x
		m.sum += x
	}
}

// or returns x, or the mean if x is not known.
func (m *mean) or(x float64) float64 {
	if known(x) {
		return x
	}
	return m.used
}

// follow makes the mean the one to use if it has changed by more than the factor step; true: it has.
func (m *mean) follow(step float64) bool {
	now := 1.
	if len(m.of) > 0 {
		now = m.sum / float64(len(m.of))
	}
	if now <= step*m.used && m.used <= step*now {
		return false
	}
	m.used = now
	return true
}
