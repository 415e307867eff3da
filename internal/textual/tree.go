package textual

import (
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxNesting is how deep lists and quotes may be nested: each line inside them begins with a mark for
	// every level.
	maxNesting = 12

	// maxAhead is how many bytes the converter may read ahead in all: from each "[" to the next "]" or the
	// end of the line.
	maxAhead = 64 << 20

	// maxSparse is the maximum ratio of all cells of a table, with rows padded to the same length, to its
	// real cells.
	maxSparse = 8

	maxLink = 2 << 10 // bytes of a URL
)

// A pruner copies the tree of a page into one that can be converted safely.
type pruner struct {
	base  *url.URL
	links int // bytes of links still allowed
	words bool

	text strings.Builder // of the next text node: adjacent texts become one

	at          int64 // bytes of text appended so far
	open, opens int64 // unclosed brackets, and the sum of their positions
	ahead       int64 // bytes that the converter reads ahead from them
}

// A place is the quality of a part of the page as a source of main text.
type place uint8

const (
	inBody place = iota
	inArticle
	inMain
)

// mainPart returns the parts of the page that contain its main text.
func mainPart(doc *html.Node) []*html.Node {
	var parts [3][]*html.Node
	var find func(n *html.Node, at place)
	find = func(n *html.Node, at place) {
		if n.Type == html.ElementNode {
			if unread(n) || at == inBody && banner(n) {
				return
			}
			if own := placeOf(n); own > at {
				at = own
				if hasWord(n) {
					parts[at] = append(parts[at], n)
				}
				if at == inMain {
					return
				}
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			find(c, at)
		}
	}
	find(doc, inBody)
	switch {
	case parts[inMain] != nil:
		return parts[inMain]
	case parts[inArticle] != nil:
		return parts[inArticle]
	}
	return []*html.Node{doc}
}

func placeOf(n *html.Node) place {
	switch role := roleOf(n); {
	case n.DataAtom == atom.Main || role == "main":
		return inMain
	case n.DataAtom == atom.Article || role == "article":
		return inArticle
	}
	return inBody
}

// unread reports whether nothing in an element is main text.
func unread(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Aside, atom.Button, atom.Select, atom.Datalist, atom.Textarea, atom.Iframe, atom.Noembed, atom.Noframes,
		atom.Noscript, atom.Script, atom.Style, atom.Title, atom.Svg, atom.Template:
		return true
	}
	switch roleOf(n) {
	case "navigation", "complementary", "search":
		return true
	}
	for _, a := range n.Attr {
		if a.Key == "hidden" {
			return !strings.EqualFold(a.Val, "until-found")
		}
	}
	return false
}

// banner reports whether an element frames the page, unless it is in an article.
func banner(n *html.Node) bool {
	switch role := roleOf(n); {
	case role == "banner" || role == "contentinfo":
		return true
	}
	return n.DataAtom == atom.Header || n.DataAtom == atom.Footer
}

func roleOf(n *html.Node) string {
	role, _, _ := strings.Cut(strings.TrimSpace(attribute(n, "role")), " ")
	return strings.ToLower(role)
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// hasWord reports whether there is anything to read in a part of the page.
func hasWord(n *html.Node) bool {
	switch n.Type {
	case html.TextNode:
		return strings.TrimSpace(n.Data) != ""
	case html.ElementNode:
		if unread(n) {
			return false
		}
		if n.DataAtom == atom.Img && strings.TrimSpace(attribute(n, "alt")) != "" {
			return true
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if hasWord(c) {
			return true
		}
	}
	return false
}

// Surroundings are the properties of a node's ancestors that matter here.
type surroundings struct {
	place
	nested int  // lists and quotes
	inline bool // in an element in which a block ends no line
	code   bool // in code, where brackets mean nothing
}

// prune appends to another node a copy of n without what must not be converted.
func (p *pruner) prune(to, n *html.Node, in surroundings) {
	switch n.Type {
	case html.TextNode:
		p.text.WriteString(n.Data)
		return
	case html.ElementNode:
		if unread(n) || in.place == inBody && banner(n) {
			return
		}
		in.place = max(in.place, placeOf(n))
	case html.DocumentNode:
	default:
		return
	}
	if n.Type == html.ElementNode {
		if n.DataAtom == atom.Img {
			p.text.WriteString(" " + attribute(n, "alt") + " ")
			return
		}
		outer := in
		copied := &html.Node{Type: html.ElementNode, Data: n.Data, DataAtom: n.DataAtom}
		switch n.DataAtom {
		case atom.Html, atom.Body, atom.Head, atom.Main, atom.Article, atom.Header, atom.Footer:
			rename(copied, atom.Div)
		case atom.A:
			if href := p.link(attribute(n, "href")); href != "" {
				copied.Attr = []html.Attribute{{Key: "href", Val: href}}
			} else {
				rename(copied, atom.Span)
			}
		case atom.Ul, atom.Ol, atom.Blockquote:
			if in.nested++; in.nested > maxNesting {
				rename(copied, atom.Div)
			} else if start, err := strconv.Atoi(attribute(n, "start")); n.DataAtom == atom.Ol && err == nil && start >= 0 && start < 1e6 {
				copied.Attr = []html.Attribute{{Key: "start", Val: strconv.Itoa(start)}}
			}
		case atom.Code:
			if class := languageClass(attribute(n, "class")); class != "" {
				copied.Attr = []html.Attribute{{Key: "class", Val: class}}
			}
		case 0:
			rename(copied, atom.Span) // an unknown element
		}
		switch copied.DataAtom {
		case atom.Div, atom.P, atom.Ul, atom.Ol, atom.Li, atom.Blockquote, atom.Section:
		case atom.Pre, atom.Code:
			in.inline, in.code = true, true
		default:
			in.inline = true
		}
		ends := !in.inline || !outer.inline && in.code && copied.DataAtom == atom.Pre // lines
		p.flush(to, outer)
		if ends {
			p.close()
		}
		to.AppendChild(copied)
		p.children(copied, n, in)
		if ends {
			p.close()
		}
		if copied.DataAtom == atom.Table {
			reshape(copied)
		}
		return
	}
	p.children(to, n, in)
}

func (p *pruner) children(to, n *html.Node, in surroundings) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.prune(to, c, in)
	}
	p.flush(to, in)
}

