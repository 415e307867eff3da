package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

// program runs crawler simulate.
func program(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	crawler := func() *command.Command {
		return &command.Command{Name: "crawler", Summary: "simulate", Usage: "COMMAND", Sub: []*command.Command{Command(linksOf)}}
	}
	var out, errs strings.Builder
	code = command.Main(ctx, crawler, args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

// tiny is a simulated web so small that a run takes almost no time.
var tiny = []string{"simulate", "freshness", "--pages", "60", "--sites", "4", "--days", "24", "--from", "8", "--budget", ".1,.3", "--policy", "uniform,freshness"}

// The table has a row for each policy and budget, with the bound beside the score, and is the same for any
// number of processors.
func TestSimulateFreshness(t *testing.T) {
	code, table, said := program(t.Context(), tiny...)
	if code != 0 || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	row := regexp.MustCompile(`(?m)^gamma/zipf/0  (uniform|freshness) +(0\.1|0\.3) +0\.\d{4} +0\.\d{4} +\d+\.\d +\d+\.\d\d +\d+\.\d\d +0\.\d{4} `)
	if n := len(row.FindAllString(table, -1)); n != 4 || !strings.HasPrefix(table, "60 pages on 4 sites; changes not announced; days 8 to 24; seed 1\n") {
		t.Errorf("%d rows of 4 in\n%s", n, table)
	}
	before := runtime.GOMAXPROCS(1)
	_, again, _ := program(t.Context(), tiny...)
	runtime.GOMAXPROCS(before)
	if again != table {
		t.Errorf("the output differs on one processor:\n%s\n%s", table, again)
	}
}

func TestSimulateFreshnessJSON(t *testing.T) {
	page := filepath.Join(t.TempDir(), "f.html")
	code, out, said := program(t.Context(), append(tiny, "--json", "--seeds", "2", "--budget", ".2", "--world", "gamma,liars", "--chart", page)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	var rows []freshnessRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%d rows: %v\n%s", len(rows), err, out)
	}
	for _, r := range rows {
		switch {
		case len(r.Seeds) != 2 || r.Seeds[1] != 2, r.Fresh.Deviation <= 0:
			t.Errorf("two seeds are not seen in %+v", r)
		case !(r.Fresh.Mean > 0 && r.Fresh.Mean <= 1 && r.Bound.Mean > .5 && r.Bound.Mean <= 1):
			t.Errorf("freshness %v of %v", r.Fresh, r.Bound)
		case r.Spend.Mean > 1.3*r.Budget ||
			r.Spend.Mean < r.Budget/2 || r.Requests.Mean <= 0 || r.Bytes.Mean <= 0:
			t.Errorf("%v was spent of %v: %+v", r.Spend, r.Budget, r)
		}
	}
	if rows[0].World != "gamma/zipf/0" || rows[3].World != "liars" {
		t.Errorf("worlds %s and %s", rows[0].World, rows[3].World)
	}
	b := must.Get(os.ReadFile(page))
	for _, want := range []string{"liars: age", "gamma/zipf/0: freshness", "polling (bound)", "mixed (bound)", "crawler simulate freshness --budget 0.2", "--seeds 2"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// Options missing on the command line come from the environment and the file, which may also hold options of
// other commands.
func TestSimulateReadsFileAndEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.conf")
	must.Write(t, file, "into /somewhere\nbudget 0.2/page\npolicy uniform\n")
	t.Setenv("PARLEY_PAGES", "50")
	code, out, said := program(t.Context(), "simulate", "freshness", "--config", file, "--days", "10", "--from", "2", "--json")
	var rows []freshnessRow
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil || len(rows) != 1 || rows[0].Policy != "uniform" || rows[0].Budget != .2 {
		t.Errorf("exit code %d, %v: %s%s", code, err, out, said)
	}
}

func TestSimulateFeeds(t *testing.T) {
	args := []string{"simulate", "feeds", "--feeds", "20", "--days", "6", "--from", "3", "--per-slot", "1,2", "--policy", "training,round-robin,index-known"}
	code, out, said := program(t.Context(), append(args, "--json")...)
	var rows []feedRow
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil || len(rows) != 5 { // training ignores the budget
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, said)
	}
	for _, r := range rows {
		if !(r.Bound.Mean > 0 && r.Delay.Mean > .9*r.Bound.Mean) {
			t.Errorf("%s: a delay of %v minutes beside a bound of %v", r.Policy, r.Delay, r.Bound)
		}
	}
	if code, out, _ := program(t.Context(), args...); code != 0 || strings.Count(out, "\nround-robin ") != 2 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// Every table can be printed alone, and a table whose data is missing says so.
func TestSimulatePaper(t *testing.T) {
	t.Setenv("PARLEY_DATA", "")
	code, out, said := program(t.Context(), "simulate", "paper", "--quick", "--only", "manifests,traces")
	if code != 0 || !strings.HasPrefix(out, "manifests: ") || !strings.Contains(out, "\ntraces: ") || !strings.Contains(out, "left out: --data") || !strings.Contains(out, "manifest, priced") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	queue := func(options ...string) [][]string {
		t.Helper()
		var tables []printedTable
		code, out, _ := program(t.Context(), append([]string{"simulate", "paper", "--quick", "--only", "queue", "--json"}, options...)...)
		if err := json.Unmarshal([]byte(out), &tables); code != 0 || err != nil || len(tables) != 1 || len(tables[0].Rows) != 11 {
			t.Fatalf("exit code %d, %v: %s", code, err, out)
		}
		return tables[0].Rows
	}
	single, mean := queue(), queue("--seeds", "3")
	for i, row := range single {
		for _, cell := range row {
			if cell == "" || strings.Contains(cell, "NaN") {
				t.Errorf("a cell is empty: %q", row)
			}
		}
		if fixed := i == 0 || row[1] == "bound"; fixed != slices.Equal(row, mean[i]) {
			t.Errorf("one seed: %q, mean of three: %q", row, mean[i])
		}
	}
}

// The table has the figures of the paper beside those of the run, and marks where two strategies are in another
// order. The same options give the same table; a crawl that knows more of the web is no worse.
func TestSimulateOrder(t *testing.T) {
	args := []string{"simulate", "order", "--pages", "600", "--sites", "20", "--strategy", "sorted,omniscient,opic,breadth-first,larger-sites-first,historical-pagerank-zero"}
	code, table, said := program(t.Context(), args...)
	if code != 0 || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if table != simulatedOrder {
		t.Errorf("the table is now\n%s", table)
	}
	page := filepath.Join(t.TempDir(), "o.html")
	code, out, said := program(t.Context(), append(args, "--json", "--tell", "0,100", "--chart", page)...)
	var rows []orderRow
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil || len(rows) != 12 {
		t.Fatalf("exit code %d, %v, %d rows: %s%s", code, err, len(rows), out, said)
	}
	area := map[string]float64{}
	for _, r := range rows {
		if area[r.Strategy] = r.Area - area[r.Strategy]; r.Strategy == "omniscient" && r.Tell == 1 && area[r.Strategy] < -.001 {
			t.Errorf("manifests change the area of %s by %.4f", r.Strategy, area[r.Strategy])
		}
		if len(r.Curve) != 101 || r.Area > rows[0].Area || r.Named > r.Area != (r.Tell > 0) {
			t.Errorf("%s has %d points and an area of %.4f, the bound %.4f", r.Strategy, len(r.Curve), r.Area, rows[0].Area)
		}
	}
	b, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(b), "generated, 100 % of the hosts tell") || !strings.Contains(string(b), "sorted (bound)") {
		t.Errorf("the page lacks a chart: %v", err)
	}
	dir := t.TempDir()
	empty, alone := filepath.Join(dir, "empty.adj"), filepath.Join(dir, "alone.adj")
	must.OK(t, errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(alone, []byte("\n0\n"), 0o600)))
	if code, out, said := program(t.Context(), "simulate", "order", "--graph", alone); code != 0 || !strings.HasPrefix(out, "alone.adj: 1 of 2 pages on 1 sites") || strings.Contains(out, "*  ") { // no link leads to the second page, and any order of one page is as good
		t.Errorf("a graph of one page: exit code %d: %s%s", code, out, said)
	}
	for _, c := range []struct{ args, want string }{
		{"--graph missing.adj.zst", "missing.adj.zst"},
		{"--graph " + dir, "read the links of " + dir + ": closed"},
		{"--graph " + empty, "open " + empty + ": the graph has no pages"},
		{"--strategy historical-pagerank-zero --pages 50 --sites 5 --history missing.adj.zst", "missing.adj.zst"},
	} {
		if code, out, said := program(t.Context(), append([]string{"simulate", "order"}, strings.Fields(c.args)...)...); code != 1 || out != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d: %s%s", c.args, code, out, said)
		}
	}
}

