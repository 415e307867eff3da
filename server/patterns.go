package server

import "fmt"

// Patterns are patterns as in Site.Exclude, for an [Inventory] without files.
// The zero value matches nothing. Any number of goroutines may use one at once.
type Patterns struct{ globs []glob }

// ParsePatterns returns the patterns, or what is wrong with one of them.
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
			if _, name := splitPlace(place[:i]); matchAny(p.globs, place[:i], name) {
				return true
			}
		}
	}
	_, name := splitPlace(place)
	return name != "" && matchAny(p.globs, place, name)
}
