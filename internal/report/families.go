package report

import (
	"cmp"
	"hash/fnv"
	"math/bits"
	"net/url"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/accesslog"
)

// What a family of URLs needs to be proposed. Requests are those of crawlers that read robots.txt.
const (
	familyRequests = 100  // fewer are not worth a rule that somebody has to maintain
	familyShare    = 0.01 // of all requests of these crawlers: less would not be noticed
	familyURLs     = 20   // fewer can be listed, and say little about the URLs to come
	newCosts       = 20   // a request for something new that is lost counts as much as so many wasted ones
	familyOthers   = 0.05 // requests of other clients, per request of crawlers: with more, visitors use the family
	maxListed      = 10   // families that are proposed
)

// Bounds of the memory for families, at most about 100 MB.
const (
	maxTallies  = 4096 // families that are counted at a time
	maxGroups   = 64   // pages of a family whose sizes are compared: a sample, if there are more
	maxSizes    = 12   // sizes of a page that are remembered
	maxExample  = 200  // bytes of a URL that is kept as an example
	maxName     = 40   // bytes of a parameter's name or a directory's
	maxParams   = 6    // parameters of a URL that make families, in the order of their names
	maxDirs     = 3    // directories of a URL that make families
	numExamples = 16
)

// A Family is a set of URLs in which crawlers spend requests and find almost nothing new: those with a parameter, those with
// two parameters, or those below directories. Its figures are of the crawlers that read robots.txt, so not of feed readers,
// previews, monitors and false names.
type Family struct {
	Host string `json:"host,omitempty"` // the virtual host, if the log names it
	Name string `json:"name"`           // "?sort=", "?color=&size=" for both in any order, "/tag/*/page/" with * for one directory
	Traffic
	Crawlers    int      `json:"crawlers"`
	URLs        int64    `json:"urls"`
	Redirected  int64    `json:"redirected"`  // requests answered 3xx, except 304
	Failed      int64    `json:"failed"`      // requests answered 4xx, except 429
	NotModified int64    `json:"notmodified"` // requests answered 304
	Reads       int64    `json:"reads"`       // requests answered 200
	Repeats     int64    `json:"repeats"`     // of Reads: of the same size as another URL of the page, estimated from a sample
	Others      int64    `json:"others"`      // requests of all other clients
	Example     string   `json:"example"`     // a URL of it
	Robots      []string `json:"robots"`      // lines for robots.txt, for the group of any user agent
	Nginx       []string `json:"nginx"`       // lines for nginx; none where visitors use the family, or the server redirects it
}

// spent counts the requests for a URL of crawlers that read robots.txt.
type spent struct {
	Traffic
	reads, redirected, failed, notModified uint32

	size int64 // of the last response 200, to these crawlers if they got one
	ok   bool  // somebody got a 200
	not  bool  // somebody got a 304
}

func (s *spent) add(e *accesslog.Entry, who *caller, this Traffic) {
	get := string(e.Method) == "GET"
	if get && e.Status == 200 && (who.obeys || s.reads == 0) {
		s.ok, s.size = true, e.Bytes
	}
	s.not = s.not || e.Status == 304
	if !who.obeys {
		return
	}
	s.Traffic.add(this)
	switch {
	case get && e.Status == 200:
		s.reads++
	case e.Status == 304:
		s.notModified++
	case e.Status >= 300 && e.Status < 400:
		s.redirected++
	case e.Status >= 400 && e.Status < 500 && e.Status != 429:
		s.failed++
	}
}

// A tally is a family that is being counted.
type tally struct {
	Family
	parts    []string // names of parameters, or directories
	crawlers []uint64 // a bitset of numbers
	groups   map[uint64]*group
	mask     uint64 // only groups are sampled whose hash has none of these bits
	examples [numExamples]example
	score    float64
	bare     float64 // share of the sampled URLs without the parameters that are pages
}

