// Package forms wires the forms of delivery that options or a preset enable, for every program that publishes a site: page
// contents, old versions, archives, queries and expressions, all of them behind the evidence of what the web server serves to anybody.
// It also reads what pages declare of themselves.
package forms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/versions"
)

// A Site is what is delivered. Base, State, Inventory and Journal are required.
type Site struct {
	Base, State string
	Inventory   inventory.Inventory
	Docroot     *server.Site // behind the inventory; nil if the pages are not files
	Journal     *server.Journal
	Evidence    *evidence.Keeper // open; nil if there is no docroot
	Hurry       time.Duration    // caps waiting times; 0: no cap

	// Where evaluates expressions, as those of package cel do. It is not made here: programs that only share the options link no evaluator.
	Where func(expression string) (caller.Predicate, error)

	Log *slog.Logger
}

// Forms are the deliveries besides notices of changes. What is nil is not delivered.
type Forms struct {
	Inventory inventory.Inventory // the site's, without pages that the web server refuses; versions are stored as files are read
	Evidence  *evidence.Keeper
	Versions  *versions.Store
	Pages     *versions.Handler // requests for the pages' own URLs
	Archive   *archive.Maker

	on          Options
	site        Site
	deliverable content.Pages // those of Versions whose content may be delivered
}

// New makes the forms that are on, and starts none. An archive whose directory cannot be used is left out, with a warning.
func New(on Options, site Site) *Forms {
	f := &Forms{Inventory: site.Inventory, Evidence: site.Evidence, on: on, site: site}
	public := site.Inventory.Public
	if f.Evidence != nil {
		f.Evidence.Meta = !on.Pages && !on.Archive
		public = f.Evidence.Watching(site.Inventory).Public
	}
	// The content of pages that are not files has to be stored when it is fetched: there is no other way to get it.
	if on.Versions > 0 || site.Docroot != nil && (on.Pages || on.Archive || on.Serve) {
		f.Versions = &versions.Store{Journal: site.Journal, Public: public, MaxBytes: on.Versions, Log: site.Log}
		if on.Versions > 0 {
			f.Versions.Dir = site.State + ".versions"
		}
		if site.Docroot != nil {
			f.Versions.Open = site.Docroot.OpenPage
		}
		if site.Docroot != nil && on.Versions > 0 {
			f.Inventory = f.Versions.Keeping(f.Inventory)
		}
		if f.deliverable = f.Versions; f.Evidence != nil {
			f.deliverable = f.Evidence.Gate(f.Versions)
		}
	}
	if f.Evidence != nil {
		f.Inventory = f.Evidence.Watching(f.Inventory)
	}
	if on.Serve {
		f.Pages = &versions.Handler{Store: f.Versions, Journal: site.Journal, Base: site.Base, Public: public, Expires: on.Expires}
	}
	if on.Archive {
		f.Archive = f.archive(public)
	}
	return f
}

// archive returns the maker of archives; nil if there can be none.
func (f *Forms) archive(public func(url string) bool) *archive.Maker {
	s, e := &f.site, f.Evidence
	m := &archive.Maker{Dir: s.State + ".archive", Base: s.Base, Journal: s.Journal, Pages: f.deliverable, Public: public, Share: f.on.Share, Every: s.Hurry, MaxAge: s.Hurry, Logger: s.Log}
	m.NoArchive = func(item *protocol.Item, page []byte) bool {
		isHTML := item.Type == "text/html" || item.Type == "application/xhtml+xml"
		return e != nil && e.NoArchive(item.URL) || isHTML && html.Read(item.URL, page, html.Options{}).NoArchive
	}
	if e != nil {
		m.Given, m.Settle, m.Givable = e.Given, e.Settle, func() int { return e.Status().Public }
	}
	if err := m.Open(); err != nil {
		s.Log.Warn("no archive of the site is offered: its directory cannot be used", "err", err)
		f.on.Archive = false
		return nil
	}
	return m
}

// Offer adds the forms to a notifier with a manifest.
func (f *Forms) Offer(n *doors.Notifier) {
	if n.Limits.PullOnly = !f.on.Stream; n.Limits.PullOnly {
		n.Snapshot.Manifest.Stream = ""
	}
	j, c := f.site.Journal, &n.Content
	if f.on.Pages {
		c.Pages = f.deliverable
		c.Item = func(url string) (protocol.Item, bool, error) {
			e, ok, err := j.Get(url)
			return e.Item, ok, err
		}
	}
	if f.Archive != nil {
		c.Archive, c.SiteShare = f.Archive, f.on.Share
	}
	if f.on.Query {
		c.Items = server.Moments(j)
	}
	if f.on.Expressions {
		n.Clients.Where = f.site.Where
	}
}

