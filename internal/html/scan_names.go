package html

import (
	"math/bits"
	"strings"
)

// A tag is an element that a Scanner treats specially.
type tag uint8

const (
	tagNone tag = iota
	tagA
	tagArea
	tagAudio
	tagBase
	tagBody
	tagDesc
	tagEmbed
	tagForeignObject
	tagFrame
	tagFrameset
	tagHTML
	tagIframe
	tagImg
	tagInput
	tagLink
	tagMeta
	tagNoscript
	tagObject
	tagPlaintext
	tagScript
	tagSource
	tagStyle
	tagSVG
	tagTemplate
	tagTextarea
	tagTitle
	tagTrack
	tagVideo
	tagXmp
)

// Traits of such elements, beside their tag.
type tagTraits uint8

const (
	blockTag  tagTraits = 1 << iota // ends a word
	headTag                         // does not begin the body
	rawTag                          // contains raw text, and no markup
	leavesTag                       // ends a drawing
)

func (t tagTraits) has(any tagTraits) bool { return t&any != 0 }

type attrID uint8

const (
	attrAlt attrID = iota
	attrContent
	attrData
	attrHidden
	attrHref
	attrHTTPEquiv
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
		}
	case 7:
		return attrContent, strings.EqualFold(string(name), "content")
	case 8:
		return attrXMLLang, strings.EqualFold(string(name), "xml:lang")
	case 10:
		return attrHTTPEquiv, strings.EqualFold(string(name), "http-equiv")
	}
	return 0, false
}

func pack3(name []byte) uint32 {
	return uint32(name[0]|0x20)<<16 | uint32(name[1]|0x20)<<8 | uint32(name[2]|0x20)
}

// pack returns a name of at most eight lower-case letters as a number.
func pack(name string) (n uint64) {
	for _, c := range []byte(name) {
		n = n<<8 | uint64(c)
	}
	return n
}

// longName returns a number for a name that is too long for pack: a unique one for a name that matters, else
// 0.
func longName(name []byte) uint64 {
	for i, s := range longNames {
		if len(name) == len(s) && strings.EqualFold(string(name), s) {
			return uint64(i + 1)
		}
	}
	return 0
}

var longNames = [...]string{"plaintext", "blockquote", "figcaption", "foreignobject"}

type knownElement struct {
	name   uint64
	tag    tag
	traits tagTraits
	wants  uint32 // attributes, as bits
	of     element
}

// elementOf returns the element for the parser of the main text.
func (e *knownElement) elementOf(name []byte) element {
	if e.name != 0 {
		return e.of
	}
	var buf [32]byte
	return elementOf(lower(buf[:0], name))
}

func lower(buf, name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		buf = append(buf, c)
	}
	return buf
}

// known returns the entry of a name, an empty one if there is none.
func known(name uint64) *knownElement {
	for at := hashName(name); ; at++ {
		if e := &knownElements[at&(len(knownElements)-1)]; e.name == name || e.name == 0 {
			return e
		}
	}
}

func hashName(name uint64) int {
	return int(bits.RotateLeft64(name*0x9e3779b97f4a7c15, 9) & (knownSize - 1))
}

const knownSize = 512

var knownElements = func() *[knownSize]knownElement {
	t := new([knownSize]knownElement)
	add := func(name string, is tag, traits tagTraits, wants ...attrID) {
		e := knownElement{name: pack(name), tag: is, traits: traits, of: elementOf([]byte(name))}
		if len(name) > 8 {
			e.name = longName([]byte(name))
		}
		for _, a := range wants {
			e.wants |= 1 << a
		}
		at := hashName(e.name)
		for t[at&(knownSize-1)].name != 0 {
			at++
		}
		t[at&(knownSize-1)] = e
	}
	add("a", tagA, 0, attrHref, attrRel)
	add("area", tagArea, 0, attrHref, attrRel)
	add("audio", tagAudio, 0, attrSrc)
	add("base", tagBase, headTag, attrHref)
	add("body", tagBody, blockTag|leavesTag)
	add("desc", tagDesc, 0)
	add("embed", tagEmbed, leavesTag, attrSrc)
	add("foreignobject", tagForeignObject, 0)
	add("frame", tagFrame, 0, attrSrc)
	add("frameset", tagFrameset, blockTag)
	add("head", tagNone, headTag|blockTag|leavesTag)
	add("html", tagHTML, headTag|blockTag, attrLang, attrXMLLang)
	add("iframe", tagIframe, rawTag, attrSrc)
	add("img", tagImg, leavesTag, attrSrc, attrAlt, attrSrcset)
	add("input", tagInput, 0, attrType, attrSrc)
	add("link", tagLink, headTag, attrHref, attrRel, attrType)
	add("meta", tagMeta, headTag|leavesTag, attrName, attrContent, attrHTTPEquiv)
	add("noembed", tagNone, rawTag)
	add("noframes", tagNone, rawTag)
	add("noscript", tagNoscript, headTag)
	add("object", tagObject, 0, attrData)
	add("plaintext", tagPlaintext, blockTag)
	add("script", tagScript, headTag, attrSrc)
	add("source", tagSource, 0, attrSrc, attrSrcset)
	add("style", tagStyle, headTag|rawTag)
	add("svg", tagSVG, 0)
	add("template", tagTemplate, headTag)
	add("textarea", tagTextarea, rawTag)
	add("title", tagTitle, rawTag|blockTag)
	add("track", tagTrack, 0, attrSrc)
	add("video", tagVideo, 0, attrSrc, attrPoster)
	add("xmp", tagXmp, rawTag|blockTag)
	for name := range strings.FieldsSeq("blockquote center dd div dl dt h1 h2 h3 h4 h5 h6 li menu ol p ul pre listing table br hr") {
		add(name, tagNone, blockTag|leavesTag)
	}
	for name := range strings.FieldsSeq("address article aside caption details dialog dir fieldset figcaption figure footer form header hgroup" +
		" legend main nav optgroup option search section summary tbody td tfoot th thead tr") {
		add(name, tagNone, blockTag)
	}
	for name := range strings.FieldsSeq("b big code em i nobr ruby s small span strong strike sub sup tt u var") {
		add(name, tagNone, leavesTag)
	}
	for name := range strings.FieldsSeq("abbr applet basefont bgsound button cite col colgroup datalist del dfn font ins kbd keygen label map mark marquee" +
		" param path picture q samp select time use wbr") {
		add(name, tagNone, 0) // so that they are found at once
	}
	return t
}()