// An example is a URL, the one with the lowest hash of many.
type example struct {
	hash uint64
	url  string
}

// A group has the URLs of a family that differ only in the parameters of the family, or all URLs of a directory.
type group struct {
	sizes   []sized
	urls    int64
	reads   int64
	repeats int64  // reads of URLs of a size that another URL had before
	own     uint64 // hash of the URL without the parameters
	path    uint64
	bare    bool  // the URL without the parameters was answered 200, or that of the path alone with the size of one of these
	size    int64 // of that page
}

func (g *group) has(size int64) bool {
	return slices.ContainsFunc(g.sizes, func(s sized) bool { return s.size == size })
}

type sized struct{ size, reads int64 } // reads of the first URL of that size

// wasted returns the reads that showed nothing new, as far as sizes can tell. Beside a page without the parameters, equal
// sizes of all URLs with them mean that the parameters change nothing: a session's number changes the size a little.
func (g *group) wasted(params bool) int64 {
	switch {
	case !params:
		return g.repeats
	case !g.bare:
		return 0 // the parameters may be what names a page
	case len(g.sizes) == 1 && g.urls > 1:
		return g.reads
	}
	n := g.repeats
	for _, s := range g.sizes {
		if s.size == g.size {
			n += s.reads
		}
	}
	return n
}

// families counts URLs by family.
type families struct {
	by  map[string]*tally // by host, a space, and name
	key []byte
	url split
}

// split is a URL in the parts that make families.
type split struct {
	host, target string
	dirs         []string // at most maxDirs
	params       []param  // by name, each once; those without a value are only in hash
	path         uint64   // hash of the path
	hash         uint64   // of the path and all parameters, in any order
	query        bool
}

type param struct {
	name string // decoded
	hash uint64
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	n := h.Sum64()
	return (n ^ n>>32) * 0x9e3779b97f4a7c15
}

// read splits a URL, as it is in pages.urls.
func (s *split) read(url string) {
	s.host, s.dirs, s.params, s.query = "", s.dirs[:0], s.params[:0], false
	if i := strings.Index(url, "://"); i >= 0 && i < strings.IndexByte(url, '/') { // as requested from a proxy
		url = url[i+3:]
	}
	if i := strings.IndexByte(url, '/'); i > 0 {
		s.host, url = url[:i], url[i:]
	}
	s.target, _, _ = strings.Cut(url, "#")
	path, query, found := strings.Cut(s.target, "?")
	s.path = hashOf(path)
	s.query, s.hash = found, s.path
	for rest := strings.TrimPrefix(path, "/"); len(s.dirs) < maxDirs; {
		dir, more, ok := strings.Cut(rest, "/")
		if !ok {
			break
		}
		s.dirs, rest = append(s.dirs, dir), more
	}
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		if part == "" {
			continue
		}
		hash := hashOf(part)
		s.hash += hash
		if name, _, ok := strings.Cut(part, "="); ok {
			if name = decoded(name); safe(name, "[]") {
				s.params = append(s.params, param{name, hash})
			}
		}
	}
	slices.SortFunc(s.params, func(a, b param) int { return cmp.Compare(a.name, b.name) })
	once := s.params[:0]
	for _, p := range s.params {
		if n := len(once); n > 0 && once[n-1].name == p.name {
			once[n-1].hash += p.hash
		} else {
			once = append(once, p)
		}
	}
	s.params = once
}

func decoded(name string) string {
	if strings.IndexByte(name, '%') < 0 {
		return name
	}
	if s, err := url.PathUnescape(name); err == nil {
		return s
	}
	return name
}

// safe reports whether a name can be put into robots.txt and into the configuration of nginx.
func safe(name, and string) bool {
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("-._~"+and, c) < 0 {
			return false
		}
	}
	return name != "" && name != "." && name != ".." && len(name) <= maxName
}

