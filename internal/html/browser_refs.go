package html

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// AsBrowser returns a reference of the page read last as a resolver by RFC 3986, such as package urlref, must be given it to find the page
// that a browser finds (WHATWG URL, section 4.4). base is the URL that the reference is relative to. The result is ref itself if nothing
// has to be changed, as usual; else it has no fragment, and is empty if the reference leads nowhere. It may share memory with ref, and does not
// change it.
//
// What changes is where a reference leads, and not how that is spelled: "\" is "/" before the query, "http:x" is relative to a page with that
// scheme, the number of slashes before a host does not matter, "%2e" is a dot where dots have a meaning, a colon in a name that can be no
// scheme is nothing special, hosts are internationalized, control characters are encoded, and the path, unlike the query, is UTF-8 whatever
// the encoding of the page. How characters are encoded stays as in protocol.CanonicalURL, which every known page is named by: a browser leaves
// "|" in a path, "{" in a query and a "%" that begins no escape as they are, and encodes "'" in a query. Servers see no difference.
func (s *Scanner) AsBrowser(base string, ref []byte) []byte {
	if !unusual(ref) {
		return ref
	}
	ref, _, _ = bytes.Cut(ref, []byte("#"))
	before, query, asks := bytes.Cut(ref, []byte("?"))
	if text := s.page.served.toUTF8(before); len(text) > 0 {
		before = text
	}
	path := strings.ReplaceAll(string(before), `\`, "/")
	scheme := ""
	if name, rest, ok := strings.Cut(path, ":"); ok && isScheme(name) {
		if !isHTTP(name) {
			return ref
		}
		scheme, path = name+":", rest
	}
	rest := strings.TrimLeft(path, "/")
	relative := scheme == "" || len(base) > len(scheme) && strings.EqualFold(base[:len(scheme)], scheme)
	if relative && len(path)-len(rest) < 2 {
		path = dotted(path)
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ":") || strings.HasPrefix(path, " ") {
			path = "./" + path
		}
	} else {
		host, below := rest, ""
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			host, below = rest[:i], rest[i:]
		}
		if host == "" {
			return nil // which leads nowhere
		}
		path = scheme + "//" + asciiHost(host) + dotted(below)
	}
	out := []byte(path)
	if asks {
		out = append(append(out, '?'), query...)
	}
	return encodeControls(out)
}

// unusual reports whether AsBrowser may have to change a reference.
func unusual(ref []byte) bool {
	for i, c := range ref {
		if odd[c] && (c != '%' || i+2 < len(ref) && ref[i+1] == '2' && ref[i+2]|0x20 == 'e') {
			return true
		}
	}
	for i, c := range ref {
		if c == '/' || c == '?' {
			return i == 0 && bytes.HasPrefix(ref, []byte("//")) && oddHost(ref[2:])
		} else if c == ':' {
			name, rest := string(ref[:i]), ref[i+1:]
			return !isScheme(name) || isHTTP(name) && !(bytes.HasPrefix(rest, []byte("//")) && !oddHost(rest[2:]))
		}
	}
	return false
}

// oddHost reports whether something other than a plain host follows two slashes.
func oddHost(rest []byte) bool {
	host, _, _ := bytes.Cut(rest, []byte("/"))
	return len(host) == 0 || host[0] == '?' || bytes.IndexByte(host, '%') >= 0
}

// odd has the bytes of unusual references.
var odd = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c < ' ' || c >= 0x7f || c == '\\' || c == '%'
	}
	return t
}()

func isHTTP(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

func isScheme(name string) bool {
	for i := range len(name) {
		if c := name[i]; !letter(c) && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return name != ""
}

// dotted writes the segments of a path that are dots as dots.
func dotted(path string) string {
	if !strings.Contains(path, "%2") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if dots := strings.ReplaceAll(strings.ReplaceAll(s, "%2e", "."), "%2E", "."); dots == "." || dots == ".." {
			segments[i] = dots
		}
	}
	return strings.Join(segments, "/")
}

// asciiHost returns a host, which may have a port, in ASCII. It returns anything that is no host as it is.
func asciiHost(host string) string {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name, port = host[:i], host[i:]
	}
	name, err := url.PathUnescape(name)
	if err != nil || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r < 0x80 && strings.ContainsRune(`"#%/:;<>?@[\]^{|}`+"`\x7f", r) }) {
		return host
	}
	if !foreign([]byte(name)) {
		return name + port
	}
	for label := range strings.SplitSeq(name, ".") {
		if utf8.RuneCountInString(label) > 63 { // no host, and its conversion takes time quadratic in its length
			return host
		}
	}
	if name, err = idna.Lookup.ToASCII(name); err != nil {
		return host
	}
	return name + port
}

// encodeControls percent-encodes control characters.
func encodeControls(ref []byte) []byte {
	const digits = "0123456789ABCDEF"
	control := func(c byte) bool { return c < ' ' || c == 0x7f }
	if !bytes.ContainsFunc(ref, func(r rune) bool { return r < 0x80 && control(byte(r)) }) {
		return ref
	}
	var out []byte
	for _, c := range ref {
		if control(c) {
			out = append(out, '%', digits[c>>4], digits[c&15])
		} else {
			out = append(out, c)
		}
	}
	return out
}
