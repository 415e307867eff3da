// Package warctest checks archives against the standard, for tests: more strictly than package warc, which reads
// what writers of all kinds have written.
package warctest

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/warc"
)

// A Report is the contents of a valid archive.
type Report struct {
	Records int
	Types   map[warc.Type]int
	Places  []warc.Place // of each record, in order; File is empty
	URLs    []string
}

// maxFaults bounds the faults reported of one file.
const maxFaults = 100

// Record is a valid record, to be spoiled.
const Record = "WARC/1.1\r\n" +
	"WARC-Type: response\r\n" +
	"WARC-Record-ID: <urn:uuid:0b1f6e5e-6d0a-4c1d-9d35-1a2b3c4d5e6f>\r\n" +
	"WARC-Date: 2026-03-01T12:00:00.123Z\r\n" +
	"WARC-Target-URI: https://example.org/\r\n" +
	"WARC-Payload-Digest: sha256:b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9\r\n" +
	"WARC-IP-Address: 192.0.2.1\r\n" +
	"Content-Type: application/http;msgtype=response\r\n" +
	"Content-Length: 50\r\n\r\n" +
	"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world\r\n\r\n"

// Validate checks a file against ISO 28500:2017, WARC 1.0 too, and returns all faults, joined. It is stricter
// than any reader: it checks the line ends, which fields a record may have, all digests, and that each record
// of a compressed file is a piece of its own. It remembers the id of each record.
func Validate(src io.Reader) (*Report, error) {
	v := &validator{members: coding.NewMembers(src), report: Report{Types: map[warc.Type]int{}}, ids: map[string]int64{}, digests: map[string]string{}}
	defer v.members.Close()
	v.in = bufio.NewReaderSize(v.members, 64<<10)
	if err := v.run(); err != nil {
		v.faults = append(v.faults, fmt.Errorf("record at %d: %w", v.at, err))
	}
	return &v.report, errors.Join(v.faults...)
}

type validator struct {
	members *coding.Members
	in      *bufio.Reader
	report  Report
	faults  []error
	at      int64
	ids     map[string]int64
	digests map[string]string // payload digest by URL and date of a capture
}

func (v *validator) fault(format string, args ...any) {
	if len(v.faults) < maxFaults {
		v.faults = append(v.faults, fmt.Errorf("record at %d: %w", v.at, malformed(format, args...)))
	}
}

func (v *validator) run() error {
	for {
		v.at = v.members.Offset()
		if v.members.Plain() {
			v.at -= int64(v.in.Buffered())
			if _, err := v.in.Peek(1); err == io.EOF {
				return nil
			}
		} else {
			err := v.members.Next()
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			v.in.Reset(v.members)
		}
		if err := v.record(); err != nil {
			return err
		}
		if !v.members.Plain() {
			if b, err := v.in.Peek(1); len(b) > 0 {
				return malformed("compressed member has more data after the record")
			} else if err != io.EOF {
				return err
			}
		}
		end := v.members.Offset()
		if v.members.Plain() {
			end -= int64(v.in.Buffered())
		}
		v.report.Places = append(v.report.Places, warc.Place{Offset: v.at, Length: end - v.at})
	}
}

// record reads one record. On error, the position of the next record is unknown.
func (v *validator) record() error {
	rec, err := v.read()
	if err != nil {
		return err
	}
	v.report.Records++
	v.report.Types[rec.Type()]++
	v.report.URLs = append(v.report.URLs, rec.URL())
	if rec.Version != "1.0" && rec.Version != "1.1" {
		v.fault("unknown version %q", rec.Version)
	}
	v.fields(rec)
	if err := v.block(rec); err != nil {
		return err
	}
	var end [4]byte
	if _, err := io.ReadFull(v.in, end[:]); err != nil {
		return unexpected(err)
	}
	if string(end[:]) != "\r\n\r\n" {
		return malformed("block is followed by %q", end)
	}
	return nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("malformed record: "+format, args...)
}

// unexpected makes io.EOF within a record io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// The bounds of a header, which are those of a reader.
const (
	maxHeader = 64 << 10 // bytes
	maxFields = 256
	maxInfo   = 1 << 20 // bytes of a block of fields that are checked
)

