// Package static has the files that a site publishes besides its manifest, for
// the crawlers, the engines and the web servers that there are. Each is a
// [server.Output], written from the journal whenever that has moved:
//
//   - [Sitemap]: all pages, with dates that are true
//   - [Feeds]: the newest changes as RSS, Atom and JSON Feed
//   - [Nginx]: an include that answers 410 for what is gone and 308 for what has moved
//   - [Robots]: the lines of robots.txt that lead to all that
//   - [Compressed]: .gz and .zst beside a file, for web servers that send these as they are
//
// What is written depends on the journal and the fields alone, so that the
// same site has the same bytes. A file comes in place of the old one whole and
// durably, and only if it is another. What rules forbid now is told in none.
package static
