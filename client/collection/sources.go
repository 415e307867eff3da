package collection

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A source's ID begins with that of its site, so that the sources of a site are neighbours.
const sourceBits = 24

// maxBody bounds the stored body of a source (RFC 9309 wants 500 KiB of a robots.txt).
const maxBody = 500 << 10

func sourceKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func appendSource(b []byte, s *Source) []byte {
	from := len(b)
	b = record.AppendString(record.AppendString(b, string(s.Kind)), s.URL)
	b = binary.AppendUvarint(b, s.Parent)
	b = binary.AppendUvarint(record.AppendString(b, s.Cursor.Epoch), s.Cursor.Seq)
	b = record.AppendString(b, s.Door)
	b = record.AppendString(record.AppendString(b, fit(s.ETag, maxMark)), fit(s.LastModified, maxMark))
	b = append(b, s.Digest[:]...)
	b = record.AppendString(b, string(s.Body[:min(len(s.Body), maxBody)]))
	b = binary.AppendUvarint(b, uint64(max(0, s.Status)))
	b = record.AppendTime(record.AppendTime(record.AppendTime(b, s.Polled), s.Changed), s.At)
	b = binary.AppendUvarint(b, uint64(max(0, s.Fails)))
	b = record.AppendString(b, clip(s.Fault, maxFault))
	b = binary.AppendUvarint(b, uint64(max(0, s.Pages)))
	b = binary.AppendUvarint(record.AppendTime(b, s.Held), uint64(max(0, s.Doomed)))
	b = record.AppendString(record.AppendTime(b, s.Since), string(s.Rhythm))
	if s.As != "" { // absent in states of earlier versions
		b = record.AppendString(record.AppendString(b, string(s.As)), clip(s.Why, maxFault))
	}
	return record.Seal(b, sourceKey(s.ID), from)
}

func parseSource(key, raw []byte, s *Source) bool {
	body, ok := record.Unseal(key, raw)
	if !ok || len(key) != 8 {
		return false
	}
	d := record.Decoder{B: body}
	*s = Source{ID: binary.BigEndian.Uint64(key)}
	s.Site = frontier.SiteID(s.ID >> sourceBits)
	s.Kind, s.URL, s.Parent = SourceKind(d.Text()), d.Text(), d.Uint()
	s.Cursor = protocol.Cursor{Epoch: d.Text(), Seq: d.Uint()}
	s.Door, s.ETag, s.LastModified = d.Text(), d.Text(), d.Text()
	d.Digest(&s.Digest)
	s.Body, s.Status = clone(d.Bytes()), d.Count()
	s.Polled, s.Changed, s.At = d.Time(), d.Time(), d.Time()
	s.Fails, s.Fault, s.Pages = d.Count(), d.Text(), d.Count()
	s.Held, s.Doomed = d.Time(), d.Count()
	s.Since, s.Rhythm = d.Time(), clone(d.Bytes())
	if len(d.B) > 0 {
		s.As, s.Why = protocol.Form(d.Text()), d.Text()
		d.Bad = d.Bad || s.As == ""
	}
	return !d.Bad && len(d.B) == 0
}

