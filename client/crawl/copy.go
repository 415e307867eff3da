package crawl

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// What the fields of a Copy are if they are zero.
const (
	DefaultDelay    = time.Second
	DefaultMaxPage  = 100_000_000 // as much as a site publishes, server.MaxFile
	DefaultMaxPages = 10_000_000
	DefaultMaxState = 16 << 30
)

// agent is the product token by which robots.txt knows a crawler of ours.
const agent = "parley"

// A Copy says how the copy of one site that tells of itself is kept: its first
// description is taken in without parsing a page, and then what it tells. Open
// makes a Crawler of it.
type Copy struct {
	// Base is the site's home, or its robots.rdf. Required.
	Base string

	// Dir is where the copy stands, and State the directory that remembers, Dir/.parley if it
	// is empty. Both are made if they do not exist. Dir is required.
	Dir, State string

	// Contact is how the site's people can reach whoever runs this: a URL or
	// an e-mail address. It is sent with every request.
	Contact string

	// Delay is the least time between two requests. Zero means one second, but none on
	// the loopback interface; negative means none. A longer Crawl-delay of the site's
	// robots.txt is kept to always.
	Delay time.Duration

	// MaxRate is how often a second the site is asked at most, where it wishes to be asked more
	// often than Delay says: zero means 10, negative never more often.
	MaxRate float64

	// Private has the site asked at addresses that are not of the public Internet though it
	// was at a public one before. One that never was is asked wherever it is.
	Private bool

	// MaxPage bounds one page, in bytes; larger ones are left. Zero means 100 MB.
	MaxPage int64

	// MaxPages bounds how many pages the site may have; zero means 10 million. MaxState bounds the
	// bytes of what is known of them, in state.db: zero means 16 GiB. Of a site that goes beyond, what is held stays as it was
	// when it was described last, and it is looked at again after an hour, and then more seldom.
	MaxPages int
	MaxState int64

	// AskEvery, above zero, is the time between two questions for changes where no
	// stream is open; they are not waited for then.
	AskEvery time.Duration

	// Poll is the time between two looks at the manifest of a site that has no
	// other door. Zero means 10 minutes. NoStream and NoChanges keep a door shut.
	Poll                time.Duration
	NoStream, NoChanges bool

	// As is the form in which the site tells; empty chooses the cheapest that it
	// offers for what is held. One that it does not offer ends Run. Filter, Token, BundleEvery,
	// BundleCount and MaxArchive are those of a client.Source; what a filter
	// holds back is not in the copy.
	As          protocol.Form
	Filter      protocol.Filter
	Token       string
	BundleEvery time.Duration
	BundleCount int
	MaxArchive  int64

	// Bulk is as in a Crawler.
	Bulk int

	// Hurry is as in a Crawler: it bounds the waits until what failed is tried again, too.
	Hurry time.Duration

	// Harvester asks, if not nil. What it leaves open is set as is said above.
	Harvester *harvest.Harvester

	Log *slog.Logger // nil is silent
}

