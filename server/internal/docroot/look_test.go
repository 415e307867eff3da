package docroot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

func TestDocrootNestedLinks(t *testing.T) {
	d := newDisk(t, "1/a.html", "2/a.html", "3/a.html", "4/a.html", "5/a.html", "6/a.html")
	for i := 1; i < 6; i++ {
		d.link(fmt.Sprintf("../%d", i+1), fmt.Sprintf("%d/n", i))
	}
	got := offered(d.look())
	if !slices.Contains(got, "1/n/n/n/n/a.html") || slices.Contains(got, "1/n/n/n/n/n/a.html") {
		t.Errorf("offered %q", got)
	}
	if left := sitetest.LeftOut(d.look())["1/n/n/n/n/n"]; left != "links nested too deep" {
		t.Errorf("left out %q", left)
	}
}

func TestDocrootRoot(t *testing.T) {
	d := newDisk(t, "a.html")
	d.must(os.Rename(d.dir, d.dir+"-1"))
	d.wantLookError("docroot")
	d.must(os.Symlink("root-1", d.dir))
	d.wantOffered("a.html")
	d.must(os.Mkdir(d.dir+"-2", 0o755))
	must.Write(d, d.dir+"-2/b.html", "b")
	d.must(os.Remove(d.dir))
	d.must(os.Symlink("root-2", d.dir))
	d.wantOffered("b.html")
	if _, err := d.site.Read(t.Context(), d.offer("b.html")); err != nil {
		t.Error(err)
	}
	d.must(os.Remove(d.dir))
	d.must(os.WriteFile(d.dir, nil, 0o644))
	d.wantLookError("docroot")
	if _, err := d.site.Read(t.Context(), inventory.Offer{Place: "b.html"}); err == nil {
		t.Error("the file was read without a docroot")
	}
}

// randomTree fills a docroot with names whose sort order is surprising.
func randomTree(d *disk, r *rand.Rand) (dirs []string) {
	parts := []string{"a", "a-b", "a.b", "a b", "A", "ä", "a~", "0", "a!", "a,", "zz", "index.html", "%41", "a&", "a\xff", "-", "b/", "é"}
	name := func() string {
		return strings.ReplaceAll(parts[r.IntN(len(parts))]+parts[r.IntN(len(parts))][:1], "/", "_")
	}
	dirs = []string{""}
	for range 40 {
		dir := dirs[r.IntN(len(dirs))]
		place := strings.TrimPrefix(dir+"/"+name(), "/")
		if r.IntN(3) == 0 && os.Mkdir(d.path(place), 0o755) == nil {
			dirs = append(dirs, place)
			continue
		}
		if r.IntN(12) == 0 {
			_ = os.Symlink(d.path(dirs[r.IntN(len(dirs))]), d.path(place))
			continue
		}
		for _, ext := range []string{".html", ".txt", ""}[:1+r.IntN(3)] {
			_ = os.WriteFile(d.path(place+ext), []byte(place), 0o644)
		}
	}
	return dirs
}

// A scan yields entries in the order of protocol.Compare, and a scan of scopes yields the entries within
// them, in the same order. (docroot.look checks the order.)
func TestDocrootScopes(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDisk(t)
		d.site.Settings.CleanURLs = seed%2 == 0
		d.site.Settings.Include = []string{"*.txt", "a*"}
		randomTree(d, r)
		whole := d.look()
		if !slices.IsSortedFunc(offeredURLs(whole), protocol.Compare) {
			t.Fatal("entries are out of order")
		}
		// URLs of directories, also of those behind links, and some that do not exist.
		prefixes := []string{base, base + "none/", base + ".git/", base + "../x/", base + "a%2Fb/", "http://other.example/", base + "a"}
		// And URLs of pages, also of those left out, and some that do not exist or are directories.
		pages := []string{base, base + "none", base + "none/x.html", base + ".git", base + "%41", base + "a%2Fb", "http://other.example/", base + "a?b"}
		for _, o := range whole {
			if o.URL != "" {
				prefixes = append(prefixes, o.URL[:strings.LastIndexByte(o.URL, '/')+1])
				pages = append(pages, o.URL, o.URL+".html", strings.TrimSuffix(o.URL[:strings.LastIndexByte(o.URL, '/')+1], "/"))
			}
		}
		for range 20 {
			var scopes []inventory.Scope
			for range 1 + r.IntN(6) {
				if r.IntN(2) == 0 {
					scopes = append(scopes, inventory.Scope{Page: pages[r.IntN(len(pages))]})
					continue
				}
				scopes = append(scopes, inventory.Scope{Prefix: prefixes[r.IntN(len(prefixes))], Deep: r.IntN(2) == 0})
			}
			var want []string
			for _, o := range whole {
				if o.URL != "" && slices.ContainsFunc(scopes, func(s inventory.Scope) bool {
					return s.Page == o.URL || s.Page == "" && strings.HasSuffix(s.Prefix, "/") && strings.HasPrefix(o.URL, s.Prefix) && (s.Deep || protocol.Depth(o.URL) == protocol.Depth(s.Prefix))
				}) {
					want = append(want, o.URL)
				}
			}
			if got := offeredURLs(d.look(scopes...)); !slices.Equal(got, want) {
				t.Fatalf("seed %d, scopes %v:\n%q, want\n%q", seed, scopes, got, want)
			}
		}
	}
}

// offeredURLs returns all URLs, including those left out.
func offeredURLs(list []inventory.Offer) (urls []string) {
	for _, o := range list {
		if o.URL != "" {
			urls = append(urls, o.URL)
		}
	}
	return urls
}

// If files and directories come and go during a scan, it still completes, and a file that was seen and has
// since gone is found missing when it is read.
func TestDocrootChangesDuringScan(t *testing.T) {
	d := newDisk(t, "a.html", "b.html", "c/d.html", "e/f.html")
	for o, err := range d.site.Scan(t.Context(), nil) {
		d.must(err)
		if o.Place == "a.html" {
			d.must(os.Remove(d.path("b.html")))
			d.must(os.RemoveAll(d.path("c")))
			d.must(os.RemoveAll(d.path("e")))
			d.write("e", "no directory any more")
		} else if o.LeftOut == "" {
			if r, err := d.site.Read(t.Context(), o); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is offered: %+v, %v", o.Place, r, err)
			}
		}
	}
	d.wantOffered("a.html")
	for range d.site.Scan(t.Context(), nil) {
		break // and no entry follows it
	}
}

func TestDocrootLongURL(t *testing.T) {
	d := newDisk(t, "a.html")
	deep := strings.Repeat(strings.Repeat("\xff", 200)+"/", 14)
	d.must(os.MkdirAll(d.path(deep), 0o755))
	d.write(deep+strings.Repeat("\xff", 200)+".html", "x")
	d.wantOffered("a.html")
	if n := len(sitetest.LeftOut(d.look())); n != 1 {
		t.Errorf("%d left out, want 1", n)
	}
}