// Sources returns the sources of a site, or of all sites for 0.
func (c *Collection) Sources(site frontier.SiteID) ([]Source, error) {
	var list []Source
	err := c.reading(func(tx *bbolt.Tx) error {
		return eachSource(tx.Bucket(sourcesBucket), site, func(s *Source) { list = append(list, *s) })
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	return list, nil
}

func eachSource(b *bbolt.Bucket, site frontier.SiteID, f func(*Source)) error {
	cur := b.Cursor()
	last := uint64(0)
	for k, v := cur.Seek(sourceKey(uint64(site) << sourceBits)); k != nil; k, v = cur.Next() {
		var s Source
		if !parseSource(k, v, &s) || s.ID <= last {
			return record.Damaged(sourcesBucket, k)
		}
		if site != 0 && s.Site != site {
			return nil
		}
		last = s.ID
		f(&s)
	}
	return nil
}

// Under returns a digest of the rules, as the caller writes them, and of the collection's limits: a manifest
// that was read under another one may have to be read again.
func (c *Collection) Under(rules string) protocol.Digest {
	return protocol.Sum(fmt.Appendf(nil, "%d %d %s", c.opts.MaxPages, c.opts.PerSite, rules))
}

// sources is the sources bucket in an update, with the names of the sources on sites that may get a new one.
type sources struct {
	b     *bbolt.Bucket
	last  map[frontier.SiteID]uint64
	named map[sourceName]uint64
}

// A sourceName identifies a source without an ID.
type sourceName struct {
	site frontier.SiteID
	kind SourceKind
	url  string
}

func (s *Source) name() sourceName { return sourceName{s.Site, s.Kind, s.URL} }

// get returns a source, or an error if it does not exist.
func (l *sources) get(id uint64) (*Source, error) {
	key := sourceKey(id)
	raw := l.b.Get(key)
	if raw == nil {
		return nil, fmt.Errorf("unknown source")
	}
	s := &Source{}
	if !parseSource(key, raw, s) {
		return nil, record.Damaged(sourcesBucket, key)
	}
	return s, nil
}

func (l *sources) put(s *Source) error { return l.b.Put(sourceKey(s.ID), appendSource(nil, s)) }

// otherManifests returns the other manifests of the same site.
func (l *sources) otherManifests(s *Source) (list []uint64, err error) {
	err = eachSource(l.b, s.Site, func(o *Source) {
		if o.ID != s.ID && o.Kind == ManifestRDF {
			list = append(list, o.ID)
		}
	})
	return list, err
}

// id finds or assigns the ID of a source without one.
func (l *sources) id(s *Source) (uint64, error) {
	if l.last == nil {
		l.last, l.named = map[frontier.SiteID]uint64{}, map[sourceName]uint64{}
	}
	last, ok := l.last[s.Site]
	if !ok {
		last = uint64(s.Site) << sourceBits
		err := eachSource(l.b, s.Site, func(t *Source) {
			l.named[t.name()] = t.ID
			last = t.ID
		})
		if err != nil {
			return 0, err
		}
		l.last[s.Site] = last
	}
	if id := l.named[s.name()]; id != 0 {
		return id, nil
	}
	if last++; last>>sourceBits != uint64(s.Site) {
		return 0, fmt.Errorf("site %d has too many sources", s.Site)
	}
	l.last[s.Site], l.named[s.name()] = last, last
	return last, nil
}

// source stores a source of a Commit. One that exists, by its ID or by kind and URL, keeps its cursor and the
// validators that belong to it: only Apply sets those.
func (u *update) source(s Source) (err error) {
	if s.ID == 0 {
		if s.Site == 0 {
			origin, _, ok := split(s.URL)
			if !ok {
				return nil
			}
			site := u.sites.of(origin)
			if site == nil {
				u.out.Refused++
				return nil
			}
			s.Site = site.ID
		}
		if s.ID, err = u.sources.id(&s); err != nil {
			return err
		}
	}
	key := sourceKey(s.ID)
	var old Source
	if raw := u.sources.b.Get(key); raw != nil {
		if !parseSource(key, raw, &old) {
			return record.Damaged(sourcesBucket, key)
		}
		s.Site, s.Kind, s.URL, s.Cursor, s.Door, s.Held, s.Doomed = old.Site, old.Kind, old.URL, old.Cursor, old.Door, old.Held, old.Doomed
		if s.Kind == ManifestRDF {
			s.ETag, s.LastModified, s.Digest = old.ETag, old.LastModified, old.Digest
		}
	} else if _, ok := u.sources.named[s.name()]; !ok {
		return fmt.Errorf("unknown source %d", s.ID)
	} else {
		u.out.Sources = append(u.out.Sources, s)
	}
	return u.sources.put(&s)
}
