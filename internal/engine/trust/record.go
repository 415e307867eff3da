package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A Record is the evidence about one site. The zero value has none. Its encoding takes at most 700 bytes,
// mostly 30 a source. It is not safe for concurrent use.
type Record struct {
	Sources []Source
	Dates   []Dates
	Bodies  Bodies
}

// Bodies counts pages by how their fetched bodies compare with the notices; bodies sent with a notice do not
// count.
type Bodies struct {
	Matched  uint8 // had the digest of the notice
	Unstable uint8 // differed at each fetch
	Restless uint8 // of those, differed in the main text too
	Texts    uint8 // of unstable pages, had the main text of the notice
}

const (
	enoughUnstable = 4 // pages, for a site to be judged by its main texts
	mostBodies     = 128
)

// Count increments n, which points to one of the counts. Old bodies weigh less.
func (b *Bodies) Count(n *uint8) {
	if *n++; int(b.Matched)+int(b.Unstable) > mostBodies || b.Texts > mostBodies {
		for _, n := range b.counts() {
			*n /= 2
		}
	}
}

func (b *Bodies) counts() [4]*uint8 {
	return [...]*uint8{&b.Matched, &b.Unstable, &b.Restless, &b.Texts}
}

// ByText reports whether hardly any body of the site matched its digest, since bodies differ at each fetch:
// then its notices are judged by main texts. Varying says that those are no better.
func (b *Bodies) ByText() (is, restless bool) {
	is = b.Unstable >= enoughUnstable && int(b.Unstable) > 8*int(b.Matched)
	return is, is && 2*int(b.Restless) > int(b.Unstable)
}

const (
	maxSources = 8  // names in a record; the last is shared by all further names
	maxName    = 16 // bytes
)

// Source returns the site's source of that name, such as "stream" or "indexnow"; a new name gets a new source.
// The pointer is valid until Source is called with another name. Names beyond the eighth share a source: they
// are the caller's own constants, and few.
func (r *Record) Source(name string) *Source {
	return named(&r.Sources, name, func(v *Source) *string { return &v.Name })
}

// Date returns the Dates of that name, such as "sitemap" or "header", as Source does.
func (r *Record) Date(name string) *Dates {
	return named(&r.Dates, name, func(d *Dates) *string { return &d.Name })
}

func named[T any](list *[]T, name string, of func(*T) *string) *T {
	name = name[:min(len(name), maxName)]
	for i := range *list {
		if t := &(*list)[i]; *of(t) == name {
			return t
		}
	}
	if len(*list) >= maxSources {
		return &(*list)[maxSources-1]
	}
	var t T
	*of(&t) = name
	*list = append(*list, t)
	return &(*list)[len(*list)-1]
}

const recordVersion = 2 // 1 had no Bodies

// Append appends the encoded record.
func (r *Record) Append(b []byte) []byte {
	b = appendList(append(b, recordVersion), r.Sources, (*Source).append)
	b = appendList(b, r.Dates, (*Dates).append)
	return append(b, r.Bodies.Matched, r.Bodies.Unstable, r.Bodies.Restless, r.Bodies.Texts)
}

// Parse decodes what Append wrote; no bytes are the zero Record.
func Parse(b []byte) (Record, error) {
	var rec Record
	if len(b) == 0 {
		return rec, nil
	}
	d := decoder{rest: b}
	version := d.byte()
	if version < 1 || version > recordVersion {
		return rec, fmt.Errorf("read trust record: unknown version %d", version)
	}
	rec.Sources, rec.Dates = readList(&d, (*Source).read), readList(&d, (*Dates).read)
	if version > 1 {
		for _, n := range rec.Bodies.counts() {
			*n = min(d.byte(), mostBodies)
		}
	}
	if d.bad || len(d.rest) > 0 {
		return Record{}, errors.New("read trust record: damaged")
	}
	return rec, nil
}

func appendList[T any](b []byte, list []T, one func(*T, []byte) []byte) []byte {
	list = list[:min(len(list), maxSources)]
	b = append(b, byte(len(list)))
	for i := range list {
		b = one(&list[i], b)
	}
	return b
}

func readList[T any](d *decoder, one func(*T, *decoder)) (list []T) {
	n := int(d.byte())
	if n > maxSources {
		d.bad = true
		return nil
	}
	for range n {
		var t T
		one(&t, d)
		list = append(list, t)
	}
	return list
}

func (v *Source) numbers() ([4]*uint32, [5]*float32) {
	return [...]*uint32{&v.Taken, &v.Ignored, &v.Right, &v.Wrong},
		[...]*float32{&v.Credit, &v.MuteCredit, &v.ration.right, &v.ration.wrong, &v.ration.due}
}

func (v *Source) append(b []byte) []byte {
	b = appendName(b, v.Name)
	b = append(b, flags(v.Rationed, v.mute.lied, v.begun), v.Level)
	counts, amounts := v.numbers()
	for _, n := range counts {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	for _, f := range amounts {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(*f))
	}
	b = binary.AppendVarint(b, v.mute.until)
	return binary.AppendVarint(b, v.mute.sampled)
}

func (v *Source) read(d *decoder) {
	v.Name = d.name()
	f := d.byte()
	v.Rationed, v.mute.lied, v.begun = f&1 != 0, f&2 != 0, f&4 != 0
	v.Level = d.byte()
	counts, amounts := v.numbers()
	for _, p := range counts {
		*p = d.uint32()
	}
	for _, p := range amounts {
		*p = d.float()
	}
	v.mute.until, v.mute.sampled = d.varint(), d.varint()
}

// A decoder reads a record; a read error sets bad.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) took(n int) bool {
	if n <= 0 || n > len(d.rest) {
		d.bad, d.rest = true, nil
		return false
	}
	d.rest = d.rest[n:]
	return true
}

func (d *decoder) uint32() uint32 {
	u, n := binary.Uvarint(d.rest)
	if d.bad = d.bad || u > math.MaxUint32; d.bad || !d.took(n) {
		return 0
	}
	return uint32(u)
}

func (d *decoder) varint() int64 {
	i, n := binary.Varint(d.rest)
	if d.bad || !d.took(n) {
		return 0
	}
	return i
}

// float reads a number of an account: one that is negative or above 1<<32 is bad.
func (d *decoder) float() float32 {
	if d.bad || len(d.rest) < 4 {
		d.bad = true
		return 0
	}
	f := math.Float32frombits(binary.LittleEndian.Uint32(d.rest))
	d.rest = d.rest[4:]
	if !(f >= 0 && f <= 1<<32) {
		d.bad = true
		return 0
	}
	return f
}

func (d *decoder) name() string {
	n := int(d.byte())
	if d.bad || n > maxName || n > len(d.rest) {
		d.bad = true
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func appendName(b []byte, s string) []byte {
	s = s[:min(len(s), maxName)]
	return append(append(b, byte(len(s))), s...)
}

func flags(list ...bool) (b byte) {
	for i, f := range list {
		if f {
			b |= 1 << i
		}
	}
	return b
}
