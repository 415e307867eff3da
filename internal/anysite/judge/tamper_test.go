package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// Each way to tamper with a clean recording is found by the oracle that is named for it.
func TestEachTamperingIsFoundByItsOracle(t *testing.T) {
	tamperings := []struct {
		name, oracle string
		tamper       func(r *record.Recording)
	}{
		// Safety.
		{"a delivered body is another page's", "safety", func(r *record.Recording) {
			g := given(r)
			g.Sum = copyOf(r, "crawler-2").Pages[siteA].Sum
		}},
		{"a body is delivered before the page had it", "safety", func(r *record.Recording) { given(r).At = dawn }},
		{"a refused page is in an archive", "safety", func(r *record.Recording) {
			r.Given = append(r.Given, record.Given{At: r.Ended, Site: siteA, To: "reader", Door: "archive", URL: siteA + "members.html", Sum: Sum([]byte("members only"))})
		}},
		{"a page is delivered that robots.txt forbids", "safety", func(r *record.Recording) {
			r.Given = append(r.Given, record.Given{At: r.Ended, Site: siteA, To: "reader", Door: "batch", URL: siteA + "private/x.html", Sum: Sum([]byte("secret of a"))})
		}},
		{"a page is announced that robots.txt forbids", "safety", func(r *record.Recording) {
			r.Given = append(r.Given, record.Given{At: r.Ended, Site: siteA, To: "reader", Door: "manifest", URL: siteA + "private/x.html"})
		}},
		{"robots.txt is lost, and a page that it forbade is delivered", "safety", func(r *record.Recording) {
			for i := range r.Fetches {
				if f := &r.Fetches[i]; strings.HasSuffix(f.URL, "8001/robots.txt") && f.At.After(r.Steps[2].At) {
					f.Status, f.Sum, f.Size = 404, "", 0
				}
			}
			r.Given = append(r.Given, record.Given{At: r.Ended, Site: siteA, To: "reader", Door: "page", URL: siteA + "private/x.html", Sum: Sum([]byte("secret of a"))})
		}},
		{"bytes are delivered after a withdrawal", "safety", func(r *record.Recording) {
			g := r.Given[0]
			r.Requests = append(r.Requests, record.Request{From: "notifier-a", Method: "GET", URL: g.URL, Status: 401, Began: g.At.Add(secs), Ended: g.At.Add(secs)})
			g.At = g.At.Add(10 * secs)
			r.Given = append(r.Given, g)
		}},
		{"outdated bytes are delivered", "safety", func(r *record.Recording) {
			g := edited(r)
			r.Given = append(r.Given, record.Given{At: r.Ended, Site: siteA, To: "reader", Door: "delta", URL: g.URL, Sum: g.Sum})
		}},
		{"a copy has bytes that no GET returned", "safety", func(r *record.Recording) {
			set(copyOf(r, "crawler-1"), siteA, func(s *record.Stored) { s.Sum = Sum([]byte("nobody said so")) })
		}},
		{"a copy has bytes that were returned at another time", "safety", func(r *record.Recording) {
			g := edited(r)
			set(copyOf(r, "crawler-1"), g.URL, func(s *record.Stored) { s.Sum, s.Stored = g.Sum, r.Ended })
		}},
		{"a 304 is taken for other bytes than those sent before", "safety", func(r *record.Recording) {
			g := edited(r)
			now := copyOf(r, "crawler-1").Pages[g.URL].Sum
			for i, status := range []int{200, 304} {
				at := r.Ended.Add(time.Duration(i) * time.Millisecond)
				r.Requests = append(r.Requests, record.Request{From: "crawler-1", Method: "GET", URL: g.URL, Status: status, Sum: now, Began: at, Ended: at})
			}
			set(copyOf(r, "crawler-1"), g.URL, func(s *record.Stored) { s.Sum, s.Stored = g.Sum, r.Ended })
		}},
		{"a record is replaced", "safety", func(r *record.Recording) { record0(r).Sum = Sum([]byte("spliced in")) }},

		// Liveness.
		{"a page is not stored", "liveness", func(r *record.Recording) { delete(copyOf(r, "crawler-1").Pages, siteA) }},
		{"an edit never arrived", "liveness", func(r *record.Recording) {
			g := edited(r)
			set(copyOf(r, "crawler-2"), g.URL, func(s *record.Stored) { s.Sum, s.Stored = g.Sum, g.At })
		}},
		{"a deleted page is still stored", "liveness", func(r *record.Recording) {
			for _, f := range r.Fetches {
				if l, ok := newWorld(r).last(f.URL, r.Ended); ok && l.Status == 404 && f.Status == 200 && !f.ByTap {
					copyOf(r, "crawler-1").Pages[f.URL] = record.Stored{Status: 200, Sum: f.Sum, Size: f.Size, Stored: f.At}
					return
				}
			}
			panic("nothing was deleted")
		}},
		{"a forbidden page is stored", "liveness", func(r *record.Recording) {
			copyOf(r, "crawler-3").Pages[siteB+"private/y.html"] = record.Stored{Status: 200, Sum: Sum([]byte("y")), Stored: r.Ended}
			r.Fetches = append(r.Fetches, record.Fetch{At: dawn, URL: siteB + "private/y.html", Status: 200, Sum: Sum([]byte("y")), Size: 1})
		}},
		{"the oversize page is not reported as truncated", "liveness", func(r *record.Recording) {
			set(copyOf(r, "crawler-3"), siteB+"big.html", func(s *record.Stored) { s.Truncated = false })
		}},

		// Manners.
		{"a request is 1 ms early", "manners", func(r *record.Recording) { late(r, "crawler-1", -time.Millisecond) }},
		{"a request of a copy is 1 ms early", "manners", func(r *record.Recording) { late(r, "crawler-2", -time.Millisecond) }},
		{"two requests to a host overlap", "manners", func(r *record.Recording) {
			a, b := pair(r, "crawler-3")
			b.Began = a.Began.Add(time.Microsecond)
		}},
		{"a long poll is 1 ms early, whenever it was sent", "manners", func(r *record.Recording) { poll(r, "crawler-2", 1499*time.Millisecond) }},
		{"a long poll is sent before the last one is answered, whenever it was sent", "manners", func(r *record.Recording) {
			poll(r, "crawler-2", -time.Microsecond)
		}},
		{"a Crawl-delay is ignored", "manners", func(r *record.Recording) {
			options(r, "crawler-3")["wait"] = "0s"
			a, b := pair(r, "crawler-3")
			b.Began = a.Ended.Add(1499 * time.Millisecond)
			b.Ended = b.Began.Add(time.Millisecond)
		}},
		{"the rate of a welcome is exceeded", "manners", func(r *record.Recording) {
			body := []byte(`{"welcome":{"rate":1}}`)
			r.Bodies[Sum(body)] = body
			for i := range r.Requests {
				switch q := &r.Requests[i]; {
				case q.From == "crawler-2" && q.Door == "well-known":
					q.Sum = Sum(body)
				case q.From == "crawler-2" && q.Door == "robots":
					q.Status = 404 // no Crawl-delay
				}
			}
			a, b := pair(r, "crawler-2")
			a.Ended = a.Began.Add(time.Millisecond)
			b.Began = a.Began.Add(time.Second - stamped - time.Millisecond)
			b.Ended = b.Began.Add(time.Millisecond)
		}},
		{"another port of the host is requested", "manners", func(r *record.Recording) {
			_, b := pair(r, "crawler-3")
			b.Host, b.Address, b.URL, b.Door = "127.1.1.2:9000", "127.1.1.2:9000", "http://127.1.1.2:9000/", "robots"
		}},
		{"a port that browsers block is requested", "manners", func(r *record.Recording) {
			_, b := pair(r, "crawler-3")
			b.Host, b.Address, b.URL, b.Door = "127.1.1.9:6667", "127.1.1.9:6667", "http://127.1.1.9:6667/robots.txt", "robots"
		}},
		{"a connection too many to an address", "manners", func(r *record.Recording) { crowd(r, 5, 2*secs) }},
		{"an address is flooded through its host names", "manners", func(r *record.Recording) { crowd(r, 40, time.Millisecond) }},
		{"a page is fetched that robots.txt forbids", "manners", func(r *record.Recording) {
			_, b := pair(r, "crawler-1")
			b.URL = siteA + "private/x.html"
		}},
		{"pages are fetched before robots.txt", "manners", func(r *record.Recording) {
			r.Requests = slices.DeleteFunc(r.Requests, func(q record.Request) bool { return q.From == "crawler-3" && q.Door == "robots" })
		}},

		// Events.
		{"an event is dropped", "events", func(r *record.Recording) {
			l := r.Events["crawler-1"]
			r.Events["crawler-1"] = slices.Delete(l, len(l)/2, len(l)/2+1)
		}},
		{"the last event is dropped", "events", func(r *record.Recording) {
			l := r.Events["crawler-1"]
			r.Events["crawler-1"] = l[:len(l)-1]
		}},
		{"two events are swapped", "events", func(r *record.Recording) {
			l := r.Events["crawler-2"]
			l[1], l[2] = l[2], l[1]
		}},
		{"an event has another digest", "events", func(r *record.Recording) {
			l := r.Events["crawler-1"]
			l[slices.IndexFunc(l, func(e record.Event) bool { return e.URL == siteA })].Sum = Sum([]byte("other"))
		}},
		{"an event does not report its page as truncated", "events", func(r *record.Recording) { unflag(r, "truncated") }},
		{"an event hides noindex", "events", func(r *record.Recording) { unflag(r, "noindex") }},

		// Accounts.
		{"a count of status is off by one", "accounts", func(r *record.Recording) {
			r.Accounts["crawler-1"].Status["held"] = r.Accounts["crawler-1"].Status["held"].(float64) + 1
		}},
		{"a count of sites is off by one", "accounts", func(r *record.Recording) {
			r.Accounts["crawler-3"].Sites[0]["pages"] = r.Accounts["crawler-3"].Sites[0]["pages"].(float64) - 1
		}},
		{"why prints another state", "accounts", func(r *record.Recording) {
			w := r.Accounts["crawler-1"].Why
			w[siteA] = strings.Replace(w[siteA], `"held"`, `"excluded"`, 1)
		}},
		{"a stored page that robots.txt forbids now cannot be read", "accounts", func(r *record.Recording) {
			for _, row := range r.Accounts["crawler-1"].Pages {
				if row["url"] == siteA {
					row["state"] = "excluded"
				}
			}
			set(copyOf(r, "crawler-1"), siteA, func(s *record.Stored) { s.Sum = "" })
		}},
		{"pages lacks a line", "accounts", func(r *record.Recording) {
			a := r.Accounts["crawler-1"]
			a.Pages = a.Pages[1:]
			r.Accounts["crawler-1"] = a
		}},
		{"status is at another cursor", "accounts", func(r *record.Recording) { r.Accounts["crawler-1"].Status["cursor"] = "ep:1" }},
		{"the newest record has another body", "accounts", func(r *record.Recording) {
			x := record0(r)
			x.Sum = copyOf(r, "crawler-1").Pages[last(r, "crawler-1").URL].Sum
		}},
		{"a record cannot be read", "accounts", func(r *record.Recording) { record0(r).Err = "unexpected EOF" }},
		{"pages does not report a page as truncated", "accounts", func(r *record.Recording) {
			for _, row := range r.Accounts["crawler-3"].Pages {
				delete(row, "truncated")
			}
			set(copyOf(r, "crawler-3"), siteB+"big.html", func(s *record.Stored) { s.Truncated = false })
		}},
		{"a page is stored and absent from the mirror", "accounts", func(r *record.Recording) {
			files := copyOf(r, "crawler-2").Files
			delete(files, "#")
		}},

		// Bounds.
		{"a program takes 456 MiB for a small site", "bounds", func(r *record.Recording) { r.Usage[0].PeakRSS = 456 << 20 }},
		{"a state grows over its quota", "bounds", func(r *record.Recording) {
			options(r, "crawler-1")["max-state"] = "512KiB"
			r.Usage[0].StateSize = 40 << 20
		}},
		{"a state grows without limit", "bounds", func(r *record.Recording) { r.Usage[1].StateSize = 1 << 30 }},

		// Words.
		{"a crawl that stored no page exits with 0", "words", func(r *record.Recording) { clear(copyOf(r, "crawler-3").Pages) }},
		{"a program fails without an injected failure", "words", func(r *record.Recording) { r.Exits[1].Code, r.Exits[1].Stderr = 1, "crawler: state.db: no space left" }},
		{"a program fails without a message", "words", func(r *record.Recording) { r.Exits[1].Code, r.Exits[1].Stderr = 1, "" }},
		{"a program panics", "words", func(r *record.Recording) {
			r.Exits[1].Killed, r.Exits[1].Stderr = true, "panic: nil map\n\ngoroutine 1 [running]:"
		}},
		{"a dead site is not reported", "words", func(r *record.Recording) {
			for i := range r.Fetches {
				if strings.HasPrefix(r.Fetches[i].URL, siteA) {
					r.Fetches[i].Status = 0
				}
			}
		}},
	}
	const seeds = 3
	for _, x := range tamperings {
		t.Run(x.name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				r := again(t, clean(seed))
				x.tamper(r)
				list := All(r)
				if !slices.ContainsFunc(list, func(f Finding) bool { return f.Oracle == x.oracle }) {
					t.Errorf("seed %d: %s has not found it; findings: %s", seed, x.oracle, list)
				}
			}
		})
	}
	if len(tamperings) < 30 {
		t.Errorf("%d tamperings, want at least 30", len(tamperings))
	}
}

