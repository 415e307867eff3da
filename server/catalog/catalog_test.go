package catalog_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/catalog"
)

func TestListStories(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"a list of bare URLs": func(w *world) {
			w.write("urls", "\uFEFF# ours\nBASE/a\r\n\n/b?x=1\n  BASE/c/d  \n")
			w.baseline()
			w.wantPages("a", "b?x=1", "c/d")
			if it := w.item("a"); !it.Modified.IsZero() || it.Length != -1 || !it.Digest.IsZero() {
				w.Errorf("%+v has more than the list", it)
			}
			if r := w.look(); r.Unchanged != 3 {
				w.Errorf("%+v", r)
			}
			w.wantTold()
		},
		"a page is added, and one changes": func(w *world) {
			w.write("urls", "url,lastmod,title\nBASE/a,2026-10-01,A\nBASE/b,2026-10-02T10:00:00Z,\"B, \"\"the\nsecond\"\"\"\n")
			w.baseline()
			if it := w.item("a"); it.Span != 24*time.Hour || !it.Modified.Equal(date("2026-10-01")) {
				w.Errorf("the day is %+v", it)
			}
			if it := w.item("b"); it.Title != `B, "the second"` {
				w.Errorf("title %q", it.Title)
			}
			w.write("urls", "url,lastmod,title\nBASE/a,2026-10-05,A\nBASE/b,2026-10-02T10:00:00Z,\"B, \"\"the second\"\"\"\nBASE/c,,\n")
			w.look()
			w.wantTold("update a", "create c")
			if it := w.item("a"); !it.Modified.Equal(date("2026-10-05")) {
				w.Errorf("%+v", it)
			}
		},
		"two lists of one size, written within one tick of the clock": func(w *world) {
			tick := time.Now()
			for _, list := range []string{"/a\n", "/b\n"} {
				w.must(os.Chtimes(w.write("urls", list), tick, tick))
				w.look()
			}
			w.wantPages("a", "b") // a is held
		},
		"a page that is no longer listed is held": func(w *world) {
			w.write("urls", "/a\n/b\n/c\n")
			w.baseline()
			w.write("urls", "/a\n/c\n")
			if r := w.look(); r.Held != 1 {
				w.Errorf("%+v", r)
			}
			w.wantTold()
			w.pass(2 * time.Minute)
			w.look()
			w.wantTold("delete b")
		},
		"a list that is emptied deletes nothing": func(w *world) {
			w.write("urls", "/a\n/b\n/c\n")
			w.baseline()
			w.write("urls", "")
			w.look()
			w.pass(time.Hour)
			if r := w.look(); !r.MassHeld {
				w.Errorf("%+v", r)
			}
			w.wantTold()
			w.write("urls", "/a\n/b\n/c\n")
			if r := w.look(); r.Returned != 3 {
				w.Errorf("%+v", r)
			}
			w.wantTold()
		},
		"a missing list deletes nothing": func(w *world) {
			w.write("urls", "/a\n")
			w.baseline()
			w.must(os.Remove(w.path("urls")))
			if _, err := w.publisher.Scan(w.Context(), nil); !errors.Is(err, os.ErrNotExist) {
				w.Errorf("error %v", err)
			}
			w.wantPages("a")
		},
		"an error page instead of a list": func(w *world) {
			w.write("urls", "/a\n/b\n")
			w.baseline()
			for _, s := range []string{"<html><body>Not Found", "Database connection failed\nTry again\n", "[{\"url\":\"/a\"}]", "/a\n\x00\x01\n"} {
				w.write("urls", s)
				if _, err := w.publisher.Scan(w.Context(), nil); err == nil {
					w.Errorf("%q was accepted as a list", s)
				}
			}
			w.wantPages("a", "b")
			w.wantTold()
		},
		"duplicate URLs: the last entry wins": func(w *world) {
			w.write("urls", "url,title\n/a,old\n/b,b\nBASE/a#top,new\n")
			w.write("more", "url,title\n/b,better\n/c,c\n")
			w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls")), catalog.List(w.path("more"))}
			w.restart()
			w.baseline()
			w.wantPages("a", "b", "c")
			if a, b := w.item("a").Title, w.item("b").Title; a != "new" || b != "better" {
				w.Errorf("titles %q and %q", a, b)
			}
		},
		"unusable URLs are left out": func(w *world) {
			w.write("urls", "/a\nhttp://other.example/b\nmailto:x@example.org\nftp://x/y\nhttp://[::1\n/private/p\nword\n/drafts/x\n/robots.rdf\n/"+strings.Repeat("x", 9000)+"\n")
			w.page("/robots.txt", "User-agent: *\nDisallow: /private/")
			w.catalog.Exclude = []string{"drafts/**"}
			w.restart()
			w.baseline()
			w.wantPages("a")
			want := map[string]string{
				`:2 http://other.example/b`: "another site", `:3 mailto:x@example.org`: "not a URL",
				`:4 ftp://x/y`: "not a URL", `:5 http://[::1`: "not a URL", `:7 word`: "not a URL",
				"private/p": "robots.txt", "drafts/x": "excluded", "robots.rdf": "own output",
				fmt.Sprintf(`:10 /%s`, strings.Repeat("x", 199)): "URL too long",
			}
			got := w.leftOut()
			for place, why := range want {
				if place[0] == ':' {
					place = w.path("urls") + place
				}
				if got[place] != why {
					w.Errorf("%s is left out for %q, want %q", place, got[place], why)
				}
				delete(got, place)
			}
			if len(got) > 0 {
				w.Errorf("left out too: %q", got)
			}
		},
		"robots.txt forbids a page that was public": func(w *world) {
			w.write("urls", "/a\n/b\n")
			w.baseline()
			w.page("/robots.txt", "User-agent: *\nDisallow: /b")
			if r := w.look(); r.Withdrawn != 1 {
				w.Errorf("%+v", r)
			}
			w.wantTold("delete b")
			if w.catalog.Public(w.base+"b") || !w.catalog.Public(w.base+"a") || w.catalog.Public("http://other.example/a") {
				w.Error("Public does not follow the rules")
			}
			// If robots.txt is unreachable or has vanished, its last rules stay in force.
			w.answer("/robots.txt", answer{status: 503})
			w.look()
			w.pass(2 * time.Minute)
			w.look()
			w.remove("/robots.txt")
			w.look()
			w.pass(48 * time.Hour)
			w.restart()
			w.look()
			w.wantTold()
			w.page("/robots.txt", "User-agent: *\nDisallow:")
			w.look()
			w.pass(2 * time.Minute)
			w.wantTold()
			w.look()
			w.wantTold("create b")
		},
		"robots.txt has never been read": func(w *world) {
			w.write("urls", "/a\n")
			w.answer("/robots.txt", answer{status: 500})
			if w.catalog.Public(w.base + "a") {
				w.Error("public before anything is known")
			}
			if _, err := w.publisher.Scan(w.Context(), nil); err == nil || !strings.Contains(err.Error(), "robots.txt") {
				w.Errorf("error %v", err)
			}
			w.wantPages()
			w.page("/robots.txt", "")
			w.baseline()
			w.wantPages("a")
		},
		"implausible dates": func(w *world) {
			w.write("urls", "url,modified\n/past,1970-01-01\n/old,1992-12-31\n/new,1993-01-01\n/soon,2026-11-02T11:00:00Z\n/far,2026-11-02T12:00:01Z\n/odd,yesterday\n/unix,1760000000\n")
			w.baseline()
			for path, want := range map[string]string{"past": "", "old": "", "new": "1993-01-01T00:00:00Z", "soon": "2026-11-01T12:00:00Z",
				"far": "", "odd": "", "unix": "2025-10-09T08:53:20Z"} {
				if got := protocol.FormatDate(w.item(path).Modified); got != want {
					w.Errorf("%s was modified %q, want %q", path, got, want)
				}
			}
			w.pass(time.Hour)
			if r := w.look(); r.Unchanged != 7 {
				w.Errorf("%+v", r)
			}
		},
		"JSON lines with all fields": func(w *world) {
			d := protocol.Sum([]byte("x"))
			w.write("urls", `{"url":"BASE/a","modified":"2026-10-01T10:00:00+02:00","length":12,"type":"text/html; charset=utf-8","title":"A","language":"de","canonical":"/b","digest":"`+d.String()+`","other":{"x":[1,2]}}
{"loc":"/b","lastmod":1790000000,"size":"7","sha256":"`+fmt.Sprintf("%x", d[:])+`"}
not JSON
{"title":"no url"}
{"url":"/c","length":-5,"title":7,"modified":null}
`)
			w.baseline()
			a, b := w.item("a"), w.item("b")
			if want := (protocol.Item{URL: w.base + "a", Title: "A", Modified: date("2026-10-01T08:00:00Z"), Length: 12, Type: "text/html",
				Digest: d, Language: "de", Canonical: w.base + "b"}); !a.Equal(want) {
				w.Errorf("a is %+v\nwant %+v", a, want)
			}
			if b.Length != 7 || b.Digest != d || b.Modified.Unix() != 1790000000 {
				w.Errorf("b is %+v", b)
			}
			w.wantPages("a", "b", "c")
		},
		"digests of the list decide what changed": func(w *world) {
			x, y := protocol.Sum([]byte("x")), protocol.Sum([]byte("y"))
			w.write("urls", "url\tmodified\tdigest\n/a\t2026-10-01\t"+x.String()+"\n")
			w.baseline()
			w.write("urls", "url\tmodified\tdigest\n/a\t2026-10-07\t"+x.String()+"\n")
			if r := w.look(); r.Touched != 1 {
				w.Errorf("%+v", r)
			}
			w.wantTold()
			w.write("urls", "url\tmodified\tdigest\n/a\t2026-10-07\t"+y.String()+"\n")
			w.look()
			w.wantTold("update a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
			w.restart()
			story(w)
		})
	}
}

