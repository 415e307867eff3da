package warc

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A Capture is a response to be archived.
type Capture struct {
	URL    string
	Date   time.Time // of the request
	IP     netip.Addr
	Proto  string // "HTTP/1.1", "HTTP/2.0"
	Status int
	Header http.Header // it is not changed
	Body   []byte      // without codings
	Cut    bool        // Body is truncated at a limit

	// Digest is the SHA-256 of Body, which the caller knows.
	Digest [32]byte

	Type string // media type, for the index

	// Of is the capture that this one repeats, for a Revisit.
	Of *Original
}

// An Original is the record with the content that a revisit found unchanged.
type Original struct {
	URL    string
	Date   time.Time // zero: unknown; then neither it nor the URL is written
	Digest [32]byte
	Place  Place
}

// start begins the header of a record.
func (w *Writer) start(t Type, date time.Time, id, url string) []byte {
	b := append(w.plain[:0], "WARC/1.1\r\nWARC-Type: "...)
	b = append(b, t...)
	b = append(b, "\r\nWARC-Record-ID: "...)
	b = append(b, id...)
	b = append(b, "\r\nWARC-Date: "...)
	b = date.UTC().AppendFormat(b, dateLayout)
	b = append(b, crlf...)
	if t != Warcinfo {
		b = appendField(b, "WARC-Warcinfo-ID", w.info)
	}
	if url != "" {
		b = appendField(b, "WARC-Target-URI", url)
	}
	return b
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(appendValue(b, value), crlf...)
}

// finish writes a record whose header begins with b, and whose block is head and body.
func (w *Writer) finish(b []byte, mediaType string, head, body []byte) (Place, error) {
	if mediaType != "" {
		b = appendField(b, "Content-Type", mediaType)
	}
	if w.opts.BlockDigest {
		h := sha256.New()
		h.Write(head)
		h.Write(body)
		b = append(b, "WARC-Block-Digest: "...)
		b = append(appendDigest(b, [32]byte(h.Sum(nil))), crlf...)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(head)+len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	w.plain = b
	at := len(w.buf)
	p := Place{File: w.name, Offset: w.size}
	var err error
	switch {
	case w.pack != nil:
		w.plain = append(append(append(b, head...), body...), "\r\n\r\n"...)
		w.buf = w.pack.Append(w.buf, w.plain)
		p.Length = int64(len(w.buf) - at)
	case len(body) < flushAt:
		w.buf = append(append(append(append(w.buf, b...), head...), body...), "\r\n\r\n"...)
		p.Length = int64(len(w.buf) - at)
	default: // a large body is not copied
		w.buf = append(append(w.buf, b...), head...)
		p.Length = int64(len(w.buf)-at) + int64(len(body)) + 4
		if err = w.write(); err == nil {
			_, err = w.file.Write(body)
			w.err = err
		}
		w.buf = append(w.buf, "\r\n\r\n"...)
	}
	w.size += p.Length
	w.records++
	if err == nil && len(w.buf) >= flushAt {
		err = w.write()
	}
	if cap(w.plain) > maxKept {
		w.plain = nil
	}
	if len(w.buf) == 0 && cap(w.buf) > maxKept {
		w.buf = nil
	}
	return p, err
}

// maxKept bounds the buffer that is reused for the next record.
const maxKept = 1 << 20

// Response archives a response. It is durable after the next Sync.
func (w *Writer) Response(c *Capture) (Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.begin(); err != nil {
		return Place{}, w.fail("write", err)
	}
	b := w.start(Response, c.Date, w.id(), c.URL)
	b = w.capture(b, c)
	b = append(b, "WARC-Payload-Digest: "...)
	b = append(appendDigest(b, c.Digest), crlf...)
	if c.Cut {
		b = append(b, "WARC-Truncated: length\r\n"...)
	}
	var head []byte
	var room [2 << 10]byte
	head, w.keys = appendHead(room[:0], c.Proto, c.Status, c.Header, len(c.Body), w.keys)
	p, err := w.finish(b, "application/http;msgtype=response", head, c.Body)
	if err != nil {
		return Place{}, w.fail("write", err)
	}
	w.lines = appendLine(w.lines, &Entry{URL: c.URL, Date: c.Date, Type: c.Type, Status: c.Status, Digest: c.Digest, Place: p})
	return p, nil
}

// capture appends the fields that all records of responses have.
func (w *Writer) capture(b []byte, c *Capture) []byte {
	if c.IP.IsValid() {
		b = appendField(b, "WARC-IP-Address", c.IP.Unmap().WithZone("").String())
	}
	if strings.HasPrefix(c.Proto, "HTTP/2") {
		b = append(b, "WARC-Protocol: h2\r\n"...)
	}
	return b
}

// Revisit archives that a response had nothing new: a status of 304, or a body with the digest of the
// Original. It is durable after the next Sync.
func (w *Writer) Revisit(c *Capture) (Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.begin(); err != nil {
		return Place{}, w.fail("write", err)
	}
	b := w.start(Revisit, c.Date, w.id(), c.URL)
	b = w.capture(b, c)
	notModified := c.Status == http.StatusNotModified
	if notModified {
		b = appendField(b, "WARC-Profile", profileNotModified)
	} else {
		b = appendField(b, "WARC-Profile", profileDigest)
	}
	if !c.Of.Date.IsZero() {
		b = appendField(b, "WARC-Refers-To-Target-URI", c.Of.URL)
		b = append(b, "WARC-Refers-To-Date: "...)
		b = append(c.Of.Date.UTC().AppendFormat(b, dateLayout), crlf...)
	}
	b = append(b, "WARC-Payload-Digest: "...)
	b = append(appendDigest(b, c.Of.Digest), crlf...)
	if !notModified {
		b = append(b, "WARC-Truncated: length\r\n"...) // section 6.7.2: the body was left out
	}
	var head []byte
	var room [2 << 10]byte
	head, w.keys = appendHead(room[:0], c.Proto, c.Status, c.Header, -1, w.keys)
	p, err := w.finish(b, "application/http;msgtype=response", head, nil)
	if err != nil {
		return Place{}, w.fail("write", err)
	}
	w.lines = appendLine(w.lines, &Entry{URL: c.URL, Date: c.Date, Type: revisitType, Status: c.Status, Digest: c.Of.Digest, Place: p, Of: c.Of.Place})
	return p, nil
}

// Metadata archives fields about a URL. It is durable after the next Sync.
func (w *Writer) Metadata(url string, date time.Time, fields []Field) (Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.begin(); err != nil {
		return Place{}, w.fail("write", err)
	}
	var body []byte
	for _, f := range fields {
		if isToken(f.Name) {
			body = appendField(body, f.Name, f.Value)
		}
	}
	b := w.start(Metadata, date, w.id(), url)
	p, err := w.finish(b, "application/warc-fields", body, nil)
	if err != nil {
		return Place{}, w.fail("write", err)
	}
	return p, nil
}
