package xmlpull

import (
	"bytes"
	"io"
	"strings"
)

const byteOrderMark = "\xEF\xBB\xBF"

// outside skips white space where no element is open, and stops at a < or at the end of the document.
func (r *Reader) outside() error {
	if !r.begun {
		r.begun = true
		if err := r.begin(); err != nil {
			return err
		}
	}
	r.kind = 0
	r.text = nil
	for {
		for ; r.pos < r.end; r.pos++ {
			c := r.buf[r.pos]
			if blank(c) {
				continue
			}
			if c != '<' {
				return r.fail(0, "text outside the root element")
			}
			if !r.need(2) {
				return r.ended("inside a tag")
			}
			switch r.buf[r.pos+1] {
			case '!', '?':
			case '/':
				return r.fail(0, "end tag without an element")
			default:
				if r.rooted {
					return r.fail(0, "second root element")
				}
			}
			return nil
		}
		if r.fill() {
			continue
		}
		if r.rooted && r.readErr == io.EOF {
			return r.stop(io.EOF)
		}
		return r.ended("without a root element")
	}
}

// begin reads the byte order mark and the XML declaration.
func (r *Reader) begin() error {
	if r.need(2) {
		switch string(r.buf[:2]) {
		case "\xFE\xFF", "\xFF\xFE", "<\x00", "\x00<":
			return r.fail(0, "UTF-16 is not read, only UTF-8")
		}
	}
	switch {
	case r.follows(byteOrderMark):
		r.pos += len(byteOrderMark)
	case r.end > r.pos && r.partly(byteOrderMark):
		return r.ended("inside a byte order mark")
	}
	if !r.follows("<?xml") || !r.need(6) || !blank(r.buf[r.pos+5]) {
		return nil // there is none, or an instruction that begins likewise
	}
	n := r.until(6, ">", r.lim.Tag)
	switch {
	case n < 0 && r.end-r.pos > r.lim.Tag:
		return r.over("bytes in a tag", int64(r.lim.Tag))
	case n < 0:
		return r.ended("inside an XML declaration")
	}
	if classify(r.window()[:n])&(isBad|isHigh) != 0 {
		return r.fail(0, "bad XML declaration")
	}
	if err := r.declaration(string(r.window()[6 : n+1])); err != nil {
		return err
	}
	r.pos += n + 1
	return nil
}

// declaration checks an XML declaration from after "<?xml " to its end.
func (r *Reader) declaration(s string) error {
	version, s, ok := pseudo(s, "version")
	if !ok {
		return r.fail(0, "bad XML declaration")
	}
	if version != "1.0" {
		return r.failName(0, "unsupported XML version", []byte(version))
	}
	if encoding, rest, ok := pseudo(s, "encoding"); ok {
		s = rest
		switch {
		case strings.EqualFold(encoding, "UTF-8"):
		case strings.EqualFold(encoding, "US-ASCII"):
			r.ascii = true
		default:
			return r.failName(0, "only UTF-8 is read, not", []byte(encoding))
		}
	}
	if standalone, rest, ok := pseudo(s, "standalone"); ok {
		if s = rest; standalone != "yes" && standalone != "no" {
			return r.fail(0, "bad XML declaration")
		}
	}
	if strings.TrimLeft(s, " \t\r\n") != "?>" {
		return r.fail(0, "bad XML declaration")
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
	switch {
	case r.follows(comment):
		r.pos += len(comment)
		if err := r.passOver("--", "inside a comment"); err != nil {
			return err
		}
		if !r.need(1) {
			return r.ended("inside a comment")
		}
		if r.buf[r.pos] != '>' {
			return r.fail(0, "-- in a comment")
		}
		r.pos++
		return nil
	case r.follows(cdata):
		if len(r.stack) == 0 {
			return r.fail(0, "text outside the root element")
		}
		r.pos += len(cdata)
		r.cdata = true
		return nil
	case r.follows(doctype):
		return r.fail(0, "DOCTYPE is refused")
	case r.partly(comment), r.partly(cdata), r.partly(doctype):
		return r.ended("inside a tag")
	}
	return r.fail(0, "unknown markup after <!")
}

// instruction skips a processing instruction.
func (r *Reader) instruction() error {
	n := r.until(2, "? \t\r\n", r.lim.Tag)
	switch {
	case n < 0 && r.end-r.pos > r.lim.Tag:
		return r.over("bytes in a tag", int64(r.lim.Tag))
	case n < 0:
		return r.ended("inside a processing instruction")
	}
	target := r.window()[2 : n+1]
	switch end := scanName(target, 0); {
	case end == 0 || end != len(target)-1:
		return r.fail(2, "bad name of a processing instruction")
	case bytes.EqualFold(target[:end], []byte("xml")):
		return r.fail(0, "XML declaration not at the beginning, or a bad one")
	case r.ascii && classify(target)&isHigh != 0:
		return r.fail(2, "byte beyond US-ASCII")
	}
	if target[len(target)-1] == '?' && r.need(n+2) && r.buf[r.pos+n+1] != '>' {
		return r.fail(n, "bad name of a processing instruction")
	}
	r.pos += n
	return r.passOver("?>", "inside a processing instruction")
}

// passOver skips a comment or an instruction up to its end, term included.
func (r *Reader) passOver(term, where string) error {
	for total := 0; ; {
		p, last, ok := r.piece(term)
		if !ok {
			return r.ended(where)
		}
		back := len(p)
		if last {
			back += len(term)
		}
		if err := r.check(p, classify(p), back); err != nil {
			return err
		}
		if total += len(p); total > r.lim.Text {
			return r.over("bytes in a comment or instruction", int64(r.lim.Text))
		}
		if last {
			return nil
		}
	}
}

// cdataPiece reads the next piece of a CDATA section, and returns false if it is empty.
func (r *Reader) cdataPiece() (bool, error) {
	const term = "]]>"
	p, last, ok := r.piece(term)
	if !ok {
		return false, r.ended("inside a CDATA section")
	}
	r.cdata = !last
	back := len(p)
	if last {
		back += len(term)
	}
	classes := classify(p)
	if err := r.check(p, classes, back); err != nil {
		return false, err
	}
	if r.run += len(p); r.run > r.lim.Text {
		return false, r.over("bytes of text", int64(r.lim.Text))
	}
	if len(p) == 0 {
		return false, nil
	}
	if classes&isCR != 0 {
		r.scratch = appendLines(r.scratch[:0], p)
		p = r.scratch
	}
	r.text = p
	r.kind = Text
	r.attrs = r.attrs[:0]
	return true, nil
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
