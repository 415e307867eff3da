// Package siteflags is the options that say what a site is: rdfgen and
// notifier have them in common, so that both see the same site.
package siteflags

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// Flags are the options of a site.
type Flags struct {
	Docroot, Base    string
	Out, State       string
	Previous         string
	Include, Exclude command.Strings
	CleanURLs        bool
	Robots           string
	MaxFile          command.Size
	Retention        command.Duration
}

// Required are the options that must be given.
func Required() []string { return []string{"docroot", "base"} }

// Define defines the options.
func (f *Flags) Define(fs *flag.FlagSet) {
	f.MaxFile, f.Retention = 100_000_000, command.Duration(90*24*time.Hour)
	fs.StringVar(&f.Docroot, "docroot", "", "`DIR` that the web server serves; it may be a symbolic link")
	fs.StringVar(&f.Base, "base", "", "`URL` that the docroot is served at")
	fs.StringVar(&f.Out, "out", "", "publish the manifest as `FILE`, such as DOCROOT/robots.rdf")
	fs.StringVar(&f.State, "state", "", "`FILE` that remembers what was published (default one for the base URL, below $STATE_DIRECTORY or /var/lib/parley)")
	fs.StringVar(&f.Previous, "previous", "", "`FILE or URL` of the manifest published last, to compare the state with, if it is not what stands at --out")
	fs.Var(&f.Include, "include", "publish what matches `PATTERN` too, such as '**/*.txt' (repeatable)")
	fs.Var(&f.Exclude, "exclude", "publish nothing that matches `PATTERN`, such as 'drafts/**' (repeatable)")
	fs.BoolVar(&f.CleanURLs, "clean-urls", false, "the web server serves page.html as /page")
	fs.StringVar(&f.Robots, "robots", "", "`FILE or URL` of the robots.txt in force, if it is not the docroot's")
	fs.Var(&f.MaxFile, "max-file", "leave out files over `SIZE`")
	fs.Var(&f.Retention, "retention", "remember changes and deletions for `TIME`")
}

// Site returns the site that the options describe. Call StatePath before, if
// there is to be a state: the site's own outputs are never published.
func (f *Flags) Site(log *slog.Logger) (*server.Site, error) {
	if err := f.canonical(); err != nil {
		return nil, err
	}
	site := &server.Site{Docroot: f.Docroot, Base: f.Base, Include: f.Include, Exclude: f.Exclude,
		CleanURLs: f.CleanURLs, Robots: f.Robots, MaxFile: int64(f.MaxFile), Features: features, Log: log}
	for _, own := range []string{f.Out, f.State} {
		if own != "" {
			site.Own = append(site.Own, own)
		}
	}
	if err := site.Check(); err != nil {
		return nil, command.Misusef("%w", err)
	}
	return site, nil
}

// features asks a page for its title, and whether it may be published.
func features(_ string, page []byte, _ bool) (server.Features, error) {
	h, err := html.ReadHead(bytes.NewReader(page))
	return server.Features{Title: h.Title, NoIndex: h.NoIndex}, err
}

// canonical brings the base URL to the form in which everything is told, and
// file names to one that means the same to every process.
func (f *Flags) canonical() error {
	base := f.Base
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	base, err := protocol.CanonicalURL("", base)
	if err != nil {
		return command.Misusef("--base: %w", err)
	}
	f.Base = base
	for _, name := range []*string{&f.Out, &f.State} {
		if *name == "" {
			continue
		}
		if *name, err = filepath.Abs(*name); err != nil {
			return err
		}
	}
	return nil
}

// StatePath settles where the state is kept, and refuses a place that the web
// server would serve.
func (f *Flags) StatePath() error {
	if err := f.canonical(); err != nil {
		return err
	}
	if f.State == "" {
		path, err := command.StatePath(f.Base)
		if err != nil {
			return err
		}
		f.State = path
	}
	if f.Docroot == "" { // nothing is served from here
		return nil
	}
	root, err := resolve(f.Docroot)
	if err != nil {
		return err
	}
	state, err := resolve(f.State)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(root, state); err == nil && filepath.IsLocal(rel) {
		return command.Misusef("--state %s is inside the docroot, where everybody could fetch it: name a place outside", f.State)
	}
	return nil
}

// resolve follows the symbolic links of as much of a path as exists.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for p := abs; ; p = filepath.Dir(p) {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if p == filepath.Dir(p) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// manifest is where the manifest is published: at --out, else beside the state.
func (f *Flags) manifest() string {
	if f.Out != "" {
		return f.Out
	}
	return f.State + ".robots.rdf"
}

// JournalOptions are those of the site's journal.
func (f *Flags) JournalOptions(log *slog.Logger) server.JournalOptions {
	return server.JournalOptions{Base: f.Base, Published: cmp.Or(f.Previous, f.manifest()), Manifest: f.manifest(), Retention: time.Duration(f.Retention), Log: log}
}

// Snapshot is the manifest that the site publishes.
func (f *Flags) Snapshot(site *server.Site) *server.Snapshot {
	return &server.Snapshot{Path: f.manifest(), Manifest: server.Describe(f.Base), Public: site.Public}
}

// CheckDocroot tells a wrong --docroot apart from one that is unmounted later.
func (f *Flags) CheckDocroot() error {
	st, err := os.Stat(f.Docroot)
	if err != nil {
		return fmt.Errorf("docroot: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("docroot %s is not a directory", f.Docroot)
	}
	return nil
}
