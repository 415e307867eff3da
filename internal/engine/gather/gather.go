// Package gather is the role that parses responses: it extracts metadata, links
// and the digests by which content is recognized.
//
// Only HTML, XHTML and plain text are parsed (P09), and of these only bodies that
// look like text: a ZIP labeled text/html does not. Every page gets a digest of
// its bytes, and every parsed one another digest of its content after parsing
// (V17, P17): its words and the references of its links and images, without
// markup, comments, scripts, styles and the amount of white space. Two pages with
// the same parsed digest are duplicates, and the links of the second need not be
// followed: they are written alike, but may lead elsewhere if they are relative.
package gather

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/urlref"
	"github.com/parleyweb/parley/protocol"
)

// A LinkKind is the kind of element or header that makes a link.
type LinkKind uint8

// The kinds, in the order of those of package html.
const (
	Anchor    LinkKind = iota // a, area
	Frame                     // iframe, frame
	Refresh                   // meta refresh, the Refresh header
	Alternate                 // link rel=alternate hreflang, next, prev, canonical: other pages
	Embedded                  // img, script, style sheet, audio, video, object: not followed unless asked
	Feed                      // link rel=alternate to RSS, Atom, JSON Feed
	Sitemap                   // link rel=sitemap
	Manifest                  // link rel=alternate or manifest to an RDF document, as ours is
)

// A Link is a reference of a page to another URL.
type Link struct {
	URL      string // canonical, as protocol.CanonicalURL returns it
	Kind     LinkKind
	NoFollow bool // rel=nofollow, ugc or sponsored, wherever the page names this URL
}

// A Page is a parsed response.
type Page struct {
	Title, Language string

	// Canonical is the URL that the page declares as canonical; empty if it
	// declares none, or its own.
	Canonical string

	// NoIndex and NoFollow are the directives of meta robots and X-Robots-Tag, for our name or
	// for all. A page whose unavailable_after has passed counts as noindex.
	NoIndex, NoFollow bool

	// Base is the base URL of references: the page's own, or that of its <base>.
	Base string

	// Links are the page's links, each URL once, in the order of the page. At
	// most html.MaxLinks. The slice is valid until the next Read; the strings in
	// it stay valid.
	Links []Link

	// HTML says that the page was parsed as HTML; if not, it is text/plain,
	// without links, or was not parsed at all.
	HTML bool

	Body   protocol.Digest // of the body as served
	Parsed protocol.Digest // of the content after parsing; zero if not parsed, or if nothing is left: then it equals no other page
	Text   protocol.Digest // of the main text, see package html; zero if not requested, or not parsed
	Sketch string          // of the main text, see maintext.Share; empty if not requested, or not parsed

	// Pairs are hashes of half of the pairs of consecutive words, if requested; valid until the next Read.
	// A link between two words separates them.
	Pairs []uint32

	// References are counts of what the Links lead to and of what the page embeds, if requested, as package references encodes them; nil if
	// there are none. They stay valid.
	References []byte
}

// A Gatherer parses pages, one at a time; each goroutine needs its own. It
// reuses its memory, so it may be copied only before its first Read. The zero
// Gatherer is ready to use.
type Gatherer struct {
	// Agent is our product token, such as "parley": <meta> and X-Robots-Tag
	// directives for it count beside those for all.
	Agent string

	// Embedded also collects embedded resources: images, scripts, style sheets.
	Embedded bool

	// Text computes the digest of the main text, at two thirds of the cost of all the rest. Sketch computes its sketch too, for
	// as much again.
	Text, Sketch bool

	// Pairs computes the word pairs of HTML pages.
	Pairs bool

	// References counts what pages refer to.
	References bool

	scan      html.Scanner
	base      urlref.Base
	urls      urls       // of the links, and then of what is embedded
	refs      []html.Ref // of the headers
	canonical []byte     // of the headers
	counter   references.Counter
}

// Urls are numbered, each once.
type urls struct {
	arena []byte // all of them, concatenated
	ends  []int  // the end of each in arena
	seen  map[uint64]int32
	seed  maphash.Seed
}

// Read parses the response for the page at a canonical URL into p, and replaces
// all of p. The body must be decoded, and may be truncated. There is always a
// result: an error only says that the body does not match its Content-Type, and
// was not parsed.
func (g *Gatherer) Read(p *Page, url string, h http.Header, body []byte) error {
	*p = Page{Base: url, Links: p.Links[:0], Pairs: p.Pairs[:0], Body: protocol.Sum(body)}
	g.headers(p, h)
	g.scan.Charset = charset(first(h, "Content-Type"))
	kind, err := kindOf(h, body)
	switch kind {
	case plainText:
		g.scan.Plain(body)
		g.digest(p)
		g.mainText(p, g.scan.Content.Words)
	case hyperText:
		g.page(p, body)
	default:
		g.scan.Plain(nil)
	}
	g.links(p, url)
	if err != nil {
		return fmt.Errorf("read %.200s: %w", url, err)
	}
	return nil
}

