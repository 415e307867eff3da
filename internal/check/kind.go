package check

import (
	"bytes"
	"path"
	"strings"
)

// The kinds of documents, as detected by their beginning.
const (
	kindManifest = "robots.rdf or RSS 1.0"
	kindSitemap  = "sitemap"
	kindFeed     = "feed"
	kindRobots   = "robots.txt"
	kindHTML     = "HTML"
)

const sniffed = 64 << 10 // bytes examined by kindOf

// kindOf detects the kind of a document by its beginning, or by its name if the
// beginning is not conclusive. If the kind is not supported, what describes the
// document.
func kindOf(head []byte, name string) (kind, what string) {
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\uFEFF")))
	robotsName := strings.EqualFold(path.Base(name), "robots.txt")
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		if robotsName {
			return kindRobots, ""
		}
		return kindSitemap, "" // its reader gives the best error for UTF-16
	case looksLikeHTML(head):
		return kindHTML, ""
	case len(text) == 0 && robotsName:
		return kindRobots, ""
	case len(text) == 0:
		return "", "it is empty"
	case text[0] == '{':
		return kindFeed, ""
	case text[0] == '<':
		switch root := rootOf(text); strings.ToLower(root) {
		case "rdf":
			if encodingOf(text) != "utf-8" {
				return kindFeed, "" // RSS 1.0 that only feed readers accept
			}
			return kindManifest, ""
		case "urlset", "sitemapindex":
			return kindSitemap, ""
		case "rss", "feed":
			return kindFeed, ""
		case "html":
			return kindHTML, ""
		case "":
			return kindSitemap, "" // broken: its reader gives the best error
		default:
			return "", "its root is <" + short(root) + ">"
		}
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if l := bytes.ToLower(first); bytes.HasPrefix(l, []byte("http://")) || bytes.HasPrefix(l, []byte("https://")) {
		return kindSitemap, ""
	}
	for l := range lines(text) {
		if name, _, ok := l.field(); ok && classOf(name) != 0 {
			return kindRobots, ""
		}
	}
	if robotsName || text[0] == '#' {
		return kindRobots, ""
	}
	return "", "it begins with \"" + short(string(first[:min(len(first), 60)])) + "\""
}

// looksLikeHTML reports whether a text begins like an HTML page.
func looksLikeHTML(head []byte) bool {
	text := afterProlog(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\uFEFF"))))
	for _, begin := range []string{"<!doctype html", "<html", "<head", "<body", "<script", "<title", "<div", "<p>", "<br", "<meta", "<style", "<center", "<h1"} {
		if len(text) >= len(begin) && strings.EqualFold(string(text[:len(begin)]), begin) {
			return true
		}
	}
	return false
}

// afterProlog returns text after the XML declaration, instructions and comments.
func afterProlog(text []byte) []byte {
	for {
		var begin, end string
		switch {
		case bytes.HasPrefix(text, []byte("<?")):
			begin, end = "<?", "?>"
		case bytes.HasPrefix(text, []byte("<!--")):
			begin, end = "<!--", "-->"
		default:
			return text
		}
		i := bytes.Index(text[len(begin):], []byte(end))
		if i < 0 {
			return nil
		}
		text = bytes.TrimSpace(text[len(begin)+i+len(end):])
	}
}

// rootOf returns the name of the root element without its prefix.
func rootOf(text []byte) string {
	text = afterProlog(text)
	if len(text) > 9 && strings.EqualFold(string(text[:9]), "<!doctype") {
		// An internal subset is in brackets, and may contain ">".
		end := bytes.IndexByte(text, '>')
		if open := bytes.IndexByte(text, '['); open >= 0 && open < end {
			if end = bytes.Index(text, []byte("]>")); end >= 0 {
				end++
			}
		}
		text = afterProlog(bytes.TrimSpace(text[end+1:]))
	}
	if len(text) == 0 || text[0] != '<' {
		return ""
	}
	text = text[1:]
	if i := bytes.IndexAny(text, " \t\r\n/>"); i >= 0 {
		text = text[:i]
	}
	if i := bytes.IndexByte(text, ':'); i >= 0 {
		text = text[i+1:]
	}
	if len(text) > 100 || bytes.IndexByte(text, '<') >= 0 {
		return ""
	}
	return string(text)
}
