// Package report computes from a site's own access log what crawlers cost it, and what each way of telling
// them about changes would have saved; what to do first; and in which families of URLs crawlers find almost
// nothing new. It needs nothing but the log: no state, no docroot, no crawler that speaks Parley.
//
// A log shows who requested what, and the response. It does not show whether a page had changed between two
// requests, nor what the client held. So some numbers are measured and some are bounds, and Report.Method,
// which every form of the report prints, says which is which.
package report

import (
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
)

// A Report is the result of Build. Its JSON is the interface of `rdfgen report --json`.
type Report struct {
	From time.Time `json:"from"` // the first request that counts, in the zone of the report
	To   time.Time `json:"to"`   // the last one
	Zone string    `json:"zone"` // zone of hours and days: "as logged", or a name

	Log Log `json:"log"`

	Total  Traffic       `json:"total"`
	Status map[int]int64 `json:"status"` // requests by status; 0 is unknown

	Groups   []Group   `json:"groups"`   // all clients, in four groups
	Kinds    []Group   `json:"kinds"`    // crawlers, by kind
	Crawlers []Crawler `json:"crawlers"` // sorted by requests, most first

	// All is the sum of all crawlers.
	All Reading `json:"all"`

	First    First    `json:"first"`    // what to do first
	Families []Family `json:"families"` // of URLs that are not worth crawling, at most 10

	Savings []Saving `json:"savings"` // heal, sitemap, manifest, push
	Pages   []Page   `json:"pages"`   // the most re-read ones, at most Options.Top
	Hours   [24]Span `json:"hours"`   // by hour of the day
	Days    []Day    `json:"days"`    // in order, including days without requests between others

	Limits Limits   `json:"limits"` // data that did not fit into memory
	Method []Method `json:"method"` // which numbers are measured, and which are bounds
}

// Traffic is a number of requests, and the bytes sent in response.
type Traffic struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
}

func (t *Traffic) add(o Traffic) { t.Requests += o.Requests; t.Bytes += o.Bytes }

// Log describes the log files.
type Log struct {
	Files    []File              `json:"files"`
	Lines    int64               `json:"lines"`
	Broken   int64               `json:"broken"`   // lines that could not be read
	Cut      int64               `json:"cut"`      // lines that were too long, and were cut
	Outside  int64               `json:"outside"`  // requests before Since or after Until
	NoAgent  int64               `json:"no_agent"` // requests of log formats without the user agent
	NoSize   int64               `json:"no_size"`  // requests of lines without the bytes sent
	Examples []accesslog.Example `json:"examples,omitempty"`
}

// A File is one file of the log.
type File struct {
	Name    string `json:"name"`
	Format  string `json:"format,omitempty"`
	Entries int64  `json:"entries"`
	Broken  int64  `json:"broken,omitempty"`
	Twin    string `json:"twin,omitempty"`  // it begins like that file, and was left out
	Error   string `json:"error,omitempty"` // why it was not read to its end
}

// A Group is a group of clients.
type Group struct {
	Name string `json:"name"`
	Traffic
}

// The names of groups.
const (
	browsers = "browsers" // most likely people
	Crawlers = "crawlers"
	programs = "programs" // neither browsers nor crawlers by their names
	unnamed  = "unnamed"  // without a user agent
)

// How far a crawler's name can be trusted.
const (
	Claimed  = "claimed"  // only its user agent says so
	Verified = "verified" // its address is one that its operator publishes
	False    = "false"    // its address is not
)

// A Crawler is a crawler by its name.
type Crawler struct {
	Name  string         `json:"name"`
	Kind  accesslog.Kind `json:"kind"`
	Claim string         `json:"claim"` // Claimed, Verified or False

	Traffic
	Reading
	Days   int           `json:"days"`   // on which it came
	Robots bool          `json:"robots"` // it requested robots.txt
	Status map[int]int64 `json:"status"` // requests by status
	Hours  [24]int64     `json:"hours"`  // requests by hour of the day

	// ByDNS counts the requests by whether the crawler's own domain confirms the address, if that was looked
	// up.
	ByDNS *ByDNS `json:"by_dns,omitempty"`

	Savings []Saving `json:"savings"`
}

