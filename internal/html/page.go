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
// # The reader
//
// A Scanner reads page after page for a crawler, in one pass over the bytes, with parts that gather the head,
// the references, the words and the main text. Read runs one over a single page, as strictly as a browser.
// Tests compare it with a reader over the tokenizer of golang.org/x/net/html, which takes several times as
// long, and with the tree of its parser, on real pages, broken ones and fuzzed ones. A lexer of tdewolff/parse
// was measured, too: at 2.9 times the speed of the tokenizer it would still leave the entities to be decoded.
package html

import "time"

// Options selects what Read extracts beside the head.
type Options struct {
	Links, Text, Data bool

	// Charset is the charset in Content-Type, empty if none. Only the title needs it.
	Charset string
}

// A Page is what Read extracts from a page.
type Page struct {
	// Title is plain text: entities are decoded, and white space and control characters become single spaces.
	// It is empty if there is none, or if it is not in the encoding of its page, which is as in Decode. It has at most MaxTitle bytes.
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

	Data Data
}

// Data is which data for programs a page has or links to.
type Data struct {
	JSONLD bool // a script of type application/ld+json
	Items  bool // an element with itemscope (microdata) or typeof (RDFa)
	Feed   bool // a link to RSS, Atom or JSON Feed
	RDF    bool // a link to an RDF document
}

// Read reads the page at an absolute URL, against which it resolves relative references. Pages are UTF-8, or
// another encoding that contains ASCII, whose other bytes are kept as they are, or UTF-16 with a byte order
// mark. A truncated page is read as far as it goes.
//
// Read takes time that is linear in the size of the page, and memory of a few
// times that size. Neither Links nor Text share memory with page.
func Read(pageURL string, page []byte, o Options) Page {
	return new(Scanner).Read(pageURL, page, o)
}

// Read is Read with the Scanner's memory, for one page after the other: Text is valid until the next.
func (s *Scanner) Read(pageURL string, page []byte, o Options) Page {
	s.Charset, s.MainText = o.Charset, o.Text
	s.page.strict, s.Refs.off, s.Refs.wantsData = true, !o.Links && !o.Data, o.Data
	s.Scan(page)
	h := &s.Head
	base := baseOf(pageURL, h.Base)
	p := Page{
		Title: h.Title, Language: h.Language, Canonical: canonicalURL(base, h.Canonical, pageURL),
		NoIndex: h.NoIndex, NoArchive: h.NoArchive, UnavailableAfter: h.UnavailableAfter, Text: s.Text.Lines,
	}
	if o.Data {
		p.Data = s.Refs.data
		for _, r := range s.Refs.List {
			p.Data.Feed, p.Data.RDF = p.Data.Feed || r.Kind == Feed, p.Data.RDF || r.Kind == Manifest
		}
	}
	if o.Links {
		p.Links = linksOf(base, s.Refs.List)
	}
	return p
}
