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

// startTag reads the start or empty-element tag at the beginning of the window.
func (r *Reader) startTag() error {
	// A > may occur in an attribute's value, but rarely does: look for the first, and only if a quote is then
	// open, for the real end of the tag.
	n := bytes.IndexByte(r.window(), '>') + 1
	if n > 0 && n <= r.lim.Tag {
		open, err := r.parseStart(r.window()[:n])
		if !open {
			return err
		}
	}
	n, err := r.tagEnd()
	if err != nil {
		return err
	}
	_, err = r.parseStart(r.window()[:n])
	return err
}

// tagEnd returns the length of the start tag at the beginning of the window. It examines every byte once,
// however slowly they arrive.
func (r *Reader) tagEnd() (int, error) {
	quote := byte(0)
	for i := 1; ; {
		b := r.window()
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
				return 0, r.fail(i-1, "< inside a tag")
			case '>':
				if i > r.lim.Tag {
					return 0, r.over("bytes in a tag", int64(r.lim.Tag))
				}
				return i, nil
			}
		}
		if len(b) > r.lim.Tag {
			return 0, r.over("bytes in a tag", int64(r.lim.Tag))
		}
		if !r.fill() {
			return 0, r.ended("inside a tag")
		}
	}
}

// parseStart parses a start tag, which ends with the > at the end of tag. open says that this > is inside a
// quoted value: then nothing is done.
func (r *Reader) parseStart(tag []byte) (open bool, err error) {
	var (
		bound = len(r.bound)
		uris  = len(r.uris)
		names = len(r.names)
		seen  = 0
		empty = false
		value []byte
	)
	r.attrs = r.attrs[:0]
	r.scratch = r.scratch[:0]

	prefix, local, i := qname(tag, 1)
	if local == nil {
		return false, r.fail(i, "bad element name")
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
			return false, r.fail(j, "bad character in a tag")
		}
		var a attr
		a.at = j
		if a.prefix, a.local, i = qname(tag, j); a.local == nil {
			return false, r.fail(i, "bad attribute name")
		}
		if i = skipBlank(tag, i); tag[i] != '=' {
			return false, r.failName(i, "no = after attribute", a.local)
		}
		i = skipBlank(tag, i+1)
		quote := tag[i]
		if quote != '"' && quote != '\'' {
			return false, r.failName(i, "no quoted value for attribute", a.local)
		}
		i++
		n := bytes.IndexByte(tag[i:], quote)
		if n < 0 {
			r.bound = r.bound[:bound]
			r.uris = r.uris[:uris]
			return true, nil
		}
		if value, err = r.attrValue(tag[i:i+n], i); err != nil {
			return false, err
		}
		i += n + 1
		if seen++; seen > r.lim.Attrs {
			return false, r.over("attributes in a tag", int64(r.lim.Attrs))
		}
		switch {
		case string(a.prefix) == "xmlns":
			err = r.bind(bound, a.at, a.local, value)
		case len(a.prefix) == 0 && string(a.local) == "xmlns":
			err = r.bind(bound, a.at, nil, value)
		default:
			a.value = value
			r.attrs = append(r.attrs, a)
		}
		if err != nil {
			return false, err
		}
	}
	if r.ascii && classify(tag)&isHigh != 0 {
		return false, r.fail(1, "byte beyond US-ASCII")
	}

	space, ok := r.lookup(prefix)
	if !ok || string(prefix) == "xmlns" {
		return false, r.failName(1, "undeclared namespace prefix", prefix)
	}
	if err := r.resolveAttrs(); err != nil {
		return false, err
	}
	if len(r.stack) >= r.lim.Depth {
		return false, r.over("nested elements", int64(r.lim.Depth))
	}
	r.names = append(r.names, tag[1:nameEnd]...)
	r.stack = append(r.stack, frame{
		name: names, end: len(r.names), prefix: len(prefix),
		space: space, bound: bound, uris: uris,
	})
	r.pos += len(tag)
	r.rooted = true
	r.empty = empty
	r.kind = Start
	r.text = nil
	r.run = 0
	return false, nil
}

// resolveAttrs sets the namespaces of the attributes and rejects duplicates. That is quadratic, which
// Limits.Attrs bounds.
func (r *Reader) resolveAttrs() error {
	for i := range r.attrs {
		a := &r.attrs[i]
		if len(a.prefix) > 0 {
			var ok bool
			if a.space, ok = r.lookup(a.prefix); !ok {
				return r.failName(a.at, "undeclared namespace prefix", a.prefix)
			}
		}
		for j := range i {
			b := &r.attrs[j]
			if bytes.Equal(a.local, b.local) && bytes.Equal(a.space, b.space) {
				return r.failName(a.at, "duplicate attribute", a.local)
			}
		}
	}
	return nil
}

// endTag reads the end tag at the beginning of the window.
func (r *Reader) endTag() error {
	f := &r.stack[len(r.stack)-1]
	open := r.names[f.name:f.end]
	if b := r.window(); len(b) < len(open)+3 || b[len(open)+2] != '>' || !bytes.Equal(b[2:len(open)+2], open) {
		i := r.until(2, ">", r.lim.Tag)
		if i < 0 && r.end-r.pos > r.lim.Tag || i >= r.lim.Tag {
			return r.over("bytes in a tag", int64(r.lim.Tag))
		}
		if i < 0 {
			return r.ended("inside an end tag")
		}
		tag := r.window()[:i+1]
		_, local, j := qname(tag, 2)
		if local == nil {
			return r.fail(j, "bad element name")
		}
		if skipBlank(tag, j) != i {
			return r.fail(j, "bad character in an end tag")
		}
		if !bytes.Equal(tag[2:j], open) {
			return r.failName(0, "end tag does not match the open element", open)
		}
		r.pos += i + 1
	} else {
		r.pos += len(open) + 3
	}
	r.leaving = true
	r.kind = End
	r.text = nil
	r.run = 0
	r.attrs = r.attrs[:0]
	return nil
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
