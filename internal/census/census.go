// Package census counts what a collection consists of: the numbers of Castillo 2004, chapter 8, and of section 2.1.2, as tables.
//
// A page of the census is one whose state is Held: it was fetched, and its content is stored and is the newest known. Others count in the
// tables states, status, changes, intervals, lifetimes, dead and saved alone. A page whose text another page had first is a duplicate, as the collection marks
// it. A site is an origin with at least one such page. A link counts once for each page that it is on, and not if it leads back to
// that page; a link to a page that redirects counts as one to where that leads. Sites fetched with cookies or client certificates count
// in every number, but no table has their names.
//
// The depth of a page is the least number of links, all on its site, from the site's home page to it: from "/", from start pages of the
// crawl, and on a site without either, from its page nearest to a start page. A page that such links do not reach has the depth that the
// collection stores: how many links, or segments of its path, it was found away from a start page. More than 255 count as 255.
//
// The age of a page is that at its last visit, by the Last-Modified of the answer, if it is credible (protocol.SaneModified). "Now" is
// the time of the newest visit.
//
// Columns from and to are the borders of classes, both included: the whole numbers 0 to 9 are classes of their own, then each power of
// ten is divided into ten of equal width on a logarithmic scale (10 to 12, 13 to 15, 16 to 19, 20 to 24, 25 to 31, 32 to 39, ...).
// Classes with nothing in them are left out. Shares are between 0 and 1. Numbers with a fraction are rounded to 6 digits.
//
// The tables, with the rows of docs/papers.md that they are for:
//
//	summary          figure, value                           numbers of the whole: pages, sites, averages, shares (R01, R03, R04, R12-R18, V05)
//	states           state, pages                            all URLs that the crawler knows
//	status           code, class, pages                      last answers, in the classes of Castillo 8.3.1; code 0: none (R02)
//	types            type, pages, bytes                      media types
//	lengths          from, to, pages                         bytes of a page (R03)
//	ages_months      months, pages                           ages in whole months of 30.44 days (R04)
//	ages_years       years, pages                            (R04)
//	depths           depth, static, dynamic, dynamic_share   pages (R05, R27)
//	languages        depth, language, declared, sampled      pages by what they declare, and pages of a sample by their words (R06)
//	data             kind, pages, share                      pages of HTML in the sample that have data for programs, or link to such (O24)
//	technologies     technology, extension, pages            dynamic pages (R07)
//	references       group, extension, links, pages          what pages refer to besides pages (R08 to R11)
//	media            depth, links, distinct, repeated_share  embedded images, audio and video, by the depth of the page (R09)
//	tlds             tld, own, links, hosts, share           links to other hosts by their top-level domain; own is 1 for one that sites of the
//	                                                         collection are in, and shares are of links to others (R18)
//	site_pages       from, to, sites                         pages of a site (R12)
//	site_bytes       from, to, sites                         bytes of a site (R13)
//	site_depths      depth, sites, share                     greatest depth of a site, and the share of sites no deeper (R14)
//	site_ages        years, oldest, newest, mean             sites by the ages of these pages (R15)
//	degrees          from, to, in, out                       pages by how many pages link to them, and they to (R16)
//	length_links     from, to, pages, mean, most             pages by bytes, and their links (R16)
//	scores           from, pagerank, hub, authority          pages by their score, as a multiple of the mean of all pages, from this on (R17)
//	site_scores      from, pagerank, hub, authority, siterank   sites by the sum of their pages' scores, and by siterank, likewise (R22)
//	sites            site, pages, bytes, pagerank, hub, authority, siterank   each site, with sums and siterank as multiples of the mean of all
//	                                                         sites, the highest siterank first (K08, V23)
//	pagerank_levels  depth, pages, sum, cumulative           shares of all Pagerank (R28)
//	site_graph       figure, number, share                   sites with links from and to others (R20)
//	site_degrees     from, to, in, out                       sites by how many sites link to them, and they to (R21)
//	linked_sites     site, linking_sites, links, pages       the 20 sites to which most others link (R23)
//	components       size, components                        strongly connected components of the sites with such links (R24)
//	bowtie           part, sites, pages, share               the bow-tie of all sites; MAIN is the sum of its four parts (R25)
//	changes          changes, pages                          pages visited twice or more, by the changes that visits found (F03)
//	intervals        from, to, pages                         their mean time between changes, in days (F04)
//	lifetimes        from, to, pages                         days that pages were seen to live which are gone by now (F04)
//	dead             sites, copies, suspected, gone, share   stored copies whose page was not found at the last visit, or is gone (F17)
//	saved            way, requests, bytes, of                what cooperation of sites has saved, as far as the stored numbers prove it (C40, C41)
//	laws             quantity, kind, parameter, from, values, distance   the exponent of k^-exponent, or the rate of e^(-rate k), for numbers k from
//	                                                         this one on; how many there are, and how far from the law they are
//	                                                         (Kolmogorov and Smirnov's distance) (R03, R04, R12, R13, R16, R21)
package census

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/protocol"
)

