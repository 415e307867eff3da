package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// build returns the report for a log.
func build(t testing.TB, log string, o report.Options) *report.Report {
	t.Helper()
	files := must.Get(accesslog.Open([]string{"-"}, strings.NewReader(log)))
	defer files.Close()
	return must.Get(report.Build(t.Context(), files, o))
}

func small(t testing.TB) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join("testdata", "small.log"))))
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		must.Write(t, name, got)
	}
	want := must.Get(os.ReadFile(name))
	if got != string(want) {
		t.Errorf("%s: run the test with -update if this is right:\n%s", name, got)
	}
}

func TestReportMatchesGoldenFiles(t *testing.T) {
	r := build(t, small(t), report.Options{})
	var text bytes.Buffer
	must.OK(t, r.WriteText(&text, 0))
	golden(t, "small.txt", text.String())
	for i, line := range strings.Split(text.String(), "\n") {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("line %d has %d columns: %s", i+1, n, line)
		}
	}
	b := must.Get(json.MarshalIndent(r, "", "  "))
	golden(t, "small.json", string(b)+"\n")
}

// saved returns the saving by the given way.
func saved(t *testing.T, list []report.Saving, way string) report.Saving {
	t.Helper()
	for _, s := range list {
		if s.Way == way {
			return s
		}
	}
	t.Fatalf("no %s", way)
	return report.Saving{}
}

func crawler(t *testing.T, r *report.Report, name, claim string) report.Crawler {
	t.Helper()
	for _, c := range r.Crawlers {
		if c.Name == name && c.Claim == claim {
			return c
		}
	}
	t.Fatalf("no %s, %s", name, claim)
	return report.Crawler{}
}

// The small log's figures, counted by hand.
func TestFiguresOfSmallLog(t *testing.T) {
	r := build(t, small(t), report.Options{Ranges: map[string][]netip.Prefix{"GOOGLEBOT": {netip.MustParsePrefix("66.249.64.0/19")}}})
	g := crawler(t, r, "Googlebot", report.Verified)
	if g.Requests != 13 || g.Bytes != 2*120+5000+7000+9000+300+5100+9000+300+7200+100+9000 || g.Days != 3 {
		t.Errorf("Googlebot: %+v", g)
	}
	want := report.Reading{
		Pages: 4, Reads: report.Traffic{Requests: 9, Bytes: 2*120 + 5000 + 5100 + 7000 + 7200 + 3*9000},
		Same:      report.Traffic{Requests: 3, Bytes: 120 + 2*9000}, // robots.txt, and b.html twice
		Different: report.Traffic{Requests: 2, Bytes: 5100 + 7200},
		// No other client requested robots.txt and b.html.
		NotModified: 1, GoneAgain: report.Traffic{Requests: 1, Bytes: 300},
	}
	if g.Reading != want {
		t.Errorf("Googlebot:\n%+v\nwant\n%+v", g.Reading, want)
	}
	if f := crawler(t, r, "Googlebot", report.False); f.Requests != 1 || f.Same.Requests != 0 || saved(t, f.Savings, report.Push).AtMost.Requests != 0 {
		t.Errorf("not Googlebot: %+v", f)
	}
	// S is 2 without robots.txt, N 1, G 1, and it came on 3 days.
	for way, want := range map[string]report.Saving{
		report.Heal:     {Way: report.Heal, AtMost: report.Traffic{Bytes: 120 + 18000}, Today: report.Traffic{Bytes: 120 + 18000}},
		report.Sitemap:  {Way: report.Sitemap},
		report.Manifest: {Way: report.Manifest, AtMost: report.Traffic{Requests: 1, Bytes: 18300}, Costs: 3},
		report.Push:     {Way: report.Push, AtMost: report.Traffic{Requests: 4, Bytes: 18300}},
	} {
		if got := saved(t, g.Savings, way); got != want {
			t.Errorf("Googlebot, %s: %+v, want %+v", way, got, want)
		}
	}
	// GPTBot fetched a.html again between Firefox's 200 and 304: an unnecessary fetch.
	p := crawler(t, r, "GPTBot", report.Claimed)
	if p.Unchanged != (report.Traffic{Requests: 1, Bytes: 7000}) || p.Same != (report.Traffic{Requests: 3, Bytes: 23000}) || p.GoneAgain.Requests != 1 {
		t.Errorf("GPTBot: %+v", p.Reading)
	}
	// S is 3, and it came on 2 days; no 304, so nothing today.
	if h, s := saved(t, p.Savings, report.Heal), saved(t, p.Savings, report.Sitemap); h.AtMost.Bytes != 23000 || h.Today.Bytes != 0 || s.AtMost != (report.Traffic{Requests: 1, Bytes: 23000}) || s.Today.Requests != 0 {
		t.Errorf("GPTBot: %+v, %+v", h, s)
	}
	// A feed reader saves by push alone, and a monitor saves nothing.
	if f := crawler(t, r, "Feedly", report.Claimed); saved(t, f.Savings, report.Sitemap).AtMost.Requests != 0 || saved(t, f.Savings, report.Push).Today != (report.Traffic{Requests: 2, Bytes: 4000}) {
		t.Errorf("Feedly: %+v", f.Savings)
	}
	if u := crawler(t, r, "UptimeRobot", report.Claimed); u.Same.Requests != 1 || saved(t, u.Savings, report.Heal).AtMost.Bytes != 0 {
		t.Errorf("UptimeRobot: %+v", u)
	}
	if len(r.Days) != 4 || r.Days[2] != (report.Day{Date: "2026-10-07"}) {
		t.Errorf("days: %+v", r.Days)
	}
}

