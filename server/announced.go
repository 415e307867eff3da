package server

import (
	"bytes"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/server/inventory"
)

func isAnnounced(e journal.Entry) bool { return bytes.HasPrefix(e.Stamp, []byte(announceMark)) }

// isInherited reports whether all that is known of a page is what a manifest
// said, because the state was lost. The first look that finds it makes it a
// page like any other.
func isInherited(e journal.Entry) bool { return string(e.Stamp) == journal.Inherited }

// mayBeAnnounced reports whether an inherited page may be an announced one. If
// no look finds it, its going must not be told: it waits for an announcement,
// or for a person. Of every file there is a digest; of what is announced there
// may be one.
func (p *Publisher) mayBeAnnounced(e journal.Entry) bool {
	return isInherited(e) && (p.Announces || e.Item.Digest.IsZero())
}

// countAnnounced counts the entries that are there because they were
// announced, before a look that will not come by all of them, if none did yet.
func (p *Publisher) countAnnounced(scopes []inventory.Scope) error {
	if p.counted || len(scopes) == 0 {
		return nil
	}
	v, err := p.Journal.View()
	if err != nil {
		return err
	}
	defer v.Close()
	n := 0
	for e, err := range v.Entries() {
		if err != nil {
			return err
		}
		if isAnnounced(e) {
			n++
		}
	}
	p.announced, p.counted = n, true
	return nil
}

// recount takes over what a comparison knows of the announced entries, so that
// their number is exact whenever nobody looks or announces.
func (p *Publisher) recount(c *comparison, whole bool) {
	if whole {
		p.announced, p.counted = c.announced, true
	}
	p.announced -= c.given
}
