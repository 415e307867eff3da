package seed_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestNames is the table of references and their canonical names.
func TestNames(t *testing.T) {
	s := &seed.Seeder{}
	const page = "https://www.example.org/a/b/page.html?q=1"
	for _, c := range []struct{ ref, url string }{
		// As in protocol.CanonicalURL.
		{"other.html", "https://www.example.org/a/b/other.html"},
		{"../x//y/./z/", "https://www.example.org/a/x//y/z/"},
		{"HTTPS://WWW.Example.ORG:443", "https://www.example.org/"},
		{"//other.example/%7Ea b", "https://other.example/%7Ea%20b"},
		{"#top", page},
		{"?", "https://www.example.org/a/b/page.html?"},
		{"/index.html", "https://www.example.org/index.html"},
		{"/?b=2&a=1", "https://www.example.org/?b=2&a=1"},
		{"mailto:a@example.org", ""},
		{"javascript:void(0)", ""},
		{"https://user@example.org/", ""},
		{"", ""},

		// Other spellings of the same.
		{"https://www.example.org.:0443/%c3%a9?x=%ff%2F", "https://www.example.org/%C3%A9?x=%FF%2F"},
		{"http://www.example.org:08700/a%3", "http://www.example.org:8700/a%253"},
		{"http://127.0.0.1.:00080/", "http://127.0.0.1/"},
		{"http://[::1]:0081/%aF%fa%", "http://[::1]:81/%AF%FA%25"},
		{"/%7ea", "https://www.example.org/%7Ea"}, // needlessly escaped: left as it is

		// Sessions (P18, E30).
		{"/a.php?PHPSESSID=1", "https://www.example.org/a.php"},
		{"/a.php?x=1&phpsessid=0af&y=2", "https://www.example.org/a.php?x=1&y=2"},
		{"/a.php?x=1&phpsessid=0af", "https://www.example.org/a.php?x=1"},
		{"/a.cfm?CFID=1&CFTOKEN=2", "https://www.example.org/a.cfm"},
		{"/a.asp?ASPSESSIONIDQABC=X&b=1", "https://www.example.org/a.asp?b=1"},
		{"/a;jsessionid=1F?b=1", "https://www.example.org/a?b=1"},
		{"/a;v=1;JSESSIONID=1F/b", "https://www.example.org/a;v=1/b"},
		{"/(S(abc123))/a.aspx", "https://www.example.org/a.aspx"},
		{"/(x)/a.aspx", "https://www.example.org/(x)/a.aspx"},
		{"/?sid=12", "https://www.example.org/?sid=12"}, // the number of a story
		{"/?sid=0123456789abcdef0123456789abcdef", "https://www.example.org/"},
		{"/?session=internationalization", "https://www.example.org/?session=internationalization"}, // a word
		{"/?sessions=1", "https://www.example.org/?sessions=1"},

		// Parameters added by advertising.
		{"/a?utm_source=x&b=1&UTM_medium=y&gclid=z", "https://www.example.org/a?b=1"},
		{"/a?utm_source=x", "https://www.example.org/a"},
	} {
		v := s.Admit(seed.Ref{From: page, URL: c.ref, Depth: 1})
		if v.URL != c.url {
			t.Errorf("%q is %q, want %q", c.ref, v.URL, c.url)
		}
		if v.OK != (c.url != "") || v.OK != (v.Rule == "") {
			t.Errorf("%q: admitted %v by %q", c.ref, v.OK, v.Rule)
		}
		if again := s.Admit(seed.Ref{URL: v.URL, Depth: 1}); c.url != "" && again.URL != v.URL {
			t.Errorf("%q is canonical, and becomes %q", v.URL, again.URL)
		}
	}
}

