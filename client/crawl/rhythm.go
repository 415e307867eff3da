package crawl

import (
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/poll"
)

// polled takes in what asking a sitemap or a feed has shown, and says when it
// is asked next: by its rhythm, where a price is known for what it gains, else after
// the time that is set for its kind (A13).
func (r *run) polled(st *site, s *collection.Source, news poll.Poll, now time.Time) {
	rec, _ := poll.ParseRecord(s.Rhythm) // what is damaged begins anew
	if news.At = now; news.Window == 0 {
		news.Window = rec.Window // it lists what it did
	}
	rec = rec.Poll(news)
	s.Rhythm, s.At = rec.Append(nil), now.Add(r.every(s.Kind))
	if r.Polls == nil {
		return
	}
	r.mu.Lock()
	price, weight := r.price, st.weight
	r.mu.Unlock()
	if price > 0 && rec.Polls > 1 {
		src := poll.Source{Record: &rec, Weight: weight}
		s.At = poll.Schedule{Policy: r.Polls, Longest: longestRhythm}.Next(&src, price, now)
	}
}

// longestRhythm is how long a source is left alone at most.
const longestRhythm = 7 * 24 * time.Hour
