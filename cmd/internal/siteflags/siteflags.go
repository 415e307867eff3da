// Package siteflags has the options that describe a site and what is published of it. rdfgen and notifier
// share them, so that both see the same site and can share one configuration file.
package siteflags

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// Flags are the options of a site. Each is bound to the field of the library that it sets, where there is one.
type Flags struct {
	Place
	Hurry   time.Duration
	Publish server.Publisher // the options that a program adds are set here, and used by Publisher
	journal server.JournalOptions
	asks    asks

	pages   pages
	outputs outputs
	senders senders
	forms   Forms
}

// Options returns the options, with a default for --ask-rate.
func (f *Flags) Options(askRate float64) []command.Flag {
	bind := command.Bind
	f.journal.Retention = 90 * 24 * time.Hour
	return slices.Concat([]command.Flag{
		bind("docroot", &f.Docroot, "`DIR` that the web server serves; a symbolic link is allowed"),
		bind("base", &f.Base, "`URL` at which the site is served"),
		bind("moved-from", &f.journal.Former, "the site was at `URL` before: keep the dates and digests of its state, and let crawlers follow the redirects from there (repeatable)"),
		bind("out", &f.Out, "publish the manifest as `FILE`, such as DOCROOT/robots.rdf"),
		bind("state", &f.State, "`FILE` of the state, which records what was published (default: one per base URL, below $STATE_DIRECTORY or /var/lib/parley)"),
		bind("previous", &f.journal.Published, "`FILE or URL` of the manifest published last, to compare the state with (default: the file of --out)"),
		bind("retention", &f.journal.Retention, "keep the journal of changes and deletions for `TIME`"),
		bind("hurry", &f.Hurry, "cap our own waiting times, such as debouncing and retries, at `TIME` (0: no cap; for tests)"),
		bind("max-pages", &f.Publish.Pages.Max, "publish no new pages, and report an error, while the site has more than `N` pages (0: no maximum)"),
		bind("heal", &f.pages.heal, "restore the mtime of files rewritten with the same bytes, so that the web server answers 304 again"),
	}, f.asks.options(askRate), f.pages.options(), f.outputs.options(), f.senders.options())
}

// Check reports what is wrong with the options.
func (f *Flags) Check(log *slog.Logger) error {
	if err := cmp.Or(f.canonical(), checkFormerState(&f.Place, f.journal.Former)); err != nil {
		return err
	}
	p := &f.pages
	lists := p.listed()
	switch {
	case f.Docroot != "" && lists:
		return command.Misusef("--docroot and lists of URLs exclude each other: choose one")
	case f.Docroot == "" && !lists && p.tokens == "":
		return command.Misusef("--docroot is required, or one of --urls, --urls-cmd, --urls-sitemap and --urls-feed")
	case f.Publish.Pages.Max < 0:
		return command.Misusef("--max-pages %d: want 0 or more", f.Publish.Pages.Max)
	case f.Docroot == "" && f.pages.heal:
		return command.Misusef("--heal sets the dates of files: it needs --docroot")
	}
	if err := f.asks.check(); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{"robots-wait": p.robotsWait, "robots-remind": p.robotsRemind} {
		if d <= 0 {
			return command.Misusef("--%s %s: want more than 0", name, d)
		}
	}
	if err := f.outputs.check(f); err != nil {
		return err
	}
	if err := f.senders.check(f); err != nil {
		return err
	}
	if f.Docroot != "" && p.robots == "" && f.Base != protocol.Origin(f.Base)+"/" {
		if _, err := os.Lstat(filepath.Join(f.Docroot, "robots.txt")); err == nil {
			log.Warn("robots.txt in the docroot is ignored: crawlers read only that of the host", "robots", protocol.Origin(f.Base)+"/robots.txt")
		}
	}
	_, err := f.Inventory(nil, log)
	return err
}

// TaskOptions returns the options for tasks besides the manifest. A process that leaves these tasks to another
// requires that both have the same values of these options.
func (f *Flags) TaskOptions() []string {
	var does []string
	for _, was := range f.journal.Former {
		does = append(does, "--moved-from "+was)
	}
	if f.pages.heal {
		does = append(does, "--heal")
	}
	return append(append(does, f.outputs.does()...), f.senders.does()...)
}

// Claims returns the files and settings that no other site may share.
func (f *Flags) Claims() []string {
	if f.canonical() != nil {
		return nil
	}
	var claims []string
	claim := func(what, path string) {
		if path == "" {
			return
		}
		if real, err := command.RealPath(path); err == nil {
			path = real
		}
		claims = append(claims, what+path)
	}
	claim("--out ", f.Out)
	if f.State == "" {
		claims = append(claims, "--base "+f.Base)
	} else {
		claim("--state ", f.State)
	}
	for _, file := range f.outputs.files() {
		claim("", *file)
	}
	if f.pages.heal {
		claim("--heal in ", f.Docroot) // each would set the dates that it knows
	}
	if f.outputs.writeRobots {
		claim("--write-robots in ", f.Docroot)
	}
	return claims
}

// canonical brings the base URL to its published form, and makes file names absolute, so that they mean the
// same to every process.
func (f *Flags) canonical() error {
	if err := f.Place.canonical(append(f.outputs.files(), &f.pages.tokens, &f.forms.Callers, &f.senders.secret)...); err != nil {
		return err
	}
	return f.canonicalFormer()
}

// Tokens returns the file of tokens: a client with one may announce pages to the notifier, so that neither a
// docroot nor a list is needed.
func (f *Flags) Tokens() string { return f.pages.tokens }

// AccessLogs returns the patterns of the site's access logs; nil if there are none.
func (f *Flags) AccessLogs() []string { return f.pages.logs }

// JournalOptions returns the options of the site's journal.
func (f *Flags) JournalOptions(log *slog.Logger) server.JournalOptions {
	o := f.journal
	o.Base, o.Manifest, o.Log = f.Base, f.manifest(), log
	o.Published = cmp.Or(o.Published, o.Manifest)
	return o
}

// Publisher returns the publisher of the site's inventory, with its manifest
// and all other outputs. Call Check before.
func (f *Flags) Publisher(inv inventory.Inventory, j *server.Journal, log *slog.Logger) *server.Publisher {
	about := doors.Describe(f.Base)
	about.URL, about.Replaces = f.ManifestURL(), f.journal.Former
	p := &f.Publish
	p.Inventory, p.Journal, p.Pace.Hurry, p.Log = inv, j, f.Hurry, log
	p.Snapshot = &manifest.Snapshot{Path: f.manifest(), Manifest: about, Public: inv.Public, Parts: f.outputs.partsFrom(f)}
	p.Outputs = f.outputs.list(f, inv.Public, log)
	p.Pages.Importance, p.Pages.Announces = importance(f.pages.logs, log), f.pages.tokens != ""
	return p
}
