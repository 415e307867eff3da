package docroot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/internal/docroot"
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
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
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
	d.must(os.MkdirAll(filepath.Dir(d.path(place)), 0o755))
	d.must(os.WriteFile(d.path(place), []byte(content), 0o644))
}

func (d *disk) link(target, place string) {
	d.Helper()
	d.must(os.MkdirAll(filepath.Dir(d.path(place)), 0o755))
	d.must(os.Symlink(target, d.path(place)))
}

// age makes a file look old enough for its stamp to be kept.
func (d *disk) age(places ...string) {
	d.Helper()
	for _, p := range places {
		d.must(os.Chtimes(d.path(p), time.Time{}, time.Now().Add(-time.Hour)))
	}
}

// look returns everything that a look yields, checking order on the way.
func (d *disk) look(scopes ...inventory.Scope) (list []inventory.Offer) {
	d.Helper()
	last := ""
	for o, err := range d.site.Look(d.Context(), scopes) {
		if err != nil {
			d.Fatalf("look: %v", err)
		}
		if o.URL != "" {
			if last != "" && protocol.Compare(last, o.URL) >= 0 {
				d.Fatalf("look: %q after %q", o.URL, last)
			}
			if c, err := protocol.CanonicalURL("", o.URL); err != nil || c != o.URL {
				d.Fatalf("look: %q is not canonical: %q, %v", o.URL, c, err)
			}
			last = o.URL
		}
		if o.LeftOut == "" && !d.site.Public(o.URL) {
			d.Errorf("look: %q is offered, but not public", o.URL)
		}
		list = append(list, o)
	}
	return list
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

// leftOut returns the reasons by place.
func leftOut(list []inventory.Offer) map[string]string {
	m := make(map[string]string)
	for _, o := range list {
		if o.LeftOut != "" {
			m[o.Place] = o.LeftOut
		}
	}
	return m
}

func (d *disk) wantOffered(want ...string) {
	d.Helper()
	if got := offered(d.look()); !slices.Equal(got, want) {
		d.Errorf("offered %q, want %q", got, want)
	}
}

func (d *disk) offer(url string) inventory.Offer {
	d.Helper()
	for _, o := range d.look() {
		if o.URL == base+url {
			return o
		}
	}
	d.Fatalf("%s is not offered", url)
	return inventory.Offer{}
}

func TestSiteRead(t *testing.T) {
	d := newDisk(t, "a.html", "sub/index.html", "empty.html")
	d.write("empty.html", "")
	d.write("big.html", strings.Repeat("0123456789", 100_000))
	for place, url := range map[string]string{"a.html": "a.html", "sub/index.html": "sub/", "empty.html": "empty.html", "big.html": "big.html"} {
		r, err := d.site.Read(d.Context(), d.offer(url))
		d.must(err)
		b, err := os.ReadFile(d.path(place))
		d.must(err)
		fi, err := os.Stat(d.path(place))
		d.must(err)
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

// What stood there when it was offered may be something else when it is read.
func TestSiteReadAfterASwap(t *testing.T) {
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

// A meddling context does something whenever it is asked whether it has ended.
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
	b, rerr := os.ReadFile(d.path("a.html"))
	d.must(rerr)
	if err != nil || r.Unsettled || r.Digest != protocol.Sum(b) {
		t.Errorf("written to for a while: %+v, %v", r, err)
	}
	want = 1 << 30
	if r, err = d.site.Read(ctx, r); err != nil || !r.Unsettled {
		t.Errorf("written to all the time: %+v, %v", r, err)
	}
}

// A stamp that is kept must tell of every later write, whatever times it sets.
func TestSiteStamp(t *testing.T) {
	d := newDisk(t, "a.html", "b.html")
	if o := d.offer("a.html"); len(o.Stamp) != 0 {
		t.Error("the stamp of a file just written is kept")
	}
	until := time.Now().Add(5 * time.Second)
	settled := func(url string) inventory.Offer {
		for time.Now().Before(until) {
			if o := d.offer(url); len(o.Stamp) > 0 {
				return o
			}
		}
		t.Fatalf("the stamp of %s is never kept", url)
		return inventory.Offer{}
	}
	for name, edit := range map[string]func() error{
		"rewritten in place, old mtime": func() error {
			fi, err := os.Stat(d.path("a.html"))
			d.must(err)
			d.must(os.WriteFile(d.path("a.html"), []byte("CONTENT OF a.html"), 0o644))
			return os.Chtimes(d.path("a.html"), time.Time{}, fi.ModTime())
		},
		"replaced, old mtime": func() error {
			fi, err := os.Stat(d.path("a.html"))
			d.must(err)
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
			t.Errorf("%s: two looks, two stamps", name)
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
		for _, err := range s.Look(t.Context(), nil) {
			if err == nil {
				t.Errorf("%q: look gives something", settings.Base)
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
		for o, err := range s.Look(t.Context(), nil) {
			d.must(err)
			got = append(got, o.URL)
		}
		if !slices.Equal(got, []string{want + "a.html", want + "b/"}) {
			t.Errorf("base %s: %q", in, got)
		}
	}
}

// noRobots is a robots.txt that forbids nothing.
func noRobots(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "robots.txt")
	if err := os.WriteFile(name, []byte("User-agent: *\nDisallow:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// The robots.txt of a host is no page of it, though a pattern includes it: who fetches it as one would have been given rules
// without taking them in.
func TestSiteDoesNotPublishItsRobots(t *testing.T) {
	d := newDisk(t, "a.txt", "d/robots.txt")
	d.site.Settings.Include = []string{"**/*.txt", "*.txt"}
	d.write("robots.txt", "User-agent: *\nDisallow:\n")
	d.wantOffered("a.txt", "d/robots.txt")
	if got := leftOut(d.look()); got["robots.txt"] != "robots.txt itself" {
		t.Errorf("left out: %v", got)
	}
	if d.site.Public(base + "robots.txt") {
		t.Error("robots.txt is public as a page")
	}
}

func TestSiteRobots(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html", "private/index.html", "c&d.html")
	d.wantOffered("a.html", "c&d.html", "private/", "private/b.html")
	d.write("robots.txt", "User-agent: parley\nDisallow: /a\n\nUser-agent: *\nDisallow: /private/\nAllow: /private/b\n")
	d.wantOffered("a.html", "c&d.html", "private/b.html")
	if got := leftOut(d.look()); got["private/index.html"] != "robots.txt" || got["robots.txt"] != "not included" {
		t.Errorf("left out: %v", got)
	}
	if d.site.Public(base+"private/") || !d.site.Public(base+"private/b.html") {
		t.Error("Public does not know robots.txt")
	}

	d.write("robots.txt", "User-agent: *\nDisallow: /\n")
	if got := offered(d.look(inventory.Scope{Prefix: base})); len(got) != 2 {
		t.Errorf("look at a part reads robots.txt again: %q", got)
	}
	d.wantOffered()

	// While it cannot be read, what it said last counts. Who has never read it
	// must take it that it may forbid everything.
	d.must(os.Remove(d.path("robots.txt")))
	d.must(os.Mkdir(d.path("robots.txt"), 0o755))
	d.wantOffered()
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base}}
	d.wantLookError("robots.txt")
	d.must(os.Remove(d.path("robots.txt")))
	d.link("nowhere", "robots.txt")
	d.wantLookError("robots.txt")
	if d.site.Public(base + "a.html") {
		t.Error("public although nobody knows robots.txt")
	}
	d.must(os.Remove(d.path("robots.txt")))
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base}}
	d.wantOffered("a.html", "c&d.html", "private/", "private/b.html")
	if !d.site.Public(base + "private/") {
		t.Error("not public although nothing forbids it")
	}

	elsewhere := filepath.Join(t.TempDir(), "robots")
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Robots: elsewhere}}
	d.wantLookError("robots.txt")
	d.must(os.WriteFile(elsewhere, []byte("user-agent: *\ndisallow: /*b.html$\ndisallow: /c"), 0o644))
	d.wantOffered("a.html", "private/")
}

// Of a robots.txt that is too long no rule counts that the limit cuts in two.
func TestSiteRobotsLong(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html")
	head, cut := "user-agent: *\ndisallow: /private/\n", "allow: /private/"
	pad := strings.Repeat("#\n", 500<<9)[:500<<10-len(head)-len(cut)-1] + "\n"
	d.write("robots.txt", head+pad+cut+"x\n")
	d.wantOffered("a.html")
}

// What a robots.txt forbids more counts at once; what it forbids less counts a
// minute later, if it stays so. One that is lost forbids what it did, for good.
func TestSiteRobotsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t, "a.html", "private/b.html")
		pass := func(seconds int) { time.Sleep(time.Duration(seconds) * time.Second) }
		d.write("robots.txt", "user-agent: *\ndisallow: /private/")
		d.wantOffered("a.html") // the first counts as it is
		d.write("robots.txt", "user-agent: *\ndisallow: /a")
		d.wantOffered() // both count
		pass(59)
		d.wantOffered()
		pass(1)
		d.wantOffered("private/b.html")
		for _, lost := range []string{"missing", "", "# nothing\n", "Sitemap: https://site.example/sitemap.xml\n", "<!doctype html><title>503</title>", "user-agent: *\n"} {
			if lost == "missing" {
				d.must(os.Remove(d.path("robots.txt")))
			} else {
				d.write("robots.txt", lost)
			}
			d.wantOffered("private/b.html")
			pass(24 * 3600)
			d.wantOffered("private/b.html")
			if trouble, said := d.site.RobotsTrouble(); !said || trouble == "" {
				t.Errorf("nobody is told of %q", lost)
			}
		}
		d.write("robots.txt", "user-agent: *\ndis") // the other half comes later
		d.wantOffered("private/b.html")
		d.write("robots.txt", "user-agent: *\ndisallow:")
		d.wantOffered("private/b.html")
		pass(60)
		d.wantOffered("a.html", "private/b.html")
		d.must(os.Remove(d.path("robots.txt"))) // which forbade nothing
		d.wantOffered("a.html", "private/b.html")
		if trouble, _ := d.site.RobotsTrouble(); trouble != "" {
			t.Error(trouble)
		}

		// What is read twice is the same text, and what lies between counts too.
		d.write("robots.txt", "user-agent: *\ndisallow: /")
		d.wantOffered()
		for _, allowed := range []string{"/a", "/private", "/a"} {
			d.write("robots.txt", "user-agent: *\ndisallow: /\nallow: "+allowed)
			d.wantOffered()
			pass(40)
			d.wantOffered()
		}
		d.site.AcceptRobots()
		d.wantOffered("a.html")
		d.must(os.Remove(d.path("robots.txt")))
		d.site.AcceptRobots()
		d.wantOffered("a.html")
	})
}