// read reads the header of a record, and the empty line after it.
func (v *validator) read() (*warc.Record, error) {
	var lines []string
	strict := true
	for size := 0; ; {
		line, err := v.in.ReadString('\n')
		if size += len(line); size > maxHeader {
			return nil, malformed("more than %d bytes of header", maxHeader)
		}
		if err != nil {
			return nil, unexpected(err)
		}
		text := strings.TrimRight(line, "\r\n")
		if text == "" {
			break
		}
		strict = strict && line == text+"\r\n" && !strings.Contains(text, "\r")
		lines = append(lines, text)
	}
	if !strict {
		v.fault("header line does not end in CRLF")
	}
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "WARC/") || len(lines[0]) > 13 {
		return nil, malformed("first line is %.20q, want a WARC version", lines)
	}
	rec := &warc.Record{Version: lines[0][len("WARC/"):]}
	for _, line := range lines[1:] {
		if n := len(rec.Fields); (line[0] == ' ' || line[0] == '\t') && n > 0 {
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
		rec.Fields = append(rec.Fields, warc.Field{Name: name, Value: strings.TrimSpace(value)})
	}
	size, err := strconv.ParseUint(rec.Fields.Get("Content-Length"), 10, 60)
	if err != nil {
		return nil, malformed("invalid content-length %.40q", rec.Fields.Get("Content-Length"))
	}
	rec.Size = int64(size)
	return rec, nil
}

// isToken reports whether s is an HTTP token, as field names are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", c) })
}

// bare returns a URI without angle brackets around it.
func bare(uri string) string {
	if rest, ok := strings.CutPrefix(uri, "<"); ok && strings.HasSuffix(rest, ">") {
		return strings.TrimSuffix(rest, ">")
	}
	return uri
}

// A rule is the types of records in which a field may stand, and the form of its value. An empty list of
// types means all.
type rule struct {
	only, not []warc.Type
	must      []warc.Type
	check     func(v *validator, rec *warc.Record, value string) bool
}

// The types of section 6 that Parley does not write.
const (
	resource     warc.Type = "resource"
	request      warc.Type = "request"
	conversion   warc.Type = "conversion"
	continuation warc.Type = "continuation"
)

var everyType = []warc.Type{warc.Warcinfo, warc.Response, resource, request, warc.Metadata, warc.Revisit, conversion, continuation}

// rules returns the rule of section 5 of the standard for a field.
func rules(name string) (rule, bool) {
	switch strings.ToLower(name) {
	case "warc-record-id":
		return rule{must: everyType, check: isID}, true
	case "content-length":
		return rule{must: everyType, check: func(_ *validator, _ *warc.Record, s string) bool { return strings.Trim(s, "0123456789") == "" }}, true
	case "warc-date":
		return rule{must: everyType, check: isDate}, true
	case "warc-type":
		return rule{must: everyType, check: func(_ *validator, _ *warc.Record, s string) bool { return isToken(s) }}, true
	case "content-type":
		return rule{check: isMediaType}, true
	case "warc-concurrent-to":
		return rule{only: []warc.Type{warc.Response, resource, request, warc.Metadata, warc.Revisit}, check: isID}, true
	case "warc-block-digest", "warc-payload-digest":
		return rule{check: isDigest}, true
	case "warc-ip-address":
		return rule{only: []warc.Type{warc.Response, resource, request, warc.Metadata, warc.Revisit}, check: isAddress}, true
	case "warc-refers-to":
		return rule{only: []warc.Type{warc.Metadata, warc.Revisit, conversion}, check: isID}, true
	case "warc-refers-to-target-uri":
		return rule{only: []warc.Type{warc.Revisit}, check: isURI}, true
	case "warc-refers-to-date":
		return rule{only: []warc.Type{warc.Revisit}, check: isDate}, true
	case "warc-target-uri":
		return rule{not: []warc.Type{warc.Warcinfo}, must: []warc.Type{warc.Response, resource, request, warc.Revisit, conversion, continuation}, check: isURI}, true
	case "warc-truncated":
		return rule{check: func(_ *validator, _ *warc.Record, s string) bool { return isToken(s) }}, true
	case "warc-warcinfo-id":
		return rule{not: []warc.Type{warc.Warcinfo}, check: isID}, true
	case "warc-filename":
		return rule{only: []warc.Type{warc.Warcinfo}, check: func(_ *validator, _ *warc.Record, s string) bool { return s != "" }}, true
	case "warc-profile":
		return rule{only: []warc.Type{warc.Revisit}, must: []warc.Type{warc.Revisit}, check: isURI}, true
	case "warc-identified-payload-type":
		return rule{check: isMediaType}, true
	case "warc-segment-number":
		return rule{must: []warc.Type{continuation}, check: isSegment}, true
	case "warc-segment-origin-id":
		return rule{only: []warc.Type{continuation}, must: []warc.Type{continuation}, check: isID}, true
	case "warc-segment-total-length":
		return rule{only: []warc.Type{continuation}}, true
	}
	return rule{}, false
}

