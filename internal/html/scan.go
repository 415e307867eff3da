package html

import "bytes"

// A Scanner extracts from a page what a crawler needs, in one pass over the bytes. It reuses its memory:
// results other than strings are valid until the next Scan. It takes time linear in the size of a page, and
// memory of about its size. It is not safe for concurrent use.
type Scanner struct {
	// Agent is a name whose <meta> applies to us, beside "robots" and "parley". May be empty.
	Agent string

	// Charset is the charset in the next page's Content-Type, empty if none. Only the title and the paths of references need it.
	Charset string

	// Embedded asks for references to embedded resources, too. Embeds has them if its own field Wanted asks for them.
	Embedded bool

	// Contents asks for Content, and MainText for Text.
	Contents, MainText bool

	// What the last page has, for the caller to read.
	Head    head
	Refs    references
	Embeds  embeds
	Content content
	Text    text

	page source
	at   nesting // unless the page is read strictly: then Text keeps track
}

// Embeds are the references to embedded resources.
type embeds struct {
	references
	Wanted bool
}

// A nesting is where in a page a crawler reads.
type nesting struct {
	templates int  // number of open ones
	noscript  bool // one is open
	svg       svgState
	mute      uint64 // the element in a drawing whose text is ignored; 0 if there is none
}

type svgState uint8

const (
	noDrawing svgState = iota
	inDrawing
	inForeign // HTML in a drawing
)

// Scan reads a page. See Read for its encodings.
func (s *Scanner) Scan(page []byte) {
	s.reset(page)
	for i, end := 0, len(s.page.bytes); i < end; {
		if i = s.text(i); i < end {
			i = s.markup(i)
		}
	}
}

// Plain reads text without markup: Content holds its words. Nothing else is set.
func (s *Scanner) Plain(text []byte) {
	s.reset(text)
	s.Content.words(s.page.bytes, false)
}

func (s *Scanner) reset(page []byte) {
	s.page.reset(toUTF8(page))
	s.page.served = served{page: page, declared: s.Charset}
	s.Head = head{}
	s.Refs.reset()
	if s.Embeds.Wanted {
		s.Embeds.reset()
	}
	s.Content.Words, s.Content.gap = s.Content.Words[:0], false
	s.Text.reset()
	s.at = nesting{}
}

// reads reports whether text at this point is part of the content.
func (s *Scanner) reads() bool {
	return s.Contents && s.at.templates == 0 && !s.at.noscript && s.at.mute == 0
}

// readsText reports whether text at this point is part of the main text.
func (s *Scanner) readsText() bool { return s.MainText && !s.at.noscript && s.Text.reads() }

// text handles the text at i, and returns its end.
func (s *Scanner) text(i int) int {
	p := s.page.bytes
	content, lines := s.reads(), s.readsText()
	if content && !lines {
		return s.Content.text(p, i)
	}
	end := len(p)
	if lines {
		for end = i; end < len(p) && p[end] != '<'; {
			if p[end] != '&' {
				end += s.Text.run(p[end:], gaps|noWord)
				continue
			}
			var buf [16]byte
			n := entityEnd(p[end:])
			s.Text.run(appendDecoded(buf[:0], p[end:end+n], inText), gaps)
			end += n
		}
	} else if j := bytes.IndexByte(p[i:], '<'); j >= 0 {
		end = i + j
	}
	if content {
		s.Content.text(p, i)
	}
	return end
}

// markup handles the markup that begins with the "<" at i, and returns its end.
func (s *Scanner) markup(i int) int {
	p := s.page.bytes
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
		return s.page.after('>', i+2)
	case c == '!':
		if bytes.HasPrefix(p[i+2:], []byte("--")) {
			return s.page.comment(i + 4)
		}
		return s.page.after('>', i+2)
	case c == '?':
		return s.page.after('>', i+2)
	}
	return s.literal(i, 1)
}

// literal adds n bytes, "<" or "</", that begin no markup.
func (s *Scanner) literal(i, n int) int {
	if s.reads() {
		s.Content.word(s.page.bytes[i : i+n])
	}
	if s.readsText() {
		s.Text.words(s.page.bytes[i : i+n])
	}
	return i + n
}

// nests reports whether the nesting of elements matters, and not only of those that a crawler leaves out.
func (s *Scanner) nests() bool { return s.MainText || s.page.strict }

