package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// safety checks that the bytes published or stored for a URL are those of an anonymous GET of it, at that
// time or shortly before.
func safety(r *record.Recording, w *world) []Finding {
	c := &collector{oracle: "safety"}
	for _, g := range r.Given {
		var pub record.Program
		var lag Lags
		for _, p := range w.publishers(g.URL) { // of several publishers, the one with the largest permitted lag
			if l := Lag(p, g.Door); pub.Name == "" || l.Edited+l.Refused > lag.Edited+lag.Refused {
				pub, lag = p, l
			}
		}
		if pub.Name == "" {
			lag = Lag(pub, g.Door)
		}
		what := "delivered it"
		if g.Sum == "" { // only the URL was published
			what = "announced it"
			lag.Withdrawn, lag.Forbidden, lag.Loosened = lag.Withdrawn+lag.Files, lag.Forbidden+lag.Files, lag.Loosened-slack
		} else if how := w.wrongBytes(g.URL, g.Sum, g.At, lag); how != "" {
			c.add(pub.Name, g.URL, g.At, "delivered %.8s by %s, %s", g.Sum, g.Door, how)
		}
		if at, ok := w.refusedTo(pub.Name, g, lag); ok {
			c.add(pub.Name, g.URL, g.At, "%s by %s, %s after the publisher itself was refused the page", what, g.Door, g.At.Sub(at).Round(time.Millisecond))
		}
		if option(pub, "robots", "") == "" && w.forbidden(pub, g, lag) {
			c.add(pub.Name, g.URL, g.At, "%s by %s, but robots.txt forbids it to everybody", what, g.Door)
		}
	}
	for _, cp := range r.Copies {
		for u, s := range cp.Pages {
			if s.Sum == "" || s.Status != 0 && s.Status != 200 && s.Status != 304 {
				continue
			}
			at := s.Stored
			for _, e := range r.Events[cp.Crawler] {
				if e.URL == u && e.Sum == s.Sum && !at.IsZero() {
					at = later(at, e.At) // a page that moved here was visited at its old URL
				}
			}
			if how := w.wrongStored(cp.Crawler, u, s.Sum, s.Size, s.Truncated, at); how != "" {
				c.add(cp.Crawler, u, s.Stored, "stores %.8s, %s", s.Sum, how)
			}
		}
		for _, x := range cp.WARC {
			if x.Sum == "" || x.Status != 200 || x.Type != "response" && x.Type != "resource" && x.Type != "revisit" || !w.page(x.URL) {
				continue
			}
			p, _ := w.program(cp.Crawler, x.At)
			if how := w.wrongStored(cp.Crawler, x.URL, x.Sum, size(p, "max-file", 400_000), true, x.At); how != "" {
				c.add(cp.Crawler, x.URL, x.At, "record at %s:%d has %.8s, %s", x.File, x.Offset, x.Sum, how)
			}
		}
	}
	return c.list
}

// page reports whether a URL is one that the runner fetches, or that some client was given.
func (w *world) page(u string) bool { return len(w.seen[u]) > 0 }

// wrongBytes returns what is wrong with the bytes of a URL at a time, empty if nothing is.
func (w *world) wrongBytes(u, sum string, t time.Time, lag Lags) string {
	if lag.Trusted && w.written(u, sum, t.Add(-max(lag.Edited, lag.Gone)), t) {
		return "" // the operator decides about the docroot's content, and how the server changes it on the way
	}
	allow := lag.Edited
	if l, ok := w.last(u, t); ok {
		switch {
		case l.Status == 404 || l.Status == 410:
			allow = lag.Gone
		case l.Status != 200:
			allow = lag.Refused
		}
	}
	switch {
	case w.shown(u, sum, t.Add(-allow), t):
		return ""
	case w.shown(u, sum, always, t):
		return "which no anonymous GET has returned for longer than " + allow.String()
	case w.ever(u, ""):
		return "which no anonymous GET had returned by then"
	}
	return "but no anonymous GET ever succeeded"
}

// written reports whether a docroot had a body at a URL at any time in an interval.
func (w *world) written(u, sum string, from, to time.Time) (had bool) {
	for _, f := range w.r.Docroot { // in the order of time
		if f.URL == u && !f.At.After(from) {
			had = f.Sum == sum
		} else if f.URL == u && !f.At.After(to) && f.Sum == sum {
			return true
		}
	}
	return had
}

// shownByAnother reports whether another page of the same site showed a body at any time in an interval.
func (w *world) shownByAnother(u, sum string, from, to time.Time) bool {
	for other := range w.seen {
		if other != u && hostOf(other) == hostOf(u) && w.shown(other, sum, from, to) {
			return true
		}
	}
	return false
}

// equalToAnother reports whether a file ever had the bytes that another URL of its host showed.
func (w *world) equalToAnother(u string) bool {
	return slices.ContainsFunc(w.r.Docroot, func(f record.Fetch) bool {
		return f.URL == u && w.shownByAnother(u, f.Sum, always, never)
	})
}

