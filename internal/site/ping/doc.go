// Package ping notifies others of a site's changes who do not follow its journal:
// search engines that accept IndexNow, hubs and subscribers of WebSub, and the
// site's own commands and webhooks.
//
// An [IndexNow] sends the URLs that changed to one or more engines. A [WebSub]
// pings a hub when a topic, such as a feed or the manifest, has new content. A
// [Hub] is a small hub of the site's own: it accepts subscriptions and delivers
// the content itself. [Hooks] deliver the changes themselves to commands and webhooks.
//
// Each reads the site's journal from a cursor of its own, which is stored in the
// journal's notes beside the pending URLs: so nothing is skipped, however the
// process ends, and a slow or broken receiver does not delay others. Pending URLs
// are stored together with the cursor, in one durable transaction; what was sent is
// recorded in another, after the response. A process that is killed between a
// response and its record sends that one batch again, and no more.
//
//	now := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: journal, Base: base, Engines: []string{"bing"}, Public: site.Public, KeyDir: docroot}}
//	go now.Run(ctx) // or, under cron, now.Turn(ctx)
//
// Receivers are not trusted: responses are bounded in bytes and time, and
// redirects are not followed when something is sent. Constructors start nothing;
// Run blocks, and waits for the goroutines that it started.
package ping