func (s *Scanner) endTag(i int) int {
	name, i := s.page.tagName(i)
	i, _, ok := s.page.attributes(i, 0)
	if !ok {
		return i
	}
	e := elementOf(name)
	if s.nests() && (!s.at.noscript || e.tag == tagNoscript) {
		s.Text.end(e)
	}
	if e.has(block | cell | apart) {
		s.Content.gap = true
	}
	s.at.end(e)
	return i
}

// startTag handles the tag whose name is at i, and returns the end of the tag and its raw text: for a script,
// the position of its end tag.
func (s *Scanner) startTag(i int) int {
	name, i := s.page.tagName(i)
	e := elementOf(name)
	wants, nests, strict := e.wants, s.nests(), s.page.strict
	if nests {
		wants |= 1<<attrRole | 1<<attrHidden
	}
	if s.Refs.wantsData {
		wants |= 1<<attrItem | 1<<attrType
	}
	i, closed, ok := s.page.attributes(i, wants)
	if !ok {
		return i
	}
	s.at.leave(e)
	template := s.at.templates > 0
	hidden := template || s.at.noscript
	if strict {
		in := s.Text.top()
		template, hidden = in.template, in.unread
	}
	if e.tag == tagBody {
		s.at.noscript = false
		if strict && s.Refs.off && !s.MainText {
			return len(s.page.bytes) // what is wanted is in the head
		}
	}
	if s.Refs.wantsData && !template {
		d := &s.Refs.data
		d.Items = d.Items || s.page.has&(1<<attrItem) != 0
		d.JSONLD = d.JSONLD || e.tag == tagScript && isType(s.page.value(attrType), "application/ld+json")
	}
	title := s.Head.start(e, hidden) && !closed
	if e.has(block | cell | apart) {
		s.Content.gap = true
	}
	if e.wants != 0 {
		s.take(e.tag, hidden, template)
	}
	drawing := s.at.svg == inDrawing
	if nests && !s.at.noscript {
		drawn := s.Text.start(e, s.page.value(attrRole), s.page.value(attrHidden), closed)
		if strict {
			drawing = drawn
		}
		if e.tag == tagImg && s.MainText {
			s.Text.words(s.page.value(attrAlt))
		}
	}
	switch {
	case closed:
		return i
	case drawing:
		s.at.draw(e)
		return i
	case !strict:
		s.at.start(e.tag)
	}
	return s.raw(e, i, title)
}

// raw handles the raw text at i of an element, if it contains such, and returns its end.
func (s *Scanner) raw(e element, i int, title bool) int {
	end, in := i, inVerbatim
	switch {
	case e.tag == tagScript:
		end = s.page.script(i)
	case e.tag == tagPlaintext:
		end = len(s.page.bytes)
	case e.has(raw), s.page.strict && e.tag == tagNoscript:
		end = s.page.rawEnd(i, e.name)
	default:
		return i
	}
	text := s.page.bytes[i:end]
	if e.tag == tagTitle || e.tag == tagTextarea {
		in = inRaw
	}
	if title {
		s.Head.Title = plain(s.page.decode(s.page.served.toUTF8(text), in))
	} else if s.readsText() {
		s.Text.words(s.page.decode(text, in))
	}
	if s.reads() {
		switch e.tag {
		case tagTitle, tagTextarea:
			s.Content.words(text, true)
			s.Content.gap = true
		case tagXmp, tagPlaintext:
			s.Content.words(text, false)
		}
	}
	return end
}

