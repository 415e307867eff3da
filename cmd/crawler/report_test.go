package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

// A reported table is one in the JSON of crawler report.
type reported struct {
	Name    string
	Columns []string
	Rows    [][]any
}

func report(t *testing.T, args ...string) (list map[string]reported) {
	t.Helper()
	code, out, said := program(t.Context(), append([]string{"report", "--json"}, args...)...)
	var tables []reported
	if err := json.Unmarshal([]byte(out), &tables); code != 0 || err != nil {
		t.Fatalf("exit code %d: %v: %s%s", code, err, said, out)
	}
	list = map[string]reported{}
	for _, x := range tables {
		list[x.Name] = x
	}
	return list
}

// value returns a figure of the summary.
func (r reported) value(t *testing.T, name string) any {
	t.Helper()
	for _, row := range r.Rows {
		if row[0] == name {
			return row[1]
		}
	}
	t.Fatalf("there is no %q", name)
	return nil
}

// Somebody reports on a crawl of two sites while it runs, and after it; then compares it with an older one.
func TestReport(t *testing.T) {
	pages := map[string]string{"index.html": `<html lang=en><a href="a/">a</a> <a href="b.html">b</a> <img src="x.png"> <a href="paper.pdf">paper</a>`,
		"a/index.html": `<html lang=es><a href="../b.html">b</a> <a href="../gone.html">gone</a>`, "b.html": `<html lang=en><a href="/">home</a>`}
	one := sitetest.NewSite(t, pages)
	old := filepath.Join(t.TempDir(), "old")
	succeeds(t, append([]string{"crawl", one.Base}, own(old)...)...)
	other := sitetest.NewSite(t, map[string]string{"index.html": `<html lang=en><a href="` + one.Base + `">the other site</a>`})
	dir := filepath.Join(t.TempDir(), "crawl")
	left := leftIn(t, t.TempDir())
	r := begin(t, dir, "run", one.Base, other.Base)
	until(t, "all pages are stored", func() bool {
		if code, _, _ := program(t.Context(), "status", dir); code != 0 { // the crawler has begun to write its state
			return false
		}
		return strings.Count(r.says("pages", "--state", "held", "--format", "csv"), "\n") == 5 && strings.Contains(r.says("pages", "--format", "json"), `"status":404`)
	})
	beside := report(t, "--into", dir)
	if pages, sites := beside["summary"].value(t, "pages"), beside["summary"].value(t, "sites"); pages != 4. || sites != 2. || left() != 0 {
		t.Errorf("beside the crawler: %v pages, %v sites, %d temporary files", pages, sites, left())
	}
	r.finish()

	files := filepath.Join(t.TempDir(), "tables")
	write := func(name string) (text, page []byte) {
		page1 := filepath.Join(t.TempDir(), name)
		code, out, said := program(t.Context(), "report", dir, "--html", page1, "--csv", files, "--price-of-a-request", ".001")
		if page, _ = os.ReadFile(page1); code != 0 || len(page) == 0 || !strings.Contains(said, "the report took") {
			t.Fatalf("exit code %d: %s", code, said)
		}
		return []byte(out), page
	}
	text, page := write("one.html")
	text2, page2 := write("two.html")
	if !bytes.Equal(text, text2) || !bytes.Equal(page, page2) {
		t.Error("two reports differ")
	}
	for _, want := range []string{"4 pages of 2 sites, 2 a site", "Of 5 URLs, 80.0 % answer ok and 20.0 % not found.", "IN MONEY"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	after := report(t, "--into", dir)
	for name, table := range after {
		b, err := os.ReadFile(filepath.Join(files, name+".csv"))
		rows, err2 := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil || err2 != nil || len(rows) != len(table.Rows)+1 || len(rows[0]) != len(table.Columns) {
			t.Errorf("%s.csv has %d rows, not %d: %v %v", name, len(rows), len(table.Rows)+1, err, err2)
		}
	}
	if list, _ := os.ReadDir(files); len(list) != len(after)+1 { // and money.csv
		t.Errorf("%d files for %d tables", len(list), len(after))
	}

	// Compared with itself nothing differs, and the numbers are those from before.
	same := report(t, "--into", dir, "--against", dir)
	for name, table := range same {
		if len(table.Rows) != len(after[name].Rows) {
			t.Errorf("%s has %d rows, not %d", name, len(table.Rows), len(after[name].Rows))
		}
		for _, row := range table.Rows {
			for i, c := range table.Columns {
				if strings.HasSuffix(c, ": difference") && row[i] != nil && row[i] != 0. || strings.HasSuffix(c, ": difference") && fmt.Sprint(row[i-2]) != fmt.Sprint(row[i-1]) {
					t.Errorf("%s: %s is %v in %v", name, c, row[i], row)
				}
			}
		}
	}
	compared := report(t, "--into", dir, "--against", old)
	for _, row := range compared["summary"].Rows {
		if row[0] == "sites" && (row[1] != 2. || row[2] != 1. || row[3] != 1.) {
			t.Errorf("%v", row)
		}
	}
}

// A collection without pages gives a report that says so; what cannot be reported or written is an error.
func TestReportFails(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "crawl")
	col := must.Get(collection.Open(empty, nil))
	must.OK(t, col.Close())
	page := filepath.Join(t.TempDir(), "page.html")
	ends(t, 0, "No page is stored.", "report", empty, "--html", page)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--into is required", nil},
		{2, "want a price", []string{"--into", empty, "--price-of-a-gigabyte", "-1"}},
		{1, "has no collection", []string{"--into", filepath.Dir(page)}},
		{1, "has no collection", []string{"--into", empty, "--against", filepath.Dir(page)}},
		{1, "none", []string{"--into", empty, "--html", filepath.Join(empty, "none", "page.html")}},
		{1, "not a directory", []string{"--into", empty, "--csv", page}},
		{1, "log", []string{"--into", empty, "--log", filepath.Join(empty, "no.log")}},
	} {
		if code, _, said := program(t.Context(), append([]string{"report"}, c.args...)...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, code, c.code, said)
		}
	}
}

