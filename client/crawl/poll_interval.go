package crawl

import (
	"cmp"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/poll"
)

// polled records a poll of a sitemap or a feed, and schedules the next one: by the
// results of its polls (Source.Rhythm) where a price is known, else after the fixed
// interval of its kind (A13).
func (r *sources) polled(st *site, s *collection.Source, news poll.Poll, now time.Time) {
	rec, _ := poll.ParseRecord(s.Rhythm) // a damaged record starts anew
	if news.At = now; news.Window == 0 {
		news.Window = rec.Window // it was not read, and lists as many items as before
	}
	rec = rec.Poll(news)
	s.Rhythm, s.At = rec.Append(nil), now.Add(r.c.every(s.Kind))
	if r.c.Polls.Policy == nil {
		return
	}
	r.work.Lock()
	weight := st.weight
	r.work.Unlock()
	if price := r.plan.price(); price > 0 && rec.Polls > 1 {
		src := poll.Source{Record: &rec, Weight: cmp.Or(weight, 1) * cmp.Or(r.c.Subscribers[s.URL], 1)}
		s.At = r.c.Polls.Next(&src, price, now)
	}
}

// longestRhythm is the longest time between two polls of a source.
const longestRhythm = 7 * 24 * time.Hour
