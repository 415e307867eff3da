package seed

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/internal/urlref"
	"github.com/parleyweb/parley/protocol"
)

// A Verdict says what becomes of a URL, and which rule said so.
type Verdict struct {
	URL     string // canonical: by it the page is known; empty: nothing that could be asked for
	Ask     string // by which to ask for it, with the session that was named (E30); empty: the URL
	OK      bool
	Rule    string // for people, such as "robots.txt: Disallow: /private/" or "depth 17 over 15"
	LogOnly bool   // known, not asked for: images, archives
	Dynamic bool
}

// A Ref is a URL that was named.
type Ref struct {
	URL   string
	From  string // URL of the page, or its base: what is relative is resolved against it
	Depth int    // that the URL would have: one more than its page's for a Link
	Kind  Kind
}

// A Kind is how a URL was named. robots.txt holds for all; so do all other
// rules and limits, unless it is said here.
type Kind uint8

// The kinds.
const (
	Link     Kind = iota // a page leads there
	Redirect             // an answer leads there; if that is to the www twin, these are two sites
	Embedded             // a page shows it: images and the like are not LogOnly

	// Listed is what a sitemap, a feed, a manifest or a notice names. No limit
	// of depth holds for it, nor Rules.MaxURL: such a list has an end. Documents,
	// such as PDF, are not LogOnly.
	Listed

	// Person is what somebody asks for. Only robots.txt stands against it.
	Person
)

// A Seeder admits URLs. The zero Seeder is of use. Its fields are not to be
// changed once it is used; its methods may be called by many goroutines.
//
// It knows of a site what [Seeder.SetShape], [Seeder.SetRobots] and
// [Seeder.Count] tell it: it keeps nothing on disk, and has no clock.
type Seeder struct {
	Rules Rules

	// Agent is the product token that robots.txt is asked for. Empty means "parley".
	Agent string

	once  sync.Once
	c     *compiled
	agent string
	seed  maphash.Seed
	gen   atomic.Uint64 // grows when a name may have changed its meaning
	known []atomic.Pointer[opinion]

	mu    sync.RWMutex
	sites map[string]*site // by origin
	split map[string]bool  // origins whose www twin is another site, both of them
}

// knownSize is how many opinions are remembered: most links of a page are on
// its neighbours too. maxSites bounds the sites that are remembered only because
// somebody named them.
const (
	knownSize = 1 << 16
	maxSites  = 1 << 20
)

// An opinion is what was thought of a URL, but for its depth.
type opinion struct {
	url      string // as resolved
	hash     uint64
	verdict  Verdict
	document bool  // see Listed
	site     *site // nil: not a site of ours
	force    *force
	gen      uint64
}

func (s *Seeder) begin() {
	s.once.Do(func() {
		s.c, s.agent, s.seed = s.Rules.compile(), s.Agent, maphash.MakeSeed()
		if s.agent == "" {
			s.agent = "parley"
		}
		s.known = make([]atomic.Pointer[opinion], knownSize)
		s.sites, s.split = map[string]*site{}, map[string]bool{}
	})
}

// Admit returns the verdict of a URL, whether its page is known already or
// not. What a rule refuses has its URL too: so it can be kept, and shown with the rule.
func (s *Seeder) Admit(r Ref) Verdict {
	s.begin()
	hash := maphash.String(s.seed, r.URL)
	o := s.opinion(r.URL, hash) // what is canonical already needs no more
	if o == nil || r.Kind == Redirect {
		url, err := resolve(r.From, r.URL)
		if err != nil {
			return Verdict{Rule: err.Error()}
		}
		if r.Kind == Redirect {
			s.divide(url[:pathBegin(url)])
		}
		if url != r.URL || r.Kind == Redirect {
			hash = maphash.String(s.seed, url)
			o = s.opinion(url, hash)
		}
		if o == nil {
			o = s.judge(url, hash)
		}
	}
	v := o.verdict
	if r.Kind == Embedded || r.Kind == Person || r.Kind == Listed && o.document {
		v.LogOnly = false
	}
	if r.Kind == Person {
		v.Rule = ""
		if o.force != nil {
			v.Rule = s.forbids(o.force, v.URL)
		}
		v.OK = v.Rule == ""
	}
	if v.OK && r.Kind != Person {
		v.Rule = s.beyond(o.site, &v, r)
		v.OK = v.Rule == ""
	}
	return v
}

// opinion returns what was thought of the URL before, nil if that is
// forgotten or not valid any more.
func (s *Seeder) opinion(url string, hash uint64) *opinion {
	o := s.known[hash%knownSize].Load()
	switch {
	case o == nil || o.hash != hash || o.url != url || o.gen != s.gen.Load():
		return nil
	case o.site == nil && s.lookup(o.verdict.URL[:pathBegin(o.verdict.URL)]) != nil:
		return nil // it has become a site of ours
	case o.site != nil && o.site.force.Load() != o.force:
		return nil
	}
	return o
}

