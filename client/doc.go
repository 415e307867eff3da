// Package client is how a crawler listens.
//
// A site that speaks Parley tells what it has and what changes there. [Follow]
// is the whole of it:
//
//	src := &client.Source{Base: "https://example.org/", UserAgent: "MyBot/1.0 (+https://example.net/bot)"}
//	for step, err := range client.Follow(ctx, src, cursor) {
//		if err != nil {
//			log.Print(err) // Follow goes on by itself
//			continue
//		}
//		store(step) // what is owed now, and step.Cursor, in one transaction
//	}
//
// A site tells in up to five forms, of which Source.As names one: what changed,
// what differs, the page itself, many pages in a bundle, and the whole site as
// an archive. Where pages come with what is told, Step.Bodies has them, checked
// against the digests; a copy is the same in every form. [Batch] asks for many pages at once.
//
// The caller keeps the cursor. Whoever stores it together with the effect of
// the step misses nothing and needs nobody to remember him, however often
// either side is stopped: a step may be told again after a crash, and every
// change in it may be applied again.
//
// Nothing that a site says is taken for a fact: a change names a URL that is
// worth looking at, and a digest to compare with. What a site says about
// another origin is left out. Everything read is bounded, in bytes and in time.
//
// The package has no state, no database and no globals. What to fetch, and
// how politely, is the caller's; robots.txt too. A Copy of package
// [github.com/parleyweb/parley/client/crawl] is a whole crawler of one site on top.
package client