// each calls f for each family of the URL: its name, and the hash of the group of the URL in it.
func (f *families) each(do func(key []byte, group uint64)) {
	u := &f.url
	call := func(group uint64, parts ...string) {
		f.key = append(append(f.key[:0], u.host...), ' ')
		for _, p := range parts {
			f.key = append(f.key, p...)
		}
		do(f.key, group)
	}
	few := u.params[:min(len(u.params), maxParams)]
	for i, p := range few {
		call(u.hash-p.hash, "?", p.name, "=")
		for _, q := range few[i+1:] {
			call(u.hash-p.hash-q.hash, "?", p.name, "=&", q.name, "=")
		}
	}
	d := u.dirs
	for n := range d {
		if !safe(d[n], "") {
			break
		}
		switch n {
		case 0:
			call(0, "/", d[0], "/")
		case 1:
			call(0, "/", d[0], "/", d[1], "/")
		case 2:
			call(0, "/", d[0], "/", d[1], "/", d[2], "/")
		}
	}
	if len(d) > 1 && safe(d[1], "") {
		call(0, "/*/", d[1], "/")
	}
	if len(d) > 2 && safe(d[0], "") && safe(d[2], "") {
		call(0, "/", d[0], "/*/", d[2], "/")
	}
}

// add counts a URL that is remembered. One that only other clients requested counts in families that exist.
func (f *families) add(p *pages, id int32) {
	pg := &p.list[id]
	if pg.door {
		return
	}
	f.url.read(p.urls[id])
	f.each(func(key []byte, group uint64) {
		t := f.by[string(key)]
		if t == nil {
			if pg.spent.Requests == 0 {
				return
			}
			t = f.create(string(key))
		}
		t.Others += int64(pg.hits) - pg.spent.Requests
		if pg.spent.Requests == 0 {
			return
		}
		t.URLs++
		t.Traffic.add(pg.spent.Traffic)
		t.Redirected += int64(pg.spent.redirected)
		t.Failed += int64(pg.spent.failed)
		t.NotModified += int64(pg.spent.notModified)
		t.Reads += int64(pg.spent.reads)
		for at := pg.pairs; at >= 0; at = p.pairs[at].next {
			if n := int(p.pairs[at].crawler); p.callers.list[n].obeys {
				for n/64 >= len(t.crawlers) {
					t.crawlers = append(t.crawlers, 0)
				}
				t.crawlers[n/64] |= 1 << (n % 64)
			}
		}
		e := &t.examples[f.url.hash%numExamples]
		if u := p.urls[id]; len(u) <= maxExample && (e.url == "" || f.url.hash < e.hash) {
			*e = example{f.url.hash, u}
		}
		if pg.spent.reads > 0 {
			t.sample(group, f.url.path, &pg.spent, f.url.query)
		}
	})
}

func (f *families) create(key string) *tally {
	if len(f.by) >= maxTallies { // forget the half with the fewest requests
		var all []int64
		for _, t := range f.by {
			all = append(all, t.Requests)
		}
		slices.Sort(all)
		for k, t := range f.by {
			if t.Requests <= all[len(all)/2] {
				delete(f.by, k)
			}
		}
	}
	host, name, _ := strings.Cut(key, " ")
	t := &tally{Family: Family{Host: host, Name: name}, groups: map[uint64]*group{}}
	if t.parts = strings.Split(strings.Trim(name, "/"), "/"); name[0] == '?' {
		t.parts = strings.Split(strings.TrimSuffix(name[1:], "="), "=&")
	}
	f.by[key] = t
	return t
}