// For any log, the totals are the sums of their parts.
func TestTotalsAreSumsOfParts(t *testing.T) {
	r := build(t, small(t)+hostile, report.Options{})
	check(t, r)
}

// check checks the invariants of every report.
func check(t *testing.T, r *report.Report) {
	t.Helper()
	var groups, hours, days, crawlers, ours report.Traffic
	var kinds report.Traffic
	add := func(sum *report.Traffic, t report.Traffic) { sum.Requests += t.Requests; sum.Bytes += t.Bytes }
	for _, g := range r.Groups {
		add(&groups, g.Traffic)
		if g.Name == report.Crawlers {
			ours = g.Traffic
		}
	}
	for _, k := range r.Kinds {
		add(&kinds, k.Traffic)
	}
	for _, h := range r.Hours {
		add(&hours, h.Traffic)
	}
	for _, d := range r.Days {
		add(&days, d.Traffic)
	}
	status := int64(0)
	for _, n := range r.Status {
		status += n
	}
	for _, c := range r.Crawlers {
		add(&crawlers, c.Traffic)
		n, hours := int64(0), int64(0)
		for _, k := range c.Status {
			n += k
		}
		for _, k := range c.Hours {
			hours += k
		}
		if n != c.Requests || hours != c.Requests {
			t.Errorf("%s: %d requests by status, %d by hour, of %d", c.Name, n, hours, c.Requests)
		}
		if c.Reads.Requests > c.Status[200] || c.Same.Requests+c.Different.Requests+c.Pages < c.Reads.Requests || c.Unchanged.Requests > c.Same.Requests ||
			c.Unchanged.Bytes > c.Same.Bytes || c.Contrary > c.Different.Requests || c.NotModified > c.Status[304] {
			t.Errorf("%s: %+v", c.Name, c.Reading)
		}
		for _, s := range c.Savings {
			if s.Today.Requests > s.AtMost.Requests || s.Today.Bytes > s.AtMost.Bytes || s.AtMost.Requests > c.Requests || s.AtMost.Bytes > c.Bytes {
				t.Errorf("%s: %+v", c.Name, s)
			}
		}
	}
	for name, got := range map[string]report.Traffic{"groups": groups, "hours": hours, "days": days} {
		if got != r.Total {
			t.Errorf("%s: %+v of %+v", name, got, r.Total)
		}
	}
	if crawlers != ours || kinds != ours || status != r.Total.Requests {
		t.Errorf("crawlers %+v, kinds %+v, of %+v; %d by status", crawlers, kinds, ours, status)
	}
}

