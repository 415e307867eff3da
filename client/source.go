package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Source is a site to follow, and how. Only Base is needed. It is not to be
// changed while it is followed; many may be followed at once.
type Source struct {
	// Base is the URL of the site, such as "https://example.org/docs/", whose
	// manifest is robots.rdf below it; or the URL of a manifest, which ends in ".rdf".
	// Nothing outside of its scheme, host and port is asked or believed.
	Base string

	// HTTP sends the requests. Nil means a client of Follow's own. Redirects
	// are followed within the origin only, whatever it says; of its Transport
	// the stream uses how it dials, its proxy and its TLS.
	HTTP *http.Client

	// UserAgent is sent with every request. It should name the crawler and
	// how to reach its people: "Parley/1.0 (+https://example.net/bot)".
	// Empty means Parley's own name, which reaches nobody who knows.
	UserAgent string

	// Pace, if not nil, is called before every request, and waits for as long as
	// politeness asks; its error gives the request up. Redirects are not paced.
	Pace func(context.Context) error

	// Allow, if not nil, is asked before every request, redirects and streams
	// too, with its URL: its error gives the request up. So a caller can keep
	// to robots.txt, which may change while a site is followed.
	Allow func(url string) error

	// Found, if not nil, is told what the site says of itself whenever that is read.
	Found func(*protocol.Discovery)

	// Refused, if not nil, is told when the site refuses a stream, with the status and the header
	// of its answer. All other answers pass through HTTP.
	Refused func(status int, header http.Header)

	// Discovery is where the site describes itself, as its manifest says (Step.Discovery), if that
	// is known. It is asked there first if that is below Base; else, and where nothing is
	// there, below Base and at the root of the host. A manifest that Follow reads says it again.
	Discovery string

	// As is the form in which changes are asked for; empty means AsMeta. A form
	// that the site does not offer is an *OfferError, which ends Follow; with a program
	// in Filter, AsBatch and AsSite are of none.
	// Bundles or archives that fail three times in a row are not asked for again for five
	// minutes to six hours: until then changes come as AsMeta, and so with Choose.
	As protocol.Form

	// Choose, if not nil, says the form in place of As, from what the site
	// offers and where the caller stands: the zero Cursor, if he holds nothing or
	// must begin anew. It is asked whenever there is something to ask for. What
	// it says that the site does not offer is AsMeta.
	Choose func(offer *protocol.Discovery, at protocol.Cursor) protocol.Form

	// ManifestFirst has what a site offers read only once it has shown a
	// manifest. It is for who asks many sites of which most offer nothing.
	ManifestFirst bool

	// BundleEvery and BundleCount say when a bundle of AsBatch is told: after
	// so long since its first change, in whole seconds, or with so many changes.
	// Zero leaves it to the site, which tells at once.
	BundleEvery time.Duration
	BundleCount int

	// Filter says which changes are wanted. What a filter holds back is not
	// reported: a copy kept by one is a copy of what it lets through.
	Filter protocol.Filter

	// Held, if not nil, returns the bytes that the caller holds of a URL, of
	// the digest asked for, to which a difference is applied; an error means that
	// they are not held, and then the page is asked for whole.
	Held func(url string, d protocol.Digest) ([]byte, error)

	// Token is sent as a bearer token where the site knows its crawlers. Empty
	// is anybody.
	Token string

	// Poll is the time between two looks at the manifest of a site that has
	// no other door, or none that works. Zero means 10 minutes. It is varied by a tenth.
	Poll time.Duration

	// AskEvery, above zero, is the time between two questions at the changes
	// door, which then is not asked to wait: for a crawler that comes by a
	// schedule of its own. Zero waits there for what comes.
	AskEvery time.Duration

	// Every, if not nil, is asked after each look at the manifest, instead of
	// Poll, how long to wait for the next. Less than a second is a second.
	Every func() time.Duration

	// Hurry, above zero, bounds how long Follow waits by its own rules: after a
	// failure, until a door is tried again, and between two questions. For sites of
	// one's own, and tests.
	Hurry time.Duration

	// Once reads the manifest, or asks whether it still stands, and ends Follow; no other
	// door is asked. A manifest that cannot be had is reported, and ends it, too.
	Once bool

	// ETag and LastModified, if not empty, are of the manifest that the cursor
	// comes from, as a Step has told them: one that still stands is not sent again.
	ETag, LastModified string

	// MaxManifest bounds a manifest, in bytes without content coding. Zero
	// means DefaultMaxManifest.
	MaxManifest int64

	// MaxPage bounds the bytes of a page, of whatever Bodies holds and Batch
	// returns. Zero means 16 MiB. A larger one is as none.
	MaxPage int64

	// MaxArchive bounds an archive of the whole site, in bytes as it comes: zero
	// means 16 GiB. Until it is read it stands in a file of Temp, a directory;
	// empty is the system's for such files.
	MaxArchive int64
	Temp       string

	// NoStream and NoChanges keep a door shut.
	NoStream, NoChanges bool

	// Log is told which door Follow stands on, and why. Nil is silent.
	Log *slog.Logger
}

const (
	defaultPoll  = 10 * time.Minute
	defaultAgent = "Parley (+https://github.com/parleyweb/parley)"
)

// Site returns the canonical URLs of the site, which ends in "/", and of its manifest.
func (s *Source) Site() (base, manifest string, err error) {
	u, err := protocol.CanonicalURL("", s.Base)
	if err != nil {
		return "", "", err
	}
	u, _, _ = strings.Cut(u, "?")
	if strings.HasSuffix(u, ".rdf") {
		return u[:strings.LastIndexByte(u, '/')+1], u, nil
	}
	if !strings.HasSuffix(u, "/") {
		u += "/"
	}
	return u, u + "robots.rdf", nil
}

// local returns the changes that are about the site, with their URLs
// canonical, with their bodies, if there are any, and how many were left out.
// What moves here from another origin is new; what moves there is gone.
func local(base string, changes []protocol.Change, bodies []protocol.Body) (kept []protocol.Change, with []protocol.Body, skipped int) {
	at := func(ref string) string {
		u, err := protocol.CanonicalURL(base, ref)
		if err != nil || protocol.Origin(u) != protocol.Origin(base) {
			return ""
		}
		return u
	}
	kept, with = changes[:0], bodies[:0]
	for i, c := range changes {
		c.Item.URL = at(c.Item.URL)
		if c.Op == protocol.Move {
			c.From = at(c.From)
			switch {
			case c.From == "":
				c.Op = protocol.Create
			case c.Item.URL == "":
				c.Op, c.Item, c.From = protocol.Delete, protocol.Item{URL: c.From, Length: -1}, ""
			}
		}
		if c.Item.URL == "" {
			skipped++
			continue
		}
		kept = append(kept, c)
		if i < len(bodies) {
			with = append(with, bodies[i])
		}
	}
	return kept, with, skipped
}

// door checks the URL of a door that the site has stated, and returns it
// with http or https for its scheme. A door on another host is none.
func door(base, ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(ref, "ws"); ok && (strings.HasPrefix(rest, "://") || strings.HasPrefix(rest, "s://")) {
		ref = "http" + rest
	}
	u, err := protocol.CanonicalURL(base, ref)
	if err == nil && protocol.Origin(u) != protocol.Origin(base) {
		err = fmt.Errorf("door %.200s is not at %s", u, protocol.Origin(base))
	}
	if err != nil {
		return "", err
	}
	return u, nil
}
