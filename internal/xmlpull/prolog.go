package xmlpull

import (
	"bytes"
	"io"
	"strings"
)

const byteOrderMark = "\xEF\xBB\xBF"

// outside skips white space where no element is open, and reads the markup after it.
func (r *Reader) outside() error {
	in := &r.in
	if !r.begun {
		r.begun = true
		if err := in.begin(); err != nil {
			return err
		}
	}
	for {
		for ; in.pos < in.end; in.pos++ {
			c := in.buf[in.pos]
			if blank(c) {
				continue
			}
			if c != '<' {
				return in.fail(0, "text outside the root element")
			}
			if !in.need(2) {
				return in.ended("inside a tag")
			}
			switch in.buf[in.pos+1] {
			case '!', '?':
			case '/':
				return in.fail(0, "end tag without an element")
			default:
				if r.open.rooted {
					return in.fail(0, "second root element")
				}
			}
			return r.markup()
		}
		if in.fill() {
			continue
		}
		if r.open.rooted && in.readErr == io.EOF {
			return io.EOF
		}
		return in.ended("without a root element")
	}
}

// begin reads the byte order mark and the XML declaration.
func (in *input) begin() error {
	if in.need(2) {
		switch string(in.buf[:2]) {
		case "\xFE\xFF", "\xFF\xFE", "<\x00", "\x00<":
			return in.fail(0, "UTF-16 is not read, only UTF-8")
		}
	}
	switch {
	case in.follows(byteOrderMark):
		in.pos += len(byteOrderMark)
	case in.end > in.pos && in.partly(byteOrderMark):
		return in.ended("inside a byte order mark")
	}
	if !in.follows("<?xml") || !in.need(6) || !blank(in.buf[in.pos+5]) {
		return nil // there is none, or an instruction that begins likewise
	}
	n, err := in.until(6, ">", "inside an XML declaration")
	if err != nil {
		return err
	}
	if classify(in.window()[:n])&(isBad|isHigh) != 0 {
		return in.fail(0, "bad XML declaration")
	}
	if err := in.declaration(string(in.window()[6 : n+1])); err != nil {
		return err
	}
	in.pos += n + 1
	return nil
}

// declaration checks an XML declaration from after "<?xml " to its end.
func (in *input) declaration(s string) error {
	bad := func() error { return in.fail(0, "bad XML declaration") }
	version, s, ok := pseudo(s, "version")
	if !ok {
		return bad()
	}
	if version != "1.0" {
		return in.failName(0, "unsupported XML version", []byte(version))
	}
	if encoding, rest, ok := pseudo(s, "encoding"); ok {
		s = rest
		switch {
		case strings.EqualFold(encoding, "UTF-8"):
		case strings.EqualFold(encoding, "US-ASCII"):
			in.ascii = true
		default:
			return in.failName(0, "only UTF-8 is read, not", []byte(encoding))
		}
	}
	if standalone, rest, ok := pseudo(s, "standalone"); ok {
		if s = rest; standalone != "yes" && standalone != "no" {
			return bad()
		}
	}
	if strings.TrimLeft(s, " \t\r\n") != "?>" {
		return bad()
	}
	return nil
}

// pseudo removes name="value" from the beginning of s. White space must precede it, except for version, which
// comes first.
func pseudo(s, name string) (value, rest string, ok bool) {
	const blanks = " \t\r\n"
	t := strings.TrimLeft(s, blanks)
	if len(t) == len(s) && name != "version" {
		return "", s, false
	}
	t, ok = strings.CutPrefix(t, name)
	if !ok {
		return "", s, false
	}
	t, ok = strings.CutPrefix(strings.TrimLeft(t, blanks), "=")
	if t = strings.TrimLeft(t, blanks); !ok || t == "" || t[0] != '"' && t[0] != '\'' {
		return "", s, false
	}
	value, rest, ok = strings.Cut(t[1:], t[:1])
	return value, rest, ok
}

// section reads markup that begins with <! : a whole comment, or the beginning of a CDATA section.
func (r *Reader) section() error {
	const comment, cdata, doctype = "<!--", "<![CDATA[", "<!DOCTYPE"
	in := &r.in
	switch {
	case in.follows(comment):
		in.pos += len(comment)
		if err := in.passOver("--", "inside a comment"); err != nil {
			return err
		}
		if !in.need(1) {
			return in.ended("inside a comment")
		}
		if in.buf[in.pos] != '>' {
			return in.fail(0, "-- in a comment")
		}
		in.pos++
		return nil
	case in.follows(cdata):
		if len(r.open.stack) == 0 {
			return in.fail(0, "text outside the root element")
		}
		in.pos += len(cdata)
		r.cdata = true
		return nil
	case in.follows(doctype):
		return in.fail(0, "DOCTYPE is refused")
	case in.partly(comment), in.partly(cdata), in.partly(doctype):
		return in.ended("inside a tag")
	}
	return in.fail(0, "unknown markup after <!")
}

// instruction skips a processing instruction.
func (in *input) instruction() error {
	n, err := in.until(2, "? \t\r\n", "inside a processing instruction")
	if err != nil {
		return err
	}
	target := in.window()[2 : n+1]
	switch end := scanName(target, 0); {
	case end == 0 || end != len(target)-1:
		return in.fail(2, "bad name of a processing instruction")
	case bytes.EqualFold(target[:end], []byte("xml")):
		return in.fail(0, "XML declaration not at the beginning, or a bad one")
	case in.ascii && classify(target)&isHigh != 0:
		return in.fail(2, "byte beyond US-ASCII")
	}
	if target[len(target)-1] == '?' && in.need(n+2) && in.buf[in.pos+n+1] != '>' {
		return in.fail(n, "bad name of a processing instruction")
	}
	in.pos += n
	return in.passOver("?>", "inside a processing instruction")
}

// passOver skips a comment or an instruction up to its end, term included.
func (in *input) passOver(term, where string) error {
	for total := 0; ; {
		p, _, last, err := in.part(term, where)
		if err != nil {
			return err
		}
		if total += len(p); total > in.lim.Text {
			return in.over("bytes in a comment or instruction", in.lim.Text)
		}
		if last {
			return nil
		}
	}
}

// part is piece with the characters checked. where is for the error if the document ends first.
func (in *input) part(term, where string) (p []byte, classes uint16, last bool, err error) {
	p, last, ok := in.piece(term)
	if !ok {
		return nil, 0, false, in.ended(where)
	}
	back := len(p)
	if last {
		back += len(term)
	}
	classes = classify(p)
	return p, classes, last, in.check(p, classes, back)
}

// cdataPiece reads the next piece of a CDATA section. There is no token if it is empty.
func (r *Reader) cdataPiece() error {
	p, classes, last, err := r.in.part("]]>", "inside a CDATA section")
	if err != nil {
		return err
	}
	r.cdata = !last
	if r.run += len(p); r.run > r.in.lim.Text {
		return r.overText()
	}
	if len(p) == 0 {
		return nil
	}
	if classes&isCR != 0 {
		r.scratch = appendLines(r.scratch[:0], p)
		p = r.scratch
	}
	r.text, r.kind = p, Text
	return nil
}

// appendLines appends b to dst with all line ends as line feeds.
func appendLines(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, '\r')
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(append(dst, b[:i]...), '\n')
		if b = b[i+1:]; len(b) > 0 && b[0] == '\n' {
			b = b[1:]
		}
	}
}
