package warc

import (
	"bytes"
	"sort"
	"strings"
)

// appendSURT appends the key by which indexes sort a URL: the host with its labels reversed,
// "com,example)/path?query", in lower case, without scheme, "www.", default port and final slash, and with
// the query parameters sorted. Several URLs may have the same key, so a lookup must compare the URL too. The
// URL must be canonical.
func appendSURT(b []byte, url string) []byte {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return appendLower(b, url)
	}
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest = rest[:i]
	}
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host, port = host[:i], host[i+1:]
	}
	if strings.EqualFold(scheme, "http") && port == "80" || strings.EqualFold(scheme, "https") && port == "443" {
		port = ""
	}
	host = withoutWWW(host)
	if host != "" && (host[0] == '[' || strings.Trim(host, "0123456789.") == "") {
		b = appendLower(b, host) // an address has no hierarchy of names
	} else {
		for end := len(host); ; {
			i := strings.LastIndexByte(host[:end], '.')
			b = appendLower(b, host[i+1:end])
			if i < 0 {
				break
			}
			b = append(b, ',')
			end = i
		}
	}
	if port != "" {
		b = appendLower(append(b, ':'), port)
	}
	b = append(b, ')')
	path, query, hasQuery := strings.Cut(path, "?")
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if path == "" {
		path = "/"
	}
	b = appendLower(b, path)
	if hasQuery && query != "" {
		b = append(b, '?')
		at := len(b)
		b = appendLower(b, query)
		if q := b[at:]; bytes.IndexByte(q, '&') >= 0 {
			parts := strings.Split(string(q), "&")
			sort.Strings(parts)
			b = append(b[:at], strings.Join(parts, "&")...)
		}
	}
	return b
}

// withoutWWW removes "www.", "www2." and so on, if a name is left.
func withoutWWW(host string) string {
	if len(host) < 4 || !strings.EqualFold(host[:3], "www") {
		return host
	}
	rest := strings.TrimLeft(host[3:], "0123456789")
	if len(rest) > 1 && rest[0] == '.' && strings.IndexByte(rest[1:], '.') > 0 {
		return rest[1:]
	}
	return host
}

// appendLower appends s in lower case, with percent-encoding for characters that would end a key or a line.
func appendLower(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c <= ' ' || c == 0x7f:
			const digits = "0123456789abcdef"
			b = append(b, '%', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