// linksOf stands for the links of collections: in a directory with a file "links", as lines of two URLs.
func linksOf(_ context.Context, dir string, _ *slog.Logger) iter.Seq2[[2]string, error] {
	return func(yield func([2]string, error) bool) {
		text, err := os.ReadFile(filepath.Join(dir, "links"))
		if err != nil {
			yield([2]string{}, errors.New("closed"))
			return
		}
		for line := range strings.Lines(string(text)) {
			from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !yield([2]string{from, to}, nil) {
				return
			}
		}
	}
}

// The links of a collection are a graph, and an earlier collection is its history. One without links is no graph.
func TestSimulateOrderOfCollection(t *testing.T) {
	dir := t.TempDir()
	const a, b = "http://a.example/", "http://b.example/"
	must.Write(t, filepath.Join(dir, "links"), a+" "+a+"1\n"+a+" "+b+"x\n"+b+" "+b+"x\n"+a+" "+a+"1\n")
	code, out, said := program(t.Context(), "simulate", "order", "--graph", dir, "--history", dir, "--strategy", "opic,historical-pagerank-zero")
	if code != 0 || !strings.Contains(out, "4 pages on 2 sites with 3 links") || !strings.Contains(out, "the earlier crawl had 100 % of the pages") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "links"), nil, 0o600))
	code, out, said = program(t.Context(), "simulate", "order", "--graph", dir)
	if code != 1 || out != "" || !strings.Contains(said, "read the links of "+dir+": there are none") {
		t.Errorf("no links: exit code %d: %s%s", code, out, said)
	}
}

