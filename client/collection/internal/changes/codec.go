package changes

import (
	"encoding/binary"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/protocol"
)

func appendPosted(key []byte, p *posted) []byte {
	it := &p.step.Entry.Item
	b := make([]byte, 0, 256+len(it.URL)+len(it.Title))
	b = appendAside(b, &p.Aside)
	b = record.AppendString(record.AppendString(b, string(p.step.Op)), p.step.From)
	b = binary.AppendUvarint(b, uint64(p.step.Significance))
	b = record.AppendString(record.AppendString(b, it.URL), it.Title)
	b = record.AppendTime(b, it.Modified)
	b = binary.AppendVarint(b, it.Length)
	b = record.AppendString(b, it.Type)
	b = append(append(b, it.Digest[:]...), it.Text[:]...)
	b = record.AppendString(record.AppendString(b, it.Language), it.Canonical)
	b = append(b, byte(it.Importance))
	return record.Seal(b, key, 0)
}

func parsePosted(key, raw []byte) (p posted, ok bool) {
	body, ok := record.Unseal(key, raw)
	d := record.Decoder{B: body}
	p.Aside = parseAside(&d)
	it := &p.step.Entry.Item
	p.step.Op, p.step.From = protocol.Op(d.Text()), d.Text()
	p.step.Significance = protocol.Significance(d.Uint())
	it.URL, it.Title, it.Modified, it.Length, it.Type = d.Text(), d.Text(), d.Time(), d.Int(), d.Text()
	d.Digest(&it.Digest)
	d.Digest(&it.Text)
	it.Language, it.Canonical, it.Importance = d.Text(), d.Text(), protocol.Importance(d.Byte())
	return p, ok && !d.Bad && len(d.B) == 0
}

func appendAside(b []byte, a *Aside) []byte {
	bits := byte(record.Flag(a.Same, 1) | record.Flag(a.Truncated, 2) | record.Flag(a.NoIndex, 4) | record.Flag(a.NoFollow, 8))
	b = append(b, a.Signal, bits)
	b = record.AppendString(b, a.Stored.File)
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.Stored.Offset)), uint64(a.Stored.Length))
}

func parseAside(d *record.Decoder) Aside {
	a := Aside{Signal: d.Byte()}
	bits := d.Byte()
	a.Same, a.Truncated, a.NoIndex, a.NoFollow = bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
	a.Stored = contents.Place{File: d.Text(), Offset: int64(d.Uint()), Length: int64(d.Uint())}
	return a
}
