package browse_test

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/browse"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
const safari = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15"

// line is a line of a log: a request at a number of seconds, "/a.html" for a GET with status 200, or such as "POST /a 302".
func line(second int, addr, request, referrer, agent string) string {
	words, at := strings.Fields(request), time.Unix(1_700_000_000+int64(second), 0).UTC()
	if len(words) == 1 {
		words = []string{"GET", words[0], "200"}
	}
	if strings.HasPrefix(referrer, "/") {
		referrer = "http://www.site.example" + referrer
	}
	return fmt.Sprintf("%s - - [%s] \"%s %s HTTP/1.1\" %s 100 \"%s\" \"%s\"\n", addr, at.Format("02/Jan/2006:15:04:05 -0700"), words[0], words[1], words[2], referrer, agent)
}

// visitsOf reads a log. Another visitor goes from page to page of the site first, so that it is known which referrers are its own.
func visitsOf(t testing.TB, text string) *browse.Visits {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	for i := range 9 {
		text = line(-9000+i, "198.51.100.1", fmt.Sprintf("/p%d", i), "/p"+fmt.Sprint(i+1), safari) + text
	}
	must.Write(t, name, text)
	files := must.Get(accesslog.Open([]string{name}, nil))
	defer files.Close()
	return must.Get(browse.ReadLog(context.Background(), files))
}

// Each rule of Castillo 2004, section 5.3, and what else decides where sessions begin and end, on a log that a person can read: what
// levels come out.
func TestRulesForLogs(t *testing.T) {
	others := visitsOf(t, "")
	get := func(second int, request, referrer string) string {
		return line(second, "192.0.2.1", request, referrer, firefox)
	}
	for _, c := range []struct {
		rule   string
		log    []string
		levels string // of the views of each session
	}{
		{"a session follows links", []string{get(0, "/", "https://search.example/"), get(9, "/a.html", "/"), get(99, "/b.html", "/a.html")}, "0 1 2"},
		{"by address, then by time", []string{get(0, "/", "-"), line(1, "192.0.2.2", "/x", "-", firefox), get(30, "/b", "/a"), get(20, "/a", "/"), line(5, "192.0.2.2", "/y", "/x", firefox)},
			"0 1 2; 0 1"},
		{"only by GET", []string{get(0, "/", "-"), get(9, "POST /send.php 200", "/"), get(10, "HEAD /a 200", "/")}, "0"},
		{"only what was there", []string{get(0, "/", "-"), get(9, "GET /old 301", "/"), get(10, "GET /gone 404", "/"), get(11, "GET /new 304", "/")}, "0 1"},
		{"HTML and documents", []string{get(0, "/", "-"), get(2, "/logo.png", "/"), get(3, "/style.css", "/"), get(9, "/paper.PDF", "/"), get(20, "/thesis.ps", "/paper.PDF"),
			get(30, "/list.php?page=2", "/thesis.ps"), get(40, "/v1.2", "/list.php?page=2"), get(50, "/song.mp3", "/v1.2")}, "0 1 2 3 4"},
		{"30 minutes", []string{get(0, "/", "-"), get(1800, "/a", "/"), get(3601, "/b", "-")}, "0 1; 0"},
		{"30 minutes without a view", []string{get(0, "/", "-"), get(1500, "GET /gone 404", "-"), get(3000, "/a", "-")}, "0; 0"},
		{"another user agent", []string{get(0, "/", "-"), line(5, "192.0.2.1", "/a", "-", safari), get(9, "/b", "-")}, "0; 0; 0"},
		{"from another site", []string{get(0, "/", "-"), get(5, "/a", "/"), get(60, "/b", "https://search.example/?q=b")}, "0 1; 0"},
		{"reloads count once", []string{get(0, "/", "https://search.example/"), get(9, "/", "https://search.example/"), get(12, "/index.html", "-"), get(20, "/a", "/"), get(25, "GET /a 304", "/")}, "0 1"},
		{"frames are one page", []string{get(0, "/frames.html", "-"), get(0, "/menu.html", "/frames.html"), get(1, "/body.html", "/frames.html"), get(20, "/a", "/menu.html")}, "0 1"},
		{"no Web applications", []string{get(0, "/", "-"), get(5, "/webmail/inbox", "/"), get(9, "/wp-admin/post.php?post=4", "/"), get(20, "/a", "/wp-admin/post.php?post=4")}, "0 1"},
		{"back and on: a view from the cache", []string{get(0, "/", "-"), get(9, "/a", "/"), get(20, "/b", "/"), get(30, "/c", "/b"), get(40, "/d", "/")},
			"0 1 0 1 2 0 1"},
		{"a page of the site that was not seen", []string{get(0, "/a", "/hidden"), get(20, "/b", "/a")}, "0 1 2"},
		{"level of the first sight", []string{get(0, "/", "-"), get(5, "/a", "/"), get(9, "/b", "/a"), get(20, "/a", "/b"), get(30, "/", "/a")}, "0 1 2 1 0"},
		{"robots that ask for robots.txt, also later", []string{get(0, "/", "-"), get(5, "/a", "/"), get(9, "/robots.txt", "-"), line(9, "192.0.2.1", "/a", "-", safari)}, "0"},
		{"robots by name, and programs", []string{line(0, "192.0.2.3", "/", "-", "Googlebot/2.1"), line(1, "192.0.2.4", "/", "-", "curl/8.0"), line(2, "192.0.2.5", "/", "-", "-")}, ""},
		{"scanners, by what they look for", []string{get(0, "/", "-"), line(2, "192.0.2.1", "GET /../../etc/passwd 400", "-", "x"), get(5, "/a", "/")}, ""},
		{"scanners, by their failures", []string{get(0, "/", "-"), strings.Repeat(get(1, "GET /admin.php 404", "-"), 10)}, ""},
		{"dead links and missing images are no scan", []string{get(0, "/", "-"), strings.Repeat(get(1, "GET /gone 404", "/"), 9), strings.Repeat(get(1, "GET /favicon.ico 404", "/"), 90)}, "0"},
		{"too long to be true", []string{get(0, "/", "-"), get(1, "GET /"+strings.Repeat("x", 3000)+" 414", "-")}, ""},
	} {
		l := visitsOf(t, strings.Join(c.log, ""))
		want := &browse.Visits{Levels: slices.Clone(others.Levels)}
		for session := range strings.SplitSeq(c.levels, "; ") {
			var levels []int
			for _, level := range strings.Fields(session) {
				levels = append(levels, int(level[0]-'0'))
			}
			if len(levels) > 0 {
				want.Add(levels)
			}
		}
		if l.Sessions-others.Sessions != want.Sessions || l.Views-others.Views != want.Views || !slices.Equal(l.Levels, want.Levels) {
			t.Errorf("%s: %d sessions, %d views, %+v; want %d, %d, %+v", c.rule, l.Sessions-others.Sessions, l.Views-others.Views, l.Levels, want.Sessions, want.Views, want.Levels)
		}
	}
}

