package xmlpull

import (
	"bytes"
	"unicode/utf8"
)

const (
	xmlSpace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsSpace = "http://www.w3.org/2000/xmlns/"
)

// A binding is a namespace declaration in force. The default namespace has
// the prefix "".
type binding struct {
	prefix []byte
	space  []byte
}

// scanName returns the end of the name without colon that begins at b[i], or i if there is none. The last
// byte of b must not be part of a name.
func scanName(b []byte, i int) int {
	start := i
	if class[b[i]]&isFirst == 0 && b[i] < utf8.RuneSelf {
		return i
	}
	for {
		for class[b[i]]&isName != 0 {
			i++
		}
		if b[i] < utf8.RuneSelf {
			return i
		}
		c, n := utf8.DecodeRune(b[i:])
		if c == utf8.RuneError && n == 1 || !nameRune(c, i == start) {
			return i
		}
		i += n
	}
}

// nameRune reports whether the non-ASCII character c may stand in a name, or
// begin one: productions 4 and 4a of XML 1.0, fifth edition.
func nameRune(c rune, first bool) bool {
	switch {
	case c == 0xB7 || 0x300 <= c && c <= 0x36F || 0x203F <= c && c <= 0x2040:
		return !first
	case c < 0xC0 || c == 0xD7 || c == 0xF7 || c == 0x37E:
		return false
	}
	return c <= 0x1FFF ||
		0x200C <= c && c <= 0x200D ||
		0x2070 <= c && c <= 0x218F ||
		0x2C00 <= c && c <= 0x2FEF ||
		0x3001 <= c && c <= 0xD7FF ||
		0xF900 <= c && c <= 0xFDCF ||
		0xFDF0 <= c && c <= 0xFFFD ||
		0x10000 <= c && c <= 0xEFFFF
}

// elements are the open ones, and the namespaces in force.
type elements struct {
	stack  []frame
	names  []byte // of the elements on the stack, as written
	bound  []binding
	uris   []byte // the prefixes and namespaces of bound
	rooted bool   // the root element was seen
}

// A frame is an open element.
type frame struct {
	name  int    // where its name begins in elements.names
	local int    // where the part after a prefix begins there
	end   int    // where its name ends there
	space []byte // its namespace
	bound int    // len(elements.bound) outside of it
	uris  int    // len(elements.uris) outside of it
}

// last returns the name, as written, of the innermost element.
func (e *elements) last() []byte {
	f := &e.stack[len(e.stack)-1]
	return e.names[f.name:f.end]
}

// leave closes the innermost element.
func (e *elements) leave() {
	f := &e.stack[len(e.stack)-1]
	e.names = e.names[:f.name]
	e.bound = e.bound[:f.bound]
	e.uris = e.uris[:f.uris]
	e.stack = e.stack[:len(e.stack)-1]
}

// lookup returns the namespace of a prefix.
func (e *elements) lookup(prefix []byte) (space []byte, ok bool) {
	for i := len(e.bound) - 1; i >= 0; i-- {
		if b := &e.bound[i]; string(b.prefix) == string(prefix) {
			return b.space, true
		}
	}
	return nil, len(prefix) == 0
}

// bind adds a namespace declaration of the tag whose own declarations begin at bound[mark]. at is its position
// in the input, for errors.
func (e *elements) bind(in *input, mark, at int, prefix, space []byte) error {
	for i := mark; i < len(e.bound); i++ {
		if bytes.Equal(e.bound[i].prefix, prefix) {
			return in.failName(at, "namespace prefix declared twice", prefix)
		}
	}
	switch {
	case string(prefix) == "xmlns":
		return in.fail(at, "prefix xmlns declared")
	case (string(prefix) == "xml") != (string(space) == xmlSpace):
		return in.fail(at, "prefix xml and its namespace belong to each other")
	case string(space) == xmlnsSpace:
		return in.fail(at, "namespace of xmlns declared")
	case len(space) == 0 && len(prefix) > 0:
		return in.failName(at, "empty namespace for prefix", prefix)
	case len(e.bound) > in.lim.Names: // the prefix xml is one more
		return in.over("namespace declarations in force", in.lim.Names)
	}
	// Copies: the window moves on. A reallocation leaves older slices in the previous array, which is never
	// written again.
	n := len(e.uris)
	e.uris = append(e.uris, prefix...)
	e.uris = append(e.uris, space...)
	p := e.uris[n : n+len(prefix) : n+len(prefix)]
	e.bound = append(e.bound, binding{prefix: p, space: e.uris[n+len(prefix):]})
	return nil
}
