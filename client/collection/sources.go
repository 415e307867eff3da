package collection

import (
	"encoding/binary"
	"fmt"
	"net/http"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A source's ID begins with that of its site, so that the sources of a site are neighbours.
const sourceBits = 24

// maxBody bounds the stored body of a source (RFC 9309 wants 500 KiB of a robots.txt).
const maxBody = 500 << 10

func sourceKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func appendSource(s *Source) []byte {
	var x record.Codec
	kept := *s
	kept.Body = s.Body[:min(len(s.Body), maxBody)]
	codeSource(&x, &kept)
	return record.Seal(x.Out, sourceKey(s.ID), 0)
}

func parseSource(key, raw []byte, s *Source) bool {
	var x record.Codec
	if !x.Read(key, raw) || len(key) != 8 {
		return false
	}
	*s = Source{ID: binary.BigEndian.Uint64(key)}
	s.Site = frontier.SiteID(s.ID >> sourceBits)
	codeSource(&x, s)
	return x.Whole()
}

func codeSource(x *record.Codec, s *Source) {
	x.Text((*string)(&s.Kind))
	x.Text(&s.URL)
	x.Uint(&s.Parent)
	x.Text(&s.Cursor.Epoch)
	x.Uint(&s.Cursor.Seq)
	x.Text(&s.Door)
	x.Fitting(&s.ETag, maxMark)
	x.Fitting(&s.LastModified, maxMark)
	x.Digest(&s.Digest)
	x.Bytes(&s.Body)
	x.Count(&s.Status)
	x.Time(&s.Polled)
	x.Time(&s.Changed)
	x.Time(&s.At)
	x.Count(&s.Fails)
	x.Clipped(&s.Fault, maxFault)
	x.Count(&s.Pages)
	x.Time(&s.Held)
	x.Count(&s.Doomed)
	x.Time(&s.Since)
	x.Bytes(&s.Rhythm)
	if x.More(s.As != "" || s.Doubtful) { // absent in states of earlier versions
		x.Text((*string)(&s.As))
		x.Clipped(&s.Why, maxFault)
		if x.More(s.Doubtful) { // absent likewise
			x.Bool(&s.Doubtful)
		}
		if s.As == "" && !s.Doubtful {
			x.In.Fail()
		}
	}
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

func (l *sources) put(s *Source) error { return l.b.Put(sourceKey(s.ID), appendSource(s)) }

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
		s.Site, s.Kind, s.URL, s.Cursor, s.Doubtful, s.Door, s.Held, s.Doomed = old.Site, old.Kind, old.URL, old.Cursor, old.Doubtful, old.Door, old.Held, old.Doomed
		if s.Kind == ManifestRDF {
			s.ETag, s.LastModified, s.Digest = old.ETag, old.LastModified, old.Digest
		}
	} else if _, ok := u.sources.named[s.name()]; !ok {
		return fmt.Errorf("unknown source %d", s.ID)
	} else {
		u.out.Sources = append(u.out.Sources, s)
	}
	if s.Authorized {
		site, err := u.sites.get(s.Site)
		if err != nil {
			return err
		}
		site.Withheld = true
	}
	return u.sources.put(&s)
}

// stand stores a source's position after a step, and that the source has answered, so that a reader that
// continues from this cursor waits for nothing older. A step delivered again does not move the cursor back.
func (u *update) stand(s *Source, step *client.Step, a *Applied) error {
	whole := step.Door == client.Manifest || step.Reset || step.Whole
	stale := !whole && step.Cursor.Epoch == s.Cursor.Epoch && step.Cursor.Seq < s.Cursor.Seq
	old := *s
	if step.Door != "" {
		s.Door = string(step.Door)
	}
	if !step.Cursor.IsZero() && !stale {
		s.Cursor, s.Doubtful = step.Cursor, step.Doubtful
	}
	if step.Door != "" && (s.Cursor != old.Cursor || step.Whole) {
		s.Polled, s.Changed, s.Status, s.Fails, s.Fault = u.now, u.now, http.StatusOK, 0, ""
	}
	if told := step.ETag != "" || step.LastModified != ""; told || step.Whole {
		s.ETag, s.LastModified, s.Digest = step.ETag, step.LastModified, a.under
	}
	if step.Whole || !step.Cursor.IsZero() && u.c.naming[s.ID] != nil {
		if err := u.countWhole(s.ID); err != nil {
			return err
		}
	} else if s.Door == old.Door && s.Cursor == old.Cursor && s.Doubtful == old.Doubtful && s.ETag == old.ETag && s.LastModified == old.LastModified {
		return nil
	}
	return u.sources.put(s)
}
