package html

import (
	"bytes"
	"hash/maphash"
	"strings"
)

const (
	// MaxLinks is the maximum number of links read from a page.
	MaxLinks = 10_000

	// maxLinkBytes bounds their total size: one base can be part of each.
	maxLinkBytes = 4 << 20

	// maxURL is the longest reference that is followed, in bytes.
	maxURL = 8 << 10
)

// A Kind is the way in which a page refers to a URL.
type Kind uint8

const (
	Anchor    Kind = iota // a, area
	Frame                 // iframe, frame
	Refresh               // meta refresh
	Alternate             // a link to another page: alternate, canonical, next, prev and so on
	Embedded              // img, script, style sheet, audio, video, object
	Feed                  // link rel=alternate to RSS, Atom or JSON Feed
	Sitemap               // link rel=sitemap
	Manifest              // link to an RDF document
	Media                 // of Embedded: no script, and not from a link; only in Embeds
)

// A Ref is a reference as written on a page, with entities decoded, and without its fragment, surrounding
// white space and line ends.
type Ref struct {
	URL      []byte
	Kind     Kind
	NoFollow bool // rel has nofollow, ugc or sponsored, in every occurrence on the page
}

// LinkKind returns the kind of a <link> or a Link header with this rel and type; false if it leads nowhere.
func LinkKind(rel, typ []byte) (kind Kind, nofollow, ok bool) {
	r := relsOf(rel)
	kind, ok = linkKind(r, typ)
	return kind, r&relNoFollow != 0, ok
}

func linkKind(rel rels, typ []byte) (Kind, bool) {
	switch {
	case rel&relStyle != 0:
		return Embedded, true
	case rel&relSitemap != 0:
		return Sitemap, true
	case rel&(relAlternate|relFeed|relManifest) != 0 && isType(typ, "application/rdf+xml"):
		return Manifest, true
	case rel&relFeed != 0, rel&relAlternate != 0 && isFeed(typ):
		return Feed, true
	case rel&relPages != 0:
		return Alternate, true
	case rel&(relIcon|relManifest) != 0:
		return Embedded, true
	}
	return 0, false
}

// Rels are the link types in a rel attribute, as bits.
type rels uint16

const (
	relNoFollow rels = 1 << iota
	relAlternate
	relCanonical
	relFeed
	relIcon
	relManifest
	relPage
	relSitemap
	relStyle
)

// relPages lead to another page. The target of any other link is none, such as a style sheet, or the link is
// no reference at all, such as a hint to connect.
const relPages = relAlternate | relPage | relCanonical

func relsOf(list []byte) (r rels) {
	for i := 0; i < len(list); {
		from := i
		for i < len(list) && list[i] > ' ' && list[i] != ',' {
			i++
		}
		if i > from {
			r |= relOf(list[from:i])
		}
		i++
	}
	return r
}

func relOf(word []byte) rels {
	var buf [16]byte
	if len(word) > len(buf) {
		return 0
	}
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		buf[i] = c
	}
	switch string(buf[:len(word)]) {
	case "nofollow", "ugc", "sponsored":
		return relNoFollow
	case "alternate":
		return relAlternate
	case "canonical":
		return relCanonical
	case "feed":
		return relFeed
	case "icon", "apple-touch-icon", "mask-icon", "preload", "modulepreload":
		return relIcon
	case "manifest":
		return relManifest
	case "sitemap":
		return relSitemap
	case "stylesheet":
		return relStyle
	case "appendix", "author", "chapter", "contents", "copyright", "first", "glossary", "help", "index", "last", "license", "next", "prev", "previous",
		"search", "section", "start", "subsection", "toc", "top", "up":
		return relPage
	}
	return 0
}

func isType(typ []byte, want string) bool {
	typ, _, _ = bytes.Cut(typ, []byte{';'})
	return bytes.EqualFold(bytes.TrimSpace(typ), []byte(want))
}

func isFeed(typ []byte) bool {
	return len(typ) > 0 && (isType(typ, "application/rss+xml") || isType(typ, "application/atom+xml") || isType(typ, "application/feed+json"))
}

