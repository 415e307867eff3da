package collection

import (
	"encoding/binary"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
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

// links are the links that an update has changed.
type links struct {
	b       *bbolt.Bucket
	changed map[frontier.PageID][]frontier.PageID
	spare   []frontier.PageID // memory for lists
}

// list returns an empty list with room for n page numbers.
func (l *links) list(n int) []frontier.PageID {
	if len(l.spare) < n {
		l.spare = make([]frontier.PageID, max(n, 4096))
	}
	list := l.spare[:0:n]
	l.spare = l.spare[n:]
	return list
}

// of returns the links of a page.
func (l *links) of(id frontier.PageID) ([]frontier.PageID, error) {
	if list, ok := l.changed[id]; ok {
		return list, nil
	}
	key := record.PageKey(id)
	list, ok := parseLinks(l.b.Get(key[:]))
	if !ok {
		return nil, record.Damaged(linksBucket, key[:])
	}
	return list, nil
}

func (l *links) set(id frontier.PageID, to []frontier.PageID) {
	if l.changed == nil {
		l.changed = map[frontier.PageID][]frontier.PageID{}
	}
	l.changed[id] = to
}

// flush writes the changes; a page without links has no record.
func (l *links) flush() error {
	l.b.FillPercent = ascending
	for _, id := range slices.Sorted(maps.Keys(l.changed)) {
		key := record.PageKey(id)
		b := appendLinks(nil, l.changed[id])
		var err error
		if len(b) == 0 {
			err = l.b.Delete(key[:])
		} else {
			err = l.b.Put(key[:], b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