// judge forms the opinion of a URL that was resolved.
func (s *Seeder) judge(url string, hash uint64) *opinion {
	o := &opinion{url: url, hash: hash, gen: s.gen.Load()}
	v := &o.verdict
	v.URL, v.Ask = s.c.name(url)
	begin := pathBegin(v.URL)
	o.site = s.lookup(v.URL[:begin])
	if st := o.site; st != nil && st.origin != v.URL[:begin] {
		if v.Ask != "" {
			v.Ask = st.origin + v.Ask[begin:]
		}
		v.URL = st.origin + v.URL[begin:]
		begin = len(st.origin)
	}
	switch s.c.classOf(v.URL[begin:]) {
	case dynamic:
		v.Dynamic = true
	case document:
		o.document = true
		v.LogOnly = true
	case logged:
		v.LogOnly = true
	case unlisted:
		if s.c.onlyStatic {
			v.Rule = "extension is not accepted"
		}
	}
	if len(v.URL) > protocol.MaxURL {
		v.Rule = longer(protocol.MaxURL)
	} else if rule := s.c.refuses(v.URL, begin); rule != "" {
		v.Rule = rule
	}
	if o.site == nil && v.Rule == "" && !v.LogOnly {
		o.site = s.enter(v.URL[:begin])
	}
	if o.site != nil {
		o.force = o.site.force.Load()
	}
	if o.force != nil && v.Rule == "" {
		v.Rule = s.forbids(o.force, v.URL)
	}
	if v.Ask != "" && (len(v.Ask) > s.c.maxURL || o.force != nil && s.forbids(o.force, v.Ask) != "") {
		v.Ask = ""
	}
	v.OK = v.Rule == ""
	s.known[hash%knownSize].Store(o)
	return o
}

// forbids returns the rule of robots.txt that forbids to ask for the page.
func (s *Seeder) forbids(f *force, url string) string {
	ok, rule := f.file.Decide(s.agent, url[pathBegin(url):])
	if ok {
		return ""
	}
	return "robots.txt: " + rule
}

func longer(than int) string { return fmt.Sprintf("URL longer than %d bytes", than) }

// beyond returns the limit that a page is over.
func (s *Seeder) beyond(st *site, v *Verdict, r Ref) string {
	if r.Kind != Listed && len(v.URL) > s.c.maxURL {
		return longer(s.c.maxURL)
	}
	if st != nil && s.c.perSite >= 0 && st.pages.Load() >= int64(s.c.perSite) {
		return fmt.Sprintf("%d pages of the site", s.c.perSite)
	}
	base := s.c.static
	if v.Dynamic {
		base = s.c.dynamic
	}
	if r.Kind == Listed || base < 0 || r.Depth <= base || st != nil && st.deeper(r.Depth, base, v.Dynamic) {
		return ""
	}
	return fmt.Sprintf("depth %d over %d", r.Depth, base)
}

// Forbids returns the rule of robots.txt that forbids to ask for a page of
// Verdict's, empty if none does. It is asked again before every request: the
// file may have changed after the page was admitted. Whether the site may be
// asked at all is another question, see [Seeder.Silent].
func (s *Seeder) Forbids(url string) string {
	s.begin()
	if st := s.lookup(url[:pathBegin(url)]); st != nil {
		if f := st.force.Load(); f != nil {
			return s.forbids(f, url)
		}
	}
	return ""
}

// Excludes is Forbids, and the Rules as well: they may be others than when the
// page was admitted. How deep and how long it is, and how many a site has, does not count any more.
func (s *Seeder) Excludes(url string) string {
	s.begin()
	hash := maphash.String(s.seed, url)
	o := s.opinion(url, hash)
	if o == nil {
		o = s.judge(url, hash)
	}
	return o.verdict.Rule
}

// Silent returns why nothing of a site may be asked for at present but its
// robots.txt: since that is not known yet, or could not be had. Its pages are to wait, and
// not to be forgotten. It is empty if that is not so.
func (s *Seeder) Silent(origin string) string {
	s.begin()
	if st := s.lookup(origin); st != nil {
		if f := st.force.Load(); f != nil {
			return f.silent
		}
	}
	return "robots.txt is not known yet"
}

// resolve returns the canonical form of a reference.
func resolve(from, ref string) (string, error) {
	var in, out [512]byte // most URLs fit, and then it needs the memory of the result only
	var base urlref.Base
	if !absolute(ref) {
		base.Reset(from)
	}
	if url, ok := base.Resolve(out[:0], append(in[:0], ref...)); ok {
		return string(url), nil
	}
	if _, err := protocol.CanonicalURL(from, ref); err != nil {
		return "", err
	}
	return "", errors.New("not a URL")
}

// absolute reports whether a reference certainly needs no base.
func absolute(ref string) bool {
	return strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://")
}