// wrongStored is wrongBytes for a page that a crawler reports as stored at a time, with a resolution of a
// second. A time that it does not report may be any.
func (w *world) wrongStored(crawler, u, sum string, size int64, cut bool, t time.Time) string {
	from, to := always, never
	if !t.IsZero() {
		allow, door := slack, "page"
		if w.tookArchive(crawler) {
			door = "archive"
		}
		for _, p := range w.publishers(u) { // what they published was judged when it left
			l := Lag(p, door)
			allow = max(allow, l.Edited, l.Gone, l.Refused)
		}
		from, to = t.Add(-allow-time.Second), t.Add(time.Second)
	}
	for _, g := range w.r.Given {
		if g.URL == u && g.Sum == sum && !g.At.After(to) {
			return "" // it stores what it was given, which was judged there
		}
	}
	if w.shown(u, sum, from, to) || w.revalidated(crawler, u, sum, from, to) {
		return ""
	}
	for _, p := range w.publishers(u) {
		if (Lag(p, "").Trusted || w.shownByAnother(u, sum, from, to)) && w.written(u, sum, from, to) {
			return "" // as in wrongBytes; or it has them by another name, and the site says that they are equal
		}
	}
	if cut && slices.ContainsFunc(w.seen[u], func(s seen) bool {
		return s.Status == 200 && !s.to.Before(from) && !s.from.After(to) && w.beginsWith(s, sum, size)
	}) {
		return ""
	}
	if w.ever(u, sum) {
		return "which an anonymous GET returned only at another time"
	}
	return "which no anonymous GET returned"
}

// revalidated reports whether the web server answered a crawler 304 in an interval, for a page whose last body it had
// sent to the crawler before was this one.
func (w *world) revalidated(crawler, u, sum string, from, to time.Time) bool {
	var answers []record.Request
	for _, q := range w.r.Requests {
		if q.From == crawler && q.URL == u && (q.Status == 304 || q.Status == 200 && !q.Truncated && q.Sum != "") {
			answers = append(answers, q)
		}
	}
	slices.SortStableFunc(answers, func(a, b record.Request) int { return a.Ended.Compare(b.Ended) })
	had := ""
	for _, q := range answers {
		if q.Status == 200 {
			had = q.Sum
		} else if had == sum && !q.Ended.Before(from) && !q.Ended.After(to) {
			return true
		}
	}
	return false
}

// tookArchive reports whether a crawler fetched an archive of a whole site.
func (w *world) tookArchive(crawler string) bool {
	return slices.ContainsFunc(w.r.Requests, func(q record.Request) bool { return q.From == crawler && q.Door == "archive" })
}

// beginsWith reports whether a body that was seen may begin with another, given by its sum and its size,
// which is negative if unknown. If the seen body was not recorded, only sizes are compared.
func (w *world) beginsWith(s seen, sum string, size int64) bool {
	body, ok := w.r.Bodies[s.Sum]
	if !ok {
		return s.Size < 0 || size < s.Size
	}
	if size >= 0 {
		return size < int64(len(body)) && Sum(body[:size]) == sum
	}
	if part, ok := w.r.Bodies[sum]; ok {
		return len(part) < len(body) && string(body[:len(part)]) == string(part)
	}
	return true
}

// Sum returns the name of a body in a recording.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// refusedTo returns the last time when the front server refused a page to a publisher before the publisher
// gave it out, with no success since, if the time to withdraw it was over.
func (w *world) refusedTo(name string, g record.Given, lag Lags) (at time.Time, refused bool) {
	for _, q := range w.r.Requests {
		if q.From != name && !strings.HasPrefix(q.Header["user-agent"], "Parley notifier") || name == "" || q.URL != g.URL || q.Door != "" || q.Ended.After(g.At) || q.Ended.Before(at) || q.Header["authorization"] != "" {
			continue
		}
		switch q.Status {
		case 401, 403, 451:
			at, refused = q.Ended, true
		case 200:
			at, refused = q.Ended, false
		}
	}
	return at, refused && g.At.Sub(at) > lag.Withdrawn
}

// forbidden reports whether robots.txt forbade a page to everybody when it was given out, for so long that
// the publisher knew it, or allowed it again so recently that the publisher still had to wait.
func (w *world) forbidden(p record.Program, g record.Given, lag Lags) bool {
	said := w.robots(originOf(g.URL), "")
	for i, s := range said {
		until := never
		if i+1 < len(said) {
			until = said[i+1].from
		}
		knows := later(s.from.Add(lag.Forbidden), p.Started)
		if !s.allows(pathOf(g.URL)) && !g.At.Before(knows) && knows.Before(until) && g.At.Before(until.Add(lag.Loosened)) {
			return true
		}
	}
	return false
}
