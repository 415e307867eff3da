package holding

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Page is what the holding knows of one URL.
type Page struct {
	// Item is what the site says of the URL, its title left out.
	Item protocol.Item

	Held   protocol.Digest // digest of the file; meaningless if Path is empty
	Length int64           // bytes of the file
	Path   string          // the file, below the directory, with slashes; empty if nothing is held

	// ETag and LastModified came with what is held, for a conditional request.
	ETag, LastModified string

	Status  int       // of the last answer; 0 if there was none
	Fetched time.Time // when the last answer was taken in, to the millisecond; zero if never

	// Due is when the page is to be asked for. The zero time means that
	// nothing is owed; Parked means that robots.txt forbids to ask.
	Due time.Time

	misses int    // answers in a row that were not what the site says
	fails  int    // answers in a row that were none
	gen    uint32 // the snapshot that named the page last
}

// Parked is the Due of a page that robots.txt forbids to fetch.
var Parked = time.UnixMilli(math.MaxInt64).UTC()

// pageVersion is the first byte of a page's record.
const pageVersion = 1

// maxField bounds other strings of the site in a record, in bytes; longer ones are left out.
const maxField = 1 << 10

var errRecord = errors.New("malformed page record")

// appendPage appends the record of p. The URL is the record's key and is not in it.
func appendPage(b []byte, p *Page) []byte {
	b = append(b, pageVersion)
	b = binary.BigEndian.AppendUint32(b, p.gen)
	b = binary.BigEndian.AppendUint64(b, dueKey(p.Due))
	b = appendTime(b, p.Item.Modified)
	b = binary.AppendVarint(b, int64(p.Item.Span))
	b = binary.AppendVarint(b, p.Item.Length)
	b = appendString(b, p.Item.Type)
	b = append(b, p.Item.Digest[:]...)
	b = append(b, p.Held[:]...)
	b = binary.AppendVarint(b, p.Length)
	b = appendString(b, p.Path)
	b = appendString(b, p.ETag)
	b = appendString(b, p.LastModified)
	b = binary.AppendVarint(b, int64(p.Status))
	b = appendTime(b, p.Fetched)
	b = binary.AppendVarint(b, int64(p.misses))
	return binary.AppendVarint(b, int64(p.fails))
}

// parsePage reads what appendPage wrote. It keeps nothing of b.
func parsePage(url string, b []byte) (*Page, error) {
	if len(b) < 13 || b[0] != pageVersion {
		return nil, errRecord
	}
	p := &Page{gen: binary.BigEndian.Uint32(b[1:]), Due: keyDue(binary.BigEndian.Uint64(b[5:]))}
	d := decoder{b: b[13:]}
	p.Item = protocol.Item{URL: url, Modified: d.time(), Span: time.Duration(d.int()), Length: d.int(), Type: d.string()}
	d.digest(&p.Item.Digest)
	d.digest(&p.Held)
	p.Length, p.Path, p.ETag, p.LastModified = d.int(), d.string(), d.string(), d.string()
	p.Status, p.Fetched = int(d.int()), d.time()
	p.misses, p.fails = int(d.int()), int(d.int())
	if d.bad || len(d.b) != 0 {
		return nil, errRecord
	}
	return p, nil
}

// dueKey orders times of debts: milliseconds since 1970, 0 for none, the
// highest number for a parked one.
func dueKey(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(1, t.UnixMilli()))
}

func keyDue(k uint64) time.Time {
	if k == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(min(k, math.MaxInt64))).UTC()
}

// noTime stands for the zero time.
const noTime = math.MinInt64

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, noTime)
	}
	return binary.AppendVarint(b, t.UnixMilli())
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A decoder reads the parts of a record; bad stays set after the first fault.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) time() time.Time {
	ms := d.int()
	if d.bad || ms == noTime {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (d *decoder) string() string {
	n, w := binary.Uvarint(d.b)
	if w <= 0 || n > uint64(len(d.b)-w) {
		d.bad, d.b = true, nil
		return ""
	}
	s := string(d.b[w : w+int(n)])
	d.b = d.b[w+int(n):]
	return s
}

func (d *decoder) digest(to *protocol.Digest) {
	if len(d.b) < len(to) {
		d.bad, d.b = true, nil
		return
	}
	copy(to[:], d.b)
	d.b = d.b[len(to):]
}
