package probe

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/internal/digits"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
)

// A Report is the result of a probe. Durations are in nanoseconds in JSON, and sizes in bytes. Values that
// were not fetched, or not found, are zero.
type Report struct {
	Asked  string   `json:"asked"`
	Moved  []string `json:"moved,omitempty"` // redirects of the page to other sites
	URL    string   `json:"url"`             // of the page after redirects
	Origin string   `json:"origin"`

	At       time.Time     `json:"at"`
	Took     time.Duration `json:"took"`
	Requests int           `json:"requests"`
	Bytes    int64         `json:"bytes"`
	Fault    string        `json:"fault,omitempty"` // why the probe ended early

	Robots    Robots      `json:"robots"`
	Forbidden []Forbidden `json:"forbidden,omitempty"` // URLs not fetched because of robots.txt
	Page      Page        `json:"page"`
	Missing   *Missing    `json:"missing,omitempty"`
	Twin      *Twin       `json:"twin,omitempty"`

	Manifest *Manifest `json:"manifest,omitempty"`
	Feeds    []Feed    `json:"feeds,omitempty"`
	Sitemaps []Sitemap `json:"sitemaps,omitempty"`
	// SitemapsUnread counts sitemaps that were not read: too many, or on another site.
	SitemapsUnread int      `json:"sitemaps_unread,omitempty"`
	Sample         *Sample  `json:"sample,omitempty"`
	Hubs           []string `json:"hubs,omitempty"` // WebSub

	Cost *Cost `json:"cost,omitempty"`
}

// Robots is the content of a robots.txt.
type Robots struct {
	Status    int           `json:"status"`
	Fault     string        `json:"fault,omitempty"`
	Bytes     int           `json:"bytes"`
	Agents    []string      `json:"agents,omitempty"` // agents that it names
	Named     bool          `json:"named"`            // Prober.Agent is among them
	Allowed   bool          `json:"allowed"`          // the page
	Line      string        `json:"line,omitempty"`   // the rule that decides so
	Delay     time.Duration `json:"delay,omitempty"`  // Crawl-delay
	Sitemaps  []string      `json:"sitemaps,omitempty"`
	Manifests []string      `json:"manifests,omitempty"`
}

// A Forbidden is a URL that robots.txt forbids, and the line that does.
type Forbidden struct {
	URL  string `json:"url"`
	Line string `json:"line"`
}

// A Page is the page that the probe began with.
type Page struct {
	Status       int           `json:"status"`
	Fault        string        `json:"fault,omitempty"`
	Proto        string        `json:"proto,omitempty"`
	Type         string        `json:"type,omitempty"`
	Coding       string        `json:"coding,omitempty"`
	Bytes        int           `json:"bytes"`
	Wire         int           `json:"wire"`
	Cut          bool          `json:"cut,omitempty"`
	Took         time.Duration `json:"took"`
	Title        string        `json:"title,omitempty"`
	Language     string        `json:"language,omitempty"`
	NoIndex      bool          `json:"noindex,omitempty"`
	Links        int           `json:"links"` // to pages of the same site
	ETag         string        `json:"etag,omitempty"`
	LastModified string        `json:"last_modified,omitempty"`
	Date         string        `json:"date,omitempty"` // defect of the date: "absurd" or "now"
	// ByETag and ByDate are the results of conditional requests: "304", "sent again" if the condition is
	// ignored, "other content", "no answer".
	ByETag  string `json:"by_etag,omitempty"`
	ByDate  string `json:"by_date,omitempty"`
	Varying bool   `json:"restless,omitempty"` // it differs at each request
}

// A Missing is a page that cannot exist (P12).
type Missing struct {
	URL     string `json:"url"`
	Status  int    `json:"status"`
	Verdict string `json:"verdict"` // "honest", "soft: ..." or "unclear"
}

// A Twin is the same host with or without www. (P08).
type Twin struct {
	Origin  string `json:"origin"`
	Verdict string `json:"verdict"`
}