var ruled = []string{"WARC-Record-ID", "WARC-Date", "WARC-Type", "Content-Length", "WARC-Target-URI", "WARC-Profile", "WARC-Segment-Number", "WARC-Segment-Origin-ID"}

func (v *validator) fields(rec *warc.Record) {
	t, seen := rec.Type(), map[string]bool{}
	for _, f := range rec.Fields {
		name := strings.ToLower(f.Name)
		if !isToken(f.Name) {
			v.fault("invalid field name %.40q", f.Name)
		}
		if seen[name] && name != "warc-concurrent-to" {
			v.fault("%s appears twice", f.Name)
		}
		seen[name] = true
		r, known := rules(name)
		if !known {
			continue // an unknown field, which readers ignore
		}
		if len(r.only) > 0 && !slices.Contains(r.only, t) || slices.Contains(r.not, t) {
			v.fault("%s not allowed in a record of type %q", f.Name, t)
		}
		if r.check != nil && !r.check(v, rec, f.Value) {
			v.fault("invalid %s %.200q", f.Name, f.Value)
		}
	}
	for _, name := range ruled {
		if r, _ := rules(name); slices.Contains(r.must, t) && !seen[strings.ToLower(name)] {
			v.fault("no %s in a record of type %q", name, t)
		}
	}
	if !slices.Contains(everyType, t) {
		v.fault("unknown record type %.40q", t) // readers may ignore it, but no writer uses one
	}
	if rec.Size > 0 && !seen["content-type"] && t != continuation {
		v.fault("no Content-Type")
	}
	id := bare(rec.Fields.Get("WARC-Record-ID"))
	if at, was := v.ids[id]; was {
		v.fault("same id as the record at %d", at)
	}
	v.ids[id] = v.at
	if info := bare(rec.Fields.Get("WARC-Warcinfo-ID")); info != "" {
		if _, ok := v.ids[info]; !ok {
			v.fault("WARC-Warcinfo-ID names no record before it")
		}
	}
}

func isID(v *validator, rec *warc.Record, s string) bool {
	return len(s) > 2 && s[0] == '<' && s[len(s)-1] == '>' && isURI(v, rec, s[1:len(s)-1])
}

