package holding

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
)

// Names below the directory that are the holding's own. No page's natural
// name begins with a dot, so nothing a site says can reach them.
const (
	ownDir   = ".parley"
	tmpDir   = ownDir + "/tmp"
	otherDir = ownDir + "/other"
	siteFile = ownDir + "/site"
	lockFile = ownDir + "/lock"
)

// Longer names stand in otherDir, in bytes.
const (
	maxSegment = 255
	maxName    = 3000
)

const indexName = "index.html"

// naturalName returns the file of a URL below base, which ends in "/", and
// false if it can have no name of its own there. The path of the URL is taken
// apart at its slashes and decoded; the home of a directory is index.html; a
// page of HTML without an extension gets .html, so that /a and /a/b do not
// fight for one name.
//
// What a file cannot be called stays percent-encoded: slashes, control
// characters, a leading dot, the question mark before a query. With portable
// set so does what Windows and its file systems refuse; without it other
// bytes stand as they are, invalid UTF-8 too, so that a copy has the very
// names of its original.
func naturalName(base, rawURL, mediaType string, portable bool) (string, bool) {
	rest, ok := strings.CutPrefix(rawURL, base)
	if !ok {
		return "", false
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	segments := strings.Split(rest, "/")
	last := len(segments) - 1
	for i, s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil {
			return "", false
		}
		switch {
		case i == last && name == "":
			name = indexName
		case name == "", name == ".", name == "..":
			return "", false
		case i == last && path.Ext(name) == "" && isHTML(mediaType):
			name += ".html"
		}
		name = escapeName(name, portable)
		if i == last && hasQuery {
			name += escapeName("%3F"+query, portable)
		}
		limit := maxSegment
		if portable {
			limit = 200
		}
		if len(name) > limit {
			return "", false
		}
		segments[i] = name
	}
	name := strings.Join(segments, "/")
	return name, len(name) <= maxName
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

func escapeName(name string, portable bool) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if escaped(name, i, portable) {
			const digits = "0123456789ABCDEF"
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escaped(name string, i int, portable bool) bool {
	switch c := name[i]; {
	case c < ' ', c == 0x7f, c == '/', c == '.' && i == 0:
		return true
	case !portable:
		return false
	case c == '.' || c == ' ':
		return i == len(name)-1
	case i == 0 && reserved(name):
		return true
	default:
		return strings.IndexByte(`\:*?"<>|`, c) >= 0
	}
}

// reserved reports whether Windows takes the name for a device, with any extension.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch stem = strings.TrimRight(stem, " "); stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if len(stem) < 4 || stem[:3] != "COM" && stem[:3] != "LPT" {
		return false
	}
	switch stem[3:] {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "\u00b9", "\u00b2", "\u00b3":
		return true
	}
	return false
}

// otherName returns the name of a URL that cannot have its natural one. Every
// URL has its own.
func otherName(rawURL string) string {
	sum := sha256.Sum256([]byte(rawURL))
	p, _, _ := strings.Cut(rawURL, "?")
	ext := path.Ext(p)
	if len(ext) < 2 || len(ext) > 9 || strings.Trim(strings.ToLower(strings.TrimPrefix(ext, ".")), "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		ext = ""
	}
	return otherDir + "/" + hex.EncodeToString(sum[:]) + ext
}

// foldName returns what two names have in common if a file system that does
// not tell upper from lower case takes them for one.
func foldName(name string) string { return strings.ToLower(strings.ToUpper(name)) }
