package html

import (
	"math/bits"
	"strings"
)

// Traits are the properties of an element that matter here.
type traits uint32

const (
	block     traits = 1 << iota // begins and ends a line
	cell                         // of a table: begins and ends a word
	apart                        // no block, but it separates words of the Content
	void                         // has no content
	special                      // the end tag of an inline element never ends it (HTML standard, 13.2.4.2)
	fence                        // an end tag in it never ends an element around it
	part                         // of a table
	unread                       // nothing in it is main text
	banner                       // the same, unless in an article or main
	article                      //
	mainText                     //
	pre                          // its line ends are kept
	raw                          // contains raw text, and no markup
	svg                          // names in it are SVG names
	markup                       // in SVG, its content is HTML
	leaves                       // in SVG, it ends the drawing
	leavesToo                    // the same for the main text alone: the standard lets it stay
	template                     // its content is not on the page yet
	heads                        // does not begin the body
	root                         // the page
)

func (t traits) has(any traits) bool { return t&any != 0 }

// A tag is an element, or a group of elements, that is treated specially.
type tag uint8

const (
	tagNone tag = iota
	tagA        // and area
	tagBase
	tagBody // and frameset
	tagBr
	tagButton
	tagCaption
	tagCell    // td, th
	tagDiv     // and address
	tagEmbed   // and other elements with embedded content
	tagForeign // foreignobject, desc
	tagForm
	tagFrame   // and iframe
	tagHeading // h1 to h6
	tagHTML
	tagImg
	tagInput
	tagLegend
	tagLi
	tagLink
	tagMeta
	tagNoscript
	tagObject
	tagOption // and optgroup
	tagP
	tagPlaintext
	tagRows // tbody, thead, tfoot
	tagScript
	tagSource
	tagStyle
	tagSVG
	tagTable
	tagTemplate
	tagTerm // dd, dt
	tagTextarea
	tagTitle
	tagTr
	tagVideo
	tagXmp
)

// in reports whether a tag is in a set, which has one bit per tag.
func (t tag) in(set uint64) bool { return set>>t&1 != 0 }

type attrID uint8

const (
	attrAlt attrID = iota
	attrContent
	attrData
	attrHidden
	attrHref
	attrHTTPEquiv
	attrItem // itemscope or typeof
	attrLang
	attrName
	attrPoster
	attrRel
	attrRole
	attrSrc
	attrSrcset
	attrType
	attrXMLLang
	attrs
)

// attrOf returns the attribute with a name.
func attrOf(name []byte) (attrID, bool) {
	switch len(name) {
	case 3:
		switch pack3(name) {
		case 'a'<<16 | 'l'<<8 | 't':
			return attrAlt, true
		case 'r'<<16 | 'e'<<8 | 'l':
			return attrRel, true
		case 's'<<16 | 'r'<<8 | 'c':
			return attrSrc, true
		}
	case 4:
		switch uint32(name[3]|0x20) | pack3(name)<<8 {
		case 'h'<<24 | 'r'<<16 | 'e'<<8 | 'f':
			return attrHref, true
		case 'r'<<24 | 'o'<<16 | 'l'<<8 | 'e':
			return attrRole, true
		case 'n'<<24 | 'a'<<16 | 'm'<<8 | 'e':
			return attrName, true
		case 't'<<24 | 'y'<<16 | 'p'<<8 | 'e':
			return attrType, true
		case 'l'<<24 | 'a'<<16 | 'n'<<8 | 'g':
			return attrLang, true
		case 'd'<<24 | 'a'<<16 | 't'<<8 | 'a':
			return attrData, true
		}
	case 6:
		if strings.EqualFold(string(name), "srcset") {
			return attrSrcset, true
		} else if strings.EqualFold(string(name), "poster") {
			return attrPoster, true
		} else if strings.EqualFold(string(name), "hidden") {
			return attrHidden, true
		} else if strings.EqualFold(string(name), "typeof") {
			return attrItem, true
		}
	case 7:
		return attrContent, strings.EqualFold(string(name), "content")
	case 8:
		return attrXMLLang, strings.EqualFold(string(name), "xml:lang")
	case 9:
		return attrItem, strings.EqualFold(string(name), "itemscope")
	case 10:
		return attrHTTPEquiv, strings.EqualFold(string(name), "http-equiv")
	}
	return 0, false
}

func pack3(name []byte) uint32 {
	return uint32(name[0]|0x20)<<16 | uint32(name[1]|0x20)<<8 | uint32(name[2]|0x20)
}

// An element is what is known of a tag by its name. Of most it is only the name, as packed by nameOf.
type element struct {
	name uint64
	traits
	wants uint16 // attributes, as bits
	tag   tag
}

