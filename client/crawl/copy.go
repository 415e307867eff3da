package crawl

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/told"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/protocol"
)

// Defaults of a Copy.
const (
	defaultDelay    = time.Second
	defaultMaxPage  = 100_000_000 // the largest that a site publishes, server.MaxFile
	defaultMaxPages = 10_000_000
	defaultMaxState = 16 << 30
)

// agent is our product token in robots.txt.
const agent = "parley"

// A Copy holds the options for a copy of one site that publishes a manifest. The copy begins with the whole manifest and then follows
// its changes; no page is parsed. Open makes a Crawler of it.
type Copy struct {
	// Base is the site's home, or its robots.rdf. Required.
	Base string

	// Dir is the directory of the copy, and State that of its state; empty means Dir/.parley.
	// Both are made if they do not exist. Dir is required.
	Dir, State string

	// Contact is how the site's operators can reach the operator of this crawler: a
	// URL or an e-mail address. It is sent with every request.
	Contact string

	// Delay is the least time between two requests. Zero means one second, but none on
	// the loopback interface; negative means none. A longer Crawl-delay in the site's
	// robots.txt is always obeyed.
	Delay time.Duration

	// MaxRate bounds the requests a second to a site that invites more of them than Delay
	// allows. Zero means 10; negative ignores the invitation.
	MaxRate float64

	// Private allows a site that once had a public address to be fetched from addresses outside
	// the public Internet. A site that never had one may be at any address.
	Private bool

	// MaxPage bounds one page, in bytes; larger ones are skipped. Zero means 100 MB.
	MaxPage int64

	// MaxPages bounds the number of pages of the site; zero means 10 million. MaxState bounds
	// state.db, in bytes; zero means 16 GiB. If a site exceeds one, its copy stays as of the last
	// complete manifest, and the site is retried after an hour, and then less often.
	MaxPages int
	MaxState int64

	// AskEvery, above zero, is the time between two polls for changes where no
	// stream is open. Zero means long polls.
	AskEvery time.Duration

	// Poll is the time between two polls of the manifest of a site that has no
	// other door. Zero means 10 minutes. NoStream and NoChanges disable a door.
	Poll                time.Duration
	NoStream, NoChanges bool

	// As is the form of the site's changes; empty chooses the cheapest that it
	// offers, given the stored pages. A form that it does not offer ends Run.
	// Filter, Token, BundleEvery, BundleCount and MaxArchive are those of a
	// client.Source; changes that a filter excludes are not in the copy.
	As          protocol.Form
	Filter      protocol.Filter
	Token       string
	BundleEvery time.Duration
	BundleCount int
	MaxArchive  int64

	// Bulk is as in a Crawler.
	Bulk int

	// Hurry is as in a Crawler; it also bounds the waits before retries.
	Hurry time.Duration

	// Harvester, if not nil, sends the requests. Its zero fields are set from the options above.
	Harvester *harvest.Harvester

	Log *slog.Logger // nil is silent
}

// DefaultCopy returns a Copy with the defaults, for a command that shows them.
func DefaultCopy() Copy {
	return Copy{MaxRate: harvest.DefaultMaxRate, MaxPage: defaultMaxPage, MaxPages: defaultMaxPages, MaxState: defaultMaxState, Poll: 10 * time.Minute}
}

// Open opens the copy and heals it: files that were removed or truncated become pending fetches. A copy whose site has moved goes on
// at the new address, whichever of them Base names. The caller runs the Crawler and afterwards closes its Collection. Run
// returns an error if the copy cannot be maintained, because it cannot be written or robots.txt forbids the manifest. All other
// trouble with the site is logged, shown by Collection.Sources and Pages, and retried.
//
// The error wraps collection.ErrOther if the directory is not a copy of this site, and collection.ErrHeld if another process uses it.
func (c *Copy) Open() (*Crawler, error) {
	from := client.Source{Base: c.Base}
	base, manifest, err := from.Site()
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(c.State, filepath.Join(c.Dir, ".parley"))
	col, err := collection.Open(dir, &collection.Options{Site: base, Root: c.Dir, Contents: collection.Mirror, NoLinks: true,
		Policy: told.Policy{}, MaxPages: cmp.Or(c.MaxPages, defaultMaxPages), MaxState: cmp.Or(c.MaxState, defaultMaxState),
		Again: collection.Again{Failing: told.Failing(), Lost: time.Hour}.Hurried(c.Hurry), Hurry: c.Hurry,
		Log: c.Log, Wait: time.Second}) // for a command that reads it at the moment
	if err != nil {
		return nil, err
	}
	client.RemoveParts(dir) // the collection is locked, so no other process downloads there
	h := cmp.Or(c.Harvester, &harvest.Harvester{})
	if is, _ := col.Copy(); is.Base != base { // the site has moved
		base, manifest = is.Base, is.Base+strings.TrimPrefix(manifest, base)
	}
	c.ask(&h.Options, base)
	h.Options.Spill = col.NewBody
	return &Crawler{Collection: col, Harvester: h, settings: settings{Seeder: &seed.Seeder{Agent: agent, Rules: anything()}, Log: c.Log,
		Strategy: frontier.BreadthFirst{}, Policy: told.Policy{}, Only: manifest, Quiet: time.Minute, ManifestEvery: c.Poll, AskEvery: c.AskEvery, Hurry: c.Hurry,
		NoParse: true, NoSitemaps: true, NoFeeds: true, NoStreams: c.NoStream, NoChanges: c.NoChanges,
		As: c.As, Filter: c.Filter, Token: c.Token, BundleEvery: c.BundleEvery, BundleCount: c.BundleCount, MaxArchive: c.MaxArchive,
		Temp: dir, Bulk: c.Bulk}}, nil
}

