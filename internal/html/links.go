package html

import (
	"bytes"
	"net/url"
	"strings"

	"golang.org/x/net/html/atom"
)

// References are a page's references as written.
type references struct {
	baseHref  []byte // of the first <base> with an href
	canonical []byte // the first
	hrefs     []string
	seen      map[string]struct{} // the same as a set; nil while empty
	size      int                 // of hrefs together, in bytes
}

func (r *references) setBase(href []byte) {
	if r.baseHref == nil && href != nil && len(href) <= maxURL {
		r.baseHref = bytes.Clone(href)
	}
}

func (r *references) setCanonical(href []byte) {
	if r.canonical == nil && href != nil && len(href) <= maxURL {
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
		if hasWord(a.rel, "stylesheet") {
			return
		}
		for _, rel := range []string{"alternate", "appendix", "author", "canonical", "chapter", "contents", "copyright", "first", "glossary",
			"help", "index", "last", "license", "next", "prev", "previous", "search", "section", "start", "subsection", "toc", "top", "up"} {
			if hasWord(a.rel, rel) {
				r.addRef(a.href)
				return
			}
		}
	}
}

// addRefresh adds the URL of <meta http-equiv="refresh" content="0; url=...">.
func (r *references) addRefresh(content []byte) { r.addRef(refreshRef(content)) }

func (r *references) addRef(ref []byte) {
	ref, _, _ = bytes.Cut(ref, []byte{'#'})
	if len(ref) == 0 || len(ref) > maxURL || len(r.hrefs) >= MaxLinks || r.size >= maxLinkBytes {
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
	r.hrefs = append(r.hrefs, s)
	r.size += len(s)
}

// base returns the base of a page's references. It is empty, so that only absolute ones resolve, if the URL of
// the page is invalid.
func (r *references) base(pageURL string) *url.URL {
	page, err := url.Parse(pageURL)
	if err != nil {
		page = &url.URL{}
	}
	if base, err := page.Parse(clean(string(r.baseHref))); err == nil && web(base) {
		return base
	}
	return page
}

// canonicalURL returns the canonical URL, or the empty string if it is the page's own.
func (r *references) canonicalURL(base *url.URL, pageURL string) string {
	s := resolve(base, string(r.canonical))
	if own, _, _ := strings.Cut(pageURL, "#"); s == own {
		return ""
	}
	return s
}

func (r *references) links(base *url.URL) []string {
	var links []string
	size, seen := 0, make(map[string]struct{}, len(r.hrefs))
	for _, ref := range r.hrefs {
		s := resolve(base, ref)
		if _, ok := seen[s]; ok || s == "" {
			continue
		}
		if size += len(s); size > maxLinkBytes {
			break
		}
		seen[s] = struct{}{}
		links = append(links, s)
	}
	return links
}

// resolve returns the absolute http or https URL of a reference, without its fragment, or the empty string if
// there is none.
func resolve(base *url.URL, ref string) string {
	if ref == "" {
		return ""
	}
	u, err := base.Parse(clean(ref))
	if err != nil || !web(u) {
		return ""
	}
	u.Fragment, u.RawFragment = "", ""
	s := u.String()
	if len(s) > maxURL {
		return ""
	}
	return s
}

func web(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Opaque == ""
}

// clean prepares a reference as a browser does before parsing: it removes white space around it and line ends
// within, and keeps a "%" that begins no escape literally (WHATWG URL, section 4.4).
func clean(ref string) string {
	ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(ref, "\t\n\r") {
		ref = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(ref)
	}
	if !strings.Contains(ref, "%") {
		return ref
	}
	var b strings.Builder
	for i := 0; i < len(ref); i++ {
		b.WriteByte(ref[i])
		if ref[i] == '%' && !(i+2 < len(ref) && isHex(ref[i+1]) && isHex(ref[i+2])) {
			b.WriteString("25")
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}
