//go:build unix

package docroot_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

// For any content of a docroot, a scan publishes only what it should, and never hangs.
func TestDocrootHostile(t *testing.T) {
	d := newDisk(t, "index.html", "a.html", "sub/b.html", "sub/deep/c.html", "data/page.src")
	outside := filepath.Join(filepath.Dir(d.dir), "root-secret") // has the root's name as a prefix
	d.must(os.Mkdir(outside, 0o755))
	must.Write(d, filepath.Join(outside, "s.html"), "secret")

	names := []string{"line\nbreak.html", "tab\tand space.html", "\xff\xfe.html", "100%.html", "q?a=b.html", "h#ash.html", "a;b&c'd.html", "umläut.html", `back\slash.html`, "<i>.html", "[1].html"}
	for _, n := range names {
		d.write(n, n)
	}
	d.must(os.Mkdir(d.path("in\xffvalid"), 0o755))
	d.write("in\xffvalid/x.html", "x")

	d.link("a.html", "link.html")                       // a page of its own
	d.link(d.path("sub/b.html"), "absolute.html")       // so is this
	d.link("data/page.src", "src.html")                 // its own name counts
	d.link("../root-secret/s.html", "out.html")         //
	d.link(outside, "outdir")                           //
	d.link("/etc/passwd", "sub/passwd.html")            //
	d.link("outdir/s.html", "through.html")             // through a link that leads out
	d.link("nowhere", "dangling.html")                  //
	d.link("loop.html", "loop.html")                    // itself
	d.link("..", "sub/parent")                          // its own parent
	d.link("../..", "sub/deep/root")                    //
	d.link("sub", "again")                              // a directory twice
	d.link("../../root/sub/deep", "sub/outandin")       // leaves the root and comes back
	d.must(syscall.Mkfifo(d.path("pipe.html"), 0o644))  //
	l, err := net.Listen("unix", d.path("socket.html")) //
	d.must(err)
	defer l.Close()
	d.write("empty.html", "")
	d.write("sparse.html", "")
	d.must(os.Truncate(d.path("sparse.html"), 10<<30))
	d.write(".env", "secret")
	d.write(".git/index.html", "secret")

	list := d.look()
	want := []string{"", "%3Ci%3E.html", "%5B1%5D.html", "%FF%FE.html", "100%25.html", "a.html", "a;b&c'd.html", "absolute.html", "back%5Cslash.html",
		"empty.html", "h%23ash.html", "line%0Abreak.html", "link.html", "q%3Fa=b.html", "src.html", "tab%09and%20space.html", "uml%C3%A4ut.html",
		"again/b.html", "in%FFvalid/x.html", "sub/b.html", "again/deep/c.html", "again/outandin/c.html", "sub/deep/c.html", "sub/outandin/c.html"}
	if got := offered(list); !slices.Equal(got, want) {
		t.Errorf("offered\n%q, want\n%q", got, want)
	}
	for place, left := range map[string]string{
		"out.html": "leads out of the root", "outdir": "leads out of the root", "sub/passwd.html": "leads out of the root", "through.html": "leads out of the root",
		"dangling.html": "dangling link", "loop.html": "dangling link", "sub/parent": "link to its own parent", "sub/deep/root": "link to its own parent",
		"pipe.html": "not a regular file", "socket.html": "not a regular file", "sparse.html": "too large",
		".env": "hidden", ".git/": "hidden", "data/page.src": "not included",
	} {
		if got := sitetest.LeftOut(list)[place]; got != left {
			t.Errorf("%s: left out %q, want %q", place, got, left)
		}
	}
	for _, o := range list {
		r, err := d.site.Read(t.Context(), o)
		switch {
		case err != nil:
			if o.LeftOut == "" {
				t.Error(err)
			}
		case !r.Digest.IsZero() && o.LeftOut == "leads out of the root", !r.Digest.IsZero() && o.LeftOut == "not a regular file":
			t.Errorf("%s was read", o.Place)
		case o.LeftOut == "" && r.Digest.IsZero():
			t.Errorf("%s was not read: %+v", o.Place, r)
		}
	}
}
