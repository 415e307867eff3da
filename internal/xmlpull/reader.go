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
	input
	lim Limits
	err error // final, io.EOF included

	kind    Kind
	begun   bool // the byte order mark and the XML declaration are consumed
	rooted  bool // the root element was seen
	empty   bool // the current Start is an empty-element tag: its End comes next
	leaving bool // the current End's element is still on the stack
	cdata   bool // inside a CDATA section
	ascii   bool // declared as US-ASCII
	run     int  // bytes of text since the last tag

	text    []byte // of the current Text token
	scratch []byte // rewritten texts and attribute values

	stack   []frame
	names   []byte // the names of the elements on the stack, as written
	bound   []binding
	uris    []byte // the namespaces of bound
	attrs   []attr
	written []rendered // only within Element
}

// A frame is an open element.
type frame struct {
	name   int    // where its name begins in Reader.names
	prefix int    // length of its prefix, 0 without one
	space  []byte // its namespace
	bound  int    // len(Reader.bound) outside of it
	uris   int    // len(Reader.uris) outside of it
	end    int    // end of its name in Reader.names
}

// NewReader returns a Reader of the document in r. It reads ahead.
func NewReader(r io.Reader, l Limits) *Reader {
	l = l.withDefaults()
	return &Reader{
		input: input{src: r, left: l.Bytes, buf: make([]byte, bufferSize)},
		lim:   l,
		bound: []binding{{prefix: []byte("xml"), space: []byte(xmlSpace)}},
	}
}

// Next moves to the next token. After the end of the document it returns io.EOF; errors are final. Errors of
// well-formedness are *SyntaxError; limits wrap ErrLimit; those of the reader below are returned as they are.
func (r *Reader) Next() (Kind, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.leaving {
		r.leave()
	}
	if r.empty {
		r.empty = false
		r.leaving = true
		r.attrs = r.attrs[:0]
		r.kind = End
		return End, nil
	}
	for {
		if r.cdata {
			if ok, err := r.cdataPiece(); ok || err != nil {
				return r.kind, err
			}
			continue
		}
		if len(r.stack) == 0 {
			if err := r.outside(); err != nil {
				return 0, err
			}
		} else if !r.need(1) {
			return 0, r.ended("inside an element")
		}
		if r.buf[r.pos] != '<' {
			if err := r.charData(); err != nil {
				return 0, err
			}
			return Text, nil
		}
		if !r.need(2) {
			return 0, r.ended("inside a tag")
		}
		switch r.buf[r.pos+1] {
		case '/':
			if err := r.endTag(); err != nil {
				return 0, err
			}
			return End, nil
		case '!':
			if err := r.section(); err != nil {
				return 0, err
			}
		case '?':
			if err := r.instruction(); err != nil {
				return 0, err
			}
		default:
			if err := r.startTag(); err != nil {
				return 0, err
			}
			return Start, nil
		}
	}
}

// leave removes the innermost element from the stack.
func (r *Reader) leave() {
	f := &r.stack[len(r.stack)-1]
	r.names = r.names[:f.name]
	r.bound = r.bound[:f.bound]
	r.uris = r.uris[:f.uris]
	r.stack = r.stack[:len(r.stack)-1]
	r.leaving = false
}

// Space returns the namespace of the element of the current Start or End token, or of the element around the
// current Text. It is empty for none.
func (r *Reader) Space() []byte {
	if len(r.stack) == 0 {
		return nil
	}
	return r.stack[len(r.stack)-1].space
}

// Local returns the name, without prefix, of the same element as Space.
func (r *Reader) Local() []byte {
	if len(r.stack) == 0 {
		return nil
	}
	f := &r.stack[len(r.stack)-1]
	if f.prefix > 0 {
		return r.names[f.name+f.prefix+1 : f.end]
	}
	return r.names[f.name:f.end]
}

// Is reports whether the current element is {space}local.
func (r *Reader) Is(space, local string) bool {
	return string(r.Local()) == local && string(r.Space()) == space
}

// Attr returns an attribute's value on a Start token. An unprefixed attribute has the space "". Namespace
// declarations are not attributes here.
func (r *Reader) Attr(space, local string) ([]byte, bool) {
	for i := range r.attrs {
		a := &r.attrs[i]
		if string(a.local) == local && string(a.space) == space {
			return a.value, true
		}
	}
	return nil, false
}

// Text returns the text of the current Text token. A piece may be arbitrarily small: readers of text must
// collect the pieces.
func (r *Reader) Text() []byte { return r.text }
