// Package gather is the role that reads: what an answer says, where it leads,
// and by which digests its content is known again.
//
// Of the types of content only HTML, XHTML and plain text are read (P09), and
// of these only what looks like text: a ZIP that is called text/html is not.
// Every page gets the digest of its bytes, and what was read another one of
// what is left of it after parsing (V17, P17): its words and what its links
// and images refer to, without markup, comments, scripts, styles and the
// amount of white space. Two pages with one such digest are duplicates, and
// the links of the second need not be followed: they are written alike, but
// may lead elsewhere if they are relative.
package gather

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/urlref"
	"github.com/parleyweb/parley/protocol"
)

// A LinkKind says by what a page leads elsewhere.
type LinkKind uint8

// The kinds, in the order of those of package html.
const (
	Anchor    LinkKind = iota // a, area
	Frame                     // iframe, frame
	Refresh                   // meta refresh
	Alternate                 // link rel=alternate hreflang, next, prev, canonical: other pages
	Embedded                  // img, script, style sheet, audio, video, object: not followed unless asked
	Feed                      // link rel=alternate to RSS, Atom, JSON Feed
	Sitemap                   // link rel=sitemap
	Manifest                  // link rel=alternate or manifest to an RDF document, as ours is
)

// A Link is where a page leads.
type Link struct {
	URL      string // canonical, as protocol.CanonicalURL returns it
	Kind     LinkKind
	NoFollow bool // rel=nofollow, ugc or sponsored, wherever the page names this URL
}

// A Page is what an answer says.
type Page struct {
	Title, Language string

	// Canonical is the URL that the page asks to be listed under; empty if
	// it says nothing, or its own.
	Canonical string

	// NoIndex and NoFollow are the word of meta robots or X-Robots-Tag, for our name or everybody.
	// A page whose unavailable_after has passed says noindex.
	NoIndex, NoFollow bool

	// Base is the URL that references start from: the page's own, or what its <base> says.
	Base string

	// Links are where the page leads, each once, in the order of the page. At
	// most html.MaxLinks. Their strings live as long as they are needed; the
	// slice is of use until the next Read.
	Links []Link

	// HTML says that the page was read as such; if not, it is text/plain,
	// without links, or was not parsed at all.
	HTML bool

	Body   protocol.Digest // of the body as served
	Parsed protocol.Digest // of the content after parsing; zero if not parsed, or if nothing is left: that is like no other page
	Text   protocol.Digest // of the main text, as package html has it, if asked for; zero if not, or if not parsed

	// Pairs are hashes of half of the pairs of words that follow each other, if asked for; of use until the next Read.
	// Pairs that a link stands between are none.
	Pairs []uint32
}

// A Gatherer reads pages, one after another; several goroutines need one
// each. It keeps its memory from page to page, so it may be copied before its
// first Read only. The zero Gatherer is ready.
type Gatherer struct {
	// Agent is our product token, such as "parley": what <meta> and
	// X-Robots-Tag say to it counts beside what they say to everybody.
	Agent string

	// Embedded asks for what pages embed, too: images, scripts, style sheets.
	Embedded bool

	// Text asks for the digest of the main text. It costs two thirds of what all the rest does.
	Text bool

	// Pairs asks for the pairs of words of pages that are HTML.
	Pairs bool

	scan      html.Scanner
	base      urlref.Base
	arena     []byte // the URLs of all links, one after another
	ends      []int  // where each ends in it
	seen      map[uint64]int32
	seed      maphash.Seed
	refs      []html.Ref // of the headers
	canonical []byte     // of them
}

// Read reads the body of an answer for the page at a canonical URL into p,
// replacing all that was there. The body is decoded, and may be cut. Whatever
// the bytes are, there is a result: an error only says that they are not what
// their Content-Type says, and were not parsed.
func (g *Gatherer) Read(p *Page, url string, h http.Header, body []byte) error {
	*p = Page{Base: url, Links: p.Links[:0], Pairs: p.Pairs[:0], Body: protocol.Sum(body)}
	g.headers(p, h)
	kind, err := kindOf(h, body)
	switch kind {
	case plainText:
		g.scan.Plain(body)
		g.digest(p)
		if g.Text {
			p.Text = protocol.Sum(g.scan.Content)
		}
	case hyperText:
		g.page(p, h, body)
	}
	g.links(p, url)
	if err != nil {
		return fmt.Errorf("read %.200s: %w", url, err)
	}
	return nil
}

