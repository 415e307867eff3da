// Package html extracts a page's metadata, its links and its main text. No page is too broken to be read.
//
// # The main text
//
// The main text of a page is the text of its <main> elements and those with role="main", if it has a word;
// else that of its <article> elements, if it has one; else that of its <body> without each <header> and
// <footer>.
//
// Text is never part of it in <nav>, <aside>, <button>, <select>, <datalist>, <textarea>, <iframe>,
// <noscript>, <script>, <style>, <svg> or <template>, or in an element with the attribute hidden. The roles
// banner and contentinfo count as <header> and <footer>, navigation as <nav>, complementary and search as
// <aside>. An image counts as its alt text.
//
// A block, such as a paragraph, a heading or a table row, is a line, and so is a line of <pre>. There are no
// empty lines. Words on a line are separated by single spaces; a table cell ends a word. Style sheets and
// scripts are not applied.
//
// # Two readers
//
// Read uses the tokenizer of golang.org/x/net/html and is the reference. A Scanner is for a crawler, which
// reads page after page: it finds the same with a scanner of our own, in a fifth of the time, and reports
// more about a page's references. Tests compare it with the tokens of x/net and with Read, on real pages,
// broken ones and fuzzed ones. A lexer of tdewolff/parse was measured, too: at 2.9 times the speed of the
// tokenizer it would still leave the entities to be decoded.
package html

