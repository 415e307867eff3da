package seed

import (
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// spelled normalizes the spelling of a URL that protocol.CanonicalURL has
// written: without a dot at the end of its host, without zeros before its port, and
// with escapes in upper case (RFC 3986, 6.2.2.1). No server that conforms to the
// standards distinguishes these, so what a site announces about any of them is
// about the same page.
func spelled(url string) string {
	begin := pathBegin(url)
	s := url
	if a := strings.Index(url[:begin], "://") + 3; a >= 3 {
		if at := authority(url[:a], url[a:begin]); at != url[a:begin] {
			s = url[:a] + at + url[begin:]
			begin += len(s) - len(url)
		}
	}
	i := strings.IndexByte(s[begin:], '%')
	if i < 0 {
		return s
	}
	var b []byte // nil while nothing is changed
	for i += begin; i+2 < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		for j := i + 1; j <= i+2; j++ {
			if 'a' <= s[j] && s[j] <= 'f' {
				if b == nil {
					b = []byte(s)
				}
				b[j] -= 'a' - 'A'
			}
		}
		i += 2
	}
	if b == nil {
		return s
	}
	return string(b)
}

// SpelledAll returns changes with the spelling of their URLs normalized.
func SpelledAll(list []protocol.Change) []protocol.Change {
	own := false // list is a copy
	for i := range list {
		url, from := spelled(list[i].Item.URL), spelled(list[i].From)
		if url == list[i].Item.URL && from == list[i].From {
			continue
		}
		if !own {
			list, own = slices.Clone(list), true
		}
		list[i].Item.URL, list[i].From = url, from
	}
	return list
}

// authority normalizes host and port; scheme includes "://".
func authority(scheme, s string) string {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		host, port = s[:i], s[i+1:]
	}
	if !strings.HasSuffix(host, ".") && !strings.HasPrefix(port, "0") {
		return s
	}
	if h := strings.TrimRight(host, "."); h != "" {
		host = h
	}
	if p := strings.TrimLeft(port, "0"); p != "" {
		port = p
	}
	if port == "" || port == "80" && scheme == "http://" || port == "443" && scheme == "https://" {
		return host
	}
	return host + ":" + port
}