func TestCommandSource(t *testing.T) {
	w := newWorld(t)
	use := func(c catalog.Command) {
		w.catalog.Sources = []catalog.Source{c}
		w.restart()
	}
	fails := func(c catalog.Command, want string) {
		t.Helper()
		use(c)
		began := time.Now()
		_, err := w.publisher.Scan(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", c.Line, err, want)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("%s took %v", c.Line, d)
		}
	}
	use(catalog.Command{Line: "printf '/a\\n/b\\n'; echo noise >&2"})
	w.baseline()
	w.wantPages("a", "b")

	fails(catalog.Command{Line: "printf '/a\\n'; echo no database >&2; exit 3"}, "exit status 3: no database")
	fails(catalog.Command{Line: "/does/not/exist"}, "exit status 127")
	fails(catalog.Command{Line: "echo /a; sleep 60 & sleep 60", Timeout: 200 * time.Millisecond}, "longer than 200ms")
	fails(catalog.Command{Line: "yes /a", Timeout: 300 * time.Millisecond}, "") // endless output, or too many entries
	fails(catalog.Command{Line: "head -c 200000 /dev/zero | tr '\\0' x"}, "not a list of URLs")
	fails(catalog.Command{Line: "echo '<html>'"}, "HTML")
	w.wantPages("a", "b")
	w.wantTold()

	use(catalog.Command{Line: "echo /a | gzip"})
	w.look()
	w.wantPages("a", "b") // b is held
}

