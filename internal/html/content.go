package html

import "bytes"

// A content is a page without markup, comments, scripts and styles. Two pages with the same words differ only
// in presentation.
type content struct {
	Words []byte // separated by single spaces, and the target of each link or image between two bytes 1
	gap   bool   // a space is due before the next word
}

// text adds the text at i of a page, and returns its end.
func (c *content) text(p []byte, i int) int {
	out, gap := c.Words, c.gap
	for i < len(p) {
		from := i
		for i < len(p) && byteClass[p[i]]&noWord == 0 {
			i++
		}
		if i > from {
			if gap && len(out) > 0 {
				out = append(out, ' ')
			}
			gap = false
			out = append(out, p[from:i]...)
			if i == len(p) {
				break
			}
		}
		if b := p[i]; b == '<' {
			break
		} else if b == '&' {
			n := entityEnd(p[i:])
			c.Words, c.gap = out, gap
			c.entity(p[i : i+n])
			out, gap = c.Words, c.gap
			i += n
		} else {
			gap = true
			i++
		}
	}
	c.Words, c.gap = out, gap
	return i
}

// words adds text without markup.
func (c *content) words(b []byte, entities bool) {
	for i := 0; i < len(b); {
		from := i
		for i < len(b) && (byteClass[b[i]]&noWord == 0 || b[i] == '<' || b[i] == '&' && !entities) {
			i++
		}
		if i > from {
			c.word(b[from:i])
			continue
		}
		if b[i] == '&' {
			n := entityEnd(b[i:])
			c.entity(b[i : i+n])
			i += n
			continue
		}
		c.gap = true
		i++
	}
}

func (c *content) word(w []byte) {
	if c.gap && len(c.Words) > 0 {
		c.Words = append(c.Words, ' ')
	}
	c.gap = false
	c.Words = append(c.Words, w...)
}

// entity adds the text of an entity, or of what only looks like one.
func (c *content) entity(b []byte) {
	var buf [16]byte
	c.words(appendDecoded(buf[:0], b, inText), false)
}

// target adds the target of a link or an image.
func (c *content) target(ref []byte) {
	if ref, _, _ = bytes.Cut(ref, []byte{'#'}); len(ref) > 0 {
		c.Words = append(append(append(c.Words, 1), ref...), 1)
	}
}
