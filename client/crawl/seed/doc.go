// Package seed is the role that admits: whether a URL that somebody named may
// be asked for at all, and by which name it is known.
//
// # Names
//
// A page is known by a canonical URL. It is what [protocol.CanonicalURL] makes
// of a reference (scheme and host in lower case, no default port, no fragment, no
// dot segments, what cannot stand in a URL percent-encoded), and then:
//
//   - of its spellings one is chosen, see [Spelled];
//   - the beginning is replaced, as [Rules].Replace says;
//   - parameters that name a session are removed, in the query, after a ";" of
//     the path, and as a component "(S(...))" (P18). A page is asked for with
//     the session of the link that named it first, unless robots.txt forbids that:
//     some sites insist on one (E30). See [Verdict].Ask;
//   - parameters that advertising adds are removed;
//   - the host is that of the www twin, if that was met first (P08), until one
//     is seen to redirect to the other (E44).
//
// Nothing else is: the order of parameters, needless escapes, a "//" in the path, a slash or an
// index.html at its end, and upper case make another name. Each of them is
// another page somewhere, and where it is not, the contents tell (P17).
// So two names may be one page, and never two pages one name, but for
// a site that puts contents into a parameter called as sessions are.
//
// # Verdicts
//
// A name is refused by the first of these that speaks, and the [Verdict] says
// which: its length, the domain, reject and accept patterns, words, repeated
// components, robots.txt, the number of the site's pages, its depth. robots.txt
// outranks every list, person and hint (V19). A site whose robots.txt is not
// known, or cannot be had, is silent: its pages are admitted, and wait.
//
// # Depth
//
// Pages are taken up to a base depth of 15 links, dynamic ones 5 (G10, G11). Whether
// a site goes deeper depends on its shape (B11). The thesis would infer that
// from the ratio of new to seen URLs; but that ratio is high at a large site and low at a
// calendar below a large menu. What tells them apart is whether it falls: a
// site that has an end has ever fewer new pages a level, a site that has none has
// not. So the levels beyond the base are taken in bands of three, and a band may have
// half as many new pages as the band before it; and beside that a site has credit, of
// 100 pages and a quarter as many as are within its base depth, for chains that do
// end. Duplicates are no new pages: who meets one has gone back (B13). Static and
// dynamic pages are counted apart.
//
// The bound: with n pages within the base depth, credit c = 100 + n/4, and f
// pages taken beyond it because their band was small enough, f is at most half of
// the bands before, hence at most (n + f + c)/2, and f at most n + c. So there are at most n + 2c pages
// beyond the base, which is 1.5n + 200, whatever the site does and in whatever order
// it is read, and one turn's finds more, since pages count when they are committed.
// All of a site's pages together are bounded by MaxPerSite.
//
// A page that is refused for its depth is not lost: it is admitted when it is
// met again, if by then the site has shown that it ends.
package seed
