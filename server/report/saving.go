package report

import "github.com/parleyweb/parley/internal/accesslog"

// ways are all of them, in the order of a report.
func ways() []string { return []string{Heal, Sitemap, Manifest, Push} }

func noSavings() []Saving {
	list := []Saving{}
	for _, way := range ways() {
		list = append(list, Saving{Way: way})
	}
	return list
}

// savings says what each way would have saved of one crawler's requests, at
// most. The same formulas stand in words in method. With
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
// None is less than 0. Where a crawler asks for what tells it what there is,
// robots.txt and sitemaps, that counts for heal alone: it would go on asking.
// A feed reader reads its feed, and would take no sitemap and no manifest for
// it. Monitors want an answer, and are not counted; nor is who is not who it says.
func (c *caller) savings() []Saving {
	list := noSavings()
	if c.claim == False || c.agent.Kind == accesslog.Monitor {
		return list
	}
	heal, sitemap, manifest, push := &list[0], &list[1], &list[2], &list[3]
	polls := int64(len(c.days))

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

// poll sets what is saved by asking one thing instead of many, for so many
// requests. Who would save nothing by it does not ask.
func (s *Saving) poll(gross Traffic, polls int64) {
	if gross.Requests <= polls {
		return
	}
	s.AtMost = Traffic{gross.Requests - polls, gross.Bytes}
	s.Costs = polls
}
