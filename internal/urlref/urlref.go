// Package urlref resolves the references of a page, many for one base, and makes them canonical. Its results
// always equal those of protocol.CanonicalURL; for usual references it takes a twentieth of the time and no
// memory. Unusual ones (a user, an address in brackets, an escape in a host, empty path segments beside dots)
// are passed to CanonicalURL itself.
package urlref

import (
	"bytes"

	"github.com/parleyweb/parley/protocol"
)

// A Base is the base of references: the URL of a page, or its <base>. The zero Base resolves absolute
// references only. It is safe for concurrent use, except for Reset.
type Base struct {
	url  string
	root int // where the path begins
	dir  int // where the last segment of the path begins
	path int // where the path ends

	empty bool // it has an empty segment, which makes dot segments difficult

	// other says that url is not plain and canonical: then every reference
	// is resolved by protocol.CanonicalURL.
	other bool
}

// Reset sets the base to url. Any string will do: against one that is no http or https URL, no relative
// reference resolves.
func (b *Base) Reset(url string) {
	*b = Base{url: url}
	if url == "" {
		return
	}
	if s, err := protocol.CanonicalURL("", url); err != nil || s != url || url[len(url)-1] == '?' {
		b.other = true // so is one with an empty query, which "#" would lose
		return
	}
	b.root = len(protocol.Origin(url))
	b.path = len(url)
	for i := b.root; i < len(url); i++ {
		if url[i] == '?' {
			b.path = i
			break
		} else if url[i] == '/' {
			b.empty = b.empty || b.dir == i
			b.dir = i + 1
		}
	}
}

// climb removes the leading "./" and "../" of ref. It returns the position in the base at which the rest
// continues the path.
func (b *Base) climb(ref []byte) (dir int, rest []byte) {
	dir = b.dir
	for len(ref) >= 2 && ref[0] == '.' {
		if ref[1] == '/' {
			ref = ref[2:]
			continue
		}
		if len(ref) < 3 || ref[1] != '.' || ref[2] != '/' {
			break
		}
		if dir > b.root+1 {
			for dir--; b.url[dir-1] != '/'; dir-- {
			}
		}
		ref = ref[3:]
	}
	return dir, ref
}

// URL returns the URL of the base, as given.
func (b *Base) URL() string { return b.url }

// Resolve appends to dst the canonical URL of ref. It returns dst unchanged, and false, if there is none:
// protocol.CanonicalURL(b.URL(), ref) returns the reason. It neither retains nor changes ref.
func (b *Base) Resolve(dst, ref []byte) ([]byte, bool) {
	n := len(dst)
	ref = trim(ref)
	if len(ref) == 0 || len(ref) > protocol.MaxURL {
		return dst, false
	}
	if b.other {
		return b.slowly(dst, ref)
	}
	rest := ref // still to be appended
	root := b.root
	switch {
	case ref[0] == '/' && len(ref) > 1 && ref[1] == '/':
		if b.url == "" {
			return dst, false
		}
		dst = append(dst, b.url[:bytesUntilColon(b.url)+1]...)
		var ok bool
		if dst, rest, ok = authority(dst, dst[n:len(dst)-1], ref); !ok {
			return b.slowly(dst[:n], ref)
		}
		root = len(dst) - n
	case ref[0] == '/' || ref[0] == '?' || ref[0] == '#':
		if b.url == "" {
			return dst, false
		}
		switch ref[0] {
		case '/':
			dst = append(dst, b.url[:root]...)
		case '?':
			dst = append(dst, b.url[:b.path]...)
		default:
			return append(dst, b.url...), true
		}
	default:
		scheme, relative := schemeOf(ref)
		switch {
		case relative:
			if b.url == "" {
				return dst, false
			}
			dir := b.dir
			if ref[0] == '.' && !b.empty {
				if dir, rest = b.climb(ref); len(rest) > 0 && rest[0] == '/' {
					return b.slowly(dst, ref)
				}
			}
			dst = append(dst, b.url[:dir]...)
		case isHTTP(ref[:scheme]):
			for _, c := range ref[:scheme] {
				dst = append(dst, c|0x20)
			}
			dst = append(dst, ':')
			var ok bool
			if dst, rest, ok = authority(dst, dst[n:len(dst)-1], ref[scheme+1:]); !ok {
				return b.slowly(dst[:n], ref)
			}
			root = len(dst) - n
		default:
			return dst, false // another scheme, or a colon where none is allowed
		}
	}
	if root == len(dst)-n && (len(rest) == 0 || rest[0] != '/') {
		dst = append(dst, '/')
	}
	dst, path, dots, ok := escape(dst, rest)
	if !ok {
		return dst[:n], false
	}
	if dots {
		p := dst[n+root : path]
		m, ok := removeDots(p)
		if !ok {
			return b.slowly(dst[:n], ref)
		}
		dst = append(dst[:n+root+m], dst[path:]...)
	}
	if len(dst)-n > protocol.MaxURL {
		return dst[:n], false
	}
	return dst, true
}

func (b *Base) slowly(dst, ref []byte) ([]byte, bool) {
	s, err := protocol.CanonicalURL(b.url, string(ref))
	return append(dst, s...), err == nil
}

func trim(ref []byte) []byte {
	for len(ref) > 0 && white(ref[0]) {
		ref = ref[1:]
	}
	for len(ref) > 0 && white(ref[len(ref)-1]) {
		ref = ref[:len(ref)-1]
	}
	return ref
}

