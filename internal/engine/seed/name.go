package seed

import (
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// naming has the rules by which pages are named.
type naming struct {
	sessions, drop names
	replace        []Replace
}

// names matches parameter names: whole, or by suffix or prefix.
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
func (n *naming) session(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	if n.sessions.has(name) {
		return true
	}
	switch len(name) {
	case 1, 3, 4, 7:
	default:
		return false
	}
	if len(value) < 20 || len(n.sessions.suffix) == 0 {
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

// name returns the name of the page at a canonical URL: normalized, without sessions
// and meaningless parameters, and with its beginning replaced by the rules. If the
// URL has a session, ask is the same URL with it, to be fetched; else ask is empty.
func (n *naming) name(url string) (name, ask string) {
	url = spelled(url)
	for _, r := range n.replace {
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
			s = url[:begin] + n.cleanPath(path)
		}
		if q := n.cleanQuery(query, sessions); asks && (q != "" || query == "") {
			s += "?" + q
		}
		return s
	}
	if name = clean(false); name == url {
		return url, "" // without an allocation
	}
	if whole, err := protocol.CanonicalURL("", name); err == nil {
		name = whole // a removal may have left a component "."
	}
	if ask = clean(true); ask == name {
		ask = ""
	}
	return name, ask
}

// cleanPath removes session parameters from a path, such as ";jsessionid=1", and
// the components "(S(1))" of ASP.NET.
func (n *naming) cleanPath(path string) string {
	if strings.IndexByte(path, ';') < 0 && !strings.Contains(path, "/(") {
		return path
	}
	var b strings.Builder
	for i, part := range strings.Split(path, "/") {
		if strings.HasSuffix(part, "))") && (strings.HasPrefix(part, "(S(") || strings.HasPrefix(part, "(A(") ||
			strings.HasPrefix(part, "(F(") || strings.HasPrefix(part, "(X(")) && len(n.sessions.suffix) > 0 {
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
			if !n.session(p) {
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

// cleanQuery removes dropped parameters and, unless sessions is set, session parameters. Other separators stay as they were.
func (n *naming) cleanQuery(query string, sessions bool) string {
	var b []byte // nil while nothing is removed
	for i := 0; i <= len(query); {
		pair, rest := cutPair(query[i:])
		end := len(query) - len(rest)
		if name, _, _ := strings.Cut(pair, "="); !sessions && n.session(pair) || n.drop.has(name) {
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

// cutPair returns the first pair of a query and the rest after its "&" or ";".
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
