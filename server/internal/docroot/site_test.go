package docroot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/docroot"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

const base = "http://site.example/"

// A disk is a directory that a test writes to.
type disk struct {
	*testing.T
	dir  string
	site *docroot.Site
}

func newDisk(t *testing.T, files ...string) *disk {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))
	d := &disk{T: t, dir: filepath.Join(dir, "root")}
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base}}
	d.must(os.Mkdir(d.dir, 0o755))
	for _, f := range files {
		d.write(f, "content of "+f)
	}
	return d
}

func (d *disk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *disk) path(place string) string { return filepath.Join(d.dir, filepath.FromSlash(place)) }

func (d *disk) write(place, content string) {
	d.Helper()
	must.Write(d, d.path(place), content)
}

func (d *disk) link(target, place string) {
	d.Helper()
	d.must(os.MkdirAll(filepath.Dir(d.path(place)), 0o755))
	d.must(os.Symlink(target, d.path(place)))
}

// age makes a file look old enough for its stamp to be trusted.
func (d *disk) age(places ...string) {
	d.Helper()
	for _, p := range places {
		d.must(os.Chtimes(d.path(p), time.Time{}, time.Now().Add(-time.Hour)))
	}
}

func (d *disk) look(scopes ...inventory.Scope) []inventory.Offer {
	d.Helper()
	return sitetest.Look(d.T, d.site, scopes...)
}

// offered returns the URLs offered, below the base.
func offered(list []inventory.Offer) (urls []string) {
	for _, o := range list {
		if o.LeftOut == "" {
			urls = append(urls, strings.TrimPrefix(o.URL, base))
		}
	}
	return urls
}

func (d *disk) wantOffered(want ...string) {
	d.Helper()
	if got := offered(d.look()); !slices.Equal(got, want) {
		d.Errorf("offered %q, want %q", got, want)
	}
}

func (d *disk) offer(url string) inventory.Offer {
	d.Helper()
	return sitetest.Offered(d.T, d.look(), base+url)
}

