package public

import (
	"fmt"
	"net/url"
	"path"
	"strings"
)

// Patterns are patterns as in Site.Files.Exclude, for an inventory without files. The zero value matches nothing.
// It is safe for concurrent use.
type Patterns struct{ globs []glob }

// ParsePatterns returns the patterns, or an error if one is malformed.
func ParsePatterns(list []string) (Patterns, error) {
	g, err := globs(list)
	if err != nil {
		return Patterns{}, fmt.Errorf("exclude: %w", err)
	}
	return Patterns{g}, nil
}

// Match reports whether a pattern matches a place, which is a path below the
// base URL without "/" before it, or a directory above it.
func (p Patterns) Match(place string) bool {
	if len(p.globs) == 0 {
		return false
	}
	for i := 1; i < len(place); i++ {
		if place[i] == '/' {
			if matchAny(p.globs, place[:i], lastName(place[:i])) {
				return true
			}
		}
	}
	name := lastName(place)
	return name != "" && matchAny(p.globs, place, name)
}

// LeftOutName returns why a place must not be published whatever the settings, or the empty string: it is
// hidden, as it would be for a Site, or an older copy, or a dump. The place is a path below the base URL,
// percent-encoded, without a leading "/" and without a query. Names that mean something only to a file
// system, such as "core", may be those of pages here.
func LeftOutName(place string) string {
	segments := strings.Split(place, "/")
	for i, s := range segments {
		name, err := url.PathUnescape(s)
		switch {
		case err != nil || name == "":
		case name[0] == '.' && !(i == 0 && name == wellKnownDir):
			return Hidden
		case isBackup(name) && strings.Trim(name, "0123456789") != "":
			return leftBackup
		case i == len(segments)-1 && isDump("a "+name) && !extensionIn(path.Ext(name), ".core"): // the prefix keeps "core" from matching
			return leftDump
		}
	}
	return ""
}