// RefreshRef returns the reference in a refresh, the content of a <meta> or the value of a header: it is parsed as browsers do (HTML
// standard, "shared declarative refresh steps"). It is nil or empty if there is none, as in a page that only reloads itself.
func RefreshRef(refresh []byte) []byte {
	const space, digits = " \t\n\f\r", "0123456789"
	refresh = bytes.TrimLeft(refresh, space)
	rest := bytes.TrimLeft(refresh, digits)
	if len(rest) == len(refresh) && !bytes.HasPrefix(rest, []byte(".")) {
		return nil // no time
	}
	rest = bytes.TrimLeft(rest, digits+".")
	ref := bytes.TrimLeft(rest, space)
	switch {
	case len(ref) > 0 && (ref[0] == ';' || ref[0] == ','):
		ref = bytes.TrimLeft(ref[1:], space)
	case len(ref) == len(rest): // nothing separates it from the time
		return nil
	}
	if len(ref) > 3 && strings.EqualFold(string(ref[:3]), "url") {
		if after := bytes.TrimLeft(ref[3:], space); len(after) > 0 && after[0] == '=' {
			ref = bytes.TrimLeft(after[1:], space)
		}
	}
	if len(ref) > 0 && (ref[0] == '"' || ref[0] == '\'') {
		ref, _, _ = bytes.Cut(ref[1:], ref[:1])
	}
	return ref
}

// References are those of a page. They are collected as they are on it; package gather and Read resolve them.
type references struct {
	// List has each once, in page order. Those in a <template> are left out, those in a <noscript> are not: a
	// crawler runs no scripts. There are at most MaxLinks.
	List []Ref

	data      Data // but for links
	wantsData bool

	off    bool     // nothing is collected
	seen   []uint32 // open addressing: 1 + the number of a reference
	hashes []uint32 // of the references
	seed   maphash.Seed
	size   int // in bytes
}

// reset prepares for another page, and reuses the memory.
func (r *references) reset() {
	if r.off {
		return
	}
	r.List, r.hashes, r.size, r.data = r.List[:0], r.hashes[:0], 0, Data{}
	if r.seen == nil {
		r.seen, r.seed = make([]uint32, firstSeen), maphash.MakeSeed()
	}
	r.seen = r.seen[:firstSeen]
	clear(r.seen)
}

// add adds a reference, if it is new.
func (r *references) add(ref []byte, kind Kind, nofollow bool) {
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	if len(ref) == 0 || len(ref) > maxURL {
		return
	}
	h := uint32(maphash.Bytes(r.seed, ref))
	mask := uint32(len(r.seen) - 1)
	at := h & mask
	for ; r.seen[at] != 0; at = (at + 1) & mask {
		if n := r.seen[at] - 1; r.hashes[n] == h && bytes.Equal(r.List[n].URL, ref) {
			known := &r.List[n]
			if known.Kind == Embedded {
				known.Kind = kind
			}
			known.NoFollow = known.NoFollow && nofollow
			return
		}
	}
	if len(r.List) >= MaxLinks || r.size >= maxLinkBytes {
		return
	}
	r.List = append(r.List, Ref{ref, kind, nofollow})
	r.hashes = append(r.hashes, h)
	r.seen[at] = uint32(len(r.List))
	r.size += len(ref)
	if 2*len(r.List) > len(r.seen) {
		r.grow()
	}
}

func (r *references) grow() {
	n := 2 * len(r.seen)
	if cap(r.seen) < n {
		r.seen = make([]uint32, n)
	} else {
		r.seen = r.seen[:n]
		clear(r.seen)
	}
	for i, h := range r.hashes {
		at := h & uint32(n-1)
		for ; r.seen[at] != 0; at = (at + 1) & uint32(n-1) {
		}
		r.seen[at] = uint32(i + 1)
	}
}

// firstSeen is the initial size of the table of references: small, so that clearing it costs a page with few
// links little.
const firstSeen = 256
