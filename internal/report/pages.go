package report

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/parleyweb/parley/internal/accesslog"
)

// Bounds of the memory for URLs.
const (
	defaultURLs = 1 << 20   // distinct URLs
	pairsPerURL = 4         // crawlers that requested a URL, on average
	maxURL      = 8 << 10   // bytes of a URL, as web servers accept them
	maxURLBytes = 512 << 20 // bytes of all URLs together
)

// A page is the record of a URL. Counts are uint32: we read no log with four thousand million requests for
// one URL.
type page struct {
	hits        uint32 // requests of all clients
	reads       uint32 // of crawlers, as are the following
	different   uint32
	notModified uint32
	crawlers    uint32
	pairs       int32 // the first one in pages.pairs, or -1
	door        bool
	same        Traffic
	spent       spent
}

// A pair is the record of a crawler and a URL.
type pair struct {
	read    int64 // when it last fetched the page
	current int64 // when its copy was last known to be current: that read, or a 304 after it
	size    int64 // of that copy
	crawler int32
	next    int32 // of the same URL, or -1
	hasRead bool
	gone    bool // it was answered that the page is gone or has moved
}

// pages remembers URLs, and which crawler read each. When there are too many, it forgets those with the
// fewest requests: so frequent URLs are kept, and the loss is bounded and reported.
type pages struct {
	limit   int
	ids     map[string]int32
	urls    []string
	list    []page
	pairs   []pair
	size    int // bytes of all URLs
	proofs  *unchangedProofs
	callers *callers
	family  families
	limits  Limits
	scratch []byte
}

func newPages(limit int, c *callers) *pages {
	return &pages{limit: limit, ids: map[string]int32{}, proofs: newProofs(), callers: c, family: families{by: map[string]*tally{}}, limits: Limits{URLs: limit}}
}

// of returns the number of an entry's URL, or -1 if it is too long. It may renumber all URLs.
func (p *pages) of(e *accesslog.Entry) int32 {
	url := e.Target
	if len(e.Host) > 0 {
		p.scratch = append(append(p.scratch[:0], e.Host...), e.Target...)
		url = p.scratch
	}
	id, ok := p.ids[string(url)]
	if !ok {
		if len(url) > maxURL {
			p.limits.TooLong++
			return -1
		}
		if len(p.list) >= p.limit || p.size > maxURLBytes || len(p.pairs) >= p.limit*pairsPerURL {
			p.forget()
		}
		id = int32(len(p.list))
		s := string(url)
		p.ids[s] = id
		p.urls = append(p.urls, s)
		p.list = append(p.list, page{pairs: -1, door: isDoor(e.Target)})
		p.size += len(s)
	}
	p.list[id].hits++
	return id
}

// isDoor reports whether crawlers request a URL to discover pages, and would go on requesting it, whatever it
// says.
func isDoor(target []byte) bool {
	path := accesslog.Path(target)
	name := path[bytes.LastIndexByte(path, '/')+1:]
	switch {
	case string(path) == "/robots.txt" || string(path) == "/robots.rdf":
		return true
	case bytes.Contains(name, []byte("sitemap")):
		return bytes.HasSuffix(name, []byte(".xml")) || bytes.HasSuffix(name, []byte(".xml.gz")) || bytes.HasSuffix(name, []byte(".txt"))
	}
	return false
}

// pair returns the record of a crawler and a URL, and creates it if necessary. It is valid until the next
// call.
func (p *pages) pair(id int32, crawler int) *pair {
	first := &p.list[id].pairs
	before := first
	for at := *first; at >= 0; at = p.pairs[at].next {
		if found := &p.pairs[at]; found.crawler == int32(crawler) {
			// Move it to the front: repeated requests come from the same crawlers.
			if before != first {
				*before = found.next
				found.next = *first
				*first = at
			}
			return found
		}
		before = &p.pairs[at].next
	}
	p.pairs = append(p.pairs, pair{crawler: int32(crawler), next: *first})
	*first = int32(len(p.pairs) - 1)
	return &p.pairs[*first]
}

// visit records a request for its page.
func (p *pages) visit(e *accesslog.Entry, who *caller, this Traffic) {
	if len(e.Method) == 0 || len(e.Target) == 0 {
		return
	}
	id := p.of(e)
	if id < 0 {
		return
	}
	p.list[id].spent.add(e, who, this)
	who.asked = who.asked || p.list[id].door && string(accesslog.Path(e.Target)) == "/robots.txt"
	if string(e.Method) != "GET" {
		return
	}
	if !who.crawler {
		// Other clients count only as witnesses.
		switch key := p.proofs.key(e.Addr, e.Agent, id); e.Status {
		case 200:
			p.proofs.got(key, e.Unix)
		case 304:
			if since, ok := p.proofs.holds(key); ok {
				p.unchanged(id, since, e.Unix)
			}
		}
		return
	}
	switch e.Status {
	case 200:
		p.read(id, who, e, this)
	case 304:
		who.reading.NotModified++
		who.visits(p.list[id].door).notModified++
		p.list[id].notModified++
		if had := p.pair(id, who.number); had.hasRead {
			had.current = max(had.current, e.Unix)
			p.unchanged(id, had.read, e.Unix)
		}
	case 301, 308, 404, 410:
		if had := p.pair(id, who.number); had.gone {
			who.reading.GoneAgain.add(this)
			who.visits(p.list[id].door).goneAgain.add(this)
		} else {
			had.gone = true
		}
	}
}

