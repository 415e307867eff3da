package seed

import (
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// Names of parameters: whole, or by suffix or prefix.
type names struct {
	exact, suffix, prefix []string // in lower case
}

func newNames(l []string, suffix bool) names {
	var n names
	for _, s := range l {
		s = strings.ToLower(s)
		switch rest, ok := strings.CutSuffix(s, "*"); {
		case s == "":
		case ok:
			n.prefix = append(n.prefix, rest)
		case suffix:
			n.suffix = append(n.suffix, s)
		default:
			n.exact = append(n.exact, s)
		}
	}
	return n
}

func (n *names) has(name string) bool {
	for _, s := range n.exact {
		if strings.EqualFold(name, s) {
			return true
		}
	}
	for _, s := range n.suffix {
		if len(name) >= len(s) && strings.EqualFold(name[len(name)-len(s):], s) {
			return true
		}
	}
	for _, s := range n.prefix {
		if len(name) >= len(s) && strings.EqualFold(name[:len(s)], s) {
			return true
		}
	}
	return false
}

// session reports whether a parameter names a session.
func (c *compiled) session(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	if c.sessions.has(name) {
		return true
	}
	switch len(name) {
	case 1, 3, 4, 7:
	default:
		return false
	}
	if len(value) < 20 || len(c.sessions.suffix) == 0 {
		return false
	}
	if !strings.EqualFold(name, "s") && !strings.EqualFold(name, "sid") &&
		!strings.EqualFold(name, "sess") && !strings.EqualFold(name, "session") {
		return false
	}
	digits := false
	for i := 0; i < len(value); i++ {
		switch b := lower(value[i]); {
		case '0' <= b && b <= '9':
			digits = true
		case 'a' <= b && b <= 'z':
		default:
			return false
		}
	}
	return digits
}

// name returns the name by which a canonical URL is known: without sessions
// and parameters that have no meaning, and with the beginning that the rules
// want; and, where it has a session, the same with that, to ask for.
func (c *compiled) name(url string) (name, ask string) {
	url = Spelled(url)
	for _, r := range c.replace {
		if rest, ok := strings.CutPrefix(url, r.Old); ok {
			url = r.New + rest
			break
		}
	}
	if !strings.ContainsAny(url, "?;(") {
		return url, ""
	}
	begin := pathBegin(url)
	path, query, asks := strings.Cut(url[begin:], "?")
	clean := func(sessions bool) string {
		s := url[:begin] + path
		if !sessions {
			s = url[:begin] + c.cleanPath(path)
		}
		if q := c.cleanQuery(query, sessions); asks && (q != "" || query == "") {
			s += "?" + q
		}
		return s
	}
	if name = clean(false); name == url {
		return url, "" // which needs no new memory
	}
	if whole, err := protocol.CanonicalURL("", name); err == nil {
		name = whole // a "." may have been left of a component
	}
	if ask = clean(true); ask == name {
		ask = ""
	}
	return name, ask
}

// cleanPath removes path parameters that name a session, ";jsessionid=1", and
// the components "(S(1))" by which ASP.NET does.
func (c *compiled) cleanPath(path string) string {
	if strings.IndexByte(path, ';') < 0 && !strings.Contains(path, "/(") {
		return path
	}
	var b strings.Builder
	for i, part := range strings.Split(path, "/") {
		if strings.HasSuffix(part, "))") && (strings.HasPrefix(part, "(S(") || strings.HasPrefix(part, "(A(") ||
			strings.HasPrefix(part, "(F(") || strings.HasPrefix(part, "(X(")) && len(c.sessions.suffix) > 0 {
			continue
		}
		if i > 0 {
			b.WriteByte('/')
		}
		part, params, _ := strings.Cut(part, ";")
		b.WriteString(part)
		for params != "" {
			var p string
			p, params, _ = strings.Cut(params, ";")
			if !c.session(p) {
				b.WriteByte(';')
				b.WriteString(p)
			}
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// cleanQuery removes parameters, but sessions if these are wanted. What separates the others stays as it was.
func (c *compiled) cleanQuery(query string, sessions bool) string {
	var b []byte // nil while nothing is removed
	for i := 0; i <= len(query); {
		pair, rest := cutPair(query[i:])
		end := len(query) - len(rest)
		if name, _, _ := strings.Cut(pair, "="); !sessions && c.session(pair) || c.drop.has(name) {
			if b == nil {
				b = append(make([]byte, 0, len(query)), query[:i]...)
			}
		} else if b != nil {
			b = append(b, query[i:end]...)
		}
		if i = end; rest == "" {
			break
		}
	}
	if b == nil {
		return query
	}
	return strings.Trim(string(b), "&")
}

// cutPair returns the first pair of a query and what follows it and its "&" or ";".
func cutPair(query string) (pair, rest string) {
	if i := strings.IndexAny(query, "&;"); i >= 0 {
		return query[:i], query[i+1:]
	}
	return query, ""
}

// pathBegin returns where the path of a canonical URL begins.
func pathBegin(url string) int {
	i := strings.Index(url, "://")
	if i < 0 {
		return len(url)
	}
	if j := strings.IndexByte(url[i+3:], '/'); j >= 0 {
		return i + 3 + j
	}
	return len(url)
}
