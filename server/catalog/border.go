package catalog

import (
	"strings"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/public"
)

// A border separates URLs that may be published from the rest. Its methods may be called by many goroutines at once.
type border struct {
	base    string
	exclude public.Patterns
	rules   robots.Keeper
}

// path returns the path and query of a URL below base, as robots.txt has them.
func (b *border) path(url string) string { return url[len(protocol.Origin(b.base)):] }

// left returns why rules forbid a URL below base, or the empty string.
func (b *border) left(rules *robots.Rules, url string) string {
	place := b.place(url)
	why := public.LeftOutName(place)
	switch {
	case ownPlaces[place] || strings.HasPrefix(place, doors) && place != doors:
		return leftOwn
	case why != "":
		return why
	case b.exclude.Match(place):
		return leftExcluded
	case !rules.Allowed("*", b.path(url)):
		return leftRobots
	}
	return ""
}

// ownPlaces are the places of the manifest, robots.txt and the site's description, which describe pages and
// are none.
var ownPlaces = map[string]bool{"robots.txt": true, "robots.rdf": true, ".well-known/parley": true}

// doors is where a Notifier's doors are, now and in later versions.
const doors = "parley/"

// place returns the path below base of a URL that is below it.
func (b *border) place(url string) string {
	place, _, _ := strings.Cut(url[len(b.base):], "?")
	return place
}