// read records that a crawler fetched a page.
func (p *pages) read(id int32, who *caller, e *accesslog.Entry, this Traffic) {
	page := &p.list[id]
	page.reads++
	who.reading.Reads.add(this)
	had := p.pair(id, who.number)
	if !had.hasRead {
		who.reading.Pages++
		page.crawlers++
	} else {
		same := e.Bytes == had.size
		if same {
			who.reading.Same.add(this)
			who.visits(page.door).same.add(this)
			page.same.add(this)
		} else {
			who.reading.Different.add(this)
			page.different++
		}
		p.proofs.reread(id, open{had.current, e.Unix, this.Bytes, int32(who.number), same})
	}
	*had = pair{read: e.Unix, current: e.Unix, size: e.Bytes, crawler: had.crawler, next: had.next, hasRead: true}
}

// unchanged records that a page did not change between two times.
func (p *pages) unchanged(id int32, since, until int64) {
	p.proofs.unchanged(id, since, until, func(o open) {
		r := &p.callers.list[o.crawler].reading
		if o.same {
			r.Unchanged.add(Traffic{1, o.size})
		} else {
			r.Contrary++
		}
	})
}

// forget makes room: it drops at least half of the URLs, those with the fewest requests. A URL that comes
// again begins anew: its count is too low by at most the requests it had when it was dropped and those it may
// have lacked before; and the first re-read of it by each crawler is not recognized as one.
func (p *pages) forget() {
	const most = 1 << 16
	var by [most + 1]int
	for i := range p.list {
		by[min(p.list[i].hits, most)]++
	}
	least, gone := uint32(0), 0
	for gone < (len(p.list)+1)/2 && least < most {
		least++
		gone += by[least]
	}
	for i := range p.list {
		if p.list[i].hits <= least {
			p.family.add(p, int32(i))
		}
	}
	kept := make([]int32, len(p.list)) // new numbers by old ones
	old := *p
	p.ids, p.urls, p.list, p.pairs, p.size = map[string]int32{}, nil, nil, nil, 0
	for i, pg := range old.list {
		if pg.hits <= least {
			kept[i] = -1
			for at := pg.pairs; at >= 0; at = old.pairs[at].next {
				if old.pairs[at].hasRead {
					p.limits.RereadsBy++
				}
			}
			p.limits.Forgotten++
			continue
		}
		kept[i] = int32(len(p.list))
		at := pg.pairs
		pg.pairs = -1
		if at >= 0 {
			pg.pairs = int32(len(p.pairs))
		}
		for at >= 0 {
			pr := old.pairs[at]
			if at = pr.next; at >= 0 {
				pr.next = int32(len(p.pairs) + 1)
			}
			p.pairs = append(p.pairs, pr)
		}
		p.ids[old.urls[i]] = kept[i]
		p.urls = append(p.urls, old.urls[i])
		p.list = append(p.list, pg)
		p.size += len(old.urls[i])
	}
	p.limits.LowBy += int64(least)
	p.proofs.renumber(kept)
}

// neverNotModified returns the re-reads of the same size of URLs that nobody got a 304 for, and the URL with most of them.
func (p *pages) neverNotModified() (all Traffic, url string) {
	most := int64(0)
	for id := range p.list {
		if pg := &p.list[id]; !pg.spent.not {
			all.add(pg.same)
			if pg.same.Requests > most {
				most, url = pg.same.Requests, p.urls[id]
			}
		}
	}
	return all, url
}

// top returns the n pages with the most re-reads of the same size.
func (p *pages) top(n int) []Page {
	list := []int32{}
	for id := range p.list {
		if p.list[id].same.Requests > 0 {
			list = append(list, int32(id))
		}
	}
	slices.SortFunc(list, func(x, y int32) int {
		a, b := p.list[x].same, p.list[y].same
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(p.urls[x], p.urls[y]))
	})
	most := []Page{}
	for _, id := range list[:min(len(list), n)] {
		pg := &p.list[id]
		most = append(most, Page{
			URL: p.urls[id], Reads: int64(pg.reads), Same: pg.same, Different: int64(pg.different),
			NotModified: int64(pg.notModified), Crawlers: int(pg.crawlers), Requests: int64(pg.hits),
		})
	}
	return most
}
