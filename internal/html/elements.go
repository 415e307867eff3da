package html

import (
	"strings"

	"golang.org/x/net/html/atom"
)

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
