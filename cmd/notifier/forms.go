package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/versions"
)

// forms are the deliveries besides notices of changes. Each may be nil.
type forms struct {
	on          siteflags.Forms
	store       *versions.Store
	pages       *versions.Handler
	archive     *archive.Maker
	agents      *agent.Host
	callers     *caller.Callers
	evidence    *evidence.Keeper
	deliverable content.Pages // those of store whose content may be delivered
	fetched     bool          // the store gets pages as they are fetched
}

// newForms returns the forms that the options enable, for an inventory and its journal.
func newForms(site *siteflags.Flags, set *flag.FlagSet, inv inventory.Inventory, j *server.Journal, log *slog.Logger) (f *forms, err error) {
	f = &forms{}
	if f.on, err = site.Forms(set); err != nil {
		return nil, err
	}
	if f.on.Callers != "" {
		if f.callers, err = caller.Read(f.on.Callers); err != nil {
			return nil, fmt.Errorf("--callers: %w", err)
		}
		f.callers.Logger = log
	}
	docroot := siteflags.DocrootOf(inv)
	if f.evidence, err = site.Evidence(inv, j, log); err != nil {
		return nil, err
	}
	if f.evidence != nil {
		f.evidence.Meta = !f.on.Pages && !f.on.Archive
	}
	public := f.public(inv)
	if docroot == nil && f.on.Versions > 0 {
		// Fetched content is stored as it comes: there is no other way to get it.
		f.store = &versions.Store{Dir: site.StateDir("versions"), Journal: j, Public: public, MaxBytes: f.on.Versions, Log: log}
		f.fetched = site.Fetched(func(features siteflags.Features) siteflags.Features { return f.store.Seeing(features) })
	}
	if docroot != nil && (f.on.Pages || f.on.Archive || f.on.Serve) {
		f.store = &versions.Store{Journal: j, Open: docroot.OpenPage, Public: public, MaxBytes: f.on.Versions, Log: log}
		if f.on.Versions > 0 {
			f.store.Dir = site.StateDir("versions")
		}
	}
	if f.deliverable = f.store; f.evidence != nil && f.store != nil {
		f.deliverable = f.evidence.Gate(f.store)
	}
	if f.on.Serve {
		f.pages = &versions.Handler{Store: f.store, Journal: j, Base: site.Base, Public: public, Expires: f.on.Expires}
	}
	if f.on.Archive {
		f.archive = &archive.Maker{Dir: site.StateDir("archive"), Base: site.Base, Journal: j, Pages: f.deliverable, Public: public, Share: f.on.Share, Every: site.Hurry, MaxAge: site.Hurry, Logger: log}
		f.archive.NoArchive = func(item *protocol.Item, page []byte) bool {
			return f.evidence != nil && f.evidence.NoArchive(item.URL) || siteflags.SaysNoArchive(item.URL, item.Type, page)
		}
		if f.evidence != nil {
			f.archive.Given, f.archive.Settle = f.evidence.Given, f.evidence.Settle
			f.archive.Givable = func() int { return f.evidence.Status().Public }
		}
		if err := f.archive.Open(); err != nil {
			log.Warn("no archive of the site is offered: its directory cannot be used", "err", err)
			f.archive, f.on.Archive = nil, false
		}
	}
	if f.callers != nil && f.callers.Agents() {
		self, err := os.Executable()
		if err == nil {
			f.agents, err = agent.Open(site.StateDir("agents"), agent.Options{Command: []string{self, agent.ProcessName}, Logger: log})
		}
		if err != nil {
			log.Warn("no programs of crawlers are accepted or run: their directory cannot be used", "err", err)
			f.agents = nil
		}
	}
	return f, nil
}

// recheck starts a new check of all pages on the web server, and returns the status before it. accept confirms
// that the server refuses many pages on purpose.
func (f *forms) recheck(accept bool) (evidence.Status, error) {
	if f.evidence == nil {
		return evidence.Status{}, errors.New("recheck needs a docroot: pages of URL lists are not checked")
	}
	again := f.evidence.Recheck
	if accept {
		again = f.evidence.Accept
	}
	return f.evidence.Status(), again()
}

// purged is what was discarded of a page.
type purged struct {
	URL      string `json:"url"`
	Archives int    `json:"archives"`
	Versions bool   `json:"versions"`
}

func (p purged) String() string {
	versions := "no old versions"
	if p.Versions {
		versions = "its old versions"
	}
	return fmt.Sprintf("%s: discarded %d archives and %s", p.URL, p.Archives, versions)
}