// sample compares the size of a URL with the sizes of those of the same group. Below a directory, URLs with a query belong
// to the families of their parameters: they count as new.
func (t *tally) sample(hash, path uint64, s *spent, query bool) {
	if hash&t.mask != 0 {
		return
	}
	g := t.groups[hash]
	if g == nil {
		if len(t.groups) >= maxGroups {
			t.mask = t.mask<<1 | 1
			for h := range t.groups {
				if h&t.mask != 0 {
					delete(t.groups, h)
				}
			}
			t.sample(hash, path, s, query)
			return
		}
		g = &group{own: hash, path: path}
		t.groups[hash] = g
	}
	reads := int64(s.reads)
	g.urls++
	g.reads += reads
	switch {
	case t.Name[0] == '/' && query:
	case g.has(s.size):
		g.repeats += reads
	default:
		if len(g.sizes) < maxSizes {
			g.sizes = append(g.sizes, sized{s.size, reads})
		}
	}
}

// judge sets the score: wasted requests, less what is lost.
func (t *tally) judge(all int64) {
	var reads, wasted, urls, bare int64
	for _, g := range t.groups {
		reads += g.reads
		wasted += g.wasted(t.Name[0] == '?')
		if urls += g.urls; g.bare {
			bare += g.urls
		}
	}
	t.Crawlers = 0
	for _, b := range t.crawlers {
		t.Crawlers += bits.OnesCount64(b)
	}
	if reads > 0 {
		t.Repeats = int64(float64(t.Reads) * float64(wasted) / float64(reads))
		t.bare = float64(bare) / float64(urls)
	}
	waste := t.Redirected + t.Failed + t.Repeats
	t.score = float64(waste - newCosts*(t.Reads-t.Repeats))
	switch {
	case t.Requests < familyRequests, float64(t.Requests) < familyShare*float64(all), t.URLs < familyURLs, 2*waste < t.Requests,
		t.Name[0] == '/' && t.used():
		t.score = 0
	}
}

// used reports whether visitors use the family.
func (t *tally) used() bool { return float64(t.Others) > familyOthers*float64(t.Requests) }

// found returns the families to propose, those that save most first.
func (f *families) found(p *pages, known []string) []Family {
	for _, crawled := range []bool{true, false} {
		for id := range p.list {
			if (p.list[id].spent.Requests > 0) == crawled {
				f.add(p, int32(id))
			}
		}
	}
	all := int64(0)
	for _, c := range p.callers.list {
		if c.obeys {
			all += c.traffic.Requests
		}
	}
	f.findBare(p)
	var list, taken []*tally
	for _, t := range f.by {
		if t.judge(all); t.score > 0 {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(strings.Count(a.Name, "="), strings.Count(b.Name, "=")),
			cmp.Compare(len(b.Name), len(a.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host))
	})
	result := []Family{}
	for _, t := range list {
		if len(result) == maxListed {
			break
		}
		if !slices.ContainsFunc(taken, t.within) && t.rules(p, known, len(result)+1) {
			taken, result = append(taken, t), append(result, t.Family)
		}
	}
	return result
}

// findBare looks for the pages of the sampled groups without the parameters. Where several parameters change nothing, the URL
// without one of them may never occur: then the path alone is such a page, if it has the size of one of the URLs.
func (f *families) findBare(p *pages) {
	want := map[uint64][]*group{}
	for _, t := range f.by {
		if t.Name[0] == '?' && t.Requests >= familyRequests && t.URLs >= familyURLs {
			host := hashOf(t.Host)
			for h, g := range t.groups {
				want[h+host] = append(want[h+host], g)
				if g.own != g.path {
					want[g.path+host] = append(want[g.path+host], g)
				}
			}
		}
	}
	for id := range p.list {
		if s := &p.list[id].spent; s.ok {
			f.url.read(p.urls[id])
			for _, g := range want[f.url.hash+hashOf(f.url.host)] {
				if g.own == f.url.hash || !g.bare && g.has(s.size) {
					g.bare, g.size = true, s.size
				}
			}
		}
	}
}

// within reports whether most of the family's URLs are in another one.
func (t *tally) within(o *tally) bool {
	in, all := 0, 0
	var s split
	for _, e := range t.examples {
		if e.url != "" {
			all++
			if s.read(e.url); o.has(&s) {
				in++
			}
		}
	}
	return 2*in > all
}