// ByDNS is the result of forward-confirmed reverse DNS for a crawler's requests.
type ByDNS struct {
	Verified  int64 `json:"verified"`
	False     int64 `json:"false"`
	Unchecked int64 `json:"unchecked"` // no DNS answer, or more addresses than are checked
}

// Reading counts reads and re-reads. All of it is measured, except Unchanged, which follows from responses to
// other clients.
type Reading struct {
	Pages       int64   `json:"pages"`       // different URLs that were read
	Reads       Traffic `json:"reads"`       // GETs answered 200
	Same        Traffic `json:"same"`        // of them: re-reads of the same size. At most these were unchanged
	Different   Traffic `json:"different"`   // of them: re-reads of another size
	Unchanged   Traffic `json:"unchanged"`   // of Same: at least these were unchanged, as a 304 shows
	Contrary    int64   `json:"contrary"`    // of Different: unchanged all the same, as a 304 shows
	NotModified int64   `json:"notmodified"` // GETs answered 304
	GoneAgain   Traffic `json:"gone_again"`  // answered 301, 308, 404 or 410, as that URL was before
}

// firstReads returns the reads that are no re-reads.
func (r *Reading) firstReads() Traffic {
	return Traffic{r.Reads.Requests - r.Same.Requests - r.Different.Requests, r.Reads.Bytes - r.Same.Bytes - r.Different.Bytes}
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

// The ways to save, from the least to the most demanding.
const (
	Heal     = "heal"     // mtimes that survive a rebuild, so that a 304 is possible
	Sitemap  = "sitemap"  // a sitemap with a true lastmod
	Manifest = "manifest" // robots.rdf
	Push     = "push"     // a stream, IndexNow or WebSub
)

// A Saving is an upper bound of what a way would have saved: had every crawler used it from the first day of
// the log, and with those that are known to use it today.
type Saving struct {
	Way    string  `json:"way"`
	AtMost Traffic `json:"at_most"`
	Today  Traffic `json:"today"`
	Costs  int64   `json:"costs"` // requests that it needs itself, already subtracted from both
}

// A Page is a URL that crawlers read again and again.
type Page struct {
	URL         string  `json:"url"` // as requested, after the virtual host if the log names it
	Reads       int64   `json:"reads"`
	Same        Traffic `json:"same"`
	Different   int64   `json:"different"`
	NotModified int64   `json:"notmodified"`
	Crawlers    int     `json:"crawlers"` // crawlers that read it
	Requests    int64   `json:"requests"` // by anybody, with any method and status
}

// A Span is the traffic of some time.
type Span struct {
	Traffic
	Crawlers Traffic `json:"crawlers"` // crawlers' part of it
}

func (s *Span) add(t Traffic, byCrawler bool) {
	s.Traffic.add(t)
	if byCrawler {
		s.Crawlers.add(t)
	}
}

// A Day is a day in the zone of the report.
type Day struct {
	Date string `json:"date"` // 2006-01-02
	Span
}

// Limits describes data that did not fit into memory. If all are zero the report is exact.
type Limits struct {
	URLs      int   `json:"urls"`       // the most URLs that are remembered
	Forgotten int64 `json:"forgotten"`  // URLs that were dropped to make room, those with fewest requests
	LowBy     int64 `json:"low_by"`     // the requests of a page may be too low by at most this
	RereadsBy int64 `json:"rereads_by"` // all re-reads together may be too low by at most this
	TooLong   int64 `json:"too_long"`   // requests of URLs that were too long; they count in totals only
	Days      int64 `json:"days"`       // requests of days beyond those that are listed
}

// Exact reports whether everything fitted.
func (l Limits) Exact() bool {
	return l.Forgotten == 0 && l.TooLong == 0 && l.Days == 0
}
