package html

import "bytes"

// The classes of bytes.
const (
	white  = 1 << iota // white space in a tag
	slash              // /
	angle              // >
	equals             // =
	noWord             // ends a word of text
	alpha              // a to z, A to Z
	gaps               // may begin a space or a control character of Unicode
)

var byteClass = func() (t [256]uint8) {
	for c := range 256 {
		if c <= ' ' || c == 0x7f || c == '<' || c == '&' {
			t[c] |= noWord
		}
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			t[c] |= alpha
		}
		if c <= ' ' || c == 0x7f || c == 0xc2 || 0xe1 <= c && c <= 0xe3 {
			t[c] |= gaps
		}
	}
	for _, c := range " \n\r\t\f" {
		t[c] |= white
	}
	t['/'] |= slash
	t['>'] |= angle
	t['='] |= equals
	return t
}()

func letter(c byte) bool { return byteClass[c]&alpha != 0 }

// nameByte maps a byte to itself, in lower case; to 0 what ends the name of a tag, and NUL to what no name
// has.
var nameByte = func() (t [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case c == 0:
			t[c] = 0xff
		case byteClass[b]&(white|slash|angle) != 0:
		case 'A' <= b && b <= 'Z':
			t[c] = b | 0x20
		default:
			t[c] = b
		}
	}
	return t
}()

// A source is the bytes of the page being read, and the attributes of the tag read last.
type source struct {
	bytes  []byte
	served served // the page before toUTF8

	// strict reads as browsers do that run scripts: there is no markup in a <noscript>, and a quote that is
	// never closed loses the rest of the page. References stay as written.
	strict bool

	// noQuote says, for '"' and for '\'', that the rest of the page has no such quote: one was never closed.
	noQuote [2]bool

	attr    [attrs][]byte // undecoded
	has     uint16        // which of them the tag has, as bits
	decoded []byte        // memory of decoded references and values
}

// reset prepares for another page, and reuses the memory.
func (s *source) reset(page []byte) {
	s.bytes, s.noQuote, s.has, s.decoded = page, [2]bool{}, 0, s.decoded[:0]
}

// after returns the position after the next c.
func (s *source) after(c byte, i int) int {
	if j := bytes.IndexByte(s.bytes[i:], c); j >= 0 {
		return i + j + 1
	}
	return len(s.bytes)
}

// comment returns the end of the comment whose text begins at i.
func (s *source) comment(i int) int {
	p := s.bytes[i:]
	if bytes.HasPrefix(p, []byte(">")) {
		return i + 1
	} else if bytes.HasPrefix(p, []byte("->")) {
		return i + 2
	}
	for n := 0; ; n++ {
		j := bytes.IndexByte(p[n:], '>')
		if j < 0 {
			return len(s.bytes)
		}
		if n += j; bytes.HasSuffix(p[:n], []byte("--")) || bytes.HasSuffix(p[:n], []byte("--!")) {
			return i + n + 1
		}
	}
}

// tagName returns the number of the name at i, and its end.
func (s *source) tagName(i int) (name uint64, end int) {
	p := s.bytes
	from := i
	for ; i < len(p); i++ {
		c := nameByte[p[i]]
		if c == 0 {
			break
		}
		name = name<<8 | uint64(c)
	}
	if i-from > 8 {
		name = nameOf(p[from:i])
	}
	return name, i
}

// attributes reads the attributes that begin at i, up to the end of the tag, and keeps the wanted ones,
// undecoded. It returns the end of the tag and whether a slash closes it. A tag that is cut off by the end of
// the page is not a tag.
func (s *source) attributes(i int, wants uint16) (end int, closed, ok bool) {
	p := s.bytes
	s.has = 0
	if i < len(p) && p[i] == '>' { // most tags
		return i + 1, false, true
	}
	last := 0 // where the last value ends
	for {
		for i < len(p) && byteClass[p[i]]&white != 0 {
			i++
		}
		if i == len(p) {
			return i, false, false
		}
		if p[i] == '>' {
			return i + 1, p[i-1] == '/' && last != i, true
		}
		key := i
		for i < len(p) && (byteClass[p[i]]&(white|slash|angle|equals) == 0 || p[i] == '=' && i == key) {
			i++
		}
		name := p[key:i]
		for i < len(p) && byteClass[p[i]]&white != 0 {
			i++
		}
		if i == len(p) {
			return i, false, false
		}
		from, to := i, i
		switch p[i] {
		case '/':
			i++
		case '=':
			i++
			for i < len(p) && byteClass[p[i]]&white != 0 {
				i++
			}
			if i == len(p) {
				return i, false, false
			}
			switch c := p[i]; c {
			case '>':
				from, to = i, i
			case '"', '\'':
				from = i + 1
				if to = s.quoted(from, c); to < 0 {
					if s.strict {
						return len(p), false, false
					}
					// The value ends with its tag, so that the rest of the page is not lost.
					if to = bytes.IndexByte(p[from:], '>'); to < 0 {
						return len(p), false, false
					}
					to += from
					i = to
				} else {
					i = to + 1
				}
			default:
				from = i
				for i < len(p) && byteClass[p[i]]&(white|angle) == 0 {
					i++
				}
				to = i
				last = i
			}
		}
		if wants == 0 || len(name) == 0 {
			continue
		}
		if a, known := attrOf(name); known && wants&(1<<a) != 0 && s.has&(1<<a) == 0 {
			s.attr[a] = p[from:to]
			s.has |= 1 << a
		}
	}
}

