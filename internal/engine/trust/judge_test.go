package trust_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
)

func TestJudge(t *testing.T) {
	told, other := protocol.Sum([]byte("told")), protocol.Sum([]byte("other"))
	yesterday, asked := start.Add(-24*time.Hour), start.Add(time.Minute)
	seen := func(status int, changed bool) trust.Seen {
		return trust.Seen{Asked: asked, Status: status, Digest: other, Changed: changed, Last: yesterday}
	}
	with := func(s trust.Seen, f func(*trust.Seen)) trust.Seen { f(&s); return s }
	news := func(status int) trust.Seen {
		return with(seen(status, true), func(s *trust.Seen) { s.Last = time.Time{} })
	}
	plain := trust.Claim{At: start}
	digest := trust.Claim{At: start, Digest: told}
	gone := trust.Claim{At: start, Gone: true}
	for _, c := range []struct {
		what  string
		claim trust.Claim
		seen  trust.Seen
		want  trust.Outcome
	}{
		{"other content than before", plain, seen(200, true), trust.Right},
		{"the same content", plain, seen(200, false), trust.Wrong},
		{"not modified", plain, seen(304, false), trust.Wrong},
		{"status 404; IndexNow does not say that a page is gone", plain, seen(404, false), trust.Right},
		{"status 410", plain, seen(410, false), trust.Right},
		{"a new redirect", plain, seen(301, true), trust.Right},
		{"the same redirect as before", plain, seen(301, false), trust.Void},
		{"the site is down", plain, seen(503, false), trust.Void},
		{"no answer", plain, seen(0, false), trust.Void},
		{"status 403", plain, seen(403, false), trust.Void},
		{"too many requests", plain, seen(429, false), trust.Void},

		{"a new page", plain, news(200), trust.Right},
		{"a new page that does not exist", plain, news(404), trust.Wrong},
		{"a new page that is a soft 404", plain,
			with(news(200), func(s *trust.Seen) { s.Soft404 = true }), trust.Wrong},
		{"a new page that duplicates another", plain,
			with(news(200), func(s *trust.Seen) { s.Duplicate = true }), trust.Void},

		{"an earlier visit found the change", plain,
			with(seen(304, false), func(s *trust.Seen) { s.Last, s.LastChanged = start.Add(-time.Minute), true }), trust.Void},
		{"an earlier visit found no change either", plain,
			with(seen(304, false), func(s *trust.Seen) { s.Last, s.LastChanged = start.Add(-time.Minute), false }), trust.Wrong},
		{"a stated change that was already seen", trust.Claim{At: start, Modified: yesterday.Add(-time.Hour)}, seen(304, false), trust.Void},
		{"a stated change that did not happen", trust.Claim{At: start, Modified: start}, seen(304, false), trust.Wrong},

		{"the announced digest", digest, with(seen(200, true), func(s *trust.Seen) { s.Digest = told }), trust.Right},
		{"the announced digest, already stored", digest, with(seen(304, false), func(s *trust.Seen) { s.Digest = told }), trust.Right},
		{"another digest", digest, seen(200, true), trust.Wrong},
		{"another digest, and nothing has changed", digest, seen(304, false), trust.Wrong},
		{"another digest of a new page", digest, news(200), trust.Wrong},
		{"another digest: the page will be fetched again", digest, with(seen(200, true), func(s *trust.Seen) { s.Again = true }), trust.Void},
		{"another digest: the next notice has already arrived", digest, with(seen(200, true), func(s *trust.Seen) { s.Later = true }), trust.Void},
		{"another digest: the page changed after the notice", digest,
			with(seen(200, true), func(s *trust.Seen) { s.Modified = start.Add(30 * time.Second) }), trust.Void},
		{"another digest: the page changed after the notice, found by the visit before", digest,
			with(seen(304, false), func(s *trust.Seen) { s.Modified, s.LastChanged = start.Truncate(time.Second), true }), trust.Void},
		{"another digest: nothing has changed, whatever its date", digest,
			with(seen(304, false), func(s *trust.Seen) { s.Modified = start.Add(30 * time.Second) }), trust.Wrong},

		{"another digest of a page that differs at each request", digest,
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Void},
		{"unstable page: its main text changed", digest,
			with(seen(200, true), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Right},
		{"unstable page: unchanged main text with the announced digest", trust.Claim{At: start, Digest: told, Text: other},
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Right},
		{"unstable page: main text differs from the announced one", trust.Claim{At: start, Digest: told, Text: told},
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text, s.TextProved = true, other, true }), trust.Wrong},
		{"unstable page: main text differs, and the site may compute it differently", trust.Claim{At: start, Digest: told, Text: told},
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Void},
		{"unstable page: its main text differs at each request too", trust.Claim{At: start, Digest: told, Text: told},
			with(seen(200, true), func(s *trust.Seen) { s.Unstable, s.Varying, s.Text, s.TextProved = true, true, other, true }), trust.Void},
		{"a truncated page, announced as longer", trust.Claim{At: start, Digest: told, Length: 101},
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length = true, 100 }), trust.Void},
		{"a truncated page, announced without a length", digest,
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length = true, 100 }), trust.Void},
		{"a truncated page, announced as shorter", trust.Claim{At: start, Digest: told, Length: 99},
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length = true, 100 }), trust.Wrong},
		{"a truncated page, announced as shorter, of a site judged by text", trust.Claim{At: start, Digest: told, Length: 99},
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length, s.Unstable, s.Text = true, 100, true, other }), trust.Void},
		{"a whole page, longer than announced", trust.Claim{At: start, Digest: told, Length: 99},
			with(seen(200, true), func(s *trust.Seen) { s.Length = 100 }), trust.Wrong},

		{"gone, as announced", gone, seen(404, false), trust.Right},
		{"gone as a soft 404, as announced", gone, with(seen(200, true), func(s *trust.Seen) { s.Soft404 = true }), trust.Right},
		{"not gone", gone, seen(200, false), trust.Wrong},
		{"not gone, and unchanged", gone, seen(304, false), trust.Wrong},
		{"announced as gone, status 403", gone, seen(403, false), trust.Void},
		{"gone and back", gone, with(seen(200, true), func(s *trust.Seen) { s.Later = true }), trust.Void},
	} {
		if got := trust.Judge(c.claim, c.seen); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// A liar gains nothing by repeating the same lie, at any
// moment: a visit that found no change excuses no notice.
func TestRepeatedLieGainsNothing(t *testing.T) {
	var rules trust.Rules
	var v trust.Source
	last, now := start.Add(-time.Hour), start
	for n := range 40 {
		if _, mute := v.Muted(); mute {
			if n != 20 {
				t.Errorf("muted after %d lies, want 20", n)
			}
			return
		}
		rules.Notice(&v, now)
		rules.Outcome(&v, trust.Judge(trust.Claim{At: now}, trust.Seen{Asked: now, Status: 304, Last: last}), now)
		last, now = now, now.Add(time.Second)
	}
	t.Error("the source is never muted")
}