// A named crawler is told what its own group allows, before and after.
func TestSiteRobotsByGroup(t *testing.T) {
	d := newDisk(t, "a.html", "b.html", "c.html")
	d.write("robots.txt", "user-agent: *\ndisallow: /a\n\nuser-agent: NiceBot\ndisallow: /b\n")
	d.wantOffered("b.html", "c.html")
	d.write("robots.txt", "user-agent: *\ndisallow: /c\n\nuser-agent: NewBot\ndisallow: /b\n")
	d.wantOffered("b.html")
	for name, want := range map[string]bool{"NiceBot": false, "NewBot": false, "OtherBot": true} {
		if got := d.site.PublicTo(name, base+"b.html"); got != want {
			t.Errorf("%s may have b.html: %v", name, got)
		}
	}
}

// What was forbidden is remembered with the journal: the next process finds
// robots.txt missing, or half of it, and tells nobody more for that.
func TestSiteRobotsAfterARestart(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html")
	state := filepath.Join(filepath.Dir(d.dir), "state")
	start := func(wait time.Duration) (end func()) {
		j, err := server.OpenJournal(t.Context(), state, server.JournalOptions{Base: base})
		d.must(err)
		d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Notes: j, RobotsWait: wait}}
		return func() { d.must(j.Close()) }
	}
	whole := "user-agent: *\n" + strings.Repeat("disallow: /x/%00%01%02%03\n", 16000) + "disallow: /private/"
	d.write("robots.txt", whole) // as long as counts
	end := start(0)
	d.wantOffered("a.html")
	end()
	for _, text := range []string{"", "user-agent: *\n", whole[:300<<10], "user-agent: *\ndisallow: /x/\n"} {
		d.write("robots.txt", text)
		for range 3 {
			end := start(0)
			if d.site.Public(base + "private/b.html") {
				t.Errorf("public when %d bytes of robots.txt are left", len(text))
			}
			d.wantOffered("a.html")
			end()
		}
	}
	d.must(os.Remove(d.path("robots.txt")))
	end = start(time.Nanosecond)
	d.wantOffered("a.html")
	end()
	end = start(time.Nanosecond)
	d.wantOffered("a.html")
	if _, said := d.site.RobotsTrouble(); said {
		t.Error("it is said twice a day")
	}
	end()
	d.write("robots.txt", "user-agent: *\ndisallow: /a")
	end = start(time.Nanosecond)
	d.wantOffered()
	end()
	end = start(time.Nanosecond) // the next run
	d.wantOffered("private/b.html")
	end()
}