// A Census is the numbers of one collection.
type Census struct{ Tables []Table }

// A Table is the numbers of one report.
type Table struct {
	Name    string   // of its CSV file, such as "depths"
	Source  string   // where the papers ask for it, such as "R05, Castillo 8.3.4"
	Columns []string // the first ones, Keys of them, say what a row is about
	Keys    int
	Rows    [][]any // string, int64 or float64
}

// Options of a Census. The zero value is useful.
type Options struct {
	Dates protocol.DateLimits // of credible Last-Modified dates

	// EmptyIsError makes 204 a server error, as Castillo 8.3.1 does, not a success (E43).
	EmptyIsError bool

	// Sample is of how many pages the language is found out by their words. Zero means 5,000; negative none.
	Sample int
}

// Take reads a collection that nobody writes to, and counts. The same collection gives the same Census. Memory holds some 100 bytes
// for each page, and 4 for each other known URL and for each link. An error is one of reading the collection, or of ctx.
func Take(ctx context.Context, col *collection.Collection, o Options) (*Census, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // what it needs it needs to the end: less room for garbage costs next to nothing
	t := &taking{opts: o, ctx: ctx, col: col, book: newBook(col.Len())}
	t.times = times{changes: map[int64]int64{}, intervals: histogram{}, lifetimes: histogram{}}
	t.sample = sample{most: max(cmp.Or(o.Sample, 5000), 0), highest: math.MaxUint64, spoken: map[byDepth]int64{}, forms: map[string]int64{}}
	for _, step := range []func() error{t.readPages, t.readLinks, t.readDepths, t.readReferences, t.readSample, t.readScores} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("take census: %w", err)
		}
	}
	c := Census{Tables: []Table{t.summary()}}
	for _, tables := range [][]Table{t.pageTables(), t.sites.tables(), t.references.tables(col, &t.sites), t.web.tables(t.book), t.scoreTables(), t.siteGraph.tables(col, &t.sites),
		t.times.tables(&t.sites), {t.savedTable(requests(col)), t.laws()}} {
		c.Tables = append(c.Tables, tables...)
	}
	return &c, nil
}

// requests returns how many requests for pages were sent.
func requests(col *collection.Collection) (n int64) {
	for s := range col.Sites() {
		n += s.Requests
	}
	return n
}

// A taking is a Census while it is taken.
type taking struct {
	opts Options
	ctx  context.Context
	col  *collection.Collection

	book  *book
	sites sites
	times times
	web   web

	references references
	sample     sample
	scores     scores
	siteGraph  *siteGraph
	saved      saved
}

// table begins a table, whose columns are separated by spaces.
func table(name, source string, keys int, columns ...string) Table {
	return Table{Name: name, Source: source, Columns: columns, Keys: keys}
}

// row adds a row. A float64 that is no number is left out with its row.
func (t *Table) row(cells ...any) {
	for i, cell := range cells {
		switch v := cell.(type) {
		case int:
			cells[i] = int64(v)
		case uint32:
			cells[i] = int64(v)
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return
			}
			cells[i] = rounded(v)
		}
	}
	t.Rows = append(t.Rows, cells)
}

// rounded returns a number with 6 digits, so that machines that compute the last bits differently report the same.
func rounded(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', 5, 64), 64)
	return v
}

// per is a/b; NaN, which row leaves out, if there are no b.
func per[A, B int | int64 | float64](a A, b B) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}
