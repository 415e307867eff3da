package check

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
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
	{"unreachable", Error, "it cannot be had: {eg}", "crawlers learn nothing from it", "check that the web server runs and that the URL is right"},
	{"status", Error, "the web server answers {eg}", "crawlers learn nothing from it", "publish the file there, or take its URL out of robots.txt and out of what links to it"},
	{"forbidden", Error, "robots.txt forbids to ask for {eg}", "crawlers do not read it, and find pages by links alone", "allow it in robots.txt"},
	{"challenge", Error, "a challenge for browsers comes instead: {eg}", "crawlers cannot solve it: to them the site has no such list, and some take it for an empty one",
		"exempt robots.txt, sitemaps, feeds and robots.rdf from the bot protection"},
	{"html-instead", Error, "it is an HTML page", "crawlers cannot read it, and find pages by links alone",
		"publish the list itself at this URL, and let the server answer 404, not a page, for what it does not have"},
	{"unknown-kind", Error, "it is neither robots.rdf nor a sitemap, a feed or robots.txt: {eg}", "crawlers cannot read it", "check that this is the file that is meant"},
	{"malformed", Error, "it is not well-formed: {eg}", "crawlers stop there: they miss what follows, and many drop all of it",
		"have the generator escape & as &amp; and < as &lt;, and write UTF-8 without a document type"},
	{"cut-short", Error, "it ends before it is whole: {eg}", "crawlers miss what is not there any more, and may take those pages for deleted",
		"write it beside and rename it, so that no half a file is ever served; check the disk and the proxies' limits"},
	{"over-limit", Error, "it goes beyond what is read: {eg}", "what lies beyond is not looked at, by crawlers neither", "split it"},
	{"too-many-urls", Error, "it has {n} entries, and 50,000 are allowed", "search engines refuse the file, or stop reading there", "split it into several, and list these in an index"},
	{"too-large", Error, "it has more than 50 MB uncompressed ({a})", "search engines refuse the file, or stop reading there", "split it into several, and list these in an index"},
	{"namespace", Error, "its elements are in the wrong namespace: {eg}", "readers that heed namespaces find no entry in it", "{fixed}"},
	{"no-entries", Warning, "it has no entries", "crawlers ask for it in vain", "list the pages, or take it away"},
	{"redirected", Warning, "it is not at the URL that was asked for: {eg}", "every crawler asks twice, and some do not follow", "name its final URL in robots.txt and wherever it is linked"},
	{"wrong-type", Warning, "it is served as {eg}", "some readers go by the content type, and refuse it or show it as a page", "serve it as {fixed}"},
	{"no-validators", Warning, "it is served without ETag and Last-Modified", "every time a crawler asks whether there is something new, all {a} are sent",
		"let the web server serve it as a file, or send Last-Modified; then crawlers are told 304"},
	{"no-304", Warning, "the web server answers {eg} to its own validators", "every time a crawler asks whether there is something new, all {a} are sent",
		"let it heed If-None-Match and If-Modified-Since; look for a proxy or a program that takes them out, or that makes the page anew"},
	{"not-compressed", Warning, "it is not compressed on the way", "{a} are sent where about {b} would do", "switch on compression for its content type, such as gzip_types in nginx"},

	// robots.txt.
	{"robots-unreachable", Error, "robots.txt cannot be had: {eg}", "crawlers must take it that everything is forbidden, and stay away (RFC 9309, 2.3.1.4)", "let the web server answer it with 200, or with 404 if there is none"},
	{"robots-none", Note, "there is no robots.txt ({eg})", "crawlers may read all, and nothing tells them of a sitemap", "publish one: a comment and a Sitemap line forbid nothing"},
	{"robots-html", Error, "robots.txt is an HTML page", "crawlers find no rule in it: whatever was to be forbidden is allowed", "publish a text, or let the server answer 404"},
	{"robots-too-long", Error, "robots.txt is longer than 500 KiB ({a})", "crawlers read no further: rules after that do not count", "use patterns with * in place of many lines"},
	{"robots-not-text", Error, "robots.txt is not a text: {eg}", "crawlers cannot read the rules", "save it as UTF-8"},
	{"robots-no-group", Error, "rules before the first User-agent line: {n}, such as {eg}", "they belong to nobody, and do not count: what they forbid is allowed", "put User-agent: * before them"},
	{"robots-url-rule", Error, "rules with a whole URL: {n}, such as {eg}", "they match nothing: a rule is compared with the path", "write the path alone, beginning with /"},
	{"robots-forbids-all", Warning, "it forbids everything to everybody", "search engines list no page", "if that is not meant, leave Disallow empty"},
	{"robots-misspelt", Warning, "misspelt lines: {n}, such as {eg}", "some crawlers guess what is meant, others pass over the line", "write {fixed}"},
	{"robots-no-line", Warning, "lines that are none: {n}, such as {eg}", "crawlers pass over them", "write NAME: VALUE, or # before a comment"},
	{"robots-relative-rule", Warning, "rules that do not begin with / or *: {n}, such as {eg}", "crawlers disagree on whether they count", "begin them with /"},
	{"robots-unknown-line", Note, "lines that few crawlers know: {n}, such as {eg}", "most crawlers pass over them", "do not rely on them"},
	{"robots-delay", Note, "a Crawl-delay of {eg}", "a crawler that heeds it reads at most {n} pages a day; others pass over it", "make it shorter, if pages are to be found soon after they change"},
	{"no-sitemap-line", Warning, "robots.txt names no sitemap", "search engines that were not told by hand do not find it", "add the line {fixed}"},
	{"sitemap-relative", Error, "Sitemap lines whose URL is not absolute: {n}, such as {eg}", "crawlers pass over them", "write the URL with https:// and the host"},
	{"sitemap-foreign", Note, "Sitemap lines that name another host: {n}, such as {eg}", "what it lists counts only if it is meant for this site", "if it is a leftover of a move, correct it"},
	{"sitemap-forbidden", Error, "Sitemap lines whose URL the rules forbid: {n}, such as {eg}", "crawlers do not read it", "allow it"},
	{"sitemap-missing", Error, "Sitemap lines that lead nowhere: {n}, such as {eg}", "crawlers ask for it in vain, and do not learn of the pages", "correct the line, or publish the sitemap"},

	// An index.
	{"nested-index", Error, "an index lists other indexes: {n}, such as {eg}", "search engines do not read these", "list the sitemaps themselves"},
	{"part-missing", Error, "sitemaps of the index that cannot be had: {n} of {of} that were asked for, such as {eg}", "crawlers do not learn of their pages", "publish them, or take them out of the index"},
	{"parts-unread", Note, "sitemaps of the index that were not read: {n} of {of}", "nothing is known of them here: no more than 20 of an index are tried", "check them by themselves"},

	// The entries.
	{"lastmod-build-time", Error, "dates that are those of the build: {n} of {of} are {eg}",
		"every crawler that believes them reads {n} pages again after each build, though they did not change; the others have learned to believe none of the site's dates",
		"date a page by its content: rdfgen remembers when each page last changed, and writes that into robots.rdf and the sitemap; what it has seen only once has the time of its file"},
	{"bad-date", Error, "dates that cannot be understood: {n} of {of}, such as {eg}", "crawlers take these pages for undated, and read them again to learn whether they changed",
		"write dates as 2026-11-21T10:30:00Z (W3CDTF), in feeds of RSS 2.0 as Sat, 21 Nov 2026 10:30:00 GMT"},
	{"absurd-date", Error, "dates before 1993 or more than a day in the future: {n} of {of}, such as {eg}", "crawlers take these pages for undated, and trust the site's other dates less", "leave out a date that is not known"},
	{"future-date", Warning, "dates in the future: {n} of {of}, such as {eg}", "crawlers take them to be now: the pages look changed at every visit until then", "check the clock and the time zone of the generator"},
	{"zoneless-date", Warning, "times without a time zone: {n} of {of}, such as {eg}", "readers differ by up to 26 hours in what they mean: changes are missed, or read twice", "add Z, or the offset such as +01:00"},
	{"no-dates", Warning, "entries without a date: {n} of {of}, such as {eg}", "crawlers must read {n} pages to learn whether they changed", "add the date of the last change where it is known"},
	{"coarse-dates", Note, "dates without a time of day: {n} of {of}", "a page that changes twice a day looks unchanged the second time", "write date and time"},
	{"bad-url", Error, "entries whose URL cannot be used: {n}, such as {eg}", "crawlers pass over them: these pages are not found", "write absolute http or https URLs"},
	{"relative-url", Error, "URLs that are not absolute: {n} of {of}, such as {eg}", "most readers pass over them: these pages are not found", "write the URL with https:// and the host"},
	{"foreign-url", Error, "URLs of another origin than {fixed}: {n} of {of}, such as {eg}", "crawlers pass over them, since a site can only speak for itself: these pages are not found",
		"list each page in the sitemap of its own host; https or http, and www or not, are different hosts here"},
	{"outside-path", Warning, "URLs that are not below the directory of the sitemap: {n} of {of}, such as {eg}", "search engines pass over them", "move the sitemap to the root of the site, or name it in robots.txt"},
	{"long-url", Error, "URLs of 2,048 characters or more: {n} of {of}, such as {eg}", "search engines pass over them", "shorten them"},
	{"duplicate", Warning, "URLs that are listed again: {n} of {of}, such as {eg}", "crawlers read the entry in vain, and of two dates they must guess which one counts", "list each page once"},
	{"not-canonical", Note, "URLs that are not written as crawlers write them: {n} of {of}, such as {eg}", "a crawler that compares them letter by letter takes them for other pages than it knows",
		"lower-case scheme and host, no default port, no #fragment, no . or .. and spaces and the like percent-encoded"},
	{"disallowed", Error, "listed pages that robots.txt forbids to read: {n} of {of}, such as {eg}", "crawlers are invited and turned away; such a page may be shown in search results by its bare URL", "take them off the list, or allow them"},

	// robots.rdf and RSS 1.0.
	{"rdf-attribute", Error, "rdf:about or rdf:resource without its prefix: {n}, such as {eg}", "RDF readers refuse the document", "write rdf:about"},
	{"rdf-value", Warning, "values that cannot be understood: {n}, such as {eg}", "readers take them for unknown: pages are read again to learn whether they changed", "have rdfgen write the file"},
	{"no-channel", Error, "there is no channel", "it is no RSS 1.0, and crawlers learn neither where it stands nor whether it is whole", "have rdfgen write the file"},
	{"rss-incomplete", Warning, "items without title or link: {n} of {of}, such as {eg}", "feed readers refuse the document or leave them out", "RSS 1.0 wants both in each item"},
	{"rss-seq", Warning, "items that the channel's rdf:Seq does not list, or the other way round: {n}, such as {eg}", "feed readers show only what both have", "list each item once in rdf:Seq, in order"},
	{"dc-modified", Warning, "dc:modified, which does not exist: {n}, such as {eg}", "few readers find the date there", "write dc:date and dcterms:modified"},
	{"one-date", Note, "items that have only one of dc:date and dcterms:modified: {n} of {of}, such as {eg}", "feed readers know the one, RDF readers the other", "write both"},
	{"count", Error, "it holds another number of items than it says: {eg}", "a crawler must not believe that it is whole, and cannot tell what was deleted", "have rdfgen write the file; check that it is not cut on the way"},
	{"order", Warning, "items that are out of order: {n} of {of}, such as {eg}", "crawlers that merge it with what they hold must sort it first", "sort by depth, then by URL"},
	{"gone-and-listed", Error, "pages that are listed and said to be gone: {n}, such as {eg}", "crawlers cannot know which is so", "have rdfgen write the file"},

	// Feeds.
	{"feed-self", Note, "the feed names another URL as its own: {eg}", "readers and hubs subscribe there", "name the URL at which it is served"},

	// The pages.
	{"page-unreachable", Error, "pages that cannot be had: {n} of {of} looked at, such as {eg}", "crawlers come back again and again in vain", "check the web server"},
	{"page-gone", Error, "pages that are listed and not there: {n} of {of} looked at, such as {eg}", "crawlers ask for them in vain, and trust the list less",
		"take them off the list; rdfgen notices deletions, and tells nginx to answer 410"},
	{"page-refused", Error, "pages that are refused: {n} of {of} looked at, such as {eg}", "crawlers ask for them in vain", "take them off the list, or let crawlers read them"},
	{"page-error", Error, "pages that the server fails on: {n} of {of} looked at, such as {eg}", "crawlers come back again and again in vain, and slow down for the whole site", "look into the web server's error log"},
	{"page-challenge", Error, "pages with a challenge for browsers in place of their content: {n} of {of} looked at, such as {eg}", "crawlers take the challenge for the page", "exempt crawlers that you want"},
	{"page-bytes", Warning, "pages whose bytes are not those that were published: {n} of {of} looked at, such as {eg}", "crawlers that check the digest take them for changed, and read them again",
		"look for what rewrites pages on the way, or run rdfgen after each change"},
	{"page-noindex", Warning, "pages that are listed and say noindex: {n} of {of} looked at, such as {eg}", "crawlers read them only to throw them away", "take them off the list, or let them be indexed"},
	{"page-canonical", Warning, "pages that are listed and name another URL as canonical: {n} of {of} looked at, such as {eg}", "crawlers read the page twice, and must guess which URL counts", "list the canonical URL"},
	{"redirect-https", Warning, "pages that lead to https, or to http: {n} of {of} looked at, such as {eg}", "every visit is two requests, and every listed URL one that no visitor sees", "list URLs with the scheme that is served"},
	{"redirect-host", Warning, "pages that lead to another host: {n} of {of} looked at, such as {eg}", "every visit is two requests; where the host is another site, crawlers do not follow", "list URLs with the host that is served, with www or without"},
	{"redirect-slash", Warning, "pages that lead to the URL with a slash at its end, or without: {n} of {of} looked at, such as {eg}", "every visit is two requests", "list URLs as they are served"},
	{"redirect-html", Warning, "pages that lead to the URL without .html, or with it: {n} of {of} looked at, such as {eg}", "every visit is two requests", "list URLs as they are served: rdfgen has --clean-urls"},
	{"redirect-other", Warning, "pages that lead elsewhere: {n} of {of} looked at, such as {eg}", "every visit is two requests", "list the URL that they lead to"},
	{"page-no-validators", Warning, "pages without ETag and Last-Modified: {n} of {of} looked at, such as {eg}", "a crawler cannot ask whether they changed: every visit sends the whole page, {a} on average, and about {b} each time one goes over the whole list",
		"let the web server serve them as files, or send Last-Modified"},
	{"page-no-304", Warning, "pages that are sent again to who has them already: {n} of {of} looked at, such as {eg}", "every visit sends the whole page, {a} on average, though it did not change, and about {b} each time a crawler goes over the whole list",
		"let the server heed If-None-Match and If-Modified-Since; rdfgen --heal keeps validators across rebuilds"},
	{"page-not-compressed", Warning, "pages that are not compressed on the way: {n} of {of} looked at, such as {eg}", "{a} were sent where about {b} would do", "switch on compression for text/html"},

	// The check itself.
	{"busy", Note, "the web server asked for patience: {eg}", "the other pages of the sample were left in peace", "check again later, with a lower --rate"},
	{"out-of-time", Note, "the check ran out of time", "what comes after is not looked at", "check again with a smaller --sample, or a higher --rate if the site is yours"},
}

// Rules returns the names of all rules, in the order of the report.
func Rules() (ids []string) {
	for _, r := range rules {
		ids = append(ids, r.id)
	}
	return ids
}

// finding returns the Finding of a rule for its hit.
func (r *rule) finding(h *hit) Finding {
	say := strings.NewReplacer("{n}", number(int64(h.count)), "{of}", number(int64(h.of)), "{eg}", h.eg,
		"{a}", size(h.bytes[0]), "{b}", size(h.bytes[1]), "{fixed}", h.fixed)
	return Finding{Rule: r.id, Severity: r.severity, Where: h.where, Count: h.count, Of: h.of,
		Message: say.Replace(r.message), Cost: say.Replace(r.cost), Fix: say.Replace(r.fix)}
}

// number writes 1234567 as 1,234,567.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
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
