// Package probe finds out which of a crawler's sources a site offers, and what it would cost to keep a copy
// of it fresh. It stores nothing.
//
// A probe sends one request at a time, and at most 40 (Prober.MaxRequests), redirects included: robots.txt,
// the page, the page again by its ETag and by its date, a page that cannot exist (P12), the manifest and its
// doors, up to three feeds and four sitemaps, five of the site's pages, the sitemap again, and the www twin
// (P08). It waits between them as long as Prober.Wait and the site's Crawl-delay say, fetches nothing that
// robots.txt forbids, and stops when the site asks for it (429, or 503 with a Retry-After), or when a
// Crawl-delay would make it take more than half an hour.
//
// # What freshness costs
//
// The report has the cost of a month by each door, at a given freshness: the share of pages whose copy equals
// the site's, averaged over time. Pages are taken to change as a Poisson process. A page that changes at rate
// r, and whose copy is updated every I, is fresh for F = (1 - e^-rI)/(rI) of the time, and
// I/2 - 1/r + (1 - e^-rI)/(r²I) old in the mean (F06). The probe sees every page once at most, so rates are
// estimated, not measured: a Gamma distribution of rates is fitted to the dates that the site states of its
// pages (time since the last change is then Lomax distributed), and each page gets its mean rate given its
// own date. Without credible dates a page is taken to change once in 30 days, and the report says so.
//
// I is the longest interval at which the mean of F is the given freshness. Then, with M a month, n pages, and
// c = sum of (1 - e^-rI) changed pages an interval:
//
//	get          n M/I requests, each with a body
//	conditional  n M/I requests, c M/I of them with a body
//	sitemap      its files M/I times, and c M/I bodies; feed, manifest and changes likewise
//	stream       a request for each change, sum of r M, and a freshness of nearly 1
//
// All doors but the first two deliver that only if their data is right; for doors that the site does not
// offer the report has what they would cost.
package probe