// A rule counts whichever of a file's URLs it is written for.
func TestSiteRobotsBothURLs(t *testing.T) {
	d := newDisk(t, "index.html", "a.html", "private/index.html", "private/b.html", "sub/index.html", "x y.html")
	for _, c := range []struct {
		clean bool
		rules string
		want  []string
	}{
		{false, "disallow: /private/index.html\ndisallow: /x%20y.html", []string{"", "a.html", "private/b.html", "sub/"}},
		{false, "disallow: /\nallow: /$", []string{""}},
		{true, "disallow: /a.html\nallow: /private/index.html\ndisallow: /private/\n", []string{"", "x%20y", "private/", "sub/"}},
	} {
		d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, CleanURLs: c.clean}}
		d.write("robots.txt", "user-agent: *\n"+c.rules)
		d.wantOffered(c.want...)
		for _, url := range []string{"", "private/", "sub/"} {
			if got := d.site.Public(base + url); got != slices.Contains(c.want, url) {
				t.Errorf("%q: public %q is %v", c.rules, url, got)
			}
		}
	}
}

func (d *disk) wantLookError(text string) {
	d.Helper()
	n := 0
	var last error
	for _, err := range d.site.Look(d.Context(), nil) {
		n, last = n+1, err
	}
	var u *inventory.UnseenError
	if n != 1 || last == nil || errors.As(last, &u) || !strings.Contains(last.Error(), text) {
		d.Errorf("look yields %d times, then %v, want one error with %q", n, last, text)
	}
}

