package collection

import (
	"encoding/binary"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/protocol"
)

func appendPosted(key []byte, p *posted) []byte {
	it := &p.step.Entry.Item
	b := make([]byte, 0, 256+len(it.URL)+len(it.Title))
	b = appendAside(b, &p.eventExtras)
	b = appendString(appendString(b, string(p.step.Op)), p.step.From)
	b = binary.AppendUvarint(b, uint64(p.step.Significance))
	b = appendString(appendString(b, it.URL), it.Title)
	b = appendTime(b, it.Modified)
	b = binary.AppendVarint(b, it.Length)
	b = appendString(b, it.Type)
	b = append(append(b, it.Digest[:]...), it.Text[:]...)
	b = appendString(appendString(b, it.Language), it.Canonical)
	b = append(b, byte(it.Importance))
	return seal(b, key, 0)
}

func parsePosted(key, raw []byte) (p posted, ok bool) {
	body, ok := unseal(key, raw)
	d := decoder{b: body}
	p.eventExtras = d.aside()
	it := &p.step.Entry.Item
	p.step.Op, p.step.From = protocol.Op(d.string()), d.string()
	p.step.Significance = protocol.Significance(d.uint())
	it.URL, it.Title, it.Modified, it.Length, it.Type = d.string(), d.string(), d.time(), d.int(), d.string()
	d.digest(&it.Digest)
	d.digest(&it.Text)
	it.Language, it.Canonical, it.Importance = d.string(), d.string(), protocol.Importance(d.byte())
	return p, ok && !d.bad && len(d.b) == 0
}

func appendAside(b []byte, a *eventExtras) []byte {
	bits := byte(flag(a.same, 1) | flag(a.marks.Truncated, 2) | flag(a.marks.NoIndex, 4) | flag(a.marks.NoFollow, 8))
	b = append(b, a.signal.code(), bits)
	b = appendString(b, a.stored.File)
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.stored.Offset)), uint64(a.stored.Length))
}

func (d *decoder) aside() (a eventExtras) {
	a.signal = signalOf(d.byte())
	bits := d.byte()
	a.same, a.marks = bits&1 != 0, Marks{Truncated: bits&2 != 0, NoIndex: bits&4 != 0, NoFollow: bits&8 != 0}
	a.stored = contents.Place{File: d.string(), Offset: int64(d.uint()), Length: int64(d.uint())}
	return a
}
