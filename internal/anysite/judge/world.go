package judge

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A world is W: what an anonymous GET of each URL showed, and for how long that holds. A site changes by its
// steps alone, so an observation holds from the step before it until the step after it. If two different
// bodies are seen between the same two steps, the page differs at each GET.
type world struct {
	r    *record.Recording
	seen map[string][]seen // by URL, in the order of At
	urls []string          // sorted

	parsed map[[2]string]rules // robots.txt, by sum and agent
}

// A seen is one observation, and the interval in which it holds.
type seen struct {
	record.Fetch
	from, to time.Time
}

var (
	always = time.Time{}
	never  = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newWorld(r *record.Recording) *world {
	w := &world{r: r, seen: map[string][]seen{}, parsed: map[[2]string]rules{}}
	steps := slices.Clone(r.Steps)
	slices.SortStableFunc(steps, func(a, b record.Step) int { return a.At.Compare(b.At) })
	add := func(f record.Fetch) {
		s := seen{Fetch: f, from: always, to: never}
		for _, st := range steps {
			if !w.concerns(st, f.URL) {
				continue
			}
			done := later(st.Done, st.At)
			switch {
			case !done.After(f.At): // before it
				s.from = st.At
			default: // the step was under way, or is still to come
				s.to = done
				if st.At.Before(f.At) {
					continue // the observation may be of before the step or after it
				}
			}
			if s.to != never {
				break
			}
		}
		w.seen[f.URL] = append(w.seen[f.URL], s)
	}
	for _, f := range r.Fetches {
		add(f)
	}
	for _, q := range r.Requests {
		// A whole page that the front server gave to a client without credentials.
		if (q.Door == "" || q.Door == "robots") && q.Method == "GET" && q.Status == 200 && !q.Truncated && q.Sum != "" &&
			q.Header["authorization"] == "" && q.Header["range"] == "" {
			add(record.Fetch{At: later(q.Ended, q.Began), URL: q.URL, Status: 200, Sum: q.Sum, Size: -1, ByTap: true, From: q.From})
		}
	}
	for u, list := range w.seen {
		slices.SortStableFunc(list, func(a, b seen) int { return a.At.Compare(b.At) })
		w.urls = append(w.urls, u)
	}
	slices.Sort(w.urls)
	return w
}

// concerns reports whether a step may change what a URL shows: a step that names no URLs may change any URL
// of its site.
func (w *world) concerns(s record.Step, u string) bool {
	if !strings.Contains(s.Target, "://") || s.Kind == "quiet" {
		return false
	}
	if len(s.URLs) == 0 {
		return originOf(s.Target) == originOf(u)
	}
	path := pathOf(u)
	same := originOf(s.Target) == originOf(u) || slices.Contains(w.r.Features, "place=two-addresses") // of one docroot
	return slices.ContainsFunc(s.URLs, func(v string) bool { return v == u || same && pathOf(v) == path })
}

// shown reports whether a URL showed a body at any time in an interval.
func (w *world) shown(u, sum string, from, to time.Time) bool {
	return slices.ContainsFunc(w.seen[u], func(s seen) bool {
		return s.Status == 200 && s.Sum == sum && !s.to.Before(from) && !s.from.After(to)
	})
}

// ever reports whether a URL showed a body at any time; an empty sum means any.
func (w *world) ever(u, sum string) bool {
	return slices.ContainsFunc(w.seen[u], func(s seen) bool { return s.Status == 200 && (sum == "" || s.Sum == sum) })
}

// unlisted reports whether a URL asked not to be indexed at any time: then its site may never have listed it.
func (w *world) unlisted(u string) bool {
	return slices.ContainsFunc(w.seen[u], func(s seen) bool { return s.NoIndex })
}

// last returns the last observation of a URL up to a time, and false if there is none.
func (w *world) last(u string, until time.Time) (s seen, ok bool) {
	for _, x := range w.seen[u] {
		if !x.At.After(until) && (!x.ByTap || !ok || x.At.After(s.to)) {
			s, ok = x, true // the runner looks after each step itself: observations of others only add to that
		}
	}
	return s, ok
}

// since returns every body that a URL showed since its last change before a time.
func (w *world) since(u string, until time.Time) (sums []string) {
	l, ok := w.last(u, until)
	if !ok || l.Status != 200 {
		return nil
	}
	written := never // the last time, if any: later observations by others show the new file, though the step was under way
	for _, f := range w.r.Docroot {
		if f.URL == u && !f.At.After(until) {
			written = f.At
		}
	}
	for _, x := range w.seen[u] {
		if x.Status == 200 && !x.from.After(until) && x.to.After(l.from) && (x.Sum == l.Sum || !x.from.Before(l.from) || x.At.After(written)) && !slices.Contains(sums, x.Sum) {
			sums = append(sums, x.Sum)
		}
	}
	for _, p := range w.publishers(u) {
		if !Lag(p, "").Trusted {
			continue
		}
		last := "" // a publisher may give out the docroot's bytes, before the server changes them
		for _, f := range w.r.Docroot {
			if f.URL == u && !f.At.After(until) {
				last = f.Sum
			}
		}
		if last != "" && !slices.Contains(sums, last) {
			sums = append(sums, last)
		}
	}
	return sums
}

// publishers returns the programs that publish a URL.
func (w *world) publishers(u string) (list []record.Program) {
	for _, p := range w.r.Settings {
		if (p.Kind == "notifier" || p.Kind == "rdfgen") && slices.ContainsFunc(p.Sites, func(base string) bool { return strings.HasPrefix(u, base) }) {
			list = append(list, p)
		}
	}
	return list
}

// program returns the settings with which a program was running at a time.
func (w *world) program(name string, t time.Time) (p record.Program, ok bool) {
	for _, x := range w.r.Settings {
		if x.Name == name && (!ok || !x.Started.After(t) && !x.Started.Before(p.Started)) {
			p, ok = x, true
		}
	}
	return p, ok
}

func crawls(p record.Program) bool { return p.Kind == "crawl" || p.Kind == "run" || p.Kind == "follow" }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func originOf(u string) string {
	p, err := url.Parse(u)
	if err != nil || p.Host == "" {
		return ""
	}
	return p.Scheme + "://" + strings.ToLower(p.Host)
}

// pathOf returns the part of a URL that robots.txt matches.
func pathOf(u string) string {
	if _, rest, ok := strings.Cut(u, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			rest, _, _ = strings.Cut(rest[i:], "#")
			if rest[0] == '?' {
				return "/" + rest
			}
			return rest
		}
	}
	return "/"
}

// hostPort splits a dialled address; the port defaults to that of the scheme.
func hostPort(hp, u string) (host, port string) {
	host, port, err := net.SplitHostPort(hp)
	if err != nil {
		host, port = strings.Trim(hp, "[]"), "80"
		if strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "wss:") {
			port = "443"
		}
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), port
}