func TestSiteRead(t *testing.T) {
	d := newDisk(t, "a.html", "sub/index.html", "empty.html")
	d.write("empty.html", "")
	d.write("big.html", strings.Repeat("0123456789", 100_000))
	for place, url := range map[string]string{"a.html": "a.html", "sub/index.html": "sub/", "empty.html": "empty.html", "big.html": "big.html"} {
		r := must.Get(d.site.Read(d.Context(), d.offer(url)))
		b := must.Get(os.ReadFile(d.path(place)))
		fi := must.Get(os.Stat(d.path(place)))
		if r.Digest != protocol.Sum(b) || r.Length != int64(len(b)) || !r.Modified.Equal(fi.ModTime()) || r.Type != "text/html" || r.Unsettled || r.LeftOut != "" {
			t.Errorf("%s: %+v", place, r)
		}
	}
	if _, err := d.site.Read(d.Context(), inventory.Offer{Place: "none.html"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none.html: %v", err)
	}
	if _, err := d.site.Read(d.Context(), inventory.Offer{Place: "a.html/b.html"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a.html/b.html: %v", err)
	}
	ctx, stop := context.WithCancel(d.Context())
	stop()
	if _, err := d.site.Read(ctx, d.offer("a.html")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
}

// A file that was offered may be replaced before it is read.
func TestSiteReadOfReplacedFile(t *testing.T) {
	d := newDisk(t, "a.html", "sub/b.html")
	outside := filepath.Join(filepath.Dir(d.dir), "secret.html")
	d.must(os.WriteFile(outside, []byte("secret"), 0o600))
	d.must(os.Mkdir(filepath.Join(filepath.Dir(d.dir), "elsewhere"), 0o755))
	d.must(os.WriteFile(filepath.Join(filepath.Dir(d.dir), "elsewhere", "b.html"), []byte("secret"), 0o600))
	for _, c := range []struct {
		target, place, offer, want string
	}{
		{outside, "a.html", "a.html", "leads out of the root"},
		{"../secret.html", "a.html", "a.html", "leads out of the root"},
		{"../elsewhere", "sub", "sub/b.html", "leads out of the root"},
		{"/etc", "sub", "sub/passwd", "leads out of the root"},
		{".", "a.html", "a.html", "not a regular file"},
		{"/dev/zero", "a.html", "a.html", "leads out of the root"},
	} {
		d.must(os.RemoveAll(d.path(c.place)))
		d.link(c.target, c.place)
		r, err := d.site.Read(d.Context(), inventory.Offer{Place: c.offer})
		if err != nil || r.LeftOut != c.want || !r.Digest.IsZero() {
			t.Errorf("%s -> %s: %+v, %v", c.place, c.target, r, err)
		}
	}
}

// A meddling context calls a function whenever its Err is checked.
type meddling struct {
	context.Context
	meddle func()
}

func (m meddling) Err() error {
	m.meddle()
	return nil
}

func TestSiteReadWhileWritten(t *testing.T) {
	d := newDisk(t)
	d.write("a.html", strings.Repeat("x", 1<<20))
	d.age("a.html")
	writes, want := 0, 5
	ctx := meddling{t.Context(), func() {
		if writes++; writes <= want {
			d.write("a.html", strings.Repeat("y", 1<<20)+fmt.Sprint(writes))
		}
	}}
	r, err := d.site.Read(ctx, inventory.Offer{Place: "a.html"})
	b := must.Get(os.ReadFile(d.path("a.html")))
	if err != nil || r.Unsettled || r.Digest != protocol.Sum(b) {
		t.Errorf("written to for a while: %+v, %v", r, err)
	}
	want = 1 << 30
	if r, err = d.site.Read(ctx, r); err != nil || !r.Unsettled {
		t.Errorf("written to continuously: %+v, %v", r, err)
	}
}

// A stamp that is trusted must reveal every later write, whatever times it sets.
func TestSiteStamp(t *testing.T) {
	d := newDisk(t, "a.html", "b.html")
	for { // until a scan ends soon enough after a write, whose ctime may be older than it by a tick of the kernel
		begin := time.Now()
		d.write("a.html", "content of a.html")
		if o := d.offer("a.html"); time.Since(begin) < stat.Tick-10*time.Millisecond {
			if len(o.Stamp) != 0 {
				t.Error("the stamp of a file just written is stored")
			}
			break
		}
	}
	settled := func(url string) inventory.Offer {
		for until := time.Now().Add(time.Minute); time.Now().Before(until); {
			if o := d.offer(url); len(o.Stamp) > 0 {
				return o
			}
		}
		t.Fatalf("the stamp of %s is never stored", url)
		return inventory.Offer{}
	}
	for name, edit := range map[string]func() error{
		"rewritten in place, old mtime": func() error {
			fi := must.Get(os.Stat(d.path("a.html")))
			must.Write(d, d.path("a.html"), "CONTENT OF a.html")
			return os.Chtimes(d.path("a.html"), time.Time{}, fi.ModTime())
		},
		"replaced, old mtime": func() error {
			fi := must.Get(os.Stat(d.path("a.html")))
			d.write("tmp", "Content of a.html")
			d.must(os.Chtimes(d.path("tmp"), time.Time{}, fi.ModTime()))
			return os.Rename(d.path("tmp"), d.path("a.html"))
		},
		"mtime in the future":      func() error { return os.Chtimes(d.path("a.html"), time.Time{}, time.Now().Add(24*time.Hour)) },
		"mtime before all history": func() error { return os.Chtimes(d.path("a.html"), time.Time{}, time.Unix(-1e9, 7)) },
		"appended to":              func() error { return os.WriteFile(d.path("a.html"), []byte("content of a.html."), 0o644) },
	} {
		before := settled("a.html")
		if again := settled("a.html"); !bytes.Equal(before.Stamp, again.Stamp) {
			t.Errorf("%s: two scans yield two stamps", name)
		}
		d.must(edit())
		if after := settled("a.html"); bytes.Equal(before.Stamp, after.Stamp) {
			t.Errorf("%s: same stamp", name)
		} else if r, err := d.site.Read(d.Context(), after); err != nil || !bytes.Equal(r.Stamp, after.Stamp) {
			t.Errorf("%s: read with another stamp (%v)", name, err)
		}
	}
}

func TestSiteCheck(t *testing.T) {
	for _, settings := range []docroot.Settings{
		{Base: base},
		{Docroot: "/x"},
		{Docroot: "/x", Base: "site.example"},
		{Docroot: "/x", Base: "ftp://site.example/"},
		{Docroot: "/x", Base: "http:///x"},
		{Docroot: "/x", Base: "http://user@site.example/"},
		{Docroot: "/x", Base: base + "?x"},
		{Docroot: "/x", Base: base + "#x"},
		{Docroot: "/x", Base: base + strings.Repeat("x", 5000)},
		{Docroot: "/x", Base: base, Include: []string{"[a"}},
		{Docroot: "/x", Base: base, Exclude: []string{""}},
		{Docroot: "/x", Base: base, Exclude: []string{"a/{b"}},
		{Docroot: "/x", Base: base, MaxFile: -1},
	} {
		s := &docroot.Site{Settings: settings}
		if err := s.Check(); err == nil {
			t.Errorf("%+v: no error", []any{settings.Docroot, settings.Base, settings.Include, settings.Exclude})
		}
		for _, err := range s.Scan(t.Context(), nil) {
			if err == nil {
				t.Errorf("%q: the scan yields an entry", settings.Base)
			}
		}
		if err := s.Watch(t.Context(), nil); err == nil {
			t.Errorf("%q: watch", settings.Base)
		}
		if s.Public(base) {
			t.Errorf("%q: public", settings.Base)
		}
	}
	d := newDisk(t, "a.html", "b/index.html")
	for in, want := range map[string]string{
		"https://site.example":          "https://site.example/",
		"HTTPS://Site.Example:443/docs": "https://site.example/docs/",
		"http://site.example:8080/a/b/": "http://site.example:8080/a/b/",
		"http://site.example/a b/":      "http://site.example/a%20b/",
	} {
		s := &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: in, Robots: noRobots(t)}}
		var got []string
		for o, err := range s.Scan(t.Context(), nil) {
			d.must(err)
			got = append(got, o.URL)
		}
		if !slices.Equal(got, []string{want + "a.html", want + "b/"}) {
			t.Errorf("base %s: %q", in, got)
		}
	}
}
