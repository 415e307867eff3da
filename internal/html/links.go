package html

import (
	"net/url"
	"strings"
)

// baseOf returns the base of a page's references, given the href of its <base>. It is empty, so that only
// absolute ones resolve, if the URL of the page is invalid.
func baseOf(pageURL string, href []byte) *url.URL {
	page, err := url.Parse(pageURL)
	if err != nil {
		page = &url.URL{}
	}
	if base, err := page.Parse(clean(string(href))); err == nil && web(base) {
		return base
	}
	return page
}

// canonicalURL returns the canonical URL, or the empty string if it is the page's own.
func canonicalURL(base *url.URL, ref []byte, pageURL string) string {
	s := resolve(base, string(ref))
	if own, _, _ := strings.Cut(pageURL, "#"); s == own {
		return ""
	}
	return s
}

func linksOf(base *url.URL, refs []Ref) []string {
	var links []string
	size, seen := 0, make(map[string]struct{}, len(refs))
	for _, ref := range refs {
		s := resolve(base, string(ref.URL))
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
