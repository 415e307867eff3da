package siteflags

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/manifest"
)

// outputs are the options that say which files are published besides the manifest.
type outputs struct {
	sitemap     static.Sitemap
	feeds       static.Feeds
	nginx       static.Nginx
	reload      string // After of nginx
	writeRobots bool
	precompress bool
	parts       int // below 0: by the place of the manifest
	oneFile     bool
	served      bool // the notifiers serve the parts, wherever --out is
}

func (o *outputs) options() []command.Flag {
	bind := command.Bind
	o.feeds.Entries, o.parts = 50, -1
	return []command.Flag{
		bind("parts", &o.parts, "from `N` pages on, publish an index and, in the directory FILE.parts beside it, parts of which an edit rewrites few (0: always one file; below 0: 5000 if --out is in the docroot, else 0)"),
		bind("one-file", &o.oneFile, "publish the manifest as one file, however many pages there are: the same as --parts 0"),
		bind("sitemap", &o.sitemap.Path, "publish a sitemap as `FILE`, such as DOCROOT/sitemap.xml; over 50,000 pages it is an index, with its parts beside it"),
		bind("sitemap-gzip", &o.sitemap.Gzip, "compress the parts of a sitemap"),
		bind("rss", &o.feeds.RSS, "publish the newest changes as `FILE`, in RSS 2.0"),
		bind("atom", &o.feeds.Atom, "publish the newest changes as `FILE`, in Atom"),
		bind("json-feed", &o.feeds.JSON, "publish the newest changes as `FILE`, in JSON Feed"),
		bind("title", &o.feeds.Title, "`TEXT` that names the site in its feeds"),
		bind("feed-entries", &o.feeds.Entries, "list the newest `N` changed pages in feeds"),
		bind("nginx-include", &o.nginx.Path, "write `FILE`, to include in nginx's server block: 410 for deleted pages, 308 for moved ones"),
		bind("nginx-reload", &o.reload, "run `COMMAND`, such as 'nginx -s reload', after --nginx-include has been written"),
		bind("write-robots", &o.writeRobots, "merge Sitemap and Manifest lines into the docroot's robots.txt"),
		bind("precompress", &o.precompress, "write FILE.gz and FILE.zst beside the manifest, the sitemap and the feeds"),
	}
}

// partsFrom returns from how many pages on the manifest is in parts.
func (o *outputs) partsFrom(f *Flags) int {
	switch _, inside, err := f.below(f.Out); {
	case o.oneFile:
		return 0
	case o.parts < 0 && (o.served || f.Out != "" && inside && err == nil): // the web server that serves the file serves the parts, too
		return manifest.DefaultParts
	}
	return max(o.parts, 0)
}

// files returns the options that name files, every output's: they are made absolute, and no two outputs or sites may
// share one.
func (o *outputs) files() []*string {
	return []*string{&o.sitemap.Path, &o.feeds.RSS, &o.feeds.Atom, &o.feeds.JSON, &o.nginx.Path}
}

// does returns the options of the outputs that are requested, as on the command line: an rdfgen that leaves its work to
// the notifier that has the state open checks that the notifier has them too.
func (o *outputs) does() (does []string) {
	for _, x := range []struct{ option, value string }{
		{"sitemap", o.sitemap.Path}, {"rss", o.feeds.RSS}, {"atom", o.feeds.Atom}, {"json-feed", o.feeds.JSON}, {"nginx-include", o.nginx.Path}} {
		if x.value != "" {
			does = append(does, "--"+x.option+" "+x.value)
		}
	}
	if o.writeRobots {
		does = append(does, "--write-robots")
	}
	if o.precompress {
		does = append(does, "--precompress")
	}
	if o.parts >= 0 {
		does = append(does, fmt.Sprint("--parts ", o.parts))
	}
	if o.oneFile {
		does = append(does, "--one-file")
	}
	return does
}

func (o *outputs) check(f *Flags) error {
	if o.feeds.Entries < 1 || o.feeds.Entries > 1000 {
		return command.Misusef("--feed-entries %d: want 1 to 1000", o.feeds.Entries)
	}
	if o.writeRobots && f.RobotsFile() == nil {
		return command.Misusef("--write-robots needs --docroot, and a --base that is the root of a host: robots.txt belongs there")
	}
	if o.oneFile && o.parts > 0 {
		return command.Misusef("--one-file and --parts %d exclude each other: choose one", o.parts)
	}
	if o.reload != "" && o.nginx.Path == "" {
		return command.Misusef("--nginx-reload needs --nginx-include")
	}
	dir := ""
	for _, file := range []string{o.feeds.RSS, o.feeds.Atom, o.feeds.JSON} {
		if file == "" {
			continue
		}
		if dir != "" && filepath.Dir(file) != dir {
			return command.Misusef("--rss, --atom and --json-feed must be in one directory")
		}
		dir = filepath.Dir(file)
	}
	of := map[string]string{f.Out: "out"}
	for i, option := range []string{"sitemap", "rss", "atom", "json-feed", "nginx-include"} {
		file := *o.files()[i]
		if other := of[file]; file != "" && other != "" {
			return command.Misusef("--%s %s is the file of --%s, too: give each its own", option, file, other)
		}
		of[file] = option
	}
	if o.nginx.Path != "" {
		return f.outside("nginx-include", o.nginx.Path, "everybody could read it")
	}
	return nil
}

// RobotsFile returns the docroot's robots.txt with the lines that it should have; nil if the site has none of
// its own, not being at the root of a host.
func (f *Flags) RobotsFile() *static.Robots {
	if f.Docroot == "" || f.Base != protocol.Origin(f.Base)+"/" {
		return nil
	}
	root, err := filepath.Abs(f.Docroot)
	if err != nil {
		return nil
	}
	r := &static.Robots{Path: filepath.Join(root, "robots.txt"), Base: f.Base}
	if f.Out != "" {
		r.Manifest = f.ManifestURL()
	}
	if o := &f.outputs; o.sitemap.Path != "" {
		r.Sitemaps = append(r.Sitemaps, f.url(o.sitemap.Path))
	}
	return r
}

// list returns the outputs, in the order in which they are written.
func (o *outputs) list(f *Flags, public func(string) bool, log *slog.Logger) (list []server.Output) {
	list = append(list, &static.Compressed{Path: f.manifest(), Unless: f.manifest() + manifest.PartsSuffix, Off: !o.precompress, Log: log})
	if s := o.sitemap; s.Path != "" {
		s.Base, s.Precompress, s.Public, s.Log = f.dirURL(s.Path), o.precompress, public, log
		list = append(list, &s)
	}
	s := o.feeds
	if first := cmp.Or(s.RSS, s.Atom, s.JSON); first != "" {
		s.Base, s.Hub, s.Precompress, s.Public, s.Log = f.dirURL(first), f.HubURL(), o.precompress, public, log
		list = append(list, &s)
	}
	if n := o.nginx; n.Path != "" {
		n.Base, n.Docroot, n.After, n.Public, n.Log = f.Base, f.Docroot, strings.Fields(o.reload), public, log
		list = append(list, &n)
	}
	if o.writeRobots { // last, so that the files it names exist
		list = append(list, f.RobotsFile())
	}
	return list
}

// own returns the files that the outputs write.
func (o *outputs) own(f *Flags) []string {
	var own []string
	for _, out := range o.list(f, nil, nil) {
		own = append(own, out.Own()...)
	}
	return own
}
