// Package catalog publishes sites that are not files: pages that a program generates on request, behind a
// content management system or an application. The pages are listed by whatever exists: a list of URLs, a
// command that prints one, a sitemap or a feed. No source at all is needed where pages are announced.
//
// A [Catalog] is an inventory.Inventory over such sources. It repeats their claims, and no more; with a
// [Fetch] it also fetches the site's own pages at a bounded rate, and publishes what it found: digests, so
// that `modified` is honest whatever the sources claim, and only pages that do answer.
//
// [Reachable] wraps another Inventory, and publishes only pages that links lead to.
package catalog
