package robots_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/robots"
)

// TestCrawlerCommons reads the files with which another crawler's parser is
// tested. What each is about, it says itself or by its name; where we read it
// otherwise than that parser, the row says why.
func TestCrawlerCommons(t *testing.T) {
	files := map[string]*robots.File{}
	for name, b := range machine.Recorded(t, "sitemaps-robots-urls-crawler-commons") {
		if strings.Contains(name, "/robots/") {
			files[strings.TrimSuffix(filepath.Base(name), ".txt")] = robots.Parse(b)
		}
	}
	if len(files) != 24 {
		t.Errorf("%d files", len(files))
	}
	for _, c := range []struct {
		file, agent      string
		allowed, refused string // paths, apart by spaces
		delay            time.Duration
		sitemaps         int
		why              string // we differ
	}{
		{file: "rfc9309-example-simple-robots", agent: "foobot", allowed: "/example/page.html /example/allowed.gif", refused: "/ /example/other"},
		{file: "rfc9309-example-simple-robots", agent: "barbot", allowed: "/ /a.gif", refused: "/example/page.html"},
		{file: "rfc9309-example-simple-robots", agent: "quxbot", allowed: "/ /a.gif /example/page.html"},
		{file: "rfc9309-example-simple-robots", agent: "other", allowed: "/publications/ /a.gif?x", refused: "/a.gif /example/a"},
		{file: "rfc9309-example-longest-match-robots", agent: "foobot", allowed: "/example/page/a", refused: "/example/page/disallowed.gif"},
		{file: "rfc9309-example-rule-group-merging", agent: "examplebot", allowed: "/", refused: "/foo /bar /baz"},
		{file: "crawl-delay-group-merging", agent: "mybot", allowed: "/login/a", refused: "/private/a", delay: 10 * time.Second,
			why: "a comment in the file gives mybot the rules of both groups of yourbot; by the RFC it is only in the first"},
		{file: "crawl-delay-group-merging", agent: "yourbot", allowed: "/", refused: "/private/a /login/a"},
		{file: "crawl-delay-group-merging", agent: "other", allowed: "/private/a", delay: 30 * time.Second},
		{file: "extensions-group-merging", agent: "mybot", allowed: "/", refused: "/private/a /login/a"},
		{file: "extensions-group-merging", agent: "other", allowed: "/llms.txt", refused: "/"},
		{file: "directive-typos-robots", agent: "bot1", allowed: "/desallow/", refused: "/dissalow/ /useragent/ /useg-agent/ /useragent-no-colon/",
			why: "that parser accepts desallow and useg-agent too, ours the misspellings that Google's accepts; and it allows " +
				"digits in names: by the RFC they are not part of a product token, so bot1 to bot4 are one bot"},
		{file: "format-errors-robots", agent: "bot1", allowed: "/whitespace-before-colon", refused: "/whitespace-before-colon/ /no-colon/ /no-colon-useragent/ /", sitemaps: 1,
			why: "as above, three bots are one"},
		{file: "malformed-path", agent: "any", allowed: "/wiki/", refused: "/wiki/Wikipedia_talk:Mediation_Committee/ /wiki/Wikipedia_talk%3Mediation_Committee/"},
		{file: "merge-rules", agent: "wget", allowed: "/foo/bar /ckh/bar", refused: "/tmp/bar"},
		{file: "merge-rules", agent: "other", allowed: "/ckh/bar", refused: "/foo/bar /tmp/bar"},
		{file: "precedence-of-rules", agent: "wget", allowed: "/foo /index.html", refused: "/x"},
		{file: "precedence-of-rules", agent: "testy", allowed: "/x /foo/bar", refused: "/foo /foo/baz"},
		{file: "extension-robots", agent: "mybot", allowed: "/secret/ /admin/", refused: "/private/", sitemaps: 1},
		{file: "extended-standard-robots", agent: "bot2", allowed: "/",
			why: "Request-rate is stored as a line and sets no delay here; that parser derives one from it"},
		{file: "sitemap-robots-dedup", agent: "any", allowed: "/", sitemaps: 2, why: "a line that comes twice is two lines; the seeder polls it once"},
		{file: "relative-sitemap-robots", agent: "any", allowed: "/", refused: "/cache/ /files/a", sitemaps: 1},
		{file: "sitemap-robots", agent: "any", allowed: "/", sitemaps: 2},
		{file: "robots-with-utf8-bom", agent: "any", allowed: "/", refused: "/login.aspx /profile /a/output/print", sitemaps: 1},
		{file: "robots-with-utf16le-bom", agent: "any", allowed: "/", refused: "/login.aspx /profile /a/output/print", sitemaps: 1},
		{file: "robots-with-utf16be-bom", agent: "any", allowed: "/", refused: "/login.aspx /profile /a/output/print", sitemaps: 1},
		{file: "dos-line-endings", agent: "any", allowed: "/", delay: time.Second},
		{file: "many-user-agents", agent: "wget", refused: "/"},
		{file: "many-user-agents", agent: "mysteryguest", allowed: "/"},
		{file: "wildcards", agent: "any", allowed: "/", refused: "/gp/cart /dp/shipping/x"},
	} {
		f := files[c.file]
		if f == nil {
			t.Errorf("%s is not in the corpus", c.file)
			continue
		}
		for _, p := range strings.Fields(c.allowed) {
			if ok, line := f.Decide(c.agent, p); !ok {
				t.Errorf("%s: %s is refused %s by %q", c.file, c.agent, p, line)
			}
		}
		for _, p := range strings.Fields(c.refused) {
			if ok, line := f.Decide(c.agent, p); ok {
				t.Errorf("%s: %s is allowed %s by %q", c.file, c.agent, p, line)
			}
		}
		if d := f.CrawlDelay(c.agent); d != c.delay && c.delay+d > 0 {
			t.Errorf("%s: delay of %s is %v, want %v", c.file, c.agent, d, c.delay)
		}
		if n := len(f.Lines("sitemap")); c.sitemaps > 0 && n != c.sitemaps {
			t.Errorf("%s: %d sitemaps, want %d", c.file, n, c.sitemaps)
		}
		if c.why != "" {
			t.Logf("%s, %s: %s", c.file, c.agent, c.why)
		}
	}
}