func (g *Gatherer) page(p *Page, h http.Header, body []byte) {
	s := &g.scan
	s.Charset = charset(first(h, "Content-Type"))
	s.Agent, s.Embedded, s.Contents, s.MainText = g.Agent, g.Embedded, true, g.Text
	s.Scan(body)
	p.HTML, p.Title, p.Language = true, s.Title, s.Language
	p.NoIndex, p.NoFollow = p.NoIndex || s.NoIndex || html.Expired(s.UnavailableAfter, time.Now()), p.NoFollow || s.NoFollow
	g.digest(p)
	if g.Text {
		p.Text = protocol.Sum(s.Text)
	}
	if g.Pairs {
		p.Pairs = appendPairs(p.Pairs, s.Content)
	}
}

// digest digests what is left of a page after parsing.
func (g *Gatherer) digest(p *Page) {
	if len(g.scan.Content) > 0 {
		p.Parsed = protocol.Sum(g.scan.Content)
	}
}

// links resolves what the headers and the page refer to.
func (g *Gatherer) links(p *Page, url string) {
	g.base.Reset(url)
	g.arena, g.ends = g.arena[:0], g.ends[:0]
	if g.seen == nil || len(g.seen) > 1000 { // to clear a map takes as long as it ever was large
		g.seen, g.seed = make(map[uint64]int32), maphash.MakeSeed()
	}
	clear(g.seen)
	for _, r := range g.refs {
		g.link(p, r)
	}
	g.asksFor(p, url, g.canonical) // as the links of headers, it starts from the page's own URL (RFC 8288, section 3.2)
	if p.HTML {
		if s := &g.scan; s.Base != nil {
			if base, ok := g.base.Resolve(nil, s.Base); ok {
				p.Base = string(base)
				g.base.Reset(p.Base)
			}
		}
		for _, r := range g.scan.Refs {
			g.link(p, r)
		}
		g.asksFor(p, url, g.scan.Canonical)
	}
	urls := string(g.arena)
	from := 0
	for i, end := range g.ends {
		p.Links[i].URL = urls[from:end]
		from = end
	}
}

// asksFor takes in as which URL a page asks to be listed; nil if it does not.
func (g *Gatherer) asksFor(p *Page, url string, canonical []byte) {
	if canonical == nil {
		return
	}
	p.Canonical = ""
	if len(canonical) == 0 || canonical[0] == '#' {
		return
	}
	if c, ok := g.base.Resolve(nil, canonical); ok && string(c) != url {
		p.Canonical = string(c)
	}
}

// link adds a reference to the links, unless its URL is there already.
func (g *Gatherer) link(p *Page, r html.Ref) {
	from := len(g.arena)
	var ok bool
	if g.arena, ok = g.base.Resolve(g.arena, r.URL); !ok || len(p.Links) >= html.MaxLinks || len(g.arena) > maxArena {
		g.arena = g.arena[:from]
		return
	}
	hash := maphash.Bytes(g.seed, g.arena[from:])
	if n, ok := g.seen[hash]; ok && bytes.Equal(g.at(n), g.arena[from:]) {
		g.arena = g.arena[:from]
		l := &p.Links[n]
		if l.Kind == Embedded {
			l.Kind = LinkKind(r.Kind)
		}
		l.NoFollow = l.NoFollow && r.NoFollow
		return
	}
	g.seen[hash] = int32(len(p.Links))
	g.ends = append(g.ends, len(g.arena))
	p.Links = append(p.Links, Link{Kind: LinkKind(r.Kind), NoFollow: r.NoFollow})
}

// maxArena bounds the URLs of one page together, in bytes: one base can be part of each.
const maxArena = 4 << 20

// at returns the URL of a link.
func (g *Gatherer) at(n int32) []byte {
	from := 0
	if n > 0 {
		from = g.ends[n-1]
	}
	return g.arena[from:g.ends[n]]
}
