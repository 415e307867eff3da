package server

import (
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// mayBeAnnounced reports whether an inherited page may be an announced one. If
// no look finds it, its going must not be told: it waits for an announcement,
// or for a person. Of every file there is a digest; of what is announced there
// may be one.
func (p *Publisher) mayBeAnnounced(e journal.Entry) bool {
	return compare.IsInherited(e) && (p.Announces || e.Item.Digest.IsZero())
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
		if compare.IsAnnounced(e) {
			n++
		}
	}
	p.announced, p.counted = n, true
	return nil
}
