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
		{measured, "Requests, bytes, statuses, days and hours are as logged. Bytes are those of the log's own field: " +
			"of the body as sent, in most formats."},
		{measured, "A page was read again when a crawler's GET was answered 200 and the same crawler had got the same URL " +
			"before in this log. What it had got before the log begins is not known: there was more of it."},
		{assumed, "Names are what clients call themselves, and anybody can do so. Only a crawler that is marked verified " +
			"asked from addresses that its operator names."},
		{bound, "Unchanged, at most: a log does not say whether a page had changed between two requests. A page that is read " +
			"again and has the size that it had when this crawler read it last is taken as unchanged, also if an edit " +
			"kept the size. A page of another size is taken as changed: that is so for answers that were sent whole and " +
			"in one coding. Where a crawler gets a page now compressed and now not, or breaks off, more may have been unchanged."},
		{bound, "Unchanged, at least: a client that got a page and is later told 304 for it shows that the page did not change " +
			"in between; so no crawler that read it again in between read anything new. This takes a client to be an address " +
			"and a user agent, or a crawler's name, that asks about what it got last, and takes the server's word for its 304s."},
		{bound, "heal (times of files that survive a rebuild, so that the server answers 304 again): at most the bytes of all pages " +
			"of the same size; no request less. A log does not show which requests were conditional: today counts crawlers " +
			"that were told 304 at least once in this log, and so do ask."},
		{bound, "sitemap (whose lastmod is true): at most all pages of the same size and all 304s, less one request a day and " +
			"crawler for the sitemap. Feed readers do not read sitemaps. Today: Google and Bing, who say that they read lastmod."},
		{bound, "manifest (robots.rdf, which names deleted and moved pages too): as the sitemap, and the requests that were told once " +
			"more that a page is gone or has moved (301, 308, 404, 410). Today: nobody, until a crawler speaks it."},
		{bound, "push (a stream, IndexNow, WebSub): as the manifest, without the requests that ask for it, and feed readers too. " +
			"Today: engines that take IndexNow, and feed readers as far as their hub takes WebSub."},
		{assumed, "What crawlers ask to learn what there is (robots.txt, sitemaps) they would go on asking: it counts for heal alone. " +
			"Monitors want an answer, and are not counted; nor are crawlers that are not who they say."},
	}
	if r.Log.NoAgent > 0 {
		list = append(list, Method{assumed, fmt.Sprintf("%s of %s requests are of lines without a user agent (the common format): "+
			"who asked is not known, and crawlers among them are not counted as such.", count(r.Log.NoAgent), count(r.Total.Requests))})
	}
	if r.Log.NoSize > 0 {
		list = append(list, Method{assumed, fmt.Sprintf("%s of %s requests are of lines that do not say how much was sent: "+
			"they add no bytes, and what was read again among them counts as unchanged, at most.", count(r.Log.NoSize), count(r.Total.Requests))})
	}
	if l := r.Limits; l.Forgotten > 0 {
		list = append(list, Method{bound, fmt.Sprintf("There are more different URLs than the %s that are remembered. %s were forgotten, "+
			"those with the fewest requests: the requests of a page may be too low by at most %s, and all that was read again "+
			"by at most %s. Totals, crawlers, hours and statuses are exact.", count(int64(l.URLs)), count(l.Forgotten), count(l.LowBy), count(l.RereadsBy))})
	}
	if l := r.Limits; l.TooLong > 0 {
		list = append(list, Method{bound, fmt.Sprintf("%s requests were of URLs over %d bytes: they are in the totals, and not among the pages.", count(l.TooLong), maxURL)})
	}
	if l := r.Limits; l.Days > 0 {
		list = append(list, Method{bound, fmt.Sprintf("%s requests are of days beyond the %d that are told apart.", count(l.Days), maxDays)})
	}
	return list
}
