package judge

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// slack is what a busy machine may take for anything that needs no waiting:
// to be woken, to read a directory, to answer.
const slack = 2 * time.Second

// busy is what it may take in all for a program to get a processor, on a machine
// that has ten times as much to do as it can.
const busy = 10 * time.Second

// A Lags says how old what a publisher gives out of a page may be, by what an
// anonymous GET of the page shows now.
type Lags struct {
	Edited    time.Duration // other bytes
	Gone      time.Duration // no page
	Refused   time.Duration // a refusal that the publisher has not been shown
	Withdrawn time.Duration // a refusal that it has been shown
	Files     time.Duration // what it writes seldom, and only names URLs, may be behind by so much more
	Forbidden time.Duration // a robots.txt that forbids it
	Trusted   bool          // it gives out what it has not been refused, whatever others are shown
	Loosened  time.Duration // how long robots.txt must have allowed it before that counts
}

// Lag is L of a publisher. A writer of files is noticed when he is done, and at
// the next look over everything at the latest (--look-every). Evidence that a
// page is public is good for a day (--ask-again), so a refusal may go unnoticed that long;
// once it is noticed nothing more may leave. Who says --trust-docroot has taken on himself
// what the server refuses to others and not to the publisher. An archive is a thing of its time:
// it may hold superseded text for an hour (--archive-stale) before it is withdrawn.
// What tightens robots.txt counts with the next look, what loosens it
// after a minute (--robots-wait), unless somebody said --robots-now.
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
		stale := delay(p, "archive-stale", time.Hour)
		l.Edited, l.Gone = l.Edited+stale, l.Gone+stale
	}
	if isSet(p, "robots-now") {
		l.Loosened = 0
	}
	return l
}

// Deadline is D: how long after the last step the copies of all crawlers that
// still run must be right. It is the sum of what each half may take for what is
// left to do in the worst order, from options and manners alone: the publisher
// may wait for the writer to be done and for vanished pages to return (--grace), may spare the
// manifest (--write-every) and its evidence (--ask-rate); the crawler may come by once in
// a while (--poll, --manifest-every, --ask-every, --every), and owes its pauses to each host.
// What --hurry caps is short; what it does not cap is what somebody may see.
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
		n := 12 // doors and their neighbours: robots.txt, the manifest, a sitemap, what is asked again ...
		var tells time.Duration
		for u := range w.seen {
			if originOf(u) == originOf(site) {
				n++
			}
		}
		for _, q := range w.publishers(site) {
			if q.Kind == "rdfgen" {
				continue // it is run by the clock, and each run is a step
			}
			ask := number(q, "ask-rate", 50) // each page may have to be shown first
			if ask <= 0 {
				ask = 1e6
			}
			t := slack + delay(q, "settle", time.Second) + duration(q, "grace", time.Minute) +
				time.Duration(float64(n)/ask*float64(time.Second))
			if !streams(q) || option(p, "via", "stream") != "stream" || isSet(p, "no-streams") {
				t += duration(q, "write-every", 10*time.Second)
			}
			tells = max(tells, t)
			if rate := min(number(q, "welcome-rate", 0), number(p, "max-rate", 10)); rate > 0 { // it wishes to be asked so often, and may
				pause = max(pause, time.Duration(float64(time.Second)/rate))
			}
		}
		d = max(d, tells+2*slack)
		for _, said := range w.robots(originOf(site), agentOf(p)) {
			pause = max(pause, min(said.delay, time.Hour))
		}
		urls += n
	}
	// All of them may be one host: then each waits for all others.
	pause = max(pause, least(p, urls))
	if rate, _ := perAddress(p); rate > 0 && least(p, urls) > 0 {
		pause = max(pause, time.Duration(float64(time.Second)/rate))
	}
	if p.Kind != "follow" && pause > 0 {
		pause = max(pause, 10*w.slowness(p.Name)) // whoever answers slowly is left in peace for ten times as long
	}
	turns := 2 * urls // a page that is not what was told is asked for twice
	if p.Kind == "run" {
		turns += urls // and between two pages the manifest may be due again
	}
	for u := range w.seen {
		if w.misled(u) {
			turns += 6 // what stays different from what was told is asked for three times more, and each time twice
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
		if plenty(p, urls) { // then it comes by itself
			d += max(duration(p, "max-period", 90*24*time.Hour), duration(p, "min-period", 0)) // a default of the latter yields
		}
	}
	d += duration(p, "every", 0)
	// After a failure it comes back when it has waited: a copy after a second,
	// two, four and so on, a crawl as --retry says.
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

// slowness is how long the answers that a crawler waited for took on average.
func (w *world) slowness(name string) time.Duration {
	var sum, n time.Duration
	for _, q := range w.r.Requests {
		if q.From == name && !waits(q) && q.Ended.After(q.Began) {
			sum += min(q.Ended.Sub(q.Began), 30*time.Second)
			n++
		}
	}
	return sum / max(n, 1)
}

// plenty reports whether the budget of a crawl is such that every page is visited again
// all the time: a thousand times a day, that is as often as --max-period and --min-period say.
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

// agentOf is what robots.txt calls a crawler.
func agentOf(p record.Program) string {
	name, _, _ := strings.Cut(option(p, "agent", "Parley/0"), "/")
	return name
}

// least is the shortest pause between two requests to a host of so many pages.
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