// Open opens the copy, and heals it: what somebody has removed or cut short is
// owed again. The Crawler is to be run until it shall end, and then its
// Collection is to be closed. Run returns an error if the copy cannot be kept: it cannot be
// written, or robots.txt forbids the manifest. Whatever else the site does
// is logged, shown by Collection.Sources and Pages, and tried again.
//
// The errors of a directory that is no copy of this site, or another process's,
// wrap collection.ErrOther and collection.ErrHeld.
func (c *Copy) Open() (*Crawler, error) {
	from := client.Source{Base: c.Base}
	base, manifest, err := from.Site()
	if err != nil {
		return nil, err
	}
	h := cmp.Or(c.Harvester, &harvest.Harvester{})
	c.ask(h, base)
	dir := cmp.Or(c.State, filepath.Join(c.Dir, ".parley"))
	col, err := collection.Open(dir, &collection.Options{Site: base, Root: c.Dir, Contents: collection.Mirror, NoLinks: true,
		Policy: told{}, MaxPages: cmp.Or(c.MaxPages, DefaultMaxPages), MaxState: cmp.Or(c.MaxState, DefaultMaxState),
		Again: collection.Again{Failing: failing(), Lost: time.Hour}.Hurried(c.Hurry), Hurry: c.Hurry,
		Wait: time.Second}) // for a command that is just reading it
	if err != nil {
		return nil, err
	}
	client.RemoveParts(dir) // it is held, so nobody is downloading there
	h.Spill = col.NewBody
	return &Crawler{Collection: col, Harvester: h, Seeder: &seed.Seeder{Agent: agent, Rules: anything()}, Log: c.Log,
		Strategy: frontier.BreadthFirst{}, Policy: told{}, Only: manifest, Quiet: time.Minute, ManifestEvery: c.Poll, AskEvery: c.AskEvery, Hurry: c.Hurry,
		NoParse: true, NoSitemaps: true, NoFeeds: true, NoStreams: c.NoStream, NoChanges: c.NoChanges,
		As: c.As, Filter: c.Filter, Token: c.Token, BundleEvery: c.BundleEvery, BundleCount: c.BundleCount, MaxArchive: c.MaxArchive,
		Temp: dir, Bulk: c.Bulk}, nil
}

// anything refuses nothing: what a copy has is for its site to say.
func anything() seed.Rules {
	return seed.Rules{RejectWords: []string{}, SessionIDs: []string{}, Drop: []string{}, DynamicExt: []string{}, LogExt: []string{},
		MaxDepthStatic: -1, MaxDepthDynamic: -1, MaxPerSite: -1, Repeats: -1, MaxURL: -1, SplitWWW: true}
}

// failing is when a page is asked for again that gave no answer, or one that
// will pass: it is the site's business more often than the page's, and the site is cooperating.
func failing() (list []time.Duration) {
	for d := time.Second; d < 5*time.Minute; d *= 2 {
		list = append(list, d)
	}
	for range 12 {
		list = append(list, 5*time.Minute)
	}
	return list
}

// ask sets what h leaves open.
func (c *Copy) ask(h *harvest.Harvester, base string) {
	h.Agent = cmp.Or(h.Agent, UserAgent(c.Contact))
	if strings.Contains(c.Contact, "@") && !strings.Contains(c.Contact, "://") {
		h.From = cmp.Or(h.From, c.Contact)
	}
	own := loopback(base)
	if h.Wait == 0 {
		switch {
		case c.Delay > 0:
			h.Wait = c.Delay
		case c.Delay == 0 && !own:
			h.Wait = DefaultDelay
		default:
			h.Wait = -1
		}
		h.WaitBig = h.Wait
	}
	if own || c.Delay < 0 {
		h.Slow = cmp.Or(h.Slow, -1)
	}
	h.Hurry = cmp.Or(h.Hurry, c.Hurry)
	h.MaxBytes = cmp.Or(h.MaxBytes, c.MaxPage, DefaultMaxPage)
	h.Own, h.Private = true, h.Private || c.Private // whoever names a site knows where it is, and it leads nowhere else
	h.MaxRate = cmp.Or(h.MaxRate, c.MaxRate)
	h.Log = cmp.Or(h.Log, c.Log)
}

// loopback reports whether a site is this machine's.
func loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}

// UserAgent returns how a crawler of ours names itself, with how to reach whoever runs it.
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

// told is the policy of a copy: a page is visited when its site has told of it.
type told struct{}

func (told) Name() string { return "told" }

func (told) Profit(p *fresh.Page, _ time.Time) float64 {
	if p.Told || p.Visits == 0 {
		return 1
	}
	return 0
}

func (told) Next(p *fresh.Page, _ time.Time) time.Time {
	if p.Told || p.Visits == 0 {
		return time.Time{}
	}
	return collection.Never
}