func copyOf(r *record.Recording, name string) *record.Copy {
	return &r.Copies[slices.IndexFunc(r.Copies, func(c record.Copy) bool { return c.Crawler == name })]
}

func options(r *record.Recording, name string) map[string]string {
	return r.Settings[slices.IndexFunc(r.Settings, func(p record.Program) bool { return p.Name == name })].Options
}

func set(c *record.Copy, u string, do func(*record.Stored)) {
	s := c.Pages[u]
	do(&s)
	c.Pages[u] = s
}

// given returns a body that a notifier gave out.
func given(r *record.Recording) *record.Given {
	return &r.Given[slices.IndexFunc(r.Given, func(g record.Given) bool { return g.Sum != "" })]
}

// edited returns a body that a page no longer has, and no longer had well before the end.
func edited(r *record.Recording) record.Fetch {
	w := newWorld(r)
	for _, f := range r.Fetches {
		if l, ok := w.last(f.URL, r.Ended); ok && f.Status == 200 && l.Status == 200 && l.Sum != f.Sum && !f.ByTap {
			return f
		}
	}
	panic("nothing was edited")
}

// record0 returns the newest record of a stored page.
func record0(r *record.Recording) *record.WARCRecord {
	c := copyOf(r, "crawler-1")
	return &c.WARC[slices.IndexFunc(c.WARC, func(x record.WARCRecord) bool { return x.URL == siteA })]
}

