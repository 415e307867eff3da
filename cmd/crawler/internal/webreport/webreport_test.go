package webreport

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/must"
)

// sized returns the tables of a collection in which everything there is a number of times.
func sized(n int64, rows int) tables {
	f := float64(n)
	list := []census.Table{
		{Name: "summary", Columns: []string{"figure", "value"}, Keys: 1, Rows: [][]any{{"pages", n}, {"sites", n}, {"known URLs", n}, {"requests for pages", 2 * n}, {"bytes received of pages", 40_000 * n}}},
		{Name: "laws", Columns: []string{"quantity", "kind", "parameter", "from", "values", "distance"}, Keys: 2},
	}
	if n > 1 {
		list[0].Rows = append(list[0].Rows, []any{"pages of a site", 1.0}, []any{"share of dynamic pages", .25}, []any{"share of duplicates", .5})
		list[1].Rows = [][]any{{"bytes of a page", "power law", 2.1, int64(8), n, .03}, {"age of a page in months", "exponential", .12, int64(0), n, .03}}
	}
	columns := map[string]string{
		"states": "state, pages", "status": "code, class, pages", "types": "type, pages, bytes", "lengths": "from, to, pages", "ages_months": "months, pages", "ages_years": "years, pages",
		"depths": "depth, static, dynamic, dynamic_share", "languages": "depth, language, declared, sampled", "technologies": "technology, extension, pages", "site_pages": "from, to, sites",
		"site_bytes": "from, to, sites", "site_depths": "depth, sites, share", "site_ages": "years, oldest, newest, mean", "degrees": "from, to, in, out", "length_links": "from, to, pages, mean, most",
		"scores": "from, pagerank, hub, authority", "site_scores": "from, pagerank, hub, authority, siterank", "pagerank_levels": "depth, pages, sum, cumulative", "site_graph": "figure, number, share",
		"site_degrees": "from, to, in, out", "linked_sites": "site, linking_sites, links, pages", "components": "size, components", "bowtie": "part, sites, pages, share", "changes": "changes, pages",
		"intervals": "from, to, pages", "lifetimes": "from, to, pages", "dead": "sites, copies, suspected, gone, share", "saved": "way, requests, bytes, of", "references": "group, extension, links, pages",
		"media": "depth, links, distinct, repeated_share", "tlds": "tld, own, links, hosts, share", "entries": "depth, visits", "data": "kind, pages, share", "sites": "site, pages, bytes, pagerank, hub, authority, siterank",
	}
	text := map[string]bool{"state": true, "class": true, "type": true, "language": true, "technology": true, "extension": true, "figure": true, "site": true, "part": true, "sites ": true, "way": true, "group": true, "tld": true, "kind": true}
	for _, name := range []string{"states", "status", "types", "lengths", "ages_months", "ages_years", "depths", "languages", "technologies", "site_pages", "site_bytes", "site_depths", "site_ages", "degrees",
		"length_links", "scores", "site_scores", "pagerank_levels", "site_graph", "site_degrees", "linked_sites", "components", "bowtie", "changes", "intervals", "lifetimes", "dead", "saved", "references", "media", "tlds", "entries", "data", "sites"} {
		t := census.Table{Name: name, Source: "R00", Columns: strings.Split(columns[name], ", "), Keys: 1}
		for i := range rows {
			var row []any
			for _, c := range t.Columns {
				switch {
				case text[c] || name == "dead" && c == "sites":
					row = append(row, fmt.Sprintf("<script>%s %d\x1b\u202e</script>", c, i))
				case strings.HasSuffix(c, "share") || c == "mean" || c == "sum" || c == "cumulative":
					row = append(row, f/float64(i+1))
				case len(row) == 0 || c == "to":
					row = append(row, int64(i))
				default:
					row = append(row, n)
				}
			}
			t.Rows = append(t.Rows, row)
		}
		list = append(list, t)
	}
	return newTables(list)
}

// The page of any collection is whole: without scripts and requests, with a sentence, below 2 MB, and the same twice.
func TestPage(t *testing.T) {
	for _, c := range []struct {
		n    int64
		rows int
	}{{0, 0}, {0, 3}, {1, 1}, {2, 1}, {3, 2}, {7, 39}, {7, 40}, {1_000_000, 2_000}} {
		for _, other := range []string{"", "<other>"} {
			v := &view{Name: "<a collection>", tables: sized(c.n, c.rows), Other: other}
			if other != "" {
				v.others = sized(3, 5)
			}
			v.price(prices{.001, .5})
			var page, again bytes.Buffer
			must.OK(t, v.writeHTML(&page))
			if err := v.writeHTML(&again); err != nil || page.String() != again.String() {
				t.Errorf("%v: the page differs: %v", c, err)
			}
			if page.Len() > 2_000_000 {
				t.Errorf("%v: %d bytes", c, page.Len())
			}
			checkPage(t, page.Bytes())
			if c.rows > mostRows && !strings.Contains(page.String(), "1,960 more in lengths.csv") && other == "" {
				t.Error("it is not said where the other rows are")
			}
		}
	}
}

