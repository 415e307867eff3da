package warc

import (
	"net/http"
	"net/netip"
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

	// Authorized: the request had cookies or a client certificate. Its records say so, in a field of our own: see Record.Authorized.
	Authorized bool

	// Request is the head of the request in the form of HTTP/1.1, for a Request record after this one; empty writes none.
	Request []byte

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

// Response archives a response. It is durable after the next Sync.
func (w *Writer) Response(c *Capture) (Place, error) {
	return w.capture(Response, c, &Entry{URL: c.URL, Date: c.Date, Type: c.Type, Status: c.Status, Digest: c.Digest})
}

// Revisit archives that a response had nothing new: a status of 304, or a body with the digest of the
// Original. It is durable after the next Sync.
func (w *Writer) Revisit(c *Capture) (Place, error) {
	return w.capture(Revisit, c, &Entry{URL: c.URL, Date: c.Date, Type: revisitType, Status: c.Status, Digest: c.Of.Digest, Of: c.Of.Place})
}

// capture archives a response as a record of a type, and the entry for the index.
func (w *Writer) capture(t Type, c *Capture, entry *Entry) (p Place, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.begin(); err != nil {
		return Place{}, w.fail("write", err)
	}
	id, request := w.enc.id(), ""
	if len(c.Request) > 0 {
		request = w.enc.id()
	}
	b := w.about(t, c, id, request)
	body, length, cut := c.Body, len(c.Body), c.Cut
	if t == Revisit {
		profile := profileDigest
		if cut = c.Status != http.StatusNotModified; !cut { // else section 6.7.2: the body is left out
			profile = profileNotModified
		}
		b = appendField(b, "WARC-Profile", profile)
		if !c.Of.Date.IsZero() {
			b = appendField(b, "WARC-Refers-To-Target-URI", c.Of.URL)
			b = appendDate(b, "WARC-Refers-To-Date: ", c.Of.Date)
		}
		body, length = nil, -1
	}
	b = append(b, "WARC-Payload-Digest: "...)
	b = append(appendDigest(b, entry.Digest), crlf...)
	if cut {
		b = append(b, "WARC-Truncated: length\r\n"...)
	}
	var head []byte
	var room [2 << 10]byte
	head, w.enc.keys = appendHead(room[:0], c.Proto, c.Status, c.Header, length, w.enc.keys)
	if entry.Place, err = w.file.add(&w.enc, b, AnswerType, head, body); err != nil {
		return Place{}, w.fail("write", err)
	}
	w.file.lines = AppendEntry(w.file.lines, entry)
	if request != "" {
		if _, err := w.file.add(&w.enc, w.about(Request, c, request, id), requestType, c.Request, nil); err != nil {
			return Place{}, w.fail("write", err)
		}
	}
	return entry.Place, nil
}

// about begins the header of a record with the fields that a response and its request have both. other is the id of the other one,
// empty if there is none.
func (w *Writer) about(t Type, c *Capture, id, other string) []byte {
	b := appendField(w.enc.start(t, c.Date, id), "WARC-Warcinfo-ID", w.file.info)
	if c.URL != "" {
		b = appendField(b, "WARC-Target-URI", c.URL)
	}
	if c.IP.IsValid() {
		b = appendField(b, "WARC-IP-Address", c.IP.Unmap().WithZone("").String())
	}
	if strings.HasPrefix(c.Proto, "HTTP/2") {
		b = append(b, "WARC-Protocol: h2\r\n"...)
	}
	if other != "" {
		b = appendField(b, "WARC-Concurrent-To", other)
	}
	if c.Authorized {
		b = appendField(b, authorizedField, "yes")
	}
	return b
}