// The access log of a site says where visits begin: two at the top, one in a directory, and none by the robot.
func TestReportOfVisits(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	var lines strings.Builder
	for i, l := range []struct{ client, path, referrer, agent string }{
		{"10.0.0.1", "/", "-", "Mozilla/5.0 (X11; Linux x86_64) Firefox/100.0"},
		{"10.0.0.1", "/docs/a.html", "https://www.example.org/", "Mozilla/5.0 (X11; Linux x86_64) Firefox/100.0"},
		{"10.0.0.2", "/b.html", "-", "Mozilla/5.0 (X11; Linux x86_64) Firefox/100.0"},
		{"10.0.0.3", "/docs/deep/c.html", "https://search.example/?q=c", "Mozilla/5.0 (X11; Linux x86_64) Firefox/100.0"},
		{"10.0.0.4", "/docs/deep/d.html", "-", "Googlebot/2.1"},
	} {
		fmt.Fprintf(&lines, "%s - - [01/Nov/2026:10:%02d:00 +0000] \"GET %s HTTP/1.1\" 200 1000 \"%s\" \"%s\"\n", l.client, i, l.path, l.referrer, l.agent)
	}
	must.Write(t, log, lines.String())
	site := sitetest.NewSite(t, map[string]string{"index.html": "home"})
	dir := filepath.Join(t.TempDir(), "crawl")
	succeeds(t, append([]string{"crawl", site.Base}, own(dir)...)...)
	got := fmt.Sprint(report(t, "--into", dir, "--log", filepath.Join(filepath.Dir(log), "*.log"))["entries"].Rows)
	if want := "[[0 2 2 2] [1 0 0 1] [2 1 1 1]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
