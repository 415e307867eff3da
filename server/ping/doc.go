// Package ping tells of a site's changes those who do not listen: search
// engines that take IndexNow, and hubs and subscribers of WebSub.
//
// An [IndexNow] sends the URLs that changed to one or more engines. A [WebSub]
// tells a hub that a topic, such as a feed or the manifest, has new content. A
// [Hub] is a small hub of the site's own: it takes subscriptions and delivers
// the content itself.
//
// Each reads the site's journal from a cursor of its own, which stands in the
// journal's notes beside what is still owed: so nothing is skipped, whatever
// ends the process, and one that is slow or broken holds up no other. What is
// owed is taken in together with the cursor, in one durable transaction; what
// was sent is recorded in one after the answer. A process that is killed
// between an answer and its record sends that one batch again, and no more.
//
//	now := &ping.IndexNow{Journal: journal, Base: base, Engines: []string{"bing", "yandex"}, Public: site.Public, KeyDir: docroot}
//	go now.Run(ctx) // or, under cron, now.Turn(ctx)
//
// What comes from the other side is never trusted: answers are bounded in
// bytes and time, and redirects are not followed when something is sent.
// Constructors start nothing; Run blocks, and waits for what it started.
package ping