func last(r *record.Recording, name string) record.Event {
	for _, e := range slices.Backward(r.Events[name]) {
		if s, ok := copyOf(r, name).Pages[e.URL]; ok && e.URL != siteA && s.Sum != "" {
			return e
		}
	}
	panic("no event of a page that is held")
}

// pair returns two consecutive requests of a crawler.
func pair(r *record.Recording, name string) (a, b *record.Request) {
	for i := range r.Requests {
		if q := &r.Requests[i]; q.From == name && q.Door == "" {
			if a == nil {
				a = q
			} else if b == nil {
				return a, q
			}
		}
	}
	panic("no two requests")
}

// late moves a request and all later ones of the crawler, so that it comes that much after the earliest
// permitted moment.
func late(r *record.Recording, name string, by time.Duration) {
	a, b := pair(r, name)
	least := map[string]time.Duration{"crawler-1": 2 * secs, "crawler-2": 1500 * time.Millisecond}[name]
	by = a.Ended.Add(least + by).Sub(b.Began)
	for i := range r.Requests {
		if q := &r.Requests[i]; q.From == name && !q.Began.Before(b.Began) && q != b {
			q.Began, q.Ended = q.Began.Add(by), q.Ended.Add(by)
		}
	}
	b.Began, b.Ended = b.Began.Add(by), b.Ended.Add(by)
}

