package accesslog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/accesslog"
)

func TestClassifyAgents(t *testing.T) {
	agents := accesslog.NewAgents()
	for _, c := range []struct {
		agent, name string
		kind        accesslog.Kind
	}{
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot", accesslog.Search},
		{"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot", accesslog.Search},
		{"Googlebot-Image/1.0", "Googlebot-Image", accesslog.Search},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36", "bingbot", accesslog.Search},
		{"msnbot-media/1.1 (+http://search.msn.com/msnbot.htm)", "msnbot", accesslog.Search},
		{"Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)", "Slurp", accesslog.Search},
		{"Sogou web spider/4.0(+http://www.sogou.com/docs/help/webmasters.htm#07)", "Sogou", accesslog.Search},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", "GPTBot", accesslog.AI},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot", "OAI-SearchBot", accesslog.AI},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", "ClaudeBot", accesslog.AI},
		{"CCBot/2.0 (https://commoncrawl.org/faq/)", "CCBot", accesslog.AI},
		{"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", "meta-externalagent", accesslog.AI},
		{"Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)", "Bytespider", accesslog.AI},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)", "PerplexityBot", accesslog.AI},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_10_1) AppleWebKit/600.2.5 (KHTML, like Gecko) Version/8.0.2 Safari/600.2.5 (Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot)", "Amazonbot", accesslog.AI},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)", "Applebot", accesslog.Search},
		{"Mozilla/5.0 (compatible; SemrushBot-BA; +http://www.semrush.com/bot.html)", "SemrushBot", accesslog.SEO},
		{"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "AhrefsBot", accesslog.SEO},
		{"Mozilla/5.0 (compatible; Ezooms/1.0; help@moz.com)", "Ezooms", accesslog.SEO},
		{"Tiny Tiny RSS/1.11 (http://tt-rss.org/)", "Tiny-Tiny-RSS", accesslog.Feed},
		{"Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)", "Feedly", accesslog.Feed},
		{"Mozilla/5.0 (compatible; Miniflux/2.1.0; +https://miniflux.app)", "Miniflux", accesslog.Feed},
		{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "facebookexternalhit", accesslog.Preview},
		{"Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slackbot", accesslog.Preview},
		{"Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "UptimeRobot", accesslog.Monitor},
		{"Mozilla/5.0 (compatible; archive.org_bot +http://www.archive.org/details/archive.org_bot)", "archive.org_bot", accesslog.Archive},
		// Names that are not in the table.
		{"NewFangledBot/0.1", "NewFangledBot", accesslog.OtherBot},
		{"Mozilla/5.0 (Windows; U; Windows NT 5.1; fr; rv:1.8.1) VoilaBot BETA 1.2 (support.voilabot@orange-ftgroup.com)", "VoilaBot", accesslog.OtherBot},
		{"Mozilla/5.0 (compatible; SiteExplorer/1.0b; +http://siteexplorer.info/)", "SiteExplorer", accesslog.OtherBot},
		{"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1;  http://www.changedetection.com/bot.html )", "www.changedetection.com", accesslog.OtherBot},
		{"my robot", "my robot", accesslog.OtherBot},
		{"bot\x1b[31m\xff", "bot?[31m?", accesslog.OtherBot},
		// Programs.
		{"curl/8.5.0", "curl", accesslog.Program},
		{"python-requests/2.32.3", "python-requests", accesslog.Program},
		{"Go-http-client/2.0", "Go-http-client", accesslog.Program},
		{"Something else 1.2", "Something else 1.2", accesslog.Program},
		{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/119.0.0.0 Safari/537.36", "HeadlessChrome", accesslog.Program},
		// People.
		{"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0", "Browsers", accesslog.Browser},
		{"Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.18", "Browsers", accesslog.Browser},
		{"Mozilla/5.0 (Linux; Android 10; CUBOT X20 PRO) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/96.0.4664.104 Mobile Safari/537.36", "Browsers", accesslog.Browser},
		{"Mozilla/5.0 (Java; U; MIDP-2.0) U2/1.0.0 UCBrowser/9.5", "Browsers", accesslog.Browser},
		{"SAMSUNG-GT-E2232/1.0 Openwave/6.2.3 Profile/MIDP-2.0 Configuration/CLDC-1.1", "Browsers", accesslog.Browser},
		{"", "(no user agent)", accesslog.Unnamed},
		{"  ", "(no user agent)", accesslog.Unnamed},
	} {
		got := agents.Identify([]byte(c.agent))
		if got.Name != c.name || got.Kind != c.kind {
			t.Errorf("%s\nis %s, %s; want %s, %s", c.agent, got.Name, got.Kind, c.name, c.kind)
		}
		if again := agents.Identify([]byte(c.agent)); again != got {
			t.Errorf("%s: a second call returns another agent", c.agent)
		}
		if got.Kind.Crawler() != (got.Kind != accesslog.Browser && got.Kind != accesslog.Program && got.Kind != accesslog.Unnamed) {
			t.Errorf("%s: crawler %v", got.Kind, got.Kind.Crawler())
		}
	}
	for agent, hosts := range map[string]string{"Googlebot": "googlebot.com", "bingbot": "search.msn.com", "GPTBot": ""} {
		if got := strings.Join(agents.Identify([]byte(agent)).Hosts, " "); !strings.HasPrefix(got, hosts) || hosts == "" && got != "" {
			t.Errorf("%s is in %q", agent, got)
		}
	}
}

// A client that makes up names does not fill the memory.
func TestAgentNamesAreBounded(t *testing.T) {
	agents := accesslog.NewAgents()
	ids := map[int]string{}
	for i := range 200_000 {
		a := agents.Identify(fmt.Appendf(nil, "x%dbot/1.0", i))
		ids[a.ID] = a.Name
	}
	if len(ids) > 2002 {
		t.Errorf("%d names", len(ids))
	}
	if a := agents.Identify([]byte("GPTBot")); a.Name != "GPTBot" {
		t.Errorf("after many other names GPTBot is %s", a.Name)
	}
}

func TestImportance(t *testing.T) {
	c := accesslog.NewCounts()
	add := func(n int, method, target, agent string, status int) {
		for range n {
			c.Add(&accesslog.Entry{Method: []byte(method), Target: []byte(target), Agent: []byte(agent), Status: status})
		}
	}
	const person = "Mozilla/5.0 (X11) Firefox/130.0"
	add(900, "GET", "/?from=mail", person, 200)
	add(99, "HEAD", "https://example.org/", person, 304)
	add(30, "GET", "/a.html", person, 200)
	add(1, "GET", "/b.html#x", person, 200)
	add(50, "GET", "/a.html", "Googlebot/2.1", 200) // no person
	add(50, "GET", "/c.html", person, 404)
	add(50, "POST", "/b.html", person, 200)
	for path, want := range map[string]struct {
		n          int
		importance uint8
	}{"/": {999, 100}, "/a.html": {30, 50}, "/b.html": {1, 10}, "/c.html": {0, 0}} {
		if c.Of(path) != want.n || c.Importance(path) != want.importance {
			t.Errorf("%s: %d requests, importance %d; want %+v", path, c.Of(path), c.Importance(path), want)
		}
	}
	common := accesslog.NewCounts()
	common.Add(&accesslog.Entry{Method: []byte("GET"), Target: []byte("/a"), Status: 200, NoAgent: true})
	if common.Of("/a") != 1 || common.Importance("/a") != 100 {
		t.Errorf("without agents: %d, %d", common.Of("/a"), common.Importance("/a"))
	}
}

// Past the bound, frequently requested paths are still counted, within the stated error.
func TestPathCountsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("counts a million paths")
	}
	c := accesslog.NewCounts()
	r := rand.New(rand.NewPCG(1, 2))
	truth := map[string]int{}
	e := accesslog.Entry{Method: []byte("GET"), Agent: []byte("Mozilla/5.0 (X)"), Status: 200}
	for i := range 1_400_000 {
		e.Target = fmt.Appendf(e.Target[:0], "/once/%d", i)
		if i%5 == 0 {
			e.Target = fmt.Appendf(e.Target[:0], "/often/%d", r.IntN(100))
			truth[string(e.Target)]++
		}
		c.Add(&e)
	}
	if c.Missed() == 0 || c.Missed() > 10 {
		t.Errorf("misses %d", c.Missed())
	}
	for path, n := range truth {
		if got := c.Of(path); got > n || got < n-c.Missed() {
			t.Errorf("%s: %d of %d, by at most %d", path, got, n, c.Missed())
		}
	}
}