// quoted returns the end of the value that begins at i, after a quote; -1 if it is never closed.
func (s *source) quoted(i int, quote byte) int {
	no := &s.noQuote[0]
	if quote == '\'' {
		no = &s.noQuote[1]
	}
	if !*no {
		if j := bytes.IndexByte(s.bytes[i:], quote); j >= 0 {
			return i + j
		}
		*no = true // never searched again: time stays linear
	}
	return -1
}

// rawEnd returns the position of the end tag of an element whose content is raw text and begins at i.
func (s *source) rawEnd(i int, name uint64) int {
	p := s.bytes
	for {
		j := bytes.IndexByte(p[i:], '<')
		if j < 0 {
			return len(p)
		}
		if i += j; s.endsRaw(i, name) {
			return i
		}
		i++
	}
}

// endsRaw reports whether the end tag of a name begins at i.
func (s *source) endsRaw(i int, name uint64) bool {
	p := s.bytes
	if i+2 >= len(p) || p[i+1] != '/' || !letter(p[i+2]) {
		return false
	}
	var got uint64
	n := 0
	for i += 2; i < len(p) && n < 8 && letter(p[i]); i++ {
		got = got<<8 | uint64(p[i]|0x20)
		n++
	}
	return got == name && i < len(p) && byteClass[p[i]]&(white|slash|angle) != 0
}

// script returns the position of the end tag of the script whose text begins at i. Text that looks like a
// comment may contain another script (HTML standard, section 13.2.5.15 and following).
func (s *source) script(i int) int {
	const (
		plain = iota
		escaped
		double
	)
	p := s.bytes
	name := nameOf("script")
	state := plain
	for {
		if state == plain {
			j := bytes.IndexByte(p[i:], '<')
			if j < 0 {
				return len(p)
			}
			if i += j; s.endsRaw(i, name) {
				return i
			}
			if bytes.HasPrefix(p[i:], []byte("<!--")) {
				state = escaped
				i += 2 // the same dashes can close it
			} else {
				i++
			}
			continue
		}
		j := bytes.IndexAny(p[i:], "<>")
		if j < 0 {
			return len(p)
		}
		from := i
		if i += j; p[i] == '>' {
			if i-from >= 2 && p[i-1] == '-' && p[i-2] == '-' {
				state = plain
			}
			i++
			continue
		}
		switch {
		case state == escaped && s.endsRaw(i, name):
			return i
		case state == double && s.endsRaw(i, name):
			state = escaped
			i += len("</script>")
			continue
		case state == escaped && i+1 < len(p) && letter(p[i+1]):
			n, end := s.scriptName(i + 1)
			if n == name && end < len(p) && byteClass[p[end]]&(white|slash|angle) != 0 {
				state = double
				i = end + 1
				continue
			}
		case state == escaped && i+1 < len(p) && p[i+1] != '/':
			state = plain // as x/net does
		}
		i++
	}
}

// scriptName returns the letters at i, as a name.
func (s *source) scriptName(i int) (name uint64, end int) {
	for n := 0; i < len(s.bytes) && n < 8 && letter(s.bytes[i]); i++ {
		name = name<<8 | uint64(s.bytes[i]|0x20)
		n++
	}
	return name, i
}

// value returns the decoded value of an attribute, nil if the tag does not have it.
func (s *source) value(a attrID) []byte {
	if s.has&(1<<a) == 0 {
		return nil
	}
	return s.decode(s.attr[a], inAttribute)
}

// decode returns text or the value of an attribute with its entities decoded, valid until the next page.
func (s *source) decode(b []byte, in place) []byte {
	if (in == inVerbatim || bytes.IndexByte(b, '&') < 0) && (in == inText || bytes.IndexByte(b, 0) < 0) {
		return b
	}
	n := len(s.decoded)
	s.decoded = appendDecoded(s.decoded, b, in)
	return s.decoded[n:len(s.decoded):len(s.decoded)]
}

// clean prepares a reference as the function clean does, except for "%".
func (s *source) clean(ref []byte) []byte {
	if s.strict {
		return ref
	}
	for len(ref) > 0 && ref[0] <= ' ' {
		ref = ref[1:]
	}
	for len(ref) > 0 && ref[len(ref)-1] <= ' ' {
		ref = ref[:len(ref)-1]
	}
	for _, c := range ref {
		if c == '\t' || c == '\n' || c == '\r' {
			n := len(s.decoded)
			for _, c := range ref {
				if c != '\t' && c != '\n' && c != '\r' {
					s.decoded = append(s.decoded, c)
				}
			}
			return s.decoded[n:len(s.decoded):len(s.decoded)]
		}
	}
	return ref
}
