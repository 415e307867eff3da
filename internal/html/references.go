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
	case rel&(relAlternate|relPage|relCanonical) != 0:
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

func (s *Scanner) rels(a attrID) rels {
	if s.has&(1<<a) == 0 {
		return 0
	}
	return relsOf(s.value(a))
}

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

// follow adds the target of a link.
func (s *Scanner) follow(a attrID, kind Kind, nofollow bool) {
	href := s.value(a)
	if href == nil || s.templates > 0 {
		return
	}
	ref := s.cleanRef(href)
	if s.reads() {
		s.content(ref)
	}
	s.ref(ref, kind, nofollow)
}

func (s *Scanner) embed(a attrID) {
	if !s.Embedded || s.templates > 0 {
		return
	}
	if ref := s.value(a); ref != nil {
		s.embedRef(ref)
	}
}

func (s *Scanner) embedRef(ref []byte) {
	if ref = s.cleanRef(ref); len(ref) < 5 || string(ref[:5]) != "data:" {
		s.ref(ref, Embedded, false)
	}
}

// embedSet adds the images of a srcset.
func (s *Scanner) embedSet(a attrID) {
	if !s.Embedded || s.templates > 0 {
		return
	}
	for set := s.value(a); len(set) > 0; {
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
		if len(ref) > 0 {
			s.embedRef(ref)
		}
	}
}

// refreshRef returns the reference in the content of a refresh; nil if there is none.
func refreshRef(content []byte) []byte {
	i := bytes.IndexAny(content, ",;")
	if i < 0 {
		return nil
	}
	ref := bytes.TrimSpace(content[i+1:])
	if len(ref) > 3 && strings.EqualFold(string(ref[:3]), "url") {
		if rest := bytes.TrimSpace(ref[3:]); len(rest) > 0 && rest[0] == '=' {
			ref = bytes.TrimSpace(rest[1:])
		}
	}
	if len(ref) > 0 && (ref[0] == '"' || ref[0] == '\'') {
		ref, _, _ = bytes.Cut(ref[1:], ref[:1])
	}
	return ref
}

// ref adds a reference, if it is new.
func (s *Scanner) ref(ref []byte, kind Kind, nofollow bool) {
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	if len(ref) == 0 || len(ref) > maxURL {
		return
	}
	h := uint32(maphash.Bytes(s.seed, ref))
	mask := uint32(len(s.seen) - 1)
	at := h & mask
	for ; s.seen[at] != 0; at = (at + 1) & mask {
		if n := s.seen[at] - 1; s.hashes[n] == h && bytes.Equal(s.Refs[n].URL, ref) {
			r := &s.Refs[n]
			if r.Kind == Embedded {
				r.Kind = kind
			}
			r.NoFollow = r.NoFollow && nofollow
			return
		}
	}
	if len(s.Refs) >= MaxLinks || s.size >= maxLinkBytes {
		return
	}
	s.Refs = append(s.Refs, Ref{ref, kind, nofollow})
	s.hashes = append(s.hashes, h)
	s.seen[at] = uint32(len(s.Refs))
	s.size += len(ref)
	if 2*len(s.Refs) > len(s.seen) {
		s.growSeen()
	}
}

func (s *Scanner) growSeen() {
	n := 2 * len(s.seen)
	if cap(s.seen) < n {
		s.seen = make([]uint32, n)
	} else {
		s.seen = s.seen[:n]
		clear(s.seen)
	}
	for i, h := range s.hashes {
		at := h & uint32(n-1)
		for ; s.seen[at] != 0; at = (at + 1) & uint32(n-1) {
		}
		s.seen[at] = uint32(i + 1)
	}
}

// firstSeen is the initial size of the table of references: small, so that clearing it costs a page with few
// links little.
const firstSeen = 256
