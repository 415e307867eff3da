package changes

import (
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/protocol"
)

// parsePosted parses a record of the outbox of the version before.
func parsePosted(key, raw []byte) (p posted, ok bool) {
	var x record.Codec
	ok = x.Read(key, raw)
	codeAside(&x, &p.Aside)
	it := &p.step.Entry.Item
	x.Text((*string)(&p.step.Op))
	x.Text(&p.step.From)
	var significance uint64
	x.Uint(&significance)
	p.step.Significance = protocol.Significance(significance)
	x.Text(&it.URL)
	x.Text(&it.Title)
	x.Time(&it.Modified)
	x.Int(&it.Length)
	x.Text(&it.Type)
	x.Digest(&it.Digest)
	x.Digest(&it.Text)
	x.Text(&it.Language)
	x.Text(&it.Canonical)
	x.Byte((*byte)(&it.Importance))
	return p, ok && x.Whole()
}

func appendAside(key []byte, a *Aside) []byte {
	var x record.Codec
	codeAside(&x, a)
	return record.Seal(x.Out, key, 0)
}

func parseAside(key, raw []byte) (a Aside, ok bool) {
	var x record.Codec
	ok = x.Read(key, raw)
	codeAside(&x, &a)
	return a, ok && !x.In.Bad
}

func codeAside(x *record.Codec, a *Aside) {
	x.Byte(&a.Signal)
	bits := byte(record.Flag(a.Same, 1) | record.Flag(a.Truncated, 2) | record.Flag(a.NoIndex, 4) | record.Flag(a.NoFollow, 8))
	x.Byte(&bits)
	a.Same, a.Truncated, a.NoIndex, a.NoFollow = bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
	x.Text(&a.Stored.File)
	x.Size(&a.Stored.Offset)
	x.Size(&a.Stored.Length)
}
