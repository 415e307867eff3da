package warc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// An Entry is a line of an index: one capture and its position.
type Entry struct {
	URL    string
	Date   time.Time // to the second
	Type   string    // media type; "warc/revisit" for a revisit
	Status int
	Digest [32]byte // of the payload; for a revisit, of the original's
	Place  Place
	Of     Place // the original of a revisit; an empty File: unknown
}

const revisitType = "warc/revisit"

// Revisit reports whether the capture only repeats another.
func (e *Entry) Revisit() bool { return e.Type == revisitType }

// AppendEntry appends the entry to an index, as a line of CDXJ.
func AppendEntry(b []byte, e *Entry) []byte {
	b = appendSURT(b, e.URL)
	b = append(b, ' ')
	b = e.Date.UTC().AppendFormat(b, stampLayout)
	b = appendJSON(append(b, ` {"url": `...), e.URL)
	if e.Type != "" {
		b = appendJSON(append(b, `, "mime": `...), e.Type)
	}
	if e.Status != 0 {
		b = strconv.AppendInt(append(b, `, "status": "`...), int64(e.Status), 10)
		b = append(b, '"')
	}
	b = appendDigest(append(b, `, "digest": "`...), e.Digest)
	b = appendPlace(append(b, '"'), "", e.Place)
	if e.Of.File != "" {
		b = appendPlace(b, "orig.", e.Of)
	}
	return append(b, "}\n"...)
}

func appendPlace(b []byte, prefix string, p Place) []byte {
	b = append(append(append(b, `, "`...), prefix...), `length": "`...)
	b = strconv.AppendInt(b, p.Length, 10)
	b = append(append(append(b, `", "`...), prefix...), `offset": "`...)
	b = strconv.AppendInt(b, p.Offset, 10)
	b = append(append(append(b, `", "`...), prefix...), `filename": `...)
	return appendJSON(b, p.File)
}

// appendJSON appends s as a string of JSON.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			b = append(append(b, s[from:i]...), "\ufffd"...)
		} else {
			const digits = "0123456789abcdef"
			b = append(append(b, s[from:i]...), `\u00`...)
			b = append(b, digits[c>>4], digits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// cdxjFields is the JSON of a line. Numbers are strings there, by custom.
type cdxjFields struct {
	URL      string `json:"url"`
	Type     string `json:"mime"`
	Status   number `json:"status"`
	Digest   string `json:"digest"`
	Length   number `json:"length"`
	Offset   number `json:"offset"`
	File     string `json:"filename"`
	OfLength number `json:"orig.length"`
	OfOffset number `json:"orig.offset"`
	OfFile   string `json:"orig.filename"`
}

// number is a number, or a string that contains one. Anything else is 0.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(string(bytes.Trim(b, `"`)), 10, 64)
	if err == nil && v >= 0 {
		*n = number(v)
	}
	return nil
}

// parseLine parses a line of CDXJ, without the line end.
func parseLine(line []byte) (e Entry, ok bool) {
	_, rest, ok := bytes.Cut(line, []byte(" "))
	stamp, fields, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 || len(stamp) < len(stampLayout) {
		return e, false
	}
	date, err := time.Parse(stampLayout, string(stamp[:len(stampLayout)]))
	var f cdxjFields
	if err != nil || json.Unmarshal(fields, &f) != nil || f.URL == "" {
		return e, false
	}
	e = Entry{URL: f.URL, Date: date, Type: f.Type, Status: int(f.Status),
		Place: Place{f.File, int64(f.Offset), int64(f.Length)},
		Of:    Place{f.OfFile, int64(f.OfOffset), int64(f.OfLength)}}
	e.Digest, _ = ParseDigest(f.Digest)
	return e, true
}
