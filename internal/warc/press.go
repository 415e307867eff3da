package warc

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
)

// A Draft is a record to be pressed. What is empty is left out.
type Draft struct {
	Type      Type
	Name      [32]byte // a digest that the record is named after: the same record has the same name again
	Date      time.Time
	URL       string
	Fields    Fields // more of the header
	MediaType string // of the block

	// The block is Head and Body; the digest of Body is said if it is not zero.
	Head, Body []byte
	Digest     [32]byte
}

// A Press makes records that do not stand in files of a [Writer]: for a stream,
// or a file of another kind. What it makes of a Draft is always the same. It is
// for one goroutine.
type Press struct {
	pack  *coding.Packer
	plain []byte

	date  time.Time // of the record before: mostly that of this one too
	dated []byte    // the same as it is written
}

// NewPress returns a Press that codes each record, as Options.Coding says.
func NewPress(name string) (*Press, error) {
	p := &Press{}
	var err error
	if name != "" {
		p.pack, err = coding.NewPacker(name)
	}
	return p, err
}

// Append appends the record to dst. It keeps nothing of the Draft.
func (p *Press) Append(dst []byte, d *Draft) []byte {
	b := append(p.plain[:0], "WARC/1.1\r\nWARC-Type: "...)
	if p.pack == nil {
		b = append(dst, "WARC/1.1\r\nWARC-Type: "...)
	}
	b = append(b, d.Type...)
	b = append(b, "\r\nWARC-Record-ID: "...)
	b = appendName(b, d.Name)
	b = append(b, "\r\nWARC-Date: "...)
	if d.Date != p.date || p.dated == nil {
		p.date, p.dated = d.Date, d.Date.UTC().AppendFormat(p.dated[:0], dateLayout)
	}
	b = append(append(b, p.dated...), crlf...)
	if d.URL != "" {
		b = appendField(b, "WARC-Target-URI", d.URL)
	}
	for _, f := range d.Fields {
		b = appendField(b, f.Name, f.Value)
	}
	if d.MediaType != "" {
		b = appendField(b, "Content-Type", d.MediaType)
	}
	if d.Digest != [32]byte{} {
		b = append(b, "WARC-Payload-Digest: "...)
		b = append(appendDigest(b, d.Digest), crlf...)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(d.Head)+len(d.Body)), 10)
	b = append(b, "\r\n\r\n"...)
	b = append(append(append(b, d.Head...), d.Body...), "\r\n\r\n"...)
	if p.pack == nil {
		return b
	}
	p.plain = b
	dst = p.pack.Append(dst, b)
	if cap(p.plain) > maxKept {
		p.plain = nil
	}
	return dst
}

// appendName appends a name that is made of a digest: a UUID of version 8 (RFC 9562).
func appendName(b []byte, d [32]byte) []byte {
	d[6], d[8] = d[6]&0x0f|0x80, d[8]&0x3f|0x80
	b = append(b, "<urn:uuid:"...)
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, d[at:at+n])
		at += n
	}
	return append(b, '>')
}

// AppendAnswer appends the head of an answer of HTTP of status 200, up to and
// with the empty line: what a Response record begins with. Of what follows it
// says the length.
func AppendAnswer(b []byte, fields Fields, length int) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\n"...)
	for _, f := range fields {
		b = appendField(b, f.Name, f.Value)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	return append(b, "\r\n\r\n"...)
}

// AppendInfo appends fields as the block of a record of application/warc-fields.
func AppendInfo(b []byte, fields Fields) []byte {
	for _, f := range fields {
		if isToken(f.Name) {
			b = appendField(b, f.Name, f.Value)
		}
	}
	return b
}

// ParseInfo reads a block of application/warc-fields. What is no field is passed over.
func ParseInfo(block []byte) Fields {
	var list Fields
	for line := range strings.Lines(string(block)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && isToken(name) && len(list) < maxFields {
			list = append(list, Field{name, strings.TrimSpace(value)})
		}
	}
	return list
}

// InfoType is the media type of AppendInfo, and AnswerType of AppendAnswer with a body.
const (
	InfoType   = "application/warc-fields"
	AnswerType = "application/http;msgtype=response"
)

// AppendEntry appends the entry to an index, as a line of CDXJ.
func AppendEntry(b []byte, e *Entry) []byte { return appendLine(b, e) }
