package trust_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/client/trust"
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
		{"it went, which IndexNow does not say", plain, seen(404, false), trust.Right},
		{"it went for good", plain, seen(410, false), trust.Right},
		{"it leads elsewhere now", plain, seen(301, true), trust.Right},
		{"it leads elsewhere, as before", plain, seen(301, false), trust.Void},
		{"the site is down", plain, seen(503, false), trust.Void},
		{"no answer", plain, seen(0, false), trust.Void},
		{"not for us", plain, seen(403, false), trust.Void},
		{"too many requests", plain, seen(429, false), trust.Void},

		{"a new page", plain, news(200), trust.Right},
		{"a page that never was", plain, news(404), trust.Wrong},
		{"a page that never was, and the site does not say so", plain,
			with(news(200), func(s *trust.Seen) { s.Soft404 = true }), trust.Wrong},
		{"a new page that is another one's twin", plain,
			with(news(200), func(s *trust.Seen) { s.Duplicate = true }), trust.Void},

		{"a visit of our own was quicker than the notice", plain,
			with(seen(304, false), func(s *trust.Seen) { s.Last, s.LastChanged = start.Add(-time.Minute), true }), trust.Void},
		{"a visit of our own found nothing either", plain,
			with(seen(304, false), func(s *trust.Seen) { s.Last, s.LastChanged = start.Add(-time.Minute), false }), trust.Wrong},
		{"it states a change that we have seen", trust.Claim{At: start, Modified: yesterday.Add(-time.Hour)}, seen(304, false), trust.Void},
		{"it states a change that is none", trust.Claim{At: start, Modified: start}, seen(304, false), trust.Wrong},

		{"the digest that was told", digest, with(seen(200, true), func(s *trust.Seen) { s.Digest = told }), trust.Right},
		{"the digest that was told, and we had it", digest, with(seen(304, false), func(s *trust.Seen) { s.Digest = told }), trust.Right},
		{"another digest", digest, seen(200, true), trust.Wrong},
		{"another digest, and nothing has changed", digest, seen(304, false), trust.Wrong},
		{"another digest of a new page", digest, news(200), trust.Wrong},
		{"another digest: it will be asked again", digest, with(seen(200, true), func(s *trust.Seen) { s.Again = true }), trust.Void},
		{"another digest: the next notice is here already", digest, with(seen(200, true), func(s *trust.Seen) { s.Later = true }), trust.Void},
		{"another digest: it changed after the notice", digest,
			with(seen(200, true), func(s *trust.Seen) { s.Modified = start.Add(30 * time.Second) }), trust.Void},
		{"another digest: it changed after the notice, and the visit before has found that", digest,
			with(seen(304, false), func(s *trust.Seen) { s.Modified, s.LastChanged = start.Truncate(time.Second), true }), trust.Void},
		{"another digest: nothing has changed, whatever its date", digest,
			with(seen(304, false), func(s *trust.Seen) { s.Modified = start.Add(30 * time.Second) }), trust.Wrong},

		{"another digest of a page that differs at each request", digest,
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Void},
		{"the same, and its main text is another than before", digest,
			with(seen(200, true), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Right},
		{"the same, and its main text, as told, is what it was", trust.Claim{At: start, Digest: told, Text: other},
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Right},
		{"the same, and its main text is not what was told", trust.Claim{At: start, Digest: told, Text: told},
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text, s.TextProved = true, other, true }), trust.Wrong},
		{"the same, of a site that may mean another text", trust.Claim{At: start, Digest: told, Text: told},
			with(seen(200, false), func(s *trust.Seen) { s.Unstable, s.Text = true, other }), trust.Void},
		{"the same, and its main text differs at each request, too", trust.Claim{At: start, Digest: told, Text: told},
			with(seen(200, true), func(s *trust.Seen) { s.Unstable, s.Restless, s.Text, s.TextProved = true, true, other, true }), trust.Void},
		{"a page that was cut, and was told to be longer", trust.Claim{At: start, Digest: told, Length: 101},
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length = true, 100 }), trust.Void},
		{"a page that was cut, of which no length was told", digest,
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length = true, 100 }), trust.Void},
		{"a page that was cut, and was told to be shorter", trust.Claim{At: start, Digest: told, Length: 99},
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length = true, 100 }), trust.Wrong},
		{"the same of a site that is judged by text", trust.Claim{At: start, Digest: told, Length: 99},
			with(seen(200, true), func(s *trust.Seen) { s.Cut, s.Length, s.Unstable, s.Text = true, 100, true, other }), trust.Void},
		{"a whole page, longer than was told", trust.Claim{At: start, Digest: told, Length: 99},
			with(seen(200, true), func(s *trust.Seen) { s.Length = 100 }), trust.Wrong},

		{"gone, as told", gone, seen(404, false), trust.Right},
		{"gone, as told, in its way", gone, with(seen(200, true), func(s *trust.Seen) { s.Soft404 = true }), trust.Right},
		{"not gone", gone, seen(200, false), trust.Wrong},
		{"not gone, and unchanged", gone, seen(304, false), trust.Wrong},
		{"gone, or perhaps forbidden", gone, seen(403, false), trust.Void},
		{"gone and back", gone, with(seen(200, true), func(s *trust.Seen) { s.Later = true }), trust.Void},
	} {
		if got := trust.Judge(c.claim, c.seen); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// A liar gains nothing by repeating the same lie, at any
// moment: a visit that found no change excuses no notice.
func TestRepeatingALieExcusesNothing(t *testing.T) {
	var rules trust.Rules
	var v trust.Voice
	last, now := start.Add(-time.Hour), start
	for n := range 40 {
		if _, mute := v.Muted(); mute {
			if n != 20 {
				t.Errorf("mute after %d lies, want 20", n)
			}
			return
		}
		rules.Notice(&v, now)
		rules.Outcome(&v, trust.Judge(trust.Claim{At: now}, trust.Seen{Asked: now, Status: 304, Last: last}), now)
		last, now = now, now.Add(time.Second)
	}
	t.Error("never mute")
}