func TestSitemapAndFeed(t *testing.T) {
	const set = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">%s</urlset>`
	url := func(loc, lastmod string) string {
		return "<url><loc>" + loc + "</loc><lastmod>" + lastmod + "</lastmod></url>"
	}
	t.Run("a file", func(t *testing.T) {
		w := newWorld(t)
		w.write("sitemap.xml", fmt.Sprintf(set, url("BASE/a", "2026-10-01")+url("BASE/b", "2026-10-02T00:00:00Z")+url("http://other.example/", "")))
		w.catalog.Sources = []catalog.Source{catalog.Sitemap(w.path("sitemap.xml"))}
		w.restart()
		if r := w.baseline(); r.LeftOut != 1 {
			t.Errorf("%+v", r)
		}
		w.wantPages("a", "b")
		if it := w.item("a"); it.Span != 24*time.Hour {
			t.Errorf("%+v", it)
		}
	})
	t.Run("an index on the Web", func(t *testing.T) {
		w := newWorld(t)
		w.catalog.Sources = []catalog.Source{catalog.Sitemap(w.base + "index.xml")}
		w.restart()
		w.page("/index.xml", strings.ReplaceAll(`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>BASE/s1.xml</loc></sitemap><sitemap><loc>BASE/s2.xml</loc></sitemap></sitemapindex>`, "BASE/", w.base))
		w.page("/s1.xml", fmt.Sprintf(set, url(w.base+"a", "2026-10-01")))
		w.page("/s2.xml", fmt.Sprintf(set, url(w.base+"b", "2026-10-01")+url(w.base+"c", "2026-10-01")))
		w.baseline()
		w.wantPages("a", "b", "c")
		w.requests()
		w.look()
		if got := fmt.Sprint(w.requests()); got != "[GET /index.xml 304 GET /s1.xml 304 GET /s2.xml 304]" {
			t.Errorf("the next scan sent %s", got)
		}
		w.page("/s2.xml", fmt.Sprintf(set, url(w.base+"b", "2026-10-11")+url(w.base+"c", "2026-10-01")))
		w.look()
		w.wantTold("update b")

		w.remove("/s1.xml") // then absence means nothing
		if _, err := w.publisher.Scan(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("error %v", err)
		}
		w.wantPages("a", "b", "c")

		w.page("/s1.xml", `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>`+w.base+`index.xml</loc></sitemap><sitemap><loc>http://other.example/s.xml</loc></sitemap></sitemapindex>`)
		if _, err := w.publisher.Scan(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "another host") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an index in a file, its sitemaps beside it", func(t *testing.T) {
		w := newWorld(t)
		w.write("index.xml", `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>BASE/maps/s1.xml</loc></sitemap></sitemapindex>`)
		w.write("s1.xml", fmt.Sprintf(set, url("BASE/a", "2026-10-01")))
		w.catalog.Sources = []catalog.Source{catalog.Sitemap(w.path("index.xml"))}
		w.restart()
		w.baseline()
		w.wantPages("a")
		if r := w.requests(); len(r) > 0 {
			t.Errorf("requests for a local index: %q", r)
		}
	})
	t.Run("a feed lists only some pages", func(t *testing.T) {
		w := newWorld(t)
		w.catalog.Sources = []catalog.Source{catalog.Feed(w.base + "feed")}
		w.restart()
		rss := func(paths ...string) string {
			s := `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>`
			for i, p := range paths {
				s += fmt.Sprintf("<item><title>%s</title><link>%s</link><pubDate>%s</pubDate></item>", p, w.base+p, date("2026-10-01").AddDate(0, 0, i).Format(http.TimeFormat))
			}
			return s + "</channel></rss>"
		}
		w.page("/feed", rss("a", "b"))
		w.baseline()
		w.wantPages("a", "b")
		w.page("/feed", rss("c", "x/d", "b"))
		w.look()
		w.wantTold("update b", "create c", "create x/d") // b now has a later date
		w.pass(time.Hour)
		if r := w.look(); r.HeldNow != 0 {
			t.Errorf("%+v", r)
		}
		w.wantPages("a", "b", "c", "x/d")
		w.wantTold()
		w.page("/robots.txt", "User-agent: *\nDisallow: /a")
		w.look()
		w.wantTold("delete a")
	})
}