func white(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func bytesUntilColon(url string) int {
	for i := range len(url) {
		if url[i] == ':' {
			return i
		}
	}
	return len(url) - 1
}

// schemeOf returns the length of the scheme of a reference, or that it is relative. With a colon in the first
// segment of a path it is neither, and the length is 0.
func schemeOf(ref []byte) (n int, relative bool) {
	for i, c := range ref {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':':
			return i, false
		case c == '/' || c == '?' || c == '#':
			return 0, true
		default:
			for _, c := range ref[i:] {
				switch c {
				case ':':
					return 0, false
				case '/', '?', '#':
					return 0, true
				}
			}
			return 0, true
		}
	}
	return 0, true
}

func isHTTP(scheme []byte) bool {
	if len(scheme) != 4 && len(scheme) != 5 {
		return false
	}
	for i, c := range scheme {
		if c|0x20 != "https"[i] {
			return false
		}
	}
	return true
}

// authority appends the "//host" at the beginning of ref, and returns the rest. It rejects what is not plain.
func authority(dst, scheme, ref []byte) (_, rest []byte, ok bool) {
	if len(ref) < 3 || ref[0] != '/' || ref[1] != '/' {
		return dst, nil, false
	}
	dst = append(dst, '/', '/')
	ref = ref[2:]
	i := 0
	for ; i < len(ref); i++ {
		c := ref[i]
		if t := hostByte[c]; t != 0 {
			dst = append(dst, t)
			continue
		}
		break
	}
	if i == 0 {
		return dst, nil, false
	}
	if i < len(ref) && ref[i] == ':' {
		j := i + 1
		for j < len(ref) && '0' <= ref[j] && ref[j] <= '9' {
			j++
		}
		standard := "80"
		if len(scheme) == 5 {
			standard = "443"
		}
		if port := ref[i+1 : j]; len(port) > 0 && string(port) != standard {
			dst = append(dst, ref[i:j]...)
		}
		i = j
	}
	if i < len(ref) && ref[i] != '/' && ref[i] != '?' && ref[i] != '#' {
		return dst, nil, false
	}
	return dst, ref[i:], true
}

// escape appends a path and a query, up to a fragment, and percent-encodes characters that a URL cannot have.
// It returns where in dst the path ends, and whether there may be dot segments in it. Control characters are
// rejected.
func escape(dst, ref []byte) (_ []byte, path int, dots, ok bool) {
	const digits = "0123456789ABCDEF"
	path = -1
	from := 0 // of what is not yet appended
	for i := 0; i < len(ref); i++ {
		c := ref[i]
		switch classOf[c] {
		case plain:
			continue
		case dot:
			if path < 0 && (i == 0 || ref[i-1] == '/') {
				dots = true
			}
			continue
		case question:
			if path < 0 {
				path = len(dst) + i - from
			}
			continue
		case hash:
			dst = append(dst, ref[from:i]...)
			if path < 0 {
				path = len(dst)
			}
			return dst, path, dots, true
		case percent:
			if i+2 < len(ref) && isHex(ref[i+1]) && isHex(ref[i+2]) {
				continue
			}
		case control:
			return dst, 0, false, false
		}
		dst = append(dst, ref[from:i]...)
		dst = append(dst, '%', digits[c>>4], digits[c&15])
		from = i + 1
	}
	dst = append(dst, ref[from:]...)
	if path < 0 {
		path = len(dst)
	}
	return dst, path, dots, true
}

// removeDots removes the dot segments from an absolute path, in place, and returns its new length. It rejects
// a path with an empty segment.
func removeDots(p []byte) (n int, ok bool) {
	for i := 0; i < len(p); {
		j := len(p)
		if k := bytes.IndexByte(p[i+1:], '/'); k >= 0 {
			j = i + 1 + k
		}
		last := j == len(p)
		switch s := p[i+1 : j]; {
		case len(s) == 0 && !last:
			return 0, false
		case len(s) == 1 && s[0] == '.':
			if last {
				p[n] = '/'
				n++
			}
		case len(s) == 2 && s[0] == '.' && s[1] == '.':
			if n = bytes.LastIndexByte(p[:n], '/'); n < 0 {
				n = 0
			}
			if last {
				p[n] = '/'
				n++
			}
		default:
			n += copy(p[n:], p[i:j])
		}
		i = j
	}
	if n == 0 && len(p) > 0 {
		p[0], n = '/', 1
	}
	return n, true
}

type class uint8

const (
	other class = iota // to be encoded
	plain
	dot
	question
	hash
	percent
	control
)

// classOf gives the treatment of each byte of a path or query, as in protocol.CanonicalURL.
var classOf = func() (t [256]class) {
	for c := range 0x7f {
		switch {
		case c < 0x20:
			t[c] = control
		case c == 0x20 || bytes.IndexByte([]byte("\"<>\\^`{|}"), byte(c)) >= 0:
		default:
			t[c] = plain
		}
	}
	t['.'], t['?'], t['#'], t['%'], t[0x7f] = dot, question, hash, percent, control
	return t
}()

// hostByte gives the lower case of each byte that a plain host name may have.
var hostByte = func() (t [256]byte) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789.-_") {
		t[c] = c
		if 'a' <= c && c <= 'z' {
			t[c-0x20] = c
		}
	}
	return t
}()

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}
