package trust

import (
	"container/heap"
	"sync"
)

// A Storm holds what sites have said until it is taken in: of each URL the
// last word. It is bounded; a site K that says more than there is room for
// loses all that it said, and is named by Degraded. So every URL that was added
// is either returned by Next with the last that was said of it, or its site is
// named by a later Degraded. A Storm is safe for use by many goroutines; its
// zero value is useful.
type Storm[K comparable] struct {
	// PerSite is the most URLs of one site; zero means 10,000. MaxBytes is
	// the most bytes of all, as an estimate; zero means 32 MiB.
	PerSite  int
	MaxBytes int

	mu       sync.Mutex
	sites    map[K]*talker[K]
	ring     []*talker[K] // those with something to say; turn is whose turn it is
	loud     loudest[K]   // the same, the loudest first
	turn     int
	bytes    int
	urls     int
	degraded map[K]struct{}
	all      bool
}

// A Said is the last word about a URL.
type Said[K comparable] struct {
	Site  K
	URL   string
	Claim Claim
	Voice string
}

type talker[K comparable] struct {
	site   K
	place  int // in the ring
	rank   int // in loud
	said   []Said[K]
	first  int // in said, of those not taken yet
	where  map[string]int
	weight int
}

const (
	saidWeight  = 384       // of a URL, beside its bytes: Said, twice for growth, and a map entry
	siteWeight  = 512       // of a site
	maxSaidURL  = 8 << 10   // bytes: whoever says longer ones is degraded
	maxDegraded = 1_000_000 // names; beyond, all are degraded
)

func (s *Storm[K]) limits() (perSite, bytes int) {
	perSite, bytes = s.PerSite, s.MaxBytes
	if perSite <= 0 {
		perSite = 10_000
	}
	if bytes <= 0 {
		bytes = 32 << 20
	}
	return perSite, bytes
}

// Add holds what was said; false means that its site is degraded.
func (s *Storm[K]) Add(said Said[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sites == nil {
		s.sites, s.degraded = make(map[K]*talker[K]), make(map[K]struct{})
	}
	if _, bad := s.degraded[said.Site]; bad || s.all {
		return false
	}
	t := s.sites[said.Site]
	if t != nil {
		if i, known := t.where[said.URL]; known {
			t.said[i] = said
			return true
		}
	}
	perSite, most := s.limits()
	weight := saidWeight + len(said.URL)
	if len(said.URL) > maxSaidURL || t != nil && len(t.where) >= perSite || weight+siteWeight > most {
		s.drop(said.Site)
		return false
	}
	if t == nil {
		t = &talker[K]{site: said.Site, place: len(s.ring), where: make(map[string]int), weight: siteWeight}
		s.sites[said.Site], s.ring, s.bytes = t, append(s.ring, t), s.bytes+siteWeight
		heap.Push(&s.loud, t)
	}
	t.where[said.URL] = len(t.said)
	t.said = append(t.said, said)
	t.weight, s.bytes, s.urls = t.weight+weight, s.bytes+weight, s.urls+1
	heap.Fix(&s.loud, t.rank)
	for s.bytes > most {
		loudest := s.loud[0]
		s.drop(loudest.site)
		if loudest == t {
			return false
		}
	}
	return true
}

// drop forgets what a site has said, and degrades it.
func (s *Storm[K]) drop(site K) {
	if t := s.sites[site]; t != nil {
		s.urls -= len(t.where)
		s.forget(t)
	}
	if len(s.degraded) >= maxDegraded {
		s.all = true
		return
	}
	s.degraded[site] = struct{}{}
}

// forget takes a site out of the ring; the last takes its place.
func (s *Storm[K]) forget(t *talker[K]) {
	s.bytes -= t.weight
	delete(s.sites, t.site)
	last := len(s.ring) - 1
	s.ring[t.place] = s.ring[last]
	s.ring[t.place].place = t.place
	s.ring[last] = nil
	s.ring = s.ring[:last]
	heap.Remove(&s.loud, t.rank)
}

// Next takes out up to n of what is held: one of each site in turn, of a site
// in the order in which its URLs were first said.
func (s *Storm[K]) Next(n int) []Said[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.urls)
	if n <= 0 {
		return nil
	}
	out := make([]Said[K], 0, n)
	for len(out) < n {
		if s.turn >= len(s.ring) {
			s.turn = 0
		}
		t := s.ring[s.turn]
		said := t.said[t.first]
		t.said[t.first] = Said[K]{}
		t.first++
		delete(t.where, said.URL)
		out = append(out, said)
		s.urls--
		if len(t.where) == 0 {
			s.forget(t) // another has taken this place, and is next
			continue
		}
		weight := saidWeight + len(said.URL)
		t.weight, s.bytes = t.weight-weight, s.bytes-weight
		heap.Fix(&s.loud, t.rank)
		t.tidy()
		s.turn++
	}
	return out
}

// tidy gives the room of what was taken back, when that is the half.
func (t *talker[K]) tidy() {
	if t.first < 64 || t.first < len(t.said)/2 {
		return
	}
	t.said = append([]Said[K](nil), t.said[t.first:]...)
	t.first = 0
	for i := range t.said {
		t.where[t.said[i].URL] = i
	}
}

// loudest is a heap of those who say the most: they go first when all is full.
type loudest[K comparable] []*talker[K]

func (l loudest[K]) Len() int           { return len(l) }
func (l loudest[K]) Less(i, j int) bool { return l[i].weight > l[j].weight }
func (l loudest[K]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].rank, l[j].rank = i, j
}

func (l *loudest[K]) Push(x any) {
	t := x.(*talker[K])
	t.rank = len(*l)
	*l = append(*l, t)
}

func (l *loudest[K]) Pop() any {
	last := len(*l) - 1
	t := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return t
}

// Len returns how many URLs are held.
func (s *Storm[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urls
}

// Degraded names the sites that said too much since it was called last: each
// is to be looked at as a whole. What they say from now on is held again. all
// means that there were too many to name: then it is every site.
func (s *Storm[K]) Degraded() (sites []K, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.degraded {
		sites = append(sites, k)
	}
	all = s.all
	clear(s.degraded)
	s.all = false
	return sites, all
}
