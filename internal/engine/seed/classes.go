package seed

import "strings"

type class uint8

const (
	unlisted class = iota
	static
	dynamic
	logged
	document // LogOnly if found by a link, fetched if the site lists it
)

func (c *compiled) classify(exts []string, k class) {
	for _, e := range exts {
		e = strings.ToLower(strings.TrimPrefix(e, "."))
		c.ext[e] = k
		c.longExt = max(c.longExt, len(e))
	}
}

func (c *compiled) isWord(s string) string {
	if len(s) == 0 || len(s) > c.longWord {
		return ""
	}
	var buf [16]byte
	if w := appendLower(buf[:0], s); c.words[string(w)] {
		return string(w)
	}
	return ""
}

// extension returns the class of an extension, ignoring case.
func (c *compiled) extension(e string) class {
	if len(e) > c.longExt {
		return unlisted
	}
	var buf [8]byte
	return c.ext[string(appendLower(buf[:0], e))]
}

// classOf returns the class of a URL by its path and query.
func (c *compiled) classOf(path string) class {
	path, _, query := strings.Cut(path, "?")
	last := path[strings.LastIndexByte(path, '/')+1:]
	ext := ""
	if i := strings.LastIndexByte(last, '.'); i >= 0 {
		ext = last[i+1:]
	}
	k := c.extension(ext)
	if query && c.queries && k != logged && k != document {
		return dynamic
	}
	return k
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
