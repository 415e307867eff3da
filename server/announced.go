package server

import (
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// mayBeAnnounced reports whether an inherited page may be an announced one. If no scan
// finds it, its deletion must not be reported: it is held until it is announced, or a
// person accepts the deletion. Files always have a digest; announced pages may have one.
func (p *Pages) mayBeAnnounced(e journal.Entry) bool {
	return compare.IsInherited(e) && (p.Announces || e.Item.Digest.IsZero())
}

// countAnnounced counts the entries that exist because they were announced, before a
// partial scan, unless a full scan has counted them already.
func (t *turn) countAnnounced(j *Journal, scopes []inventory.Scope) error {
	if t.counted || len(scopes) == 0 {
		return nil
	}
	v, err := j.View()
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
	t.announced, t.counted = n, true
	return nil
}
