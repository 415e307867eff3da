package census_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// crawled crawls a Web from the given pages into a directory.
func crawled(t *testing.T, w *fakeweb.Web, dir string, start []string, set func(*crawl.Options)) {
	t.Helper()
	o := crawl.DefaultOptions()
	o.Once, o.Collection.Into, o.Collection.Store, o.Fetch.Contact, o.Start = true, dir, "warc", "test@example.net", start
	if set != nil {
		set(&o)
	}
	c := must.Get(o.Open(t.Context()))
	c.Harvester.Options.Resolver, c.Harvester.Options.Dial = w, w.Dial
	must.OK(t, c.Run(t.Context()))
	must.OK(t, c.Collection.Close())
}

// taken takes the census of a collection, twice, and compares.
func taken(t *testing.T, dir string, o census.Options) *census.Census {
	t.Helper()
	var list [2]*census.Census
	for i := range list {
		col, err := collection.Open(dir, &collection.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if list[i], err = census.Take(t.Context(), col, o); err != nil {
			t.Fatal(err)
		}
		must.OK(t, col.Close())
	}
	if !reflect.DeepEqual(list[0], list[1]) {
		t.Error("the second census differs from the first")
	}
	return list[0]
}

// tableOf returns a table.
func tableOf(t *testing.T, c *census.Census, name string) census.Table {
	t.Helper()
	for _, table := range c.Tables {
		if table.Name == name {
			return table
		}
	}
	t.Fatalf("there is no table %s", name)
	return census.Table{}
}

// text returns the rows of a table, one a line.
func text(table census.Table) string {
	var b strings.Builder
	for _, row := range table.Rows {
		b.WriteString(strings.TrimSuffix(fmt.Sprintln(row...), "\n") + "\n")
	}
	return b.String()
}

// figure returns a figure of the summary.
func figure(t *testing.T, c *census.Census, name string) float64 {
	t.Helper()
	for _, row := range tableOf(t, c, "summary").Rows {
		if row[0] == name {
			switch v := row[1].(type) {
			case int64:
				return float64(v)
			case float64:
				return v
			}
		}
	}
	t.Fatalf("the summary lacks %q", name)
	return 0
}

var href = regexp.MustCompile(`<a href="([^"]*)"`)

// A record is what a virtual Web knows of a page.
type record struct {
	url, host, body string
	links           map[string]bool // other pages and what is none
	depth           int
}

// recordsOf returns all pages of honest sites with their depths on their sites, by links in their text.
func recordsOf(w *fakeweb.Web) map[string]*record {
	all := map[string]*record{}
	for _, s := range w.Sites() {
		for _, path := range s.Paths() {
			body, _ := s.Body(path)
			r := &record{url: s.Origin + path, host: s.Host, body: body, links: map[string]bool{}, depth: -1}
			for _, m := range href.FindAllStringSubmatch(body, -1) {
				to := m[1]
				if strings.HasPrefix(to, "/") {
					to = s.Origin + to
				}
				if to != r.url && strings.HasPrefix(to, "http:") {
					r.links[to] = true
				}
			}
			all[r.url] = r
		}
		level := []*record{all[s.Origin+"/"]}
		for depth := 0; len(level) > 0; depth++ {
			var next []*record
			for _, r := range level {
				if r.depth >= 0 {
					continue
				}
				r.depth = depth
				for to := range r.links {
					if x := all[to]; x != nil && x.host == r.host {
						next = append(next, x)
					}
				}
			}
			level = next
		}
	}
	return all
}

// A count counts by the first cells of a row.
type count map[string]int

// inClass counts a number by its class, which is found out with floating-point numbers.
func (c count) inClass(n int) { c[strings.Join(strings.Fields(fmt.Sprint(classOf(n))), " ")]++ }

func classOf(n int) [2]int {
	if n < 10 {
		return [2]int{n, n}
	}
	k := 10
	for int(math.Round(math.Pow(10, float64(k+1)/10))) <= n {
		k++
	}
	return [2]int{int(math.Round(math.Pow(10, float64(k)/10))), int(math.Round(math.Pow(10, float64(k+1)/10))) - 1}
}

// wantColumn compares one column of a table with a second count.
func wantColumn(t *testing.T, c *census.Census, name string, column string, want count) {
	t.Helper()
	table := tableOf(t, c, name)
	k := slices.Index(table.Columns, column)
	if k < 0 {
		t.Fatalf("%s has the columns %v, and no %s", name, table.Columns, column)
	}
	got := count{}
	for _, row := range table.Rows {
		if n := int(row[k].(int64)); n != 0 {
			key := fmt.Sprint(row[:table.Keys])
			if got[key] != 0 {
				t.Errorf("%s has two rows %s", name, key)
			}
			got[key] = n
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: column %s is %v, want %v", name, column, got, want)
	}
}

func link(s *fakeweb.Site) string { return fmt.Sprintf("<a href=%q>%s</a>", s.Origin+"/", s.Host) }

// The census of a crawl of a virtual Web has the numbers that follow from its pages: each is counted a second time, from their text.
func TestVirtualWeb(t *testing.T) {
	dir := scratch(t)
	var all map[string]*record
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 3, Sites: 40, Pages: 60, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		var start []string
		for i, s := range w.Sites() {
			start = append(start, s.Origin+"/")
			// The first ten sites link to each other in a circle, and to two of the next ten, which link to none.
			switch body, _ := s.Body("/"); {
			case i < 10:
				s.Put("/", body+link(w.Sites()[(i+1)%10])+link(w.Sites()[10+i%2]))
			case i < 20:
				s.Put("/", strings.ReplaceAll(body, "http://", "mailto:"))
			}
		}
		all = recordsOf(w)
		crawled(t, w, dir, start, func(o *crawl.Options) {
			o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds, o.Scope.TrapShare = true, true, true, 1
		})
	})
	c := taken(t, dir, census.Options{})

	bytes, links := 0, 0
	lengths, depths, in, out := count{}, count{}, count{}, count{}
	indegree, sitePages, siteBytes, siteDepth := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	linking, linked := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, r := range all {
		linking[r.host], linked[r.host] = map[string]bool{}, map[string]bool{}
	}
	for _, r := range all {
		bytes += len(r.body)
		lengths.inClass(len(r.body))
		depths[fmt.Sprint([]int{r.depth})]++
		out.inClass(len(r.links))
		links += len(r.links)
		sitePages[r.host]++
		siteBytes[r.host] += len(r.body)
		siteDepth[r.host] = max(siteDepth[r.host], r.depth)
		for to := range r.links {
			x := all[to]
			if indegree[to]++; x.host != r.host {
				linking[r.host][x.host], linked[x.host][r.host] = true, true
			}
		}
	}
	for url := range all {
		in.inClass(indegree[url])
	}
	bySite := func(of map[string]int) count {
		n := count{}
		for _, x := range of {
			n.inClass(x)
		}
		return n
	}
	wantColumn(t, c, "lengths", "pages", lengths)
	wantColumn(t, c, "depths", "static", depths)
	wantColumn(t, c, "degrees", "in", in)
	wantColumn(t, c, "degrees", "out", out)
	wantColumn(t, c, "site_pages", "sites", bySite(sitePages))
	wantColumn(t, c, "site_bytes", "sites", bySite(siteBytes))
	deepest := count{}
	for _, d := range siteDepth {
		deepest[fmt.Sprint([]int{d})]++
	}
	wantColumn(t, c, "site_depths", "sites", deepest)
	wantColumn(t, c, "status", "pages", count{"[200 ok]": len(all)})
	wantColumn(t, c, "states", "pages", count{"[held]": len(all)})
	wantColumn(t, c, "types", "bytes", count{"[text/html]": bytes})
	wantColumn(t, c, "ages_months", "pages", count{"[0]": 20, "[11]": len(all) - 20}) // 20 are new, and others 365 days old
	for name, want := range map[string]float64{"pages": float64(len(all)), "bytes": float64(bytes), "links": float64(links), "sites": 40, "duplicates": 0,
		"requests for pages": float64(len(all)), "bytes received of pages": float64(bytes)} {
		if got := figure(t, c, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}

	siteIn, siteOut, mostLinked := count{}, count{}, count{}
	either, withIn, withOut, pairs := 0, 0, 0, 0
	for host := range sitePages {
		siteIn.inClass(len(linked[host]))
		siteOut.inClass(len(linking[host]))
		pairs += len(linking[host])
		if len(linked[host]) > 0 {
			withIn++
			mostLinked["[http://"+host+"]"] = len(linked[host])
		}
		if len(linking[host]) > 0 {
			withOut++
		}
		if len(linked[host])+len(linking[host]) > 0 {
			either++
		}
	}
	wantColumn(t, c, "site_degrees", "in", siteIn)
	wantColumn(t, c, "site_degrees", "out", siteOut)
	wantColumn(t, c, "linked_sites", "linking_sites", mostLinked)
	wantColumn(t, c, "site_graph", "number", count{"[sites]": 40, "[with a link from another site]": withIn, "[with a link to another site]": withOut, "[with either]": either})
	if got := figure(t, c, "links between sites"); got != float64(pairs) {
		t.Errorf("%v links between sites, want %d", got, pairs)
	}

	// What can be reached from each site.
	reach := map[string]map[string]bool{}
	for from := range linking {
		reach[from] = reached(from, linking)
	}
	inMain, most := "", 0
	components := count{}
	for _, s := range slices.Sorted(maps.Keys(linking)) {
		size := 0
		for to := range reach[s] {
			if reach[to][s] {
				size++
			}
		}
		if size > most {
			inMain, most = s, size
		}
		if len(linked[s])+len(linking[s]) > 0 {
			components[fmt.Sprint([]int{size})] += 1000 / size // each site has its share in the component
		}
	}
	for size, n := range components {
		components[size] = (n + 500) / 1000
	}
	wantColumn(t, c, "components", "components", components)
	both := map[string]map[string]bool{}
	for host := range linking {
		both[host] = maps.Clone(linking[host])
		maps.Copy(both[host], linked[host])
	}
	parts, pagesOf, main := count{}, count{}, count{}
	weak := reached(inMain, both)
	isMain := func(s string) bool { return reach[s][inMain] && reach[inMain][s] }
	isIn := func(s string) bool { return reach[s][inMain] && !reach[inMain][s] }
	isOut := func(s string) bool { return !reach[s][inMain] && reach[inMain][s] }
	anyOf := func(of map[string]bool, is func(string) bool) bool {
		for s := range of {
			if is(s) {
				return true
			}
		}
		return false
	}
	for s := range linking {
		fromIn, toOut := false, anyOf(reach[s], isOut)
		for from := range linking {
			fromIn = fromIn || isIn(from) && reach[from][s]
		}
		part := "ISLAND"
		switch {
		case isMain(s):
			directIn, directOut := anyOf(linked[s], isIn), anyOf(linking[s], isOut)
			part = map[[2]bool]string{{true, true}: "MAIN-MAIN", {true, false}: "MAIN-IN", {false, true}: "MAIN-OUT", {false, false}: "MAIN-NORM"}[[2]bool{directIn, directOut}]
			main[part]++
		case isIn(s):
			part = "IN"
		case isOut(s):
			part = "OUT"
		case fromIn && toOut:
			part = "TUNNEL"
		case fromIn:
			part = "T-IN"
		case toOut:
			part = "T-OUT"
		case weak[s]:
			part = "OTHER"
		}
		parts["["+part+"]"]++
		pagesOf["["+part+"]"] += sitePages[s]
	}
	if most < 10 || len(main) < 2 || parts["[IN]"] == 0 || parts["[OUT]"] == 0 || len(parts) < 6 {
		t.Errorf("the Web has no bow-tie to speak of: %v", parts)
	}
	wantColumn(t, c, "bowtie", "sites", parts)
	wantColumn(t, c, "bowtie", "pages", pagesOf)

	rank := pagerankOf(all)
	sums := map[int]float64{}
	ofSite := map[string]float64{}
	for url, r := range all {
		sums[r.depth] += rank[url]
		ofSite[r.host] += rank[url]
	}
	for _, row := range tableOf(t, c, "pagerank_levels").Rows {
		if got, want := row[2].(float64), sums[int(row[0].(int64))]; math.Abs(got-want) > 1e-6 {
			t.Errorf("pages at depth %d have the Pagerank %v, want %v", row[0], got, want)
		}
	}
	for _, name := range []string{"scores", "site_scores"} {
		ranks, mean := slices.Collect(maps.Values(rank)), float64(len(rank))
		if name == "site_scores" {
			ranks, mean = slices.Collect(maps.Values(ofSite)), float64(len(ofSite))
		}
		rows := tableOf(t, c, name).Rows
		for i, row := range rows {
			to := math.Inf(1)
			if i+1 < len(rows) {
				to = rows[i+1][0].(float64)
			}
			surely, maybe := 0, 0 // ranks near a border may be on either side
			for _, x := range ranks {
				if x *= mean; x > row[0].(float64)*1.00001 && x < to*.99999 {
					surely++
				}
				if x > row[0].(float64)*.99999 && x < to*1.00001 {
					maybe++
				}
			}
			if got := int(row[1].(int64)); got < surely || got > maybe {
				t.Errorf("%s: %d have a Pagerank from %v to %v, want %d to %d", name, got, row[0], to, surely, maybe)
			}
		}
	}

	graphOfSites := map[string]*record{}
	for host := range linking {
		graphOfSites[host] = &record{links: linking[host]}
	}
	siterank, n := pagerankOf(graphOfSites), float64(len(graphOfSites))
	rows := tableOf(t, c, "sites").Rows
	for i, row := range rows {
		host := strings.TrimPrefix(row[0].(string), "http://")
		near := func(column int, want float64) bool { return math.Abs(row[column].(float64)-want) < 1e-5*want }
		if row[1] != int64(sitePages[host]) || row[2] != int64(siteBytes[host]) || !near(3, ofSite[host]*n) || !near(6, siterank[host]*n) {
			t.Errorf("%v, want %d pages, %d bytes, the Pagerank %v and the siterank %v", row, sitePages[host], siteBytes[host], ofSite[host]*n, siterank[host]*n)
		}
		if i > 0 && row[6].(float64) > rows[i-1][6].(float64) {
			t.Errorf("%v is after %v", row, rows[i-1])
		}
	}
	if len(rows) != len(siterank) {
		t.Errorf("%d sites, want %d", len(rows), len(siterank))
	}
}

// reached returns what can be reached from a site, itself included.
func reached(from string, links map[string]map[string]bool) map[string]bool {
	seen := map[string]bool{from: true}
	for list := []string{from}; len(list) > 0; list = list[1:] {
		for to := range links[list[0]] {
			if !seen[to] {
				seen[to] = true
				list = append(list, to)
			}
		}
	}
	return seen
}

// pagerankOf computes Pagerank as it is defined: eps/N + (1-eps) of what others give; pages without links give to all.
func pagerankOf(all map[string]*record) map[string]float64 {
	n := float64(len(all))
	rank := map[string]float64{}
	for url := range all {
		rank[url] = 1 / n
	}
	for range 100 {
		next, stuck := map[string]float64{}, 0.0
		for url, r := range all {
			if len(r.links) == 0 {
				stuck += rank[url]
			}
			for to := range r.links {
				next[to] += rank[url] / float64(len(r.links))
			}
		}
		for url := range all {
			rank[url] = .15/n + .85*(next[url]+stuck/n)
		}
	}
	return rank
}

// scratch returns a directory in memory, if there is one: commits wait for the disk otherwise.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "parley")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "crawl")
}
