package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// Limits bound a Reader. Zero means the default beside each.
type Limits struct {
	Page    int64 // bytes of one page: 64 MiB. A larger one is skipped
	Total   int64 // bytes of all records without their coding: 4 GiB
	Changes int   // 100,000
}

const (
	defaultPage    = 64 << 20
	defaultTotal   = 4 << 30
	defaultChanges = 100_000

	maxInfo   = 64 << 10             // bytes of the block of a first or last record
	maxChange = 64 * protocol.MaxURL // bytes of a change in JSON; nothing in it is longer than a few URLs
	maxHead   = 64 << 10             // bytes of the head of a response
)

// errMalformed is wrapped by errors of a Reader for a stream that is invalid, or larger than its Limits.
var errMalformed = errors.New("malformed bundle")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// A Reader reads an untrusted stream, with one page in memory at a time. It is not safe for concurrent use.
type Reader struct {
	Head Head

	// Refused counts pages that were delivered but skipped: those whose digest is not that of their change,
	// or not stated there, and those that are too large.
	Refused int

	records *warc.Reader
	limits  Limits
	total   int64
	seen    int // records
	next    *warc.Record
	err     error
	said    []byte // the block of the current change
	changes int
	pages   int // that were delivered, refused or not
	last    uint64
}

// NewReader reads the beginning of a stream. Close the Reader when done.
func NewReader(r io.Reader, l Limits) (*Reader, error) {
	if l.Page <= 0 {
		l.Page = defaultPage
	}
	if l.Total <= 0 {
		l.Total = defaultTotal
	}
	if l.Changes <= 0 {
		l.Changes = defaultChanges
	}
	b := &Reader{records: warc.NewReader(onlyReader{r}), limits: l}
	if err := b.begin(); err != nil {
		b.Close()
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	return b, nil
}

// onlyReader hides that a source can seek: damage is final here.
type onlyReader struct{ io.Reader }

// Close frees the decoders. It does not close the source.
func (r *Reader) Close() { r.records.Close() }

func (r *Reader) begin() error {
	rec, err := r.record()
	if err != nil {
		return whole(err)
	}
	if rec.Type() != warc.Warcinfo {
		return malformed("first record is of type %.40q, want warcinfo", rec.Type())
	}
	info, err := r.info(rec)
	if err != nil {
		return err
	}
	if r.Head.From, err = protocol.ParseCursor(info.Get(fieldFrom)); err != nil {
		return malformed("%s: %v", fieldFrom, err)
	}
	if r.Head.To, err = protocol.ParseCursor(info.Get(fieldTo)); err != nil {
		return malformed("%s: %v", fieldTo, err)
	}
	if from, to := r.Head.From, r.Head.To; to.IsZero() || !from.IsZero() && (from.Epoch != to.Epoch || from.Seq > to.Seq) {
		return malformed("from %v to %v", from, to)
	}
	n, err := strconv.ParseUint(info.Get(fieldChanges), 10, 31)
	if err != nil {
		return malformed("%s %.40q", fieldChanges, info.Get(fieldChanges))
	}
	if int(n) > r.limits.Changes {
		return malformed("%d changes, more than %d", n, r.limits.Changes)
	}
	r.Head.Changes, r.Head.At = int(n), rec.Date()
	r.last = r.Head.From.Seq
	return nil
}

// record returns the next record, within the limits.
func (r *Reader) record() (*warc.Record, error) {
	if rec := r.next; rec != nil {
		r.next = nil
		return rec, nil
	}
	rec, err := r.records.Next()
	if err != nil {
		return nil, err
	}
	r.total += rec.Size
	if r.total > r.limits.Total {
		return nil, malformed("more than %d bytes", r.limits.Total)
	}
	// A first and a last record, two for each change, and as many others.
	if r.seen++; r.seen > 4*r.limits.Changes+16 {
		return nil, malformed("more than %d records", r.seen-1)
	}
	return rec, nil
}

// whole makes an io.EOF before the end of the stream io.ErrUnexpectedEOF.
func whole(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *Reader) info(rec *warc.Record) (warc.Fields, error) {
	if rec.Size > maxInfo {
		return nil, malformed("warcinfo record of %d bytes is too large", rec.Size)
	}
	b, err := io.ReadAll(rec.Body)
	return warc.ParseInfo(b), whole(err)
}

// Pages yields the contents of the stream, once. An error is yielded last: for a truncated stream it wraps
// io.ErrUnexpectedEOF, and comes after everything that was complete.
func (r *Reader) Pages() iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for r.err == nil {
			p, err := r.page()
			if r.err = err; err != nil {
				break
			}
			if !yield(p, nil) {
				return
			}
		}
		if r.err != io.EOF {
			yield(Page{}, fmt.Errorf("read bundle after %d of %d changes: %w", r.changes, r.Head.Changes, r.err))
		}
	}
}