// take handles the attributes of an element.
func (s *Scanner) take(t tag, hidden, template bool) {
	p := &s.page
	var rel rels
	switch t {
	case tagHTML:
		s.Head.language(p)
	case tagBase:
		s.Head.base(p)
	case tagMeta:
		s.Head.meta(p, s.Agent)
	case tagA, tagLink:
		if rel = relsOf(p.value(attrRel)); t == tagLink && rel&relCanonical != 0 && !hidden {
			s.Head.canonical(p)
		}
	}
	if template || s.Refs.off {
		return
	}
	switch t {
	case tagA:
		s.follow(attrHref, Anchor, rel)
	case tagFrame:
		s.follow(attrSrc, Frame, 0)
	case tagMeta:
		if bytes.EqualFold(bytes.TrimSpace(p.value(attrHTTPEquiv)), []byte("refresh")) {
			s.Refs.add(p.clean(RefreshRef(p.value(attrContent))), Refresh, false)
		}
	case tagLink:
		switch kind, ok := linkKind(rel, p.value(attrType)); {
		case !ok, p.strict && rel&relPages == 0:
		case kind == Embedded:
			s.embed(attrHref, Embedded)
		default:
			s.follow(attrHref, kind, rel)
		}
	case tagImg:
		s.embed(attrSrc, Media)
		if s.reads() {
			s.Content.target(p.value(attrSrc))
			if alt := p.value(attrAlt); alt != nil {
				s.Content.gap = true
				s.Content.words(alt, false)
				s.Content.gap = true
			}
		}
		s.embedSet()
	case tagScript:
		s.embed(attrSrc, Embedded)
	case tagEmbed:
		s.embed(attrSrc, Media)
	case tagVideo:
		s.embed(attrSrc, Media)
		s.embed(attrPoster, Media)
	case tagSource:
		s.embed(attrSrc, Media)
		s.embedSet()
	case tagInput:
		if bytes.EqualFold(p.value(attrType), []byte("image")) {
			s.embed(attrSrc, Media)
		}
	case tagObject:
		s.embed(attrData, Media)
	}
}

// follow adds the target of a link.
func (s *Scanner) follow(a attrID, kind Kind, rel rels) {
	href := s.page.value(a)
	if href == nil {
		return
	}
	ref := s.page.clean(href)
	if s.reads() {
		s.Content.target(ref)
	}
	s.Refs.add(ref, kind, rel&relNoFollow != 0)
}

func (s *Scanner) embed(a attrID, kind Kind) {
	if s.Embedded || s.Embeds.Wanted {
		s.embedRef(s.page.value(a), kind)
	}
}

func (s *Scanner) embedRef(ref []byte, kind Kind) {
	if isData(ref) { // before it is read to its end
		return
	}
	if ref = s.page.clean(ref); isData(ref) {
		return
	}
	if s.Embedded {
		s.Refs.add(ref, Embedded, false)
	}
	if s.Embeds.Wanted {
		s.Embeds.add(ref, kind, false)
	}
}

func isData(ref []byte) bool { return len(ref) >= 5 && string(ref[:5]) == "data:" }

// embedSet adds the images of a srcset.
func (s *Scanner) embedSet() {
	if !s.Embedded && !s.Embeds.Wanted {
		return
	}
	for set := s.page.value(attrSrcset); len(set) > 0; {
		for len(set) > 0 && (byteClass[set[0]]&white != 0 || set[0] == ',') {
			set = set[1:]
		}
		n := 0
		for n < len(set) && byteClass[set[n]]&white == 0 {
			n++
		}
		ref := set[:n]
		if set = set[n:]; bytes.HasSuffix(ref, []byte{','}) {
			ref = bytes.TrimRight(ref, ",")
		} else if _, rest, found := bytes.Cut(set, []byte{','}); found { // after the descriptor
			set = rest
		} else {
			set = nil
		}
		s.embedRef(ref, Media)
	}
}

// leave ends a drawing in which an HTML element begins.
func (n *nesting) leave(e element) {
	if n.svg == inDrawing && e.has(leaves) {
		n.svg, n.mute = noDrawing, 0
	}
}

// start handles the start tag of an element outside of drawings.
func (n *nesting) start(t tag) {
	switch t {
	case tagTemplate:
		n.templates++
	case tagNoscript:
		n.noscript = true
	case tagSVG:
		n.svg = inDrawing
	}
}

// draw handles a start tag in a drawing.
func (n *nesting) draw(e element) {
	switch e.tag {
	case tagForeign:
		n.svg = inForeign
	case tagScript, tagStyle:
		n.mute = e.name
	}
}

// end handles an end tag.
func (n *nesting) end(e element) {
	switch e.tag {
	case tagTemplate:
		n.templates = max(0, n.templates-1)
	case tagNoscript:
		n.noscript = false
	case tagSVG:
		n.svg, n.mute = noDrawing, 0
	case tagForeign:
		if n.svg == inForeign {
			n.svg = inDrawing
		}
	}
	if e.name == n.mute {
		n.mute = 0
	}
}