// purge discards what is stored of a page besides its current bytes: archives that contain it, its old
// versions, and cached responses.
func (f *forms) purge(n *doors.Notifier, page string) (p purged, err error) {
	if page, err = protocol.CanonicalURL(n.Base, page); err != nil {
		return p, err
	}
	if !strings.HasPrefix(page, n.Base) {
		return p, fmt.Errorf("%s is not a page of %s", page, n.Base)
	}
	p.URL = page
	if f.store != nil {
		p.Versions = f.store.Purge(page)
	}
	if f.archive != nil {
		p.Archives = f.archive.Purge(page)
	}
	n.Forget()
	return p, nil
}

// offer adds the forms to a notifier.
func (f *forms) offer(n *doors.Notifier, inv inventory.Inventory, j *server.Journal) {
	n.Limits.PullOnly = !f.on.Stream
	if f.on.Pages {
		n.Content.Pages = f.deliverable
		n.Content.Item = func(url string) (protocol.Item, bool, error) {
			e, ok, err := j.Get(url)
			return e.Item, ok, err
		}
	}
	if f.archive != nil {
		n.Content.Archive, n.Content.SiteShare = f.archive, f.on.Share
	}
	if f.on.Query || f.agents != nil { // programs run on all current items, too
		n.Content.Items = server.Moments(j)
	}
	if f.on.Expressions {
		n.Clients.Where = new(cel.Expressions).Compile
	}
	if f.agents != nil {
		n.Clients.Agents = f.agents
	}
	if f.callers != nil {
		n.Clients.Identify = f.callers.Identify
		n.Clients.PublicTo = siteflags.RulesOf(inv).PublicTo
	}
}

// public returns the test whether a URL is public now.
func (f *forms) public(inv inventory.Inventory) func(string) bool {
	if f.evidence == nil {
		return inv.Public
	}
	return f.evidence.Watching(inv).Public
}

// watching returns the inventory without pages that the web server refuses; it stores versions of the others
// as they are read.
func (f *forms) watching(inv inventory.Inventory) inventory.Inventory {
	if inv = f.keeping(inv); f.evidence != nil {
		inv = f.evidence.Watching(inv)
	}
	return inv
}

func (f *forms) keeping(inv inventory.Inventory) inventory.Inventory {
	if f.store == nil || f.store.Dir == "" || f.fetched {
		return inv
	}
	return f.store.Keeping(inv)
}

// own runs the forms that exist. The programs end with everything else: requests under way are answered
// without them.
func (f *forms) own(ctx context.Context, own func(what string, run func() error)) {
	ended := func(err error) error {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	if f.evidence != nil {
		own("evidence", func() error { return ended(f.evidence.Run(ctx)) })
	}
	if f.store != nil {
		own("versions", func() error { return ended(f.store.Run(ctx)) })
	}
	if f.archive != nil {
		own("archive", func() error { return ended(f.archive.Run(ctx)) })
	}
	if f.agents != nil {
		own("agents", func() error { <-ctx.Done(); return f.agents.Close() })
	}
}

// doors adds the pages themselves to the doors of the notifier, if they are
// served here.
func (f *forms) doors(n *doors.Notifier, base string) http.Handler {
	u, err := url.Parse(base)
	if f.pages == nil || err != nil {
		return n
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		below, ours := strings.CutPrefix(r.URL.Path, u.Path)
		if !ours || below == "robots.rdf" || strings.HasPrefix(below, "parley/") || below == protocol.DiscoveryPath || r.URL.Path == "/"+protocol.DiscoveryPath {
			n.ServeHTTP(w, r)
			return
		}
		f.pages.ServeHTTP(w, r)
	})
}

// formsStatus is the state of the forms.
type formsStatus struct {
	On       string                            `json:"on"`
	Forms    map[protocol.Form]doors.FormStats `json:"forms,omitempty"`
	Versions *versions.Stats                   `json:"versions,omitempty"`
	Archive  *archive.Stats                    `json:"archive,omitempty"`
	Agents   *agent.Stats                      `json:"agents,omitempty"`
	Evidence *evidence.Status                  `json:"evidence,omitempty"`
}

func (f *forms) status(n *doors.Notifier) formsStatus {
	s := formsStatus{On: f.on.String(), Forms: n.Stats().Forms}
	if f.evidence != nil {
		e := f.evidence.Status()
		s.Evidence = &e
	}
	if f.store != nil {
		v := f.store.Stats()
		s.Versions = &v
	}
	if f.archive != nil {
		a := f.archive.Stats()
		s.Archive = &a
	}
	if f.agents != nil {
		a := f.agents.Stats()
		s.Agents = &a
	}
	return s
}
