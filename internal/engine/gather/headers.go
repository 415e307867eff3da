package gather

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/html"
)

type bodyKind uint8

const (
	unread bodyKind = iota
	plainText
	hyperText
)

var errBinary = errors.New("declared as text, but is binary")

// kindOf returns how to parse a body: by its Content-Type, unless the body is
// binary. A body without one is judged by its beginning.
func kindOf(h http.Header, body []byte) (bodyKind, error) {
	kind := unread
	typ, _, _ := strings.Cut(first(h, "Content-Type"), ";")
	switch typ = strings.TrimSpace(typ); {
	case strings.EqualFold(typ, "text/html"), strings.EqualFold(typ, "application/xhtml+xml"):
		kind = hyperText
	case strings.EqualFold(typ, "text/plain"):
		kind = plainText
	case typ == "" && looksHTML(body):
		kind = hyperText
	}
	if kind != unread && binary(body) {
		return unread, errBinary
	}
	return kind, nil
}

// charset returns the parameter of a Content-Type, empty if it has none.
func charset(typ string) string {
	_, rest, _ := strings.Cut(typ, ";")
	for rest != "" {
		var name, value string
		if name, value, rest = parameter(rest); strings.EqualFold(name, "charset") {
			return value
		}
		rest = strings.TrimLeft(rest, ";,") // a comma ends a parameter, too
	}
	return ""
}

func first(h http.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// sniffed is how many bytes of a body are inspected.
const sniffed = 1024

// binary reports whether a body is not text: it has bytes that no text has
// (WHATWG MIME Sniffing, section 3), or begins like a PDF. UTF-16 is text if it
// has a byte order mark.
func binary(body []byte) bool {
	b := body[:min(len(body), sniffed)]
	if len(b) >= 2 && (b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff) {
		return false
	}
	for _, c := range b {
		if c < ' ' && (c <= 8 || c == 0xb || c >= 0xe && c != 0x1b) {
			return true
		}
	}
	return bytes.HasPrefix(b, []byte("%PDF-"))
}

// looksHTML reports whether a body begins with typical markup.
func looksHTML(body []byte) bool {
	b := bytes.TrimLeft(bytes.TrimPrefix(body[:min(len(body), sniffed)], []byte("\uFEFF")), " \t\r\n\f")
	for _, tag := range []string{"<!doctype html", "<html", "<head", "<body", "<title", "<meta", "<script", "<!--", "<h1", "<p", "<div", "<table", "<a "} {
		if len(b) >= len(tag) && strings.EqualFold(string(b[:len(tag)]), tag) {
			return true
		}
	}
	return false
}

// headers evaluates X-Robots-Tag, Link and Refresh. A refresh is a link, whatever its delay: the page is stored, too, since what it
// shows until then may be all that it has.
func (g *Gatherer) headers(p *Page, h http.Header) {
	g.refs, g.canonical = g.refs[:0], nil
	says := html.RobotsTag(h["X-Robots-Tag"], g.Agent)
	p.NoIndex, p.NoFollow = p.NoIndex || says.NoIndex, p.NoFollow || says.NoFollow
	for _, v := range h["Link"] {
		g.linkHeader(v)
	}
	if ref, _, _ := bytes.Cut(html.RefreshRef([]byte(first(h, "Refresh"))), []byte("#")); len(ref) > 0 {
		g.refs = append(g.refs, html.Ref{URL: bytes.TrimSpace(ref), Kind: html.Refresh})
	}
}

// linkHeader collects the links of a value of the Link header (RFC 8288, section 3).
func (g *Gatherer) linkHeader(v string) {
	for len(g.refs) < maxHeaderLinks {
		begin := strings.IndexByte(v, '<')
		if begin < 0 {
			return
		}
		end := strings.IndexByte(v[begin:], '>')
		if end < 0 {
			return
		}
		ref := v[begin+1 : begin+end]
		var rel, typ string
		anchored := false
		for v = v[begin+end+1:]; ; {
			v = strings.TrimLeft(v, " \t")
			if !strings.HasPrefix(v, ";") {
				break
			}
			var name, value string
			name, value, v = parameter(v[1:])
			switch {
			case strings.EqualFold(name, "rel") && rel == "":
				rel = value
			case strings.EqualFold(name, "type") && typ == "":
				typ = value
			case strings.EqualFold(name, "anchor"):
				anchored = true // it is not about this page
			}
		}
		if kind, nofollow, ok := html.LinkKind([]byte(rel), []byte(typ)); ok && !anchored && (kind != html.Embedded || g.Embedded) {
			if ref, _, _ = strings.Cut(ref, "#"); ref != "" {
				g.refs = append(g.refs, html.Ref{URL: []byte(ref), Kind: kind, NoFollow: nofollow})
				if g.canonical == nil && slices.ContainsFunc(strings.Fields(rel), func(r string) bool { return strings.EqualFold(r, "canonical") }) {
					g.canonical = []byte(ref)
				}
			}
		}
	}
}

// maxHeaderLinks bounds the links in headers.
const maxHeaderLinks = 100

// parameter cuts a parameter "name=value" or "name" off the text after a semicolon.
func parameter(v string) (name, value, rest string) {
	i := strings.IndexAny(v, "=;,")
	if i < 0 {
		return strings.TrimSpace(v), "", ""
	}
	name = strings.TrimSpace(v[:i])
	if v[i] != '=' {
		return name, "", v[i:]
	}
	v = strings.TrimLeft(v[i+1:], " \t")
	if !strings.HasPrefix(v, `"`) {
		if i = strings.IndexAny(v, ";,"); i < 0 {
			i = len(v)
		}
		return name, strings.TrimSpace(v[:i]), v[i:]
	}
	var b strings.Builder
	for i = 1; i < len(v) && v[i] != '"'; i++ {
		if v[i] == '\\' && i+1 < len(v) {
			i++
		}
		b.WriteByte(v[i])
	}
	return name, b.String(), v[min(len(v), i+1):]
}

// IsPage reports whether a response has the page: also one that a proxy has changed (203).
func IsPage(status int) bool {
	return status == http.StatusOK || status == http.StatusNonAuthoritativeInfo
}
