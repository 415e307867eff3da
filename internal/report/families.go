package report

import (
	"cmp"
	"hash/fnv"
	"math/bits"
	neturl "net/url"
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
	maxName     = 40   // bytes of a parameter's name or a directory's
	maxParams   = 6    // parameters of a URL that make families, in the order of their names
	maxDirs     = 3    // directories of a URL that make families
	maxExample  = 200  // bytes of a URL that is kept as an example
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
	Example     string   `json:"example"`     // a URL of it; empty if all are too long
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
	read := string(e.Method) == "GET" && e.Status == 200
	if read && (who.obeys || s.reads == 0) {
		s.ok, s.size = true, e.Bytes
	}
	s.not = s.not || e.Status == 304
	if !who.obeys {
		return
	}
	s.Traffic.add(this)
	switch {
	case read:
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
	family   Family
	parts    []string // names of parameters, or directories
	crawlers []uint64 // a bitset of numbers
	groups   map[uint64]*group
	mask     uint64 // only groups are sampled whose hash has none of these bits
	examples [numExamples]example
	score    float64 // wasted requests, less what is lost with them; 0 if there is too little evidence
	bare     float64 // share of the sampled URLs of which the page without the parameters is in the log
}

// An example is a URL, the one with the lowest hash of many.
type example struct {
	hash uint64
	url  string
}

// A group has the URLs of a family that differ only in the parameters of the family, or all URLs of a directory.
type group struct {
	sizes                []sized
	urls, reads, repeats int64  // repeats are reads of URLs of a size that another URL had before
	own, path            uint64 // hashes of the URL without the parameters, and of its path alone
	bare                 bool   // the first was answered 200; or the second, with the size of a URL of the group
	size                 int64  // of that page
}

type sized struct{ size, reads int64 } // reads of the first URL of that size

func (g *group) has(size int64) bool {
	return slices.ContainsFunc(g.sizes, func(s sized) bool { return s.size == size })
}

// wasted returns the reads that showed nothing new, as far as sizes can tell. Where the page without the parameters is unknown,
// they may be what names a page. Where it is known, equal sizes of all URLs mean that the parameters change nothing: a session's
// number, in every link, makes each of them larger than the page.
func (g *group) wasted(params bool) int64 {
	switch {
	case params && !g.bare:
		return 0
	case params && len(g.sizes) == 1 && g.urls > 1:
		return g.reads
	}
	n := g.repeats
	for _, s := range g.sizes {
		if params && s.size == g.size {
			n += s.reads
		}
	}
	return n
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
	if i := strings.Index(url, "://"); i >= 0 && i < strings.IndexByte(url, '/') { // as requested from a proxy
		url = url[i+3:]
	}
	n := max(0, strings.IndexByte(url, '/'))
	s.host, s.dirs, s.params = url[:n], s.dirs[:0], s.params[:0]
	s.target, _, _ = strings.Cut(url[n:], "#")
	path, query, found := strings.Cut(s.target, "?")
	s.path, s.query = hashOf(path), found
	s.hash = s.path
	for dir, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/"); ok && len(s.dirs) < maxDirs; dir, rest, ok = strings.Cut(rest, "/") {
		s.dirs = append(s.dirs, dir)
	}
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		hash := hashOf(part)
		s.hash += hash
		if name, _, ok := strings.Cut(part, "="); ok {
			if decoded, err := neturl.PathUnescape(name); err == nil && safe(decoded, "[]") {
				s.params = append(s.params, param{decoded, hash})
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

// safe reports whether a name can be put into robots.txt and into the configuration of nginx.
func safe(name, and string) bool {
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("-._~"+and, c) < 0 {
			return false
		}
	}
	return strings.Trim(name, ".") != "" && len(name) <= maxName
}

// families counts URLs by family.
type families struct {
	by  map[string]*tally // by host, a space, and name
	key []byte
	url split
}

// each calls do for each family of the URL, with the family's name and the hash of the URL's group in the family.
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
	for n := range u.dirs {
		for wild := range n + 1 { // one directory may be any, but not the last one; wild == n is none
			parts := [2*maxDirs + 1]string{"/"}
			ok := true
			for i, d := range u.dirs[:n+1] {
				if i == wild && i < n {
					d = "*"
				}
				ok = ok && (d == "*" && i == wild || safe(d, ""))
				parts[2*i+1], parts[2*i+2] = d, "/"
			}
			if ok {
				call(0, parts[:]...)
			}
		}
	}
}

// add counts a URL that is remembered. One that only other clients requested counts in families that exist.
func (f *families) add(p *pages, id int32) {
	pg, url := &p.list[id], p.urls[id]
	if pg.door {
		return
	}
	s := &pg.spent
	f.url.read(url)
	f.each(func(key []byte, group uint64) {
		t := f.by[string(key)]
		if t == nil {
			if s.Requests == 0 {
				return
			}
			t = f.create(string(key))
		}
		c := &t.family
		c.Others += int64(pg.hits) - s.Requests
		if s.Requests == 0 {
			return
		}
		c.URLs++
		c.Traffic.add(s.Traffic)
		c.Redirected += int64(s.redirected)
		c.Failed += int64(s.failed)
		c.NotModified += int64(s.notModified)
		c.Reads += int64(s.reads)
		for at := pg.pairs; at >= 0; at = p.pairs[at].next {
			if n := int(p.pairs[at].crawler); p.callers.list[n].obeys {
				for n/64 >= len(t.crawlers) {
					t.crawlers = append(t.crawlers, 0)
				}
				t.crawlers[n/64] |= 1 << (n % 64)
			}
		}
		if e := &t.examples[f.url.hash%numExamples]; len(url) <= maxExample && (e.url == "" || f.url.hash < e.hash) {
			*e = example{f.url.hash, url}
		}
		if s.reads > 0 && group&t.mask == 0 {
			t.sample(group, &f.url, s)
		}
	})
}

func (f *families) create(key string) *tally {
	if len(f.by) >= maxTallies { // forget the half with the fewest requests
		var all []int64
		for _, t := range f.by {
			all = append(all, t.family.Requests)
		}
		slices.Sort(all)
		for k, t := range f.by {
			if t.family.Requests <= all[len(all)/2] {
				delete(f.by, k)
			}
		}
	}
	host, name, _ := strings.Cut(key, " ")
	t := &tally{family: Family{Host: host, Name: name}, groups: map[uint64]*group{}}
	if t.parts = strings.Split(strings.Trim(name, "/"), "/"); t.params() {
		t.parts = strings.Split(strings.TrimSuffix(name[1:], "="), "=&")
	}
	f.by[key] = t
	return t
}

// params reports whether it is a family of parameters, not of directories.
func (t *tally) params() bool { return t.family.Name[0] == '?' }

// sample compares the size of a URL with the sizes of those of the same group. Below a directory, URLs with a query belong
// to the families of their parameters: they count as new.
func (t *tally) sample(hash uint64, u *split, s *spent) {
	g := t.groups[hash]
	if g == nil {
		g = &group{own: hash, path: u.path}
		t.groups[hash] = g
	}
	reads := int64(s.reads)
	g.urls++
	g.reads += reads
	if g.has(s.size) {
		g.repeats += reads
	} else if len(g.sizes) < maxSizes && (t.params() || !u.query) {
		g.sizes = append(g.sizes, sized{s.size, reads})
	}
	for len(t.groups) > maxGroups {
		t.mask = t.mask<<1 | 1
		for h := range t.groups {
			if h&t.mask != 0 {
				delete(t.groups, h)
			}
		}
	}
}

// judge sets what follows from the counts, given the requests of all crawlers that read robots.txt.
func (t *tally) judge(all int64) {
	c := &t.family
	var reads, wasted, urls, bare int64
	for _, g := range t.groups {
		reads += g.reads
		wasted += g.wasted(t.params())
		if urls += g.urls; g.bare {
			bare += g.urls
		}
	}
	for _, b := range t.crawlers {
		c.Crawlers += bits.OnesCount64(b)
	}
	if reads > 0 {
		c.Repeats = int64(float64(c.Reads) * float64(wasted) / float64(reads))
		t.bare = float64(bare) / float64(urls)
	}
	waste := c.Redirected + c.Failed + c.Repeats
	if c.Requests >= familyRequests && float64(c.Requests) >= familyShare*float64(all) && c.URLs >= familyURLs && 2*waste >= c.Requests && (t.params() || !t.used()) {
		t.score = float64(waste - newCosts*(c.Reads-c.Repeats))
	}
}

// used reports whether visitors use the family.
func (t *tally) used() bool {
	return float64(t.family.Others) > familyOthers*float64(t.family.Requests)
}

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
	slices.SortFunc(list, func(a, b *tally) int { // of equal ones, one parameter before two, and the innermost directory
		x, y := &a.family, &b.family
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(strings.Count(x.Name, "="), strings.Count(y.Name, "=")),
			cmp.Compare(strings.Count(x.Name, "*"), strings.Count(y.Name, "*")), cmp.Compare(len(y.Name), len(x.Name)), cmp.Compare(x.Name+x.Host, y.Name+y.Host))
	})
	result := []Family{}
	for _, t := range list {
		if len(result) < maxListed && !slices.ContainsFunc(taken, t.within) && t.rules(p, known, len(result)+1) {
			taken, result = append(taken, t), append(result, t.family)
		}
	}
	return result
}

// findBare looks for the pages of the sampled groups without the parameters. Where several parameters change nothing, the URL
// without one of them may never occur: then the path alone is such a page, if it has the size of one of the URLs.
func (f *families) findBare(p *pages) {
	want := map[uint64][]*group{}
	for _, t := range f.by {
		if t.params() && t.family.Requests >= familyRequests && t.family.URLs >= familyURLs {
			host := hashOf(t.family.Host)
			for _, g := range t.groups {
				want[g.own+host] = append(want[g.own+host], g)
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
