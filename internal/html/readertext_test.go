package html_test

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
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
	stack []frame // the first stands for the page
	over  int     // open special elements beyond the limit of the stack

	out  []byte
	rank rank // of the place that out is from
	gap  byte // separator between out and the next word: none, a space or a newline
}

func newText() text {
	return text{stack: append(make([]frame, 0, 32), frame{element: element{traits: root | special | fence}})}
}

func (t *text) top() *frame { return &t.stack[len(t.stack)-1] }

// start handles a start tag. It reports whether the tag is inside SVG.
func (t *text) start(e element, a *attributes, closed bool) (inSVG bool) {
	if t.top().svg && e.has(leaves) {
		t.leaveSVG()
	}
	if !t.top().svg {
		t.endImplied(e)
	}
	t.breakAt(e)
	in := *t.top()
	own := e.traits | roleTraits(a.role)
	if a.hidden != nil && !strings.EqualFold(string(a.hidden), "until-found") {
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
		t.stack = append(t.stack, in.with(element{e.name, own}, own))
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
	heading := isHeading(e.name)
	for i := len(t.stack) - 1; i > 0; i-- {
		f := t.stack[i]
		switch {
		case f.name == e.name && atom.Atom(e.name) == atom.Form:
			for isItem(t.top().name) {
				t.pop(len(t.stack) - 1)
			}
			t.stack = slices.Delete(t.stack, i, i+1) // other elements opened in it stay open
			t.breakAt(e)
			return
		case f.name == e.name || heading && isHeading(f.name):
			t.pop(i)
			return
		case !e.has(special) && f.has(special), f.has(fence) && (!e.has(part) || !f.has(part) || atom.Atom(f.name) == atom.Table):
			i = 0
		}
	}
	switch atom.Atom(e.name) {
	case atom.P, atom.Br: // an empty one
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
	switch atom.Atom(e.name) {
	case atom.Td, atom.Th:
		t.endParts(atom.Td, atom.Th)
		switch atom.Atom(t.top().name) {
		case atom.Table, atom.Tbody, atom.Thead, atom.Tfoot: // the omitted row
			t.start(element{name(atom.Tr), traitsOf(atom.Tr)}, &attributes{}, false)
		}
	case atom.Tr:
		t.endParts(atom.Td, atom.Th, atom.Tr, atom.Caption)
	case atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption:
		t.endParts(atom.Td, atom.Th, atom.Tr, atom.Caption, atom.Tbody, atom.Thead, atom.Tfoot)
	case atom.Li:
		t.endItem(atom.Li, atom.Li)
	case atom.Dd, atom.Dt:
		t.endItem(atom.Dd, atom.Dt)
	case atom.Button:
		t.end(e)
	}
	if isHeading(e.name) && isHeading(t.top().name) {
		t.pop(len(t.stack) - 1)
	}
	if !e.has(block) || e.has(part) && atom.Atom(e.name) != atom.Table {
		return
	}
	switch atom.Atom(e.name) {
	case atom.Legend, atom.Option, atom.Optgroup, atom.Br:
		return
	}
	for i := len(t.stack) - 1; i > 0; i-- { // a paragraph
		switch f := &t.stack[i]; {
		case atom.Atom(f.name) == atom.P:
			t.pop(i)
			return
		case f.has(fence) || atom.Atom(f.name) == atom.Button:
			return
		}
	}
}

// endParts ends all open parts with these names in the innermost table.
func (t *text) endParts(names ...atom.Atom) {
	for i := len(t.stack) - 1; i > 0; i-- {
		f := &t.stack[i]
		if a := atom.Atom(f.name); a == atom.Table || a == atom.Template {
			return
		} else if slices.Contains(names, a) {
			t.pop(i)
		}
	}
}

// endItem ends a list item when the next one begins.
func (t *text) endItem(a, b atom.Atom) {
	for i := len(t.stack) - 1; i > 0; i-- {
		f := &t.stack[i]
		switch n := atom.Atom(f.name); {
		case n == a || n == b:
			t.pop(i)
			return
		case f.has(special) && n != atom.Address && n != atom.Div && n != atom.P:
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

func isHeading(n name) bool {
	switch atom.Atom(n) {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// isItem reports whether the end tag of an element may be omitted.
func isItem(n name) bool {
	switch atom.Atom(n) {
	case atom.P, atom.Li, atom.Dd, atom.Dt, atom.Option, atom.Optgroup:
		return true
	}
	return false
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

// words adds text at the current position.
func (t *text) words(b []byte) {
	in := t.top()
	if in.unread || in.rank < t.rank {
		return
	}
	for len(b) > 0 {
		if n := space(b); n > 0 {
			if (b[0] == '\n' || b[0] == '\r') && in.pre {
				t.gap = '\n'
			} else if t.gap == 0 {
				t.gap = ' '
			}
			b = b[n:]
			continue
		}
		n := 1
		for n < len(b) && (b[n] > ' ' && b[n] < 0x7f || space(b[n:]) == 0) {
			n++
		}
		t.word(b[:n], in.rank)
		b = b[n:]
	}
}

func (t *text) word(w []byte, from rank) {
	if from > t.rank {
		t.out, t.rank = t.out[:0], from
	}
	if t.gap != 0 && len(t.out) > 0 {
		t.out = append(t.out, t.gap)
	}
	t.out, t.gap = append(t.out, w...), 0
}

// space returns the length of the white space or control character that b
// begins with, and 0 if it begins with none.
func space(b []byte) int {
	switch c := b[0]; {
	case c <= ' ' || c == 0x7f:
		return 1
	case c == 0xc2 || c == 0xe1 || c == 0xe2 || c == 0xe3: // first bytes of the others in Unicode
		if r, n := utf8.DecodeRune(b); unicode.IsSpace(r) || unicode.IsControl(r) {
			return n
		}
	}
	return 0
}

// Traits are the properties of an element that matter here.
type traits uint32

const (
	block    traits = 1 << iota // begins and ends a line
	cell                        // of a table: begins and ends a word
	void                        // has no content
	special                     // the end tag of an inline element never ends it (HTML standard, 13.2.4.2)
	fence                       // an end tag in it never ends an element around it
	part                        // of a table
	unread                      // nothing in it is main text
	banner                      // the same, unless in an article or main
	article                     //
	mainText                    //
	pre                         // its line ends are kept
	svg                         // names in it are SVG names
	markup                      // in SVG, its content is HTML
	leaves                      // in SVG, it ends the drawing
	template                    // its content is not on the page yet
	root                        // the page
	says                        // its attributes carry information
	leads                       // its attributes hold a link
)

func (t traits) has(any traits) bool { return t&any != 0 }

// A name is the atom of an element's name or, if it has none, a hash of the name with the highest bit set.
type name uint32

// An element is the name and the traits of a tag.
type element struct {
	name name
	traits
}

func elementOf(tag []byte) element {
	a := atom.Lookup(tag)
	if a == 0 {
		h := uint32(2166136261) // FNV-1a
		for _, c := range tag {
			h = (h ^ uint32(c)) * 16777619
		}
		return element{name(h | 1<<31), 0}
	}
	return element{name(a), traitsOf(a)}
}

func traitsOf(a atom.Atom) traits {
	switch a {
	case atom.Html:
		return root | block | leaves | says
	case atom.Body:
		return root | block | leaves
	case atom.Head:
		return root | leaves
	case atom.Main:
		return mainText | block | special
	case atom.Article:
		return article | block | special
	case atom.Header, atom.Footer:
		return banner | block | special
	case atom.Nav, atom.Aside:
		return unread | block | special
	case atom.Button, atom.Select:
		return unread | special
	case atom.Datalist:
		return unread
	case atom.Iframe:
		return unread | special | leads
	case atom.Textarea, atom.Noembed, atom.Noframes, atom.Noscript, atom.Script, atom.Style, atom.Title:
		return unread | special
	case atom.Svg:
		return unread | svg
	case atom.Foreignobject, atom.ForeignObject, atom.Desc:
		return markup
	case atom.Template:
		return unread | template | special | fence
	case atom.Address, atom.Details, atom.Dialog, atom.Dir, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Form, atom.Hgroup,
		atom.Legend, atom.Optgroup, atom.Option, atom.Search, atom.Section, atom.Summary:
		return block | special
	case atom.Blockquote, atom.Center, atom.Dd, atom.Div, atom.Dl, atom.Dt, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6,
		atom.Li, atom.Menu, atom.Ol, atom.P, atom.Ul:
		return block | special | leaves
	case atom.Pre, atom.Listing, atom.Xmp, atom.Plaintext:
		return pre | block | special | leaves
	case atom.Table:
		return block | special | fence | part | leaves
	case atom.Caption:
		return block | special | fence | part
	case atom.Tbody, atom.Tfoot, atom.Thead, atom.Tr:
		return block | special | part
	case atom.Td, atom.Th:
		return cell | special | fence | part
	case atom.Object, atom.Applet, atom.Marquee:
		return special | fence
	case atom.Br, atom.Hr:
		return block | void | leaves
	case atom.Img, atom.Meta:
		return void | leaves | says
	case atom.Embed:
		return void | leaves
	case atom.Base, atom.Link:
		return void | says
	case atom.A:
		return leads
	case atom.Area, atom.Frame:
		return void | leads
	case atom.Basefont, atom.Bgsound, atom.Col, atom.Input, atom.Keygen, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return void
	case atom.B, atom.Big, atom.Code, atom.Em, atom.I, atom.Nobr, atom.Ruby, atom.S, atom.Small, atom.Span, atom.Strong, atom.Strike,
		atom.Sub, atom.Sup, atom.Tt, atom.U, atom.Var:
		return leaves
	}
	return 0
}

// roleTraits returns the traits that a role gives to an element (WAI-ARIA 1.2, section 5.3.4).
func roleTraits(role []byte) traits {
	if role == nil {
		return 0
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(role)), " ")
	switch strings.ToLower(first) {
	case "main":
		return mainText
	case "article":
		return article
	case "banner", "contentinfo":
		return banner
	case "navigation", "complementary", "search":
		return unread
	}
	return 0
}
