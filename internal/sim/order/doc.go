// Package order simulates in which order a crawler fetches the pages of a web graph, with the crawler's own frontier and strategies, and
// measures how early the pages with a high Pagerank come (Castillo 2004, sections 4.3.1 to 4.3.4).
//
// A [Web] is the graph as far as links lead from its start pages; a [Run] is a crawl of it by one order. The crawl has one robot and no
// failures, and takes no time: it fetches the one page that the frontier puts first, learns the page's links, and goes on until no page
// is left. [Web.Score] measures the result. Waits, bandwidth and more robots, which take time to matter, are not simulated here.
//
// A run is one goroutine without locks; many may run on one Web at once. The same Run gives the same result.
package order
