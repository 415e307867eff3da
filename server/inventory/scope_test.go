package inventory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// Covering scopes hold the same URLs as the given ones, are in order, and none lies in another; too many pages become their directories.
func TestCovering(t *testing.T) {
	const base = "https://a.example/"
	var urls []string
	dirs := []string{base, base + "a/", base + "a/b/", base + "a-b/", base + "b/"}
	for _, d := range dirs {
		urls = append(urls, d, d+"x", d+"x?q=/y", d+"a")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var scopes []inventory.Scope
		for range r.IntN(6) {
			if r.IntN(2) == 0 {
				scopes = append(scopes, inventory.Scope{Page: urls[r.IntN(len(urls))]})
			} else {
				scopes = append(scopes, inventory.Scope{Prefix: dirs[r.IntN(len(dirs))], Deep: r.IntN(2) == 0})
			}
		}
		kept := inventory.Covering(scopes)
		has := func(list []inventory.Scope, url string) bool {
			return slices.ContainsFunc(list, func(s inventory.Scope) bool { return s.Has(url) })
		}
		last := ""
		for _, s := range kept {
			key := s.Page + s.Prefix
			if last != "" && protocol.Compare(last, key) >= 0 {
				t.Fatalf("%v: %v is out of order", scopes, kept)
			}
			last = key
		}
		for _, u := range urls {
			if has(scopes, u) != has(kept, u) {
				t.Fatalf("%v: of %v it is said to be within: %v", u, scopes, kept)
			}
			in := 0
			for _, s := range kept {
				if s.Has(u) {
					in++
				}
			}
			if in > 1 {
				t.Fatalf("%v: %v lies within %d of %v", scopes, u, in, kept)
			}
		}
	}

	var many []inventory.Scope
	for i := range inventory.MaxScopes + 1 {
		many = append(many, inventory.Scope{Page: fmt.Sprint(base, i%3, "/", i)})
	}
	want := []inventory.Scope{{Prefix: base + "0/"}, {Prefix: base + "1/"}, {Prefix: base + "2/"}}
	if got := inventory.Covering(many); !slices.Equal(got, want) {
		t.Errorf("many pages of three directories: %v", got)
	}
	if got := inventory.Covering(many[:inventory.MaxScopes]); len(got) != inventory.MaxScopes {
		t.Errorf("as many as are scanned one by one: %d", len(got))
	}
}
