package warc

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Type is the kind of a record.
type Type string

// The types that Parley writes, of those of ISO 28500, section 6.
const (
	Warcinfo Type = "warcinfo"
	Response Type = "response"
	Request  Type = "request"
	Metadata Type = "metadata"
	Revisit  Type = "revisit"
)

// Profiles of revisit records (section 6.7).
const (
	profileDigest      = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	profileNotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// A Place is the position of a record.
type Place struct {
	File   string // name below the directory
	Offset int64  // of the first byte, in the file as stored
	Length int64  // as stored, including the end of the record
}

// A Field is a line of a record's header.
type Field struct{ Name, Value string }

// Fields is the header of a record, in order.
type Fields []Field

// Get returns the first value of a name, whatever its case; "" if there is none.
func (f Fields) Get(name string) string {
	for _, x := range f {
		if strings.EqualFold(x.Name, name) {
			return x.Value
		}
	}
	return ""
}

// A Record is one record of a file. Body reads its block, and is valid until the Reader's next call.
type Record struct {
	Version string // "1.1"
	Fields  Fields
	Offset  int64 // of the piece that contains it
	Size    int64 // of the block, as the header states
	Body    io.Reader
}

// Type returns the type, "" if it has none.
func (r *Record) Type() Type { return Type(r.Fields.Get("WARC-Type")) }

// authorizedField is in the records of an Authorized capture.
const authorizedField = "Parley-Authorized"

// Authorized reports whether the request had cookies or a client certificate: then the response may not be for everybody.
func (r *Record) Authorized() bool { return r.Fields.Get(authorizedField) != "" }

// URL returns the target URL, without the angle brackets that some writers put around it.
func (r *Record) URL() string { return bare(r.Fields.Get("WARC-Target-URI")) }

// Date returns the time of capture, the zero time if the record has none.
func (r *Record) Date() time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.Fields.Get("WARC-Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

func bare(uri string) string {
	if n := len(uri); n > 1 && uri[0] == '<' && uri[n-1] == '>' {
		return uri[1 : n-1]
	}
	return uri
}

// The bounds of a header.
const (
	maxHeader = 64 << 10 // bytes
	maxFields = 256
)

// malformed returns the error for bytes that are not a record.
func malformed(format string, args ...any) error {
	return fmt.Errorf("malformed record: "+format, args...)
}

// parseHeader parses the lines of a header, without the empty line that ends it. It accepts what writers of
// all kinds have written: lines that end in LF alone, and values continued on the next line.
func parseHeader(b []byte) (*Record, error) {
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	version, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("WARC/"))
	if !ok || len(version) > 8 {
		return nil, malformed("first line is %.20q, want a WARC version", line)
	}
	rec := &Record{Version: string(version), Size: -1, Fields: make(Fields, 0, min(bytes.Count(rest, []byte("\n")), maxFields))}
	text := string(rest) // one copy for all fields
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimSuffix(line, "\r")
		if n := len(rec.Fields); line != "" && (line[0] == ' ' || line[0] == '\t') && n > 0 {
			rec.Fields[n-1].Value += " " + strings.TrimSpace(line)
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, malformed("header line %.80q has no colon", line)
		}
		if len(rec.Fields) == maxFields {
			return nil, malformed("more than %d fields", maxFields)
		}
		rec.Fields = append(rec.Fields, Field{name, strings.TrimSpace(value)})
	}
	size, err := strconv.ParseUint(rec.Fields.Get("Content-Length"), 10, 63)
	if err != nil || size > math.MaxInt64/4 {
		return nil, malformed("invalid content-length %.40q", rec.Fields.Get("Content-Length"))
	}
	rec.Size = int64(size)
	return rec, nil
}

// digestPrefix stands before lower-case hexadecimal.
const digestPrefix = "sha256:"

func appendDigest(b []byte, d [32]byte) []byte {
	return hex.AppendEncode(append(b, digestPrefix...), d[:])
}

// ParseDigest parses a digest in the form of records and of the index.
func ParseDigest(s string) (d [32]byte, ok bool) {
	s, ok = strings.CutPrefix(s, digestPrefix)
	if !ok || len(s) != 2*len(d) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(s))
	return d, err == nil
}

// dateLayout has milliseconds, which WARC 1.1 allows: captures within one second keep their order.
const dateLayout = "2006-01-02T15:04:05.000Z"
