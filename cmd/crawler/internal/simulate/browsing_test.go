package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// Table 5.1, computed and simulated, beside the printed figures, with the errata; and the visitors of table 5.4.
func TestSimulateBrowsing(t *testing.T) {
	page := filepath.Join(t.TempDir(), "b.html")
	code, out, said := program(t.Context(), "simulate", "browsing", "--views", "200000", "--chart", page)
	if code != 0 || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	for _, want := range []string{
		"0.4  3.00       3.01     3.00     5   1.67       1.67     1.67     2    2.78       2.79     2.78     3\n",
		"0.7     -          -        -     -   3.33       3.33     3.34     6   11.11",
		"Printed 3.34 is 3.33", "205417 sessions, 557465 views; 2.714 views a session\n", "by level                                  2.651  1.051     4\n",
		"    0  247985  0.4448  0.461  0.000  0.531", "    4   27129  0.9127  0.515",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var b browsed
	code, out, said = program(t.Context(), "simulate", "browsing", "--views", "200000", "--json", "--q", ".3,.55", "--share", ".95", "--duplicates", ".2")
	if err := json.Unmarshal([]byte(out), &b); code != 0 || err != nil || len(b.Table) != 6 || len(b.Fits) != 4 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, said)
	}
	for i, r := range b.Table {
		if i != 3 && (math.Abs(r.Simulated-r.Length) > .02*r.Simulated || r.Printed != 0 || *r.Stop > 7) {
			t.Errorf("%+v %+v", r, r.Forecast)
		}
	}
	text, err := os.ReadFile(page)
	for _, want := range []string{"Views up to each level", "What visitors do next", "A and B, q of B = 0.5894", "crawler simulate browsing --views 200000"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q: %v", want, err)
		}
	}
}

// Sessions of logs that are named by a pattern and by arguments, with what was left out.
func TestSimulateBrowsingOfLogs(t *testing.T) {
	dir := t.TempDir()
	one, two, none := filepath.Join(dir, "access.log.1"), filepath.Join(dir, "access.log"), filepath.Join(dir, "robots.log")
	hit := func(i, minute int, page, referrer, agent string) string {
		return fmt.Sprintf("192.0.2.%d - - [17/May/2026:%02d:%02d:00 +0000] \"GET %s HTTP/1.1\" 200 9 \"%s\" \"%s\"\n", i, 10+minute/60, minute%60, page, referrer, agent)
	}
	const browser, base = "Mozilla/5.0 Firefox/140.0", "https://www.site.example"
	var early, late string
	for i := range 6 {
		early += hit(i, i, "/", "https://search.example/", browser) + hit(i, i+1, "/a/", base+"/", browser) + hit(i, i+2, "/a/b.html", base+"/a/", browser) + "damage\n"
		late += hit(i, 100+i, "/a/", "-", browser) + hit(9, 101+i, "/", "-", "Googlebot/2.1")
	}
	for name, text := range map[string]string{one: early, two: late, none: hit(1, 1, "/", "-", "curl/8")} {
		must.Write(t, name, text)
	}
	code, out, said := program(t.Context(), "simulate", "browsing", "--log", one, two)
	for _, want := range []string{"access logs: 12 sessions, 24 views; 2.000 views a session, depth 1.000; 50.0 % of one page\n",
		"    0     12  0.5000  0.500  0.000  0.500", "50.0 % of the sessions begin with the home page", "No views: 6 requests of robots", "    1      2            1         6\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: no %q in\n%s", code, want, out)
		}
	}
	if !strings.Contains(said, "could not be read") || !strings.Contains(said, "lines=6") {
		t.Errorf("damaged lines: %s", said)
	}
	page := filepath.Join(dir, "l.html")
	var b browsed
	code, out, _ = program(t.Context(), "simulate", "browsing", "--log", filepath.Join(dir, "access.*"), "--json", "--chart", page)
	if err := json.Unmarshal([]byte(out), &b); code != 0 || err != nil || b.Visits.Views != 24 || b.Visits.LeftOut.Robots != 6 || b.Table != nil {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "Pages by the depth of their directory") {
		t.Errorf("the page has no directories: %v", err)
	}
	for args, want := range map[string]string{none: "no person requested a page", filepath.Join(dir, "missing"): "there is no such file"} {
		if code, out, said := program(t.Context(), "simulate", "browsing", "--log", args); code != 1 || out != "" || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d: %s%s", args, code, out, said)
		}
	}
}

func TestSimulateBrowsingOfPaths(t *testing.T) {
	if code, _, said := program(t.Context(), "simulate", "browsing", "--paths", t.TempDir()); code != 1 || !strings.Contains(said, "links.tsv: no such file") {
		t.Errorf("exit code %d: %s", code, said)
	}
	code, out, said := program(t.Context(), "simulate", "browsing", "--paths", machine.Data(t, "graphs", "wikispeedia"))
	if code != 0 || !strings.Contains(out, "24875 sessions, 129295 views; 5.198 views a session, depth 2.406; 21.0 % of one page\n") || !strings.Contains(out, "by level                                  5.199  2.411     4\nobserved                                  5.198  2.406     5\n") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
}
