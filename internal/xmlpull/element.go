package xmlpull

import (
	"bytes"
	"fmt"
	"slices"
)

// Content, on a Start token, moves to its End and appends all text directly in it to dst; child elements are
// skipped. More than Limits.Text bytes of it is an error.
func (r *Reader) Content(dst []byte) ([]byte, error) {
	if r.err != nil {
		return dst, r.err
	}
	if r.kind != Start {
		return dst, fmt.Errorf("content: %w", errNotStart)
	}
	if out, ok := r.plainContent(dst); ok {
		return out, nil
	}
	depth, total := len(r.open.stack), 0
	for {
		k, err := r.Next()
		if err != nil {
			return dst, err
		}
		if len(r.open.stack) != depth {
			continue
		}
		switch k {
		case End:
			return dst, nil
		case Text:
			if total += len(r.text); total > r.in.lim.Text {
				return dst, r.overText()
			}
			dst = append(dst, r.text...)
		}
	}
}

// plainContent is Content for an element without references, children and letters beyond ASCII that is in the window as a whole: most are.
// It reports false, and reads nothing, for any other.
func (r *Reader) plainContent(dst []byte) ([]byte, bool) {
	in := &r.in
	b := in.window()
	n := bytes.IndexByte(b, '<')
	if n < 0 || n > in.lim.Text || r.empty || classify(b[:n])&(isBad|isHigh|isAmp|isCR|isBracket) != 0 {
		return dst, false
	}
	end := r.plainEnd(b[n:])
	if end == 0 {
		return dst, false
	}
	in.pos += n + end
	r.attrs.list, r.kind, r.run = r.attrs.list[:0], End, 0
	return append(dst, b[:n]...), true
}

// Skip, on a Start token, moves to its End.
func (r *Reader) Skip() error {
	if r.err != nil {
		return r.err
	}
	if r.kind != Start {
		return fmt.Errorf("skip: %w", errNotStart)
	}
	depth := len(r.open.stack)
	for {
		k, err := r.Next()
		if err != nil {
			return err
		}
		if k == End && len(r.open.stack) == depth {
			return nil
		}
	}
}

// Element, on a Start token, moves to its End and appends the element to dst as a document of its own. It
// declares the namespaces that the names of its elements and attributes need, but not a prefix that only a
// value uses. More than max bytes is an error wrapping ErrLimit; dst is then unchanged, and the reader can go
// on after the End.
func (r *Reader) Element(dst []byte, max int) ([]byte, error) {
	if r.err != nil {
		return dst, r.err
	}
	if r.kind != Start {
		return dst, fmt.Errorf("element: %w", errNotStart)
	}
	var out rendering
	depth, before, fits := len(r.open.stack), len(dst), true
	k := Start
	for {
		if fits {
			dst = out.append(dst, r, k)
			if len(dst)-before > max {
				dst = dst[:before]
				fits = false
			}
		}
		if k == End && len(r.open.stack) == depth {
			break
		}
		var err error
		if k, err = r.Next(); err != nil {
			return dst[:before], err
		}
	}
	if !fits {
		return dst, fmt.Errorf("element: more than %d bytes: %w", max, ErrLimit)
	}
	return dst, nil
}

// A rendering is the namespace declarations in force in the XML that Element writes.
type rendering []declaration

type declaration struct {
	prefix []byte
	space  []byte
	depth  int
}

// append appends the current token, of kind k, as XML.
func (w *rendering) append(dst []byte, r *Reader, k Kind) []byte {
	depth := len(r.open.stack)
	f := &r.open.stack[depth-1]
	name := r.open.names[f.name:f.end]
	switch k {
	case Text:
		return appendEscaped(dst, r.text, false)
	case End:
		n := len(*w)
		for n > 0 && (*w)[n-1].depth == depth {
			n--
		}
		*w = (*w)[:n]
		return append(append(append(dst, "</"...), name...), '>')
	}
	dst = append(append(dst, '<'), name...)
	dst = w.declare(dst, name[:max(0, f.local-f.name-1)], f.space, depth)
	for i := range r.attrs.list {
		a := &r.attrs.list[i]
		if len(a.prefix) > 0 {
			dst = w.declare(dst, a.prefix, a.space, depth)
		}
	}
	for i := range r.attrs.list {
		a := &r.attrs.list[i]
		dst = append(dst, ' ')
		if len(a.prefix) > 0 {
			dst = append(append(dst, a.prefix...), ':')
		}
		dst = append(append(dst, a.local...), '=', '"')
		dst = append(appendEscaped(dst, a.value, true), '"')
	}
	return append(dst, '>')
}

// declare appends a namespace declaration unless it is already in force in the output.
func (w *rendering) declare(dst, prefix, space []byte, depth int) []byte {
	if string(prefix) == "xml" {
		return dst
	}
	had := []byte(nil)
	for _, d := range slices.Backward(*w) {
		if bytes.Equal(d.prefix, prefix) {
			had = d.space
			break
		}
	}
	if bytes.Equal(had, space) {
		return dst // as declared, or no namespace where none is declared
	}
	// The names are copied, since an attribute's prefix is in the window, which moves on.
	*w = append(*w, declaration{bytes.Clone(prefix), bytes.Clone(space), depth})
	dst = append(dst, " xmlns"...)
	if len(prefix) > 0 {
		dst = append(append(dst, ':'), prefix...)
	}
	dst = append(dst, '=', '"')
	return append(appendEscaped(dst, space, true), '"')
}

// appendEscaped appends a text or a value, escaped.
func appendEscaped(dst, b []byte, value bool) []byte {
	for _, c := range b {
		switch {
		case c == '&':
			dst = append(dst, "&amp;"...)
		case c == '<':
			dst = append(dst, "&lt;"...)
		case c == '>':
			dst = append(dst, "&gt;"...)
		case c == '\r':
			dst = append(dst, "&#13;"...)
		case value && c == '"':
			dst = append(dst, "&quot;"...)
		case value && c == '\n':
			dst = append(dst, "&#10;"...)
		case value && c == '\t':
			dst = append(dst, "&#9;"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
