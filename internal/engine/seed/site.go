package seed

import (
	"strings"
	"sync"
	"sync/atomic"
)

// A site is the seeder's state of an origin.
type site struct {
	origin string
	force  atomic.Pointer[rulesInForce] // nil: SetRobots was never called
	pages  atomic.Int64                 // known ones, from any source

	mu    sync.Mutex
	shape shape
}

// lookup returns the site of an origin, or of its www twin (P08), or nil.
func (s *Seeder) lookup(origin string) *site {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.find(origin)
}

// find is lookup with s.mu held.
func (s *Seeder) find(origin string) *site {
	if st := s.sites[origin]; st != nil || s.rules.Load().split || s.split[origin] {
		return st
	}
	if t := twin(origin); t != "" {
		return s.sites[t]
	}
	return nil
}

// enter returns the site of an origin, and creates it unless too many are known.
func (s *Seeder) enter(origin string) *site {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.find(origin)
	if st == nil && len(s.sites) < maxSites {
		st = &site{origin: strings.Clone(origin)}
		s.sites[st.origin] = st
	}
	return st
}

// ours returns the site of exactly this origin, not its twin's, and creates it if needed.
func (s *Seeder) ours(origin string) *site {
	s.begin()
	s.mu.RLock()
	st := s.sites[origin]
	s.mu.RUnlock()
	if st != nil {
		return st
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st = s.sites[origin]; st == nil {
		st = &site{origin: strings.Clone(origin)}
		s.sites[st.origin] = st
		s.gen.Add(1) // links to it may have gone to its twin
	}
	return st
}

// twin returns the origin with "www." if it has none, and without if it has; empty
// if there is no twin, such as for a name without a dot.
func twin(origin string) string {
	i := strings.Index(origin, "://") + 3
	host := origin[i:]
	bare, www := strings.CutPrefix(host, "www.")
	switch {
	case bare == "", bare[0] == '[', bare[0] == '.', strings.IndexByte(bare, '.') < 0:
		return ""
	case www:
		return origin[:i] + bare
	}
	return origin[:i] + "www." + bare
}

// SetShape restores a site of an earlier run: the number of its known pages, and
// what Shape returned.
func (s *Seeder) SetShape(origin string, pages int, shape []byte) {
	st := s.ours(origin)
	st.pages.Store(int64(pages))
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shape.restore(shape)
}

// Origin returns the origin under which pages of the given one are known: its own,
// or that of its www twin.
func (s *Seeder) Origin(origin string) string {
	s.begin()
	if st := s.lookup(origin); st != nil {
		return st.origin
	}
	return origin
}

// separate declares that an origin and its www twin are two sites (E44).
func (s *Seeder) separate(origin string) {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := twin(origin); t != "" {
		s.split[origin], s.split[t] = true, true
		s.gen.Add(1)
	}
}

// divide splits an origin from the twin under whose name its pages are known: a
// redirect leads to the origin, so the twin does not have the page. Otherwise many
// pages would be redirects to themselves.
func (s *Seeder) divide(origin string) {
	if st := s.lookup(origin); st != nil && st.origin != origin {
		s.separate(origin)
	}
}

// A Tally counts what was found on a site at one depth.
type Tally struct {
	Depth   int // of the pages found; negative: they were listed, not linked
	Dynamic bool

	New        int // new pages
	Seen       int // links to known pages
	Duplicates int // pages with the content of others (B13: as if one had gone back)
}

// Count adds a tally, once it is committed: it decides how deep the site is
// crawled.
func (s *Seeder) Count(origin string, t Tally) {
	st := s.ours(origin)
	st.pages.Add(int64(t.New))
	if t.Depth < 0 {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shape.count(t)
}

// Shape returns the site's shape as it is to be stored, nil if there is none.
func (s *Seeder) Shape(origin string) []byte {
	s.begin()
	st := s.lookup(origin)
	if st == nil {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.shape.bytes()
}

func (st *site) deeper(depth, base int, dyn bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.shape.deeper(depth, base, dyn)
}