// Requests may be out of order by half an hour. If the time goes back further, as between the logs of two years, sessions end there.
func TestOrderOfLogs(t *testing.T) {
	get := func(second int, page, referrer string) string {
		return line(second, "192.0.2.1", page, referrer, firefox)
	}
	l := visitsOf(t, get(1000, "/", "-")+get(900, "/x", "-")+get(2000, "/a", "/")+get(-500_000, "/b", "/a")+get(-500_000+60, "/c", "/b"))
	others := visitsOf(t, "")
	if l.Sessions-others.Sessions != 2 || l.LeftOut.Backwards != 1 || l.Views-others.Views != 6 || l.LeftOut.Added-others.LeftOut.Added != 1 {
		t.Errorf("%d sessions, %d views: %+v", l.Sessions-others.Sessions, l.Views-others.Views, l.LeftOut)
	}
}

// A client that requests 10,000 pages without a pause has more sessions, and does not fill the memory.
func TestBoundOfAClient(t *testing.T) {
	var text strings.Builder
	for i := range 25_000 {
		text.WriteString(line(i/100, "192.0.2.1", fmt.Sprintf("/page/%d", i), "-", firefox))
	}
	if l := visitsOf(t, text.String()); l.LeftOut.Early != 2 || len(l.Levels) != 10_000 || l.Views < 25_000 {
		t.Errorf("%d sessions, %d views, %d levels: %+v", l.Sessions, l.Views, len(l.Levels), l.LeftOut)
	}
}