func TestAnnouncedPagesWithoutSources(t *testing.T) {
	w := newWorld(t)
	w.baseline()
	w.page("/robots.txt", "User-agent: *\nDisallow: /admin/")
	w.pass(time.Hour)
	w.look()
	done := must.Get(w.publisher.Announce(t.Context(), []protocol.Announcement{
		{URL: w.base + "a", Modified: date("2026-10-01")}, {URL: w.base + "admin/x", Modified: date("2026-10-01")}}))
	if done.Created != 1 || len(done.Refused) != 1 {
		t.Errorf("%+v", done)
	}
	w.pass(time.Hour)
	w.look()
	w.wantTold("create a")
	w.wantPages("a")
}

// A site with an empty feed is a site without pages, and its first scan succeeds: the feed was read.
func TestEmptyFeed(t *testing.T) {
	w := newWorld(t)
	feed := func(items string) {
		w.write("feed", `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>`+items+"</channel></rss>")
	}
	feed("")
	w.catalog.Sources = []catalog.Source{catalog.Feed(w.path("feed"))}
	w.restart()
	w.baseline()
	w.wantPages()
	feed("<item><link>" + w.base + "a</link></item>")
	w.look()
	w.wantTold("create a")
	feed("")
	w.look()
	w.pass(time.Hour)
	w.look()
	w.wantPages("a")
	w.wantTold()
}

