package holding

import (
	"net/url"
	"path"
	"strings"

	"github.com/parleyweb/parley/internal/filename"
)

// Names below the directory that are the holding's own. No page's natural
// name begins with a dot, so nothing a site says can reach them.
const (
	ownDir   = filename.Own
	tmpDir   = ownDir + "/tmp"
	otherDir = ownDir + "/other" // where filename.Other puts what has no natural name
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
		name = filename.Escape(name, portable)
		if i == last && hasQuery {
			name += filename.Escape("%3F"+query, portable)
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
