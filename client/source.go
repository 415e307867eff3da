package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Source is a site to follow, and how. Only Base is required. It must not be changed while it is followed;
// many may be followed at once.
type Source struct {
	// Base is the URL of the site, such as "https://example.org/docs/", whose manifest is robots.rdf below
	// it; or the URL of a manifest, which ends in ".rdf". Nothing outside of its scheme, host and port is
	// requested or believed.
	Base string

	// HTTP sends the requests. Nil means a client of Follow's own. Redirects are followed only within the
	// origin, whatever HTTP.CheckRedirect says; the stream uses the dialer, the proxy and the TLS settings of
	// its Transport.
	HTTP *http.Client

	// UserAgent is sent with every request. It should name the crawler and a contact:
	// "Parley/1.0 (+https://example.net/bot)". Empty means Parley's own name, which leads to nobody responsible
	// for the crawler.
	UserAgent string

	// Pace, if not nil, is called before every request, and waits for as long as politeness requires; if it
	// returns an error, the request is not sent. Redirects are not paced.
	Pace func(context.Context) error

	// Allow, if not nil, is called with the URL of every request, including redirects and streams; if it
	// returns an error, the request is not sent. So a caller can obey robots.txt, which may change while a
	// site is followed.
	Allow func(url string) error

	// Found, if not nil, is called with the site's description of itself whenever that is read.
	Found func(*protocol.Discovery)

	// Refused, if not nil, is called when the site refuses a stream, with the status and the header of its
	// response. All other responses pass through HTTP.
	Refused func(status int, header http.Header)

	// Discovery is the URL of the site's description, as its manifest states it (Step.Discovery), if known. A
	// URL below Base is tried first; else, and where nothing is there, Follow tries below Base and at the
	// root of the host. A manifest that Follow reads states the URL again.
	Discovery string

	// As is the form in which changes are requested; empty means AsMeta. A form that the site does not offer
	// is an *OfferError, which ends Follow; so are AsBatch and AsSite with a program in Filter. After three
	// failures in a row to read bundles or archives, Follow uses AsMeta for five minutes to six hours; this
	// also applies with Choose.
	As protocol.Form

	// Choose, if not nil, returns the form to use instead of As, given what the site offers and the caller's
	// cursor: the zero Cursor if a snapshot is needed. It is called before each request and after each
	// message of a stream. A form that the site does not offer is treated as AsMeta.
	Choose func(offer *protocol.Discovery, at protocol.Cursor) protocol.Form

	// ManifestFirst reads the site's description only after its manifest was read. It is for crawlers of many
	// sites of which most have no description.
	ManifestFirst bool

	// BundleEvery and BundleCount say when the site closes a bundle of AsBatch: this long after its first
	// change, in whole seconds, or at this many changes. Zero leaves it to the site, which sends at once.
	BundleEvery time.Duration
	BundleCount int

	// Filter selects the changes that are wanted. Changes that it excludes are not reported: the caller's
	// copy is a copy of the selected pages only.
	Filter protocol.Filter

	// Held, if not nil, returns the stored bytes of a URL that have the given digest, to apply a delta to; an
	// error means that they are not stored, and then the page is fetched whole.
	Held func(url string, d protocol.Digest) ([]byte, error)

	// Token is sent as a bearer token, for sites that authenticate crawlers. Empty means anonymous.
	Token string

	// Poll is the time between two reads of the manifest of a site that has no other door, or none that
	// works. Zero means 10 minutes. It is varied by a tenth.
	Poll time.Duration

	// AskEvery, above zero, is the time between two requests to the changes door, without long polling: for a
	// crawler with a schedule of its own. Zero means long polling.
	AskEvery time.Duration

	// Every, if not nil, returns the time between the last read of the manifest and the next one, in place of Poll.
	// It is called after each read, and then once an hour, since what it returns may change. Less than a second means a second.
	Every func(last time.Time) time.Duration

	// Hurry, above zero, bounds Follow's own waits: after a failure, until a door is tried again, and between
	// two requests. It is for the caller's own sites, and tests.
	Hurry time.Duration

	// Once reads the manifest, conditionally if ETag or LastModified is set, and ends Follow; no other door
	// is used. A manifest that cannot be read is reported, and also ends it.
	Once bool

	// ETag and LastModified, if not empty, are those of the manifest that the cursor comes from, as a Step
	// stated them: a manifest that is unchanged is not sent again.
	ETag, LastModified string

	// Doubtful says that the site may have numbered other changes anew since the cursor, as the last Step stated: the
	// index of a manifest in parts was behind the cursor, as it is after the site was restored from a backup. Then the
	// next manifest that is not behind the cursor is read whole, and no other door is used before.
	Doubtful bool

	// MaxManifest bounds a manifest, in bytes without content coding, and the
	// parts that are fetched of one in parts. Zero means DefaultMaxManifest.
	MaxManifest int64

	// MaxPage bounds the bytes of a page in Bodies and from Batch. Zero means 16 MiB. A larger page counts as none.
	MaxPage int64

	// MaxArchive bounds an archive of the whole site, in bytes as transferred: zero means 16 GiB.
	MaxArchive int64

	// Temp is the directory in which an archive, or the parts of a manifest, are stored until they are read.
	// Parts remain there if the process ends before, and are not fetched again; no other Follow of the same
	// manifest may use the directory meanwhile. Empty means the system's directory for temporary files, in
	// which nothing remains after Follow.
	Temp string

	// NoStream and NoChanges disable a door.
	NoStream, NoChanges bool

	// Log records which door Follow uses, and why. Nil discards it.
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

// withDefaults returns a copy in which what is not set has its default.
func (s *Source) withDefaults() *Source {
	c := *s
	c.UserAgent, c.As, c.Log = cmp.Or(s.UserAgent, defaultAgent), cmp.Or(s.As, protocol.AsMeta), cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	c.MaxManifest, c.MaxPage, c.MaxArchive = cmp.Or(s.MaxManifest, DefaultMaxManifest), cmp.Or(s.MaxPage, defaultMaxPage), cmp.Or(s.MaxArchive, DefaultMaxArchive)
	c.Poll = cmp.Or(max(s.Poll, 0), defaultPoll)
	return &c
}

// A site tells its own URLs from those of other origins: what it says about those is not believed.
type site struct {
	base, origin, manifest string

	discovery string // URL of the description, as the manifest states it; empty where it states none of use
}

// local returns the changes within the site, with canonical URLs, their bodies, if there are any, and the
// number of changes left out. A move from another origin becomes a create; a move to another origin becomes a
// delete.
func (s *site) local(changes []protocol.Change, bodies []protocol.Body) (kept []protocol.Change, with []protocol.Body, skipped int) {
	at := func(ref string) string {
		u, err := protocol.CanonicalURL(s.base, ref)
		if err != nil || protocol.Origin(u) != s.origin {
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

// door checks the URL of a door that the site has stated, and returns it with http or https as its scheme. A
// URL on another origin is an error.
func (s *site) door(ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(ref, "ws"); ok && (strings.HasPrefix(rest, "://") || strings.HasPrefix(rest, "s://")) {
		ref = "http" + rest
	}
	u, err := protocol.CanonicalURL(s.base, ref)
	if err == nil && protocol.Origin(u) != s.origin {
		err = fmt.Errorf("door %.200s is not on the origin %s", u, s.origin)
	}
	if err != nil {
		return "", err
	}
	return u, nil
}