func TestRules(t *testing.T) {
	chile := seed.Rules{DomainSuffixes: []string{".cl", "example.org"}}
	hosts := seed.Rules{Hosts: []string{"Example.org", "www.example.net", "::1", "port.example:8080", "[::2]:81", "other.example:443"}, DomainSuffixes: []string{"cl"}}
	words := seed.Rules{}
	patterns := seed.Rules{Accept: []string{"/docs/", "https://b.example/*.html$"}, Reject: []string{"PRINT", "*/old/", "http://plain.example/"}}
	for _, c := range []struct {
		rules     seed.Rules
		url, rule string // empty: admitted
	}{
		{chile, "http://www.dcc.uchile.cl/", ""},
		{chile, "http://nic.cl:8080/", ""},
		{chile, "http://example.org/", ""},
		{chile, "http://www.example.org./", ""},
		{chile, "http://notexample.org/", "domain is not accepted"},
		{chile, "http://cl.example/", "domain is not accepted"},

		{hosts, "http://example.org:8080/", ""},
		{hosts, "https://www.example.org/", ""}, // the same registrable domain
		{hosts, "https://example.net/", ""},
		{hosts, "http://[::1]:8080/", ""},
		{hosts, "http://nic.cl/", ""},
		{hosts, "http://port.example:8080/", ""},
		{hosts, "https://www.port.example:8080/", ""},
		{hosts, "http://port.example/", "domain is not accepted"}, // a URL with a port stays on that port
		{hosts, "http://port.example:8081/", "domain is not accepted"},
		{hosts, "http://[::2]:81/", ""},
		{hosts, "http://[::2]/", "domain is not accepted"},
		{hosts, "https://other.example/", ""},
		{hosts, "http://other.example/", "domain is not accepted"},
		{hosts, "http://example.org:25/", "port is for another protocol"},
		{words, "http://a.example:6667/", "port is for another protocol"},
		{hosts, "https://blog.example.org/", "domain is not accepted"},
		{hosts, "https://www.blog.example.org/", "domain is not accepted"},

		{patterns, "https://a.example/docs/a", ""},
		{patterns, "https://a.example/x/docs/a", "no accept rule matches"},
		{patterns, "https://b.example/a.html", ""},
		{patterns, "https://b.example/a.htm", "no accept rule matches"},
		{patterns, "https://a.example/docs/a?print=1", "reject: PRINT"},
		{patterns, "https://a.example/docs/old/a", "reject: */old/"},
		{patterns, "http://plain.example/docs/", "reject: http://plain.example/"},

		{words, "https://a.example/login", "reject word: login"},
		{words, "https://a.example/user/Logout.php", "reject word: logout"},
		{words, "https://a.example/wp-login.php?redirect_to=x", "reject word: wp-login"},
		{words, "https://a.example/index.php?a=1&action=register", "reject word: register"},
		{words, "https://a.example/w/cpp/keyword/register", ""}, // a page about it
		{words, "https://a.example/keyword/register.html", ""},
		{words, "https://a.example/blog/login-shells-explained", ""},

		{words, "https://a.example/a/b/a/b/a/b/a/b/a/b", `repeated component "a"`},
		{words, "https://a.example/a/b/a/b/a/b/a/b/", ""},
		{seed.Rules{Repeats: -1}, "https://a.example/a/a/a/a/a/a/a/a/a/a", ""},

		{seed.Rules{StaticExt: []string{"html", ""}}, "https://a.example/a.xyz", "extension is not accepted"},
		{seed.Rules{StaticExt: []string{"html", ""}}, "https://a.example/a", ""},
		{seed.Rules{StaticExt: []string{".WebManifest"}}, "https://a.example/a.webmanifest", ""},
		{seed.Rules{RejectWords: []string{"Administrator-Login"}}, "https://a.example/administrator-login", "reject word: administrator-login"},
	} {
		s := &seed.Seeder{Rules: c.rules}
		v := s.Admit(seed.Ref{URL: c.url})
		if rule := s.Excludes(v.URL); rule != c.rule {
			t.Errorf("%s, once admitted, is excluded by %q, want %q", c.url, rule, c.rule)
		}
		if v.OK != (c.rule == "") || v.Rule != c.rule || v.URL == "" {
			t.Errorf("%s: admitted %v, %q; want %q", c.url, v.OK, v.Rule, c.rule)
		}
		if v := s.Admit(seed.Ref{URL: c.url, Kind: seed.Person}); !v.OK {
			t.Errorf("%s is refused to a person: %s", c.url, v.Rule)
		}
	}
}