import (
	"bytes"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Options selects what Read extracts beside the head.
type Options struct {
	Links, Text bool

	// Charset is the charset in Content-Type, empty if none. Only the title needs it.
	Charset string
}

// A Page is what Read extracts from a page.
type Page struct {
	// Title is plain text: entities are decoded, and white space and control characters become single spaces.
	// It is empty if there is none, or if it is neither UTF-8 nor windows-1252. It has at most MaxTitle
	// bytes.
	Title string

	// NoIndex says that <meta name="robots"> or <meta name="parley">, before
	// any <body>, has "noindex" or "none" among its content.
	NoIndex bool

	// NoArchive is the same for "noarchive".
	NoArchive bool

	// UnavailableAfter is the time after which the page must not be listed, from the same elements; zero if
	// none.
	UnavailableAfter time.Time

	// Language is <html lang> or xml:lang, else <meta http-equiv="content-language">. Empty if there is none,
	// or if it cannot be a BCP 47 tag.
	Language string

	// Canonical is the absolute http or https URL, without a fragment, of the first <link rel="canonical"> in
	// the head. Empty if there is none, or if it is the page's own URL as given.
	Canonical string

	// Links are the targets of <a>, <area>, <iframe>, <frame>, a refresh, and a <link> to another page:
	// absolute http and https URLs without fragments, each once, in page order. Those with rel="nofollow" are
	// included: the page that they lead to exists. There are at most MaxLinks.
	Links []string

	// Text is the main text as defined in the package doc, without a final newline.
	Text []byte
}

// Read reads the page at an absolute URL, against which it resolves relative references. Pages are UTF-8, or
// another encoding that contains ASCII, whose other bytes are kept as they are, or UTF-16 with a byte order
// mark. A truncated page is read as far as it goes.
//
// Read takes time that is linear in the size of the page, and memory of a few
// times that size. Neither Links nor Text share memory with page.
func Read(pageURL string, page []byte, o Options) Page {
	r := &reader{z: html.NewTokenizer(bytes.NewReader(toUTF8(page))), bytes: page, want: o, inHead: true, text: newText()}
	for r.next() {
	}
	base := r.refs.base(pageURL)
	r.page.Canonical = r.refs.canonicalURL(base, pageURL)
	if o.Links {
		r.page.Links = r.refs.links(base)
	}
	if r.page.Language == "" {
		r.page.Language = r.metaLanguage
	}
	r.page.Text = r.text.out
	return r.page
}

// A reader reads one page, token by token.
type reader struct {
	z     *html.Tokenizer
	bytes []byte // the whole page
	want  Options
	page  Page

	inHead       bool // no element that belongs in a body has begun
	inBody       bool // a <body> has begun: no element speaks for the whole page any more
	inTitle      bool // the next token is the title, if it is text
	titled       bool // there was a title
	html         bool // there was an <html>
	metaLanguage string

	refs references
	text text
}

// next reads a token. It returns false when nothing more is wanted.
func (r *reader) next() bool {
	kind := r.z.Next()
	inTitle := r.inTitle
	r.inTitle = false
	switch kind {
	case html.ErrorToken:
		return false // the end of the page: it is all in memory
	case html.TextToken:
		if inTitle {
			r.page.Title = plain(titled(r.z.Text(), r.want.Charset, r.bytes))
		} else if r.want.Text {
			r.text.words(r.z.Text())
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		tag, more := r.z.TagName()
		e := elementOf(tag)
		closed := kind == html.SelfClosingTagToken
		if closed {
			// In XHTML, <script/> and <title/> are closed. Treating them so in HTML too reads more of a page,
			// never less.
			r.z.NextIsNotRawText()
		}
		return r.start(e, closed, more)
	case html.EndTagToken:
		tag, _ := r.z.TagName()
		r.text.end(elementOf(tag))
	}
	return true
}

// start handles a start tag. It returns false when nothing more is wanted.
func (r *reader) start(e element, closed, more bool) bool {
	in := *r.text.top()
	switch atom.Atom(e.name) {
	case atom.Body, atom.Frameset:
		if !r.want.Links && !r.want.Text {
			return false
		}
		r.inHead, r.titled, r.inBody = false, true, true
	case atom.Html, atom.Head, atom.Base, atom.Link, atom.Meta, atom.Script, atom.Style, atom.Noscript, atom.Template:
	case atom.Title:
		if !in.unread {
			r.inTitle = !r.titled && !closed
			r.titled = true
		}
	default:
		if !in.unread { // elements in a template do not begin the body
			r.inHead, r.titled = false, true // a drawing in the body may have a title
		}
	}
	var a attributes
	if raw := r.z.Raw(); more && (e.has(says) || r.want.Links && e.has(leads) || contains(raw, "hidden") || contains(raw, "role")) {
		a.read(r.z)
	}
	switch atom.Atom(e.name) {
	case atom.Html:
		if !r.html && !r.inBody {
			r.page.Language = firstOf(language(a.lang), language(a.xmlLang))
		}
		r.html = true
	case atom.Meta:
		r.meta(&a)
	case atom.Base:
		if !r.inBody {
			r.refs.setBase(a.href)
		}
	case atom.Link:
		if r.inHead && !in.unread && hasWord(a.rel, "canonical") {
			r.refs.setCanonical(a.href)
		}
	}
	if r.want.Links && !in.template {
		r.refs.add(e, &a)
	}
	if r.text.start(e, &a, closed) {
		r.z.NextIsNotRawText()
	}
	if r.want.Text && atom.Atom(e.name) == atom.Img {
		r.text.words(a.alt)
	}
	return true
}

// meta handles a <meta>.
func (r *reader) meta(a *attributes) {
	equiv := strings.TrimSpace(string(a.httpEquiv))
	if r.want.Links && strings.EqualFold(equiv, "refresh") {
		r.refs.addRefresh(a.content)
	}
	if r.inBody {
		return
	}
	if name := strings.TrimSpace(string(a.name)); strings.EqualFold(name, "robots") || strings.EqualFold(name, "parley") {
		r.page.NoIndex = r.page.NoIndex || hasWord(a.content, "noindex") || hasWord(a.content, "none")
		r.page.NoArchive = r.page.NoArchive || hasWord(a.content, "noarchive")
		r.page.UnavailableAfter = soonest(r.page.UnavailableAfter, UnavailableAfter(a.content))
	}
	if r.metaLanguage == "" && strings.EqualFold(equiv, "content-language") {
		r.metaLanguage = language(a.content)
	}
}

// Attributes are the attributes of one tag that matter here, valid until the next token is read. A missing
// one is nil; one without a value is not. Of two with the same name the first counts.
type attributes struct {
	alt, content, hidden, href, httpEquiv, lang, name, rel, role, src, xmlLang []byte
}

func (a *attributes) read(z *html.Tokenizer) {
	for more := true; more; {
		var key, val []byte
		key, val, more = z.TagAttr()
		var at *[]byte
		switch string(key) {
		case "alt":
			at = &a.alt
		case "content":
			at = &a.content
		case "hidden":
			at = &a.hidden
		case "href":
			at = &a.href
		case "http-equiv":
			at = &a.httpEquiv
		case "lang":
			at = &a.lang
		case "name":
			at = &a.name
		case "rel":
			at = &a.rel
		case "role":
			at = &a.role
		case "src":
			at = &a.src
		case "xml:lang":
			at = &a.xmlLang
		default:
			continue
		}
		if *at == nil {
			if val == nil {
				val = []byte{}
			}
			*at = val
		}
	}
}

// contains reports whether a tag contains a word, in any case. Parsing all attributes of all tags for the few
// hidden elements would take longer.
func contains(tag []byte, word string) bool {
	for i := 0; i+len(word) <= len(tag); i++ {
		if tag[i]|0x20 == word[0] && strings.EqualFold(string(tag[i:i+len(word)]), word) {
			return true
		}
	}
	return false
}