// poll adds a long poll. It was sent at the latest this long after another request was answered, and at the
// earliest half of that request's duration before the answer.
func poll(r *record.Recording, name string, latest time.Duration) {
	a, _ := pair(r, name)
	q := *a
	q.URL, q.Door, q.Conn = siteA+"parley/changes?after=x%3A1&wait=30", "changes", 5000
	q.Sent, q.Began = a.Ended.Add(-a.Ended.Sub(a.Began)/2), a.Ended.Add(latest)
	q.Ended = q.Began.Add(30 * secs)
	r.Requests = append(r.Requests, q)
}

// A long poll may have been sent at any moment of an interval: if one moment will do, it is not at fault,
// even if it would overlap with others at both ends of the interval.
func TestLongPollIsInTimeIfAnySendTimeFits(t *testing.T) {
	r := clean(1)
	a, _ := pair(r, "crawler-2")
	next := time.Duration(1 << 62)
	for _, q := range r.Requests {
		if d := q.Began.Sub(a.Ended); q.From == "crawler-2" && d > 0 {
			next = min(next, d)
		}
	}
	poll(r, "crawler-2", next+time.Microsecond)
	for _, f := range Judge(r).Findings {
		t.Error(f)
	}
}

// crowd adds simultaneous requests to many names of one address.
func crowd(r *record.Recording, n int, took time.Duration) {
	for i := range n {
		host := strings.Repeat("x", i+1) + "." + strings.Repeat("y", i+1)
		at := r.Ended.Add(-time.Minute + time.Duration(i)*10*time.Millisecond)
		r.Requests = append(r.Requests, record.Request{From: "crawler-3", Host: host, Address: "192.0.2.1:80", Conn: 1000 + i, Method: "GET",
			URL: "http://" + host + "/robots.txt", Door: "robots", Status: 404, Began: at, Ended: at.Add(took)})
	}
}

func unflag(r *record.Recording, name string) {
	for _, list := range r.Events {
		for i := range list {
			list[i].Flags = slices.DeleteFunc(list[i].Flags, func(f string) bool { return f == name })
		}
	}
}
