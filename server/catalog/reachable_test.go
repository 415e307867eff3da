package catalog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/catalog"
	"github.com/parleyweb/parley/server/inventory"
)

var href = regexp.MustCompile(`href="([^"]*)"`)

func links(_ string, page []byte) (list []string) {
	for _, m := range href.FindAllSubmatch(page, -1) {
		list = append(list, string(m[1]))
	}
	return list
}

// A docroot is a site of files that publishes only pages reachable by links.
type docroot struct {
	*testing.T
	root    string
	now     time.Time
	journal *server.Journal
	site    *server.Site
	reach   *catalog.Reachable
	pub     *server.Publisher
}

const rootBase = "https://www.example.org/docs/"

func newDocroot(t *testing.T) *docroot {
	d := &docroot{T: t, root: t.TempDir(), now: time.Now()}
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: rootBase, Now: d.clock}))
	t.Cleanup(func() { j.Close() })
	d.journal = j
	must.Write(d, filepath.Join(d.root, "robots.txt"), "User-agent: *\nDisallow:\n")
	d.restart()
	return d
}

func (d *docroot) restart() {
	d.site = &server.Site{Docroot: d.root, Base: rootBase, Features: features}
	d.site.Robots.File = filepath.Join(d.root, "robots.txt")
	d.reach = &catalog.Reachable{Inventory: d.site, Open: d.site.Open, Links: links, Base: rootBase, Journal: d.journal}
	d.pub = &server.Publisher{Inventory: d.reach, Journal: d.journal, Now: d.clock}
}

func (d *docroot) clock() time.Time { return d.now }

func (d *docroot) write(name string, refs ...string) {
	d.Helper()
	content := "page " + name
	for _, r := range refs {
		content += fmt.Sprintf(` <a href="%s">`, r)
	}
	path := filepath.Join(d.root, filepath.FromSlash(name))
	must.OK(d, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
}

func (d *docroot) remove(name string) {
	d.Helper()
	must.OK(d, os.Remove(filepath.Join(d.root, name)))
}

func (d *docroot) look(pages ...string) inventory.Report {
	d.Helper()
	r := must.Get(d.pub.Scan(d.Context(), nil))
	v := must.Get(d.journal.View())
	defer v.Close()
	var got []string
	for e, err := range v.Entries() {
		if err != nil {
			d.Fatal(err)
		}
		if e.Held.IsZero() {
			got = append(got, strings.TrimPrefix(e.Item.URL, rootBase))
		}
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", pages) {
		d.Errorf("published are %q, want %q (%+v)", got, pages, r)
	}
	return r
}

func TestReachable(t *testing.T) {
	for name, story := range map[string]func(d *docroot){
		"unlinked pages are left out": func(d *docroot) {
			d.write("secret.html")
			d.write("sub/secret.html", "../index.html")
			if r := d.look("", "a.html", "b/"); r.LeftOut != 3 { // including robots.txt
				d.Errorf("%+v", r)
			}
			if d.reach.Public(rootBase+"secret.html") || !d.reach.Public(rootBase+"a.html") {
				d.Error("Public does not follow the links")
			}
		},
		"all forms of links": func(d *docroot) {
			d.write("index.html", "a.html?x=1#top", "b", "https://www.example.org/docs/c/index.html", "/docs/%64.html", "e%C3%A9.html", "//other.example/docs/f.html", "http://[", "../../docs/g.html")
			for _, n := range []string{"c/index.html", "d.html", "eé.html", "f.html", "g.html"} {
				d.write(n)
			}
			d.look("", "a.html", "d.html", "e%C3%A9.html", "g.html", "b/", "c/")
		},
		"chains and cycles of links": func(d *docroot) {
			d.write("a.html", "one.html")
			d.write("one.html", "two.html", "one.html", "index.html")
			d.write("two.html", "one.html")
			d.look("", "a.html", "one.html", "two.html", "b/")
		},
		"a link appears": func(d *docroot) {
			d.write("new.html")
			d.look("", "a.html", "b/")
			d.write("a.html", "new.html")
			d.look("", "a.html", "new.html", "b/")
		},
		"the target of a removed link is held": func(d *docroot) {
			d.look("", "a.html", "b/")
			d.write("index.html", "b/")
			if r := d.look("", "b/"); r.Held != 1 {
				d.Errorf("%+v", r)
			}
			if !d.reach.Public(rootBase + "a.html") {
				d.Error("a page with a held deletion is not public")
			}
			d.now = d.now.Add(2 * time.Minute)
			if r := d.look("", "b/"); r.Gone != 1 {
				d.Errorf("%+v", r)
			}
		},
		"the target of a removed link is held after a restart": func(d *docroot) {
			d.look("", "a.html", "b/")
			d.write("index.html", "b/")
			d.restart()
			if r := d.look("", "b/"); r.Held != 1 || r.Withdrawn != 0 {
				d.Errorf("%+v", r)
			}
		},
		"the home page is gone for a moment": func(d *docroot) {
			d.look("", "a.html", "b/")
			d.remove("index.html")
			for range 2 {
				if _, err := d.pub.Scan(d.Context(), nil); err == nil || !strings.Contains(err.Error(), "start page") {
					d.Errorf("error %v", err)
				}
				d.restart()
			}
			d.write("index.html", "a.html", "b/")
			d.look("", "a.html", "b/")
		},
		"links of forbidden pages are not followed": func(d *docroot) {
			must.Write(d, filepath.Join(d.root, "robots.txt"), "User-agent: *\nDisallow: /docs/b/")
			d.write("b/index.html", "../deep.html")
			d.write("deep.html")
			d.look("", "a.html")
		},
		"links of a noindex page are followed": func(d *docroot) {
			must.Write(d, filepath.Join(d.root, "a.html"), `noindex <a href="deep.html">`)
			d.write("deep.html")
			d.look("", "deep.html", "b/")
			for left := ""; left != "noindex"; { // noindex is noticed once the file is not quite new
				for o, err := range d.site.Scan(d.Context(), nil) {
					d.must(err)
					if o.Place == "a.html" {
						left = o.LeftOut
					}
				}
				d.look("", "deep.html", "b/")
			}
			d.look("", "deep.html", "b/")
		},
		"other start pages": func(d *docroot) {
			d.write("hidden/start.html", "x.html")
			d.write("hidden/x.html")
			d.reach.Start = []string{"/docs/hidden/start.html"}
			d.look("hidden/start.html", "hidden/x.html")
		},
		"a link to a file outside the docroot": func(d *docroot) {
			out := filepath.Join(d.TempDir(), "passwd.html")
			must.Write(d, out, `<a href="secret.html">`)
			d.must(os.Symlink(out, filepath.Join(d.root, "out.html")))
			d.write("a.html", "out.html")
			d.write("secret.html")
			d.look("", "a.html", "b/")
			for _, place := range []string{"out.html", "../x", "b", "none.html", ""} {
				f, err := d.site.Open(d.Context(), inventory.Offer{Place: place})
				if err == nil {
					f.Close()
					d.Errorf("%q was opened", place)
				} else if place != "" && place != "../x" && !errors.Is(err, fs.ErrNotExist) {
					d.Errorf("open %q: %v", place, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDocroot(t)
			d.write("index.html", "a.html", "b/")
			d.write("a.html", "index.html")
			d.write("b/index.html")
			story(d)
		})
	}
}

func (d *docroot) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}