func (g *Gatherer) page(p *Page, body []byte) {
	s := &g.scan
	s.Agent, s.Embedded, s.Embeds.Wanted, s.Contents, s.MainText = g.Agent, g.Embedded, g.References, true, g.Text || g.Sketch
	s.Scan(body)
	p.HTML, p.Title, p.Language = true, s.Head.Title, s.Head.Language
	p.NoIndex, p.NoFollow = p.NoIndex || s.Head.NoIndex || html.Expired(s.Head.UnavailableAfter, time.Now()), p.NoFollow || s.Head.NoFollow
	g.digest(p)
	g.mainText(p, s.Text.Lines)
	if g.Pairs {
		p.Pairs = appendPairs(p.Pairs, s.Content.Words)
	}
}

// mainText digests the main text of a page, and makes its sketch.
func (g *Gatherer) mainText(p *Page, text []byte) {
	switch {
	case g.Sketch:
		var sketch []byte
		p.Text, sketch = maintext.Masks(nil).Read(text)
		p.Sketch = string(sketch)
	case g.Text:
		p.Text = protocol.Sum(text)
	}
}

// digest digests the content of a page after parsing.
func (g *Gatherer) digest(p *Page) {
	if len(g.scan.Content.Words) > 0 {
		p.Parsed = protocol.Sum(g.scan.Content.Words)
	}
}

// links resolves the references of the headers and the page.
func (g *Gatherer) links(p *Page, url string) {
	g.base.Reset(url)
	g.urls.arena, g.urls.ends = g.urls.arena[:0], g.urls.ends[:0]
	if g.urls.seen == nil || len(g.urls.seen) > 1000 { // clearing a map takes as long as its largest size ever
		g.urls.seen, g.urls.seed = make(map[uint64]int32), maphash.MakeSeed()
	}
	clear(g.urls.seen)
	for _, r := range g.refs {
		g.link(p, r)
	}
	g.asksFor(p, url, g.canonical) // like the links of headers, relative to the page's own URL (RFC 8288, section 3.2)
	if p.HTML {
		if href := g.scan.Head.Base; href != nil {
			if base, ok := g.resolve(nil, href); ok {
				p.Base = string(base)
				g.base.Reset(p.Base)
			}
		}
		for _, r := range g.scan.Refs.List {
			g.link(p, r)
		}
		g.asksFor(p, url, g.scan.Head.Canonical)
	}
	all := string(g.urls.arena)
	from := 0
	for i, end := range g.urls.ends {
		p.Links[i].URL = all[from:end]
		from = end
	}
	if g.References {
		g.references(p, url)
	}
}

// references counts what the page refers to.
func (g *Gatherer) references(p *Page, url string) {
	g.counter.Reset(url)
	if p.HTML {
		for _, r := range g.scan.Embeds.List {
			if n := g.number(r.URL, 2*html.MaxLinks); n >= 0 && r.Kind == html.Media {
				g.counter.Embed(g.urls.at(n))
			}
		}
	}
	for n := range g.urls.ends {
		g.counter.Add(g.urls.at(int32(n)), n < len(p.Links) && p.Links[n].Kind != Embedded)
	}
	p.References = g.counter.Encode()
}

// asksFor sets the canonical URL that a page declares; nil if it declares none.
func (g *Gatherer) asksFor(p *Page, url string, canonical []byte) {
	if canonical == nil {
		return
	}
	p.Canonical = ""
	if len(canonical) == 0 || canonical[0] == '#' {
		return
	}
	if c, ok := g.resolve(nil, canonical); ok && string(c) != url {
		p.Canonical = string(c)
	}
}

// resolve appends the canonical URL that a reference has for a browser, or returns dst and false.
func (g *Gatherer) resolve(dst, ref []byte) ([]byte, bool) {
	return g.base.Resolve(dst, g.scan.AsBrowser(g.base.URL(), ref))
}

// link adds a reference to the links, unless its URL is there already.
func (g *Gatherer) link(p *Page, r html.Ref) {
	n := g.number(r.URL, html.MaxLinks)
	switch {
	case n < 0:
	case int(n) == len(p.Links):
		p.Links = append(p.Links, Link{Kind: LinkKind(r.Kind), NoFollow: r.NoFollow})
	default:
		l := &p.Links[n]
		if l.Kind == Embedded {
			l.Kind = LinkKind(r.Kind)
		}
		l.NoFollow = l.NoFollow && r.NoFollow
	}
}

// number returns the number of the URL that a reference has among those of the page, of which there may be so many; -1 if it has none.
func (g *Gatherer) number(ref []byte, most int) int32 {
	from := len(g.urls.arena)
	var ok bool
	if g.urls.arena, ok = g.resolve(g.urls.arena, ref); !ok || len(g.urls.ends) >= most || len(g.urls.arena) > maxArena {
		g.urls.arena = g.urls.arena[:from]
		return -1
	}
	hash := maphash.Bytes(g.urls.seed, g.urls.arena[from:])
	if n, ok := g.urls.seen[hash]; ok && bytes.Equal(g.urls.at(n), g.urls.arena[from:]) {
		g.urls.arena = g.urls.arena[:from]
		return n
	}
	n := int32(len(g.urls.ends))
	g.urls.seen[hash] = n
	g.urls.ends = append(g.urls.ends, len(g.urls.arena))
	return n
}

// maxArena bounds the total length of a page's URLs, in bytes: a long base can be part of each.
const maxArena = 4 << 20

// at returns the URL with a number.
func (u *urls) at(n int32) []byte {
	from := 0
	if n > 0 {
		from = u.ends[n-1]
	}
	return u.arena[from:u.ends[n]]
}