// TestKinds: URLs that are dynamic (V20), and URLs that are only recorded (V18).
func TestKinds(t *testing.T) {
	for url, want := range map[string]string{
		"https://a.example/": "static", "https://a.example/a.html": "static", "https://a.example/a": "static",
		"https://a.example/v1.2": "static", "https://a.example/a.php/b": "static", "https://a.example/a.xml": "static",
		"https://a.example/a.php": "dynamic", "https://a.example/a.CFM": "dynamic", "https://a.example/a.pl?x": "dynamic",
		"https://a.example/a?x=y.html": "dynamic", "https://a.example/cgi.cgi": "dynamic",
		"https://a.example/a.JPG": "noted", "https://a.example/a.tar.gz": "noted", "https://a.example/a.pdf?x": "noted",
	} {
		s := &seed.Seeder{}
		v := s.Admit(seed.Ref{URL: url})
		got := "static"
		if v.Dynamic {
			got = "dynamic"
		}
		if v.LogOnly {
			got = "noted"
		}
		if got != want || !v.OK {
			t.Errorf("%s is %s, want %s; admitted %v", url, got, want, v.OK)
		}
		if v := s.Admit(seed.Ref{URL: url, Kind: seed.Embedded}); v.LogOnly {
			t.Errorf("%s is embedded and wanted, but only logged", url)
		}
		if v := s.Admit(seed.Ref{URL: url, Kind: seed.Listed}); v.LogOnly != (want == "noted" && !strings.Contains(url, ".pdf")) {
			t.Errorf("%s is listed; only logged: %v", url, v.LogOnly)
		}
	}
	s := &seed.Seeder{Rules: seed.Rules{StaticQueries: true, DynamicExt: []string{"html"}, LogExt: []string{}}}
	for url, dynamic := range map[string]bool{"https://a.example/a?b": false, "https://a.example/a.html": true, "https://a.example/a.jpg": false} {
		if v := s.Admit(seed.Ref{URL: url}); v.Dynamic != dynamic || v.LogOnly {
			t.Errorf("%s: dynamic %v, logged %v", url, v.Dynamic, v.LogOnly)
		}
	}
}

// TestWWW: a site and its www twin are one site, under the name that came first (P08),
// unless they were compared and differ (E44).
func TestWWW(t *testing.T) {
	s := &seed.Seeder{}
	name := func(url string) string { return s.Admit(seed.Ref{URL: url}).URL }
	for _, c := range [][2]string{
		{"https://example.org/", "https://example.org/"},
		{"https://www.example.org/a", "https://example.org/a"},
		{"https://www.example.org/a;jsessionid=1", "https://example.org/a"},
		{"http://www.example.org/a", "http://www.example.org/a"}, // another scheme is another site
		{"http://example.org/a", "http://www.example.org/a"},
		{"https://www.example.org:8443/", "https://www.example.org:8443/"},
		{"https://www.www.example.org/", "https://www.www.example.org/"},
		{"http://localhost/", "http://localhost/"},
	} {
		if got := name(c[0]); got != c[1] {
			t.Errorf("%s is %s, want %s", c[0], got, c[1])
		}
	}
	if o := s.Origin("https://www.example.org"); o != "https://example.org" {
		t.Error("the twin's origin is", o)
	}
	s.Split("https://example.org")
	if got := name("https://www.example.org/a"); got != "https://www.example.org/a" {
		t.Error("two sites were merged:", got)
	}

	// A redirect to the twin is not treated as a redirect to the page itself.
	moved := &seed.Seeder{}
	for _, c := range []struct {
		ref  seed.Ref
		want string
	}{
		{seed.Ref{URL: "http://example.org/", Kind: seed.Person}, "http://example.org/"},
		{seed.Ref{URL: "http://www.example.org/"}, "http://example.org/"},
		{seed.Ref{URL: "http://www.example.org/", Kind: seed.Redirect}, "http://www.example.org/"},
		{seed.Ref{URL: "http://www.example.org/"}, "http://www.example.org/"},
		{seed.Ref{URL: "http://example.org/", Kind: seed.Redirect}, "http://example.org/"},
	} {
		if v := moved.Admit(c.ref); v.URL != c.want || !v.OK {
			t.Errorf("%+v is %+v, want %s", c.ref, v, c.want)
		}
	}
	two := &seed.Seeder{Rules: seed.Rules{SplitWWW: true}}
	for _, u := range []string{"https://example.org/", "https://www.example.org/"} {
		if got := two.Admit(seed.Ref{URL: u}).URL; got != u {
			t.Errorf("%s is %s", u, got)
		}
	}
}

