package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// A Coding is how a stream is compressed.
type Coding string

const (
	// Gzip makes each record a gzip member of its own. It is the coding for streams that are stored, or read
	// by other tools.
	Gzip Coding = "gzip"

	// Zstd packs many records into one Zstandard frame, which takes a third of the time and half of the bytes
	// if pages are small. It is for transport only: as a content coding, around a plain WARC file.
	Zstd Coding = "zstd"

	// Plain is a plain WARC file. It is for readers on the same machine, where bytes cost less than
	// compression.
	Plain Coding = "identity"
)

// A Packer encodes the records of changes. It is for one goroutine; many Packers can pack for one Writer. The
// same changes and pages always give the same bytes.
type Packer struct {
	press *warc.Press
	seal  *coding.Packer // nil: the press has done it
	head  []byte
}

// NewPacker returns a Packer.
func NewPacker(c Coding) *Packer {
	p := &Packer{}
	var err error
	switch c {
	case Plain:
		p.press, err = warc.NewPress("")
	case Zstd:
		p.press, err = warc.NewPress("")
		if err == nil {
			p.seal, err = coding.NewPacker(string(c))
		}
	default:
		p.press, err = warc.NewPress(string(c))
	}
	if err != nil {
		panic("bundle: " + err.Error()) // no other codings exist
	}
	return p
}

// Seal appends to dst the input of Writer.AddPacked, made of the output of Append for one or many changes. It
// retains nothing.
func (p *Packer) Seal(dst, records []byte) []byte {
	if p.seal == nil || len(records) == 0 {
		return append(dst, records...)
	}
	return p.seal.Append(dst, records)
}

// Append appends the records of a change, and of its page if that is not nil, to dst, and returns where in it
// the record of the page begins: its end if there is none. The epoch is that of the stream's cursors. It
// retains nothing.
func (p *Packer) Append(dst []byte, epoch string, c *protocol.Change, page []byte) (records []byte, at int) {
	m := protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: epoch, Seq: c.Seq}, Changes: []protocol.Change{*c}}
	said := m.Encode()
	name, date := sha256.Sum256(said), dateOf(c)
	dst = p.press.Append(dst, &warc.Draft{Type: warc.Metadata, Name: name, Date: date, URL: c.Item.URL,
		MediaType: changeType, Body: said})
	if at = len(dst); page == nil {
		return dst, at
	}
	var known [2]warc.Field
	fields := warc.Fields(known[:0])
	if c.Item.Type != "" {
		fields = append(fields, warc.Field{Name: "Content-Type", Value: c.Item.Type})
	}
	if t := c.Item.Modified; !t.IsZero() && c.Item.Span == 0 {
		fields = append(fields, warc.Field{Name: "Last-Modified", Value: t.UTC().Format(http.TimeFormat)})
	}
	p.head = warc.AppendAnswer(p.head[:0], fields, len(page))
	name[0] ^= 0xff // another name, derived from that of the change
	return p.press.Append(dst, &warc.Draft{Type: warc.Response, Name: name, Date: date, URL: c.Item.URL,
		MediaType: warc.AnswerType, Head: p.head, Body: page, Digest: c.Item.Digest}), at
}

// dateOf returns when the site learned of a change.
func dateOf(c *protocol.Change) time.Time {
	switch {
	case !c.At.IsZero():
		return c.At
	case !c.Item.Modified.IsZero():
		return c.Item.Modified
	}
	return time.Unix(0, 0)
}

// nameOf derives the name of a record from its content.
func nameOf(kind byte, said []byte) [32]byte {
	return sha256.Sum256(append([]byte{kind}, said...))
}

// A Writer writes a stream. It holds one change with its page at a time, and is not safe for concurrent use.
type Writer struct {
	w              io.Writer
	head           Head
	packer         *Packer
	buf            []byte
	changes, pages int
	written        int64
	err            error
}

// Offset returns where in the stream the next record begins.
func (w *Writer) Offset() int64 { return w.written + int64(len(w.buf)) }

// NewWriter begins a stream. The first record is written together with the next one.
func NewWriter(w io.Writer, h Head, c Coding) *Writer {
	if h.At.IsZero() {
		h.At = time.Unix(0, 0)
	}
	out := &Writer{w: w, head: h, packer: NewPacker(c)}
	b := warc.AppendInfo(nil, warc.Fields{{Name: "format", Value: "WARC File Format 1.1"}, {Name: "software", Value: "Parley"},
		{Name: fieldFrom, Value: h.From.String()}, {Name: fieldTo, Value: h.To.String()}, {Name: fieldChanges, Value: strconv.Itoa(h.Changes)}})
	id := binary.BigEndian.AppendUint64(bytes.Clone(b), uint64(h.At.UnixMilli()))
	out.buf = out.packer.Seal(nil, out.packer.press.Append(nil, &warc.Draft{Type: warc.Warcinfo, Name: nameOf('i', id), Date: h.At, MediaType: warc.InfoType, Body: b}))
	return out
}

// AddPacked writes the output of Seal, with its number of changes and of pages.
func (w *Writer) AddPacked(records []byte, changes, pages int) error {
	if w.err != nil {
		return w.err
	}
	w.changes += changes
	w.pages += pages
	if len(w.buf) > 0 {
		w.write(w.buf)
		w.buf = nil
	}
	w.write(records)
	return w.err
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	w.written += int64(len(b))
	if _, err := w.w.Write(b); err != nil {
		w.err = fmt.Errorf("write bundle: %w", err)
	}
}

var errNumber = errors.New("not the number announced in the head")

// Close ends the stream. It does not close what the Writer writes to.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.changes != w.head.Changes {
		w.err = fmt.Errorf("write bundle: %d changes: %w", w.changes, errNumber)
		return w.err
	}
	b := warc.AppendInfo(nil, warc.Fields{{Name: fieldChanges, Value: strconv.Itoa(w.changes)}, {Name: fieldPages, Value: strconv.Itoa(w.pages)}})
	id := append(append(bytes.Clone(b), w.head.From.String()...), w.head.To.String()...)
	id = binary.BigEndian.AppendUint64(id, uint64(w.head.At.UnixMilli()))
	end := w.packer.press.Append(nil, &warc.Draft{Type: warc.Metadata, Name: nameOf('e', id), Date: w.head.At, MediaType: warc.InfoType, Body: b})
	if err := w.AddPacked(w.packer.Seal(nil, end), 0, 0); err != nil {
		return err
	}
	w.err = errClosed
	return nil
}

var errClosed = errors.New("write bundle: already closed")
