package html

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A rank is the quality of a place for main text: text in a better place replaces text from worse ones.
type rank uint8

const (
	inBody rank = iota
	inArticle
	inMain
)

// A frame is an open element, with the state that applies to the text in it.
type frame struct {
	element
	rank
	unread   bool // nothing in it is main text
	pre      bool
	svg      bool // names in it are SVG names
	template bool // it is inside one
}

// maxDepth bounds the stack. Content nested deeper belongs to the innermost element on the stack.
const maxDepth = 512

// Text gathers the main text of a page. It tracks open elements much as a browser does (HTML standard,
// section 13.2.6), but keeps only those that matter here: an inline element is kept if it is hidden, has a
// role that matters, or is inside a kept inline element.
type text struct {
	Lines []byte // without a final newline

	rank rank // of the place that the lines are from
	gap  byte // separator between them and the next word: none, a space or a newline

	stack []frame // the first stands for the page
	over  int     // open special elements beyond the limit of the stack
}

// reset prepares for another page and reuses the memory.
func (t *text) reset() {
	if t.stack == nil {
		t.stack = make([]frame, 0, 32)
	}
	t.stack = append(t.stack[:0], frame{element: element{traits: root | special | fence}})
	t.over, t.Lines, t.rank, t.gap = 0, t.Lines[:0], inBody, 0
}

func (t *text) top() *frame { return &t.stack[len(t.stack)-1] }

// start handles a start tag, given two of its attributes. It reports whether the tag is inside SVG.
func (t *text) start(e element, role, hidden []byte, closed bool) (inSVG bool) {
	if t.top().svg && e.has(leaves|leavesToo) {
		t.leaveSVG()
	}
	if !t.top().svg {
		t.endImplied(e)
	}
	t.breakAt(e)
	in := *t.top()
	own := e.traits | roleTraits(role)
	if hidden != nil && !strings.EqualFold(string(hidden), "until-found") {
		own |= unread
	}
	matters := own.has(special|unread|banner|article|mainText) || !in.has(special)
	switch {
	case e.has(root):
		t.stack[0] = t.stack[0].with(t.stack[0].element, own)
	case closed || e.has(void) || !matters:
	case len(t.stack) == maxDepth:
		if e.has(special) {
			t.over++
		}
	default:
		e.traits = own
		t.stack = append(t.stack, in.with(e, own))
	}
	return in.svg
}

// with returns the frame of an element with these traits, opened inside f.
func (f frame) with(e element, own traits) frame {
	f.element = e
	f.unread = f.unread || own.has(unread) || own.has(banner) && f.rank == inBody
	f.pre = f.pre || own.has(pre)
	f.svg = own.has(svg) || f.svg && !own.has(markup)
	f.template = f.template || own.has(template)
	if own.has(mainText) {
		f.rank = inMain
	} else if own.has(article) {
		f.rank = max(f.rank, inArticle)
	}
	return f
}

// end handles an end tag. It ends the innermost element of its name, and all elements open in it, unless a
// fence stands between.
func (t *text) end(e element) {
	switch {
	case e.has(root):
		return
	case t.over > 0 && e.has(special):
		t.over--
		return
	}
	for i := len(t.stack) - 1; i > 0; i-- {
		f := t.stack[i]
		switch {
		case f.name == e.name && e.tag == tagForm:
			for t.top().tag.in(1<<tagP | 1<<tagLi | 1<<tagTerm | 1<<tagOption) { // the end tags that may be omitted
				t.pop(len(t.stack) - 1)
			}
			t.stack = slices.Delete(t.stack, i, i+1) // other elements opened in it stay open
			t.breakAt(e)
			return
		case f.name == e.name || e.tag == tagHeading && f.tag == tagHeading:
			t.pop(i)
			return
		case !e.has(special) && f.has(special), f.has(fence) && (!e.has(part) || !f.has(part) || f.tag == tagTable):
			i = 0
		}
	}
	if e.tag == tagP || e.tag == tagBr { // an empty one
		t.breakAt(e)
	}
}

// pop ends all but the n outermost open elements.
func (t *text) pop(n int) {
	for len(t.stack) > n {
		e := t.top().element
		t.stack = t.stack[:len(t.stack)-1]
		t.breakAt(e)
	}
}

