package docroot_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/internal/docroot"
	"github.com/parleyweb/parley/server/inventory"
)

// noRobots is a robots.txt that forbids nothing.
func noRobots(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "robots.txt")
	must.Write(t, name, "User-agent: *\nDisallow:\n")
	return name
}

// A host's robots.txt is not a page, even if a pattern includes it: a client that fetched it as one would get
// rules that are not yet in force.
func TestRobotsFileIsNotAPage(t *testing.T) {
	d := newDisk(t, "a.txt", "d/robots.txt")
	d.site.Settings.Include = []string{"**/*.txt", "*.txt"}
	d.write("robots.txt", "User-agent: *\nDisallow:\n")
	d.wantOffered("a.txt", "d/robots.txt")
	if got := sitetest.LeftOut(d.look()); got["robots.txt"] != "robots.txt itself" {
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
	if got := sitetest.LeftOut(d.look()); got["private/index.html"] != "robots.txt" || got["robots.txt"] != "not included" {
		t.Errorf("left out: %v", got)
	}
	if d.site.Public(base+"private/") || !d.site.Public(base+"private/b.html") {
		t.Error("Public does not apply robots.txt")
	}

	d.write("robots.txt", "User-agent: *\nDisallow: /\n")
	if got := offered(d.look(inventory.Scope{Prefix: base})); len(got) != 2 {
		t.Errorf("a partial scan reads robots.txt again: %q", got)
	}
	d.wantOffered()

	// While it cannot be read, its last content counts. Without any, everything must be assumed to be
	// forbidden.
	d.must(os.Remove(d.path("robots.txt")))
	d.must(os.Mkdir(d.path("robots.txt"), 0o755))
	d.wantOffered()
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base}}
	d.wantLookError("robots.txt")
	d.must(os.Remove(d.path("robots.txt")))
	d.link("nowhere", "robots.txt")
	d.wantLookError("robots.txt")
	if d.site.Public(base + "a.html") {
		t.Error("public although robots.txt is unknown")
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
	must.Write(d, elsewhere, "user-agent: *\ndisallow: /*b.html$\ndisallow: /c")
	d.wantOffered("a.html", "private/")
}

// If a robots.txt is too long, the rule that the limit cuts in two does not count.
func TestSiteRobotsTooLong(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html")
	head, cut := "user-agent: *\ndisallow: /private/\n", "allow: /private/"
	pad := strings.Repeat("#\n", 500<<9)[:500<<10-len(head)-len(cut)-1] + "\n"
	d.write("robots.txt", head+pad+cut+"x\n")
	d.wantOffered("a.html")
}

// Additional rules in robots.txt count at once; a removed rule is dropped a minute later, if it stays
// removed. If robots.txt is lost, its rules stay in force.
func TestSiteRobotsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t, "a.html", "private/b.html")
		pass := func(seconds int) { time.Sleep(time.Duration(seconds) * time.Second) }
		d.write("robots.txt", "user-agent: *\ndisallow: /private/")
		d.wantOffered("a.html") // the first version counts at once
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
			if trouble, said, _ := d.site.RobotsProblem(); !said || trouble == "" {
				t.Errorf("the change of %q is not reported", lost)
			}
		}
		d.write("robots.txt", "user-agent: *\ndis") // the second half comes later
		d.wantOffered("private/b.html")
		d.write("robots.txt", "user-agent: *\ndisallow:")
		d.wantOffered("private/b.html")
		pass(60)
		d.wantOffered("a.html", "private/b.html")
		d.must(os.Remove(d.path("robots.txt"))) // which forbade nothing
		d.wantOffered("a.html", "private/b.html")
		if trouble, _, _ := d.site.RobotsProblem(); trouble != "" {
			t.Error(trouble)
		}

		// The new rules must stay the same for the whole minute: another text in between restarts it.
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

// For a named crawler, its own groups before and after the change count.
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

// The rules are stored in the journal: if the next process finds robots.txt missing or cut short, it does not
// publish more for that.
func TestSiteRobotsAfterARestart(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html")
	state := filepath.Join(filepath.Dir(d.dir), "state")
	start := func(wait time.Duration) (end func()) {
		j := must.Get(server.OpenJournal(t.Context(), state, server.JournalOptions{Base: base}))
		d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Notes: j, RobotsWait: wait}}
		return func() { d.must(j.Close()) }
	}
	whole := "user-agent: *\n" + strings.Repeat("disallow: /x/%00%01%02%03\n", 16000) + "disallow: /private/"
	d.write("robots.txt", whole) // as long as the limit allows
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
	if _, said, _ := d.site.RobotsProblem(); said {
		t.Error("the reminder is logged twice a day")
	}
	end()
	d.write("robots.txt", "user-agent: *\ndisallow: /a")
	end = start(time.Nanosecond)
	d.wantOffered()
	end()
	end = start(time.Nanosecond) // the next process
	d.wantOffered("private/b.html")
	end()
}

// A rule counts for a file if it matches any of the file's URLs.
func TestSiteRobotsMatchesAnyURLOfFile(t *testing.T) {
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
	for _, err := range d.site.Scan(d.Context(), nil) {
		n, last = n+1, err
	}
	var u *inventory.UnseenError
	if n != 1 || last == nil || errors.As(last, &u) || !strings.Contains(last.Error(), text) {
		d.Errorf("the scan yields %d entries, then %v, want one error with %q", n, last, text)
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

// If a site is below a path, its host's robots.txt counts.
func TestSiteRobotsBelowAPath(t *testing.T) {
	d := newDisk(t, "a.html", "secret/b.html")
	d.write("robots.txt", "User-agent: *\nDisallow: /\n") // which no crawler fetches
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
	for o, err := range d.site.Scan(t.Context(), nil) {
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
