package static_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

const nginxBase = "http://site.example/"

// A gone is a site whose pages are deleted and moved, with an include for nginx.
type gone struct {
	*testing.T
	dir, root string
	journal   *server.Journal
	out       *static.Nginx
}

func newGone(t *testing.T) *gone {
	dir := t.TempDir()
	g := &gone{T: t, dir: dir, root: filepath.Join(dir, "root")}
	g.must(os.Mkdir(g.root, 0o755))
	j := must.Get(journal.Open(filepath.Join(dir, "state"), nil))
	t.Cleanup(func() { j.Close() })
	g.must(j.EndBaseline())
	g.journal = j
	g.out = &static.Nginx{Path: filepath.Join(dir, "gone.conf"), Base: nginxBase}
	return g
}

func (g *gone) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *gone) step(op protocol.Op, to, from string) {
	g.Helper()
	s := journal.Step{Op: op, From: from, Entry: journal.Entry{Item: protocol.Item{URL: to, Length: -1}}}
	if op != protocol.Delete {
		s.Entry.Item.Digest = protocol.Sum([]byte(to + from))
	}
	must.Get(g.journal.Append(g.Context(), []journal.Step{s}))
}

func (g *gone) create(u string)     { g.Helper(); g.step(protocol.Create, u, "") }
func (g *gone) delete(u string)     { g.Helper(); g.step(protocol.Delete, u, "") }
func (g *gone) move(from, u string) { g.Helper(); g.step(protocol.Move, u, from) }

func (g *gone) write() bool {
	g.Helper()
	return must.Get(g.out.Write(g.Context(), g.journal))
}

func (g *gone) lines() (list []string) {
	g.Helper()
	b := must.Get(os.ReadFile(g.out.Path))
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if !strings.HasPrefix(l, "#") {
			list = append(list, l)
		}
	}
	return list
}

func (g *gone) file(name string) {
	g.Helper()
	p := filepath.Join(g.root, name)
	must.Write(g, p, "<title>"+name+"</title>")
}

// A running is an nginx that listens on a socket.
type running struct {
	*testing.T
	client *http.Client
}

// serve starts nginx with the include in a server block, and with more lines in that block.
func (g *gone) serve(more string) *running {
	g.Helper()
	sock := filepath.Join(g.TempDir(), "sock")
	machine.Nginx(g.T, sock, "master_process off;", fmt.Sprintf("types { text/html html; }\nserver {\nlisten unix:%s;\nserver_name site.example;\nroot %s;\nindex index.html;\ninclude %s;\n%s\n}",
		sock, g.root, g.out.Path, more))
	r := &running{T: g.T}
	r.client = &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", sock)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}
	g.Cleanup(r.client.CloseIdleConnections)
	return r
}

func (r *running) get(u string) (status int, location string) {
	r.Helper()
	resp := must.Get(r.client.Get(u))
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Location")
}

func (r *running) want(u string, status int, to string) {
	r.Helper()
	if s, l := r.get(u); s != status || l != to {
		r.Errorf("%s: %d %q, want %d %q", u, s, l, status, to)
	}
}

