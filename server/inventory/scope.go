package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// A Scope is a part of a site: the URLs that begin with Prefix, which ends in
// "/". A scope that is not Deep holds only those of Prefix's own depth.
type Scope struct {
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

// MaxScopes is how many scopes are scanned one by one. Beyond it one full scan is cheaper.
const MaxScopes = 1000

// Covering returns scopes ordered by prefix, each once and none that lies within another. No scopes means
// everything.
func Covering(scopes []Scope) []Scope {
	s := slices.Clone(scopes)
	slices.SortFunc(s, func(a, b Scope) int {
		deepFirst := 0
		if a.Deep != b.Deep {
			deepFirst = 1
			if a.Deep {
				deepFirst = -1
			}
		}
		return cmp.Or(protocol.Compare(a.Prefix, b.Prefix), deepFirst)
	})
	if s = slices.Compact(s); len(s) > MaxScopes {
		return nil
	}
	kept := s[:0]
	for _, x := range s {
		if !slices.ContainsFunc(kept, func(k Scope) bool {
			return k.Prefix == x.Prefix || k.Deep && strings.HasPrefix(x.Prefix, k.Prefix)
		}) {
			kept = append(kept, x)
		}
	}
	return kept
}
