package seed

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/internal/urlref"
	"github.com/parleyweb/parley/protocol"
)

// A Verdict is the decision about a URL, and the rule behind it.
type Verdict struct {
	URL     string // canonical; empty if the reference is not a URL that could be fetched
	Ask     string // the URL to fetch instead, with the session of the reference (E30); empty: URL
	OK      bool
	Rule    string // for people, such as "robots.txt: Disallow: /private/" or "depth 17 exceeds the limit 15"
	LogOnly bool   // recorded but not fetched: images, archives
	Dynamic bool

	Partition int // that has its host, if another crawler's: this one keeps it for that; else 0
}

// A Ref is a reference to a URL.
type Ref struct {
	URL   string
	From  string // the base URL for a relative reference: that of the page, or of its <base>
	Depth int    // of the URL: one more than its page's for a Link
	Kind  Kind
}

// A Kind says where a reference was found. robots.txt applies to all kinds, and so do
// all other rules and limits, unless stated here.
type Kind uint8

// The kinds.
const (
	Link     Kind = iota // from a page
	Redirect             // from a response; a redirect to the www twin shows that the two are separate sites
	Embedded             // an embedded resource: images and the like are not LogOnly, and may be one link deeper than pages

	// Listed is a reference from a sitemap, a feed, a manifest or a notice. The limits
	// of depth and Rules.MaxURL do not apply, since such a list is finite. Documents,
	// such as PDF, are not LogOnly.
	Listed

	// Person is a request of a person. Only robots.txt can refuse it.
	Person
)

// A Seeder admits URLs. The zero Seeder is ready to use. Its fields must not
// change once it is used, see [Seeder.SetRules]; its methods are safe for concurrent use.
//
// Its knowledge of a site comes from [Seeder.SetShape], [Seeder.SetRobots] and
// [Seeder.Count]: it stores nothing on disk, and has no clock.
type Seeder struct {
	Rules Rules

	// Starts are the start pages, some of which have limits of their own; nil if none has.
	Starts *Starts

	// Agent is our product token in robots.txt. Empty means "parley".
	Agent string

	once  sync.Once
	rules atomic.Pointer[compiled]
	agent string
	seed  maphash.Seed
	gen   atomic.Uint64 // grows when the canonical form of a URL may have changed, or the Rules have
	known []atomic.Pointer[opinion]

	mu    sync.RWMutex
	sites map[string]*site // by origin
	split map[string]bool  // origins whose www twin is another site, both of them
}

// knownSize is how many opinions are cached: most links of a page are on its
// neighbors, too. maxSites bounds the sites that are kept only because a
// reference named them.
const (
	knownSize = 1 << 16
	maxSites  = 1 << 20
)

// An opinion is a cached verdict on a URL, without the limits that beyond checks.
type opinion struct {
	url      string // as resolved
	hash     uint64
	verdict  Verdict
	document bool  // see Listed
	site     *site // nil: unknown
	force    *rulesInForce
	gen      uint64
}

func (s *Seeder) begin() {
	s.once.Do(func() {
		s.rules.Store(s.Rules.compile())
		s.agent, s.seed = s.Agent, maphash.MakeSeed()
		if s.agent == "" {
			s.agent = "parley"
		}
		s.known = make([]atomic.Pointer[opinion], knownSize)
		s.sites, s.split = map[string]*site{}, map[string]bool{}
	})
}

// SetRules puts other Rules into force. What was admitted before is not withdrawn: see Excludes.
func (s *Seeder) SetRules(r Rules) {
	s.begin()
	s.rules.Store(r.compile())
	s.gen.Add(1) // after the rules: an opinion by the old ones has the old number
}

// CurrentRules returns the Rules in force.
func (s *Seeder) CurrentRules() Rules {
	s.begin()
	return s.rules.Load().of
}

// Outside reports whether the hosts and domains of the Rules in force, or its partition, exclude an origin.
func (s *Seeder) Outside(origin string) bool {
	s.begin()
	c := s.rules.Load()
	return !c.domains.has(origin) || c.of.Partition.Foreign(origin) > 0
}