// beginOnly makes sure that the one site is known, and is asked for its robots.txt.
func (r *run) beginOnly() error {
	origin := protocol.Origin(r.Only)
	if _, ok := r.Collection.Site(origin); !ok {
		if _, err := r.Collection.Commit(&collection.Turn{Sites: []collection.Site{{Origin: origin}}}); err != nil {
			return err
		}
	}
	s, ok := r.Collection.Site(origin)
	if !ok {
		return fmt.Errorf("%s cannot be known: there are too many sites", origin)
	}
	r.mu.Lock()
	st := r.siteOf(s.ID)
	r.complete(st)
	var list []collection.Source
	err := r.barred()
	if st.obeys() {
		list = r.onlySource(st)
	}
	r.mu.Unlock()
	if err != nil || len(list) == 0 {
		return err
	}
	return r.submit(r.ctx, read{sources: list})
}

// onlySource returns the manifest of the one site, if it is not among its
// sources, and ends a run that robots.txt forbids. The run's lock is held.
func (r *run) onlySource(st *site) []collection.Source {
	if err := r.barred(); err != nil {
		if r.failed == nil {
			r.failed = err
		}
		r.cancel()
		return nil
	}
	if st.sources[r.Only] != nil {
		return nil
	}
	return []collection.Source{{Site: st.ID, Kind: collection.ManifestRDF, URL: r.Only}}
}

// barred says why the one site cannot be followed.
func (r *run) barred() error {
	if rule := r.Seeder.Forbids(r.Only); rule != "" {
		return fmt.Errorf("robots.txt forbids %s, so the site cannot be followed", r.Only)
	}
	return nil
}

// names reports whether the one site offers a page, as far as is known.
func (r *run) names(u string) bool {
	p, ok, err := r.Collection.Page(u)
	return err == nil && ok && p.State != collection.Gone
}

// onlyOptions believe the one site whatever it says of its pages; robots.txt outranks that.
func (r *run) onlyOptions(by collection.Signal) collection.ApplyOptions {
	return collection.ApplyOptions{Admit: func(u string) collection.Find {
		return collection.Find{URL: u, Depth: protocol.Depth(u), By: by, Exclude: r.Seeder.Forbids(u)}
	}}
}

// spilled takes in a page that was too large for memory.
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

// sayOnly says what became of a page of the one site, where that is for people.
func (r *run) sayOnly(v *collection.Visit, d *collection.Visited) {
	p := &d.Page
	switch {
	case v.Exclude != "":
		r.log.Info("page is forbidden", "url", p.URL, "rule", v.Exclude)
	case d.Gone:
		r.log.Debug("page was taken back", "url", p.URL)
	case p.Fails > 0:
		r.log.Warn("fetch page", "url", p.URL, "fault", p.Fault, "again", whenAgain(p.At))
	case d.Mismatched:
		r.log.Warn("page differs from its published digest", "url", p.URL, "got", p.Digest, "again", whenAgain(p.At))
		if d.Demoted {
			r.log.Warn("digests of this site have never matched: pages are stored without waiting for a match")
		}
	default:
		r.log.Debug("fresh", "url", p.URL, "status", v.Status, "bytes", p.Length, "changed", d.Changed)
	}
}

// tidyEvery is how often it is looked whether a copy can be tidied.
const tidyEvery = 5 * time.Second

// tidy removes what a lost state has left behind in a copy, when there is nothing to be asked for.
func (r *run) tidy(now time.Time) error {
	if r.Only == "" || now.Sub(r.tidied) < r.hurried(tidyEvery) {
		return nil
	}
	r.tidied = now
	return r.Collection.Tidy()
}

// whenAgain says when a page is asked for again.
func whenAgain(at time.Time) string {
	if !at.Before(collection.Never) {
		return "when the site tells of it"
	}
	return at.UTC().Format(time.RFC3339)
}
