package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// A Scope is a part of a site: one page or, if Page is empty, the URLs that begin with Prefix, which ends in
// "/". Of the latter, a scope that is not Deep holds only those of Prefix's own depth.
type Scope struct {
	Page   string // a URL; then Prefix and Deep are not set
	Prefix string
	Deep   bool
}

// ScopeOf returns the directory of a URL, without those below it.
func ScopeOf(url string) Scope {
	path := url
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return Scope{Prefix: path[:strings.LastIndexByte(path, '/')+1]}
}

// directory returns the directory of a page, and any other scope as it is.
func (s Scope) directory() Scope {
	if s.Page != "" {
		return ScopeOf(s.Page)
	}
	return s
}

// Has reports whether a URL lies in the scope.
func (s Scope) Has(url string) bool {
	switch {
	case s.Page != "":
		return s.Page == url
	case s.Deep:
		return strings.HasPrefix(url, s.Prefix)
	}
	return ScopeOf(url) == s
}

// covers reports whether all of x lies in s, which is not a page.
func (s Scope) covers(x Scope) bool {
	return s.Deep && strings.HasPrefix(cmp.Or(x.Page, x.Prefix), s.Prefix) || x.directory() == Scope{Prefix: s.Prefix}
}

// MaxScopes is how many scopes are scanned one by one. Beyond it one full scan is cheaper.
const MaxScopes = 1000

// Covering returns scopes in the order of their URLs, each once and none that lies within another. Too many pages are replaced
// by their directories. No scopes means everything.
func Covering(scopes []Scope) []Scope {
	s := ordered(scopes)
	if len(s) > MaxScopes {
		for i := range s {
			s[i] = s[i].directory()
		}
		if s = ordered(s); len(s) > MaxScopes {
			return nil
		}
	}
	kept := s[:0]
	var wide []Scope // those of kept that are no pages
	for _, x := range s {
		if slices.ContainsFunc(wide, func(k Scope) bool { return k.covers(x) }) {
			continue
		}
		if kept = append(kept, x); x.Page == "" {
			wide = append(wide, x)
		}
	}
	return kept
}

// ordered returns scopes in order, each once; a scope comes before those that lie in it.
func ordered(scopes []Scope) []Scope {
	size := func(s Scope) int {
		switch {
		case s.Deep:
			return 0
		case s.Page == "":
			return 1
		}
		return 2
	}
	s := slices.Clone(scopes)
	slices.SortFunc(s, func(a, b Scope) int {
		return cmp.Or(protocol.Compare(cmp.Or(a.Page, a.Prefix), cmp.Or(b.Page, b.Prefix)), cmp.Compare(size(a), size(b)))
	})
	return slices.Compact(s)
}