// Dates are those of a document's entries. The verdict is "none", "plausible", "unproved" (fewer than 10), or
// a trust.Worth that names the defect.
type Dates struct {
	Entries int       `json:"entries"`
	Dated   int       `json:"dated"`
	Newest  time.Time `json:"newest,omitzero"`
	Verdict string    `json:"verdict,omitempty"`
	worth   trust.Worth
}

// A Manifest is a site's robots.rdf.
type Manifest struct {
	URL         string `json:"url"`
	Fault       string `json:"fault,omitempty"`
	Bytes       int    `json:"bytes"`
	Wire        int    `json:"wire"`
	Items       int    `json:"items"`
	Parts       int    `json:"parts,omitempty"` // of a manifest in parts, which are not read: Digests and Dates are of the index
	Digests     int    `json:"digests"`         // items with a digest
	Complete    bool   `json:"complete"`
	Cursor      string `json:"cursor,omitempty"`
	Dates       Dates  `json:"dates"`
	NotModified string `json:"not_modified,omitempty"`
	Changes     string `json:"changes,omitempty"`
	ChangesOpen bool   `json:"changes_open,omitempty"` // it responds as it should
	Stream      string `json:"stream,omitempty"`
	StreamOpen  bool   `json:"stream_open,omitempty"`

	// What the site offers in addition to changes.
	Forms   []protocol.Form `json:"forms,omitempty"`
	Filters []string        `json:"filters,omitempty"`
	Batch   string          `json:"batch,omitempty"` // URL for many pages at once
	Archive string          `json:"archive,omitempty"`
}

// A Feed is RSS, Atom or JSON Feed.
type Feed struct {
	URL         string `json:"url"`
	Status      int    `json:"status"`
	Fault       string `json:"fault,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Wire        int    `json:"wire"`
	Entries     int    `json:"entries"`
	Dates       Dates  `json:"dates"`
	Hub         string `json:"hub,omitempty"`
	NotModified string `json:"not_modified,omitempty"`
}

// A Sitemap is a sitemap or an index of them.
type Sitemap struct {
	URL         string `json:"url"`
	By          string `json:"by"` // source of its URL: "robots.txt", "the page", "a guess", or another sitemap
	Status      int    `json:"status"`
	Fault       string `json:"fault,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Wire        int    `json:"wire"`
	Pages       int    `json:"pages"`
	Sitemaps    int    `json:"sitemaps,omitempty"`
	Dates       Dates  `json:"dates"`
	NotModified string `json:"not_modified,omitempty"`
}

// A Sample is the result of fetching a few pages that the site names, and how the dates that it states
// compare with their Last-Modified. Later dates than the server's may be those of a build; earlier ones miss
// changes.
type Sample struct {
	Asked      int `json:"asked"`
	Forbidden  int `json:"forbidden,omitempty"`
	Dead       int `json:"dead,omitempty"`
	Redirected int `json:"redirected,omitempty"`
	Undated    int `json:"undated,omitempty"` // without a credible Last-Modified
	Agree      int `json:"agree,omitempty"`   // within a day
	Earlier    int `json:"earlier,omitempty"`
	Later      int `json:"later,omitempty"`
}

// A Cost is the cost of a month. The package documentation has the formulas.
type Cost struct {
	Freshness        float64       `json:"freshness"`       // requested
	Pages            int           `json:"pages"`           // known
	AllPages         bool          `json:"all_pages"`       // Pages are all; otherwise there are more
	Dates            string        `json:"dates,omitempty"` // source of the dates of changes; empty: assumed
	Dated            int           `json:"dated"`           // pages with a date
	ChangesADay      float64       `json:"changes_a_day"`   // of all pages together
	Interval         time.Duration `json:"interval"`        // between two polls of a page
	PageBytes        int           `json:"page_bytes"`
	NotModifiedBytes int           `json:"not_modified_bytes"`
	Delay            time.Duration `json:"delay"` // between two requests, in a crawl
	Doors            []Door        `json:"doors"`
}

