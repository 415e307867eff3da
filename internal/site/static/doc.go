// Package static writes the files that a site publishes besides its manifest, for existing crawlers, search
// engines and web servers. Each is a [server.Output], written from the journal whenever that has changed:
//
//   - [Sitemap]: all pages, with true dates
//   - [Feeds]: the newest changes as RSS, Atom and JSON Feed
//   - [Nginx]: an include that answers 410 for pages that are gone and 308 for those that have moved
//   - [Robots]: the lines of robots.txt that lead to these files
//   - [Compressed]: .gz and .zst beside a file, for web servers that send these as they are
//
// The content depends on the journal and the fields alone, so that the same site has the same bytes; only the names of a
// sitemap's parts, and their dates in its index, follow its history. A file
// replaces the old one whole and durably, and only if it differs. No file names a page that rules forbid now.
package static
