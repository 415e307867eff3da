package report

import (
	"bytes"

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
	forgot  func(kept []int32)
	limits  Limits
	scratch []byte
}

func newPages(limit int, forgot func(kept []int32)) *pages {
	return &pages{limit: limit, ids: map[string]int32{}, forgot: forgot, limits: Limits{URLs: limit}}
}

// of returns the number of an entry's URL, or -1 if it is too long. It may renumber all URLs, and calls
// forgot then.
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
	p.forgot(kept)
}