// Names that a configuration, a URL or nginx could misread.
var hostile = []string{
	"plain.html", "a b.html", `quo"te.html`, "apo'strophe.html", "semi;colon.html", "{braces}.html", "dollar$uri.html", "${host}.html",
	"hash#tag.html", "per%cent.html", "per%41.html", "question?mark.html", `back\slash.html`, `back\\n.html`, `end\`, "caf\u00e9.html", "\u65e5\u672c.html",
	"bad\xff\xfeutf8.html", "tab\there.html", "line\nfeed.html", "return\rhere.html", "bell\a.html", "del\x7f.html", "~tilde.html", "= equals.html",
	"^~ x.html", "plus+and&.html", "*.html", "(paren).html", "[bracket].html", "pipe|caret^.html", "...html", "..html", "-.html", "@name", "comma,.html",
	"\\t.html", "\\", " ", "if ($uri) { return 200; }", "\"; return 200; \"", "} location / { return 200; } #", "x\x01\x1f.html",
}

// escaped returns a path as in a URL, with every unusual byte encoded.
func escaped(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/-._~!$&'()*+,;=:@", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func TestNginxIncludeOfHostileNames(t *testing.T) {
	g := newGone(t)
	target := func(name string) string { return nginxBase + "to/" + escaped("new "+name) }
	for _, name := range hostile {
		g.create(nginxBase + "gone/" + escaped(name))
		g.delete(nginxBase + "gone/" + escaped(name))
		g.create(nginxBase + "moved/" + escaped(name))
		g.move(nginxBase+"moved/"+escaped(name), target(name))
		g.file("there/" + strings.ReplaceAll(name, "\\", "_"))
	}
	if !g.write() || g.write() {
		t.Error("the second write of unchanged pages was not skipped")
	}
	r := g.serve("")
	for _, name := range hostile {
		r.want(nginxBase+"gone/"+escaped(name), 410, "")
		r.want(nginxBase+"moved/"+escaped(name), 308, strings.ReplaceAll(target(name), "$", "%24"))
		r.want(nginxBase+"moved/"+escaped(name)+"?utm=1", 308, strings.ReplaceAll(target(name), "$", "%24"))
		r.want(nginxBase+"moved/"+escaped(name)+".x", 404, "")
	}
	r.want(nginxBase+"there/plain.html", 200, "")
}

func TestNginxRedirectsToFinalURL(t *testing.T) {
	g := newGone(t)
	u := func(name string) string { return nginxBase + name }
	for _, chain := range []string{"abc", "def", "gh", "ij", "kl"} {
		g.create(u(chain[:1]))
		for i := 1; i < len(chain); i++ {
			g.move(u(chain[i-1:i]), u(chain[i:i+1]))
		}
	}
	g.delete(u("f"))       // its target is gone
	g.move(u("h"), u("g")) // and back
	g.move(u("j"), u("i"))
	g.delete(u("i")) // moved back, and gone
	g.delete(u("l"))
	g.create(u("l")) // another page replaces the moved one
	g.write()
	want := []string{
		`location = "/a" { return 308 "http://site.example/c"; }`,
		`location = "/b" { return 308 "http://site.example/c"; }`,
		`location = "/d" { return 410; }`,
		`location = "/e" { return 410; }`,
		`location = "/f" { return 410; }`,
		`location = "/h" { return 308 "http://site.example/g"; }`,
		`location = "/i" { return 410; }`,
		`location = "/j" { return 410; }`,
		`location = "/k" { return 308 "http://site.example/l"; }`,
	}
	if got := g.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Lines that would hide a page, or cause a redirect loop, are not written.
func TestNginxOmitsHarmfulLines(t *testing.T) {
	for _, c := range []struct {
		what          string
		present, gone string // if moved, gone becomes present
		moved         bool
		file          string
		want          string // empty: no line
	}{
		{what: "a plain deletion", present: "/b", gone: "/a", want: `"/a" { return 410; }`},
		{what: "the page exists with a query", present: "/a?x=1", gone: "/a"},
		{what: "a query", present: "/b", gone: "/a?x=1"},
		{what: "the page exists in another spelling", present: "/caf%C3%A9", gone: "/caf%c3%a9"},
		{what: "moved to another spelling", present: "/caf%C3%A9", gone: "/caf%c3%a9", moved: true},
		{what: "slashes that nginx merges", present: "/b", gone: "/a//c"},
		{what: "an encoded slash", present: "/a/c", gone: "/a%2Fc"},
		{what: "encoded dots", present: "/b", gone: "/a/%2E%2E/c"},
		{what: "NUL, which nginx refuses", present: "/b", gone: "/a%00"},
		{what: "too long for nginx", present: "/b", gone: "/" + strings.Repeat("a", 5000)},
		{what: "a page of another site", present: "/b", gone: "https://other.example/a"},
		{what: "the file exists", present: "/b", gone: "/a b.html", file: "a b.html"},
		{what: "the file exists behind a clean URL", present: "/b", gone: "/a", file: "a.html"},
		{what: "the file exists behind a directory", present: "/b", gone: "/a/", file: "a/index.html"},
		{what: "the index of a program", present: "/b", gone: "/index.php"},
		{what: "the index of an existing page", present: "/", gone: "/index.html"},
		{what: "the index, moved", present: "/d/", gone: "/d/index.html", moved: true, file: "d/index.html",
			want: `"/d/index.html" { if ($request_uri ~ "^/d/index\\.html(\\?|$)") { return 308 "http://site.example/d/"; } }`},
		{what: "the slash, moved", present: "/d/", gone: "/d", moved: true},
		{what: "the slash removed, moved", present: "/d", gone: "/d/", moved: true},
		{what: "the slash", present: "/d/", gone: "/d"},
		{what: "clean URLs", present: "/a", gone: "/a.html", file: "a.html"},
		{what: "clean URLs, moved", present: "/a", gone: "/a.html", moved: true, file: "a.html",
			want: `"/a.html" { if ($request_uri ~ "^/a\\.html(\\?|$)") { return 308 "http://site.example/a"; } }`},
		{what: "clean URLs no more, moved", present: "/a.html", gone: "/a", moved: true, file: "a.html", want: `"/a" { return 308 "http://site.example/a.html"; }`},
		{what: "clean URLs no more", present: "/a.html", gone: "/a", file: "a.html"},
		{what: "the target also exists at the old URL", present: "/b.html", gone: "/a", moved: true, file: "a.html"},
		{what: "the front page", present: "/b", gone: "/", want: `"/" { return 410; }`},
		{what: "a directory", present: "/b", gone: "/d/", want: `"/d/" { return 410; }`},
	} {
		g := newGone(t)
		g.out.Docroot = g.root
		abs := func(u string) string {
			if strings.HasPrefix(u, "/") {
				return strings.TrimSuffix(nginxBase, "/") + u
			}
			return u
		}
		g.create(abs(c.gone))
		if c.moved {
			g.move(abs(c.gone), abs(c.present))
		} else {
			g.create(abs(c.present))
			g.delete(abs(c.gone))
		}
		if c.file != "" {
			g.file(c.file)
		}
		g.write()
		got := strings.TrimPrefix(strings.Join(g.lines(), "\n"), "location = ")
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		g.journal.Close()
	}
}

// For any history of a site, every existing page is answered with 200 at its own URL, and a deleted one gets
// no redirect, or one redirect to an existing page.
func TestNginxNeverHidesAPage(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	said, all := 0, 0
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 41))
		g := newGone(t)
		g.out.Docroot, g.out.Max = g.root, 30+300*round
		clean := round%2 == 0
		name := func() string {
			dirs := []string{"", "", "d/", "e/", "d/f/", "plain/"}
			names := append([]string{"index.html", "index.html", "a.html", "b.html", "a", "b", "d.html", "d/f.html"}, hostile...)
			n := dirs[rnd.IntN(len(dirs))] + names[rnd.IntN(len(names))]
			return strings.ReplaceAll(n, "\\", "_")
		}
		var files []string
		content := 0
		for turn := range 40 {
			if turn == 13 || turn == 27 || turn == 36 {
				clean = !clean
			}
			for range 4 + rnd.IntN(8) {
				n := name()
				switch i := rnd.IntN(max(1, len(files))); {
				case len(files) < 12 || rnd.IntN(4) == 0:
					if os.MkdirAll(filepath.Join(g.root, filepath.Dir(n)), 0o755) != nil {
						continue
					}
					content++
					if os.WriteFile(filepath.Join(g.root, n), fmt.Appendf(nil, "<title>%d</title>", content), 0o644) == nil && !slices.Contains(files, n) {
						files = append(files, n)
					}
				case rnd.IntN(3) == 0:
					g.must(os.Remove(filepath.Join(g.root, files[i])))
					files = slices.Delete(files, i, i+1)
				default:
					_ = os.MkdirAll(filepath.Join(g.root, filepath.Dir(n)), 0o755)
					if _, err := os.Stat(filepath.Join(g.root, n)); err == nil {
						continue
					}
					if os.Rename(filepath.Join(g.root, files[i]), filepath.Join(g.root, n)) == nil {
						files[i] = n
					}
				}
			}
			site := &server.Site{Docroot: g.root, Base: nginxBase}
			site.Files.CleanURLs, site.Files.Include = clean, []string{"**"}
			p := &server.Publisher{Inventory: site, Journal: g.journal, Pace: server.Pace{Once: true}}
			must.Get(p.AcceptDeletions(t.Context()))
			g.out.Public = site.Public
			if turn%8 == 7 {
				g.write()
			}
		}
		more := "location / { try_files $uri $uri/index.html =404; }"
		if clean {
			more = []string{"location / { try_files $uri $uri.html $uri/index.html =404; }",
				"location / { try_files $uri @more; }\nlocation @more { rewrite ^(.*[^/])$ $1.html last; rewrite ^(.*)/$ $1/index.html last; }"}[round/2%2]
		}
		r := g.serve(more)
		v := must.Get(g.journal.View())
		there := map[string]bool{}
		for e, err := range v.Entries() {
			g.must(err)
			there[e.Item.URL] = true
			r.want(e.Item.URL, 200, "")
		}
		for tomb, err := range v.Tombstones() {
			g.must(err)
			status, to := r.get(tomb.URL)
			all++
			switch {
			case status == 410:
				said++
			case status == 308:
				said++
				if u, err := protocol.CanonicalURL("", strings.ReplaceAll(to, "%24", "$")); err != nil || !there[u] {
					t.Errorf("%s redirects to %s, which does not exist", tomb.URL, to)
				}
				r.want(to, 200, "")
			}
		}
		v.Close()
		if n := len(g.lines()); n == 0 || n > g.out.Max {
			t.Errorf("%d lines, at most %d", n, g.out.Max)
		}
	}
	// The first round has a limit of few lines, so that some are left out.
	if said == 0 || said == all || rounds > 1 && said*2 < all {
		t.Errorf("%d of %d deleted pages have a line", said, all)
	}
}

func TestNginxIncludeObeysOptions(t *testing.T) {
	g := newGone(t)
	g.out.Public = func(u string) bool { return !strings.Contains(u, "private") }
	for _, n := range []string{"a", "private-a", "b", "c"} {
		g.create(nginxBase + n)
	}
	g.delete(nginxBase + "private-a")
	g.move(nginxBase+"b", nginxBase+"private-b") // its target is not public
	g.write()
	if got := strings.Join(g.lines(), ""); got != `location = "/b" { return 410; }` {
		t.Error(got)
	}
	g.delete(nginxBase + "a")
	g.out.Max = 1 // keeps only the newest
	g.write()
	if got := strings.Join(g.lines(), ""); got != `location = "/a" { return 410; }` {
		t.Error(got)
	}
	g.out.Path, g.out.Docroot = filepath.Join(g.root, "gone.conf"), g.root
	if _, err := g.out.Write(t.Context(), g.journal); err == nil || !strings.Contains(err.Error(), "below the docroot") {
		t.Errorf("written below the docroot: %v", err)
	}
}

// The command runs after the file was replaced, and again until it has succeeded once.
func TestNginxReloadRepeatsUntilSuccess(t *testing.T) {
	sh := machine.Tool(t, "sh")
	g := newGone(t)
	ran := filepath.Join(g.dir, "ran")
	g.out.After = []string{sh, "-c", "echo x >> " + ran + "; if test -e " + ran + ".bad; then echo no such luck >&2; exit 3; fi"}
	times := func() int {
		b, _ := os.ReadFile(ran)
		return strings.Count(string(b), "x")
	}
	g.create(nginxBase + "a")
	g.write()
	g.write()
	if times() != 1 {
		t.Errorf("ran %d times", times())
	}
	g.must(os.WriteFile(ran+".bad", nil, 0o644))
	g.delete(nginxBase + "a")
	for range 2 {
		if _, err := g.out.Write(t.Context(), g.journal); err == nil || !strings.Contains(err.Error(), "no such luck") {
			t.Error(err)
		}
	}
	if l := g.lines(); len(l) != 1 || times() != 3 {
		t.Errorf("%q, ran %d times", l, times())
	}
	g.must(os.Remove(ran + ".bad"))
	other := *g.out // another process
	must.Get(other.Write(t.Context(), g.journal))
	g.write()
	if times() != 4 {
		t.Errorf("ran %d times", times())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	g.create(nginxBase + "a")
	g.out.After = []string{sh, "-c", "sleep 60"}
	if _, err := g.out.Write(ctx, g.journal); err == nil {
		t.Error("a command that hangs is not stopped")
	}
}