// Own passes what runs until ctx ends to own, which runs it.
func (f *Forms) Own(ctx context.Context, own func(what string, run func() error)) {
	if f.Evidence != nil {
		own("evidence", func() error { return f.Evidence.Run(ctx) })
	}
	if f.Versions != nil {
		own("versions", func() error { return f.Versions.Run(ctx) })
	}
	if f.Archive != nil {
		own("archive", func() error { return f.Archive.Run(ctx) })
	}
}

// Tasks returns what can be done with the forms of a notifier, for [server.Holder]: recheck, which with the parameter accept-refusals
// confirms that the web server refuses many pages on purpose, and purge, of the page at the parameter url.
func (f *Forms) Tasks(n *doors.Notifier) map[string]func(context.Context, url.Values) (any, error) {
	return map[string]func(context.Context, url.Values) (any, error){
		"recheck": func(_ context.Context, q url.Values) (any, error) {
			if f.Evidence == nil {
				return nil, errors.New("recheck needs a docroot: pages of URL lists are not checked")
			}
			again := f.Evidence.Recheck
			if q.Has("accept-refusals") {
				again = f.Evidence.Accept
			}
			return f.Evidence.Status(), again() // the status before it
		},
		"purge": func(_ context.Context, q url.Values) (any, error) { return f.purge(n, q.Get("url")) },
	}
}

// Purged is what was discarded of a page.
type Purged struct {
	URL      string `json:"url"`
	Archives int    `json:"archives"`
	Versions bool   `json:"versions"`
}

func (p Purged) String() string {
	versions := "no old versions"
	if p.Versions {
		versions = "its old versions"
	}
	return fmt.Sprintf("%s: discarded %d archives and %s", p.URL, p.Archives, versions)
}

// purge discards what is stored of a page besides its current bytes: archives that contain it, its old
// versions, and cached responses.
func (f *Forms) purge(n *doors.Notifier, page string) (p Purged, err error) {
	if page, err = protocol.CanonicalURL(n.Base, page); err != nil {
		return p, err
	}
	if !strings.HasPrefix(page, n.Base) {
		return p, fmt.Errorf("%s is not a page of %s", page, n.Base)
	}
	p.URL = page
	if f.Versions != nil {
		p.Versions = f.Versions.Purge(page)
	}
	if f.Archive != nil {
		p.Archives = f.Archive.Purge(page)
	}
	n.Forget()
	return p, nil
}

// Status is the state of the forms. What is not delivered is missing.
type Status struct {
	On       string                            `json:"on"`
	Forms    map[protocol.Form]doors.FormStats `json:"forms,omitempty"`
	Versions *versions.Stats                   `json:"versions,omitempty"`
	Archive  *archive.Stats                    `json:"archive,omitempty"`
	Evidence *evidence.Status                  `json:"evidence,omitempty"`
}

// Status returns the state of the forms of a notifier.
func (f *Forms) Status(n *doors.Notifier) Status {
	s := Status{On: f.on.String(), Forms: n.Stats().Forms}
	if f.Evidence != nil {
		e := f.Evidence.Status()
		s.Evidence = &e
	}
	if f.Versions != nil {
		v := f.Versions.Stats()
		s.Versions = &v
	}
	if f.Archive != nil {
		a := f.Archive.Stats()
		s.Archive = &a
	}
	return s
}

// Features reads what a page declares of itself, as Site.Features of package server does.
type Features = func(url string, page []byte, whole bool) (inventory.Features, error)

// ReadFeatures returns a Features that also digests the main text without what the masks match. The text of a
// truncated page is not digested, since it is incomplete.
func ReadFeatures(masks maintext.Masks) Features {
	scanners := sync.Pool{New: func() any { return new(html.Scanner) }}
	return func(pageURL string, page []byte, whole bool) (inventory.Features, error) {
		scanner := scanners.Get().(*html.Scanner)
		defer scanners.Put(scanner)
		p := scanner.Read(pageURL, page, html.Options{Text: whole})
		f := inventory.Features{Title: p.Title, NoIndex: p.NoIndex || html.Expired(p.UnavailableAfter, time.Now()), UnavailableAfter: p.UnavailableAfter, Language: p.Language, Canonical: p.Canonical}
		if whole {
			f.Text, f.Sketch = masks.Read(p.Text)
		}
		return f, nil
	}
}