// A crawler that robots.txt has a group for must obey that group too, and gets no more than the pages that
// are public for everybody.
func TestPublicTo(t *testing.T) {
	w := newWorld(t)
	w.page("/robots.txt", "User-agent: *\nDisallow: /private/\nUser-agent: EvilBot\nDisallow: /\nUser-agent: NiceBot\nDisallow: /b?\n")
	w.catalog.Sources = []catalog.Source{catalog.List(w.write("urls", "/a\n/b?x=1\n/private/p\n"))}
	w.restart()
	for _, c := range []struct {
		name, path string
		want       bool
	}{{"EvilBot", "a", false}, {"NiceBot", "a", true}, {"NiceBot", "b?x=1", false}, {"OtherBot", "b?x=1", true}, {"OtherBot", "a", true},
		{"NiceBot", "private/p", false}, // its own group does not forbid it
		{"OtherBot", "parley/changes", false}} {
		if got := w.catalog.PublicTo(c.name, w.base+c.path); got != c.want {
			t.Errorf("%s may have %s: %v", c.name, c.path, got)
		}
	}
	if w.catalog.PublicTo("OtherBot", "https://elsewhere.example/a") {
		t.Error("a page of another site")
	}
	w.page("/robots.txt", "User-agent: OtherBot\nDisallow: /a\n")
	w.look()
	if w.catalog.PublicTo("OtherBot", w.base+"a") || w.catalog.PublicTo("EvilBot", w.base+"a") {
		t.Error("the new or the previous rules are not applied")
	}
	w.pass(time.Minute)
	w.look()
	if w.catalog.PublicTo("OtherBot", w.base+"a") || !w.catalog.PublicTo("EvilBot", w.base+"a") {
		t.Error("the previous rules are still applied")
	}
	w.answer("/robots.txt", answer{status: 503})
	w.restart()
	if w.catalog.PublicTo("OtherBot", w.base+"a") || !w.catalog.PublicTo("EvilBot", w.base+"a") {
		t.Error("the rules are forgotten")
	}
}

// URLs that are not pages or were never public (hidden files, dumps, Parley's own outputs) are not published,
// whichever source lists them.
func TestNamesThatAreNeverPublished(t *testing.T) {
	never := map[string]string{".git/config": "hidden", "a/.env": "hidden", "backup.sql": "dump", "db/all.sql.gz?x=1": "dump", "index.php~": "backup", "wp-config.php.bak": "backup",
		"robots.txt": "own output", "robots.rdf": "own output", "parley/announce": "own output", "parley/changes?after=0": "own output", "parley/stream": "own output",
		".well-known/parley": "own output", "parley/site.wacz": "own output", "parley/query?prefix=/a": "own output", "parley/openapi.json": "own output",
		"parley/agents/run": "own output"}
	pages := []string{".well-known/change-password", "core", "parley/", "posts/4913"}
	for _, listed := range []bool{false, true} {
		w := newWorld(t)
		w.page("/robots.txt", "User-agent: *\nAllow: /\n")
		var list strings.Builder
		var told []protocol.Announcement
		for _, p := range slices.Concat(slices.Sorted(maps.Keys(never)), pages) {
			fmt.Fprintln(&list, w.base+p)
			told = append(told, protocol.Announcement{URL: w.base + p, Modified: date("2026-10-01")})
		}
		if listed {
			w.catalog.Sources = []catalog.Source{catalog.List(w.write("urls", list.String()))}
			w.restart()
			if got := w.leftOut(); !maps.Equal(got, withoutQueries(never)) {
				t.Errorf("left out are %v", got)
			}
		}
		w.baseline()
		if !listed {
			done := must.Get(w.publisher.Announce(t.Context(), told))
			if done.Created != len(pages) || len(done.Refused) != len(never) {
				t.Errorf("%+v", done)
			}
		}
		for p := range never {
			if w.catalog.Public(w.base + p) {
				t.Errorf("%s is public", p)
			}
		}
		w.wantPages("core", ".well-known/change-password", "parley/", "posts/4913")
	}
}

func withoutQueries(m map[string]string) map[string]string {
	plain := make(map[string]string)
	for k, v := range m {
		k, _, _ = strings.Cut(k, "?")
		plain[k] = v
	}
	return plain
}

func TestInvalidCatalogs(t *testing.T) {
	for _, c := range []*catalog.Catalog{{}, {Base: "http://a.example/?x"}, {Base: "a.example"}, {Base: "http://a.example", Exclude: []string{"["}},
		{Base: "http://a.example", Fetch: &catalog.Fetch{}}} {
		if err := c.Check(); err == nil {
			t.Errorf("%+v is accepted", c)
		}
		for _, err := range c.Scan(t.Context(), nil) {
			if err == nil {
				t.Error("an offer")
			}
		}
		if c.Public("http://a.example/") {
			t.Error("public")
		}
	}
}
