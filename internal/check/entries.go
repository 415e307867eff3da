package check

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// maxEntries bounds the entries of one check.
const maxEntries = 2_000_000

// An entry is a page that a document lists.
type entry struct {
	url, raw string // canonical, and as written; raw is empty if that does not matter
	modified time.Time
	span     time.Duration
	length   int64 // -1 if unknown
	digest   protocol.Digest
}

func (x *run) entry(ctx context.Context, d *document, e entry) {
	x.report.Entries++
	d.entries++
	if !x.urls.add(e.url) {
		x.violateURL("duplicate", e.url)
	}
	origin := protocol.Origin(e.url)
	home := d.originOr(x.first)
	if home == "" {
		x.first, home = origin, origin
		if x.fetcher != nil {
			x.fetcher.robots(ctx, origin)
		}
	}
	if origin != home {
		x.violateURL("foreign-url", e.url).fixed = home
	}
	if len(e.raw) >= maxLoc {
		x.violateURL("long-url", e.url)
	}
	if e.raw != "" && e.raw != e.url {
		if low := strings.ToLower(e.raw); !strings.HasPrefix(low, "http:") && !strings.HasPrefix(low, "https:") {
			x.violate("relative-url", e.url, short(e.raw))
		} else if e.raw+"/" != e.url {
			x.violate("not-canonical", e.url, short(e.raw))
		}
	}
	x.date(d, e)
	if origin == home {
		if x.fetcher != nil {
			if r := x.fetcher.rules[origin]; r != nil && r.got && !r.file.Allowed("*", e.url[len(origin):]) {
				x.violateURL("disallowed", e.url)
				return
			}
		}
		x.picks.offer(e)
	}
}

// maxLoc is the length from which a URL of a sitemap is too long, in bytes.
const maxLoc = 2048

// date processes the date of an entry.
func (x *run) date(d *document, e entry) {
	if e.modified.IsZero() {
		d.dates.none++
		if d.dates.undated == "" {
			d.dates.undated = e.url
		}
		return
	}
	x.dated++
	d.dates.add(e.modified, e.span, d.modified)
	eg := protocol.Date{Time: e.modified, Span: e.span}.String() + " of " + short(e.url)
	switch _, sane := protocol.SaneModified(e.modified, x.at, protocol.DateLimits{}); {
	case e.modified.After(x.at.Add(24 * time.Hour)), !sane && e.modified.Add(e.span).Before(time.Date(1993, 1, 1, 0, 0, 0, 0, time.UTC)):
		x.violate("absurd-date", e.url, eg)
	case e.modified.After(x.at.Add(time.Minute)): // clocks differ
		x.violate("future-date", e.url, eg)
	case e.modified.After(d.dates.newest):
		d.dates.newest = e.modified
	}
}

// dates are statistics of the dates of one document.
type dates struct {
	none    int
	undated string // the first entry without one
	some    int
	coarse  int       // a day, or longer
	near    int       // within buildSpan of the time of the document
	newest  time.Time // of those that are not in the future
	alike   map[int64]int
}

const (
	buildSpan  = 5 * time.Minute
	deploySpan = 48 * time.Hour // by then, a build is on the server
	buildLeast = 10             // the least number of equal dates for the rule lastmod-alike
	maxAlike   = 100_000        // distinct dates counted: if most are equal, theirs is among the first
)

func (d *dates) add(t time.Time, span time.Duration, document time.Time) {
	d.some++
	if span >= 24*time.Hour {
		d.coarse++
	}
	if d.alike == nil {
		d.alike = make(map[int64]int)
	}
	if n := d.alike[t.Unix()]; n > 0 || len(d.alike) < maxAlike {
		d.alike[t.Unix()] = n + 1
	}
	if diff := t.Sub(document); span < time.Hour && !document.IsZero() && -buildSpan <= diff && diff <= buildSpan {
		d.near++
	}
}

// judge checks the dates of a whole document.
func (x *run) judge(d *document) {
	ds := &d.dates
	if ds.none > ds.some {
		x.violate("no-dates", d.place, short(ds.undated)).amount(ds.none, ds.none+ds.some)
	}
	if ds.coarse > 0 && ds.coarse*2 > ds.some {
		x.violate("coarse-dates", d.place, "").amount(ds.coarse, ds.some)
	}
	var most int64
	for t, n := range ds.alike {
		if n > ds.alike[most] || n == ds.alike[most] && t < most {
			most = t
		}
	}
	built, span := time.Unix(most, 0), buildSpan
	n, says := ds.alike[most], protocol.FormatDate(built)
	// Of dates without a time, more must be equal: a site may well be written in one day.
	if ds.coarse > 0 && (n*5 < ds.some*4 || n < 2*buildLeast) {
		n = 0
	} else if ds.coarse > 0 {
		says, span = strings.TrimSuffix(says, "T00:00:00Z"), 24*time.Hour
	}
	if ds.near > n {
		n, built, says = ds.near, d.modified, "within 5 minutes of "+protocol.FormatDate(d.modified)+", when the file was written"
	}
	// Dates that stay when a page changes, or when the document is written again, are not those of a build.
	stay := ds.newest.After(built.Add(span)) || d.modified.After(built.Add(deploySpan))
	if n >= buildLeast && n*2 >= ds.some && !stay {
		x.violate("lastmod-alike", d.place, says).amount(n, ds.some)
		x.built = built
	}
}

// outside records the entries of a sitemap that are not below its directory,
// unless robots.txt names the sitemap.
func (x *run) outside(d *document, e entry) {
	if d.url == "" || d.part || x.lists[d.url] || protocol.Origin(e.url) != d.origin() {
		return
	}
	dir, _ := path.Split(d.url)
	if !strings.HasPrefix(e.url, dir) {
		x.violateURL("outside-path", e.url)
	}
}

// A urlSet is a set of URLs by 64-bit hash: two URLs collide with probability 2^-64.
type urlSet struct {
	seed maphash.Seed
	m    map[uint64]struct{}
}

// add reports whether the URL is new.
func (s *urlSet) add(url string) bool {
	if s.m == nil {
		s.seed, s.m = maphash.MakeSeed(), make(map[uint64]struct{})
	}
	h := maphash.String(s.seed, url)
	if _, ok := s.m[h]; ok {
		return false
	}
	s.m[h] = struct{}{}
	return true
}

func (s *urlSet) has(url string) bool {
	if s.m == nil {
		return false
	}
	_, ok := s.m[maphash.String(s.seed, url)]
	return ok
}

// picks are the entries of the sample: those whose URLs have the smallest
// hashes, so that they are spread over the list whatever its order.
type picks struct {
	most int
	list []pick // by rank
}

type pick struct {
	rank uint64
	entry
}

func (p *picks) offer(e entry) {
	if p.most == 0 {
		return
	}
	sum := sha256.Sum256([]byte(e.url))
	rank := binary.BigEndian.Uint64(sum[:])
	i, again := slices.BinarySearchFunc(p.list, rank, func(a pick, r uint64) int { return cmp.Compare(a.rank, r) })
	if again || i == p.most {
		return
	}
	p.list = slices.Insert(p.list, i, pick{rank, e})
	p.list = p.list[:min(len(p.list), p.most)]
}
