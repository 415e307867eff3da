package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/accesslog"
)

// Saving less than this is not worth a change of a site: of requests, and of crawlers' requests or bytes.
const (
	worthRequests = 100
	worthShare    = 0.01
)

// robotsDays is on how many days a crawler must have come without a request for robots.txt before it is said to ignore it:
// crawlers may keep a copy for a day (RFC 9309, 2.4), and the log may begin in the middle of one.
const robotsDays = 3

// First is what to do first.
type First struct {
	Step  string  `json:"step"`  // "family", "validators", "sitemap", "errors", "gone", "block" or "none"
	Text  string  `json:"text"`  // a sentence for people
	Saves Traffic `json:"saves"` // at most; with "family", what crawlers spent there in this log
}

// first chooses the step that saves the largest shares of the requests and of the bytes of crawlers, added up. never has the
// repeated fetches, of the same size, of URLs that nobody got a 304 for; url is the one with most.
func first(r *Report, never Traffic, url string) First {
	all := byCrawlers(r)
	best, most := First{Step: "none"}, 0.
	offer := func(step string, count int64, saves Traffic, format string, args ...any) {
		requests, bytes := ratio(saves.Requests, all.Requests), ratio(saves.Bytes, all.Bytes)
		if count >= worthRequests && max(requests, bytes) >= worthShare && requests+bytes > most {
			most, best = requests+bytes, First{step, fmt.Sprintf(format, args...) + ": " + savedOf(saves, all, len(r.Days)), saves}
		}
	}
	for _, f := range r.Families {
		offer("family", f.Requests, f.Traffic, "Keep crawlers out of the URLs %s, by the lines for robots.txt listed under FAMILIES, since they find almost"+
			" nothing new there", f.shown())
	}
	offer("validators", never.Requests, Traffic{Bytes: never.Bytes}, "Let the web server answer 304 where it never did, such as for %s, by an ETag or Last-Modified"+
		" that survives a rebuild, since crawlers fetched such URLs again %s at the same size", plain(url, 60), many(never.Requests, "time", "times"))
	for _, s := range r.Savings {
		if s.Way == Sitemap {
			offer("sitemap", s.Today.Requests, s.Today, "Publish a sitemap with correct lastmod dates (rdfgen --sitemap), which Google and Bing use to skip unchanged pages")
		}
	}
	var broken Traffic
	for _, c := range r.Crawlers {
		for status, n := range c.Status {
			if status >= 500 {
				broken.Requests += n
			}
		}
		switch c.Kind {
		case accesslog.Feed, accesslog.Preview, accesslog.Monitor:
		default: // if nobody requested it, the log may leave it out
			if !c.Robots && c.Days >= robotsDays && slices.ContainsFunc(r.Crawlers, func(o Crawler) bool { return o.Robots }) {
				name := plain(c.Name, 40)
				if c.Claim == False {
					name = "the false " + name
				}
				offer("block", c.Requests, c.Traffic, "Block or slow down %s in the web server, since it came on %d days and never requested robots.txt", name, c.Days)
			}
		}
	}
	offer("errors", broken.Requests, broken, "Find out why the web server answered crawlers with errors (5xx)")
	offer("gone", r.All.GoneAgain.Requests, r.All.GoneAgain, "Answer 410 for pages that are gone, and link to the new URLs of those that have moved"+
		" (rdfgen --nginx-include), since crawlers requested the old URLs again")
	switch {
	case best.Step != "none":
	case r.Log.NoAgent == r.Total.Requests:
		best.Text = "This log does not say who the crawlers are: log the combined format, which has the user agent."
	case all.Requests < worthRequests:
		best.Text = fmt.Sprintf("Nothing needs to be done: this log has %s by crawlers.", many(all.Requests, "request", "requests"))
	default:
		best.Text = fmt.Sprintf("Nothing needs to be done: no single step would save %s requests and %.0f %% of what crawlers cost.", count(worthRequests), 100*worthShare)
	}
	return best
}

// byCrawlers returns the traffic of all crawlers.
func byCrawlers(r *Report) (all Traffic) {
	for _, g := range r.Groups {
		if g.Name == Crawlers {
			all = g.Traffic
		}
	}
	return all
}

func ratio(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }

// savedOf says what is saved of all traffic of crawlers.
func savedOf(t, all Traffic, days int) string {
	var parts []string
	if t.Requests > 0 {
		parts = append(parts, fmt.Sprintf("%s of crawlers' %s (%s)", count(t.Requests), many(all.Requests, "request", "requests"), percent(t.Requests, all.Requests)))
	}
	if t.Bytes > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s (%s)", size(t.Bytes), size(all.Bytes), percent(t.Bytes, all.Bytes)))
	}
	return "in " + many(int64(days), "day", "days") + " that would have saved at most " + strings.Join(parts, " and ") + "."
}

// shown describes the URLs of a family, after "the URLs".
func (f *Family) shown() string {
	s := "with " + f.Name
	switch {
	case f.Name[0] == '/':
		s = "below " + f.Name
	case strings.Contains(f.Name, "&"):
		s = "with both parameters of " + f.Name
	}
	if f.Host != "" {
		s += " of " + plain(f.Host, 60)
	}
	return s
}

// evidence says why a family is proposed.
func evidence(f *Family, all Traffic) string {
	s := fmt.Sprintf("%s (%s of crawlers') by %s, %s sent, for %s.", many(f.Requests, "request", "requests"), percent(f.Requests, all.Requests),
		many(int64(f.Crawlers), "crawler", "crawlers"), size(f.Bytes), many(f.URLs, "URL", "URLs"))
	same := "of the same size as another URL of the page"
	if f.Name[0] == '/' {
		same = "of the same size as another of these URLs"
	}
	var parts []string
	for i, n := range []int64{f.Redirected, f.Failed, f.NotModified, f.Repeats} {
		if n > 0 {
			parts = append(parts, percent(n, f.Requests)+" "+[]string{"redirected", "refused (4xx)", "not modified (304)", same}[i])
		}
	}
	s += " Of these, " + strings.Join(parts, ", ") + "."
	if f.Others > 0 {
		s += fmt.Sprintf(" People and other clients sent %s for these URLs.", many(f.Others, "request", "requests"))
	}
	if 2*f.Redirected < f.Requests && len(f.Nginx) == 0 {
		s += " The web server must go on answering them: use robots.txt only."
	}
	return s
}
