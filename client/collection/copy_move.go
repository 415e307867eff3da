package collection

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// The site of a copy can move to another scheme, host or port. The state stores URLs without their origin, and the files are named
// by their paths: so a move changes the record of the site, and no page and no file.

// names reports whether the options name a copy of a base, which had others before.
func (o *Options) names(base, was string) bool {
	return o.Site == base || slices.Contains(strings.Fields(was), o.Site)
}

// Move stores that the site of a copy has moved to another base, which differs in scheme, host or port alone. The next Open renames
// the pages; until then nothing changes. Their contents stay, robots.txt and the manifest count as never read, and a
// new epoch of events begins.
func (c *Collection) Move(base string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copied == nil {
		return fmt.Errorf("move to %s: the collection is not a copy of one site", base)
	}
	_, path, _ := split(c.copied.Base)
	origin, at, ok := split(base)
	if _, known := c.Site(origin); !ok || at != path || known {
		return fmt.Errorf("move copy of %s to %s: want another origin, and the same path", c.copied.Base, base)
	}
	err := c.update(func(u *update) error {
		u.copied.To, u.copied.Moved = base, u.now
		return nil
	})
	if err != nil {
		return fmt.Errorf("move copy of %s to %s: %w", c.copied.Base, base, err)
	}
	return nil
}

// rename renames the pages of a copy whose site has moved. If it is killed, the next Open repeats it.
func (o *opening) rename() error {
	db := o.c.db
	if o.c.opts.Site == "" || o.c.opts.ReadOnly {
		return nil
	}
	var m copyMeta
	err := db.View(func(tx *bbolt.Tx) error {
		box := tx.Bucket(changes.Bucket)
		if box == nil || box.Get(copyKey) == nil || tx.Bucket(metaBucket) == nil {
			return nil
		}
		if _, err := o.c.sinks.parseMeta(tx.Bucket(metaBucket).Get(metaKey)); err != nil {
			return err // of another version nothing else is known
		}
		if json.Unmarshal(box.Get(copyKey), &m) != nil {
			return record.Damaged(changes.Bucket, copyKey)
		}
		return nil
	})
	if err != nil || m.To == "" {
		return err
	}
	from, to := protocol.Origin(m.Base), protocol.Origin(m.To)
	was := slices.DeleteFunc(append(strings.Fields(m.Was), m.Base), func(base string) bool { return base == m.To })
	m.Base, m.Was, m.To = m.To, strings.Join(was, " "), ""
	if err := journal.Copy(db, nil); err != nil { // its items have whole URLs: openContents fills in the present ones
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		sites := tx.Bucket(sitesBucket)
		cur := sites.Cursor()
		for k, v := cur.First(); k != nil; k, v = cur.Next() {
			var s Site
			if len(k) == 4 {
				s.ID = frontier.SiteID(binary.BigEndian.Uint32(k))
			}
			switch {
			case !parseSite(v, &s, codeSite):
				return record.Damaged(sitesBucket, k)
			case s.Origin == from: // its address stays: a site that had a public one must not get a private one
				s.Origin, s.Fault, s.FaultAt, s.Quiet = to, "", time.Time{}, time.Time{}
				return errors.Join(sites.Put(record.SiteKey(s.ID), appendSite(&s, codeSite)), renameSources(tx, s.ID, from, to), m.write(tx))
			}
		}
		return m.write(tx)
	})
}

// renameSources renames the sources of a site, which count as never read at this address. They keep their IDs, and so what they have
// named, and when they were readable last: a redirect from the new address is no reason to give up the copy.
func renameSources(tx *bbolt.Tx, site frontier.SiteID, from, to string) error {
	l := sources{b: tx.Bucket(sourcesBucket)}
	var list []Source
	err := eachSource(l.b, site, func(s *Source) { list = append(list, *s) })
	for _, s := range list {
		if rest, ok := strings.CutPrefix(s.URL, from); ok {
			err = errors.Join(err, l.put(&Source{ID: s.ID, Site: s.Site, Kind: s.Kind, URL: to + rest, Changed: s.Changed}))
		}
	}
	return err
}