const hostile = `192.0.2.1 - - [05/Oct/2026:14:03:09 +0200] "GET /\x1b[31m<b>\xe2\x80\xae</b> HTTP/1.1" 200 7 "-" "evil\x07<script>bot"
192.0.2.1 - - [05/Oct/2026:14:03:10 +0200] "GET /\x1b[31m<b>\xe2\x80\xae</b> HTTP/1.1" 200 7 "-" "evil\x07<script>bot"
192.0.2.1 - - [01/Jan/1970:00:00:00 +2359] "GET / HTTP/1.1" 200 1125899906842624 "-" "Googlebot"
192.0.2.1 - - [31/Dec/9999:23:59:59 -2359] "GET / HTTP/1.1" 200 1125899906842624 "-" "Googlebot"
\x16 - - [05/Oct/2026:14:03:10 +0200] "\x16\x03\x01" 400 7 "-" "-"
`

// Text from strangers can control neither a terminal nor HTML.
func TestHostileTextIsEscaped(t *testing.T) {
	var text bytes.Buffer
	must.OK(t, build(t, hostile, report.Options{}).WriteText(&text, 0))
	if bad := regexp.MustCompile(`[^\n -~\x{FFFD}]`).FindString(text.String()); bad != "" {
		t.Errorf("there is %q in\n%s", bad, text.String())
	}
}

// The same requests in other log formats give the same report.
func TestAllFormatsGiveSameReport(t *testing.T) {
	text := small(t)
	want := build(t, text, report.Options{})
	form := regexp.MustCompile(`(?m)^(\S+) - - \[([^]]+)\] "(\S+) (.+) HTTP/1.1" (\d+) (\S+) "-" "(.*)"$`)
	hour := func(s string) time.Time {
		return must.Get(time.Parse("02/Jan/2006:15:04:05 -0700", s))
	}
	for name, line := range map[string]func(m []string) string{
		"virtual host": func(m []string) string { return "www.example.org:443 " + m[0] },
		"nginx": func(m []string) string {
			return fmt.Sprintf(`{"time_local":"%s","remote_addr":"%s","request":"%s %s HTTP/1.1","status":"%s","body_bytes_sent":"%s","http_user_agent":"%s"}`, m[2], m[1], m[3], m[4], m[5], m[6], m[7])
		},
		"nginx, apart": func(m []string) string {
			return fmt.Sprintf(`{"time_iso8601":"%s","remote_addr":"%s","request_method":"%s","request_uri":"%s","status":%s,"body_bytes_sent":%s,"http_user_agent":"%s"}`,
				hour(m[2]).Format(time.RFC3339), m[1], m[3], m[4], m[5], m[6], m[7])
		},
		"Caddy": func(m []string) string {
			return fmt.Sprintf(`{"level":"info","ts":%d.25,"request":{"remote_ip":"%s","method":"%s","host":"www.example.org","uri":"%s","headers":{"User-Agent":["%s"]}},"size":%s,"status":%s}`,
				hour(m[2]).Unix(), m[1], m[3], m[4], m[7], m[6], m[5])
		},
	} {
		var log strings.Builder
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			log.WriteString(line(m) + "\n")
		}
		got := build(t, log.String()+"this line is broken\n", report.Options{Zone: time.FixedZone("as logged", 2*60*60)})
		got.Log, got.From, got.To = want.Log, want.From, want.To
		for i := range got.Pages {
			got.Pages[i].URL = strings.TrimPrefix(got.Pages[i].URL, "www.example.org")
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Errorf("%s:\n%s\nwant\n%s", name, b, a)
		}
	}
}

func TestSinceUntilZone(t *testing.T) {
	at := func(s string) time.Time {
		return must.Get(time.Parse(time.RFC3339, s))
	}
	all := build(t, small(t), report.Options{})
	r := build(t, small(t), report.Options{Since: at("2026-10-06T00:00:00+02:00"), Until: at("2026-10-06T23:59:59+02:00")})
	if r.Total.Requests != 15 || r.Log.Outside != all.Total.Requests-15 {
		t.Errorf("of one day: %+v, %d outside", r.Total, r.Log.Outside)
	}
	tokyo := time.FixedZone("Tokyo", 9*60*60)
	r = build(t, small(t), report.Options{Zone: tokyo})
	if r.Zone != "Tokyo" || r.Hours[7].Requests != all.Hours[0].Requests || r.Days[0].Date != "2026-10-05" || r.From.Location() != tokyo {
		t.Errorf("in Tokyo: %v, %+v", r.From, r.Hours)
	}
	// Where the log's time zone changes, hours are local clock hours.
	dst := "a - - [25/Oct/2026:02:30:00 +0200] \"GET / HTTP/1.1\" 200 1 \"-\" \"Googlebot\"\n" +
		"a - - [25/Oct/2026:02:30:00 +0100] \"GET / HTTP/1.1\" 200 1 \"-\" \"Googlebot\"\n"
	if r = build(t, dst, report.Options{}); r.Hours[2].Requests != 2 || r.To.Sub(r.From) != time.Hour {
		t.Errorf("%+v", r.Hours)
	}
}

