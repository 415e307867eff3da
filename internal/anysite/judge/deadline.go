package judge

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// slack is the time that a busy machine may need for work without waiting: to wake up, to read a directory,
// to answer.
const slack = 2 * time.Second

// busy is the total time that a program may wait for a processor, on a machine with ten times as much work as
// it can do.
const busy = 10 * time.Second

// Lags says how old a publisher's statement about a page may be, compared with an anonymous GET of the page
// now.
type Lags struct {
	Edited    time.Duration // the page has other bytes
	Gone      time.Duration // the page does not exist
	Refused   time.Duration // the page is refused, and the publisher has not seen the refusal
	Withdrawn time.Duration // the page is refused, and the publisher has seen the refusal
	Files     time.Duration // extra lag of outputs that are written seldom and only name URLs
	Forbidden time.Duration // robots.txt forbids the page
	Trusted   bool          // it publishes what it was not refused itself, whatever others are shown
	Loosened  time.Duration // how long robots.txt must have allowed the page before the permission counts
}

// Lag returns how old the statements of a publisher may be. A change of a file is noticed when its writer is
// done, and at the next full scan at the latest (--look-every). Evidence that a page is public is valid for a
// day (--ask-again), so a refusal may go unnoticed that long; once it is noticed, no more of the page may
// leave. With --trust-docroot, the operator is responsible for pages that the server refuses to others and
// not to the publisher. An archive is a snapshot: it may contain superseded text for an hour before it is
// withdrawn. A stricter robots.txt counts from the next scan, a looser one after a minute (--robots-wait),
// unless --robots-now was given.
func Lag(p record.Program, door string) Lags {
	look := duration(p, "look-every", 10*time.Minute)
	l := Lags{
		Edited:    look + slack,
		Gone:      look + duration(p, "grace", time.Minute) + slack,
		Refused:   duration(p, "ask-again", 24*time.Hour) + slack,
		Withdrawn: slack,
		Files:     duration(p, "write-every", 10*time.Second),
		Forbidden: look + slack,
		Trusted:   isSet(p, "trust-docroot") || isSet(p, "serve-pages"),
		Loosened:  delay(p, "robots-wait", time.Minute),
	}
	if door == "archive" {
		const stale = time.Hour // archive.Maker.MaxAge
		l.Edited, l.Gone = l.Edited+stale, l.Gone+stale
	}
	if isSet(p, "robots-now") {
		l.Loosened = 0
	}
	return l
}

// Deadline is D: how long after the last step the copies of all crawlers that still run must be right. It is
// the sum of the delays of each half for the remaining work in the worst order, computed from options and
// politeness rules alone: the publisher may wait for the writer to finish and for vanished pages to return
// (--grace), and may delay the manifest (--write-every) and its evidence (--ask-rate); the crawler may visit
// only now and then (--poll, --manifest-every, --ask-every, --every), and pauses between requests to each
// host. Delays that --hurry caps are short; the others can be seen from outside.
func Deadline(r *record.Recording) time.Duration {
	w := newWorld(r)
	var d time.Duration
	names := map[string]bool{}
	for _, p := range r.Settings {
		if crawls(p) && !names[p.Name] {
			names[p.Name] = true
			last, _ := w.program(p.Name, never)
			d = max(d, deadline(w, last))
		}
	}
	return d
}

