package seed

import "strings"

// classes are those of URLs, by extension.
type classes struct {
	ext        folded[class]
	onlyStatic bool // an extension that is not listed is refused
	queries    bool // a page with a query is dynamic
}

type class uint8

const (
	unlisted class = iota
	static
	dynamic
	logged
	document // LogOnly if found by a link, fetched if the site lists it
)

func (k *classes) classify(exts []string, c class) {
	for _, e := range exts {
		k.ext.add(strings.TrimPrefix(e, "."), c)
	}
}

// of returns the class of a URL by its path and query.
func (k *classes) of(path string) class {
	path, _, query := strings.Cut(path, "?")
	last := path[strings.LastIndexByte(path, '/')+1:]
	ext := ""
	if i := strings.LastIndexByte(last, '.'); i >= 0 {
		ext = last[i+1:]
	}
	c := k.ext.get(ext)
	if query && k.queries && c != logged && c != document {
		return dynamic
	}
	return c
}

// folded is a map whose keys match in upper and lower case.
type folded[V any] struct {
	of      map[string]V
	longest int // bytes of a key
}

func (f *folded[V]) add(key string, v V) {
	if f.of == nil {
		f.of = map[string]V{}
	}
	key = strings.ToLower(key)
	f.of[key] = v
	f.longest = max(f.longest, len(key))
}

func (f *folded[V]) get(key string) (v V) {
	if len(key) > f.longest {
		return v
	}
	var buf [16]byte
	return f.of[string(appendLower(buf[:0], key))]
}

func appendLower(b []byte, s string) []byte {
	for i := range len(s) {
		b = append(b, lower(s[i]))
	}
	return b
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