// wrong is what a page must not have, beside its style.
var wrong = regexp.MustCompile("https?:|NaN|Inf\\b|%!|\x1b|\u202e|[{|]page|<no value>")

func checkPage(t *testing.T, page []byte) {
	t.Helper()
	doc := must.Get(html.Parse(bytes.NewReader(page)))
	ids, refs := map[string]bool{}, []string{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "link", "iframe", "img", "object", "image", "form":
			t.Errorf("there is a %s", n.Data)
		case "p":
			if n.FirstChild == nil {
				t.Error("there is an empty paragraph")
			}
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "style", strings.HasPrefix(a.Key, "on"), a.Key == "src":
				t.Errorf("%s has %s", n.Data, a.Key)
			case a.Key == "href" && strings.HasPrefix(a.Val, "#"):
				refs = append(refs, a.Val[1:])
			case a.Key == "href":
				t.Errorf("there is a link to %s", a.Val)
			case a.Key == "aria-labelledby":
				refs = append(refs, strings.Fields(a.Val)...)
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("the id %s occurs twice", a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			}
		}
	}
	for _, r := range refs {
		if !ids[r] {
			t.Errorf("nothing has the id %s", r)
		}
	}
	if m := wrong.Find(page[bytes.Index(page, []byte("</style>")):]); m != nil {
		t.Errorf("the page has %q", m)
	}
	if !bytes.HasSuffix(page, []byte("</html>\n")) {
		t.Error("the page is incomplete")
	}
}

// Sentences have the numbers of their tables, and are true for none, for one, and for many.
func TestSentences(t *testing.T) {
	lengths := func(rows ...[]any) tables {
		return newTables([]census.Table{{Name: "lengths", Columns: []string{"from", "to", "pages"}, Keys: 2, Rows: rows},
			{Name: "levels", Columns: []string{"depth", "pages", "kind"}, Keys: 1, Rows: rows}})
	}
	row := func(a, b, c int64) []any { return []any{a, b, c} }
	sizes, levels, kinds := classes("lengths", "pages", "page", "byte"), peak("levels", "pages", "page", "are at"), shares("levels", "kind", "pages", "page", "are ")
	for _, c := range []struct {
		says saying
		rows [][]any
		want string
	}{
		{sizes, nil, "There is no page to count."},
		{sizes, [][]any{row(1, 1, 1)}, "The only page has 1 byte."},
		{sizes, [][]any{row(0, 0, 3)}, "Each of 3 pages has no bytes."},
		{sizes, [][]any{row(0, 0, 0), row(10, 12, 5), row(13, 15, 0)}, "Each of 5 pages has 10 to 12 bytes."},
		{sizes, [][]any{row(1, 1, 1), row(40, 49, 2)}, "Of 3 pages, the minimum is 1 byte; the maximum is 40 to 49 bytes."},
		{sizes, [][]any{row(0, 0, 19), row(1, 1, 1)}, "Of 20 pages, nine in ten have no bytes; the maximum is 1 byte."},
		{sizes, [][]any{row(0, 0, 6), row(1, 1, 3), row(2, 2, 1)}, "Of 10 pages, half have no bytes, nine in ten at most 1; the maximum is 2 bytes."},
		{sizes, [][]any{row(10, 12, 4), row(13, 15, 4), row(1000, 1258, 2)}, "Of 10 pages, half have at most 15 bytes; the maximum is 1,000 to 1,258 bytes."},
		{levels, nil, "There is no page."},
		{levels, [][]any{row(0, 0, 0)}, "There is no page."},
		{levels, [][]any{row(2, 1, 0), row(3, 0, 0)}, "The only page is at level 2."},
		{levels, [][]any{row(2, 4, 0), row(3, 0, 0)}, "All 4 pages are at level 2."},
		{levels, [][]any{row(0, 1, 0), row(1, 6, 0), row(2, 2, 0), row(7, 1, 0), row(8, 0, 0)}, "Of 10 pages, 60.0 % are at level 1, and no other level has more; 90.0 % are at levels up to 2; the deepest is level 7."},
		{kinds, nil, "There is no page."},
		{kinds, [][]any{row(0, 1, 4)}, "The only page: 4."},
		{kinds, [][]any{row(0, 2, 4)}, "All 2 pages are 4."},
		{kinds, [][]any{row(0, 1, 4), row(0, 1999, 5)}, "Of 2,000 pages, more than 99.9 % are 5 and less than 0.1 % 4."},
		{kinds, [][]any{row(0, 9, 1), row(0, 8, 2), row(0, 7, 3), row(0, 6, 4), row(0, 5, 5), row(0, 4, 6), row(0, 1, 7)}, "Of 40 pages, 22.5 % are 1, 20.0 % 2, 17.5 % 3, 15.0 % 4, 12.5 % 5 and 12.5 % among 2 more."},
		{kinds, [][]any{row(0, 1, 1), row(0, 1, 2), row(0, 1, 3), row(0, 1, 4), row(0, 1, 5), row(0, 5, 6)}, "Of 10 pages, 50.0 % are 6, 10.0 % 1, 10.0 % 2, 10.0 % 3, 10.0 % 4 and 10.0 % 5."},
	} {
		if got := strings.Join(c.says(lengths(c.rows...)), " "); got != c.want {
			t.Errorf("%v:\n%s, want\n%s", c.rows, got, c.want)
		}
	}
	says := strings.Join(figures("none", "{page|pages} of {site|sites}.", "{%share of dynamic pages} are dynamic.", "{nothing} is left out.")(sized(2, 0)), " ")
	if want := "2 pages of 2 sites. 25.0 % are dynamic."; says != want {
		t.Errorf("%s, want %s", says, want)
	}
	if got := figures("none", "{nothing}")(sized(2, 0)); !reflect.DeepEqual(got, []string{"none"}) {
		t.Error(got)
	}
}

