package html

import (
	"bytes"
	"hash/maphash"
	"time"
)

// A Scanner extracts what a crawler needs from a page, several times as fast as Read. It finds the tags that
// Read finds, in one pass over the bytes. It reuses its memory: results other than strings are valid until
// the next Scan. It takes time linear in the size of a page, and memory of about its size. It is not safe for
// concurrent use.
type Scanner struct {
	// Agent is a name whose <meta> applies to us, beside "robots" and "parley". May be empty.
	Agent string

	// Charset is the charset in the next page's Content-Type, empty if none. Only the title needs it.
	Charset string

	// Embedded asks for references to embedded resources, too.
	Embedded bool

	// Contents asks for Content, and MainText for Text.
	Contents, MainText bool

	// Title and Language are those of a Page.
	Title, Language string

	// NoIndex and NoFollow are the directives of <meta name="robots">, or of a meta that applies to us,
	// before any <body>.
	NoIndex, NoFollow bool

	// UnavailableAfter is that of a Page.
	UnavailableAfter time.Time

	// Base and Canonical are references as written; nil if there are none.
	Base, Canonical []byte

	// Refs are the page's references, each once, in page order. Those in a <template> are left out, those in
	// a <noscript> are not: a crawler runs no scripts. There are at most MaxLinks.
	Refs []Ref

	// Content is the page without markup, comments, scripts and styles: words separated by single spaces, and
	// the target of each link or image between two bytes 1. Two pages with the same Content differ only in
	// presentation.
	Content []byte

	// Text is the main text, as Read returns it.
	Text []byte

	// Torn says that a quote was never closed, which would lose the rest of the page: such values end with
	// their tag.
	Torn bool

	page []byte
	attr [attrs][]byte // of the last tag read, undecoded
	has  uint32        // which of them it has, as bits

	noQuote [2]bool  // there is no such quote in the rest of the page: '"', '\''
	decoded []byte   // memory of decoded references and values
	seen    []uint32 // open addressing: 1 + the number of a reference
	hashes  []uint32 // of the references
	seed    maphash.Seed
	size    int // of Refs, in bytes

	inHead, inBody, titled, html bool // see reader
	metaLanguage                 string

	main text // if MainText is asked for

	templates int  // number of open ones
	noscript  bool // one is open
	svg       svgState
	mute      uint64 // the element in a drawing whose text is ignored; 0 if there is none
	gap       bool   // a space is due between Content and the next word
}

type svgState uint8

const (
	noDrawing svgState = iota
	inDrawing
	inForeign // HTML in a drawing
)

// Scan reads a page. See Read for its encodings.
func (s *Scanner) Scan(page []byte) {
	s.reset(toUTF8(page))
	for i := 0; i < len(s.page); {
		if i = s.text(i); i < len(s.page) {
			i = s.markup(i)
		}
	}
	if s.Language == "" {
		s.Language = s.metaLanguage
	}
	s.Text = s.main.out
}

func (s *Scanner) reset(page []byte) {
	s.Title, s.Language, s.metaLanguage, s.NoIndex, s.NoFollow, s.Torn = "", "", "", false, false, false
	s.UnavailableAfter = time.Time{}
	s.Base, s.Canonical, s.Refs, s.Content = nil, nil, s.Refs[:0], s.Content[:0]
	s.page, s.decoded, s.hashes, s.size, s.has, s.noQuote = page, s.decoded[:0], s.hashes[:0], 0, 0, [2]bool{}
	s.inHead, s.inBody, s.titled, s.html = true, false, false, false
	s.templates, s.noscript, s.svg, s.mute, s.gap = 0, false, noDrawing, 0, false
	s.main.reset()
	if s.seen == nil {
		s.seen, s.seed = make([]uint32, firstSeen), maphash.MakeSeed()
	}
	s.seen = s.seen[:firstSeen]
	clear(s.seen)
}

// markup handles the markup that begins with the "<" at i, and returns its end.
func (s *Scanner) markup(i int) int {
	p := s.page
	if i+1 == len(p) {
		return s.literal(i, 1)
	}
	switch c := p[i+1]; {
	case letter(c):
		return s.startTag(i + 1)
	case c == '/':
		if i+2 < len(p) && letter(p[i+2]) {
			return s.endTag(i + 2)
		}
		if i+2 == len(p) {
			return s.literal(i, 2)
		}
		return s.after('>', i+2)
	case c == '!':
		if bytes.HasPrefix(p[i+2:], []byte("--")) {
			return s.comment(i + 4)
		}
		return s.after('>', i+2)
	case c == '?':
		return s.after('>', i+2)
	}
	return s.literal(i, 1)
}

// literal adds n bytes, "<" or "</", that begin no markup.
func (s *Scanner) literal(i, n int) int {
	if s.reads() {
		s.word(s.page[i : i+n])
	}
	if s.MainText && !s.noscript {
		s.main.words(s.page[i : i+n])
	}
	return i + n
}

func (s *Scanner) endTag(i int) int {
	from := i
	name, i := s.tagName(i)
	to := i
	i, _, ok := s.attributes(i, 0)
	if !ok {
		return i
	}
	e := known(name)
	if s.MainText && (!s.noscript || e.tag == tagNoscript) {
		s.main.end(e.elementOf(s.page[from:to]))
	}
	if e.traits.has(blockTag) {
		s.gap = true
	}
	switch e.tag {
	case tagTemplate:
		s.templates = max(0, s.templates-1)
	case tagNoscript:
		s.noscript = false
	case tagSVG:
		s.svg, s.mute = noDrawing, 0
	case tagForeignObject, tagDesc:
		if s.svg == inForeign {
			s.svg = inDrawing
		}
	}
	if name == s.mute {
		s.mute = 0
	}
	return i
}

