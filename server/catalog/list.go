package catalog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/coding"
)

const (
	// maxLine is the longest line of a list, in bytes: a URL, a title and the rest take a quarter of that. A
	// longer one is skipped.
	maxLine = 64 << 10

	maxList  = 1 << 30     // bytes of a list, uncompressed
	maxLines = 5 * maxURLs // of a list

	maxColumns = 100
	maxBreaks  = 100 // line breaks within a record of CSV
)

// readList reads a list of URLs, and calls each with every line that is not empty or a comment. Its first
// line determines one of three formats:
//
//   - text: one URL per line; lines that begin with "#" are comments
//   - CSV: the first line names the columns, separated by commas, semicolons
//     or tabs: url (or loc), modified (or lastmod), length (or size), type,
//     title, language, canonical, digest (or sha256). Others are ignored
//   - JSON lines: one object per line, with members of these names
//
// It may be compressed with gzip or Zstandard, and begin with a byte order mark. An unusable line is passed
// on as Bad. A list that has lines, but not one URL among them, is an error: it is something else.
func readList(r io.Reader, each func(Entry) error) error {
	plain, err := coding.NewReader(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	l := lines{r: bufio.NewReaderSize(&bounded{plain, maxList}, maxLine)}
	var p parser
	good, bad := 0, ""
	for {
		line, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		e := Entry{Line: l.n, Bad: "line too long"}
		if !l.long {
			if bytes.IndexByte(line, 0) >= 0 {
				return fmt.Errorf("line %d has a NUL byte: not a list of URLs", l.n)
			}
			var ok bool
			if e, ok, err = p.line(line, &l); err != nil {
				return fmt.Errorf("line %d: %w", l.n, err)
			} else if !ok {
				continue
			}
		}
		if e.Bad == "" {
			good++
		} else if bad == "" {
			bad = fmt.Sprintf("line %d: %s", e.Line, e.Bad)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	if good == 0 && bad != "" {
		return fmt.Errorf("no line is a URL: not a list of URLs: %s", bad)
	}
	return nil
}

// errTooLong reports a list beyond maxList or maxLines.
var errTooLong = fmt.Errorf("the list is too long: more than %d bytes, or %d lines", maxList, maxLines)

// bounded is a reader that fails after n bytes, where io.LimitReader would end.
type bounded struct {
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.n <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.n)])
	b.n -= int64(n)
	return n, err
}

// lines reads lines that end in LF, CRLF, or the end of the list.
type lines struct {
	r    *bufio.Reader // of size maxLine
	n    int           // number of the last line
	long bool          // the last line was too long, and is skipped
}

// next returns the next line, without its end, until it is called again.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if l.n++; l.n > maxLines {
		return nil, errTooLong
	}
	l.long = false
	for err == bufio.ErrBufferFull {
		l.long = true
		_, err = l.r.ReadSlice('\n')
	}
	switch {
	case l.long && (err == nil || err == io.EOF):
		return nil, nil
	case err == io.EOF && len(line) > 0:
		err = nil // the next call finds the end
	}
	if err != nil {
		return nil, err
	}
	if l.n == 1 {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// A parser converts the lines of one list to entries.
type parser struct {
	form    form
	comma   byte
	columns []column
	record  []byte   // a CSV record of several lines
	fields  []string // of the previous record; reused
}

type form byte

const (
	unknownForm form = iota
	textForm
	csvForm
	jsonForm
)

// line returns the entry of a line, and false for a line without one. A CSV record may take further lines.
func (p *parser) line(line []byte, more *lines) (e Entry, ok bool, err error) {
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) == 0 {
		return e, false, nil
	}
	if p.form == unknownForm {
		switch {
		case trimmed[0] == '#': // a comment, unless it names the columns
			if p.isHeader(trimmed[1:]) && len(p.columns) > 1 {
				p.form = csvForm
			}
			return e, false, nil
		case trimmed[0] == '{':
			p.form = jsonForm
		case trimmed[0] == '[':
			return e, false, errors.New("a JSON array: want one object per line, without brackets around them")
		case trimmed[0] == '<':
			return e, false, errors.New("it is XML or HTML, not a list: give a sitemap or feed with its own option")
		case p.isHeader(trimmed):
			p.form = csvForm
			return e, false, nil
		default:
			p.form = textForm
		}
	}
	n := more.n
	switch p.form {
	case jsonForm:
		e = parseJSON(trimmed)
	case csvForm:
		e, err = p.csv(line, more)
	default:
		if trimmed[0] == '#' {
			return e, false, nil
		}
		e = parseText(trimmed)
	}
	e.Line = n
	return e, true, err
}

func parseText(line []byte) Entry {
	if !isReference(line) || !utf8.Valid(line) || bytes.ContainsAny(line, " \t<>\"") {
		return bad(line, leftNotURL)
	}
	return Entry{URL: string(line)}
}

// bad returns an entry for a line that is unusable.
func bad(line []byte, why string) Entry {
	return Entry{URL: strings.ToValidUTF8(string(line[:min(len(line), 200)]), "\uFFFD"), Bad: why}
}

// A column is a field of an entry, under any of its names.
type column byte

const (
	noColumn column = iota
	urlColumn
	modifiedColumn
	lengthColumn
	typeColumn
	titleColumn
	languageColumn
	canonicalColumn
	digestColumn
)

func columnNamed(name string) column {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "url", "loc":
		return urlColumn
	case "modified", "lastmod":
		return modifiedColumn
	case "length", "size":
		return lengthColumn
	case "type":
		return typeColumn
	case "title":
		return titleColumn
	case "language":
		return languageColumn
	case "canonical":
		return canonicalColumn
	case "digest", "sha256":
		return digestColumn
	}
	return noColumn
}

