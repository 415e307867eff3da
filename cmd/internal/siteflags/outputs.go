package siteflags

import (
	"flag"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/static"
)

// outputs are the options that say which files are published besides the manifest.
type outputs struct {
	sitemap     string
	sitemapGzip bool

	rss, atom, jsonFeed string
	title               string
	entries             int

	nginx, reload string
	writeRobots   bool
	precompress   bool
}

func (o *outputs) define(fs *flag.FlagSet) {
	*o = outputs{}
	fs.StringVar(&o.sitemap, "sitemap", "", "publish a sitemap as `FILE`, such as DOCROOT/sitemap.xml; over 50,000 pages it is an index, with its parts beside it")
	fs.BoolVar(&o.sitemapGzip, "sitemap-gzip", false, "compress the parts of a sitemap")
	fs.StringVar(&o.rss, "rss", "", "publish the newest changes as `FILE`, in RSS 2.0")
	fs.StringVar(&o.atom, "atom", "", "publish the newest changes as `FILE`, in Atom")
	fs.StringVar(&o.jsonFeed, "json-feed", "", "publish the newest changes as `FILE`, in JSON Feed")
	fs.StringVar(&o.title, "title", "", "`TEXT` that names the site in its feeds")
	fs.IntVar(&o.entries, "feed-entries", 50, "list the newest `N` changed pages in feeds")
	fs.StringVar(&o.nginx, "nginx-include", "", "write `FILE`, to include in nginx's server block: 410 for deleted pages, 308 for moved ones")
	fs.StringVar(&o.reload, "nginx-reload", "", "run `COMMAND`, such as 'nginx -s reload', after --nginx-include has been written")
	fs.BoolVar(&o.writeRobots, "write-robots", false, "merge Sitemap and Manifest lines into the docroot's robots.txt")
	fs.BoolVar(&o.precompress, "precompress", false, "write FILE.gz and FILE.zst beside the manifest, the sitemap and the feeds")
}

// files returns the options that name files.
func (o *outputs) files() []*string {
	return []*string{&o.sitemap, &o.rss, &o.atom, &o.jsonFeed, &o.nginx}
}

// does returns the options for the tasks that are requested.
func (o *outputs) does() (does []string) {
	for _, x := range []struct{ option, value string }{
		{"sitemap", o.sitemap}, {"rss", o.rss}, {"atom", o.atom}, {"json-feed", o.jsonFeed}, {"nginx-include", o.nginx}} {
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
	return does
}

func (o *outputs) check(f *Flags) error {
	if o.entries < 1 || o.entries > 1000 {
		return command.Misusef("--feed-entries %d: want 1 to 1000", o.entries)
	}
	if o.writeRobots && f.RobotsFile(nil) == nil {
		return command.Misusef("--write-robots needs --docroot, and a --base that is the root of a host: robots.txt belongs there")
	}
	if o.reload != "" && o.nginx == "" {
		return command.Misusef("--nginx-reload needs --nginx-include")
	}
	dir := ""
	for _, file := range []string{o.rss, o.atom, o.jsonFeed} {
		if file == "" {
			continue
		}
		if dir != "" && filepath.Dir(file) != dir {
			return command.Misusef("--rss, --atom and --json-feed must be in one directory")
		}
		dir = filepath.Dir(file)
	}
	seen := map[string]bool{f.Out: f.Out != ""}
	for _, file := range o.files() {
		if *file != "" && seen[*file] {
			return command.Misusef("%s is the file of two outputs: give each its own", *file)
		}
		seen[*file] = true
	}
	if o.nginx != "" {
		return f.outside("nginx-include", o.nginx, "everybody could read it")
	}
	return nil
}

func (o *outputs) feeds(f *Flags, public func(string) bool, log *slog.Logger) *static.Feeds {
	first := o.rss
	for _, file := range []string{o.atom, o.jsonFeed} {
		if first == "" {
			first = file
		}
	}
	if first == "" {
		return nil
	}
	return &static.Feeds{RSS: o.rss, Atom: o.atom, JSON: o.jsonFeed, Base: f.dirURL(first), Title: o.title, Hub: f.senders.hubURL(f),
		Entries: o.entries, Precompress: o.precompress, Public: public, Log: log}
}

func (o *outputs) sitemapOf(f *Flags, public func(string) bool, log *slog.Logger) *static.Sitemap {
	if o.sitemap == "" {
		return nil
	}
	return &static.Sitemap{Path: o.sitemap, Base: f.dirURL(o.sitemap), Gzip: o.sitemapGzip, Precompress: o.precompress, Public: public, Log: log}
}

// RobotsFile returns the docroot's robots.txt with the lines that it should have; nil if the site has none of
// its own, not being at the root of a host.
func (f *Flags) RobotsFile(log *slog.Logger) *static.Robots {
	if f.Docroot == "" || f.Base != protocol.Origin(f.Base)+"/" {
		return nil
	}
	root, err := filepath.Abs(f.Docroot)
	if err != nil {
		return nil
	}
	r := &static.Robots{Path: filepath.Join(root, "robots.txt"), Base: f.Base, Log: log}
	if f.Out != "" {
		r.Manifest = f.manifestURL()
	}
	if o := &f.outputs; o.sitemap != "" {
		r.Sitemaps = append(r.Sitemaps, f.url(o.sitemap))
	}
	return r
}

// list returns the outputs, in the order in which they are written.
func (o *outputs) list(f *Flags, public func(string) bool, log *slog.Logger) (list []server.Output) {
	list = append(list, &static.Compressed{Path: f.manifest(), Off: !o.precompress, Log: log})
	if s := o.sitemapOf(f, public, log); s != nil {
		list = append(list, s)
	}
	if s := o.feeds(f, public, log); s != nil {
		list = append(list, s)
	}
	if o.nginx != "" {
		list = append(list, &static.Nginx{Path: o.nginx, Base: f.Base, Docroot: f.Docroot, Public: public, After: strings.Fields(o.reload), Log: log})
	}
	if o.writeRobots { // last, so that the files it names exist
		list = append(list, f.RobotsFile(log))
	}
	return list
}

// own returns the files that the outputs write.
func (o *outputs) own(f *Flags) []string {
	var own []string
	for _, out := range o.list(f, nil, nil) {
		if o, ok := out.(interface{ Own() []string }); ok {
			own = append(own, o.Own()...)
		}
	}
	return own
}