func TestReplace(t *testing.T) {
	s := &seed.Seeder{Rules: seed.Rules{Replace: []seed.Replace{
		{Old: "http://old.example/", New: "https://new.example/from-old/"}, {Old: "http://old.example", New: "https://never.example"}}}}
	for url, want := range map[string]string{
		"http://old.example/a?utm_id=1": "https://new.example/from-old/a", "http://old.example": "https://new.example/from-old/",
		"http://older.example/": "http://older.example/",
	} {
		if v := s.Admit(seed.Ref{URL: url}); v.URL != want || !v.OK {
			t.Errorf("%s becomes %s, want %s", url, v.URL, want)
		}
	}
}

// TestLimits: depth by G10 and G11, pages of a site by G04, and the exceptions.
func TestLimits(t *testing.T) {
	s := &seed.Seeder{Rules: seed.Rules{MaxPerSite: 2000}}
	const static, dynamic = "https://a.example/a", "https://a.example/a?b"
	// A site with as many pages at each depth as at the depth before has no end in sight.
	for d := range 40 {
		s.Count("https://a.example", seed.Tally{Depth: d, New: 20, Seen: 100})
		s.Count("https://a.example", seed.Tally{Depth: d, New: 20, Dynamic: true})
	}
	for _, c := range []struct {
		ref  seed.Ref
		rule string
	}{
		{seed.Ref{URL: static, Depth: 15}, ""},
		{seed.Ref{URL: static, Depth: 30}, "depth 30 exceeds the limit 15"},
		{seed.Ref{URL: dynamic, Depth: 5}, ""},
		{seed.Ref{URL: dynamic, Depth: 20}, "depth 20 exceeds the limit 5"},
		{seed.Ref{URL: dynamic, Depth: 20, Kind: seed.Redirect}, "depth 20 exceeds the limit 5"},
		{seed.Ref{URL: dynamic, Depth: 20, Kind: seed.Listed}, ""},
		{seed.Ref{URL: dynamic, Depth: 20, Kind: seed.Person}, ""},
	} {
		if v := s.Admit(c.ref); v.Rule != c.rule || v.OK != (c.rule == "") {
			t.Errorf("%+v: %q, want %q", c.ref, v.Rule, c.rule)
		}
	}
	s.Count("https://a.example", seed.Tally{Depth: -1, New: 400})
	for kind, rule := range map[seed.Kind]string{seed.Link: "limit of 2000 pages per site reached", seed.Listed: "limit of 2000 pages per site reached", seed.Person: ""} {
		if v := s.Admit(seed.Ref{URL: static, Kind: kind}); v.Rule != rule {
			t.Errorf("kind %d at the limit: %q, want %q", kind, v.Rule, rule)
		}
	}
	if v := s.Admit(seed.Ref{URL: "https://b.example/"}); !v.OK {
		t.Error("the limit of one site affects another:", v.Rule)
	}
	none := &seed.Seeder{Rules: seed.Rules{MaxDepthStatic: -1, MaxDepthDynamic: -1, MaxPerSite: -1}}
	none.SetShape("https://a.example", 1<<30, nil)
	if v := none.Admit(seed.Ref{URL: dynamic, Depth: 1 << 20}); !v.OK {
		t.Error("refused without a limit:", v.Rule)
	}
}