// endImplied ends elements whose end tag is omitted because e begins, and begins omitted elements that e must
// be in.
func (t *text) endImplied(e element) {
	switch e.tag {
	case tagCell:
		t.endParts(1 << tagCell)
		if t.top().tag.in(1<<tagTable | 1<<tagRows) {
			t.start(elementOf(nameOf("tr")), nil, nil, false) // the omitted row
		}
	case tagTr:
		t.endParts(1<<tagCell | 1<<tagTr | 1<<tagCaption)
	case tagRows, tagCaption:
		t.endParts(1<<tagCell | 1<<tagTr | 1<<tagCaption | 1<<tagRows)
	case tagLi, tagTerm:
		t.endItem(e.tag)
	case tagButton:
		t.end(e)
	}
	if e.tag == tagHeading && t.top().tag == tagHeading {
		t.pop(len(t.stack) - 1)
	}
	if !e.has(block) || e.has(part) && e.tag != tagTable || e.tag.in(1<<tagLegend|1<<tagOption|1<<tagBr) {
		return
	}
	for i := len(t.stack) - 1; i > 0; i-- { // a paragraph
		switch f := &t.stack[i]; {
		case f.tag == tagP:
			t.pop(i)
			return
		case f.has(fence) || f.tag == tagButton:
			return
		}
	}
}

// endParts ends all open parts with these tags, as bits, in the innermost table.
func (t *text) endParts(tags uint64) {
	for i := len(t.stack) - 1; i > 0; i-- {
		if is := t.stack[i].tag; is.in(1<<tagTable | 1<<tagTemplate) {
			return
		} else if is.in(tags) {
			t.pop(i)
		}
	}
}

// endItem ends a list item when the next one begins.
func (t *text) endItem(item tag) {
	for i := len(t.stack) - 1; i > 0; i-- {
		switch f := &t.stack[i]; {
		case f.tag == item:
			t.pop(i)
			return
		case f.has(special) && f.tag != tagDiv && f.tag != tagP:
			return
		}
	}
}

// leaveSVG ends an unclosed drawing in which an HTML element begins.
func (t *text) leaveSVG() {
	for t.top().svg {
		t.pop(len(t.stack) - 1)
	}
}

// breakAt ends a line or a word where an element begins or ends.
func (t *text) breakAt(e element) {
	switch {
	case e.has(root), t.top().unread:
	case e.has(block):
		t.gap = '\n'
	case e.has(cell) && t.gap == 0:
		t.gap = ' '
	}
}

// reads reports whether text at the current position is part of the lines.
func (t *text) reads() bool { return !t.top().unread && t.top().rank >= t.rank }

// words adds text at the current position.
func (t *text) words(b []byte) {
	if t.reads() {
		t.run(b, gaps)
	}
}

// run adds text at the current position, and returns its end: that of b, or the first "<" or "&" if ends has noWord beside gaps. The
// position must be one that reads.
func (t *text) run(b []byte, ends uint8) int {
	rank, inPre := t.top().rank, t.top().pre
	out, gap := t.Lines, t.gap
	i := 0
	for i < len(b) {
		from, n := i, 0
		for ; i < len(b); i++ {
			if byteClass[b[i]]&ends == 0 {
				continue
			}
			if b[i] == ' ' && i > from && i+1 < len(b) && byteClass[b[i+1]]&ends == 0 {
				continue // words separated as they will be are copied together
			}
			if n = space(b[i:]); n > 0 {
				break
			}
		}
		if i > from {
			if rank > t.rank {
				out, t.rank = out[:0], rank
			}
			if gap != 0 && len(out) > 0 {
				out = append(out, gap)
			}
			out, gap = append(out, b[from:i]...), 0
		}
		if i == len(b) || ends&noWord != 0 && (b[i] == '<' || b[i] == '&') {
			break
		}
		if (b[i] == '\n' || b[i] == '\r') && inPre {
			gap = '\n'
		} else if gap == 0 {
			gap = ' '
		}
		i += n
	}
	t.Lines, t.gap = out, gap
	return i
}

// space returns the length of the white space or control character that b begins with, and 0 if it begins
// with none. Its first byte has the class gaps or noWord; it may be a "<" or "&".
func space(b []byte) int {
	if b[0] <= 0x7f {
		return 1
	}
	if r, n := utf8.DecodeRune(b); unicode.IsSpace(r) || unicode.IsControl(r) {
		return n
	}
	return 0
}
