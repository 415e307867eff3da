// Package filename maps URLs to names of files below a directory: the host, and below it the path as a person
// would expect it.
package filename

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
)

// Own is the directory in which no URL has its natural name. Names that begin with it are free for the owner
// of the files, and for Other.
const Own = ".parley"

// Longer names are rejected, in bytes. A component may be as long as file systems allow, since a site whose
// pages are files has names as long.
const (
	maxSegment         = 255
	maxSegmentPortable = 200
	maxName            = 3000
)

// Natural returns the file of a canonical URL with a host, and false if it cannot have a name of its own. The
// path is split at its slashes and decoded; a directory's own page is index.html; a page of HTML without an
// extension gets .html, so that /a and /a/b do not compete for one name. Two URLs may still have the same
// name: the scheme does not count, and pages choose their types.
//
// Characters that a file name cannot have stay percent-encoded: slashes, control characters, a leading dot,
// the question mark before a query; with portable also those that Windows rejects. Other bytes stay as they
// are, invalid UTF-8 too.
func Natural(rawURL, mediaType string, portable bool) (string, bool) {
	_, rest, ok := strings.Cut(rawURL, "://")
	rest, _, _ = strings.Cut(rest, "#")
	host, path, slash := rest, "", false
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path, slash = rest[:i], rest[i:], rest[i] == '/'
	}
	if !ok || host == "" || !slash && path != "" {
		return "", false
	}
	host = escape(host, portable)
	name, ok := below(strings.TrimPrefix(path, "/"), mediaType, portable)
	name = host + "/" + name
	return name, ok && len(host) <= maxSegment && len(name) <= maxName
}

// Below returns the file of a canonical URL as Natural does, but without the host and the rest of base, which
// ends in "/"; and false for a URL that is not below base.
func Below(base, rawURL, mediaType string, portable bool) (string, bool) {
	rest, ok := strings.CutPrefix(rawURL, base)
	if !ok {
		return "", false
	}
	rest, _, _ = strings.Cut(rest, "#")
	name, ok := below(rest, mediaType, portable)
	return name, ok && len(name) <= maxName
}

// below returns the name of a path with its query.
func below(rest, mediaType string, portable bool) (string, bool) {
	limit := maxSegment
	if portable {
		limit = maxSegmentPortable
	}
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
			name = "index.html"
		case name == "", name == ".", name == "..":
			return "", false
		case i == last && path.Ext(name) == "" && (mediaType == "text/html" || mediaType == "application/xhtml+xml"):
			name += ".html"
		}
		if name = escape(name, portable); i == last && hasQuery {
			name += escape("%3F"+query, portable)
		}
		if len(name) > limit {
			return "", false
		}
		segments[i] = name
	}
	return strings.Join(segments, "/"), true
}

// Other returns the name of a URL that cannot have its natural one. It is different for every URL.
func Other(rawURL string) string {
	sum := sha256.Sum256([]byte(rawURL))
	p, _, _ := strings.Cut(rawURL, "?")
	ext := path.Ext(p)
	if len(ext) < 2 || len(ext) > 9 || strings.Trim(strings.ToLower(ext[1:]), "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		ext = ""
	}
	return Own + "/other/" + hex.EncodeToString(sum[:]) + ext
}

// Fold returns the same string for two names that a case-insensitive file system takes for one.
func Fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// escape writes characters that a name may not have as %XX: control characters, slashes, a leading dot; with
// portable also those that Windows rejects.
func escape(name string, portable bool) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !escaped(name, i, portable) {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
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