// TestRobots: a URL that robots.txt forbids is never admitted (V19), whatever
// named it; and how a missing robots.txt is interpreted.
func TestRobots(t *testing.T) {
	const site = "https://a.example"
	s := &seed.Seeder{Agent: "testbot"}
	if s.Silent(site) == "" {
		t.Error("a site is fetched from before its robots.txt")
	}
	if v := s.Admit(seed.Ref{URL: site + "/private/a"}); !v.OK {
		t.Error("pages are excluded before robots.txt is known:", v.Rule)
	}
	file := []byte("User-agent: testbot\nDisallow: /private/\nDisallow: /*;jsessionid\nCrawl-delay: 3\nUser-agent: *\nDisallow: /\n")
	if !s.SetRobots(site, seed.RobotsAnswer{Status: 200, Body: file}, noon) {
		t.Error("the first file changes nothing")
	}
	if s.SetRobots(site, seed.RobotsAnswer{Status: 200, Body: file}, noon) {
		t.Error("the same file changes something")
	}
	if d := s.Delay(site); d != 3*time.Second || s.Silent(site) != "" {
		t.Errorf("delay %v, silent %q", d, s.Silent(site))
	}
	for _, kind := range []seed.Kind{seed.Link, seed.Redirect, seed.Embedded, seed.Listed, seed.Person} {
		v := s.Admit(seed.Ref{URL: site + "/private/a", Kind: kind})
		if v.OK || v.Rule != "robots.txt: Disallow: /private/" || v.URL == "" {
			t.Errorf("kind %d: %+v", kind, v)
		}
		if v := s.Admit(seed.Ref{URL: site + "/public;jsessionid=1", Kind: kind}); !v.OK {
			t.Errorf("kind %d: forbidden because of a session that would be left out: %+v", kind, v)
		}
		if v := s.Admit(seed.Ref{URL: site + "/public", Kind: kind}); !v.OK {
			t.Errorf("kind %d: %+v", kind, v)
		}
	}
	if rule := s.Forbids(site + "/private/a"); rule != "robots.txt: Disallow: /private/" || s.Forbids(site+"/a") != "" {
		t.Error("forbids:", rule)
	}

	// While it is unavailable, the site gets no requests; its disallowed URLs stay so, and nothing is forgotten.
	if s.SetRobots(site, seed.RobotsAnswer{Status: 503, Since: noon}, noon) {
		t.Error("a failed fetch of robots.txt changes the rules")
	}
	if s.Silent(site) != "robots.txt could not be fetched: status 503" || s.Forbids(site+"/private/a") == "" || s.Forbids(site+"/a") != "" || s.Specials(site) != nil {
		t.Errorf("after 503: silent %q", s.Silent(site))
	}
	for status := range map[int]bool{0: true, 429: true, 500: true, 599: true} {
		if s.SetRobots(site, seed.RobotsAnswer{Status: status, Since: noon}, noon.Add(29*24*time.Hour)); s.Silent(site) == "" {
			t.Errorf("after %d the site is fetched from", status)
		}
	}
	// After a month the last file counts again, if there was one.
	month := noon.Add(seed.Unreachable)
	if s.SetRobots(site, seed.RobotsAnswer{Status: 500, Body: file, Since: noon}, month); s.Silent(site) != "" || s.Forbids(site+"/private/a") == "" {
		t.Error("after a month: silent", s.Silent(site))
	}
	if !s.SetRobots(site, seed.RobotsAnswer{Status: 500, Since: noon}, month) || s.Silent(site) != "" || s.Forbids(site+"/private/a") != "" {
		t.Error("after a month without a file, URLs are still forbidden")
	}
	for _, status := range []int{404, 410, 403, 301} {
		s.SetRobots(site, seed.RobotsAnswer{Status: 200, Body: file}, noon)
		if !s.SetRobots(site, seed.RobotsAnswer{Status: status, Body: []byte("User-agent: *\nDisallow: /")}, noon) || s.Forbids(site+"/private/a") != "" || s.Silent(site) != "" {
			t.Errorf("after %d something is forbidden", status)
		}
		if v := s.Admit(seed.Ref{URL: site + "/private/a"}); !v.OK {
			t.Errorf("after %d: %+v", status, v)
		}
	}

	// The opinion on a URL is cached. Once the robots.txt of its site is known, the URL is judged again.
	image := seed.Ref{URL: "https://b.example/private/a.png"}
	if v := s.Admit(image); !v.OK || !v.LogOnly {
		t.Errorf("an image: %+v", v)
	}
	s.SetRobots("https://b.example", seed.RobotsAnswer{Status: 200, Body: file}, noon)
	image.Kind = seed.Embedded
	if v := s.Admit(image); v.OK {
		t.Errorf("a forbidden image: %+v", v)
	}

	// After a restart, the last file is known and the site is still silent.
	again := &seed.Seeder{Agent: "testbot"}
	again.SetRobots(site, seed.RobotsAnswer{Status: 503, Body: file, Since: noon}, noon.Add(time.Hour))
	if again.Silent(site) == "" || again.Forbids(site+"/private/a") == "" || again.Delay(site) == 0 {
		t.Error("a restart has forgotten the robots.txt")
	}
}