// page reads a change and the page that follows it. It returns io.EOF after the last.
func (r *Reader) page() (Page, error) {
	for {
		rec, err := r.record()
		if err != nil {
			return Page{}, whole(err)
		}
		if rec.Type() != warc.Metadata {
			continue
		}
		switch rec.Fields.Get("Content-Type") {
		case warc.InfoType:
			return Page{}, r.end(rec)
		case changeType:
			var p Page
			if p.Change, err = r.change(rec); err != nil {
				return Page{}, err
			}
			if p.Body, err = r.body(&p.Change); err != nil {
				return Page{}, err
			}
			r.changes++
			return p, nil
		}
	}
}

func (r *Reader) change(rec *warc.Record) (protocol.Change, error) {
	if rec.Size > maxChange {
		return protocol.Change{}, malformed("change of %d bytes is too large", rec.Size)
	}
	r.said = slices.Grow(r.said[:0], int(rec.Size))[:rec.Size]
	if _, err := io.ReadFull(rec.Body, r.said); err != nil {
		return protocol.Change{}, whole(err)
	}
	m, err := protocol.ParseMessage(r.said)
	if err != nil {
		return protocol.Change{}, malformed("%v", err)
	}
	if m.Kind != protocol.Ev {
		return protocol.Change{}, malformed("message of kind %.40q, want a change", m.Kind)
	}
	c := m.Changes[0]
	switch {
	case r.changes == r.Head.Changes:
		return c, malformed("more changes than the %d announced", r.Head.Changes)
	case m.To.Epoch != r.Head.To.Epoch || c.Seq < r.last || c.Seq > r.Head.To.Seq || c.Seq == r.Head.From.Seq && !r.Head.From.IsZero():
		return c, malformed("change %d of %s out of order, from %v to %v", c.Seq, m.To.Epoch, r.Head.From, r.Head.To)
	}
	r.last = c.Seq
	return c, nil
}

// body reads the page that follows a change, nil if there is none that is valid.
func (r *Reader) body(c *protocol.Change) ([]byte, error) {
	for {
		rec, err := r.record()
		if err != nil {
			return nil, whole(err)
		}
		switch rec.Type() {
		case warc.Metadata:
			r.next = rec
			return nil, nil
		case warc.Response:
		default:
			continue
		}
		if rec.URL() != c.Item.URL {
			return nil, malformed("page %.200q follows the change of another URL, %.200q", rec.URL(), c.Item.URL)
		}
		r.pages++
		if rec.Size > r.limits.Page+maxHead {
			r.Refused++
			return nil, whole(r.records.Skip())
		}
		block, err := readBlock(rec)
		if err != nil {
			return nil, err
		}
		// The record is whole only if its end is there, and its checksum is right.
		if err := r.records.Skip(); err != nil {
			return nil, whole(err)
		}
		body, err := answer(block)
		if err != nil {
			return nil, err
		}
		if int64(len(body)) > r.limits.Page || c.Item.Digest.IsZero() || c.Op == protocol.Delete || protocol.Sum(body) != c.Item.Digest {
			r.Refused++
			return nil, nil
		}
		return body, nil
	}
}

// readBlock reads a block, in memory that grows with the bytes received.
func readBlock(rec *warc.Record) ([]byte, error) {
	const atOnce = 1 << 20
	if rec.Size <= atOnce {
		b := make([]byte, rec.Size)
		_, err := io.ReadFull(rec.Body, b)
		return b, whole(err)
	}
	var b bytes.Buffer
	b.Grow(atOnce)
	_, err := b.ReadFrom(rec.Body)
	return b.Bytes(), whole(err)
}

// answer returns the body of a response of status 200.
func answer(block []byte) ([]byte, error) {
	head, _, ok := bytes.Cut(block[:min(len(block), maxHead)], []byte("\r\n\r\n"))
	if !ok {
		return nil, malformed("response header does not end")
	}
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	proto, status, _ := bytes.Cut(line, []byte(" "))
	if !bytes.HasPrefix(proto, []byte("HTTP/")) || !bytes.HasPrefix(status, []byte("200")) {
		return nil, malformed("status line %.60q, want HTTP with status 200", line)
	}
	return block[len(head)+4 : len(block) : len(block)], nil
}

// end reads the last record, and returns io.EOF if its counts match.
func (r *Reader) end(rec *warc.Record) error {
	info, err := r.info(rec)
	if err != nil {
		return err
	}
	if n := info.Get(fieldChanges); n != strconv.Itoa(r.Head.Changes) || r.changes != r.Head.Changes {
		return malformed("ends after %d changes, last record says %.40q", r.changes, n)
	}
	if n := info.Get(fieldPages); n != strconv.Itoa(r.pages) {
		return malformed("ends after %d pages, last record says %.40q", r.pages, n)
	}
	switch _, err := r.records.Next(); err {
	case io.EOF:
		return io.EOF
	case nil:
		return malformed("data after the last record")
	default:
		return whole(err)
	}
}