// Tables of two collections are joined by their keys: a row that one of them lacks counts as 0, and an unknown number stays unknown.
func TestJoined(t *testing.T) {
	a := &table{Name: "x", Columns: []string{"from", "to", "pages", "mean"}, Keys: 2, Rows: [][]any{{int64(1), int64(1), int64(5), 1.5}, {int64(2_000_000), int64(3_000_000), int64(7), 2.5}, {int64(9_000_000), int64(9_000_001), int64(1), nil}}}
	b := &table{Name: "x", Columns: a.Columns, Keys: 2, Rows: [][]any{{int64(3), int64(4), int64(2), .5}, {int64(2_000_000), int64(3_000_000), int64(10), 2.4}}}
	got := joined(a, b, "A", "B")
	want := table{Name: "x", Columns: []string{"from", "to", "pages: A", "pages: B", "pages: difference", "mean: A", "mean: B", "mean: difference"}, Keys: 2, Rows: [][]any{
		{int64(1), int64(1), int64(5), nil, int64(5), 1.5, nil, nil},
		{int64(3), int64(4), nil, int64(2), int64(-2), nil, .5, nil},
		{int64(2_000_000), int64(3_000_000), int64(7), int64(10), int64(-3), 2.5, 2.4, .1},
		{int64(9_000_000), int64(9_000_001), int64(1), nil, int64(1), nil, nil, nil},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
	v := &view{Name: "A", Other: "B", tables: tables{*a}, others: tables{*b}}
	dir := filepath.Join(t.TempDir(), "new")
	must.OK(t, v.writeCSV(dir))
	text, err := os.ReadFile(filepath.Join(dir, "x.csv"))
	if want := "from,to,pages: A,pages: B,pages: difference,mean: A,mean: B,mean: difference\n1,1,5,,5,1.5,,\n3,4,,2,-2,,0.5,\n2000000,3000000,7,10,-3,2.5,2.4,0.1\n9000000,9000001,1,,1,,,\n"; err != nil || string(text) != want {
		t.Errorf("%s, want\n%s: %v", text, want, err)
	}
}

// The thesis's prices follow from each other (Castillo 6.4.1, 6.4.2), and ours are those of requests and bytes.
func TestMoney(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-4*b }
	if overbooked := 10 / thesisViews * 3; thesisViews != 15_625 || !(overbooked <= thesisCost) || !near(10./15_000*3, thesisCost) || !near(thesisBenefit/thesisCost, 25) || !near(thesisCrawl/thesisCost, 750e6) {
		t.Errorf("%v views, %v each", thesisViews, overbooked)
	}
	v := &view{tables: sized(1000, 2)}
	v.price(prices{Request: .002, Gigabyte: 10 / .625})
	m := v.tables.table("money")
	if got, want := m.Rows[0], []any{"spent", int64(2000), int64(40_000_000), 4., .64, 4.64, .00464}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if v = (&view{tables: sized(0, 0)}); len(v.tables.table("money").Columns) > 0 {
		t.Error("money without prices")
	}
	for _, p := range []prices{{Request: -1}, {Gigabyte: math.NaN()}, {Gigabyte: math.Inf(1)}} {
		if p.check() == nil {
			t.Errorf("%v is a price", p)
		}
	}
}

// Every table, column and figure that a section names is one of the census, or of this package.
func TestNamesAreThoseOfTheCensus(t *testing.T) {
	var source strings.Builder
	files, err := filepath.Glob("../../../../internal/census/*.go")
	for _, name := range append(files, "money.go", "entries.go") {
		b, err2 := os.ReadFile(name)
		if err2 != nil {
			t.Fatal(err, err2)
		}
		source.Write(b)
	}
	text := must.Get(os.ReadFile("sections.go"))
	_, sections, _ := strings.Cut(string(text), "return []chapter{")
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{%?(?:[a-z ,A-Z]+\|)?([^{}"\n]+)\}`).FindAllStringSubmatch(sections, -1) {
		names[m[1]] = true
	}
	for _, c := range allChapters() {
		for _, s := range c.List {
			for _, table := range s.tables {
				names[table] = true
			}
		}
	}
	if len(names) < 60 {
		t.Errorf("only %d names were found", len(names))
	}
	for name := range names {
		if !strings.Contains(source.String(), `"`+name+`"`) {
			t.Errorf("the census has no %q", name)
		}
	}
}
