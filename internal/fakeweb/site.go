package fakeweb

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Site is one origin. The exported fields may be changed before its first request, and its pages by its
// methods at any time.
type Site struct {
	Kind   Kind
	Number int
	Host   string
	Origin string // "http://honest0.example"
	IP     netip.Addr

	Speaks   bool // it has a manifest, and serves changes
	Polled   bool // its manifest does not say that it serves changes
	Undated  bool // responses with its pages have no Last-Modified
	Sitemap  bool
	Robots   string        // robots.txt; empty: 404
	Disallow []string      // prefixes that Robots forbids to all
	Delay    time.Duration // Crawl-delay that Robots states
	Latency  time.Duration // before every response
	Traps    []string      // paths besides the pages, to which "/" links

	// Handler, if not nil, is called first; it reports whether it has responded.
	Handler func(http.ResponseWriter, *http.Request) bool

	web *Web

	// The Web's lock guards the rest.
	rand  *rand.Rand
	pages map[string]*page // by path
	log   []protocol.Change
	more  chan struct{} // closed when the log grows
	asked int
}

// name returns the host without its port.
func (s *Site) name() string {
	name, _, _ := strings.Cut(s.Host, ":")
	return name
}

func (s *Site) port() uint16 {
	_, port, ok := strings.Cut(s.Host, ":")
	if n, err := strconv.ParseUint(port, 10, 16); ok && err == nil {
		return uint16(n)
	}
	return 80
}

// A page is one document. The code that makes it sets its links.
type page struct {
	path     string
	version  int
	modified time.Time
	links    []string
	body     string // empty: made of the rest
}

func (p *page) text(host string) string {
	if p.body != "" {
		return p.body
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=en><head><title>%s of %s</title></head><body>\n<h1>%s</h1>\n<p>This is version %d of what stands here.</p>\n<ul>\n",
		p.path, host, p.path, p.version)
	for _, l := range p.links {
		fmt.Fprintf(&b, "<li><a href=%q>%s</a></li>\n", l, l)
	}
	b.WriteString("</ul>\n</body></html>\n")
	return b.String()
}

// build makes the pages of a new site: a tree, so that all can be reached, with some links across, and a link
// to another site. The Web's lock is held.
func (s *Site) build() {
	r, o := s.rand, s.web.opts
	s.pages, s.more = map[string]*page{}, make(chan struct{})
	s.page("/")
	n := 1 + r.IntN(max(1, cmp.Or(o.Pages, 12)))
	paths := []string{"/"}
	for i := 1; i < n; i++ {
		up := paths[r.IntN(len(paths))]
		path := strings.TrimSuffix(up, ".html")
		if !strings.HasSuffix(path, "/") {
			path += "/"
		}
		paths = append(paths, path+"p"+strconv.Itoa(i)+".html")
		s.page(paths[i])
		s.page(up).links = append(s.page(up).links, paths[i])
	}
	for range n / 2 {
		from := s.page(paths[r.IntN(n)])
		from.links = append(from.links, paths[r.IntN(n)])
	}
	if s.Number > 0 {
		s.page("/").links = append(s.page("/").links, s.web.sites[r.IntN(s.Number)].Origin+"/")
	}
	s.Speaks = s.Kind == Honest && r.IntN(100) < o.Speak
	s.Sitemap = s.Kind == Lying || r.IntN(2) == 0
	s.setUp()
	s.Robots = s.robots()
}

func (s *Site) robots() string {
	if s.Kind == SoftNotFound && len(s.Disallow) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for _, d := range s.Disallow {
		fmt.Fprintf(&b, "Disallow: %s\n", d)
	}
	if s.Delay > 0 {
		fmt.Fprintf(&b, "Crawl-delay: %g\n", s.Delay.Seconds())
	}
	if s.Sitemap {
		fmt.Fprintf(&b, "Sitemap: %s/sitemap.xml\n", s.Origin)
	}
	return b.String()
}

// Forbids reports whether robots.txt forbids a path.
func (s *Site) Forbids(path string) bool {
	return path != "/robots.txt" && slices.ContainsFunc(s.Disallow, func(d string) bool { return strings.HasPrefix(path, d) })
}

// page returns the page of a path, and creates it if there is none.
func (s *Site) page(path string) *page {
	p := s.pages[path]
	if p == nil {
		p = &page{path: path, version: 1, modified: s.web.opts.Start}
		s.pages[path] = p
	}
	return p
}

// Paths returns the paths of all pages, sorted. Each can be reached from "/".
func (s *Site) Paths() []string {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	return s.paths()
}

func (s *Site) paths() []string {
	var list []string
	for path := range s.pages {
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// Body returns the current body of a page.
func (s *Site) Body(path string) (string, bool) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	if p := s.pages[path]; p != nil {
		return p.text(s.Host), true
	}
	return "", false
}

// Edit changes a page, or makes one that "/" links to.
func (s *Site) Edit(path string) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	op := protocol.Update
	p := s.pages[path]
	if p == nil {
		op, p = protocol.Create, s.page(path)
		if path != "/" {
			home := s.page("/")
			home.links, home.version, home.modified = append(home.links, path), home.version+1, time.Now()
			s.tell(protocol.Change{Op: protocol.Update, Item: s.item(home)})
		}
	}
	p.version++
	p.modified = time.Now()
	s.tell(protocol.Change{Op: op, Item: s.item(p)})
}

// Put makes a page with this body.
func (s *Site) Put(path, body string) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	op := protocol.Update
	if s.pages[path] == nil {
		op = protocol.Create
	}
	p := s.page(path)
	p.body, p.modified = body, time.Now()
	s.tell(protocol.Change{Op: op, Item: s.item(p)})
}

// Delete removes a page; links to it stay.
func (s *Site) Delete(path string) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	if s.pages[path] != nil {
		delete(s.pages, path)
		s.tell(protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: s.Origin + path, Length: -1}})
	}
}

// tell appends to the site's journal.
func (s *Site) tell(c protocol.Change) {
	c.Seq, c.At = uint64(len(s.log)+1), time.Now().UTC().Truncate(time.Millisecond)
	s.log = append(s.log, c)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *Site) item(p *page) protocol.Item {
	body := p.text(s.Host)
	return protocol.Item{URL: s.Origin + p.path, Modified: p.modified.UTC().Truncate(time.Second), Length: int64(len(body)),
		Type: "text/html", Digest: protocol.Sum([]byte(body))}
}

func (s *Site) cursor() protocol.Cursor {
	return protocol.Cursor{Epoch: "fake", Seq: uint64(len(s.log))}
}

// dice returns a number below n, the same in every run of a test that sends the site the same requests in the
// same order.
func (s *Site) dice(n int) int {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	return s.rand.IntN(n)
}
