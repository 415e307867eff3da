package report

import "fmt"

// A Method says how a part of the report was obtained.
type Method struct {
	Sort string `json:"sort"` // Measured, Bound or Assumed
	Text string `json:"text"`
}

// The sorts of statements.
const (
	measured = "measured" // the log states it
	bound    = "bound"    // an upper or lower bound that the log implies
	assumed  = "assumed"  // the log cannot tell
)

// method returns which numbers are measured, and which are bounds.
func method(r *Report) []Method {
	list := []Method{
		{measured, "Requests, bytes, statuses, days and hours are as logged. Bytes are those of the log's size field: " +
			"in most formats, of the body as sent."},
		{measured, "A page was read again if a crawler's GET was answered 200 and the same crawler had fetched the same URL " +
			"earlier in this log. Fetches before the log begins are unknown, so the true number is higher."},
		{assumed, "Clients choose their own names, and anybody can use any name. Only a crawler that is marked verified " +
			"sent its requests from addresses that its operator confirms."},
		{bound, "Unchanged, at most: a log does not show whether a page changed between two requests. A page that has the same " +
			"size as when this crawler last read it counts as unchanged, even if an edit " +
			"kept the size. A page of another size counts as changed, which is right for responses that were sent in full and " +
			"in one content coding. If a crawler gets a page sometimes compressed and sometimes not, or breaks off, more may have been unchanged."},
		{bound, "Unchanged, at least: if a client fetched a page and later gets a 304 for it, the page did not change " +
			"in between; so no crawler that read it again in between read anything new. This assumes that a client is an address " +
			"and a user agent, or a crawler's name, that its conditional requests refer to its last fetch, and that the server's 304s are correct."},
		{bound, "heal (file times that survive a rebuild, so that the server still answers 304): at most the bytes of all pages " +
			"of the same size, but no requests. A log does not show which requests were conditional: today counts crawlers " +
			"that got at least one 304 in this log, and so send conditional requests."},
		{bound, "sitemap (with correct lastmod dates): at most all pages of the same size and all 304s, minus one request per day and " +
			"crawler for the sitemap. Feed readers do not read sitemaps. Today: Google and Bing, which say that they use lastmod."},
		{bound, "manifest (robots.rdf, which also names deleted and moved pages): as for the sitemap, plus repeated requests " +
			"for pages that are gone or have moved (301, 308, 404, 410). Today: no crawler, until one supports it."},
		{bound, "push (a stream, IndexNow, WebSub): as for the manifest, without the requests for it, and feed readers count too. " +
			"Today: search engines that accept IndexNow, and feed readers as far as their hubs support WebSub."},
		{assumed, "Requests that discover pages (for robots.txt and sitemaps) would continue: they count for heal alone. " +
			"Monitors want a response, and are not counted; nor are crawlers under a false name."},
	}
	if len(r.Families) > 0 {
		list = append(list,
			Method{measured, "Families: requests, bytes and statuses are as logged, of crawlers that read robots.txt: not of feed readers, previews, " +
				"monitors and false names. The lines for robots.txt were checked against the URLs in this log: they forbid all " +
				"of the family, and no other that crawlers got with status 200. A crawler that is not allowed to fetch a URL may fetch another one instead."},
			Method{assumed, "Families: a log shows the size of a response, not its content. URLs that differ only in the parameter, or lie in the " +
				"same directory, count as the same page if they have the same size. With a parameter, the page without it must be in the log too, " +
				"with status 200. Look at some of the URLs before you use the lines."})
	}
	add := func(n int64, sort, format string, args ...any) {
		if n > 0 {
			list = append(list, Method{sort, fmt.Sprintf(format, args...)})
		}
	}
	add(r.Log.NoAgent, assumed, "%s of %s requests are from lines without a user agent (the common format): "+
		"their clients are unknown, and crawlers among them are not counted as such.", count(r.Log.NoAgent), count(r.Total.Requests))
	add(r.Log.NoSize, assumed, "%s of %s requests are from lines without a size: "+
		"they add no bytes, and pages read again among them count as unchanged, at most.", count(r.Log.NoSize), count(r.Total.Requests))
	l := r.Limits
	add(l.Forgotten, bound, "The log has more different URLs than the %s that are remembered. %s were dropped, "+
		"those with the fewest requests: the requests of a page may be too low by at most %s, and all pages read again "+
		"by at most %s. Totals, crawlers, hours and statuses are exact.", count(int64(l.URLs)), count(l.Forgotten), count(l.LowBy), count(l.RereadsBy))
	add(l.TooLong, bound, "%s requests were for URLs over %d bytes: they are in the totals, but not in the list of pages.", count(l.TooLong), maxURL)
	add(l.Days, bound, "%s requests are on days beyond the %d that are counted separately.", count(l.Days), maxDays)
	return list
}