// Admit returns the verdict on a URL, whether or not its page is known. A refused
// URL has Verdict.URL, too, so that it can be stored and shown with the rule.
func (s *Seeder) Admit(r Ref) Verdict {
	s.begin()
	hash := maphash.String(s.seed, r.URL)
	o := s.opinion(r.URL, hash) // a canonical URL needs nothing else
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
	if r.Kind == Person && v.Partition == 0 {
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

// opinion returns the cached opinion on a URL, nil if there is none or it is no
// longer valid.
func (s *Seeder) opinion(url string, hash uint64) *opinion {
	o := s.known[hash%knownSize].Load()
	switch {
	case o == nil || o.hash != hash || o.url != url || o.gen != s.gen.Load():
		return nil
	case o.site == nil && s.lookup(o.verdict.URL[:pathBegin(o.verdict.URL)]) != nil:
		return nil // the site has become known
	case o.site != nil && o.site.force.Load() != o.force:
		return nil
	}
	return o
}

// judge forms and caches the opinion on a resolved URL.
func (s *Seeder) judge(url string, hash uint64) *opinion {
	o := &opinion{url: url, hash: hash, gen: s.gen.Load()}
	c, v := s.rules.Load(), &o.verdict
	v.URL, v.Ask = c.naming.name(url)
	begin := pathBegin(v.URL)
	o.site = s.lookup(v.URL[:begin])
	if st := o.site; st != nil && st.origin != v.URL[:begin] {
		if v.Ask != "" {
			v.Ask = st.origin + v.Ask[begin:]
		}
		v.URL = st.origin + v.URL[begin:]
		begin = len(st.origin)
	}
	switch c.classes.of(v.URL[begin:]) {
	case dynamic:
		v.Dynamic = true
	case document:
		o.document = true
		v.LogOnly = true
	case logged:
		v.LogOnly = true
	case unlisted:
		if c.classes.onlyStatic {
			v.Rule = "extension is not accepted"
		}
	}
	if len(v.URL) > protocol.MaxURL {
		v.Rule = longer(protocol.MaxURL)
	} else if rule := c.refuses(v.URL, begin); rule != "" {
		v.Rule = rule
	}
	if v.Partition = c.of.Partition.Foreign(v.URL[:begin]); v.Partition > 0 && v.Rule == "" {
		v.Rule = "its host is in partition " + strconv.Itoa(v.Partition) + ", not in " + c.of.Partition.String()
	} else {
		v.Partition = 0
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
	if v.Ask != "" && (len(v.Ask) > c.limits.url || o.force != nil && s.forbids(o.force, v.Ask) != "") {
		v.Ask = ""
	}
	v.OK = v.Rule == ""
	s.known[hash%knownSize].Store(o)
	return o
}

// forbids returns the rule of robots.txt that forbids a URL, or "".
func (s *Seeder) forbids(f *rulesInForce, url string) string {
	ok, rule := f.file.Decide(s.agent, url[pathBegin(url):])
	if ok {
		return ""
	}
	return "robots.txt: " + rule
}

func longer(than int) string { return fmt.Sprintf("URL longer than %d bytes", than) }

// beyond returns the limit that a page exceeds, or "": URL length, pages of the site, depth. The limit of pages of a start page is
// for the collection to keep, which counts them.
func (s *Seeder) beyond(st *site, v *Verdict, r Ref) string {
	most := &s.rules.Load().limits
	if r.Kind != Listed && len(v.URL) > most.url {
		return longer(most.url)
	}
	start := s.Starts.of(v.URL)
	if st != nil && most.perSite >= 0 && (start == nil || start.Pages == 0) && st.pages.Load() >= int64(most.perSite) {
		return fmt.Sprintf("limit of %d pages per site reached", most.perSite)
	}
	depth := r.Depth
	if r.Kind == Embedded {
		depth--
	}
	if start != nil && start.Depth >= 0 && r.Kind != Listed {
		if depth > start.Depth {
			return fmt.Sprintf("depth %d exceeds the limit %d of %s", depth, start.Depth, start.URL)
		}
		return ""
	}
	base := most.static
	if v.Dynamic {
		base = most.dynamic
	}
	if r.Kind == Listed || base < 0 || depth <= base || st != nil && st.deeper(depth, base, v.Dynamic) {
		return ""
	}
	return fmt.Sprintf("depth %d exceeds the limit %d", depth, base)
}

// Forbids returns the rule of robots.txt that forbids a canonical URL, empty if
// none does. It must be called again before every request, since the file may have
// changed after the page was admitted. Whether the site may be fetched from at all
// is a separate check, see [Seeder.Silent].
func (s *Seeder) Forbids(url string) string {
	if f := s.inForce(url[:pathBegin(url)]); f != nil {
		return s.forbids(f, url)
	}
	return ""
}

// Excludes is Forbids and also checks the Rules, which may have changed since the
// page was admitted. MaxURL and the limits of depth and of pages a site are not checked.
func (s *Seeder) Excludes(url string) string {
	s.begin()
	hash := maphash.String(s.seed, url)
	o := s.opinion(url, hash)
	if o == nil {
		o = s.judge(url, hash)
	}
	return o.verdict.Rule
}

// Silent returns why at present only the robots.txt of a site may be fetched, because
// it is not known yet or could not be fetched, or "". The pages of a silent site wait
// and are not dropped.
func (s *Seeder) Silent(origin string) string {
	if f := s.inForce(origin); f != nil {
		return f.silent
	}
	return "robots.txt is not known yet"
}

// resolve returns the canonical form of a reference.
func resolve(from, ref string) (string, error) {
	var in, out [512]byte // most URLs fit, and then only the result is allocated
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

// absolute reports whether a reference needs no base for certain.
func absolute(ref string) bool {
	return strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://")
}
