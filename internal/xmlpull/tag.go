package xmlpull

import (
	"bytes"
)

// An attr is an attribute of the current Start tag.
type attr struct {
	prefix []byte
	local  []byte
	space  []byte
	value  []byte
	at     int // in the tag, for errors
}

// attributes are those of the current Start tag.
type attributes struct {
	list   []attr
	values []byte // those that are not as in the document
}

// markup reads what begins with a <, except for an end tag: mostly a start or empty-element tag.
func (r *Reader) markup() error {
	switch r.in.buf[r.in.pos+1] {
	case '!':
		return r.section()
	case '?':
		return r.in.instruction()
	}
	// A > may occur in an attribute's value, but rarely does: look for the first, and only if a quote is then
	// open, for the real end of the tag.
	n := bytes.IndexByte(r.in.window(), '>') + 1
	if n > 0 && n <= r.in.lim.Tag {
		open, err := r.parseStart(r.in.window()[:n])
		if !open {
			return err
		}
	}
	n, err := r.in.tagEnd()
	if err != nil {
		return err
	}
	_, err = r.parseStart(r.in.window()[:n])
	return err
}

// tagEnd returns the length of the start tag at the beginning of the window. It examines every byte once,
// however slowly they arrive.
func (in *input) tagEnd() (int, error) {
	quote := byte(0)
	for i := 1; ; {
		b := in.window()
		for i < len(b) {
			if quote != 0 {
				j := bytes.IndexByte(b[i:], quote)
				if j < 0 {
					i = len(b)
					break
				}
				i += j + 1
				quote = 0
				continue
			}
			c := b[i]
			i++
			switch c {
			case '"', '\'':
				quote = c
			case '<':
				return 0, in.fail(i-1, "< inside a tag")
			case '>':
				if i > in.lim.Tag {
					return 0, in.overTag()
				}
				return i, nil
			}
		}
		if len(b) > in.lim.Tag {
			return 0, in.overTag()
		}
		if !in.fill() {
			return 0, in.ended("inside a tag")
		}
	}
}

// parseStart parses a start tag, which ends with the > at the end of tag. quoted says that this > is inside a
// quoted value: then nothing is done.
func (r *Reader) parseStart(tag []byte) (quoted bool, err error) {
	bound, uris, seen, empty := len(r.open.bound), len(r.open.uris), 0, false
	r.attrs.list, r.attrs.values = r.attrs.list[:0], r.attrs.values[:0]

	prefix, local, i := qname(tag, 1)
	if local == nil {
		return false, r.in.fail(i, "bad element name")
	}
	nameEnd := i
	for {
		j := skipBlank(tag, i)
		c := tag[j]
		if c == '>' {
			break
		}
		if c == '/' && j+2 == len(tag) {
			empty = true
			break
		}
		if j == i {
			return false, r.in.fail(j, "bad character in a tag")
		}
		var a attr
		a.at = j
		if a.prefix, a.local, i = qname(tag, j); a.local == nil {
			return false, r.in.fail(i, "bad attribute name")
		}
		if i = skipBlank(tag, i); tag[i] != '=' {
			return false, r.in.failName(i, "no = after attribute", a.local)
		}
		i = skipBlank(tag, i+1)
		quote := tag[i]
		if quote != '"' && quote != '\'' {
			return false, r.in.failName(i, "no quoted value for attribute", a.local)
		}
		i++
		n := bytes.IndexByte(tag[i:], quote)
		if n < 0 {
			r.open.bound, r.open.uris = r.open.bound[:bound], r.open.uris[:uris]
			return true, nil
		}
		if a.value, err = r.attrs.value(&r.in, tag[i:i+n], i); err != nil {
			return false, err
		}
		i += n + 1
		if seen++; seen > r.in.lim.Attrs {
			return false, r.in.over("attributes in a tag", r.in.lim.Attrs)
		}
		switch {
		case string(a.prefix) == "xmlns":
			err = r.open.bind(&r.in, bound, a.at, a.local, a.value)
		case len(a.prefix) == 0 && string(a.local) == "xmlns":
			err = r.open.bind(&r.in, bound, a.at, nil, a.value)
		default:
			r.attrs.list = append(r.attrs.list, a)
		}
		if err != nil {
			return false, err
		}
	}
	if r.in.ascii && classify(tag)&isHigh != 0 {
		return false, r.in.fail(1, "byte beyond US-ASCII")
	}

	space, ok := r.open.lookup(prefix)
	if !ok || string(prefix) == "xmlns" {
		return false, r.in.failName(1, "undeclared namespace prefix", prefix)
	}
	if err := r.attrs.resolve(&r.in, &r.open); err != nil {
		return false, err
	}
	if len(r.open.stack) >= r.in.lim.Depth {
		return false, r.in.over("nested elements", r.in.lim.Depth)
	}
	r.open.rooted, r.open.stack = true, append(r.open.stack, frame{}) // to set it in place is faster than to copy it
	f := &r.open.stack[len(r.open.stack)-1]
	f.name, f.space, f.bound, f.uris = len(r.open.names), space, bound, uris
	r.open.names = append(r.open.names, tag[1:nameEnd]...)
	f.end = len(r.open.names)
	f.local = f.end - len(local)
	r.in.pos += len(tag)
	r.empty, r.kind, r.run = empty, Start, 0
	return false, nil
}

