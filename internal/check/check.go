// Package check reads the files that a site has for crawlers, as a crawler would: its
// robots.txt, its sitemap, its feed or its robots.rdf, made by any tool, and some of
// the pages that they list. It reports what is wrong, what that costs, and what to do.
package check

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
)

// A Severity says how bad a Finding is.
type Severity string

// The severities, the worst first.
const (
	Error   Severity = "error"   // crawlers get wrong information, or cannot read it
	Warning Severity = "warning" // it costs the site or the crawlers more than necessary
	Note    Severity = "note"    // it could be better
)

func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Note}, s) }

// A Finding is one problem, with all its occurrences.
type Finding struct {
	Rule     string   `json:"rule"` // its name, which is stable, such as "lastmod-build-time"
	Severity Severity `json:"severity"`
	Where    string   `json:"where,omitempty"` // the first place: a URL, a file, or a line
	Count    int      `json:"count"`           // the number of entries, pages or lines concerned
	Of       int      `json:"of,omitempty"`    // the number examined; 0 if not meaningful
	Message  string   `json:"message"`         // what is wrong
	Cost     string   `json:"cost"`            // what that costs, and whom
	Fix      string   `json:"fix"`             // what to do
}

// A Report is the result of a check.
type Report struct {
	Target   string    `json:"target"` // as the caller named it
	Kind     string    `json:"kind"`   // the kind of document, such as "sitemap index"; "unknown" if none
	Entries  int       `json:"entries"`
	Bytes    int64     `json:"bytes"`   // read, uncompressed
	Sampled  int       `json:"sampled"` // pages fetched
	Findings []Finding `json:"findings"`
}

// Count returns how many findings have the severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// A Checker checks documents. Its zero value is usable. Its methods may be called
// by many goroutines at once; each call has a pace of its own.
//
// Its memory use is bounded, and so is what it reads: of each document at most 1 GiB
// and 2,000,000 entries, of an index 20 sitemaps, or all change parts and 20 page parts, of a page 4 MiB.
type Checker struct {
	// Client sends the requests. Nil means http.DefaultClient. It does not follow
	// redirects: those of the document are checked one by one, those of pages are
	// never followed.
	Client *http.Client

	// Agent is the User-Agent. Its product token selects the group of robots.txt.
	// Empty means "parley-check".
	Agent string

	// Sample is the number of listed pages to fetch, twice each. The choice depends
	// on their URLs alone, and so is the same the next time. Zero means 20, a
	// negative number none.
	Sample int

	// Every is the minimum interval between the starts of two requests. A longer
	// Crawl-delay in robots.txt takes precedence. Zero means 1 s.
	Every time.Duration

	// Wait bounds one check. If it ends early, the report says so. Zero means 15 minutes.
	Wait time.Duration

	// Page returns the noindex and the canonical URL that an HTML page declares; the
	// URL is empty if it is the page's own. Nil means that these are not checked.
	Page func(url string, page []byte) (noIndex bool, canonical string)

	// Progress, if not nil, is called before each request, with the number of requests
	// done and a lower bound of their total.
	Progress func(done, of int)

	Log *slog.Logger
	Now func() time.Time
}

const (
	sampleDefault = 20
	everyDefault  = time.Second
	waitDefault   = 15 * time.Minute
	agentDefault  = "parley-check"
)

// A run is one check in progress: it reads the document, and collects what is wrong. It is for one goroutine.
type run struct {
	violations
	report  *Report
	fetcher *fetcher // nil if no requests may be sent
	at      time.Time

	urls  urlSet // of entries
	gone  urlSet // of tombstones
	picks picks
	lists map[string]bool // sitemaps that robots.txt names, canonical
	first string          // the origin of the first entry, if that of the document is unknown
	dated int             // entries with a date, valid or not
	built time.Time       // the date of most entries, if the rule lastmod-alike is broken
}

func (c *Checker) start(target string) *run {
	return &run{report: &Report{Target: target, Kind: "unknown", Findings: []Finding{}}, violations: violations{},
		at: clock.Now(c.Now), picks: picks{most: max(cmp.Or(c.Sample, sampleDefault), 0)}}
}

// URL checks the document at a URL, and a sample of the pages that it lists. A
// document that cannot be fetched is a finding; an error is returned only for an
// invalid URL, or for ctx.
func (c *Checker) URL(ctx context.Context, url string) (*Report, error) {
	u, err := protocol.CanonicalURL("", url)
	if err != nil {
		return nil, fmt.Errorf("check %.200s: %w", url, err)
	}
	x := c.start(url)
	x.fetcher = newFetcher(c, x.violations)
	return x.within(ctx, c, func(ctx context.Context) { x.checkURL(ctx, u) })
}

// within reads a document, and then a sample of the pages that it lists, for at most Checker.Wait.
func (x *run) within(ctx context.Context, c *Checker, read func(context.Context)) (*Report, error) {
	inner, stop := context.WithTimeout(ctx, cmp.Or(c.Wait, waitDefault))
	defer stop()
	read(inner)
	if x.fetcher != nil {
		s := sampler{fetcher: x.fetcher, report: x.report, says: c.Page, built: builtDates{at: x.at, built: x.built}}
		s.pages(inner, x.picks.list)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("check %.200s: %w", x.report.Target, err)
	}
	if inner.Err() != nil {
		x.violate("out-of-time", "", "")
	}
	x.finish()
	return x.report, nil
}

// File checks a file. With fetch it also fetches robots.txt and a sample of the pages
// that the file lists; without, it sends no requests, and reads the sitemaps of an
// index if they are in the same directory. The error is about reading the file, or ctx.
func (c *Checker) File(ctx context.Context, path string, fetch bool) (*Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("check %s: not a regular file", path)
	}
	x := c.start(path)
	if fetch {
		x.fetcher = newFetcher(c, x.violations)
	}
	d := &document{place: path, modified: info.ModTime(), beside: filepath.Dir(path)}
	return x.within(ctx, c, func(ctx context.Context) { x.read(ctx, d, f) })
}

// finish turns the violations into the findings of the report, the worst first.
func (x *run) finish() {
	x.outOf(x.report.Entries, "relative-url", "foreign-url", "outside-path", "long-url", "duplicate", "not-canonical", "disallowed", "bad-priority")
	x.outOf(x.dated, "bad-date", "absurd-date", "future-date", "zoneless-date")
	for i := range rules {
		if h := x.violations[rules[i].id]; h != nil {
			x.report.Findings = append(x.report.Findings, rules[i].finding(h))
		}
	}
	slices.SortStableFunc(x.report.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
}

// A violation collects the violations of one rule.
type violation struct {
	count, of int
	where     string // the first place
	eg        string // the first example
	bytes     [2]int64
	fixed     string // replaces {fixed}
}

// amount counts n things instead of the one that was just recorded, and adds how many were examined.
func (h *violation) amount(n, of int) {
	h.count += n - 1
	h.of += of
}

// violations has what was found against each rule, by the rule's name.
type violations map[string]*violation

// violate records one more violation of a rule.
func (v violations) violate(rule, where, eg string) *violation {
	h := v[rule]
	if h == nil {
		h = &violation{where: where, eg: eg}
		v[rule] = h
	}
	h.count++
	return h
}

// violateURL is violate for a URL that is itself the example.
func (v violations) violateURL(rule, url string) *violation { return v.violate(rule, url, short(url)) }

// outOf sets how many things were examined for some rules.
func (v violations) outOf(n int, rules ...string) {
	for _, rule := range rules {
		if h := v[rule]; h != nil {
			h.of = max(n, h.count)
		}
	}
}