// Entry pages by the depth of their directory (figure 5.16).
func TestEntryPagesByDirectory(t *testing.T) {
	var text string
	for i, page := range []string{"/", "/index.html", "/?from=mail", "/a.html", "/a.html", "/docs/", "/docs/b/c.html#d", "/" + strings.Repeat("d/", 50)} {
		text += line(60*i, fmt.Sprintf("192.0.2.%d", i), page, "-", firefox) + line(60*i+5, fmt.Sprintf("192.0.2.%d", i), "/docs/e.html", page, firefox)
	}
	l, others := visitsOf(t, text), visitsOf(t, "")
	d := others.Dirs[0]
	want := map[int]browse.Dir{0: {Pages: d.Pages + 3, Entries: d.Entries + 3, Sessions: d.Sessions + 5}, 1: {Pages: 2, Entries: 1, Sessions: 1}, 2: {Pages: 1, Entries: 1, Sessions: 1}, 32: {Pages: 1, Entries: 1, Sessions: 1}}
	for depth, got := range l.Dirs {
		if got != want[depth] {
			t.Errorf("depth %d: %+v, want %+v", depth, got, want[depth])
		}
	}
	if l.Home-others.Home != 3 || len(l.Dirs) != 33 {
		t.Errorf("%d sessions begin with the home page; %d depths", l.Home-others.Home, len(l.Dirs))
	}
}

// Four days of a real site, whose log is not quite in order: as many sessions as a second count finds that sorts all of it, by address and
// then by time, but for two of a robot that shows itself days later. Most sessions are of one page, more than in the paper, and few go deep.
func TestSessionsOfARealLog(t *testing.T) {
	open := func() *accesslog.Files {
		files := must.Get(accesslog.Open([]string{machine.Data(t, "logs", "semicomplete-2015-05.access.log.zst")}, nil))
		t.Cleanup(func() { files.Close() })
		return files
	}
	l := must.Get(browse.ReadLog(t.Context(), open()))
	type request struct {
		addr, agent, page, referrer string
		at                          int64
	}
	var list []request
	robots, agents, files := map[string]bool{}, accesslog.NewAgents(), open()
	for e := files.Next(); e != nil; e = files.Next() {
		path := string(accesslog.Path(e.Target))
		if path == "/robots.txt" {
			robots[string(e.Addr)+string(e.Agent)] = true
		}
		ext := strings.ToLower(filepath.Ext(path))
		if page := slices.Contains([]string{"", ".html", ".xhtml", ".php", ".py", ".rb", ".pdf", ".doc"}, ext) || len(ext) > 6 || strings.Trim(ext, ".0123456789") == ""; page && string(e.Method) == "GET" &&
			slices.Contains([]int{200, 206, 304}, e.Status) && agents.Identify(e.Agent).Kind == accesslog.Browser {
			list = append(list, request{string(e.Addr), string(e.Agent), strings.Replace(string(e.Target), "index.html", "", 1), string(e.Referer), e.Unix})
		}
	}
	list = slices.DeleteFunc(list, func(r request) bool { return robots[r.addr+r.agent] })
	slices.SortStableFunc(list, func(a, b request) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.at, b.at)) })
	sessions := int64(0)
	for i, r := range list {
		outside := r.referrer != "-" && r.referrer != "" && !strings.HasPrefix(strings.Replace(r.referrer, "www.", "", 1), "http://semicomplete.com")
		last := list[max(0, i-1)]
		if i == 0 || last.addr != r.addr || last.agent != r.agent || r.at-last.at > 1800 || outside && last.page != r.page {
			sessions++
		}
	}
	if l.Sessions != sessions+2 || float64(l.Single) < .6*float64(sessions) || l.Depth() > 1 || l.Views < l.Sessions+l.LeftOut.Added {
		t.Errorf("%d sessions, %d by the second count; %d of one page; length %.3f, depth %.3f; %+v", l.Sessions, sessions, l.Single, l.Length(), l.Depth(), l.LeftOut)
	}
}

func FuzzLog(f *testing.F) {
	f.Add("/a?b#c", "http://www.site.example/", firefox)
	f.Add("http://x/..%2f", "://", "")
	f.Fuzz(func(t *testing.T, target, referrer, agent string) {
		l := visitsOf(t, strings.Replace(line(0, "192.0.2.1", "/TARGET", referrer, agent), "/TARGET", target, 1)+line(9, "192.0.2.1", "/a", target, agent))
		views, entries := 0., int64(0)
		for _, a := range l.Levels {
			views += a.Sum()
		}
		for _, d := range l.Dirs {
			entries += d.Sessions
		}
		if views != float64(l.Views) || entries != l.Sessions {
			t.Errorf("%+v", l)
		}
	})
}