// resolve sets the namespaces of the attributes and rejects duplicates. That is quadratic, which Limits.Attrs
// bounds.
func (a *attributes) resolve(in *input, open *elements) error {
	for i := range a.list {
		x := &a.list[i]
		if len(x.prefix) > 0 {
			var ok bool
			if x.space, ok = open.lookup(x.prefix); !ok {
				return in.failName(x.at, "undeclared namespace prefix", x.prefix)
			}
		}
		for j := range i {
			y := &a.list[j]
			if bytes.Equal(x.local, y.local) && bytes.Equal(x.space, y.space) {
				return in.failName(x.at, "duplicate attribute", x.local)
			}
		}
	}
	return nil
}

// endTag reads the end tag at the beginning of the window.
func (r *Reader) endTag() error {
	in := &r.in
	n := r.plainEnd(in.window())
	if n == 0 {
		i, err := in.until(2, ">", "inside an end tag")
		if err != nil {
			return err
		}
		if i >= in.lim.Tag {
			return in.overTag()
		}
		tag := in.window()[:i+1]
		_, local, j := qname(tag, 2)
		if local == nil {
			return in.fail(j, "bad element name")
		}
		if skipBlank(tag, j) != i {
			return in.fail(j, "bad character in an end tag")
		}
		if open := r.open.last(); !bytes.Equal(tag[2:j], open) {
			return in.failName(0, "end tag does not match the open element", open)
		}
		n = i + 1
	}
	in.pos += n
	r.kind, r.run = End, 0
	return nil
}

// plainEnd returns the length of the end tag that b begins with, if it has no white space and ends the open element; else 0.
func (r *Reader) plainEnd(b []byte) int {
	open := r.open.last()
	if end := len("</") + len(open); len(b) > end && b[1] == '/' && b[end] == '>' && bytes.Equal(b[2:end], open) {
		return end + 1
	}
	return 0
}

// qname reads a name with or without a prefix at tag[i] and returns its end. local is nil if there is none;
// end is then the position of the fault.
func qname(tag []byte, i int) (prefix, local []byte, end int) {
	end = scanName(tag, i)
	if end == i {
		return nil, nil, i
	}
	if tag[end] != ':' {
		return nil, tag[i:end], end
	}
	colon := end
	end = scanName(tag, colon+1)
	if end == colon+1 || tag[end] == ':' {
		return nil, nil, end
	}
	return tag[i:colon], tag[colon+1 : end], end
}

// skipBlank returns the position of the first byte that is not white space; the last byte of b must be one.
func skipBlank(b []byte, i int) int {
	for blank(b[i]) {
		i++
	}
	return i
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
