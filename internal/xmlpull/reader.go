// Package xmlpull reads untrusted XML: a pull reader that is streaming, namespace-aware, strict about
// well-formedness, and bounded in everything. Manifests, sitemaps and feeds are read with it.
//
// It reads XML 1.0 in UTF-8 without a document type: a DOCTYPE, another declared encoding and UTF-16 are
// rejected. Names follow the fifth edition, and Namespaces in XML 1.0 is enforced. Comments and processing
// instructions are checked and skipped.
//
// encoding/xml takes several times as long, allocates for every token, accepts
// much that is not XML, and has no limits; that is why this package exists.
package xmlpull

import "io"

// A Kind is the kind of a token.
type Kind uint8

const (
	Start Kind = iota + 1 // an element begins; an empty element gives Start and End
	End                   // an element ends
	Text                  // a piece of text, entities resolved; an element's text may come in several
)

// A Reader reads one document. Byte slices it returns are valid until the next call of Next, Content, Skip or
// Element. It is not safe for concurrent use.
type Reader struct {
	in    input
	open  elements
	attrs attributes
	err   error // final, io.EOF included

	kind  Kind // of the current token, 0 before it is complete
	begun bool // the byte order mark and the XML declaration are consumed
	empty bool // the current Start is an empty-element tag: its End comes next
	cdata bool // inside a CDATA section

	text    []byte // of the current Text token
	scratch []byte // a text that is not as in the document
	run     int    // bytes of text since the last tag
}

// NewReader returns a Reader of the document in r. It reads ahead.
func NewReader(r io.Reader, l Limits) *Reader {
	l = l.withDefaults()
	return &Reader{
		in:   input{src: r, lim: l, left: l.Bytes, buf: make([]byte, bufferSize)},
		open: elements{bound: []binding{{prefix: []byte("xml"), space: []byte(xmlSpace)}}},
	}
}

// Next moves to the next token. After the end of the document it returns io.EOF; errors are final. Errors of
// well-formedness are *SyntaxError; limits wrap ErrLimit; those of the reader below are returned as they are.
func (r *Reader) Next() (Kind, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.kind == End {
		r.open.leave()
	}
	r.attrs.list = r.attrs.list[:0]
	if r.empty {
		r.empty, r.kind = false, End
		return End, nil
	}
	in := &r.in
	r.kind = 0
	for {
		var err error
		switch {
		case r.cdata:
			err = r.cdataPiece()
		case len(r.open.stack) == 0:
			err = r.outside()
		case !in.need(2):
			err = r.cutShort()
		case in.buf[in.pos] != '<':
			err = r.charData()
		case in.buf[in.pos+1] == '/':
			err = r.endTag()
		default:
			err = r.markup()
		}
		if err != nil {
			return 0, r.stop(err)
		}
		if r.kind != 0 {
			return r.kind, nil
		}
	}
}

// Tag moves to the next Start or End, as Next does that skips Text.
func (r *Reader) Tag() (Kind, error) {
	for {
		r.indent()
		if k, err := r.Next(); k != Text {
			return k, err
		}
	}
}

// indent skips white space before a tag, which needs no closer look.
func (r *Reader) indent() {
	in := &r.in
	if r.err != nil || r.empty || r.cdata || r.run > 0 || len(r.open.stack) == 0 {
		return
	}
	i := in.pos
	for i < in.end && (in.buf[i] == ' ' || in.buf[i] == '\n' || in.buf[i] == '\t') {
		i++
	}
	if i+1 < in.end && i-in.pos <= in.lim.Text && in.buf[i] == '<' && in.buf[i+1] != '!' && in.buf[i+1] != '?' {
		in.pos = i
	}
}

// cutShort returns the error for a document that ends inside an element.
func (r *Reader) cutShort() error {
	if in := &r.in; len(in.window()) > 0 && in.buf[in.pos] == '<' {
		return in.ended("inside a tag")
	}
	return r.in.ended("inside an element")
}

// stop makes err final.
func (r *Reader) stop(err error) error {
	r.err, r.kind, r.text, r.attrs.list = err, 0, nil, nil
	return err
}

// Space returns the namespace of the element of the current Start or End token, or of the element around the
// current Text. It is empty for none.
func (r *Reader) Space() []byte {
	if len(r.open.stack) == 0 {
		return nil
	}
	return r.open.stack[len(r.open.stack)-1].space
}

// Local returns the name, without prefix, of the same element as Space.
func (r *Reader) Local() []byte {
	if len(r.open.stack) == 0 {
		return nil
	}
	f := &r.open.stack[len(r.open.stack)-1]
	return r.open.names[f.local:f.end]
}

// Is reports whether the current element is {space}local.
func (r *Reader) Is(space, local string) bool {
	return string(r.Local()) == local && string(r.Space()) == space
}

// Attr returns an attribute's value on a Start token. An unprefixed attribute has the space "". Namespace
// declarations are not attributes here.
func (r *Reader) Attr(space, local string) ([]byte, bool) {
	for i := range r.attrs.list {
		a := &r.attrs.list[i]
		if string(a.local) == local && string(a.space) == space {
			return a.value, true
		}
	}
	return nil, false
}

// Text returns the text of the current Text token, which Next must have returned. A piece may be arbitrarily small: readers of text must
// collect the pieces.
func (r *Reader) Text() []byte { return r.text }

// Offset returns the number of bytes consumed.
func (r *Reader) Offset() int64 { return r.in.offset() }

// Line returns the current line, from 1. It counts line feeds from the beginning of the buffer, so it is for
// errors and not for every token.
func (r *Reader) Line() int { return r.in.line() }