// simulatedOrder is what TestSimulateOrder prints.
const simulatedOrder = `generated: 600 pages on 20 sites with 6000 links; the largest site has 39 % of the pages and 55 % of the Pagerank; seed 1; the earlier crawl had 55 % of the pages, with 72 % of the Pagerank

strategy                    area   paper       tau   paper  first tenth  stop: pages  Pagerank
sorted                    0.8105       -     1.000       -        1.000          45%       85%
omniscient                0.8101  0.7427     0.997  0.6504        1.000          45%       85%
historical-pagerank-zero  0.7360  0.6758     0.452  0.3573        0.913          35%       66%
opic                      0.7166  0.6709  *  0.499  0.2229        0.505          55%       86%
breadth-first             0.6806  0.6425  *  0.392  0.1293        0.338          65%       89%
larger-sites-first        0.6779  0.6749  *  0.215  0.2498        0.787          20%       49%

* larger-sites-first is below opic, breadth-first here, and above in the paper.

area: under the curve of Pagerank by pages fetched; paper: Castillo 2004, Table 4.1; *: in another order there;
first tenth: Pagerank of the first tenth of the pages, as a share of the most that a tenth can have;
stop: when a twentieth of the pages brings less than half a twentieth of the Pagerank, and what was fetched by then
`