// close counts the bytes that are read ahead from all open brackets to here.
func (p *pruner) close() {
	p.ahead += p.open*p.at - p.opens
	p.open, p.opens = 0, 0
}

func rename(n *html.Node, a atom.Atom) { n.DataAtom, n.Data = a, a.String() }

// flush appends the collected text.
func (p *pruner) flush(to *html.Node, in surroundings) {
	if p.text.Len() == 0 {
		return
	}
	s := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\uF002' { // some of them are marks of the converter
			return ' '
		}
		return r
	}, p.text.String())
	p.text.Reset()
	p.words = p.words || strings.TrimSpace(s) != ""
	if !in.code {
		for i := range len(s) {
			switch s[i] {
			case '[':
				p.open, p.opens = p.open+1, p.opens+p.at+int64(i)
			case ']':
				p.ahead += p.open*(p.at+int64(i)) - p.opens
				p.open, p.opens = 0, 0
			}
		}
	}
	p.at += int64(len(s))
	to.AppendChild(&html.Node{Type: html.TextNode, Data: s})
}

// link returns the absolute URL of a reference, or the empty string for one that is too long, or leads
// nowhere but to this page.
func (p *pruner) link(ref string) string {
	ref = strings.TrimSpace(ref)
	if p.base == nil || ref == "" || ref[0] == '#' || len(ref) > maxLink {
		return ""
	}
	u, err := p.base.Parse(ref)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "http", "https", "mailto":
	default:
		return ""
	}
	s := u.String()
	if len(s) > maxLink || len(s) > p.links {
		return ""
	}
	p.links -= len(s)
	return s
}

// languageClass returns the class that names the language of a piece of code, if there is one.
func languageClass(class string) string {
	for _, c := range strings.Fields(class) {
		for _, prefix := range []string{"language-", "lang-"} {
			name, ok := strings.CutPrefix(c, prefix)
			if ok && name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+#_.-") == "" {
				return "language-" + name
			}
		}
	}
	return ""
}

// reshape turns a table into a sequence of paragraphs if most of its cells would be empty, or if it contains
// another table.
func reshape(table *html.Node) {
	rows, cells, widest, nested := 0, 0, 0, false
	var count func(n *html.Node)
	count = func(n *html.Node) {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch c.DataAtom {
			case atom.Table:
				nested = true
			case atom.Tr:
				rows++
				width := 0
				for d := c.FirstChild; d != nil; d = d.NextSibling {
					if d.DataAtom == atom.Td || d.DataAtom == atom.Th {
						width++
					}
				}
				cells, widest = cells+width, max(widest, width)
			}
			count(c)
		}
	}
	count(table)
	if !nested && widest > 1 && rows*widest <= maxSparse*cells {
		return
	}
	var flatten func(n *html.Node)
	flatten = func(n *html.Node) {
		switch n.DataAtom {
		case atom.Table, atom.Tbody, atom.Thead, atom.Tfoot, atom.Tr, atom.Caption, atom.Td, atom.Th:
			rename(n, atom.Div)
		case atom.Colgroup, atom.Col:
			rename(n, atom.Span)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			flatten(c)
		}
	}
	flatten(table)
}