func TestSpecials(t *testing.T) {
	const site = "https://a.example"
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "Sitemap: /s%d.xml\n", i)
	}
	for _, c := range []struct{ file, want string }{
		{"", "manifest? /robots.rdf, sitemap? /sitemap.xml"},
		{"Sitemap: https://a.example/one.xml\nsitemap: two.xml.gz\nSitemap: https://a.example/one.xml\nSitemap: ftp://a.example/\nSitemap: https://cdn.example/a.xml\n",
			"manifest? /robots.rdf, sitemap /one.xml, sitemap /two.xml.gz, sitemap https://cdn.example/a.xml"},
		{"Manifest: /site/robots.rdf\n", "manifest /site/robots.rdf, sitemap? /sitemap.xml"},
		{"User-agent: *\nDisallow: /\nAllow: /robots.rdf$", "manifest? /robots.rdf"},
		{"User-agent: *\nDisallow: /hidden/\nSitemap: /hidden/s.xml", "manifest? /robots.rdf"},
		{many.String(), "101"},
	} {
		s := &seed.Seeder{}
		s.SetRobots(site, seed.RobotsAnswer{Status: 200, Body: []byte(c.file)}, noon)
		var got []string
		for _, x := range s.Specials(site) {
			mark := "?"
			if x.Declared {
				mark = ""
			}
			got = append(got, fmt.Sprintf("%s%s %s", x.Kind, mark, strings.TrimPrefix(x.URL, site)))
		}
		if all := strings.Join(got, ", "); all != c.want && fmt.Sprint(len(got)) != c.want {
			t.Errorf("%q: %s; want %s", c.file, all, c.want)
		}
	}
}

func TestRobotsAgain(t *testing.T) {
	for _, c := range []struct {
		status, fails int
		want          time.Duration
	}{{200, 0, 24 * time.Hour}, {404, 0, 24 * time.Hour}, {503, 1, time.Minute}, {503, 2, 2 * time.Minute}, {0, 11, 1024 * time.Minute}, {0, 1000, 24 * time.Hour}, {429, 0, time.Minute}} {
		if got := seed.RobotsAgain(c.status, c.fails); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestSetRobotsDuringAdmit: once SetRobots has returned, no URL that it forbids is
// admitted, however many calls admit, remember and find concurrently.
func TestSetRobotsDuringAdmit(t *testing.T) {
	const site = "https://a.example"
	s := &seed.Seeder{}
	s.SetRobots(site, seed.RobotsAnswer{Status: 404}, noon)
	var forbidden atomic.Bool
	var g sync.WaitGroup
	for n := range 4 {
		g.Go(func() {
			for i := range 3000 {
				was := forbidden.Load()
				url := fmt.Sprintf("%s/a/%d", site, i%300)
				if v := s.Admit(seed.Ref{URL: url, Kind: seed.Kind(i % 5)}); was && v.OK || v.URL != url {
					t.Errorf("%+v", v)
					return
				}
				s.Count(site, seed.Tally{Depth: i % 4, New: 1})
				if i == 1000 && n == 0 {
					s.SetRobots(site, seed.RobotsAnswer{Status: 200, Body: []byte("User-agent: *\nDisallow: /a/")}, noon)
					forbidden.Store(true)
				}
			}
		})
	}
	g.Wait()
	if !forbidden.Load() {
		t.Error("nothing was forbidden")
	}
}

// The length of a link is limited; a URL that a site lists may be as long as a manifest allows.
func TestLongURLs(t *testing.T) {
	long := "https://a.example/" + strings.Repeat("x/", 1200)
	s := &seed.Seeder{Rules: seed.Rules{Repeats: -1}}
	if v := s.Admit(seed.Ref{URL: long}); v.OK || v.Rule != "URL longer than 2048 bytes" {
		t.Errorf("a link: admitted %v, %q", v.OK, v.Rule)
	}
	if v := s.Admit(seed.Ref{URL: long, Kind: seed.Listed}); !v.OK || s.Excludes(v.URL) != "" {
		t.Errorf("listed: admitted %v, %q, then excluded by %q", v.OK, v.Rule, s.Excludes(v.URL))
	}
	if v := s.Admit(seed.Ref{URL: long + strings.Repeat("x", protocol.MaxURL), Kind: seed.Listed}); v.OK {
		t.Error("listed: a URL longer than any may be")
	}
}
