package warc

import (
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
)

// A Draft is a record for a Press. Empty fields are left out.
type Draft struct {
	Type      Type
	Name      [32]byte // the digest that the record id is made of: the same record gets the same id again
	Date      time.Time
	URL       string
	Fields    Fields // further header fields
	MediaType string // of the block

	// The block is Head and Body; the digest of Body is written if it is not zero.
	Head, Body []byte
	Digest     [32]byte
}

// A Press encodes records outside the files of a [Writer]: for a stream, or a file of another kind. Its
// output for a Draft is always the same. It is not safe for concurrent use.
type Press struct {
	pack  *coding.Packer
	plain []byte

	date  time.Time // of the last record: mostly that of the next one too
	dated []byte    // the same, formatted
}

// NewPress returns a Press that compresses each record, as Options.Coding says.
func NewPress(name string) (*Press, error) {
	p := &Press{}
	var err error
	if name != "" {
		p.pack, err = coding.NewPacker(name)
	}
	return p, err
}

// Append appends the record to dst. It does not retain the Draft.
func (p *Press) Append(dst []byte, d *Draft) []byte {
	b := p.plain[:0]
	if p.pack == nil {
		b = dst
	}
	b = appendUUID(appendStart(b, d.Type), [16]byte(d.Name[:]), 8)
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
	b = appendLength(b, len(d.Head)+len(d.Body))
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

// AppendAnswer appends the head of an HTTP response of status 200, including the empty line, as a Response
// record begins. length is that of the body.
func AppendAnswer(b []byte, fields Fields, length int) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\n"...)
	for _, f := range fields {
		b = appendField(b, f.Name, f.Value)
	}
	return appendLength(b, length)
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

// ParseInfo parses a block of application/warc-fields, and skips lines that are not fields.
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
	InfoType    = "application/warc-fields"
	AnswerType  = "application/http;msgtype=response"
	requestType = "application/http;msgtype=request"
)
