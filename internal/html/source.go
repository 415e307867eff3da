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
)

var byteClass = func() (t [256]uint8) {
	for c := range 256 {
		if c <= ' ' || c == 0x7f || c == '<' || c == '&' {
			t[c] |= noWord
		}
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			t[c] |= alpha
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

// after returns the position after the next c.
func (s *Scanner) after(c byte, i int) int {
	if j := bytes.IndexByte(s.page[i:], c); j >= 0 {
		return i + j + 1
	}
	return len(s.page)
}

// comment returns the end of the comment whose text begins at i.
func (s *Scanner) comment(i int) int {
	p := s.page[i:]
	if bytes.HasPrefix(p, []byte(">")) {
		return i + 1
	} else if bytes.HasPrefix(p, []byte("->")) {
		return i + 2
	}
	for n := 0; ; n++ {
		j := bytes.IndexByte(p[n:], '>')
		if j < 0 {
			return len(s.page)
		}
		if n += j; bytes.HasSuffix(p[:n], []byte("--")) || bytes.HasSuffix(p[:n], []byte("--!")) {
			return i + n + 1
		}
	}
}

// tagName returns the name at i in the form of knownElements, and its end. The name is 0 if it is too long
// for any that matters here.
func (s *Scanner) tagName(i int) (name uint64, end int) {
	p := s.page
	from := i
	for ; i < len(p) && byteClass[p[i]]&(white|slash|angle) == 0; i++ {
		name = name<<8 | uint64(p[i]|0x20)
	}
	if i-from > 8 {
		name = longName(p[from:i])
	}
	return name, i
}

// attributes reads the attributes that begin at i, up to the end of the tag, and keeps the wanted ones,
// undecoded. It returns the end of the tag and whether a slash closes it. A tag that the page ends in is
// none.
func (s *Scanner) attributes(i int, wants uint32) (end int, closed, ok bool) {
	p := s.page
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
					// The standard loses the rest of the page here.
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
func (s *Scanner) quoted(i int, quote byte) int {
	no := &s.noQuote[0]
	if quote == '\'' {
		no = &s.noQuote[1]
	}
	if !*no {
		if j := bytes.IndexByte(s.page[i:], quote); j >= 0 {
			return i + j
		}
		*no, s.Torn = true, true // never searched again: time stays linear
	}
	return -1
}

// rawEnd returns the position of the end tag of an element whose content is raw text and begins at i.
func (s *Scanner) rawEnd(i int, name uint64) int {
	p := s.page
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
func (s *Scanner) endsRaw(i int, name uint64) bool {
	p := s.page
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
func (s *Scanner) script(i int) int {
	const (
		plain = iota
		escaped
		double
	)
	p := s.page
	name := pack("script")
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
func (s *Scanner) scriptName(i int) (name uint64, end int) {
	for n := 0; i < len(s.page) && n < 8 && letter(s.page[i]); i++ {
		name = name<<8 | uint64(s.page[i]|0x20)
		n++
	}
	return name, i
}

// value returns the decoded value of an attribute, nil if the tag does not have it.
func (s *Scanner) value(a attrID) []byte {
	if s.has&(1<<a) == 0 {
		return nil
	}
	return s.decode(s.attr[a], inAttribute)
}

// decode returns text or the value of an attribute with its entities decoded, valid until the next page.
func (s *Scanner) decode(b []byte, in place) []byte {
	if bytes.IndexByte(b, '&') < 0 && (in == inText || bytes.IndexByte(b, 0) < 0) {
		return b
	}
	n := len(s.decoded)
	s.decoded = appendDecoded(s.decoded, b, in)
	return s.decoded[n:len(s.decoded):len(s.decoded)]
}

// cleanRef prepares a reference as a browser does before parsing, except for "%": see clean.
func (s *Scanner) cleanRef(ref []byte) []byte {
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