func deadline(w *world, p record.Program) time.Duration {
	d := busy
	urls := 0
	var pause time.Duration
	for _, site := range p.Sites {
		n := 12 // doors and related requests: robots.txt, the manifest, a sitemap, repeated requests ...
		var tells time.Duration
		for u := range w.seen {
			if originOf(u) == originOf(site) {
				n++
			}
		}
		for _, q := range w.publishers(site) {
			if q.Kind == "rdfgen" {
				continue // cron runs it, and each run is a step
			}
			ask := number(q, "ask-rate", 50) // each page may need evidence first
			if ask <= 0 {
				ask = 1e6
			}
			t := slack + delay(q, "settle", time.Second) + duration(q, "grace", time.Minute) +
				time.Duration(float64(n)/ask*float64(time.Second))
			if !streams(q) || option(p, "via", "stream") != "stream" || isSet(p, "no-streams") {
				t += duration(q, "write-every", 10*time.Second)
			}
			tells = max(tells, t)
			if rate := min(number(q, "welcome-rate", 0), number(p, "max-rate", 10)); rate > 0 { // the site offers this rate, and the crawler may use it
				pause = max(pause, time.Duration(float64(time.Second)/rate))
			}
		}
		d = max(d, tells+2*slack)
		for _, said := range w.robots(originOf(site), agentOf(p)) {
			pause = max(pause, min(said.delay, time.Hour))
		}
		urls += n
	}
	// All sites may be on one host: then each waits for all the others.
	pause = max(pause, least(p, urls))
	if rate, _ := perAddress(p); rate > 0 && least(p, urls) > 0 {
		pause = max(pause, time.Duration(float64(time.Second)/rate))
	}
	if p.Kind != "follow" && pause > 0 {
		pause = w.pause(p.Name, pause)
	}
	turns := 2 * urls // a page that differs from its announced digest is fetched twice
	if p.Kind == "run" {
		turns += urls // between two pages the manifest may be due again
	}
	for u := range w.seen {
		if len(w.misled(u)) > 0 {
			turns += 6 // a page that stays different from its announcement is fetched three more times, twice each
		}
	}
	d += time.Duration(turns) * pause
	switch {
	case p.Kind == "follow" && option(p, "via", "stream") == "manifest", p.Kind == "follow" && !slices.ContainsFunc(p.Sites, func(s string) bool {
		return slices.ContainsFunc(w.publishers(s), streams)
	}):
		d += duration(p, "poll", 10*time.Minute)
	case p.Kind == "follow" && option(p, "via", "stream") == "changes":
		d += duration(p, "ask-every", 0)
	case p.Kind == "run":
		d += duration(p, "manifest-every", 10*time.Minute)
		if plenty(p, urls) { // then the change arrives by itself
			d += max(duration(p, "max-period", 90*24*time.Hour), duration(p, "min-period", 0)) // a default min-period yields to max-period
		}
	}
	d += duration(p, "every", 0)
	// After a failure the crawler retries after a wait: a copy after one second, two, four and so on, a crawl
	// according to --retry.
	for _, q := range w.r.Requests {
		if q.From == p.Name && (q.Status == 0 || q.Status == 429 || q.Status >= 500) {
			if p.Kind == "follow" {
				d += delay(p, "", 5*time.Minute)
			} else {
				d += delay(p, "retry", 12*time.Hour)
			}
			break
		}
	}
	return min(d, math.MaxInt64/2)
}

// pause returns the average pause after the responses that a crawler waited for: ten times the response time of a slow
// host, and at least the given one.
func (w *world) pause(name string, least time.Duration) time.Duration {
	sum, n := least, time.Duration(1)
	for _, q := range w.r.Requests {
		if q.From == name && !waits(q) && q.Ended.After(q.Began) {
			sum += max(least, 10*min(q.Ended.Sub(q.Began), 30*time.Second))
			n++
		}
	}
	return sum / n
}

// plenty reports whether the budget of a crawl allows a visit of every page a thousand times a day, so that
// only --max-period and --min-period limit the visits.
func plenty(p record.Program, pages int) bool {
	amount, perPage := strings.CutSuffix(option(p, "budget", "0.1/page"), "/page")
	budget, err := strconv.ParseFloat(amount, 64)
	if !perPage {
		budget /= float64(max(pages, 1))
	}
	return err == nil && budget >= 1e5 && option(p, "policy", "priced") == "priced"
}

func streams(p record.Program) bool {
	if p.Kind != "notifier" {
		return false
	}
	return option(p, "stream", "true") == "true"
}

// agentOf returns the name of a crawler in robots.txt.
func agentOf(p record.Program) string {
	name, _, _ := strings.Cut(option(p, "agent", "Parley/0"), "/")
	return name
}

// least returns the shortest pause between two requests to a host with this number of pages.
func least(p record.Program, pages int) time.Duration {
	if p.Kind == "follow" {
		otherwise := time.Second
		if !slices.ContainsFunc(p.Sites, func(s string) bool { return !loopback(s) }) {
			otherwise = 0
		}
		return duration(p, "delay", otherwise)
	}
	wait := duration(p, "wait", 15*time.Second)
	if pages > 100 {
		wait = min(wait, duration(p, "wait-big", 5*time.Second))
	}
	return wait
}

func loopback(u string) bool {
	o := originOf(u)
	_, hp, _ := strings.Cut(o, "://")
	host, _ := hostPort(hp, o)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasPrefix(host, "127.") || host == "::1"
}
