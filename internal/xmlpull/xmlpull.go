// Package xmlpull reads XML from the other side: a pull reader that is
// streaming, namespace-aware, strict about well-formedness, and bounded in
// everything. Manifests, sitemaps and feeds are read with it.
package xmlpull

import (
	"errors"
	"io"
)

// ErrLimit is wrapped by errors that say that a document went beyond a limit.
var ErrLimit = errors.New("over the limit")

// Limits bound a document. A zero field means its default.
type Limits struct {
	Bytes int64 // of the document; default 4 GiB
	Depth int   // of nested elements; default 64
	Tag   int   // bytes of one tag, attributes included; default 64 KiB
	Attrs int   // attributes in one tag; default 64
	Text  int   // bytes of one element's text, comment or instruction; default 1 MiB
	Names int   // namespace declarations in force at once; default 64
}

// A Kind is the kind of a token.
type Kind uint8

const (
	Start Kind = iota + 1 // an element begins; an empty element gives Start and End
	End                   // an element ends
	Text                  // a piece of text, entities resolved; an element's text may come in several
)

// A SyntaxError says what is not well-formed, and where.
type SyntaxError struct {
	Line   int
	Offset int64
	Msg    string
}

func (e *SyntaxError) Error() string { panic("unwritten") }

// A Reader reads one document. Byte slices it returns are valid until the next call of Next.
type Reader struct{}

func NewReader(r io.Reader, l Limits) *Reader { panic("unwritten") }

// Next moves to the next token. After the document's end it returns io.EOF;
// errors are final. Errors of well-formedness are *SyntaxError; limits wrap ErrLimit.
func (r *Reader) Next() (Kind, error) { panic("unwritten") }

// Space and Local name the element of the present Start or End token.
func (r *Reader) Space() []byte { panic("unwritten") }
func (r *Reader) Local() []byte { panic("unwritten") }

// Is reports whether the present element is {space}local.
func (r *Reader) Is(space, local string) bool { panic("unwritten") }

// Attr returns an attribute's value on a Start token. An unprefixed attribute has the space "".
func (r *Reader) Attr(space, local string) ([]byte, bool) { panic("unwritten") }

// Text returns the text of the present Text token.
func (r *Reader) Text() []byte { panic("unwritten") }

// Depth is the number of open elements, that of a Start or End token included.
func (r *Reader) Depth() int { panic("unwritten") }

// Content, on a Start token, moves to its End and appends all text directly in it to dst;
// child elements are passed over.
func (r *Reader) Content(dst []byte) ([]byte, error) { panic("unwritten") }

// Skip, on a Start token, moves to its End.
func (r *Reader) Skip() error { panic("unwritten") }

// Element, on a Start token, moves to its End and appends the element to dst as a document of its own,
// with the namespaces it needs declared; more than max bytes is an error wrapping ErrLimit.
func (r *Reader) Element(dst []byte, max int) ([]byte, error) { panic("unwritten") }

// Offset is the number of bytes consumed; Line the present line, from 1.
func (r *Reader) Offset() int64 { panic("unwritten") }
func (r *Reader) Line() int     { panic("unwritten") }
