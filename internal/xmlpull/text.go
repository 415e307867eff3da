package xmlpull

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// The classes of a byte in a document. A text is classified as a whole first: most need no closer look.
const (
	isBad     = 1 << iota // never in a document
	isHigh                // part of a non-ASCII character
	isAmp                 // &
	isCR                  // carriage return
	isLF                  // line feed or tab
	isLess                // <
	isBracket             // ]
	isFirst               // begins a name
	isName                // part of a name
)

// class gives the classes of every byte.
var class = func() (t [256]uint16) {
	for c := range t {
		switch {
		case c < ' ':
			t[c] = isBad
		case c >= utf8.RuneSelf:
			t[c] = isHigh
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			t[c] = isFirst | isName
		case '0' <= c && c <= '9':
			t[c] = isName
		}
	}
	t['_'] = isFirst | isName
	t['-'], t['.'] = isName, isName
	t['&'], t['<'], t[']'] = isAmp, isLess, isBracket
	t['\r'], t['\n'], t['\t'] = isCR, isLF, isLF
	return t
}()

// classify returns the union of the classes of all bytes of b.
func classify(b []byte) (all uint16) {
	const every = 0x0101010101010101
	for len(b) >= 8 {
		// The top bit of a byte of found is set if that byte is high, below the space, or one of the three. A
		// borrow may mark the byte above such a one too, which only costs the closer look.
		x := binary.LittleEndian.Uint64(b)
		found := x | (x - ' '*every) | ((x ^ '&'*every) - every) | ((x ^ '<'*every) - every) | ((x ^ ']'*every) - every)
		if found&(0x80*every) != 0 {
			for _, c := range b[:8] {
				all |= class[c]
			}
		}
		b = b[8:]
	}
	for _, c := range b {
		all |= class[c]
	}
	return all
}

// check rejects characters that a document may not have. back is the distance from the beginning of b to the
// current position.
func (in *input) check(b []byte, classes uint16, back int) error {
	if classes&(isBad|isHigh) == 0 {
		return nil
	}
	// Among valid UTF-8, only U+FFFE and U+FFFF are not allowed.
	if classes&isBad == 0 && !in.ascii && utf8.Valid(b) && !bytes.Contains(b, []byte("\xEF\xBF")) {
		return nil
	}
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			if class[c]&isBad != 0 {
				return in.fail(i-back, "control character")
			}
			i++
			continue
		}
		if in.ascii {
			return in.fail(i-back, "byte beyond US-ASCII")
		}
		v, n := utf8.DecodeRune(b[i:])
		if v == utf8.RuneError && n == 1 {
			return in.fail(i-back, "invalid UTF-8")
		}
		if v == 0xFFFE || v == 0xFFFF {
			return in.fail(i-back, "not a character")
		}
		i += n
	}
	return nil
}

// charData reads a piece of text up to the next tag, or as much as is available.
func (r *Reader) charData() error {
	in := &r.in
	var b []byte
	for seen := 0; ; {
		b = in.window()
		if i := bytes.IndexByte(b[seen:], '<'); i >= 0 {
			b = b[:seen+i]
			break
		}
		seen = len(b)
		if in.half() {
			if b = uncut(b); len(b) == 0 {
				return in.fail(0, "reference does not end")
			}
			break
		}
		if !in.fill() {
			return in.ended("inside an element")
		}
	}
	classes := classify(b)
	if err := in.check(b, classes, 0); err != nil {
		return err
	}
	if classes&isBracket != 0 {
		if i := bytes.Index(b, []byte("]]>")); i >= 0 {
			return in.fail(i, "]]> in text")
		}
	}
	if r.run += len(b); r.run > in.lim.Text {
		return r.overText()
	}
	r.text = b
	if classes&(isAmp|isCR) != 0 {
		text, i, fault := expand(r.scratch[:0], b, false)
		if fault != "" {
			return in.fail(i, fault)
		}
		r.scratch, r.text = text, text
	}
	in.pos += len(b)
	r.kind = Text
	return nil
}

