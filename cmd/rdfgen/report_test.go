package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/report"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// reported runs rdfgen report and checks its exit code.
func reported(t *testing.T, code int, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	if got := command.Main(t.Context(), reportCommand, args, strings.NewReader(stdin), &out, &errs); got != code {
		t.Errorf("report %q: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// asked returns a line of an access log.
func asked(day, addr, path, agent string) string {
	return addr + ` - - [` + day + `/Oct/2026:14:03:09 +0200] "GET ` + path + ` HTTP/1.1" 200 5120 "-" "` + agent + "\"\n"
}

// An admin runs it on rotated logs and gets the report.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	var old bytes.Buffer
	w := coding.NewGzip(&old)
	must.Get(w.Write([]byte(asked("05", "66.249.66.1", "/a.html", "Googlebot/2.1") + asked("05", "192.0.2.7", "/a.html", "Mozilla/5.0 (X11)"))))
	must.OK(t, w.Close())
	today := asked("06", "66.249.66.1", "/a.html", "Googlebot/2.1") + asked("07", "192.0.2.9", "/a.html", "Googlebot/2.1") + "what is this?\n"
	ranges := `{"prefixes":[{"ipv4Prefix":"66.249.64.0/19"}]}`
	for name, text := range map[string]string{"access.log": today, "access.log.1.gz": old.String(), "googlebot.json": ranges} {
		must.Write(t, filepath.Join(dir, name), text)
	}
	logs := filepath.Join(dir, "access.log*")
	out, said := reported(t, 0, "", "--log", logs)
	for _, want := range []string{
		"5 Oct 2026 14:03 to 7 Oct 2026 14:03 (+0200)\n4 requests and 20.5 kB sent in 3 days, from 2 files (combined)\n",
		"\nGooglebot                              3  75.0 %    15.4 kB        1        2          2     0\n",
		"1 of 5 lines could not be read", "HOW THE FIGURES WERE OBTAINED\nmeasured ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	expanded, _ := reported(t, 0, "", "--log", filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1.gz"))
	if expanded != out {
		t.Errorf("with the files that the shell found:\n%s", expanded)
	}
	if said != "" {
		t.Errorf("output %q", said)
	}

	var r report.Report
	out, said = reported(t, 0, "", "--log", logs, "--json", "--ranges", "Googlebot,elsebot="+filepath.Join(dir, "googlebot.json"), "--since", "2026-10-05T14:03:10+02:00")
	must.OK(t, json.Unmarshal([]byte(out), &r))
	if r.Total.Requests != 2 || r.Log.Outside != 2 || len(r.Crawlers) != 2 || r.Crawlers[0].Claim != report.False || r.Crawlers[1].Claim != report.Verified {
		t.Errorf("%s", out)
	}
	if !strings.Contains(said, "ranges=elsebot") || strings.Contains(said, "googlebot") {
		t.Errorf("output %q", said)
	}

	page := filepath.Join(dir, "report.html")
	for range 2 { // the second replaces the first
		if out, said = reported(t, 0, today, "--log", "-", "--html", page); out+said != "" {
			t.Errorf("output %q", out+said)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.HasPrefix(string(text), "<!doctype html>") || !strings.Contains(string(text), "from standard input") {
		t.Errorf("%v: %.100s", err, text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".report-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Most of what crawlers request are sorted copies of a few lists. The admin reads that first, copies the lines to robots.txt, and
// they forbid just those copies; unless the site publishes one.
func TestReportSaysWhatToDoFirst(t *testing.T) {
	dir := t.TempDir()
	line := func(path string, size int, agent string) string {
		return fmt.Sprintf("192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] \"GET %s HTTP/1.1\" 200 %d \"-\" \"%s\"\n", path, size, agent)
	}
	var log strings.Builder
	var pages, copies []string
	for i := range 300 {
		if i < 30 {
			pages = append(pages, fmt.Sprintf("/lists/%d", i), fmt.Sprintf("/page?id=%d", i))
			log.WriteString(line(pages[2*i], 9000+i, "Googlebot/2.1") + line(pages[2*i+1], 4000+i, "Googlebot/2.1"))
		}
		copies = append(copies, fmt.Sprintf("/lists/%d?sort=%d", i%30, i))
		log.WriteString(line(copies[i], 9000+i%30, "Googlebot/2.1"))
	}
	log.WriteString(line("/lists/1?sort=1", 9001, "Mozilla/5.0 (X11)"))

	out, _ := reported(t, 0, log.String(), "--log", "-")
	first, rest, _ := strings.Cut(out, "\n\n")
	if want := "First: Keep crawlers out of the URLs with ?sort=, by the lines for robots.txt listed under FAMILIES, since they find" +
		" almost nothing new there: in 1 day that would have saved at most 300 of crawlers' 360 requests (83.3 %) and 2.70 MB of 3.10 MB (87.4 %)."; strings.Join(strings.Fields(first), " ") != want {
		t.Errorf("it begins with %q, want %q", first, want)
	}
	for _, want := range []string{
		"\n    Disallow: /*?sort=\n    Disallow: /*&sort=\n  nginx:\n", "100.0 % of the same size as another URL of the page", "People and other clients sent 1 request for these URLs.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(rest), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var r report.Report
	out, _ = reported(t, 0, log.String(), "--log", "-", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Families) != 1 || r.First.Step != "family" || r.First.Saves != r.Families[0].Traffic {
		t.Fatalf("%v: %+v", err, r.First)
	}
	rules := robots.Parse([]byte("User-agent: *\n" + strings.Join(r.Families[0].Robots, "\n")))
	for _, path := range pages {
		if !rules.Allowed("Googlebot", path) {
			t.Errorf("%s is forbidden", path)
		}
	}
	for _, path := range copies {
		if rules.Allowed("Googlebot", path) {
			t.Errorf("%s is allowed", path)
		}
	}
	page := filepath.Join(dir, "report.html")
	reported(t, 0, log.String(), "--log", "-", "--html", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "Disallow: /*?sort=\n") || !strings.Contains(string(text), "<b>First:</b> Keep crawlers out") {
		t.Errorf("%v: %s", err, text)
	}

	// The site publishes one of the copies. A rule that forbids it is not proposed.
	manifest := filepath.Join(dir, "robots.rdf")
	write := func(file, path string, whole *protocol.Whole) []byte {
		var b bytes.Buffer
		must.OK(t, protocol.WriteManifest(&b, protocol.Manifest{URL: "https://www.example.org/robots.rdf", Base: "https://www.example.org/", Items: 1, Whole: whole}, func(yield func(protocol.Item, error) bool) {
			yield(protocol.Item{URL: "https://www.example.org" + path, Modified: time.Unix(1e9, 0)}, nil)
		}, nil))
		must.OK(t, os.WriteFile(file, b.Bytes(), 0o600))
		return b.Bytes()
	}
	for i, path := range []string{"/lists/1", "/lists/1?sort=1", "/lists/1?sort=1"} {
		if i < 2 {
			write(manifest, path, nil)
		} else { // in a part
			must.OK(t, os.Mkdir(manifest+".parts", 0o700))
			b := write(manifest+".parts/1.rdf", path, nil)
			write(manifest, "/lists/1", &protocol.Whole{Cursor: protocol.Cursor{Epoch: "e"}, Items: 1,
				Parts: []protocol.Part{{URL: "https://www.example.org/robots.rdf.parts/1.rdf", Items: 1, Length: int64(len(b)), Digest: protocol.Sum(b)}}})
		}
		out, _ = reported(t, 0, log.String(), "--log", "-", "--manifest", manifest)
		if proposed := strings.Contains(out, "Disallow: /*?sort="); proposed == strings.Contains(path, "sort") {
			t.Errorf("%s is published: %s", path, out)
		}
	}
}

func TestReportMisuse(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	must.Write(t, log, asked("05", "192.0.2.7", "/", "x"))
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, nil, "--log is required"},
		{2, []string{"--log", log, "--top", "0"}, "want 1 to 100000"},
		{2, []string{"--log", log, "--since", "yesterday"}, "want a date such as"},
		{2, []string{"--log", log, "--tz", "Nowhere/Never"}, "--tz Nowhere/Never"},
		{2, []string{"--log", log, "--ranges", "googlebot"}, "want NAME=FILE"},
		{1, []string{"--log", log, "--ranges", "googlebot=" + log + "x"}, "no such file"},
		{1, []string{"--log", log, "--ranges", "googlebot=" + log}, "want one such as 192.0.2.0/24"},
		{1, []string{"--log", log + "x*"}, "there is no such file; name one, or a pattern in quotes"},
		{1, []string{"--log", log, "--until", "2026-10-01"}, "outside the requested period"},
		{2, []string{"--log", log, "--manifest", "https://www.example.org/robots.rdf"}, "curl -o robots.rdf https://www.example.org/robots.rdf"},
		{1, []string{"--log", log, "--manifest", log + "x"}, "no such file"},
		{1, []string{"--log", log, "--manifest", log}, "read manifest"},
		{1, []string{"--log", log, "--html", filepath.Join(dir, "no", "x.html")}, "write report"},
	} {
		if _, said := reported(t, c.code, "", c.args...); !strings.Contains(said, c.want) {
			t.Errorf("report %q: %s, want %s", c.args, said, c.want)
		}
	}
	if out, _ := reported(t, 0, "", "-h"); !strings.Contains(out, "rdfgen report --log /var/log/nginx/access.log*") {
		t.Errorf("help: %s", out)
	}
	if out, _ := reported(t, 0, "", "--log", log, "--tz", "America/Santiago"); !strings.Contains(out, "America/Santiago") {
		t.Errorf("in Santiago: %s", out)
	}
}
