// Package report says from a site's own access log what crawlers cost it, and
// what each way of telling them what changed would have saved. It needs the
// log and nothing else: no state, no docroot, no crawler that speaks Parley.
//
// A log shows who asked for what, and what was answered. It does not show
// whether a page had changed between two requests, nor what the client held.
// So some of what is said here is measured and some is a bound, and Report.Method,
// which every form of the report prints, says which is which.
package report

import (
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
)

// A Report is what Build found. Its JSON is the interface of `rdfgen report --json`.
type Report struct {
	From time.Time `json:"from"` // of the first request that counts, in the zone of the report
	To   time.Time `json:"to"`   // of the last
	Zone string    `json:"zone"` // that hours and days are of: "as logged", or a name

	Log Log `json:"log"`

	Total  Traffic       `json:"total"`
	Status map[int]int64 `json:"status"` // requests by status; 0 is none

	Groups   []Group   `json:"groups"`   // who asks, in four groups
	Kinds    []Group   `json:"kinds"`    // what crawlers ask for
	Crawlers []Crawler `json:"crawlers"` // each of them, most requests first

	// All is the sum of all crawlers.
	All Reading `json:"all"`

	Savings []Saving `json:"savings"` // heal, sitemap, manifest, push
	Pages   []Page   `json:"pages"`   // those most re-read, at most Options.Top
	Hours   [24]Span `json:"hours"`   // by hour of the day
	Days    []Day    `json:"days"`    // in order; days without requests between others are there

	Limits Limits   `json:"limits"` // what did not fit into memory
	Method []Method `json:"method"` // what is measured, and what is bound
}

// Traffic is a number of requests, and the bytes that were sent for them.
type Traffic struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
}

func (t *Traffic) add(o Traffic) { t.Requests += o.Requests; t.Bytes += o.Bytes }

// Log says what was read.
type Log struct {
	Files    []File              `json:"files"`
	Lines    int64               `json:"lines"`
	Broken   int64               `json:"broken"`   // lines that could not be read
	Cut      int64               `json:"cut"`      // lines that were too long, and lost their end
	Outside  int64               `json:"outside"`  // requests before Since or after Until
	NoAgent  int64               `json:"no_agent"` // requests of lines that have no place for the user agent
	NoSize   int64               `json:"no_size"`  // requests of lines that do not say how much was sent
	Examples []accesslog.Example `json:"examples,omitempty"`
}

// A File is one file of the log.
type File struct {
	Name    string `json:"name"`
	Format  string `json:"format,omitempty"`
	Entries int64  `json:"entries"`
	Broken  int64  `json:"broken,omitempty"`
	Twin    string `json:"twin,omitempty"`  // begins as that one does, and was left out
	Error   string `json:"error,omitempty"` // why it was not read to its end
}

// A Group is a part of those who ask.
type Group struct {
	Name string `json:"name"`
	Traffic
}

// The names of groups.
const (
	browsers = "browsers" // most likely people
	Crawlers = "crawlers"
	programs = "programs" // neither by their names
	unnamed  = "unnamed"  // without a user agent
)

// What stands behind a crawler's name.
const (
	Claimed  = "claimed"  // only what it calls itself
	Verified = "verified" // its address is of those that its operator names
	False    = "false"    // its address is not
)

// A Crawler is one that asks under a name.
type Crawler struct {
	Name  string         `json:"name"`
	Kind  accesslog.Kind `json:"kind"`
	Claim string         `json:"claim"` // Claimed, Verified or False

	Traffic
	Reading
	Days   int           `json:"days"`   // on which it came
	Status map[int]int64 `json:"status"` // requests by status
	Hours  [24]int64     `json:"hours"`  // requests by hour of the day

	// ByDNS says how many requests came from addresses that the crawler's own
	// domain names, when that was asked for.
	ByDNS *ByDNS `json:"by_dns,omitempty"`

	Savings []Saving `json:"savings"`
}

// ByDNS is what forward-confirmed reverse DNS said of a crawler's requests.
type ByDNS struct {
	Verified  int64 `json:"verified"`
	False     int64 `json:"false"`
	Unchecked int64 `json:"unchecked"` // no answer, or more addresses than are checked
}

// Reading is what was read, and read again. All of it is measured, but for
// Unchanged, which follows from what other clients were told.
type Reading struct {
	Pages       int64   `json:"pages"`       // different URLs that were read
	Reads       Traffic `json:"reads"`       // GETs answered 200
	Same        Traffic `json:"same"`        // of them: read before, and of the same size then. At most these were unchanged
	Different   Traffic `json:"different"`   // of them: read before, and of another size then
	Unchanged   Traffic `json:"unchanged"`   // of Same: at least these were unchanged, as a 304 shows
	Contrary    int64   `json:"contrary"`    // of Different: unchanged all the same, as a 304 shows
	NotModified int64   `json:"notmodified"` // GETs answered 304
	GoneAgain   Traffic `json:"gone_again"`  // answered 301, 308, 404 or 410, as that URL was before
}

func (r *Reading) add(o Reading) {
	r.Pages += o.Pages
	r.Reads.add(o.Reads)
	r.Same.add(o.Same)
	r.Different.add(o.Different)
	r.Unchanged.add(o.Unchanged)
	r.Contrary += o.Contrary
	r.NotModified += o.NotModified
	r.GoneAgain.add(o.GoneAgain)
}

// The ways to save, from what needs least to what needs most.
const (
	Heal     = "heal"     // times of files that survive a rebuild, so that 304 is answered
	Sitemap  = "sitemap"  // a sitemap whose lastmod is true
	Manifest = "manifest" // robots.rdf
	Push     = "push"     // a stream, IndexNow or WebSub
)

// A Saving says what a way would have saved at most, had every crawler used it
// from the first day of the log, and at most with those that are known to use
// it as they are.
type Saving struct {
	Way    string  `json:"way"`
	AtMost Traffic `json:"at_most"`
	Today  Traffic `json:"today"`
	Costs  int64   `json:"costs"` // requests that it needs itself, taken off both
}

// A Page is a URL that crawlers read again and again.
type Page struct {
	URL         string  `json:"url"` // as requested, after the virtual host if the log names it
	Reads       int64   `json:"reads"`
	Same        Traffic `json:"same"`
	Different   int64   `json:"different"`
	NotModified int64   `json:"notmodified"`
	Crawlers    int     `json:"crawlers"` // that read it
	Requests    int64   `json:"requests"` // by anybody, with any method and status
}

// A Span is a part of time.
type Span struct {
	Traffic
	Crawlers Traffic `json:"crawlers"` // their part of it
}

// A Day is a day in the zone of the report.
type Day struct {
	Date string `json:"date"` // 2006-01-02
	Span
}

// Limits says what did not fit into memory. All zero is exact.
type Limits struct {
	URLs      int   `json:"urls"`       // different ones that are remembered at most
	Forgotten int64 `json:"forgotten"`  // URLs that were dropped to make room, those with fewest requests
	LowBy     int64 `json:"low_by"`     // the requests of a page may be too low by at most this
	RereadsBy int64 `json:"rereads_by"` // all re-reads together may be too low by at most this
	TooLong   int64 `json:"too_long"`   // requests of URLs too long to be remembered; in totals only
	Days      int64 `json:"days"`       // requests of days beyond those that are told apart
}

// Exact reports whether everything fitted.
func (l Limits) Exact() bool {
	return l.Forgotten == 0 && l.TooLong == 0 && l.Days == 0
}