// overText ends reading because of Limits.Text.
func (r *Reader) overText() error { return r.stop(r.in.over("bytes of text", r.in.lim.Text)) }

// uncut shortens a text that goes on to a point where it can be split: not within a reference, "]]>", a line
// end, or a character.
func uncut(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '&'); i >= 0 && bytes.IndexByte(b[i:], ';') < 0 {
		return b[:i]
	}
	for n := 2; n > 0 && b[len(b)-1] == ']'; n-- {
		b = b[:len(b)-1]
	}
	return whole(b)
}

// whole shortens a text that goes on to whole characters and line ends.
func whole(b []byte) []byte {
	n := len(b)
	if n > 0 && b[n-1] == '\r' {
		return b[:n-1]
	}
	for i := n - 1; i >= 0 && i >= n-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// value checks and normalises the value b, which is at tag[at].
func (a *attributes) value(in *input, b []byte, at int) ([]byte, error) {
	classes := classify(b)
	if classes&(isBad|isHigh|isLess|isAmp|isCR|isLF) == 0 {
		return b, nil
	}
	if err := in.check(b, classes, -at); err != nil {
		return nil, err
	}
	if classes&isLess != 0 {
		return nil, in.fail(at+bytes.IndexByte(b, '<'), "< in an attribute's value")
	}
	if classes&(isAmp|isCR|isLF) == 0 {
		return b, nil
	}
	// A reallocation leaves earlier values in the previous array.
	n := len(a.values)
	out, i, fault := expand(a.values, b, true)
	if fault != "" {
		return nil, in.fail(at+i, fault)
	}
	a.values = out
	return out[n:], nil
}

// expand appends b to dst with references resolved and line ends as line feeds, or in a value with all white
// space as spaces. A fault is returned with its position in b.
func expand(dst, b []byte, value bool) (out []byte, at int, fault string) {
	special := uint16(isAmp | isCR)
	if value {
		special |= isLF
	}
	done := 0
	for i := 0; i < len(b); {
		c := b[i]
		if class[c]&special == 0 {
			i++
			continue
		}
		dst = append(dst, b[done:i]...)
		switch c {
		case '&':
			n := bytes.IndexByte(b[i:], ';')
			if n < 0 {
				return nil, i, "& without a reference"
			}
			v := reference(b[i+1 : i+n])
			if v < 0 {
				return nil, i, "unknown or bad reference"
			}
			dst = utf8.AppendRune(dst, v)
			i += n + 1
		case '\r':
			i++
			if i < len(b) && b[i] == '\n' {
				i++
			}
			if value {
				dst = append(dst, ' ')
			} else {
				dst = append(dst, '\n')
			}
		default:
			dst = append(dst, ' ')
			i++
		}
		done = i
	}
	return append(dst, b[done:]...), 0, ""
}

// reference returns the character of &b;, or -1 if there is none.
func reference(b []byte) rune {
	if len(b) < 2 {
		return -1
	}
	if b[0] != '#' {
		switch string(b) {
		case "lt":
			return '<'
		case "gt":
			return '>'
		case "amp":
			return '&'
		case "quot":
			return '"'
		case "apos":
			return '\''
		}
		return -1
	}
	base := rune(10)
	if b = b[1:]; b[0] == 'x' {
		base = 16
		b = b[1:]
	}
	if len(b) == 0 {
		return -1
	}
	v := rune(0)
	for _, c := range b {
		var d rune
		switch {
		case '0' <= c && c <= '9':
			d = rune(c - '0')
		case base == 16 && 'a' <= c && c <= 'f':
			d = rune(c-'a') + 10
		case base == 16 && 'A' <= c && c <= 'F':
			d = rune(c-'A') + 10
		default:
			return -1
		}
		if v = v*base + d; v > utf8.MaxRune {
			return -1
		}
	}
	switch {
	case v < ' ' && v != '\t' && v != '\n' && v != '\r',
		0xD800 <= v && v <= 0xDFFF, v == 0xFFFE, v == 0xFFFF:
		return -1
	}
	return v
}
