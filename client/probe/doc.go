// Package probe finds out what a site offers to crawlers, and what it would
// cost to keep a copy of it fresh. It stores nothing.
//
// A probe asks one thing after another, never two at once, and at most 40 things
// (Prober.MaxRequests), redirects included: robots.txt, the page, the page again
// by its ETag and by its date, a page that cannot exist (P12), the manifest and
// its doors, up to three feeds and four sitemaps, five of the pages that are
// named, the sitemap again, and the www twin (P08). It waits between them as
// long as Prober.Wait and the site's Crawl-delay say, asks for nothing that
// robots.txt forbids, and stops when the site says that it has enough (429, or
// 503 with a Retry-After), or when a Crawl-delay would make it take more than
// half an hour.
//
// # What freshness costs
//
// The report says what a month would cost by each way to be told, at a stated
// freshness: the share of pages of which the copy is as the site has it,
// averaged over time. Pages are taken to change as a Poisson process. A page that changes
// at rate r, and of which the copy is set right every I, is fresh for
// F = (1 - e^-rI)/(rI) of the time, and I/2 - 1/r + (1 - e^-rI)/(r²I) old in the
// mean (F06). The probe sees every page once at most, so rates are
// believed, not measured: of the dates that the site states of its pages a
// Gamma distribution of rates is fitted (time since the last change is then
// Lomax distributed), and each page has the mean rate that its own date leaves.
// Without credible dates a page is believed to change once in 30 days, and the
// report says so.
//
// I is the longest interval with which the mean of F is the stated freshness.
// Then, with M a month, n pages, and c = sum of (1 - e^-rI) changed pages an interval:
//
//	get          n M/I requests, each with a body
//	conditional  n M/I requests, c M/I of them with a body
//	sitemap      its files M/I times, and c M/I bodies; feed, manifest and changes likewise
//	stream       a request for each change, sum of r M, and a freshness of nearly 1
//
// All doors but the first two are worth that only if what they tell is true; of
// those that the site has not got the report says what they would cost.
package probe
