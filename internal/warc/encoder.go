package warc

import (
	crand "crypto/rand"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/parleyweb/parley/internal/coding"
)

// An encoder makes the records of a Writer, which alone calls it, with its lock held.
type encoder struct {
	rand  *rand.ChaCha8
	pack  *coding.Packer // nil: records are stored plain
	plain []byte         // a record before compression
	keys  []string
}

func (e *encoder) open(name string) (err error) {
	var seed [32]byte
	crand.Read(seed[:])
	e.rand = rand.NewChaCha8(seed)
	if name != "" {
		e.pack, err = coding.NewPacker(name)
	}
	return err
}

// id returns a new record id: a random UUID.
func (e *encoder) id() string {
	var u [16]byte
	e.rand.Read(u[:])
	return string(appendUUID(make([]byte, 0, 47), u, 4))
}

// start begins the header of a record.
func (e *encoder) start(t Type, date time.Time, id string) []byte {
	return appendDate(append(appendStart(e.plain[:0], t), id...), "\r\nWARC-Date: ", date)
}

// appendDate appends a field with a date; name includes what separates it from what is around it.
func appendDate(b []byte, name string, date time.Time) []byte {
	return append(date.UTC().AppendFormat(append(b, name...), dateLayout), crlf...)
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(appendValue(b, value), crlf...)
}

// appendStart appends the beginning of a record, up to its id.
func appendStart(b []byte, t Type) []byte {
	b = append(append(b, "WARC/1.1\r\nWARC-Type: "...), t...)
	return append(b, "\r\nWARC-Record-ID: "...)
}

// appendUUID appends a record id: a UUID (RFC 9562) of the version, made of bytes.
func appendUUID(b []byte, u [16]byte, version byte) []byte {
	u[6], u[8] = u[6]&0x0f|version<<4, u[8]&0x3f|0x80
	b = append(b, "<urn:uuid:"...)
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, u[at:at+n])
		at += n
	}
	return append(b, '>')
}

// appendLength appends the last field of a header, and the end of the header.
func appendLength(b []byte, n int) []byte {
	b = append(b, "Content-Length: "...)
	return append(strconv.AppendInt(b, int64(n), 10), "\r\n\r\n"...)
}
