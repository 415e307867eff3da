package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// MaxURL bounds every URL that Parley reads or writes, in bytes.
const MaxURL = 8192

// CanonicalURL resolves ref against base (which may be empty if ref is
// absolute) and returns it as Parley writes URLs: http or https, scheme and
// host in lower case, no default port, no user, a path of at least "/"
// without dot segments, invalid characters percent-encoded, no fragment.
// It preserves differences that servers may distinguish, such as the case of a
// path and unneeded escapes. It is idempotent.
func CanonicalURL(base, ref string) (string, error) {
	s, err := canonicalURL(base, ref, "http", "https")
	if err != nil {
		return "", fmt.Errorf("url %.200q: %w", ref, err)
	}
	return s, nil
}

// canonicalURL is CanonicalURL for the given schemes; its errors do not name the URL.
func canonicalURL(base, ref string, schemes ...string) (string, error) {
	ref = strings.Trim(ref, " \t\r\n")
	if ref == "" {
		return "", errors.New("no URL")
	}
	if len(ref) > MaxURL {
		return "", fmt.Errorf("URL longer than %d bytes", MaxURL)
	}
	ref, _, _ = strings.Cut(ref, "#")
	ref, err := escapeURL(ref)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(ref)
	if err != nil {
		return "", errors.New("not a URL")
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", errors.New("base is not a URL")
	}
	u = b.ResolveReference(u)
	scheme := ""
	for _, s := range schemes {
		if s == u.Scheme {
			scheme = s
		}
	}
	switch {
	case u.Scheme == "":
		return "", errors.New("relative URL without a base")
	case scheme == "":
		return "", fmt.Errorf("unsupported scheme %.20q", u.Scheme)
	case u.User != nil:
		return "", errors.New("user name in URL")
	case u.Opaque != "" || u.Hostname() == "":
		return "", errors.New("URL without a host")
	}
	host, err := canonicalHost(scheme, u.Host)
	if err != nil {
		return "", err
	}
	s := scheme + "://" + host
	if p := u.EscapedPath(); p == "" {
		s += "/"
	} else {
		s += p
	}
	if u.RawQuery != "" || u.ForceQuery {
		s += "?" + u.RawQuery
	}
	if len(s) > MaxURL {
		return "", fmt.Errorf("URL longer than %d bytes", MaxURL)
	}
	return s, nil
}

func canonicalHost(scheme, host string) (string, error) {
	host = strings.ToLower(host)
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name, port = host[:i], host[i+1:]
	}
	allowed := "abcdefghijklmnopqrstuvwxyz0123456789.-_"
	address, ok := strings.CutPrefix(name, "[")
	if ok {
		address, ok = strings.CutSuffix(address, "]")
		allowed = "abcdef0123456789:."
	} else {
		ok = true
	}
	if !ok || address == "" || strings.Trim(address, allowed) != "" || strings.Trim(port, "0123456789") != "" {
		return "", fmt.Errorf("invalid host %.80q", host)
	}
	if port == "" || port == defaultPort(scheme) {
		return name, nil
	}
	return name + ":" + port, nil
}

func defaultPort(scheme string) string {
	if scheme == "https" || scheme == "wss" {
		return "443"
	}
	return "80"
}

// Origin returns the scheme://host[:port] of a URL that [CanonicalURL]
// returned, and the empty string if url has none.
func Origin(url string) string {
	i := strings.Index(url, "://")
	if i < 0 {
		return ""
	}
	if j := strings.IndexByte(url[i+3:], '/'); j >= 0 {
		return url[:i+3+j]
	}
	return url
}

// urlByte says for every byte whether a canonical URL may contain it unescaped.
var urlByte = func() (t [256]bool) {
	for c := byte(0x21); c < 0x7f; c++ {
		t[c] = strings.IndexByte("\"#%<>\\^`{|}", c) < 0
	}
	return t
}()

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// escapeURL percent-encodes bytes that a URL cannot contain. Control characters
// are an error instead: nobody means them.
func escapeURL(s string) (string, error) {
	const digits = "0123456789ABCDEF"
	var b []byte // nil while nothing is encoded
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == 0x7f {
			return "", errors.New("control character in URL")
		}
		if urlByte[c] || c == '%' && i+2 < len(s) && hex(s[i+1]) && hex(s[i+2]) {
			if b != nil {
				b = append(b, c)
			}
			continue
		}
		if b == nil {
			b = append(make([]byte, 0, len(s)+16), s[:i]...)
		}
		b = append(b, '%', digits[c>>4], digits[c&15])
	}
	if b == nil {
		return s, nil
	}
	return string(b), nil
}

// A resolver makes URLs canonical, with a fast path for URLs that are already
// canonical and have the same origin as the one before.
type resolver struct {
	base   string
	origin string // of the last URL, with its slash
}

func (r *resolver) resolve(ref []byte) (string, error) {
	if cleanURL(ref, r.origin) {
		return string(ref), nil
	}
	ref = bytes.Trim(ref, " \t\r\n")
	return r.slowly(string(ref[:min(len(ref), MaxURL+1)]))
}

// other returns the canonical URL ref that the page at url declares, and the
// empty string if that is no URL, or url itself.
func (r *resolver) other(url, ref string) string {
	if ref == "" || ref == url {
		return ""
	}
	if !cleanURL(ref, r.origin) {
		var err error
		if ref, err = r.slowly(ref); err != nil {
			return ""
		}
	}
	if ref == url {
		return ""
	}
	return ref
}

// check refuses a URL that is not canonical.
func (r *resolver) check(url string) error {
	if cleanURL(url, r.origin) {
		return nil
	}
	s, err := r.slowly(url)
	if err != nil {
		return fmt.Errorf("url %.200q: %w", url, err)
	}
	if s != url {
		return fmt.Errorf("url %.200q: not canonical, want %.200q", url, s)
	}
	return nil
}

func (r *resolver) slowly(ref string) (string, error) {
	s, err := canonicalURL(r.base, ref, "http", "https")
	if err == nil {
		r.origin = Origin(s) + "/"
	}
	return s, err
}

// cleanURL reports whether ref is certainly canonical: it begins with the given
// origin, and the rest needs no change.
func cleanURL[S string | []byte](ref S, origin string) bool {
	n := len(origin)
	if n == 0 || len(ref) < n || len(ref) > MaxURL || string(ref[:n]) != origin {
		return false
	}
	for i := n; i < len(ref); i++ {
		switch c := ref[i]; {
		case c == '.' && ref[i-1] == '/': // perhaps a dot segment
			return false
		case urlByte[c]:
		case c == '%' && i+2 < len(ref) && hex(ref[i+1]) && hex(ref[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}
