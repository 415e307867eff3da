// Package batch simulates how long a crawl takes: with many robots, a wait between connections to a site, several pages a connection, a
// link that all share, and servers of different speeds that fail now and then (Castillo 2004, sections 3.1, 4.2 and 4.4; Cao et al.,
// sections 4 and 5).
//
// A [Run] crawls a web graph: a closed batch, of which all pages are known from the start, or from start pages along the links. Whenever
// a robot is idle, it connects to the site that the crawler's own frontier puts first, and fetches that site's best pages; the frontier
// knows which sites are busy or have to wait, and how fast their servers answered. Only the network and the clock are replaced.
//
// A request takes the server's time first (connecting, response, and its own speed), and then the time of the link, which all transfers
// share equally. So with one robot a page takes a fixed time plus its size divided by the bandwidth of the link, as in the first column
// of Castillo's table 4.2.
//
// Times are seconds from the start of a run, and sizes are bytes. A run is one goroutine that goes from event to event; many may run at
// once. All random numbers belong to a server or a page, whatever the order of the requests, so that two strategies meet the same
// network. The same Run gives the same Result: every product is rounded before it is added, so that no processor fuses the two.
package batch