// startTag handles the tag whose name is at i, and returns the end of the tag and its raw text: for a script,
// the position of its end tag.
func (s *Scanner) startTag(i int) int {
	from := i
	name, i := s.tagName(i)
	to := i
	e := known(name)
	wants := e.wants
	if s.MainText {
		wants |= 1<<attrRole | 1<<attrHidden
	}
	i, closed, ok := s.attributes(i, wants)
	if !ok {
		return i
	}
	if e.traits.has(leavesTag) && s.svg == inDrawing {
		s.svg, s.mute = noDrawing, 0
	}
	hidden := s.templates > 0 || s.noscript
	inTitle := false
	switch {
	case e.tag == tagBody || e.tag == tagFrameset:
		s.inHead, s.titled, s.inBody, s.noscript = false, true, true, false
	case e.tag == tagTitle:
		if !hidden {
			inTitle = !s.titled && !closed
			s.titled = true
		}
	case !e.traits.has(headTag) && !hidden:
		s.inHead, s.titled = false, true // a drawing in the body may have a title
	}
	if e.traits.has(blockTag) {
		s.gap = true
	}
	if e.wants != 0 {
		s.take(e.tag, hidden)
	}
	if s.MainText && !s.noscript {
		s.main.start(e.elementOf(s.page[from:to]), &attributes{role: s.value(attrRole), hidden: s.value(attrHidden)}, closed)
		if e.tag == tagImg {
			s.main.words(s.value(attrAlt))
		}
	}
	switch {
	case closed:
		return i
	case s.svg == inDrawing:
		switch e.tag {
		case tagForeignObject, tagDesc:
			s.svg = inForeign
		case tagScript, tagStyle:
			s.mute = name
		}
		return i
	}
	switch e.tag {
	case tagTemplate:
		s.templates++
	case tagNoscript:
		s.noscript = true
	case tagSVG:
		s.svg = inDrawing
	case tagScript:
		return s.script(i)
	case tagPlaintext:
		if s.reads() {
			s.words(s.page[i:], false)
		}
		if s.MainText && !s.noscript {
			s.main.words(s.page[i:])
		}
		return len(s.page)
	}
	if !e.traits.has(rawTag) {
		return i
	}
	end := s.rawEnd(i, name)
	if raw := s.page[i:end]; inTitle {
		s.Title = plain(titled(s.decode(raw, inRaw), s.Charset, s.page))
	}
	if s.reads() {
		switch e.tag {
		case tagTitle, tagTextarea:
			s.words(s.page[i:end], true)
			s.gap = true
		case tagXmp:
			s.words(s.page[i:end], false)
		}
	}
	if s.MainText && !s.noscript && e.tag == tagXmp {
		s.main.words(s.page[i:end]) // no other raw text is main text
	}
	return end
}

// take handles the attributes of an element.
func (s *Scanner) take(t tag, hidden bool) {
	switch t {
	case tagA, tagArea:
		s.follow(attrHref, Anchor, s.rels(attrRel)&relNoFollow != 0)
	case tagIframe, tagFrame:
		s.follow(attrSrc, Frame, false)
	case tagImg:
		s.embed(attrSrc)
		if s.reads() {
			s.content(s.value(attrSrc))
			if alt := s.value(attrAlt); alt != nil {
				s.gap = true
				s.words(alt, false)
				s.gap = true
			}
		}
		s.embedSet(attrSrcset)
	case tagScript, tagEmbed, tagAudio, tagTrack:
		s.embed(attrSrc)
	case tagVideo:
		s.embed(attrSrc)
		s.embed(attrPoster)
	case tagSource:
		s.embed(attrSrc)
		s.embedSet(attrSrcset)
	case tagInput:
		if bytes.EqualFold(s.value(attrType), []byte("image")) {
			s.embed(attrSrc)
		}
	case tagObject:
		s.embed(attrData)
	case tagHTML:
		if !s.html && !s.inBody {
			s.Language = firstOf(language(s.value(attrLang)), language(s.value(attrXMLLang)))
		}
		s.html = true
	case tagMeta:
		s.meta()
	case tagBase:
		if href := s.value(attrHref); !s.inBody && s.Base == nil && href != nil && len(href) <= maxURL {
			s.Base = append([]byte{}, s.cleanRef(href)...)
		}
	case tagLink:
		rel := s.rels(attrRel)
		if s.inHead && !hidden && rel&relCanonical != 0 && s.Canonical == nil {
			if href := s.value(attrHref); href != nil && len(href) <= maxURL {
				s.Canonical = append([]byte{}, s.cleanRef(href)...)
			}
		}
		switch kind, ok := linkKind(rel, s.value(attrType)); {
		case !ok:
		case kind == Embedded:
			s.embed(attrHref)
		default:
			s.follow(attrHref, kind, rel&relNoFollow != 0)
		}
	}
}

// Plain reads text without markup: Content holds its words. Nothing else is set.
func (s *Scanner) Plain(text []byte) {
	s.reset(toUTF8(text))
	s.words(s.page, false)
}
