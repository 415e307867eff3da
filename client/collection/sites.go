package collection

import (
	"encoding/binary"
	"iter"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A site has two records: fields that seldom change, and counts, which change with every visit. All sites
// are in memory as well; a Site there is replaced, never modified, so readers need the lock only for the pointer.

const maxFault = 300

func appendSite(b []byte, s *Site) []byte {
	from := len(b)
	b = record.AppendTime(record.AppendString(b, s.Origin), s.Found)
	b = record.AppendString(b, string(s.IP.AsSlice()))
	b = record.AppendDuration(record.AppendTime(b, s.Resolved), s.Delay)
	soft := byte(0)
	if s.Soft404 {
		soft = 1
	}
	b = append(b, soft)
	b = record.AppendTime(record.AppendTime(record.AppendString(b, clip(s.Fault, maxFault)), s.FaultAt), s.Quiet)
	b = record.AppendString(record.AppendString(b, string(s.Trust)), string(s.Shape))
	var belief []byte
	if s.Belief != nil {
		belief = s.Belief.Append(nil)
	}
	b = record.AppendString(b, string(belief))
	if len(s.Families) > 0 {
		b = record.AppendString(b, string(s.Families))
	}
	return record.Seal(b, record.SiteKey(s.ID), from)
}

func parseSite(raw []byte, s *Site) bool {
	body, ok := record.Unseal(record.SiteKey(s.ID), raw)
	if !ok {
		return false
	}
	d := record.Decoder{B: body}
	s.Origin, s.Found, s.IP, s.Resolved, s.Delay = d.Text(), d.Time(), d.Addr(), d.Time(), d.Duration()
	s.Soft404 = d.Byte() != 0
	s.Fault, s.FaultAt, s.Quiet = d.Text(), d.Time(), d.Time()
	s.Trust, s.Shape = clone(d.Bytes()), clone(d.Bytes())
	if raw := d.Bytes(); len(raw) > 0 {
		belief, err := fresh.ParseSite(raw)
		if err != nil {
			return false
		}
		s.Belief = &belief
	}
	if len(d.B) > 0 {
		s.Families = clone(d.Bytes())
	}
	return !d.Bad && len(d.B) == 0 && s.Origin != ""
}

func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

func (s *Site) counts() [8]*int {
	return [...]*int{&s.Pages, &s.Held, &s.Gone, &s.Ready, &s.Dynamic, &s.Errors, &s.Duplicates, &s.Cut}
}

// earlyCounts is how many counts precede Requests and Bytes in a record; those added later follow them.
const earlyCounts = 7

func appendCounts(b []byte, s *Site) []byte {
	from := len(b)
	list := s.counts()
	for _, n := range list[:earlyCounts] {
		b = binary.AppendVarint(b, int64(*n))
	}
	b = binary.AppendVarint(binary.AppendVarint(b, s.Requests), s.Bytes)
	for _, n := range list[earlyCounts:] {
		b = binary.AppendVarint(b, int64(*n))
	}
	return record.Seal(b, record.SiteKey(s.ID), from)
}

func parseCounts(raw []byte, s *Site) bool {
	body, ok := record.Unseal(record.SiteKey(s.ID), raw)
	if !ok {
		return false
	}
	d := record.Decoder{B: body}
	list := s.counts()
	for _, n := range list[:earlyCounts] {
		*n = int(d.Int())
	}
	s.Requests, s.Bytes = d.Int(), d.Int()
	for _, n := range list[earlyCounts:] {
		if len(d.B) > 0 { // else the record is older than this count
			*n = int(d.Int())
		}
	}
	return !d.Bad && len(d.B) == 0
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

func (c *Collection) loadSites(tx *bbolt.Tx) error {
	counts := tx.Bucket(countsBucket)
	return tx.Bucket(sitesBucket).ForEach(func(k, v []byte) error {
		s := &Site{ID: frontier.SiteID(len(c.sites) + 1)}
		if string(k) != string(record.SiteKey(s.ID)) || !parseSite(v, s) {
			return record.Damaged(sitesBucket, k)
		}
		if raw := counts.Get(k); raw != nil && !parseCounts(raw, s) {
			return record.Damaged(countsBucket, k)
		}
		c.sites, c.names = append(c.sites, s), append(c.names, s.Origin)
		c.origins[s.Origin] = s.ID
		return nil
	})
}

// Site returns the record of an origin, such as "https://example.org". Trust, Shape and Families are shared:
// do not modify them.
func (c *Collection) Site(origin string) (Site, bool) {
	c.mem.RLock()
	defer c.mem.RUnlock()
	if id := c.origins[origin]; id != 0 {
		return *c.sites[id-1], true
	}
	return Site{}, false
}

// SiteByID returns the record of a site, as Site does.
func (c *Collection) SiteByID(id frontier.SiteID) (Site, bool) {
	c.mem.RLock()
	defer c.mem.RUnlock()
	if id == 0 || int(id) > len(c.sites) {
		return Site{}, false
	}
	return *c.sites[id-1], true
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
