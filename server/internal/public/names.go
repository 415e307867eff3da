// Package public decides what of a site may be published: by the names of its files or pages. It also reads
// robots.txt.
package public

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Why a name is left out. Commands group by these strings.
const (
	Hidden          = "hidden"       // its name begins with a dot, or it lies below one that does
	Own             = "own output"   // Parley wrote it
	leftBackup      = "backup"       // an editor's or a person's older copy
	leftDump        = "dump"         // of a database or of memory
	leftExcluded    = "excluded"     // a pattern of Exclude matches
	leftNotIncluded = "not included" // neither a page nor matched by Include
)

// Names decides about files by their place alone.
type Names struct {
	include, exclude []glob
	wellKnown        bool
}

// A glob is a doublestar pattern: "**" stands for any number of directories. A pattern without a slash is
// matched against names, in any directory; one with a slash against the whole path below the docroot. One
// that ends in a slash matches everything below that directory.
type glob struct {
	pattern string
	name    bool
}

// ParseNames returns the rules for patterns as those of server.Site.
func ParseNames(include, exclude []string) (r Names, err error) {
	if r.include, err = globs(include); err != nil {
		return r, fmt.Errorf("include: %w", err)
	}
	if r.exclude, err = globs(exclude); err != nil {
		return r, fmt.Errorf("exclude: %w", err)
	}
	r.wellKnown = slices.ContainsFunc(r.include, func(g glob) bool {
		return strings.HasPrefix(g.pattern, wellKnownDir+"/")
	})
	return r, nil
}

func globs(patterns []string) ([]glob, error) {
	var list []glob
	for _, p := range patterns {
		g := glob{pattern: p, name: !strings.Contains(p, "/")}
		g.pattern = strings.TrimPrefix(g.pattern, "/")
		if strings.HasSuffix(g.pattern, "/") {
			g.pattern += "**"
		}
		if g.pattern == "" || !doublestar.ValidatePattern(g.pattern) {
			return nil, fmt.Errorf("pattern %q: malformed", p)
		}
		list = append(list, g)
	}
	return list, nil
}

func matchAny(list []glob, place, name string) bool {
	for _, g := range list {
		s := place
		if g.name {
			s = name
		}
		if doublestar.MatchUnvalidated(g.pattern, s) {
			return true
		}
	}
	return false
}

// wellKnownDir is the only dot directory that can be published, if a pattern of Include names it: its files
// are meant for strangers.
const wellKnownDir = ".well-known"

// Dir returns why everything below a directory is left out, or the empty
// string. above is what Dir returned for its parent.
func (r *Names) Dir(above, place, name string) string {
	switch {
	case above != "":
		return above
	case name[0] == '.' && !(r.wellKnown && place == wellKnownDir):
		return Hidden
	case isBackup(name):
		return leftBackup
	case matchAny(r.exclude, place, name):
		return leftExcluded
	}
	return ""
}

// File returns why a file is left out, or the empty string. above is what Dir
// returned for its directory.
func (r *Names) File(above, place, name string) string {
	if above == "" && len(r.include)+len(r.exclude) == 0 && isPlain(name) {
		return ""
	}
	page, _ := Language(name)
	switch {
	case above != "":
		return above
	case name[0] == '.':
		return Hidden
	case place == manifestName:
		return Own
	case isBackup(name):
		return leftBackup
	case isDump(name):
		return leftDump
	case matchAny(r.exclude, place, name), page != name && matchAny(r.exclude, place[:len(place)-len(name)]+page, page):
		return leftExcluded // a pattern for page.html is meant for page.html.en, too
	case isPage(page) && !r.named(place, name):
		return dressed(page)
	case !isPage(page) && !matchAny(r.include, place, name):
		return leftNotIncluded
	}
	return ""
}

// Place returns why the file at a place is left out, by its name and those of the directories above it.
func (r *Names) Place(place string) string {
	left := ""
	for i := 0; i < len(place); i++ {
		if place[i] == '/' {
			left = r.Dir(left, place[:i], lastName(place[:i]))
		}
	}
	return r.File(left, place, lastName(place))
}

// lastName returns the last name of a place.
func lastName(place string) string { return place[strings.LastIndexByte(place, '/')+1:] }

// manifestName is the name of a manifest at the root of a site.
const manifestName = "robots.rdf"

// isPage reports whether a file is published unless something forbids it: the kinds that people read. (C20
// asks for names that contain ".htm"; that would publish page.html.gz and page.htm.inc.)
func isPage(name string) bool {
	switch ext := path.Ext(name); len(ext) {
	case 4:
		return strings.EqualFold(ext, ".htm") || strings.EqualFold(ext, ".pdf")
	case 5:
		return strings.EqualFold(ext, ".html")
	case 6:
		return strings.EqualFold(ext, ".xhtml")
	}
	return false
}

// isPlain reports whether a name is a word and ".html", as most are: no rule for names of pages leaves it out.
func isPlain(name string) bool {
	word, ok := strings.CutSuffix(name, ".html")
	for i := range len(word) {
		switch c := word[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return ok && word != ""
}

// isBackup reports whether a name is that of an older copy, or of an editor's working file. Dot files are
// hidden anyway.
func isBackup(name string) bool {
	n := len(name)
	switch {
	case name[n-1] == '~', name[0] == '#' && name[n-1] == '#':
		return true
	case name == "4913" || name == "5036" || name == "5159": // Vim tests write access with these names
		return true
	}
	return extensionIn(path.Ext(name), ".bak", ".swp", ".swo", ".swx", ".orig", ".old", ".tmp")
}

// isDump reports whether a name is that of a database's or a process's dump.
func isDump(name string) bool {
	if name == "core" || strings.HasPrefix(name, "core.") && strings.Trim(name[5:], "0123456789") == "" {
		return true
	}
	ext := path.Ext(name)
	if extensionIn(ext, ".gz", ".bz2", ".xz", ".zst", ".zip") {
		ext = path.Ext(name[:len(name)-len(ext)])
	}
	return extensionIn(ext, ".sql", ".dump", ".dmp", ".core")
}

// named reports whether a pattern of Include is exactly the place or name of a file: it is meant explicitly.
func (r *Names) named(place, name string) bool {
	return slices.ContainsFunc(r.include, func(g glob) bool { return g.pattern == place || g.name && g.pattern == name })
}

// dressed returns why a page is left out that is a backup or a dump with a page's extension, such as
// a.bak.html, "a copy.html" or dump.sql.html, which web servers and editors then display.
func dressed(page string) string {
	name := page[:len(page)-len(path.Ext(page))]
	switch ext := path.Ext(name); {
	case name == "":
	case name[len(name)-1] == '~', isCopy(name), extensionIn(strings.TrimRight(ext, "0123456789"), ".bak", ".swp", ".orig", ".old", ".tmp"):
		return leftBackup
	case extensionIn(ext, ".sql", ".dmp"): // .core and .dump end names in documentation of programming languages
		return leftDump
	}
	return ""
}

// isCopy reports whether a name without its extension is one that file managers give a copy: "a copy", "a
// copy 2", "a - Copy", "a - Copy (2)", "a (copy)", "a (3rd copy)", "Copy of a".
func isCopy(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "copy of ") || strings.HasPrefix(name, "copy (") {
		return true
	}
	name = strings.TrimRight(name, " ()0123456789")
	return strings.HasSuffix(name, " copy") || strings.HasSuffix(name, "(copy")
}

func extensionIn(ext string, list ...string) bool {
	for _, e := range list {
		if len(e) == len(ext) && strings.EqualFold(e, ext) {
			return true
		}
	}
	return false
}
