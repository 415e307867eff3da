package collection

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/frontier"
)

// The forward adjacency (V26): for each page the numbers of the pages it links to, ascending, as differences.

// appendLinks sorts to, and appends each page once, without 0.
func appendLinks(b []byte, to []frontier.PageID) []byte {
	slices.Sort(to)
	var last frontier.PageID
	for _, id := range to {
		if id != last {
			b = binary.AppendUvarint(b, uint64(id-last))
			last = id
		}
	}
	return b
}

func parseLinks(b []byte) (list []frontier.PageID, ok bool) {
	d := record.Decoder{B: b}
	var last frontier.PageID
	for len(d.B) > 0 {
		last += frontier.PageID(d.Uint())
		list = append(list, last)
	}
	return list, !d.Bad
}

// linksOf returns the links of a page as they are in the update.
func (u *update) linksOf(id frontier.PageID) ([]frontier.PageID, error) {
	if list, ok := u.links[id]; ok {
		return list, nil
	}
	key := record.PageKey(id)
	list, ok := parseLinks(u.tx.Bucket(linksBucket).Get(key[:]))
	if !ok {
		return nil, record.Damaged(linksBucket, key[:])
	}
	return list, nil
}

// flushLinks writes changed links; a page without links has no record.
func (u *update) flushLinks() error {
	if u.c.opts.NoLinks || len(u.links) == 0 {
		return nil
	}
	bucket := u.tx.Bucket(linksBucket)
	bucket.FillPercent = ascending
	for _, id := range slices.Sorted(maps.Keys(u.links)) {
		key := record.PageKey(id)
		b := appendLinks(nil, u.links[id])
		var err error
		if len(b) == 0 {
			err = bucket.Delete(key[:])
		} else {
			err = bucket.Put(key[:], b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
