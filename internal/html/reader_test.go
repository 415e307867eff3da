package html_test

import (
	"bytes"
	"cmp"
	"strings"
	"unicode"

	xhtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/parleyweb/parley/internal/html"
)

// readTokens is html.Read over the tokens and the names of x/net, with other code for all that depends on
// them. If it is pure, it keeps to x/net and to its own rules also where differences says that Read does not.
func readTokens(pageURL string, page []byte, o html.Options, pure bool) html.Page {
	r := &reader{pure: pure, z: xhtml.NewTokenizer(bytes.NewReader(html.ToUTF8(page))), bytes: page, want: o, inHead: true, text: newText()}
	for r.next() {
	}
	base := html.BaseOf(pageURL, r.refs.baseHref)
	r.page.Canonical = html.CanonicalURL(base, r.refs.canonical, pageURL)
	if o.Links {
		r.page.Links = html.LinksOf(base, r.refs.hrefs)
	}
	if r.page.Language == "" {
		r.page.Language = r.metaLanguage
	}
	r.page.Text = r.text.out
	return r.page
}

// A reader reads one page, token by token.
type reader struct {
	z     *xhtml.Tokenizer
	bytes []byte // the whole page
	want  html.Options
	page  html.Page
	pure  bool

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
	case xhtml.ErrorToken:
		return false // the end of the page: it is all in memory
	case xhtml.TextToken:
		if inTitle {
			text := html.Titled(bytes.Clone(r.z.Raw()), r.want.Charset, r.bytes)
			r.page.Title = html.Plain([]byte(xhtml.UnescapeString(strings.ReplaceAll(string(text), "\x00", "\uFFFD"))))
		} else if r.want.Text {
			r.text.words(r.z.Text())
		}
	case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
		tag, more := r.z.TagName()
		e := elementOf(tag)
		closed := kind == xhtml.SelfClosingTagToken
		if closed && !r.pure && bytes.Contains(r.z.Raw(), []byte("=")) {
			closed = slashCloses(r.z.Raw())
		}
		if closed {
			// In XHTML, <script/> and <title/> are closed. Treating them so in HTML too reads more of a page,
			// never less.
			r.z.NextIsNotRawText()
		}
		return r.start(e, closed, more)
	case xhtml.EndTagToken:
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
			r.page.Language = cmp.Or(html.LanguageTag(a.lang), html.LanguageTag(a.xmlLang))
		}
		r.html = true
	case atom.Meta:
		r.meta(&a, in)
	case atom.Base:
		if !r.inBody {
			r.refs.setBase(a.href)
		}
	case atom.Link:
		if r.inHead && !in.unread && html.HasWord(r.rel(a.rel), "canonical") {
			r.refs.setCanonical(a.href)
		}
	}
	if r.want.Links && !in.template {
		a.rel = r.rel(a.rel)
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
func (r *reader) meta(a *attributes, in frame) {
	equiv := strings.TrimSpace(string(a.httpEquiv))
	if r.want.Links && strings.EqualFold(equiv, "refresh") && (r.pure || !in.template) {
		r.refs.addRefresh(a.content)
	}
	if r.inBody {
		return
	}
	if name := strings.TrimSpace(string(a.name)); strings.EqualFold(name, "robots") || strings.EqualFold(name, "parley") {
		r.page.NoIndex = r.page.NoIndex || html.HasWord(a.content, "noindex") || html.HasWord(a.content, "none")
		r.page.NoArchive = r.page.NoArchive || html.HasWord(a.content, "noarchive")
		r.page.UnavailableAfter = html.Soonest(r.page.UnavailableAfter, html.UnavailableAfter(a.content))
	}
	if r.metaLanguage == "" && strings.EqualFold(equiv, "content-language") {
		r.metaLanguage = html.LanguageTag(a.content)
	}
}

// rel returns a list of words that the reader separates as Read does.
func (r *reader) rel(list []byte) []byte {
	if r.pure {
		return list
	}
	words := bytes.FieldsFunc(list, func(r rune) bool { return r <= ' ' || r == ',' })
	for i, w := range words {
		if bytes.ContainsFunc(w, unicode.IsSpace) {
			words[i] = nil // it is no word that matters
		}
	}
	return bytes.Join(words, []byte(" "))
}

// slashCloses reports whether a slash at the end of a tag closes it, and is not the end of a value without
// quotes.
func slashCloses(tag []byte) bool {
	state := "name"
	for _, c := range tag {
		space := strings.IndexByte(" \t\r\n\f", c) >= 0
		switch {
		case state == "name" && (space || c == '/'), state == "value" && space, state == "key" && c == '/', state == "after" && c == '/':
			state = "before"
		case state == "before" && !space && c != '/':
			state = "key" // an equals sign begins a name here
		case state == "key" && c == '=', state == "after" && c == '=':
			state = "equals"
		case state == "key" && space:
			state = "after"
		case state == "after" && !space:
			state = "key"
		case state == "equals" && (c == '"' || c == '\''):
			state = string(c)
		case state == "equals" && !space:
			state = "value"
		case state == string(c):
			state = "before"
		}
	}
	return state != "value"
}

// Attributes are the attributes of one tag that matter here, valid until the next token is read. A missing
// one is nil; one without a value is not. Of two with the same name the first counts.
type attributes struct {
	alt, content, hidden, href, httpEquiv, lang, name, rel, role, src, xmlLang []byte
}

func (a *attributes) read(z *xhtml.Tokenizer) {
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

// References are a page's references as written.
type references struct {
	baseHref  []byte // of the first <base> with an href
	canonical []byte // the first
	hrefs     []html.Ref
	seen      map[string]struct{} // the same as a set; nil while empty
	size      int                 // of hrefs together, in bytes
}

func (r *references) setBase(href []byte) {
	if r.baseHref == nil && href != nil && len(href) <= 8<<10 {
		r.baseHref = bytes.Clone(href)
	}
}

func (r *references) setCanonical(href []byte) {
	if r.canonical == nil && href != nil && len(href) <= 8<<10 {
		r.canonical = bytes.Clone(href)
	}
}

// add adds the target of an element, if it has one.
func (r *references) add(e element, a *attributes) {
	switch atom.Atom(e.name) {
	case atom.A, atom.Area:
		r.addRef(a.href)
	case atom.Iframe, atom.Frame:
		r.addRef(a.src)
	case atom.Link:
		// The target of any other link is not a page, such as a style sheet, or the link is no reference at
		// all, such as a hint to connect.
		if html.HasWord(a.rel, "stylesheet") {
			return
		}
		for _, rel := range []string{"alternate", "appendix", "author", "canonical", "chapter", "contents", "copyright", "first", "glossary",
			"help", "index", "last", "license", "next", "prev", "previous", "search", "section", "start", "subsection", "toc", "top", "up"} {
			if html.HasWord(a.rel, rel) {
				r.addRef(a.href)
				return
			}
		}
	}
}

// addRefresh adds the URL of <meta http-equiv="refresh" content="0; url=...">.
func (r *references) addRefresh(content []byte) { r.addRef(html.RefreshRef(content)) }

func (r *references) addRef(ref []byte) {
	ref, _, _ = bytes.Cut(ref, []byte{'#'})
	if len(ref) == 0 || len(ref) > 8<<10 || len(r.hrefs) >= html.MaxLinks || r.size >= 4<<20 {
		return
	}
	if _, ok := r.seen[string(ref)]; ok {
		return
	}
	if r.seen == nil {
		r.seen = make(map[string]struct{})
	}
	s := string(ref)
	r.seen[s] = struct{}{}
	r.hrefs = append(r.hrefs, html.Ref{URL: []byte(s)})
	r.size += len(s)
}
