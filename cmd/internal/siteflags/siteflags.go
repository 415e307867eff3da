// Package siteflags has the options that describe a site and what is published of it. rdfgen and notifier
// share them, so that both see the same site and can share one configuration file.
package siteflags

import (
	"cmp"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// Flags are the options of a site.
type Flags struct {
	Place
	Previous         string
	Include, Exclude command.Strings
	CleanURLs        bool
	Robots           string
	RobotsWait       command.Duration
	RobotsRemind     command.Duration
	RobotsNow        bool // of rdfgen
	MaxFile          command.Size
	Retention        command.Duration
	Hurry            command.Duration
	Heal             bool

	// Tokens is a file of tokens: a client with one may announce pages to the notifier, so that neither a
	// docroot nor a list is needed.
	Tokens string

	Asks EvidenceFlags

	pages   pages
	outputs outputs
	senders senders
	forms   Forms
}

// Required are the options that must be given.
func Required() []string { return []string{"base"} }

// Define defines the options.
func (f *Flags) Define(fs *flag.FlagSet) {
	f.MaxFile, f.Retention = 100_000_000, command.Duration(90*24*time.Hour)
	f.RobotsWait, f.RobotsRemind = command.Duration(time.Minute), command.Duration(24*time.Hour)
	fs.StringVar(&f.Docroot, "docroot", "", "`DIR` that the web server serves; a symbolic link is allowed")
	fs.StringVar(&f.Base, "base", "", "`URL` at which the site is served")
	fs.StringVar(&f.Out, "out", "", "publish the manifest as `FILE`, such as DOCROOT/robots.rdf")
	fs.StringVar(&f.State, "state", "", "`FILE` of the state, which records what was published (default: one per base URL, below $STATE_DIRECTORY or /var/lib/parley)")
	fs.StringVar(&f.Previous, "previous", "", "`FILE or URL` of the manifest published last, to compare the state with (default: the file of --out)")
	fs.Var(&f.Include, "include", "also publish files that match `PATTERN`, such as '**/*.txt' (repeatable)")
	fs.Var(&f.Exclude, "exclude", "do not publish files that match `PATTERN`, such as 'drafts/**' (repeatable)")
	fs.BoolVar(&f.CleanURLs, "clean-urls", false, "the web server serves page.html as /page")
	fs.StringVar(&f.Robots, "robots", "", "`FILE or URL` of the robots.txt to obey (default: robots.txt in the docroot, or that of the host if there is no docroot or the base has a path)")
	fs.Var(&f.RobotsWait, "robots-wait", "apply new permissions in robots.txt after `TIME` without another change; new prohibitions apply at once")
	fs.Var(&f.RobotsRemind, "robots-remind", "warn every `TIME` while robots.txt is missing, has no rule or cannot be read; until then the last rules stay in force")
	fs.Var(&f.MaxFile, "max-file", "leave out files over `SIZE`")
	fs.Var(&f.Retention, "retention", "keep the journal of changes and deletions for `TIME`")
	fs.Var(&f.Hurry, "hurry", "cap our own waiting times, such as debouncing and retries, at `TIME` (0: no cap; for tests)")
	fs.BoolVar(&f.Heal, "heal", false, "restore the mtime of files rewritten with the same bytes, so that the web server answers 304 again")
	fs.StringVar(&f.Tokens, "announce-tokens", "", "accept announcements of pages at BASE/parley/announce from clients with a token in `FILE`, one per line, read at the start")
	f.Asks.define(fs)
	f.pages.define(fs)
	f.outputs.define(fs)
	f.senders.define(fs)
}

// Check reports what is wrong with the options.
func (f *Flags) Check(log *slog.Logger) error {
	if err := f.canonical(); err != nil {
		return err
	}
	lists := f.pages.listed()
	switch {
	case f.Docroot != "" && lists:
		return command.Misusef("--docroot and lists of URLs exclude each other: choose one")
	case f.Docroot == "" && !lists && f.Tokens == "":
		return command.Misusef("--docroot is required, or one of --urls, --urls-cmd, --urls-sitemap and --urls-feed")
	case f.Docroot == "" && f.Heal:
		return command.Misusef("--heal sets the dates of files: it needs --docroot")
	}
	if err := f.Asks.check(); err != nil {
		return err
	}
	for name, d := range map[string]command.Duration{"robots-wait": f.RobotsWait, "robots-remind": f.RobotsRemind} {
		if d <= 0 {
			return command.Misusef("--%s %s: want more than 0", name, time.Duration(d))
		}
	}
	if err := f.outputs.check(f); err != nil {
		return err
	}
	if err := f.senders.check(f); err != nil {
		return err
	}
	if f.Docroot != "" && f.Robots == "" && f.Base != protocol.Origin(f.Base)+"/" {
		if _, err := os.Lstat(filepath.Join(f.Docroot, "robots.txt")); err == nil {
			log.Warn("robots.txt in the docroot is ignored: crawlers read only that of the host", "robots", protocol.Origin(f.Base)+"/robots.txt")
		}
	}
	_, err := f.Inventory(nil, log)
	return err
}

// Publishes reports whether anything is to be stored or published; otherwise a description of the site goes
// to standard output.
func (f *Flags) Publishes() bool { return f.Out != "" || f.State != "" || len(f.TaskOptions()) > 0 }

// TaskOptions returns the options for tasks besides the manifest. A process that leaves them to another must find
// the same there.
func (f *Flags) TaskOptions() []string {
	var does []string
	if f.Heal {
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
		if real, err := resolve(path); err == nil {
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
	if f.Heal {
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
	return f.Place.canonical(append(f.outputs.files(), &f.Tokens, &f.forms.Callers)...)
}

// JournalOptions returns the options of the site's journal.
func (f *Flags) JournalOptions(log *slog.Logger) server.JournalOptions {
	return server.JournalOptions{Base: f.Base, Published: cmp.Or(f.Previous, f.manifest()), Manifest: f.manifest(), Retention: time.Duration(f.Retention), Log: log}
}

// Publisher returns the publisher of the site's inventory, with its manifest
// and all other outputs. Call Check before.
func (f *Flags) Publisher(inv inventory.Inventory, j *server.Journal, log *slog.Logger) *server.Publisher {
	about := server.Describe(f.Base)
	about.URL = f.manifestURL()
	return &server.Publisher{
		Inventory: inv, Journal: j, Hurry: time.Duration(f.Hurry),
		Snapshot: &manifest.Snapshot{Path: f.manifest(), Manifest: about, Public: inv.Public},
		Outputs:  f.outputs.list(f, inv.Public, log),
		Heal:     f.Heal, Importance: f.pages.importance(log), Announces: f.Tokens != "", Log: log,
	}
}
