package xmlpull

import (
	"errors"
	"fmt"
	"io"
)

// ErrLimit is wrapped by the errors for a document that exceeds a limit.
var ErrLimit = errors.New("over the limit")

// errNotStart is returned by calls that need a Start token as the current one.
var errNotStart = errors.New("not at the start of an element")

// Limits bound a document. A zero field means its default.
type Limits struct {
	Bytes int64 // of the document; default 4 GiB
	Depth int   // of nested elements; default 64
	Tag   int   // bytes of one tag, attributes included; default 64 KiB
	Attrs int   // attributes in one tag, namespace declarations included; default 64
	Text  int   // bytes of text between two tags, of what Content returns, of one comment or instruction; default 1 MiB
	Names int   // namespace declarations in force at once; default 64
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	for _, f := range []struct {
		limit *int
		value int
	}{
		{&l.Depth, 64},
		{&l.Tag, 64 << 10},
		{&l.Attrs, 64},
		{&l.Text, 1 << 20},
		{&l.Names, 64},
	} {
		if *f.limit <= 0 {
			*f.limit = f.value
		}
	}
	return l
}

// A SyntaxError says what is not well-formed, and where. For a document that ends too early it wraps
// io.ErrUnexpectedEOF.
type SyntaxError struct {
	Line   int   // from 1, counted in line feeds
	Offset int64 // bytes before the fault
	Msg    string

	truncated bool
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

func (e *SyntaxError) Unwrap() error {
	if e.truncated {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// fail moves to the current position plus i bytes, and returns the error for a fault there.
func (in *input) fail(i int, msg string) error {
	in.pos = min(in.pos+i, in.end)
	return &SyntaxError{Line: in.line(), Offset: in.offset(), Msg: msg}
}

// failName is fail with a name or value of the document in the message.
func (in *input) failName(i int, msg string, name []byte) error {
	const most = 60 // a document must not fill a log
	if len(name) > most {
		name = name[:most]
	}
	return in.fail(i, fmt.Sprintf("%s %q", msg, name))
}

// ended returns the error for a document that is truncated, or that of the reader below.
func (in *input) ended(where string) error {
	if in.readErr != io.EOF {
		return in.readErr
	}
	in.pos = in.end
	return &SyntaxError{Line: in.line(), Offset: in.offset(), Msg: "document ends " + where, truncated: true}
}

// over returns the error for a limit that is exceeded.
func (in *input) over(what string, limit int) error {
	return fmt.Errorf("line %d: more than %d %s: %w", in.line(), limit, what, ErrLimit)
}

func (in *input) overTag() error { return in.over("bytes in a tag", in.lim.Tag) }
