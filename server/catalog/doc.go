// Package catalog publishes sites that are not files: pages that a program
// makes when somebody asks for them, behind a content management system or an
// application. What such a site has is read from wherever it is written down:
// a list of URLs, a command that prints one, a sitemap or a feed that exists
// already. Nothing at all is enough where pages are announced.
//
// A [Catalog] is a inventory.Inventory over such sources. It says what they say,
// and no more; with a [Fetch] it also fetches the site's own pages at a bounded
// rate, and publishes what it found there: digests, so that `modified` is honest
// whatever the sources claim, and that pages answer at all.
//
// [Reachable] is an Inventory around another one, which publishes only what
// links lead to.
package catalog
