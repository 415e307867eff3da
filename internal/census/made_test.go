package census_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A made collection is made visit by visit, at times that a test sets.
type made struct {
	t   *testing.T
	dir string
	col *collection.Collection
	now time.Time
	ids map[string]frontier.PageID
}

const home = "https://www.example.org/"

func newMade(t *testing.T) *made {
	m := &made{t: t, dir: scratch(t), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ids: map[string]frontier.PageID{}}
	var err error
	if m.col, err = collection.Open(m.dir, &collection.Options{Contents: collection.WARC, Now: func() time.Time { return m.now }}); err != nil {
		t.Fatal(err)
	}
	return m
}

// find makes URLs known: paths of the example's site, or of others.
func (m *made) find(depth int, urls ...string) {
	m.t.Helper()
	for _, url := range urls {
		done := must.Get(m.col.Commit(&collection.Commit{Finds: []collection.Find{{URL: full(url), Depth: depth, By: collection.ByLink, Dynamic: strings.Contains(url, "?")}}}))
		for i := range done.New {
			m.ids[done.New[i].URL] = done.New[i].ID
		}
	}
}

func full(url string) string {
	if strings.Contains(url, "://") {
		return url
	}
	return home + url
}

// answer returns a visit with an answer that has a body; links are those of the page, or where it redirects.
func (m *made) answer(url string, status int, body string, links ...string) collection.Visit {
	if m.ids[full(url)] == 0 {
		m.find(1, url)
	}
	v := collection.Visit{Page: m.ids[full(url)], Asked: m.now, Status: status, Type: "text/html", Body: []byte(body), Digest: protocol.Sum([]byte(body))}
	for _, link := range links {
		f := collection.Find{URL: full(link), Depth: 1, By: collection.ByLink}
		if status >= 300 {
			v.Target = &f
		} else {
			v.Links = append(v.Links, f)
		}
	}
	return v
}

func (m *made) visit(visits ...collection.Visit) {
	m.t.Helper()
	done := must.Get(m.col.Commit(&collection.Commit{Visits: visits}))
	for i := range done.New {
		m.ids[done.New[i].URL] = done.New[i].ID
	}
}

// taken closes the collection and takes its census.
func (m *made) taken(o census.Options) *census.Census {
	m.t.Helper()
	must.OK(m.t, m.col.Close())
	return taken(m.t, m.dir, o)
}