// nameOf returns the number of a name, which no other short name has: up to eight lower-case letters are
// packed, and a longer name is hashed.
func nameOf[T string | []byte](name T) (n uint64) {
	if len(name) > 8 {
		n = 14695981039346656037 // FNV-1a
		for i := range len(name) {
			n = (n ^ uint64(nameByte[name[i]])) * 1099511628211
		}
		return n | 1<<63
	}
	for i := range len(name) {
		n = n<<8 | uint64(nameByte[name[i]])
	}
	return n
}

// elementOf returns the element with a name.
func elementOf(name uint64) element {
	for at := slot(name); ; at++ {
		if e := &elements[at&(len(elements)-1)]; e.name == name {
			return *e
		} else if e.name == 0 {
			return element{name: name}
		}
	}
}

// slot returns where in elements to look for a name first.
func slot(name uint64) int {
	return int(bits.RotateLeft64(name*0x9e3779b97f4a7c15, 9) & (slots - 1))
}

const slots = 512

// elements is a table with open addressing.
var elements = func() *[slots]element {
	t := new([slots]element)
	add := func(names string, is tag, traits traits, wants ...attrID) {
		for name := range strings.FieldsSeq(names) {
			e := element{name: nameOf(name), tag: is, traits: traits}
			for _, a := range wants {
				e.wants |= 1 << a
			}
			at := slot(e.name)
			for t[at&(slots-1)].name != 0 {
				at++
			}
			t[at&(slots-1)] = e
		}
	}
	add("html", tagHTML, root|block|leavesToo|heads, attrLang, attrXMLLang)
	add("head", tagNone, root|apart|leaves|heads)
	add("body", tagBody, root|block|leaves)
	add("frameset", tagBody, apart)

	add("base", tagBase, void|heads, attrHref)
	add("link", tagLink, void|heads, attrHref, attrRel, attrType)
	add("meta", tagMeta, void|leaves|heads, attrName, attrContent, attrHTTPEquiv)
	add("title", tagTitle, unread|special|raw|apart)
	add("style", tagStyle, unread|special|raw|heads)
	add("script", tagScript, unread|special|heads, attrSrc)
	add("noscript", tagNoscript, unread|special|heads)
	add("template", tagTemplate, unread|template|special|fence|heads)

	add("main", tagNone, mainText|block|special)
	add("article", tagNone, article|block|special)
	add("header footer", tagNone, banner|block|special)
	add("nav aside", tagNone, unread|block|special)
	add("address", tagDiv, block|special)
	add("div", tagDiv, block|special|leaves)
	add("p", tagP, block|special|leaves)
	add("h1 h2 h3 h4 h5 h6", tagHeading, block|special|leaves)
	add("li", tagLi, block|special|leaves)
	add("dd dt", tagTerm, block|special|leaves)
	add("form", tagForm, block|special)
	add("legend", tagLegend, block|special)
	add("option optgroup", tagOption, block|special)
	add("blockquote center dl menu ol ul", tagNone, block|special|leaves)
	add("details dialog dir fieldset figcaption figure hgroup search section summary", tagNone, block|special)
	add("pre listing", tagNone, pre|block|special|leaves)
	add("xmp", tagXmp, pre|block|special|raw|leavesToo)
	add("plaintext", tagPlaintext, pre|block|special|leavesToo)

	add("table", tagTable, block|special|fence|part|leaves)
	add("caption", tagCaption, block|special|fence|part)
	add("tbody tfoot thead", tagRows, block|special|part)
	add("tr", tagTr, block|special|part)
	add("td th", tagCell, cell|special|fence|part)

	add("button", tagButton, unread|special)
	add("select", tagNone, unread|special)
	add("datalist", tagNone, unread)
	add("textarea", tagTextarea, unread|special|raw)
	add("noembed noframes", tagNone, unread|special|raw)
	add("iframe", tagFrame, unread|special|raw, attrSrc)
	add("frame", tagFrame, void, attrSrc)
	add("object", tagObject, special|fence, attrData)
	add("applet marquee", tagNone, special|fence)
	add("svg", tagSVG, unread|svg)
	add("foreignobject desc", tagForeign, markup)

	add("a", tagA, 0, attrHref, attrRel)
	add("area", tagA, void, attrHref, attrRel)
	add("br", tagBr, block|void|leaves)
	add("hr", tagNone, block|void|leaves)
	add("img", tagImg, void|leaves, attrSrc, attrAlt, attrSrcset)
	add("input", tagInput, void, attrType, attrSrc)
	add("embed", tagEmbed, void|leaves, attrSrc)
	add("audio", tagEmbed, 0, attrSrc)
	add("track", tagEmbed, void, attrSrc)
	add("source", tagSource, void, attrSrc, attrSrcset)
	add("video", tagVideo, 0, attrSrc, attrPoster)
	add("basefont bgsound col keygen param wbr", tagNone, void)
	add("b big code em i nobr ruby s small span strong strike sub sup tt u var", tagNone, leaves)
	add("abbr cite colgroup del dfn font ins kbd label map mark path picture q samp time use", tagNone, 0) // so that they are found at once
	return t
}()

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
