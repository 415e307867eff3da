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
	floor uint64 // number of the newest change that was forgotten
	items uint64 // present
	held  uint64 // of them

	last   time.Time // when the newest change was taken in, of this epoch or an earlier one
	newest time.Time // greatest Modified that any item of the epoch had
}

// headCursor is the zero Cursor while the first description is not complete.
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

// saw notes that an item has been put in.
func (m *meta) saw(it protocol.Item) {
	if it.Modified.After(m.newest) {
		m.newest = it.Modified
	}
}

const (
	isWhole = 1 << iota
	isSecond
	hasLast
	hasNewest
	metaFlags = hasNewest<<1 - 1
)

func appendMeta(b []byte, m meta) []byte {
	b = append(b, formatVersion, flag(m.whole, isWhole)|flag(m.slot == 1, isSecond)|
		flag(!m.last.IsZero(), hasLast)|flag(!m.newest.IsZero(), hasNewest))
	b = appendString(appendString(b, m.epoch), m.mark)
	for _, n := range []uint64{m.head, m.floor, m.items, m.held} {
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
	if len(b) > 0 && b[0] != formatVersion {
		return meta{}, fmt.Errorf("file has format %d, this program knows %d", b[0], formatVersion)
	}
	r, flags := open(metaKey, b)
	m := meta{whole: flags&isWhole != 0, epoch: r.string(), mark: r.string(), head: r.uvarint(), floor: r.uvarint(), items: r.uvarint(), held: r.uvarint()}
	if flags&isSecond != 0 {
		m.slot = 1
	}
	if flags&hasLast != 0 {
		m.last = r.time()
	}
	if flags&hasNewest != 0 {
		m.newest = r.time()
	}
	if r.bad || len(r.b) > 0 || flags&^metaFlags != 0 || m.floor > m.head || m.held > m.items {
		return meta{}, fmt.Errorf("state is %w", ErrDamaged)
	}
	return m, nil
}
