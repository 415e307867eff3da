package server_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// Whatever stands in a docroot, a look publishes nothing that it should not,
// and hangs on nothing.
func TestDocrootHostile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such names and no such files here")
	}
	d := newDocroot(t, "index.html", "a.html", "sub/b.html", "sub/deep/c.html", "data/page.src")
	outside := filepath.Join(filepath.Dir(d.dir), "root-secret") // shares the root's name as a prefix
	d.must(os.Mkdir(outside, 0o755))
	d.must(os.WriteFile(filepath.Join(outside, "s.html"), []byte("secret"), 0o644))

	names := []string{"line\nbreak.html", "tab\tand space.html", "\xff\xfe.html", "100%.html", "q?a=b.html", "h#ash.html", "a;b&c'd.html", "umläut.html", `back\slash.html`, "<i>.html", "[1].html"}
	for _, n := range names {
		d.write(n, n)
	}
	d.must(os.Mkdir(d.path("in\xffvalid"), 0o755))
	d.write("in\xffvalid/x.html", "x")

	d.link("a.html", "link.html")                       // a page of its own
	d.link(d.path("sub/b.html"), "absolute.html")       // so too
	d.link("data/page.src", "src.html")                 // what counts is its own name
	d.link("../root-secret/s.html", "out.html")         //
	d.link(outside, "outdir")                           //
	d.link("/etc/passwd", "sub/passwd.html")            //
	d.link("outdir/s.html", "through.html")             // by way of a link out
	d.link("nowhere", "dangling.html")                  //
	d.link("loop.html", "loop.html")                    // itself
	d.link("..", "sub/parent")                          // its own parent
	d.link("../..", "sub/deep/root")                    //
	d.link("sub", "again")                              // a directory twice
	d.link("../../root/sub/deep", "sub/outandin")       // leaves, and comes back
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
		if got := leftOut(list)[place]; got != left {
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

func TestDocrootNestedLinks(t *testing.T) {
	d := newDocroot(t, "1/a.html", "2/a.html", "3/a.html", "4/a.html", "5/a.html", "6/a.html")
	for i := 1; i < 6; i++ {
		d.link(fmt.Sprintf("../%d", i+1), fmt.Sprintf("%d/n", i))
	}
	got := offered(d.look())
	if !slices.Contains(got, "1/n/n/n/n/a.html") || slices.Contains(got, "1/n/n/n/n/n/a.html") {
		t.Errorf("offered %q", got)
	}
	if left := leftOut(d.look())["1/n/n/n/n/n"]; left != "links nested too deep" {
		t.Errorf("left out %q", left)
	}
}

func TestDocrootRoot(t *testing.T) {
	d := newDocroot(t, "a.html")
	d.must(os.Rename(d.dir, d.dir+"-1"))
	d.wantLookError("docroot")
	d.must(os.Symlink("root-1", d.dir))
	d.wantOffered("a.html")
	d.must(os.Mkdir(d.dir+"-2", 0o755))
	d.must(os.WriteFile(d.dir+"-2/b.html", []byte("b"), 0o644))
	d.must(os.Remove(d.dir))
	d.must(os.Symlink("root-2", d.dir))
	d.wantOffered("b.html")
	if _, err := d.site.Read(t.Context(), d.offer("b.html")); err != nil {
		t.Error(err)
	}
	d.must(os.Remove(d.dir))
	d.must(os.WriteFile(d.dir, nil, 0o644))
	d.wantLookError("docroot")
	if _, err := d.site.Read(t.Context(), server.Offer{Place: "b.html"}); err == nil {
		t.Error("read without a docroot")
	}
}

// A directory that cannot be read is not an empty one. (The superuser can read all.)
func TestDocrootUnreadable(t *testing.T) {
	d := newDocroot(t, "a.html", "closed/b.html", "closed/deep/c.html", "d/e.html", "f.html")
	d.must(os.Chmod(d.path("closed"), 0))
	d.must(os.Chmod(d.path("f.html"), 0))
	defer os.Chmod(d.path("closed"), 0o755)
	if _, err := os.ReadDir(d.path("closed")); err == nil {
		t.Skip("this user can read everything")
	}
	for _, scopes := range [][]server.Scope{nil, {{Prefix: base + "closed/"}}, {{Prefix: base + "closed/deep/", Deep: true}}} {
		var unseen []string
		for _, err := range d.site.Look(t.Context(), scopes) {
			var u *server.UnseenError
			if errors.As(err, &u) {
				unseen = append(unseen, u.Prefix)
			} else if err != nil {
				t.Error(err)
			}
		}
		if len(unseen) != 1 || !strings.HasPrefix(base+"closed/deep/", unseen[0]) {
			t.Errorf("%v: unseen %q", scopes, unseen)
		}
	}
	if _, err := d.site.Read(t.Context(), d.offer("f.html")); err == nil {
		t.Error("read a file that cannot be read")
	}
}

// randomTree fills a docroot with names that sort in surprising ways.
func randomTree(d *docroot, r *rand.Rand) (dirs []string) {
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

// A look comes in the order of protocol.Compare, and a look at scopes is the
// part of it that lies in them, in the same order. (docroot.look checks the order.)
func TestDocrootScopes(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDocroot(t)
		d.site.CleanURLs = seed%2 == 0
		d.site.Include = []string{"*.txt", "a*"}
		randomTree(d, r)
		whole := d.look()
		if !slices.IsSortedFunc(offeredURLs(whole), protocol.Compare) {
			t.Fatal("out of order")
		}
		// Directories as URLs, those behind links too, and some that are none.
		prefixes := []string{base, base + "none/", base + ".git/", base + "../x/", base + "a%2Fb/", "http://other.example/", base + "a"}
		for _, o := range whole {
			if o.URL != "" {
				prefixes = append(prefixes, o.URL[:strings.LastIndexByte(o.URL, '/')+1])
			}
		}
		for range 20 {
			var scopes []server.Scope
			for range 1 + r.IntN(4) {
				scopes = append(scopes, server.Scope{Prefix: prefixes[r.IntN(len(prefixes))], Deep: r.IntN(2) == 0})
			}
			var want []string
			for _, o := range whole {
				if o.URL != "" && slices.ContainsFunc(scopes, func(s server.Scope) bool {
					return strings.HasSuffix(s.Prefix, "/") && strings.HasPrefix(o.URL, s.Prefix) && (s.Deep || protocol.Depth(o.URL) == protocol.Depth(s.Prefix))
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

// offeredURLs returns all URLs, also of what is left out.
func offeredURLs(list []server.Offer) (urls []string) {
	for _, o := range list {
		if o.URL != "" {
			urls = append(urls, o.URL)
		}
	}
	return urls
}

// Files and directories that come and go while a look is going on.
func TestDocrootChangesDuringLook(t *testing.T) {
	d := newDocroot(t, "a.html", "b.html", "c/d.html", "e/f.html")
	for o, err := range d.site.Look(t.Context(), nil) {
		d.must(err)
		if o.Place == "a.html" {
			d.must(os.Remove(d.path("b.html")))
			d.must(os.RemoveAll(d.path("c")))
			d.must(os.RemoveAll(d.path("e")))
			d.write("e", "no directory any more")
		}
		if o.LeftOut == "" && o.Place != "a.html" {
			t.Errorf("%s is offered", o.Place)
		}
	}
	for range d.site.Look(t.Context(), nil) {
		break // and nothing is yielded after that
	}
}

func TestDocrootLongURL(t *testing.T) {
	d := newDocroot(t, "a.html")
	deep := strings.Repeat(strings.Repeat("\xff", 200)+"/", 14)
	d.must(os.MkdirAll(d.path(deep), 0o755))
	d.write(deep+strings.Repeat("\xff", 200)+".html", "x")
	d.wantOffered("a.html")
	if n := len(leftOut(d.look())); n != 1 {
		t.Errorf("%d left out, want 1", n)
	}
}