// A Door is a way to learn of changes, and its cost in a month.
type Door struct {
	Name      string        `json:"name"`
	Offered   bool          `json:"offered"` // and credible; if not, the rest is what it would cost
	Note      string        `json:"note,omitempty"`
	Every     time.Duration `json:"every,omitempty"` // interval of its polls
	Freshness float64       `json:"freshness"`
	Age       time.Duration `json:"age"` // mean age of the copies
	Requests  float64       `json:"requests"`
	Bytes     float64       `json:"bytes"`
	Fits      bool          `json:"fits"` // the delay allows that many requests in a month
}

func (r *Report) hub(url string) {
	if url != "" && !slices.Contains(r.Hubs, url) && len(r.Hubs) < 10 {
		r.Hubs = append(r.Hubs, url)
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("page", "%s", r.URL)
	for _, m := range r.Moved {
		line("", "redirects to %s", m)
	}
	if r.Fault != "" {
		line("", "%s", r.Fault)
	}
	line("response", "%s", r.Page.say())
	line("conditional", "by ETag: %s; by date: %s", cmp.Or(r.Page.ByETag, "none"), cmp.Or(r.Page.ByDate, "none"))
	if r.Page.Varying {
		line("", "content differs at each request")
	}
	line("robots.txt", "%s", r.Robots.say())
	for _, f := range r.Forbidden {
		line("", "not fetched: %s (%s)", f.URL, f.Line)
	}
	if r.Missing != nil {
		line("missing page", "%s (%d)", r.Missing.Verdict, r.Missing.Status)
	}
	if r.Twin != nil {
		line("www variant", "%s: %s", r.Twin.Origin, r.Twin.Verdict)
	}
	r.sources(line)
	t.Flush()
	b.WriteByte('\n')
	r.Cost.write(&b)
	fmt.Fprintf(&b, "%d requests, %s, %v.\n", r.Requests, size(float64(r.Bytes)), r.Took.Round(time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) sources(line func(name, format string, args ...any)) {
	if m := r.Manifest; m == nil {
		line("manifest", "none")
	} else {
		items := fmt.Sprintf("%d items, %d with a digest", m.Items, m.Digests)
		if m.Parts > 0 {
			items = fmt.Sprintf("%d items in %d parts; the index has", m.Items, m.Parts)
		}
		line("manifest", "%s: %s, %s; dates %s; conditional request: %s", m.URL, items, size(float64(m.Wire)), m.Dates.Verdict, cmp.Or(m.NotModified, "-"))
		if m.Fault != "" {
			line("", "%s", m.Fault)
		}
		line("push", "stream: %s; changes: %s", open(m.Stream, m.StreamOpen), open(m.Changes, m.ChangesOpen))
		if len(m.Forms) > 0 {
			var forms []string
			for _, as := range m.Forms {
				forms = append(forms, string(as))
			}
			line("", "forms: %s", strings.Join(forms, ", "))
		}
		if len(m.Filters) > 0 {
			line("", "filters: %s", strings.Join(m.Filters, ", "))
		}
		if m.Batch != "" {
			line("", "batches of pages: %s", m.Batch)
		}
		if m.Archive != "" {
			line("", "archive of the site: %s", m.Archive)
		}
	}
	for _, h := range r.Hubs {
		line("push", "WebSub hub %s", h)
	}
	for i, f := range r.Feeds {
		line(first("feeds", i), "%s: %s", f.URL, cmp.Or(f.Fault, fmt.Sprintf("%s, %d entries; dates %s; conditional request: %s", f.Kind, f.Entries, f.Dates.Verdict, cmp.Or(f.NotModified, "-"))))
	}
	if len(r.Feeds) == 0 {
		line("feeds", "none")
	}
	for i, s := range r.Sitemaps {
		what := cmp.Or(s.Fault, fmt.Sprintf("status %d", s.Status))
		if s.Fault == "" && s.Status == 200 {
			what = fmt.Sprintf("%s of %d pages, %d sitemaps, %s; dates %s (%d dated); conditional request: %s", s.Kind, s.Pages, s.Sitemaps, size(float64(s.Wire)), s.Dates.Verdict, s.Dates.Dated, cmp.Or(s.NotModified, "-"))
		}
		line(first("sitemaps", i), "%s (source: %s): %s", s.URL, s.By, what)
	}
	if len(r.Sitemaps) == 0 {
		line("sitemaps", "none")
	} else if r.SitemapsUnread > 0 {
		line("", "%d more not read: too many, or on another site", r.SitemapsUnread)
	}
	if s := r.Sample; s != nil {
		line("sample", "%d pages fetched: %d failed, %d redirected; Last-Modified: %d agree, %d older, %d newer than the stated date, %d missing or not credible",
			s.Asked, s.Dead, s.Redirected, s.Agree, s.Later, s.Earlier, s.Undated)
	}
}

func first(name string, i int) string {
	if i > 0 {
		return ""
	}
	return name
}

func open(url string, opens bool) string {
	switch {
	case url == "":
		return "none"
	case opens:
		return "open"
	}
	return "named, but does not respond as it should"
}

func (p *Page) say() string {
	if p.Status == 0 {
		return cmp.Or(p.Fault, "not fetched")
	}
	s := fmt.Sprintf("%d %s %s, %s", p.Status, p.Proto, cmp.Or(p.Type, "no content type"), size(float64(p.Bytes)))
	if p.Coding != "" {
		s += fmt.Sprintf(", %s as %s", size(float64(p.Wire)), p.Coding)
	}
	if p.Date != "" {
		s += "; Last-Modified is " + p.Date
	}
	return s + fmt.Sprintf("; %d links to the same site", p.Links)
}

func (r *Robots) say() string {
	switch {
	case r.Status == 0:
		return "no response: " + cmp.Or(r.Fault, "nothing is allowed")
	case r.Status < 200 || r.Status > 299:
		return fmt.Sprintf("status %d: %s", r.Status, map[bool]string{true: "everything is allowed", false: "nothing is allowed"}[r.Allowed])
	}
	s := map[bool]string{true: "the page is allowed", false: "the page is forbidden"}[r.Allowed]
	if r.Line != "" {
		s += " (" + r.Line + ")"
	}
	if r.Delay > 0 {
		s += fmt.Sprintf(", Crawl-delay %v", r.Delay)
	}
	return s + fmt.Sprintf("; names %d user agents, %s", len(r.Agents), map[bool]string{true: "this one included", false: "this one not included"}[r.Named])
}

func (c *Cost) write(b *strings.Builder) {
	if c == nil {
		return
	}
	pages := fmt.Sprint(c.Pages)
	if !c.AllPages {
		pages = "at least " + pages
	}
	changes := fmt.Sprintf("%.2g", c.ChangesADay)
	if c.ChangesADay >= 10 {
		changes = number(c.ChangesADay)
	}
	fmt.Fprintf(b, "Cost of one month with copies fresh %.0f %% of the time: %s pages of %s each, %s changes a day in all",
		100*c.Freshness, pages, size(float64(c.PageBytes)), changes)
	if c.Dates == "" {
		b.WriteString(" (assumed: no credible dates)\n")
	} else {
		fmt.Fprintf(b, " (estimated from %s)\n", c.Dates)
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "door\tpolled every\tfresh\tmean age\trequests\tbytes\t\t")
	for _, d := range c.Doors {
		note := ""
		switch {
		case !d.Offered && d.Note != "" && d.Name != "feed":
			note = d.Note
		case !d.Offered:
			note = "not offered"
		case d.Note != "":
			note = d.Note
		}
		if !d.Fits {
			note = strings.TrimPrefix(note+fmt.Sprintf("; more than one request every %v", c.Delay), "; ")
		}
		every := "-"
		if d.Every > 0 {
			every = duration(d.Every)
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f %%\t%s\t%s\t%s\t  %s\t\n", d.Name, every, 100*d.Freshness, duration(d.Age), number(d.Requests), size(d.Bytes), note)
	}
	t.Flush()
}

func duration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f d", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func number(f float64) string {
	if f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return digits.Group(fmt.Sprintf("%.0f", f), ",")
}

func size(f float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; f >= 1000 && i < len(units)-1; i++ {
		f /= 1000
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", math.Round(f), units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// printable replaces control characters and characters that change the text direction by spaces.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return ' '
		}
		return r
	}, s)
}
