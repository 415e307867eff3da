// Package seed is the role that admits URLs: it decides whether a URL may be
// fetched at all, and under which canonical name its page is known.
//
// # Names
//
// A page is known by a canonical URL. It is what [protocol.CanonicalURL] makes
// of a reference (scheme and host in lower case, no default port, no fragment, no
// dot segments, invalid characters percent-encoded), and then:
//
//   - its spelling is normalized, see spelling.go;
//   - its beginning is replaced according to [Rules].Replace;
//   - session parameters are removed, in the query, after a ";" of
//     the path, and as a component "(S(...))" (P18). A page is fetched with
//     the session of the link that named it first, unless robots.txt forbids that:
//     some sites insist on one (E30). See [Verdict].Ask;
//   - parameters added by advertising are removed;
//   - the host is that of the www twin, if that was met first (P08), until one
//     is seen to redirect to the other (E44).
//
// Nothing else is changed: the order of parameters, needless escapes, a "//" in the path, a slash or an
// index.html at its end, and upper case make a different name. At some site each of
// them is a different page; where it is not, the content shows it (P17).
// So one page may have two names, but two pages never share a name, except on
// a site that puts content into a parameter named like a session.
//
// # Verdicts
//
// A URL is refused by the first of these rules that matches, and the [Verdict]
// names it: length, domain, reject and accept patterns, words, repeated
// components, robots.txt, the number of the site's pages, depth. robots.txt
// outranks every list, person and hint (V19). A site whose robots.txt is not
// known, or cannot be fetched, is silent: its pages are admitted, and wait.
//
// # Depth
//
// Pages are admitted up to a base depth of 15 links, dynamic ones 5 (G10, G11). Whether
// a site is crawled deeper depends on its shape (B11). The thesis infers that from
// the ratio of new to seen URLs; but that ratio is high at a large site and low at a
// calendar below a large menu. The difference is whether it falls: a finite site has
// ever fewer new pages a level, an endless one has not. So the levels beyond the base
// are grouped in bands of three, and a band may have half as many new pages as the
// band before it. In addition a site has a credit of 100 pages and a quarter of those
// within its base depth, for chains that do end. Duplicates do not count as new pages:
// a link to one leads back (B13). Static and dynamic pages are counted separately.
//
// The bound: with n pages within the base depth, credit c = 100 + n/4, and f
// pages taken beyond it because their band was small enough, f is at most half of
// the bands before, hence at most (n + f + c)/2, and f at most n + c. So there are at most n + 2c pages
// beyond the base, which is 1.5n + 200, whatever the site does and in whatever order
// it is crawled, plus the finds of one commit, since pages count when they are committed.
// All of a site's pages together are bounded by MaxPerSite.
//
// A start page may have limits of its own, see [Starts]. Its depth is a plain bound: the site's shape does not raise it.
//
// A page that is refused for its depth is not lost: it is admitted when it is
// found again, if by then the site's shape allows it.
package seed
