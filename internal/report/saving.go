package report

import "github.com/parleyweb/parley/internal/accesslog"

// noSavings returns all ways, in the order of a report.
func noSavings() []Saving { return []Saving{{Way: Heal}, {Way: Sitemap}, {Way: Manifest}, {Way: Push}} }

// savings returns the most that each way would have saved of one crawler's requests. The function method
// states the same formulas in words. With
//
//	S  re-reads of the same size, in requests and bytes
//	N  requests answered 304
//	G  requests answered once more that a page is gone or has moved
//	D  days on which the crawler came
//
//	heal      0 requests          bytes of S
//	sitemap   S + N - D           bytes of S     (one request a day for the sitemap)
//	manifest  S + N + G - D       bytes of S, G  (one request a day for the manifest)
//	push      S + N + G           bytes of S, G
//
// None is less than 0. Requests that discover pages, for robots.txt and sitemaps, count for heal alone: a
// crawler would go on sending them. A feed reader reads its feed, and would use neither a sitemap nor a
// manifest instead. Monitors want a response, and are not counted; nor are crawlers under a false name.
func (c *caller) savings() []Saving {
	list := noSavings()
	if c.claim == False || c.agent.Kind == accesslog.Monitor {
		return list
	}
	heal, sitemap, manifest, push := &list[0], &list[1], &list[2], &list[3]
	polls := int64(len(c.came.days))

	heal.AtMost.Bytes = c.pages.same.Bytes + c.doors.same.Bytes
	if c.reading.NotModified > 0 {
		heal.Today = heal.AtMost
	}
	again := c.pages.same.Requests + c.pages.notModified
	push.AtMost = Traffic{again + c.pages.goneAgain.Requests, c.pages.same.Bytes + c.pages.goneAgain.Bytes}
	if c.agent.IndexNow || c.agent.Kind == accesslog.Feed {
		push.Today = push.AtMost
	}
	if c.agent.Kind == accesslog.Feed {
		return list
	}
	sitemap.poll(Traffic{again, c.pages.same.Bytes}, polls)
	if c.agent.Lastmod {
		sitemap.Today = sitemap.AtMost
	}
	manifest.poll(push.AtMost, polls)
	return list
}

// poll sets what one request instead of many saves, at the cost of so many polls. A crawler that would save
// nothing does not poll.
func (s *Saving) poll(gross Traffic, polls int64) {
	if gross.Requests <= polls {
		return
	}
	s.AtMost = Traffic{gross.Requests - polls, gross.Bytes}
	s.Costs = polls
}
