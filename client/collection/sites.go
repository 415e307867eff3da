package collection

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/outbox"
	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A site has two records: fields that seldom change, and counts, which change with every visit. All sites
// are in memory as well; a Site there is replaced, never modified, so readers need the lock only for the pointer.

const maxFault = 300

// appendSite returns one of the two records of a site: code is codeSite or codeCounts.
func appendSite(s *Site, code func(*record.Codec, *Site)) []byte {
	var x record.Codec
	code(&x, s)
	return record.Seal(x.Out, record.SiteKey(s.ID), 0)
}

// parseSite reads one of the records of a site, the counts last.
func parseSite(raw []byte, s *Site, code func(*record.Codec, *Site)) bool {
	var x record.Codec
	ok := x.Read(record.SiteKey(s.ID), raw)
	code(&x, s)
	return ok && x.Whole() && s.Origin != ""
}

// codeSite writes or reads the fields that seldom change.
func codeSite(x *record.Codec, s *Site) {
	x.Text(&s.Origin)
	x.Time(&s.Found)
	x.Addr(&s.IP)
	x.Time(&s.Resolved)
	x.Duration(&s.Delay)
	x.Bool(&s.Soft404)
	x.Clipped(&s.Fault, maxFault)
	x.Time(&s.FaultAt)
	x.Time(&s.Quiet)
	x.Bytes(&s.Trust)
	x.Bytes(&s.Shape)
	var belief []byte
	if s.Belief != nil {
		belief = s.Belief.Append(nil)
	}
	if x.Bytes(&belief); x.Reads && len(belief) > 0 {
		b, err := fresh.ParseSite(belief)
		if s.Belief = &b; err != nil {
			x.In.Fail()
		}
	}
	if x.More(len(s.Families) > 0 || s.Withheld) {
		x.Bytes(&s.Families)
	}
	if x.More(s.Withheld) {
		x.Bool(&s.Withheld)
	}
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// codeCounts writes or reads the counts.
func codeCounts(x *record.Codec, s *Site) {
	for _, n := range []*int{&s.Pages, &s.Held, &s.Gone, &s.Ready, &s.Dynamic, &s.Errors, &s.Duplicates} {
		x.Number(n)
	}
	x.Int(&s.Requests)
	x.Int(&s.Bytes)
	if x.More(true) { // absent in states of earlier versions
		x.Number(&s.Cut)
	}
	if measured := s.Speed.Response > 0; x.More(s.Doomed > 0 || measured) {
		x.Number(&s.Doomed)
		if x.More(measured) {
			x.Float64(&s.Speed.Connect)
			x.Float64(&s.Speed.Response)
			x.Count(&s.Speed.PerConnection)
		}
	}
}

// A tally is a page's share of the counts of its site.
type tally struct{ held, gone, dynamic, errors, duplicates, cut int }

func (p *Page) tally() (t tally) {
	if p.has() {
		t.held = 1
		if p.Cut {
			t.cut = 1
		}
	} else if p.State == Gone {
		t.gone = 1
	}
	if p.Dynamic {
		t.dynamic = 1
	}
	if p.State == Failing || p.State == Refused {
		t.errors = 1
	}
	if p.Original != 0 {
		t.duplicates = 1
	}
	return t
}

// count replaces a page's share of the counts.
func (s *Site) count(was, is tally) {
	s.Held += is.held - was.held
	s.Gone += is.gone - was.gone
	s.Dynamic += is.dynamic - was.dynamic
	s.Errors += is.errors - was.errors
	s.Duplicates += is.duplicates - was.duplicates
	s.Cut += is.cut - was.cut
}

// An index is what memory holds of the stored URLs and sites.
type index struct {
	urls   *urls.Set
	cache  urls.Cache  // of the writer
	outbox outbox.Box  // of the writer
	dates  fresh.Dates // of the writer

	mu      sync.RWMutex // guards the fields below, and Collection.copied
	last    frontier.PageID
	sites   []*Site  // by ID - 1; a Site is replaced, never modified
	names   []string // their origins; append-only
	origins map[string]frontier.SiteID
	parts   map[string]int // number of URLs of each, see Options.Part
}

func (x *index) load(tx *bbolt.Tx, stage *queue.Stage) error {
	counts := tx.Bucket(queue.Counts)
	return tx.Bucket(sitesBucket).ForEach(func(k, v []byte) error {
		s := &Site{ID: frontier.SiteID(len(x.sites) + 1)}
		if string(k) != string(record.SiteKey(s.ID)) || !parseSite(v, s, codeSite) {
			return record.Damaged(sitesBucket, k)
		}
		if raw := stage.Count(counts, k); raw != nil && !parseSite(raw, s, codeCounts) {
			return record.Damaged(queue.Counts, k)
		}
		x.sites, x.names = append(x.sites, s), append(x.names, s.Origin)
		x.origins[s.Origin] = s.ID
		return nil
	})
}

// sites are the sites as a transaction sees them, with its changes.
type sites struct {
	index   *index
	origins []string                  // by ID - 1, with those of new sites
	changed map[frontier.SiteID]*Site // nil in a read transaction
	added   []*Site
	ids     map[string]frontier.SiteID // of added
	born    map[frontier.SiteID]int    // number of new pages
	parts   map[string]int             // number of new pages of each, see Options.Part
	now     time.Time
	most    int // how many sites there may be
}

// begin makes the sites ready for changes.
func (s *sites) begin(now time.Time, most int) {
	s.now, s.most = now, most
	s.changed, s.ids, s.born, s.parts = map[frontier.SiteID]*Site{}, map[string]frontier.SiteID{}, map[frontier.SiteID]int{}, map[string]int{}
}

// at returns a site that exists, not to be changed.
func (s *sites) at(id frontier.SiteID) *Site {
	if site := s.changed[id]; site != nil {
		return site
	}
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	return s.index.sites[id-1]
}

// get returns a site that may be changed.
func (s *sites) get(id frontier.SiteID) (*Site, error) {
	if site := s.changed[id]; site != nil {
		return site, nil
	}
	if id == 0 || int(id) > len(s.origins) {
		return nil, fmt.Errorf("unknown site %d", id)
	}
	site := *s.at(id)
	s.changed[id] = &site
	return &site, nil
}

// of returns the site of an origin, creating it if needed; nil if there may be no more.
func (s *sites) of(origin string) *Site {
	id := s.index.origins[origin]
	if id == 0 {
		id = s.ids[origin]
	}
	if id != 0 {
		site, _ := s.get(id)
		return site
	}
	if len(s.origins) >= s.most {
		return nil
	}
	site := &Site{ID: frontier.SiteID(len(s.origins) + 1), Origin: origin, Found: s.now}
	s.added = append(s.added, site)
	s.origins = append(s.origins, origin) // beyond the length that others see
	s.ids[origin], s.changed[site.ID] = site.ID, site
	return site
}

// flush writes the changes, those of the counts into a batch.
func (s *sites) flush(tx *bbolt.Tx, to *queue.Batch) error {
	slow := tx.Bucket(sitesBucket)
	slow.FillPercent = ascending
	for _, id := range slices.Sorted(maps.Keys(s.changed)) {
		site, was := s.changed[id], &Site{ID: id}
		if int(id) <= len(s.index.sites) {
			was = s.index.sites[id-1]
		}
		if raw := appendSite(site, codeSite); !bytes.Equal(raw, appendSite(was, codeSite)) {
			if err := slow.Put(record.SiteKey(id), raw); err != nil {
				return err
			}
		}
		if raw := appendSite(site, codeCounts); !bytes.Equal(raw, appendSite(was, codeCounts)) {
			to.Count(id, raw)
		}
	}
	return nil
}

// publish makes the committed changes visible. The caller holds the lock of the index.
func (s *sites) publish() {
	x := s.index
	x.sites = append(x.sites, s.added...)
	x.names = s.origins
	for id, site := range s.changed {
		x.sites[id-1] = site
	}
	for _, site := range s.added {
		x.origins[site.Origin] = site.ID
	}
	for part, n := range s.parts {
		x.parts[part] += n
	}
}

// Site returns the record of an origin, such as "https://example.org". Trust, Shape and Families are shared:
// do not modify them.
func (c *Collection) Site(origin string) (Site, bool) {
	c.index.mu.RLock()
	defer c.index.mu.RUnlock()
	if id := c.index.origins[origin]; id != 0 {
		return *c.index.sites[id-1], true
	}
	return Site{}, false
}

// SiteByID returns the record of a site, as Site does.
func (c *Collection) SiteByID(id frontier.SiteID) (Site, bool) {
	c.index.mu.RLock()
	defer c.index.mu.RUnlock()
	if id == 0 || int(id) > len(c.index.sites) {
		return Site{}, false
	}
	return *c.index.sites[id-1], true
}

// Sites yields all sites in the order of their IDs.
func (c *Collection) Sites() iter.Seq[Site] {
	return func(yield func(Site) bool) {
		for id := frontier.SiteID(1); ; id++ {
			if s, ok := c.SiteByID(id); !ok || !yield(s) {
				return
			}
		}
	}
}

// split divides a URL into origin and rest, and reports whether it is valid for a page: absolute, http or
// https, with a path, and not too long.
func split(url string) (origin, path string, ok bool) {
	if len(url) > protocol.MaxURL || !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return "", "", false
	}
	origin = protocol.Origin(url)
	path = url[len(origin):]
	return origin, path, path != "" && path[0] == '/' && origin[len(origin)-1] != '/'
}
