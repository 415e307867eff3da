package check

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/parleyweb/parley/internal/digits"
)

// A rule is something that can be wrong. In its texts {n} stands for the number
// concerned, {of} for the number in all, {eg} for the first example, {a} and {b} for
// numbers of bytes, and {fixed} for a value that the check has found.
type rule struct {
	id       string
	severity Severity
	message  string
	cost     string
	fix      string
}

// rules has all rules, in the order of the report: whether the document can be
// fetched, its content, and then its pages.
var rules = []rule{
	// The document: can it be fetched, and is it of the expected kind?
	{"unreachable", Error, "the document cannot be fetched: {eg}", "crawlers learn nothing from it", "check that the web server runs and that the URL is right"},
	{"status", Error, "the web server answers {eg}", "crawlers learn nothing from it", "publish the file there, or remove its URL from robots.txt and from pages that link to it"},
	{"forbidden", Error, "robots.txt forbids fetching {eg}", "crawlers do not read it, and find pages by links alone", "allow it in robots.txt"},
	{"challenge", Error, "the server sends a bot challenge instead of the document: {eg}", "crawlers cannot solve it: they see no document here, or an empty list",
		"exempt robots.txt, sitemaps, feeds and robots.rdf from the bot protection"},
	{"html-instead", Error, "it is an HTML page", "crawlers cannot read it, and find pages by links alone",
		"check {fixed} instead; if this is the URL of a list, publish the list here, and let the server answer 404 for missing files, not 200 with a page"},
	{"unknown-kind", Error, "it is neither robots.rdf nor a sitemap, a feed or robots.txt: {eg}", "crawlers cannot read it", "check that this is the right file"},
	{"malformed", Error, "it is not well-formed: {eg}", "crawlers stop there: they miss what follows, and many drop all of it",
		"have the generator escape & as &amp; and < as &lt;, and write UTF-8 without a document type"},
	{"cut-short", Error, "the document is truncated: {eg}", "crawlers do not see the pages after the cut, and may treat them as deleted",
		"write it to a temporary file and rename it, so that an incomplete file is never served; check free disk space and the limits of proxies"},
	{"over-limit", Error, "the document exceeds a limit: {eg}", "neither this check nor crawlers read beyond the limit", "split it"},
	{"too-many-urls", Error, "it has {n} entries; at most 50,000 are allowed", "search engines refuse the file, or stop reading there", "split it into several, and list these in an index"},
	{"too-large", Error, "it has more than 50 MB uncompressed ({a})", "search engines refuse the file, or stop reading there", "split it into several, and list these in an index"},
	{"namespace", Error, "its elements are in the wrong namespace: {eg}", "readers that check namespaces find no entry in it", "{fixed}"},
	{"no-entries", Warning, "it has no entries", "crawlers fetch it in vain", "list the pages, or remove the file"},
	{"redirected", Warning, "its URL redirects: {eg}", "every fetch takes two requests, and some crawlers do not follow redirects", "use its final URL in robots.txt and wherever it is linked"},
	{"wrong-type", Warning, "it is served as {eg}", "some readers go by the content type, and refuse it or show it as a page", "serve it as {fixed}"},
	{"no-validators", Warning, "it is served without ETag and Last-Modified", "every time a crawler polls it, all {a} are sent",
		"let the web server serve it as a file, or send Last-Modified; then the server can answer 304"},
	{"no-304", Warning, "a conditional request with the server's own validators is answered {eg}, not 304", "every time a crawler polls it, all {a} are sent",
		"have the server honor If-None-Match and If-Modified-Since; look for a proxy or program that removes them or generates the document at each request"},
	{"not-compressed", Warning, "it is sent uncompressed", "{a} are sent; compressed it would be about {b}", "enable compression for its content type, such as with gzip_types in nginx"},

	// robots.txt.
	{"robots-unreachable", Error, "robots.txt cannot be fetched: {eg}", "crawlers must assume that everything is forbidden, and stay away (RFC 9309, 2.3.1.4)", "have the web server answer 200, or 404 if there is no robots.txt"},
	{"robots-none", Note, "there is no robots.txt ({eg})", "crawlers may read everything, and do not learn the URL of a sitemap", "publish one: a comment and a Sitemap line forbid nothing"},
	{"robots-html", Error, "robots.txt is an HTML page", "crawlers find no rule in it: everything is allowed", "publish a plain text file, or have the server answer 404"},
	{"robots-too-long", Error, "robots.txt is longer than 500 KiB ({a})", "crawlers read no further: rules beyond the limit have no effect", "replace many lines with patterns that use *"},
	{"robots-not-text", Error, "robots.txt is not plain text: {eg}", "crawlers cannot read the rules", "save it as UTF-8"},
	{"robots-no-group", Error, "rules before the first User-agent line: {n}, such as {eg}", "they apply to no crawler: whatever they forbid is allowed", "put User-agent: * before them"},
	{"robots-url-rule", Error, "rules with a full URL: {n}, such as {eg}", "they match nothing: a rule is compared with the path", "write the path alone, beginning with /"},
	{"robots-forbids-all", Warning, "robots.txt forbids every page to all crawlers", "search engines list no page", "if that is not intended, leave Disallow empty"},
	{"robots-misspelt", Warning, "misspelt lines: {n}, such as {eg}", "some crawlers guess the right name, others ignore the line", "write {fixed}"},
	{"robots-no-line", Warning, "lines without a field name: {n}, such as {eg}", "crawlers ignore them", "write NAME: VALUE, or # before a comment"},
	{"robots-relative-rule", Warning, "rules that do not begin with / or *: {n}, such as {eg}", "crawlers disagree on whether they apply", "begin them with /"},
	{"robots-unknown-line", Note, "lines that few crawlers understand: {n}, such as {eg}", "most crawlers ignore them", "do not rely on them"},
	{"robots-delay", Note, "a Crawl-delay of {eg}", "a crawler that obeys it reads at most {n} pages a day; others ignore it", "make it shorter, if changed pages should be found soon"},
	{"bad-delay", Warning, "Crawl-delay lines whose value is not a number: {n}, such as {eg}", "crawlers ignore them, and fetch as fast as without them", "write the number of seconds alone, such as Crawl-delay: 10"},
	{"no-sitemap-line", Warning, "robots.txt names no sitemap", "search engines find a sitemap only if it was submitted to them by hand", "add the line {fixed}"},
	{"sitemap-relative", Error, "Sitemap lines whose URL is not absolute: {n}, such as {eg}", "crawlers ignore them", "write the URL with https:// and the host"},
	{"sitemap-foreign", Note, "Sitemap lines that name another origin: {n}, such as {eg}", "crawlers use such a sitemap only if it is meant for this site", "if the line is left over from a move to another host, correct it"},
	{"sitemap-forbidden", Error, "Sitemap lines whose URL robots.txt forbids: {n}, such as {eg}", "crawlers do not read these sitemaps", "allow them"},
	{"sitemap-missing", Error, "Sitemap lines whose sitemap cannot be fetched: {n}, such as {eg}", "crawlers fetch it in vain, and do not learn of its pages", "correct the line, or publish the sitemap"},

	// An index.
	{"nested-index", Error, "an index lists other indexes: {n}, such as {eg}", "search engines do not read these", "list the sitemaps themselves"},
	{"part-missing", Error, "files of the index that cannot be fetched: {n} of {of} tried, such as {eg}", "crawlers do not learn of their pages", "publish them, or remove them from the index"},
	{"parts-unread", Note, "files of the index that were not read: {n} of {of}", "this report does not cover them: at most 20 files of an index are tried", "check sitemaps one by one; those of a robots.rdf are of the same make"},
	{"part-differs", Error, "a part of robots.rdf is not the one that its index names: {eg}", "crawlers keep the old state of the whole site", "publish the index after its parts, with nothing that changes files on the way"},

	// The entries.
	{"lastmod-build-time", Error, "dates of the build instead of the last change: {n} of {of} are {eg}, but {fixed}",
		"every crawler that trusts them fetches {n} unchanged pages again after each build; the others have learned to ignore all dates of the site",
		"date a page by its content: rdfgen stores when each page last changed, and writes that date into robots.rdf and the sitemap; with --heal, the files get it too"},
	{"lastmod-alike", Warning, "pages with the same date, as if all were written, copied or built together: {n} of {of} dates are {eg}",
		"nothing, if these dates stay; if each build moves them, crawlers fetch {n} unchanged pages again after each build, and learn to ignore all dates of the site",
		"if the site was copied or described for the first time then, do nothing: from now on only a page that changes gets a new date (cp -p and rsync -t keep older dates). If the next build moves the dates, date pages by content, as rdfgen does while its state is kept"},
	{"bad-date", Error, "dates that cannot be parsed: {n} of {of}, such as {eg}", "crawlers treat these pages as undated, and fetch them again to learn whether they changed",
		"write dates as 2026-11-21T10:30:00Z (W3CDTF), in RSS 2.0 feeds as Sat, 21 Nov 2026 10:30:00 GMT"},
	{"absurd-date", Error, "dates before 1993 or more than a day in the future: {n} of {of}, such as {eg}", "crawlers treat these pages as undated, and trust the site's other dates less", "leave out a date that is not known"},
	{"future-date", Warning, "dates in the future: {n} of {of}, such as {eg}", "crawlers replace them with the current time: the pages look changed at every visit until then", "check the clock and the time zone of the generator"},
	{"zoneless-date", Warning, "times without a time zone: {n} of {of}, such as {eg}", "readers interpret them up to 26 hours apart: changes are missed, or fetched twice", "add Z, or the offset such as +01:00"},
	{"no-dates", Warning, "entries without a date: {n} of {of}, such as {eg}", "crawlers must fetch {n} pages to learn whether they changed", "add the date of the last change where it is known"},
	{"coarse-dates", Note, "dates without a time of day: {n} of {of}", "a page that changes twice a day looks unchanged the second time", "write the date and the time"},
	{"bad-priority", Warning, "priorities that are not a number from 0 to 1: {n} of {of}, such as {eg}", "crawlers ignore them, and some reject the sitemap",
		"write a number from 0.0 to 1.0, or leave it out: it compares the pages of one site with each other"},
	{"bad-url", Error, "entries whose URL cannot be used: {n}, such as {eg}", "crawlers ignore them: these pages are not found", "write absolute http or https URLs"},
	{"relative-url", Error, "URLs that are not absolute: {n} of {of}, such as {eg}", "most readers ignore them: these pages are not found", "write the URL with https:// and the host"},
	{"foreign-url", Error, "URLs of another origin than {fixed}: {n} of {of}, such as {eg}", "crawlers ignore them, since a site may list only its own pages: these pages are not found",
		"list each page in the sitemap of its own origin; http and https are different origins, and so are hosts with and without www"},
	{"outside-path", Warning, "URLs that are not below the directory of the sitemap: {n} of {of}, such as {eg}", "search engines ignore them", "move the sitemap to the root of the site, or name it in robots.txt"},
	{"long-url", Error, "URLs of 2,048 characters or more: {n} of {of}, such as {eg}", "search engines ignore them", "shorten them"},
	{"duplicate", Warning, "URLs that are listed more than once: {n} of {of}, such as {eg}", "crawlers process the entry in vain, and must guess which of two dates is right", "list each page once"},
	{"not-canonical", Note, "URLs that are not in canonical form: {n} of {of}, such as {eg}", "a crawler that compares URLs byte by byte takes them for pages that it does not know",
		"write scheme and host in lower case, no default port, no #fragment, no . or .. segments, and percent-encode spaces and the like"},
	{"disallowed", Error, "listed pages that robots.txt forbids: {n} of {of}, such as {eg}", "crawlers may not fetch them; search results may show such a page as a bare URL", "remove them from the list, or allow them"},

	// robots.rdf and RSS 1.0.
	{"rdf-attribute", Error, "rdf:about or rdf:resource without its prefix: {n}, such as {eg}", "RDF readers reject the document", "write rdf:about or rdf:resource"},
	{"rdf-value", Warning, "values that cannot be parsed: {n}, such as {eg}", "readers treat them as unknown: pages are fetched again to learn whether they changed", "generate the file with rdfgen"},
	{"no-channel", Error, "there is no channel element", "the file is not valid RSS 1.0, and crawlers learn neither its cursor nor whether it is complete", "generate the file with rdfgen"},
	{"rss-incomplete", Warning, "items without title or link: {n} of {of}, such as {eg}", "feed readers reject the document or leave these items out", "write both in each item, as RSS 1.0 requires"},
	{"rss-seq", Warning, "items missing from the channel's rdf:Seq, or listed there without an item: {n} ({eg})", "feed readers show only items that are in both", "list each item once in rdf:Seq, in order"},
	{"dc-modified", Warning, "dc:modified, which is not a Dublin Core element: {n}, such as {eg}", "few readers find the date there", "write dc:date and dcterms:modified"},
	{"one-date", Note, "items that have only one of dc:date and dcterms:modified: {n} of {of}, such as {eg}", "feed readers read dc:date, RDF readers dcterms:modified", "write both"},
	{"count", Error, "the number of items differs from the declared one: {eg}", "a crawler must treat the file as incomplete, and cannot tell which pages were deleted", "generate the file with rdfgen; check that it is not truncated on the way"},
	{"order", Warning, "items that are out of order: {n} of {of}, such as {eg}", "crawlers must sort them before they merge them with their stored list", "sort by depth, then by URL"},
	{"gone-and-listed", Error, "pages that are both listed and marked as gone: {n}, such as {eg}", "crawlers cannot know which is true", "generate the file with rdfgen"},

	// Feeds.
	{"no-atom-id", Warning, "feeds or entries without an id, which Atom requires: {n}, such as {eg}", "readers may show an entry again after each change, or reject the feed",
		"give the feed and each entry an id that never changes, such as the URL of the page"},
	{"feed-self", Note, "the feed's self link is another URL: {eg}", "readers and hubs subscribe to that URL instead", "put the URL at which the feed is served into its self link"},

	// The pages.
	{"page-unreachable", Error, "pages that cannot be fetched: {n} of {of} fetched, such as {eg}", "crawlers retry again and again in vain", "check the web server"},
	{"page-gone", Error, "listed pages that do not exist: {n} of {of} fetched, such as {eg}", "crawlers fetch them in vain, and trust the list less",
		"remove them from the list; rdfgen notices deletions, and can have nginx answer 410"},
	{"page-refused", Error, "listed pages that the server refuses to send: {n} of {of} fetched, such as {eg}", "crawlers fetch them in vain", "remove them from the list, or let crawlers read them"},
	{"page-error", Error, "pages for which the server returns an error: {n} of {of} fetched, such as {eg}", "crawlers retry again and again in vain, and slow down for the whole site", "read the web server's error log"},
	{"page-challenge", Error, "pages with a bot challenge in place of their content: {n} of {of} fetched, such as {eg}", "crawlers take the challenge for the page", "exempt crawlers that you want"},
	{"page-bytes", Warning, "pages whose content does not match the published digest: {n} of {of} fetched, such as {eg}", "crawlers that check the digest take them for changed, and fetch them again",
		"look for a proxy or module that rewrites pages, or run rdfgen after each change"},
	{"page-noindex", Warning, "listed pages that declare noindex: {n} of {of} fetched, such as {eg}", "crawlers fetch them only to discard them", "remove them from the list, or allow indexing"},
	{"page-canonical", Warning, "listed pages that name another URL as canonical: {n} of {of} fetched, such as {eg}", "crawlers fetch the page twice, and must guess which URL to use", "list the canonical URL"},
	{"soft-404", Error, "a page that does not exist is answered as if it did: {eg}", "crawlers do not learn that a page is gone, and store the answer as its content", "have the web server answer 404 for missing pages, or 410 for deleted ones: not 200, and no redirect to the front page"},
	{"redirect-https", Warning, "pages that redirect from http to https or back: {n} of {of} fetched, such as {eg}", "every visit takes two requests, and no visitor sees the listed URLs", "list URLs with the scheme that is served"},
	{"redirect-host", Warning, "pages that redirect to another host: {n} of {of} fetched, such as {eg}", "every visit takes two requests; if the host is another site, crawlers do not follow", "list URLs with the host that is served, with www or without"},
	{"redirect-slash", Warning, "pages that redirect to add or remove a final slash: {n} of {of} fetched, such as {eg}", "every visit takes two requests", "list URLs as they are served"},
	{"redirect-html", Warning, "pages that redirect to add or remove .html: {n} of {of} fetched, such as {eg}", "every visit takes two requests", "list URLs as they are served: rdfgen has --clean-urls"},
	{"redirect-other", Warning, "pages that redirect elsewhere: {n} of {of} fetched, such as {eg}", "every visit takes two requests", "list the target URLs"},
	{"page-no-validators", Warning, "pages without ETag and Last-Modified: {n} of {of} fetched, such as {eg}", "a crawler cannot send conditional requests: the server sends the whole page, {a} on average, at every visit, and about {b} for a visit to every listed page",
		"let the web server serve them as files, or send Last-Modified"},
	{"page-no-304", Warning, "unchanged pages that the server sends again instead of a 304: {n} of {of} fetched, such as {eg}", "the server sends the whole page, {a} on average, at every visit, though it did not change, and about {b} for a visit to every listed page",
		"have the server honor If-None-Match and If-Modified-Since; rdfgen --heal keeps validators across rebuilds"},
	{"page-not-compressed", Warning, "pages that are sent uncompressed: {n} of {of} fetched, such as {eg}", "{a} were sent; compressed it would be about {b}", "enable compression for text/html"},

	// The check itself.
	{"busy", Note, "the web server is overloaded or limits requests: {eg}", "the other pages of the sample were not fetched", "check again later, with a lower --rate"},
	{"out-of-time", Note, "the check ran out of time", "the rest was not checked", "check again with a smaller --sample, or a higher --rate if the site is yours"},
}

// Rules returns the names of all rules, in the order of the report.
func Rules() (ids []string) {
	for _, r := range rules {
		ids = append(ids, r.id)
	}
	return ids
}

// finding returns the Finding of a rule for its violations.
func (r *rule) finding(h *violation) Finding {
	say := strings.NewReplacer("{n}", number(h.count), "{of}", number(h.of), "{eg}", h.eg,
		"{a}", size(h.bytes[0]), "{b}", size(h.bytes[1]), "{fixed}", h.fixed)
	return Finding{Rule: r.id, Severity: r.severity, Where: h.where, Count: h.count, Of: h.of,
		Message: say.Replace(r.message), Cost: say.Replace(r.cost), Fix: say.Replace(r.fix)}
}

// number writes 1234567 as 1,234,567.
func number(n int) string {
	return digits.Group(strconv.Itoa(n), ",")
}

// size writes a number of bytes as people do.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// short makes untrusted text printable and at most 160 characters long.
func short(s string) string {
	s = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' ' // it could move a terminal's cursor
		}
		return r
	}, s), "\uFFFD")
	const most = 160
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
