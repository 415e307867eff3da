// Package client lets a crawler follow sites.
//
// A site that speaks Parley lists its pages and their changes. [Follow] is the whole interface:
//
//	src := &client.Source{Base: "https://example.org/", UserAgent: "MyBot/1.0 (+https://example.net/bot)"}
//	for step, err := range client.Follow(ctx, src, cursor) {
//		if err != nil {
//			log.Print(err) // Follow retries by itself
//			continue
//		}
//		store(step) // the pending fetches and step.Cursor, in one transaction
//	}
//
// A site delivers changes in up to five forms, selected by Source.As: metadata, deltas, pages, bundles of
// many pages, and an archive of the whole site. Where a form brings page contents, they are in Step.Bodies,
// checked against the digests; the resulting copy is the same in every form. [Batch] requests many pages at
// once.
//
// The caller stores the cursor. A caller that stores it in one transaction with the effect of the step misses
// nothing, and no site has to remember that caller, however often either side is stopped: a step may be
// repeated after a crash, and every change in it may be applied again.
//
// No statement of a site is treated as a fact: a change names a URL that is worth fetching, and a digest to
// compare with. Statements about another origin are left out. Everything read is bounded, in bytes and in
// time.
//
// The package has no state, no database and no globals. The caller decides what to fetch and how politely,
// and obeys robots.txt. A Copy of package [github.com/parleyweb/parley/client/crawl] is a complete crawler of
// one site on top of it.
package client
