package robots

import "strings"

// A rule is one Allow or Disallow line.
//
// Its pattern is kept in canonical form (see canonical), in which a "*" is
// always a wildcard and a "$" always the end.
type rule struct {
	pattern string
	loose   string // pattern in loose form (see loosen), if that differs
	exact   string // of an Allow, pattern with needless encodings kept, if that differs; then only this form matches
	text    string // as it is written, for people
	allow   bool
	prefix  string // pattern up to its first *, ? or $: every path that matches begins with it, in canonical and in loose form
}

func newRule(pattern string, allow bool) rule {
	r := rule{pattern: canonical(pattern, true), text: pattern, allow: allow}
	r.prefix = r.pattern
	if i := strings.IndexAny(r.pattern, "*?$"); i >= 0 {
		r.prefix = r.pattern[:i]
	}
	if l := loosen(r.pattern, "?*"); l != r.pattern {
		r.loose = l
	}
	if e := spelled(pattern, true); allow && e != r.pattern {
		r.exact = e
	}
	return r
}

// outranks reports whether r decides over o if both match: the one with more octets, at a tie the less strict
// (RFC 9309, 2.2.2).
func (r *rule) outranks(o *rule) bool {
	return o == nil || len(r.pattern) > len(o.pattern) || len(r.pattern) == len(o.pattern) && r.allow && !o.allow
}

// matches takes time linear in the length of the pattern and of the path.
func (r *rule) matches(t *target) bool {
	if r.exact != "" {
		return Match(r.exact, t.exact)
	}
	if !strings.HasPrefix(t.path, r.prefix) {
		return false
	}
	if r.prefix == r.pattern || Match(r.pattern, t.path) {
		return true
	}
	if t.loose == "" || r.loose == "" && t.loose == t.path {
		return false
	}
	pattern := r.loose
	if pattern == "" {
		pattern = r.pattern
	}
	return Match(pattern, t.loose)
}

// Match reports whether the pattern matches from the beginning of the path. Each literal between wildcards is
// matched at its first occurrence, which leaves the most room for the rest.
func Match(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	literal, rest, wild := strings.Cut(pattern, "*")
	path, ok := strings.CutPrefix(path, literal)
	for ok && wild {
		literal, rest, wild = strings.Cut(rest, "*")
		if !wild && whole {
			return strings.HasSuffix(path, literal)
		}
		_, path, ok = strings.Cut(path, literal)
	}
	return ok && (!whole || path == "")
}

// A target is a path to be matched, in canonical form, in loose form if it
// has a query, and with needless encodings kept.
type target struct{ path, loose, exact, raw string }

func newTarget(path string) target {
	path, _, _ = strings.Cut(path, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	t := target{path: canonical(path, false), exact: path}
	if t.path != path {
		t.exact = spelled(path, false)
		if w := written(path); w != t.path {
			t.raw = w
		}
	}
	t.loosen()
	return t
}

func (t *target) loosen() {
	t.loose = ""
	if strings.IndexByte(t.path, '?') >= 0 {
		t.loose = loosen(t.path, "?")
	}
}

// asWritten returns the target with octets left unencoded that must be encoded but are not.
func (t target) asWritten() target {
	if t.raw != "" {
		t.path, t.exact = t.raw, t.raw
		t.loosen()
	}
	return t
}

const hex = "0123456789ABCDEF"

// canonical gives every path one spelling (RFC 9309, 2.2.2): unreserved octets of RFC 3986 stand for
// themselves, reserved ones stay as written, all others are percent-encoded in upper case. So are "*" and
// "$", except where they are special in a pattern.
func canonical(s string, pattern bool) string { return spell(s, pattern, true, true) }

// spelled is canonical, but a needlessly encoded octet stays encoded.
func spelled(s string, pattern bool) string { return spell(s, pattern, false, true) }

// written is the canonical form of a path, but an octet that must be encoded and is not stays unencoded. No
// pattern has such an octet, so only wildcards match it.
func written(s string) string { return spell(s, false, true, false) }

func spell(s string, pattern, decode, encode bool) string {
	i := 0
	for i < len(s) && plain[s[i]] {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case plain[c]:
			b.WriteByte(c)
			continue
		case pattern && (c == '*' || c == '$' && i == len(s)-1):
			b.WriteByte(c)
			continue
		case c == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			c = byte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
			if decode && unreserved(c) {
				b.WriteByte(c)
				continue
			}
		case !encode && c != '*' && c != '$':
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// loosen decodes octets that a query may hold encoded or not: "?u=http%3A%2F%2Fa" is "?u=http://a". The query
// of s begins after the first octet that is one of begin: in a pattern, everything after a wildcard may be
// query.
func loosen(s, begin string) string {
	i := strings.IndexAny(s, begin)
	if i < 0 || strings.IndexByte(s[i:], '%') < 0 {
		return s
	}
	return s[:i] + strings.NewReplacer("%2F", "/", "%3A", ":", "%3F", "?", "%40", "@").Replace(s[i:])
}

// plain octets are the same in every form.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = unreserved(byte(c)) || strings.IndexByte("/:?#[]@!&'()+,;=", byte(c)) >= 0
	}
	return t
}()

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
