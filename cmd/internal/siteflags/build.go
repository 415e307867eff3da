package siteflags

import (
	"cmp"
	"crypto/rand"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/command"
)

// BuildOptions returns the options of a build, in place of Options, and the options of other commands, which it ignores in a
// configuration file.
func (f *Flags) BuildOptions() (options []command.Flag, others []string) {
	// A build has files that nobody serves yet, and a state for one deployment.
	not := []string{"docroot", "state", "retention", "ask-rate", "ask-via", "ask-again", "robots-wait", "robots-remind",
		"urls", "urls-cmd", "urls-sitemap", "urls-feed", "announce-tokens", "fetch", "fetch-rate", "recheck",
		"indexnow-all", "indexnow-rotate"}
	replaced := []string{"previous", "indexnow-key"}
	options = slices.DeleteFunc(f.Options(0), func(o command.Flag) bool { return slices.Contains(not, o.Name) || slices.Contains(replaced, o.Name) })
	options = append(options,
		command.Bind("previous", &f.journal.Published, "take the dates from the manifest at `FILE or URL` (default: the live robots.rdf, at --base)"),
		command.Bind("indexnow-key", &f.senders.engines.Options.Key, "IndexNow `KEY` that proves that the site is yours, the same for all builds; its file is written into DIR"))
	return options, slices.Concat(not, NotifierOnly(), RdfgenOnly())
}

// Build sets the options that suit a build: the files in dir, which are deployed afterwards. An option that was set keeps its
// value.
func (f *Flags) Build(dir string, set *flag.FlagSet) error {
	given := map[string]bool{}
	set.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	f.Docroot, f.State = dir, dir+".parley.db"
	o := &f.outputs
	for _, x := range []struct {
		to   *string
		file string
		keep bool
	}{
		{&f.Out, "robots.rdf", f.Out != ""},
		{&o.sitemap.Path, "sitemap.xml", given["sitemap"]},
		{&o.feeds.Atom, "changes.atom", given["atom"] || given["rss"] || given["json-feed"]},
	} {
		if !x.keep {
			*x.to = filepath.Join(dir, x.file)
		}
	}
	if err := f.StatePath(); err != nil {
		return err
	}
	if !given["heal"] {
		f.pages.heal = true
	}
	if !given["write-robots"] {
		o.writeRobots = f.RobotsFile() != nil
	}
	f.journal.Published = cmp.Or(f.journal.Published, f.ManifestURL())
	f.pages.exclude = append(f.pages.exclude, "/404.html") // static hosts serve it for missing pages
	if engines := &f.senders.engines.Options; len(engines.Engines) > 0 && engines.Key == "" {
		return command.Misusef("--indexnow needs --indexnow-key, which stays the same for all builds: choose 8 to 128 letters and digits, such as %s", strings.ToLower(rand.Text()))
	}
	return f.CheckDocroot()
}

// CheckPrevious makes sure that --previous of a build, if it is a file, exists: as a missing manifest it would make every page
// look new.
func (f *Flags) CheckPrevious() error {
	previous := f.journal.Published
	if strings.HasPrefix(previous, "http://") || strings.HasPrefix(previous, "https://") {
		return nil
	}
	if _, err := os.Stat(previous); err != nil {
		return command.Misusef("--previous: %w: want a file, or a URL that begins with http:// or https://", err)
	}
	return nil
}