func wantText(t *testing.T, c *census.Census, name, want string) {
	t.Helper()
	if got := text(tableOf(t, c, name)); got != want {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

// lacks reports whether the summary has no such figure.
func lacks(t *testing.T, c *census.Census, name string) bool {
	t.Helper()
	for _, row := range tableOf(t, c, "summary").Rows {
		if row[0] == name {
			return false
		}
	}
	return true
}

// Pages that change at random times, at a known rate, and are visited every day: the half-life of change is ln 2 / rate (F04). Some pages
// are gone after a while, and have lived for as long as visits have seen them (E16 tells the two apart).
func TestTimes(t *testing.T) {
	const pages, visits, rate = 100, 200, .05
	m := newMade(t)
	rng := rand.New(rand.NewPCG(1, 2))
	changes, spans, changed := map[int]int{}, 0.0, 0
	version, of := [pages]int{}, [pages]int{}
	for day := range visits {
		var list []collection.Visit
		for i := range pages {
			if day > 0 && rng.Float64() < 1-math.Exp(-rate) {
				version[i]++
				of[i]++
			}
			list = append(list, m.answer(fmt.Sprintf("page%d", i), 200, fmt.Sprint("version ", version[i])))
		}
		m.visit(list...)
		m.now = m.now.Add(24 * time.Hour)
	}
	for _, n := range of {
		changes[n]++
		changed += n
		spans += visits - 1
	}
	m.visit(m.answer("short", 200, "once"))
	m.now = m.now.Add(72 * time.Hour)
	m.visit(m.answer("short", 200, "once"))
	m.now = m.now.Add(72 * time.Hour)
	m.visit(m.answer("short", 410, ""), m.answer("page0", 410, ""), m.answer("page1", 404, ""))
	c := m.taken(census.Options{})
	table := tableOf(t, c, "changes")
	changes[0]++ // short
	for _, row := range table.Rows {
		if n := int(row[0].(int64)); changes[n] != int(row[1].(int64)) {
			t.Errorf("%d pages changed %d times, want %d", row[1], n, changes[n])
		}
		delete(changes, int(row[0].(int64)))
	}
	if len(changes) > 0 {
		t.Errorf("the table of changes lacks %v", changes)
	}
	if got := figure(t, c, "mean interval between changes, days"); math.Abs(got-spans/float64(changed)) > 1e-3 {
		t.Errorf("the mean interval is %v days, want %v", got, spans/float64(changed))
	}
	if got, want := figure(t, c, "half-life of change, days"), math.Ln2/rate; math.Abs(got-want) > .05*want {
		t.Errorf("the half-life is %v days, want %v", got, want)
	}
	wantText(t, c, "lifetimes", "3 3 1\n158 199 1\n")
	if got := figure(t, c, "median lifespan of a page that is gone, days"); got != (3+visits-1)/2. {
		t.Errorf("the median lifespan is %v days", got)
	}
	wantText(t, c, "dead", "without a manifest 99 1 2 0.010101\n")
	wantText(t, c, "states", "failing 1\ngone 2\nheld 98\n")
}

// Last answers are counted in the classes of the thesis, but for 204, which is a success unless an option says otherwise (E43).
func TestStatus(t *testing.T) {
	for _, thesis := range []bool{false, true} {
		m := newMade(t)
		for code := range map[int]bool{200: true, 204: true, 301: true, 302: true, 307: true, 401: true, 403: true, 404: true, 406: true, 410: true, 418: true, 500: true, 503: true} {
			to := []string{"target"}
			if code/100 != 3 {
				to = nil
			}
			m.visit(m.answer(fmt.Sprint("page", code), code, fmt.Sprint(code), to...))
		}
		fault := m.answer("silent", 0, "")
		fault.Fault, fault.Body, fault.Digest = "timeout", nil, protocol.Digest{}
		m.visit(fault)
		class := "ok"
		if thesis {
			class = "server error"
		}
		wantText(t, m.taken(census.Options{EmptyIsError: thesis}), "status", `0 no answer 1
200 ok 1
204 `+class+` 1
301 moved 1
302 moved 1
307 moved 1
401 forbidden 1
403 forbidden 1
404 not found 1
406 forbidden 1
410 not found 1
418 other 1
500 server error 1
503 server error 1
`)
	}
}

// The age of a page is that at its visit, by a date that is credible: from 1993 on, and up to a day in the future, which counts as now (P13).
func TestAges(t *testing.T) {
	m := newMade(t)
	for i, stated := range []time.Time{
		time.Date(1992, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(1993, 1, 1, 0, 0, 0, 0, time.UTC), m.now, m.now.Add(24 * time.Hour), m.now.Add(24*time.Hour + time.Second),
		m.now.AddDate(0, 0, -30), m.now.AddDate(0, 0, -31), m.now.AddDate(-1, 0, -1), {},
	} {
		v := m.answer(fmt.Sprint("page", i), 200, fmt.Sprint(i))
		if v.LastModified = stated.Format("Mon, 02 Jan 2006 15:04:05 GMT"); stated.IsZero() {
			v.LastModified = "yesterday"
		}
		m.visit(v)
	}
	m.visit(m.answer("https://other.example/", 200, "without a date"))
	c := m.taken(census.Options{})
	wantText(t, c, "ages_months", "0 3\n1 1\n12 1\n395 1\n")
	wantText(t, c, "ages_years", "0 4\n1 1\n32 1\n")
	wantText(t, c, "site_ages", "0 0 1 0\n5 0 0 1\n32 1 0 0\n")
	if got := figure(t, c, "share of sites with a credible date"); got != .5 {
		t.Errorf("%v of the sites have dates, want a half", got)
	}
}

// A link to a page that redirects is one to where that leads, also in circles and where that is not fetched; a page that links to itself,
// or twice to another, has no more links for it. Depths are counted from the home page, whatever way a page was found.
func TestRedirects(t *testing.T) {
	m := newMade(t)
	m.visit(m.answer("", 200, "home", "a", "old", "", "circle1", "unfetched"))
	m.visit(m.answer("old", 301, "", "older"), m.answer("older", 302, "", "new"), m.answer("circle1", 302, "", "circle2"), m.answer("circle2", 302, "", "circle1"))
	m.visit(m.answer("new", 200, "new", "old", "a", ""), m.answer("a", 200, "a", "new", "older", "https://other.example/old"))
	m.visit(m.answer("https://other.example/old", 301, "", "https://other.example/"))
	m.visit(m.answer("https://other.example/", 200, "other"))
	c := m.taken(census.Options{})
	wantText(t, c, "degrees", "0 0 0 1\n1 1 2 0\n2 2 2 2\n4 4 0 1\n") // of home: a, new, a page of the circle, unfetched
	wantText(t, c, "depths", "0 2 0 0\n1 2 0 0\n")
	wantText(t, c, "site_graph", "sites 2 1\nwith a link from another site 1 0.5\nwith a link to another site 1 0.5\nwith either 2 1\n")
	wantText(t, c, "linked_sites", "https://other.example 1 1 1\n")
	wantText(t, c, "components", "1 2\n")
	if got := figure(t, c, "links between pages"); got != 6 {
		t.Errorf("%v links between pages, want 6", got)
	}
}

// A site that was fetched with cookies counts, and is not named.
func TestWithheldSiteIsNotNamed(t *testing.T) {
	m := newMade(t)
	m.visit(m.answer("", 200, "home", "https://private.example/", "https://other.example/"))
	secret := m.answer("https://private.example/", 200, "secret")
	secret.Authorized = true
	m.visit(secret, m.answer("https://other.example/", 200, "other", "https://private.example/"))
	c := m.taken(census.Options{})
	wantText(t, c, "linked_sites", "https://other.example 1 1 1\n")
	wantText(t, c, "site_pages", "1 1 3\n")
	for _, table := range c.Tables {
		if strings.Contains(text(table), "private") {
			t.Errorf("%s names the site:\n%s", table.Name, text(table))
		}
	}
}

// Collections of nothing, of a page that was not fetched, of one page, and of pages that link to themselves alone.
func TestSmallCollections(t *testing.T) {
	for name, fill := range map[string]func(m *made){
		"empty":    func(m *made) {},
		"known":    func(m *made) { m.find(0, "") },
		"one page": func(m *made) { m.visit(m.answer("", 200, "home")) },
		"self-links": func(m *made) {
			m.visit(m.answer("", 200, "home", ""), m.answer("https://other.example/", 200, "other", "https://other.example/"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMade(t)
			fill(m)
			c := m.taken(census.Options{})
			for _, table := range c.Tables {
				for _, row := range table.Rows {
					if len(row) != len(table.Columns) {
						t.Errorf("%s has the row %v", table.Name, row)
					}
					for _, cell := range row {
						if f, ok := cell.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
							t.Errorf("%s has the row %v", table.Name, row)
						}
					}
				}
				if table.Source == "" || table.Keys < 1 || table.Keys >= len(table.Columns) {
					t.Errorf("%s: %+v", table.Name, table)
				}
			}
			if figure(t, c, "links between pages") != 0 || !lacks(t, c, "half-life of change, days") {
				t.Errorf("summary: %s", text(tableOf(t, c, "summary")))
			}
		})
	}
}

// A census can be stopped, and says what is damaged.
func TestStoppedAndDamaged(t *testing.T) {
	m := newMade(t)
	for i := range 100 {
		m.visit(m.answer(fmt.Sprint("page", i), 200, fmt.Sprint(i), fmt.Sprint("page", i+1)))
	}
	must.OK(t, m.col.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	col, err := collection.Open(m.dir, &collection.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := census.Take(ctx, col, census.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	col.Close()

	path := filepath.Join(m.dir, "state.db")
	state := must.Get(os.ReadFile(path))
	for i := 64 << 10; i < len(state) && i < 1<<20; i += 977 {
		state[i] ^= 0x55
	}
	must.OK(t, os.WriteFile(path, state, 0o666))
	if col, err = collection.Open(m.dir, &collection.Options{ReadOnly: true}); err == nil {
		_, err = census.Take(t.Context(), col, census.Options{})
		col.Close()
	}
	if !errors.Is(err, collection.ErrDamaged) {
		t.Errorf("of a damaged state: %v", err)
	}
}

// refers returns a visit of a page that refers to files, embeds media, and has links to hosts of others.
func (m *made) refers(url string, urls ...string) collection.Visit {
	var c references.Counter
	v := m.answer(url, 200, "page "+url)
	c.Reset(full(url))
	for _, ref := range urls {
		link := !strings.HasPrefix(ref, "embedded ")
		ref = full(strings.TrimPrefix(ref, "embedded "))
		if c.Add([]byte(ref), link); !link {
			c.Embed([]byte(ref))
		}
	}
	v.References = c.Encode()
	return v
}

// What pages refer to is grouped as in Castillo 8.3.7 to 8.3.10, and embedded media count once at each depth; links to other hosts by their
// top-level domain (Castillo 8.5.3). Dynamic pages are counted by their technology.
func TestReferences(t *testing.T) {
	m := newMade(t)
	m.find(0, "")
	home := m.refers("", "manual.pdf", "a.tar.gz", "b.TXT", "https://www.w3.example.net/x.html", "https://other.example.net/", "http://127.0.0.2/", "https://x.y.example.com/z.zip",
		"embedded logo.gif", "embedded photo.jpg")
	home.Links = []collection.Find{{URL: full("a/"), Depth: 1, By: collection.ByLink}}
	m.visit(home)
	m.visit(m.refers("a/", "manual.pdf", "https://www.w3.example.net/y.html", "https://elsewhere.example.org/", "embedded logo.gif", "embedded a/own.png", "embedded a/film.mp4"))
	m.visit(m.refers("b/", "embedded logo.gif"))
	m.find(2, "x.php?a=1", "y.cgi?a=1", "z?a=1", "y.jsp?b=2")
	for _, url := range []string{"x.php?a=1", "y.cgi?a=1", "z?a=1", "y.jsp?b=2"} {
		m.visit(m.answer(url, 200, url))
	}
	m.visit(m.answer("moved", 301, "", "a/"))
	c := m.taken(census.Options{})
	wantText(t, c, "references", `compressed gz 1 1
compressed zip 1 1
documents pdf 2 2
documents txt 1 1
images gif 3 3
images jpg 1 1
images png 1 1
video mp4 1 1
`)
	wantText(t, c, "media", "0 2 2 0\n1 4 3 0.25\n")
	wantText(t, c, "tlds", "address 0 1 1 0.2\ncom 0 1 1 0.2\nnet 0 3 2 0.6\norg 1 1 1 0\n")
	wantText(t, c, "technologies", "query  1\nCGI cgi 1\nJava jsp 1\nPHP php 1\n")
	wantText(t, c, "depths", "0 1 0 0\n1 2 0 0\n2 0 4 1\n")
}

// Data for programs is counted on pages of HTML (O24): here three, of which one has data of two kinds; what only a text shows is none.
func TestDataForPrograms(t *testing.T) {
	m := newMade(t)
	m.visit(m.answer("", 200, `<script type="application/ld+json">{}</script><link rel=alternate type="application/rss+xml" href=news>`),
		m.answer("a", 200, `<p itemscope>`), m.answer("b", 200, `<pre>&lt;p itemscope></pre>`))
	plain := m.answer("c", 200, `<p itemscope>`)
	plain.Type = "text/plain"
	m.visit(plain)
	wantText(t, m.taken(census.Options{}), "data", "JSON-LD 1 0.333333\nmicrodata or RDFa 1 0.333333\na link to a feed 1 0.333333\n")
}

// The value of the index is the sum of what its pages are worth, and the least of these (V05): fresh copies of all pages are worth as many
// pages as there are, whatever their Pagerank, and that of a page without links to it is .15 and what pages without links pass on.
func TestValueOfTheIndex(t *testing.T) {
	m := newMade(t)
	m.visit(m.answer("", 200, "home", "a", "b"))
	m.visit(m.answer("a", 200, "a", ""), m.answer("b", 200, "b", "a"), m.answer("alone", 200, "alone", ""))
	c := m.taken(census.Options{})
	if got := figure(t, c, "value of the index: the sum of Pagerank, mean 1, times freshness"); got != 4 {
		t.Errorf("the value is %v, want 4", got)
	}
	for _, name := range []string{"least value of a page", "least Pagerank of a page, mean 1"} { // E42: no page has less than that of a jump
		if got := figure(t, c, name); got != .15 {
			t.Errorf("%s: %v, want .15", name, got)
		}
	}
	levels := tableOf(t, c, "pagerank_levels").Rows
	if last := levels[len(levels)-1]; last[3] != 1.0 {
		t.Errorf("the Pagerank of all levels is %v", last)
	}
}