func TestUnusableLogsAreErrors(t *testing.T) {
	for _, c := range []struct {
		log, want string
		o         report.Options
	}{
		{"", "the logs are empty", report.Options{}},
		{"a\nb\n", "none of 2 lines is in a supported format", report.Options{}},
		{small(t), "outside the requested period", report.Options{Since: time.Now().AddDate(100, 0, 0)}},
		{small(t), "the list is empty", report.Options{Ranges: map[string][]netip.Prefix{"x": nil}}},
	} {
		files := must.Get(accesslog.Open([]string{"-"}, strings.NewReader(c.log)))
		defer files.Close()
		if _, err := report.Build(t.Context(), files, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %s", c.log, err, c.want)
		}
	}
	files := must.Get(accesslog.Open([]string{"-"}, strings.NewReader(small(t))))
	defer files.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := report.Build(ctx, files, report.Options{}); !errors.Is(err, ctx.Err()) {
		t.Errorf("cancelled: %v", err)
	}
}

// The common format has no user agents.
func TestLogWithoutUserAgents(t *testing.T) {
	r := build(t, "a.example - - [05/Oct/2026:14:03:09 +0200] \"GET / HTTP/1.0\" 200 7\n", report.Options{})
	if r.Log.NoAgent != 1 || len(r.Crawlers) != 0 || !strings.Contains(fmt.Sprint(r.Method), "without a user agent") {
		t.Errorf("%+v", r)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text, 0); err != nil || !strings.Contains(text.String(), "No crawler was recognized by its user agent.") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// If a log has more URLs than the limit, the report states what may be missing, and that bound is correct.
func TestLimitsAreReportedAsBounds(t *testing.T) {
	log := simulate(t, 7, false).log
	exact := build(t, log, report.Options{Top: 1000})
	if !exact.Limits.Exact() || exact.All.Same.Requests < 500 {
		t.Fatalf("exact: %+v, %+v", exact.Limits, exact.All)
	}
	bound := build(t, log, report.Options{Top: 1000, MaxURLs: 20})
	check(t, bound)
	l := bound.Limits
	if l.Exact() || l.Forgotten < 20 || !strings.Contains(fmt.Sprint(bound.Method), "more different URLs than the 20") {
		t.Fatalf("bound: %+v", l)
	}
	if bound.Total != exact.Total || !maps.Equal(bound.Status, exact.Status) || bound.Hours != exact.Hours || bound.All.Reads != exact.All.Reads || bound.All.NotModified != exact.All.NotModified {
		t.Error("an exact figure differs with and without the limit")
	}
	again := func(r *report.Report) int64 { return r.All.Same.Requests + r.All.Different.Requests }
	if again(bound) > again(exact) || again(bound) < again(exact)-l.RereadsBy || bound.All.Unchanged.Requests > exact.All.Unchanged.Requests {
		t.Errorf("read again %d of %d, by at most %d; unchanged %d of %d", again(bound), again(exact), l.RereadsBy, bound.All.Unchanged.Requests, exact.All.Unchanged.Requests)
	}
	truth := map[string]int64{}
	for _, p := range exact.Pages {
		truth[p.URL] = p.Requests
	}
	for _, p := range bound.Pages {
		if p.Requests > truth[p.URL] || p.Requests < truth[p.URL]-l.LowBy {
			t.Errorf("%s: %d requests of %d, by at most %d", p.URL, p.Requests, truth[p.URL], l.LowBy)
		}
	}
}
