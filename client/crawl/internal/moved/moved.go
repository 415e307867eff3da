// Package moved finds out where a followed site has moved to. The rules are in the documentation of package protocol, "A site
// that moves": the former address redirects to the new one, and the manifest there names the former one.
package moved

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/crosshost"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

const (
	mostHops   = 5         // moves in a row
	mostRobots = 500 << 10 // bytes of a robots.txt
	mostHead   = 512 << 10 // bytes of a manifest that are fetched: in Parley's own form the head comes first, and has half of that at most

	firstAgain = time.Minute // after a redirect to a site that does not confirm it; doubled each time, up to lastAgain
	lastAgain  = time.Hour
)

// An Error reports that the site of a copy has moved from one base URL to another.
type Error struct{ From, To string }

func (e *Error) Error() string { return fmt.Sprintf("the site has moved from %s to %s", e.From, e.To) }

// A Watch checks the redirects of a site to other origins. It is for one goroutine.
type Watch struct {
	Harvester *harvest.Harvester // sends the requests to other origins, after their robots.txt
	Seeder    *seed.Seeder       // has our product token in robots.txt, and the domains of the crawl, which no site leaves
	Suits     func(string) error // returns an error if no request may be sent to the host of a URL; nil: it never does
	Manifest  string             // URL of the site's manifest
	Hurry     time.Duration      // bounds the time between two checks, and after a move; zero: no bound
	Moved     time.Time          // when the site moved last: it does not move again within lastAgain, since two addresses could lead a copy to and fro
	Log       *slog.Logger

	// Crawled reports whether an origin is the followed site, and then returns what its robots.txt forbids.
	Crawled func(origin string) (is bool, allow func(url string) error)

	again time.Time // no check before
	fails int       // in a row
}

// Check returns where the site has moved to, if an error of following it is a redirect to another origin, and the site's manifest
// is redirected to a manifest that confirms the move; else nil. ip is the address of the site: one at a public address
// does not move to a private one.
func (w *Watch) Check(ctx context.Context, ip netip.Addr, err error) *Error {
	var e *client.ElsewhereError
	if !errors.As(err, &e) || e.To == "" || time.Now().Before(w.again) {
		return nil
	}
	if since := time.Since(w.Moved); since >= 0 && since < pause.AtMost(lastAgain, w.Hurry) {
		return nil
	}
	base := w.Manifest[:strings.LastIndexByte(w.Manifest, '/')+1]
	to, err := w.find(ctx, ip, base)
	if err == nil {
		return &Error{base, to}
	}
	w.again = time.Now().Add(pause.AtMost(min(firstAgain<<min(w.fails, 16), lastAgain), w.Hurry))
	w.fails++
	if ctx.Err() == nil {
		w.Log.Warn("the site redirects to another address, and nothing shows that it has moved there", "site", base, "to", e.To, "err", err)
	}
	return nil
}

// find follows the redirects of the site's manifest from origin to origin, and returns the base of the first that has a manifest,
// which must name one of the bases before.
func (w *Watch) find(ctx context.Context, ip netip.Addr, base string) (string, error) {
	path := base[len(protocol.Origin(base)):]
	var trail []string // the bases before
	for asked := w.Manifest; len(trail) <= mostHops; {
		origin := protocol.Origin(asked)
		if len(w.Seeder.CurrentRules().DomainSuffixes) > 0 && w.Seeder.Outside(origin) {
			return "", fmt.Errorf("%s is outside of the domains of the crawl", origin)
		}
		if w.Suits != nil && len(trail) > 0 {
			if err := w.Suits(asked); err != nil {
				return "", err
			}
		}
		w.Harvester.Seen(origin, ip)
		hosts := crosshost.New(w.Harvester, w.Crawled, w.Seeder.Agent, origin, mostRobots) // its robots.txt must not lead elsewhere either
		hosts.Begin(origin)
		a := hosts.Fetch(ctx, &collection.Source{URL: asked}, mostHead)
		switch {
		case a.Err != nil:
			return "", a.Err
		case a.Status == http.StatusMovedPermanently || a.Status == http.StatusPermanentRedirect:
			next, err := target(asked, a.Header.Get("Location"))
			if trail = append(trail, origin+path); err == nil && slices.Contains(trail, protocol.Origin(next)+path) {
				err = fmt.Errorf("the redirects lead in a circle, back to %s", next)
			}
			if err != nil {
				return "", err
			}
			asked = next
			continue
		case a.Status != http.StatusOK:
			return "", fmt.Errorf("%s answered %d", asked, a.Status)
		}
		head, err := protocol.ReadManifestHead(bytes.NewReader(a.Body), protocol.ManifestOptions{URL: asked})
		if err != nil {
			return "", err
		}
		named := slices.ContainsFunc(head.Replaces, func(former string) bool { return slices.Contains(trail, former) })
		if !named || head.Base != origin+path {
			return "", fmt.Errorf("%s, the manifest of %s, does not say that it replaces %s", asked, head.Base, base)
		}
		return head.Base, nil
	}
	return "", fmt.Errorf("more than %d redirects", mostHops)
}

// target returns where a manifest is redirected to. The path must stay, and https must not become http.
func target(asked, to string) (string, error) {
	to, err := protocol.CanonicalURL(asked, to)
	if err != nil {
		return "", err
	}
	was, origin := protocol.Origin(asked), protocol.Origin(to)
	to, _, _ = strings.Cut(to, "?")
	switch {
	case to[len(origin):] != asked[len(was):]:
		return "", fmt.Errorf("%s redirects to another path, %s", asked, to)
	case strings.HasPrefix(was, "https:") && strings.HasPrefix(origin, "http:"):
		return "", fmt.Errorf("%s redirects from https to http", asked)
	}
	return to, nil
}