// anything returns rules that refuse nothing: the site decides what is in its copy.
func anything() seed.Rules {
	return seed.Rules{RejectWords: []string{}, SessionIDs: []string{}, Drop: []string{}, DynamicExt: []string{}, LogExt: []string{},
		MaxDepthStatic: -1, MaxDepthDynamic: -1, MaxPerSite: -1, Repeats: -1, MaxURL: -1, SplitWWW: true}
}

// ask sets the zero fields of h.
func (c *Copy) ask(h *harvest.Options, base string) {
	h.Agent = cmp.Or(h.Agent, UserAgent(c.Contact))
	if strings.Contains(c.Contact, "@") && !strings.Contains(c.Contact, "://") {
		h.From = cmp.Or(h.From, c.Contact)
	}
	u, err := url.Parse(base)
	own := err == nil && inet.Loopback(u.Host)
	if h.Wait == 0 {
		switch {
		case c.Delay > 0:
			h.Wait = c.Delay
		case c.Delay == 0 && !own:
			h.Wait = defaultDelay
		default:
			h.Wait = -1
		}
		h.WaitBig = h.Wait
	}
	if own || c.Delay < 0 {
		h.Slow = cmp.Or(h.Slow, -1)
	}
	h.Hurry = cmp.Or(h.Hurry, c.Hurry)
	h.MaxBytes = cmp.Or(h.MaxBytes, c.MaxPage, defaultMaxPage)
	h.Own, h.Private = true, h.Private || c.Private // the user has named the site and its host, and the crawl never leaves it
	h.MaxRate = cmp.Or(h.MaxRate, c.MaxRate)
	h.Log = cmp.Or(h.Log, c.Log)
}

// UserAgent returns the User-Agent of our crawlers, with the contact of the operator.
func UserAgent(contact string) string {
	const name = "Parley/0.1"
	contact = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '(' || c == ')' {
			return -1
		}
		return c
	}, contact)
	if contact == "" {
		return name
	}
	return name + " (+" + contact + ")"
}

// beginOnly makes sure that the one site is in the collection, and begins with its robots.txt.
func (r *sources) beginOnly() error {
	origin := protocol.Origin(r.manifest)
	if _, ok := r.c.Collection.Site(origin); !ok {
		if _, err := r.c.Collection.Commit(&collection.Commit{Sites: []collection.Site{{Origin: origin}}}); err != nil {
			return err
		}
	}
	s, ok := r.c.Collection.Site(origin)
	if !ok {
		return fmt.Errorf("cannot add %s: there are too many sites", origin)
	}
	r.work.Lock()
	st := r.sites.of(s.ID)
	r.sites.complete(st)
	var list []collection.Source
	err := r.barred()
	if st.sources.obeys() {
		list = r.only(st)
	}
	r.work.Unlock()
	if err != nil || len(list) == 0 {
		return err
	}
	return r.in.submit(r.work.ctx, result{sources: list})
}

// only returns the manifest of the one site, if it is not yet among its
// sources. If robots.txt forbids it the run ends. The work's lock is held.
func (r *sources) only(st *site) []collection.Source {
	if err := r.barred(); err != nil {
		if r.work.failed == nil {
			r.work.failed = err
		}
		r.work.cancel()
		return nil
	}
	if st.sources.byURL[r.manifest] != nil {
		return nil
	}
	return []collection.Source{{Site: st.ID, Kind: collection.ManifestRDF, URL: r.manifest}}
}

// barred returns an error if robots.txt forbids the manifest of the one site.
func (r *sources) barred() error {
	if rule := r.c.Seeder.Forbids(r.manifest); rule != "" {
		return fmt.Errorf("robots.txt forbids %s, so the site cannot be followed", r.manifest)
	}
	return nil
}

// spilled sets the file, length and digest of a page that was too large for memory.
func spilled(v *collection.Visit, a *harvest.Answer) error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(a.File, 0, a.Wire))
	if err != nil {
		return err
	}
	v.File, v.Length = a.File, n
	h.Sum(v.Digest[:0])
	return nil
}