func TestSimulateMisuse(t *testing.T) {
	t.Setenv("PARLEY_DATA", "")
	for _, c := range []struct{ args, want string }{
		{"", "missing command: want one of freshness, exponents, feeds, paper, order, batch, servers, browsing"},
		{"freshness --world mars", "--world mars: unknown world: -h lists them"},
		{"freshness --world traces", "--world traces: needs --data DIR"},
		{"freshness --policy hope", "--policy hope: unknown policy: -h lists them"},
		{"freshness --budget .1,-2", "want numbers above 0"},
		{"freshness --budget 1e7", "want at most 1000 requests"},
		{"freshness --days 30 --from 30", "--from 30: want 0 to 29"},
		{"freshness --pages 0", "--pages 0: want 1 to 10000000"},
		{"freshness --tell tales", "--tell tales: want nothing, manifest"},
		{"freshness --costs gold", "--costs gold: want requests or bytes"},
		{"freshness --seeds 0", "--seeds 0: want 1 to 1000"},
		{"freshness stray", `unexpected argument "stray"`},
		{"feeds --policy hope", "--policy hope: unknown policy: -h lists them"},
		{"feeds --world real", "--world real: needs --data DIR"},
		{"feeds --world mars", "--world mars: want synthetic, weekly or real"},
		{"feeds --slot 1s", "--slot 1s: want a minute to a day"},
		{"feeds --from 60", "want --from below --days"},
		{"order --strategy hope", "--strategy hope: unknown strategy: -h lists them"},
		{"order --tell most", "--tell most: want 0 to 100, in percent of the hosts"},
		{"order --pages 5", "--pages 5 --sites 1000: want 10 to 10000000 pages"},
		{"order --rank-every -1", "--rank-every -1: want 0"},
		{"order --graph ,", "want 1 to 100 words, with commas between"},
		{"order --history old.adj --strategy opic", "--history old.adj: no --strategy named historical uses it"},
		{"paper --only table", "--only table: unknown table"},
		{"batch --largest 200000", "--largest 200000: want 1 to 100858, all pages"},
		{"batch --strategy opic", "--strategy opic: want one of larger-sites-first, breadth-first"},
		{"batch --at-once 1.5", "--at-once 1.5: want whole numbers"},
		{"batch --failures 1", "--failures 1: want a share of at least 0 and less than 1"},
		{"batch --link 0", "want numbers above 0"},
		{"servers --sites 0", "--sites 0: want 1 to 30000, all pages"},
		{"browsing --q .5,1", "--q 0.5,1: want probabilities below 1"},
		{"browsing --share 90", "--share 90: want a share between 0 and 1"},
		{"browsing --duplicates 1", "--duplicates 1: want a share of at least 0 and less than 1"},
		{"browsing --views 9", "--views 9: want 1000"},
		{"browsing --log a --paths b", "--paths b: want either --log or --paths"},
		{"browsing access.log", `unexpected argument "access.log": --log names logs`},
	} {
		code, out, said := program(t.Context(), append([]string{"simulate"}, strings.Fields(c.args)...)...)
		if code != 2 || out != "" || !strings.Contains(said, c.want) {
			t.Errorf("simulate %s: exit code %d: %s%s", c.args, code, out, said)
		}
	}
	for _, part := range []string{"freshness", "feeds", "paper", "order", "batch", "servers", "browsing"} {
		if code, out, _ := program(t.Context(), "simulate", part, "-h"); code != 0 || !strings.Contains(out, "    crawler simulate "+part) {
			t.Errorf("help of %s: exit code %d: %s", part, code, out)
		}
	}
}

// TestFreshnessOfOnesOwnHistory: the later half of a recorded history is held out: beside what is learned stands what
// could be known by then. A file that is no history is refused in words.
func TestFreshnessOfOnesOwnHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.csv")
	history := "time,path\n"
	for day := range 60 {
		for page := range 20 {
			if day%(page+1) == 0 || day == 0 {
				history += fmt.Sprintf("%d,/%d\n", 1_700_000_000+86400*day, page)
			}
		}
	}
	must.Write(t, file, history)
	code, out, said := program(t.Context(), "simulate", "freshness", "--trace", file, "--days", "59", "--budget", ".2")
	if code != 0 || !strings.Contains(out, "20 pages on 1 sites; changes not announced; days 29 to 59") || !strings.Contains(out, "a single run may exceed it by chance") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	for _, policy := range []string{"freshness-past ", "freshness ", "freshness-known "} {
		if strings.Count(out, "mine.csv  "+policy) != 1 {
			t.Errorf("no single row of %s:\n%s", policy, out)
		}
	}
	for _, wrong := range []struct{ file, days, want string }{
		{file, "90", "it has 59 days, fewer than 90"},
		{"/nowhere/mine.csv", "50", "no such file"},
		{"simulate_test.go", "50", "read trace simulate_test.go: no column"},
	} {
		if code, _, said := program(t.Context(), "simulate", "freshness", "--trace", wrong.file, "--days", wrong.days); code == 0 || !strings.Contains(said, wrong.want) {
			t.Errorf("%+v: exit code %d: %s", wrong, code, said)
		}
	}
	if code, _, said := program(t.Context(), "simulate", "freshness", "--trace", file, "--world", "power"); code != 2 || !strings.Contains(said, "want one of the two") {
		t.Errorf("a trace and a world: exit code %d: %s", code, said)
	}
}
