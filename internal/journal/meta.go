package journal

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// meta is the state of the journal as a whole.
type meta struct {
	epoch string
	mark  string // see Journal.SetMark
	whole bool   // the first description of the epoch is complete
	slot  byte   // which of itemsBuckets is valid

	head  uint64 // number of the newest change
	floor uint64 // number of the newest change that was removed
	items uint64 // present
	held  uint64 // present items whose deletion is held back

	revision uint64 // see Journal.Revision
	old      bool   // read from a file of plainState

	last   time.Time // when the newest change was stored, in this epoch or an earlier one
	newest time.Time // greatest Modified that any item of the epoch had
}

// headCursor returns the head, or the zero Cursor while the first description is not complete.
func (m meta) headCursor() protocol.Cursor {
	if !m.whole {
		return protocol.Cursor{}
	}
	return protocol.Cursor{Epoch: m.epoch, Seq: m.head}
}

func (m meta) floorCursor() protocol.Cursor {
	if !m.whole {
		return protocol.Cursor{}
	}
	return protocol.Cursor{Epoch: m.epoch, Seq: m.floor}
}

// saw updates newest for an item that was stored.
func (m *meta) saw(it protocol.Item) {
	if it.Modified.After(m.newest) {
		m.newest = it.Modified
	}
}

// The version of the state is that of the file: a program must not touch a file of a version that it does not know.
const (
	plainState  = 1 // no revision, no notes, no wide records
	formatState = 3 // since 3, an update has the page's state before it
)

const (
	isWhole byte = 1 << iota
	isSecond
	hasLast       // last is not zero
	hasNewestItem // newest is not zero
	metaFlags     = hasNewestItem<<1 - 1
)

func appendMeta(b []byte, m meta) []byte {
	b = append(b, formatState, flag(m.whole, isWhole)|flag(m.slot == 1, isSecond)|
		flag(!m.last.IsZero(), hasLast)|flag(!m.newest.IsZero(), hasNewestItem))
	b = appendString(appendString(b, m.epoch), m.mark)
	for _, n := range []uint64{m.head, m.floor, m.items, m.held, m.revision} {
		b = binary.AppendUvarint(b, n)
	}
	for _, t := range []time.Time{m.last, m.newest} {
		if !t.IsZero() {
			b = binary.AppendVarint(b, t.UnixMilli())
		}
	}
	return seal(metaKey, b)
}

func parseMeta(b []byte) (meta, error) {
	if len(b) > 0 && (b[0] < plainState || b[0] > formatState) {
		return meta{}, fmt.Errorf("file has format %d, this program knows %d", b[0], formatState)
	}
	body, ok := unseal(metaKey, b)
	if !ok || len(body) < 2 {
		return meta{}, fmt.Errorf("state is %w", ErrDamaged)
	}
	r, has := record{b: body[2:]}, body[1]
	m := meta{old: body[0] == plainState, whole: has&isWhole != 0}
	m.epoch, m.mark = r.string(), r.string()
	m.head, m.floor, m.items, m.held = r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
	if !m.old {
		m.revision = r.uvarint()
	}
	if has&isSecond != 0 {
		m.slot = 1
	}
	if has&hasLast != 0 {
		m.last = r.time()
	}
	if has&hasNewestItem != 0 {
		m.newest = r.time()
	}
	if r.bad || len(r.b) > 0 || has&^metaFlags != 0 || m.floor > m.head || m.held > m.items {
		return meta{}, fmt.Errorf("state is %w", ErrDamaged)
	}
	return m, nil
}