// isURI accepts URLs in angle brackets in WARC 1.0.
func isURI(_ *validator, rec *warc.Record, s string) bool {
	if rec.Version == "1.0" {
		s = bare(s)
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && !strings.ContainsAny(s, " <>\"{}|\\^`")
}

func isDate(_ *validator, rec *warc.Record, s string) bool {
	if _, err := time.Parse("2006-01-02T15:04:05Z", s); err != nil {
		return false // Parse takes a fraction that the layout does not have
	}
	i := strings.IndexByte(s, '.')
	return i < 0 || rec.Version != "1.0" && len(s)-i-2 >= 1 && len(s)-i-2 <= 9
}

func isMediaType(_ *validator, _ *warc.Record, s string) bool {
	t, _, _ := strings.Cut(s, ";")
	a, b, ok := strings.Cut(strings.TrimSpace(t), "/")
	return ok && isToken(a) && isToken(b)
}

func isAddress(_ *validator, _ *warc.Record, s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func isSegment(_ *validator, rec *warc.Record, s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && (rec.Type() == continuation && n >= 2 || n == 1)
}

func isDigest(_ *validator, _ *warc.Record, s string) bool {
	algorithm, value, ok := strings.Cut(s, ":")
	return ok && isToken(algorithm) && isToken(value)
}

// A digester computes a digest to compare with the one that a field claims.
type digester struct {
	hash.Hash
	claim string
}

// newDigester returns nil for an algorithm that it does not know.
func newDigester(claim string) *digester {
	algorithm, value, _ := strings.Cut(claim, ":")
	switch strings.ReplaceAll(strings.ToLower(algorithm), "-", "") {
	case "md5":
		return &digester{md5.New(), value}
	case "sha1":
		return &digester{sha1.New(), value}
	case "sha256":
		return &digester{sha256.New(), value}
	}
	return nil
}

func (d *digester) ok() bool {
	sum := d.Sum(nil)
	return strings.EqualFold(d.claim, hex.EncodeToString(sum)) ||
		strings.EqualFold(strings.TrimRight(d.claim, "="), base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum))
}

// block reads the block of a record.
func (v *validator) block(rec *warc.Record) error {
	whole := io.LimitReader(v.in, rec.Size)
	count := &counted{r: whole}
	var body io.Reader = count
	var all *digester
	if claim := rec.Fields.Get("WARC-Block-Digest"); claim != "" {
		if all = newDigester(claim); all != nil {
			body = io.TeeReader(count, all)
		}
	}
	mediaType, _, _ := strings.Cut(rec.Fields.Get("Content-Type"), ";")
	switch {
	case rec.Type() == warc.Warcinfo || strings.TrimSpace(mediaType) == "application/warc-fields":
		b, err := io.ReadAll(io.LimitReader(body, maxInfo))
		if err != nil {
			return err
		}
		v.lines(b)
	case (rec.Type() == warc.Response || rec.Type() == warc.Revisit) && strings.TrimSpace(mediaType) == "application/http" && rec.Size > 0:
		if err := v.message(rec, body); err != nil {
			return err
		}
	case rec.Type() == warc.Response && strings.HasPrefix(rec.URL(), "http"):
		v.fault("HTTP response has Content-Type %q, want application/http", mediaType)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if count.n < rec.Size {
		return io.ErrUnexpectedEOF
	}
	if all != nil && !all.ok() {
		v.fault("WARC-Block-Digest does not match the block")
	}
	return nil
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// lines checks a block of application/warc-fields.
func (v *validator) lines(b []byte) {
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		if len(line) == 0 || line[0] == ' ' || line[0] == '\t' || len(line) == 1 && line[0] == '\r' {
			continue
		}
		name, _, ok := strings.Cut(string(line), ":")
		if !ok || !isToken(name) || line[len(line)-1] != '\r' {
			v.fault("malformed field %.80q in the block", line)
		}
	}
}

// message checks an HTTP response, and computes the digest of its payload.
func (v *validator) message(rec *warc.Record, body io.Reader) error {
	m, err := warc.ReadMessage(body)
	if err != nil {
		v.fault("not an HTTP response: %v", err)
		return nil
	}
	if m.Status < 100 || m.Status > 599 {
		v.fault("invalid status %d", m.Status)
	}
	claim := rec.Fields.Get("WARC-Payload-Digest")
	if rec.Type() == warc.Revisit {
		v.revisit(rec, m, claim)
		return nil
	}
	payload := &counted{r: m.Body}
	src := io.Reader(payload)
	chunked := strings.EqualFold(m.Header.Get("Transfer-Encoding"), "chunked")
	if chunked {
		src = httputil.NewChunkedReader(bufio.NewReader(payload))
	}
	d := newDigester(claim)
	if d != nil {
		_, err = io.Copy(d, src)
	} else {
		_, err = io.Copy(io.Discard, src)
	}
	cut := rec.Fields.Get("WARC-Truncated") != ""
	if err != nil && !cut {
		v.fault("payload: %v", err)
		return nil
	}
	if d != nil && !d.ok() {
		v.fault("WARC-Payload-Digest does not match the payload")
	}
	if length := m.Header.Get("Content-Length"); length != "" && !chunked && !cut && length != strconv.FormatInt(payload.n, 10) {
		v.fault("content-length %.20q, but the body has %d bytes", length, payload.n)
	}
	v.digests[rec.URL()+" "+rec.Fields.Get("WARC-Date")] = claim
	return nil
}

func (v *validator) revisit(rec *warc.Record, m *warc.Message, claim string) {
	switch profile := rec.Fields.Get("WARC-Profile"); {
	case strings.HasSuffix(profile, "/revisit/identical-payload-digest"):
		if claim == "" {
			v.fault("no WARC-Payload-Digest")
		}
		if rec.Fields.Get("WARC-Truncated") != "length" {
			v.fault("body omitted, but WARC-Truncated is not length")
		}
	case strings.HasSuffix(profile, "/revisit/server-not-modified"):
		if m.Status != http.StatusNotModified {
			v.fault("revisit is not-modified, but its status is %d", m.Status)
		}
	default:
		v.fault("unknown WARC-Profile %.100q", profile)
	}
	if was, ok := v.digests[rec.Fields.Get("WARC-Refers-To-Target-URI")+" "+rec.Fields.Get("WARC-Refers-To-Date")]; ok && claim != "" && was != claim {
		v.fault("WARC-Payload-Digest differs from the original's")
	}
}