// set sets a field of an entry, from its form in a list.
func (e *Entry) set(c column, value string) {
	switch c {
	case urlColumn:
		e.URL = value
	case modifiedColumn:
		if t, span, ok := parseTime(value); ok {
			e.Modified, e.Span = t, span
		}
	case lengthColumn:
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
			e.Length = max(n, 0)
		}
	case typeColumn:
		e.Type = value
	case titleColumn:
		e.Title = value
	case languageColumn:
		e.Language = value
	case canonicalColumn:
		e.Canonical = value
	case digestColumn:
		e.Digest = parseDigest(value)
	}
}

// isHeader reports whether a line names the columns of a CSV file, and if so records them.
func (p *parser) isHeader(line []byte) bool {
	for _, comma := range []byte(",;\t") {
		fields, whole := splitCSV(nil, bytes.TrimSpace(line), comma)
		if !whole || len(fields) > maxColumns {
			continue
		}
		columns, named := make([]column, len(fields)), false
		for i, f := range fields {
			columns[i] = columnNamed(f)
			named = named || columns[i] == urlColumn
		}
		if named {
			p.comma, p.columns = comma, columns
			return true
		}
	}
	return false
}

// csv returns the entry of a CSV record that begins with line.
func (p *parser) csv(line []byte, more *lines) (Entry, error) {
	fields, whole := splitCSV(p.fields[:0], line, p.comma)
	if !whole {
		p.record = append(p.record[:0], line...)
		for n := 1; !whole; n++ {
			next, err := more.next()
			if err != nil && err != io.EOF {
				return Entry{}, err
			}
			// A quote that is never closed would turn all the rest into one record, and hide that there was a
			// rest.
			if err == io.EOF || more.long || n > maxBreaks || len(p.record)+len(next) > maxLine {
				return Entry{}, errors.New("a quoted field begins here and never ends")
			}
			p.record = append(append(p.record, '\n'), next...)
			fields, whole = splitCSV(p.fields[:0], p.record, p.comma)
		}
	}
	p.fields = fields
	var e Entry
	for i, f := range fields {
		if i < len(p.columns) && f != "" {
			e.set(p.columns[i], f)
		}
	}
	if e.URL = strings.TrimSpace(e.URL); !isReference(e.URL) {
		return bad(line, leftNotURL), nil
	}
	return e, nil
}

// splitCSV appends the fields of a record (RFC 4180), and reports whether it is complete: no quote is open.
// Quotes within a field that does not begin with one stand for themselves.
func splitCSV(fields []string, record []byte, comma byte) (_ []string, whole bool) {
	for {
		field := record
		if len(record) > 0 && record[0] == '"' {
			var b []byte
			rest := record[1:]
			for {
				i := bytes.IndexByte(rest, '"')
				if i < 0 {
					return fields, false
				}
				b, rest = append(b, rest[:i]...), rest[i+1:]
				if len(rest) == 0 || rest[0] != '"' {
					break
				}
				b, rest = append(b, '"'), rest[1:]
			}
			i := bytes.IndexByte(rest, comma)
			if i < 0 {
				return append(fields, string(append(b, rest...))), true
			}
			fields, record = append(fields, string(append(b, rest[:i]...))), rest[i+1:]
			continue
		}
		i := bytes.IndexByte(record, comma)
		if i < 0 {
			return append(fields, string(field)), true
		}
		fields, record = append(fields, string(record[:i])), record[i+1:]
	}
}

// A jsonLine holds the members of a line of JSON. They are decoded one by one, so that a title of the wrong
// type does not cost the URL.
type jsonLine struct {
	URL, Loc          json.RawMessage
	Modified, Lastmod json.RawMessage
	Length, Size      json.RawMessage
	Type              json.RawMessage
	Title             json.RawMessage
	Language          json.RawMessage
	Canonical         json.RawMessage
	Digest, SHA256    json.RawMessage
}

// parseJSON returns the entry of a line of JSON.
func parseJSON(line []byte) Entry {
	var l jsonLine
	if err := json.Unmarshal(line, &l); err != nil {
		return bad(line, "not a JSON object")
	}
	var e Entry
	for _, m := range []struct {
		column
		raw json.RawMessage
	}{
		{urlColumn, l.Loc}, {urlColumn, l.URL}, {modifiedColumn, l.Lastmod}, {modifiedColumn, l.Modified},
		{lengthColumn, l.Size}, {lengthColumn, l.Length}, {typeColumn, l.Type}, {titleColumn, l.Title},
		{languageColumn, l.Language}, {canonicalColumn, l.Canonical}, {digestColumn, l.SHA256}, {digestColumn, l.Digest},
	} {
		switch numeric := m.column == modifiedColumn || m.column == lengthColumn; {
		case len(m.raw) == 0:
		case m.raw[0] == '"':
			var value string
			if json.Unmarshal(m.raw, &value) == nil {
				e.set(m.column, value)
			}
		case numeric && (m.raw[0] == '-' || '0' <= m.raw[0] && m.raw[0] <= '9'):
			whole, _, _ := strings.Cut(string(m.raw), ".")
			e.set(m.column, whole)
		}
	}
	if e.URL = strings.TrimSpace(e.URL); !isReference(e.URL) {
		return bad(line, leftNotURL)
	}
	return e
}

// isReference reports whether s may be a URL, or the path of one. A single word is rejected, though it could
// be resolved: too many things are words.
func isReference[S string | []byte](s S) bool {
	return len(s) > 0 && (s[0] == '/' || strings.Contains(string(s[:min(len(s), 16)]), "://"))
}