func TestSiteRobotsURL(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html")
	status, body := 200, "User-agent: *\nDisallow: /private/"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	d.site.Settings.Robots = web.URL + "/robots.txt"
	d.wantOffered("a.html")
	for _, status = range []int{401, 403, 429, 500, 503, 404} {
		d.wantOffered("a.html")
		if status != 404 {
			known := d.site
			d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Robots: known.Settings.Robots}}
			d.wantLookError(http.StatusText(status))
			d.site = known
		}
	}
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Robots: d.site.Settings.Robots}}
	d.wantOffered("a.html", "private/b.html")
	web.Close()
	d.wantOffered("a.html", "private/b.html")
}

// The robots.txt of a site below a path is that of its host.
func TestSiteRobotsBelowAPath(t *testing.T) {
	d := newDisk(t, "a.html", "secret/b.html")
	d.write("robots.txt", "User-agent: *\nDisallow: /\n") // which nobody asks for
	status := 200
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			status = 404
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "User-agent: *\nDisallow: /docs/secret/\n")
	}))
	defer web.Close()
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: web.URL + "/docs/"}}
	var got []string
	for o, err := range d.site.Look(t.Context(), nil) {
		d.must(err)
		if o.LeftOut == "" {
			got = append(got, o.URL)
		}
	}
	if !slices.Equal(got, []string{web.URL + "/docs/a.html"}) {
		t.Errorf("offered %q", got)
	}
	status = 503
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: web.URL + "/docs/"}}
	d.wantLookError("--robots")
}
