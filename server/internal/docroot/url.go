package docroot

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// A urlMap maps places to URLs and back. A place is a path below the docroot, with "/" between names, which
// are arbitrary bytes.
//
// Names are encoded as RFC 3986 path segments: unreserved characters, sub-delims, ":" and "@" stand for
// themselves, every other byte is percent-encoded, in upper case. Browsers and crawlers leave all of these
// alone ("&" and "'" too), and encode most of the others alike; "[", "]", "|" and "^", in which they differ,
// are encoded, as the RFC wants it. So each place has one URL, which is canonical in the sense of
// protocol.CanonicalURL.
type urlMap struct {
	base   string // ends in "/"
	origin int    // length of its origin
	clean  bool   // ".html" is left out of URLs
}

// indexName is the file that a web server sends for its directory. It is the only one that nginx knows unless
// configured otherwise.
const indexName = "index.html"

func newURLMap(base string, clean bool) (urlMap, error) {
	if strings.ContainsAny(base, "?#") {
		return urlMap{}, fmt.Errorf("base %.200q: a base has no query and no fragment", base)
	}
	u, err := protocol.CanonicalURL("", base)
	if err != nil {
		return urlMap{}, fmt.Errorf("base: %w", err)
	}
	if !strings.HasSuffix(u, "/") {
		u += "/"
	}
	if len(u) > protocol.MaxURL/2 {
		return urlMap{}, errors.New("base: too long")
	}
	return urlMap{u, len(protocol.Origin(u)), clean}, nil
}

// path returns the part of a URL that robots.txt rules match.
func (m urlMap) path(url string) string { return url[m.origin:] }

// tail returns a file's URL after that of its directory.
func (m urlMap) tail(name string) string {
	if name == indexName {
		return ""
	}
	if m.clean {
		if stem := strings.TrimSuffix(name, ".html"); stem != "" {
			name = stem
		}
	}
	return escapeName(name)
}

// dir returns the place of the directory with the given URL, and false if the URL is not a directory's.
func (m urlMap) dir(prefix string) (place string, ok bool) {
	rest, ok := strings.CutPrefix(prefix, m.base)
	if !ok || rest != "" && !strings.HasSuffix(rest, "/") {
		return "", false
	}
	if rest == "" {
		return "", true
	}
	var room [16]string
	names := room[:0]
	for s := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		name, ok := unescapeName(s)
		if !ok {
			return "", false
		}
		names = append(names, name)
	}
	return strings.Join(names, "/"), true
}

// places returns the files that a URL may stand for, the likeliest first.
func (m urlMap) places(url string) []string {
	slash := strings.LastIndexByte(url, '/') + 1
	dir, ok := m.dir(url[:slash])
	if !ok {
		return nil
	}
	if slash == len(url) {
		return []string{joinPlace(dir, indexName)}
	}
	name, ok := unescapeName(url[slash:])
	if !ok {
		return nil
	}
	var list []string
	if m.tail(name) == url[slash:] {
		list = append(list, joinPlace(dir, name))
	}
	if m.clean && m.tail(name+".html") == url[slash:] {
		list = append(list, joinPlace(dir, name+".html"))
	}
	return list
}

// nameByte tells for every byte whether it stands for itself in a path segment.
var nameByte = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@") {
		t[c] = true
	}
	return t
}()

// escapeName encodes a file name as a path segment. A name that needs no escaping is returned as it is.
func escapeName(name string) string {
	const digits = "0123456789ABCDEF"
	n := 0
	for i := 0; i < len(name); i++ {
		if !nameByte[name[i]] {
			n++
		}
	}
	if n == 0 {
		return name
	}
	b := make([]byte, 0, len(name)+2*n)
	for i := 0; i < len(name); i++ {
		if c := name[i]; nameByte[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// unescapeName reverses escapeName. It returns false for a segment that escapeName does not write, and for
// one that is no file name. A segment without escapes is returned as it is.
func unescapeName(segment string) (name string, ok bool) {
	if escapeName(segment) == segment {
		return segment, segment != "" && segment != "." && segment != ".."
	}
	b := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		switch {
		case nameByte[c]:
		case c == '%' && i+2 < len(segment):
			hi, lo := unhex(segment[i+1]), unhex(segment[i+2])
			if hi > 15 || lo > 15 {
				return "", false
			}
			if c = hi<<4 | lo; nameByte[c] || c == '/' || c == 0 {
				return "", false
			}
			i += 2
		default:
			return "", false
		}
		b = append(b, c)
	}
	name = string(b)
	return name, name != "" && name != "." && name != ".."
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

func joinPlace(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func splitPlace(place string) (dir, name string) {
	i := strings.LastIndexByte(place, '/')
	return place[:max(i, 0)], place[i+1:]
}
