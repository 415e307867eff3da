package judge

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// Questions that Expected asks about a URL and its site.

// telling says whether a site tells of a URL at a time: "told" if a publisher
// runs for it or has run to its end, "silenced" if one is dead, and "silent" if there is none.
func (w *world) telling(u string) string {
	state := "silent"
	for _, p := range w.publishers(u) {
		if p.Kind == "notifier" && w.ended(p) || p.Kind == "rdfgen" && w.stale(p, u) {
			if state == "silent" {
				state = "silenced"
			}
			continue
		}
		state = "told"
	}
	return state
}

// misled returns the steps in which a publisher of a URL watched a directory that is not the web server's.
func (w *world) misled(u string) (list []record.Step) {
	for _, s := range w.r.Steps {
		if s.Kind == "wrong-docroot" && slices.ContainsFunc(w.publishers(u), func(p record.Program) bool { return p.Name == s.Target }) {
			list = append(list, s)
		}
	}
	return list
}

// misledBefore reports whether a run of a crawler before its last one overlapped with such a step.
func (w *world) misledBefore(u string, runs []record.Program) bool {
	return slices.ContainsFunc(w.misled(u), func(s record.Step) bool {
		return slices.ContainsFunc(runs[:len(runs)-1], func(p record.Program) bool {
			i := slices.IndexFunc(w.r.Exits, func(x record.Exit) bool { return x.Program == p.Name && x.At.After(p.Started) })
			return p.Started.Before(s.Done) && i >= 0 && w.r.Exits[i].At.After(s.At) // exits are in the order of time
		})
	})
}

// ended reports whether a program had ended when the last step was done, and was not started again.
func (w *world) ended(p record.Program) bool {
	last, _ := w.program(p.Name, never)
	return slices.ContainsFunc(w.r.Exits, func(x record.Exit) bool {
		return x.Program == p.Name && x.At.After(last.Started) && x.At.Before(w.quiet())
	})
}

// quiet returns when the last step was done.
func (w *world) quiet() (t time.Time) {
	for _, s := range w.r.Steps {
		t = later(t, later(s.Done, s.At))
	}
	return t
}

// stale reports whether a site was changed after the last run of its publisher.
func (w *world) stale(p record.Program, u string) bool {
	last := p.Started
	for _, q := range w.r.Settings {
		if q.Name == p.Name {
			last = later(last, q.Started)
		}
	}
	return slices.ContainsFunc(w.r.Steps, func(s record.Step) bool {
		return later(s.Done, s.At).After(last) && strings.Contains(s.Target, "://") && w.concerns(s, u)
	})
}

// published reports whether a site publishes a URL, by its name: HTML, PDF and files that --include names,
// but nothing hidden, and no backup.
func published(w *world, u string) bool {
	names := strings.Split(strings.Trim(strings.SplitN(pathOf(u), "?", 2)[0], "/"), "/")
	last := names[len(names)-1]
	for _, n := range names {
		if strings.HasPrefix(n, ".") || strings.HasSuffix(n, "~") || slices.Contains([]string{".bak", ".orig", ".old", ".tmp", ".swp"}, strings.ToLower(path.Ext(n))) {
			return false
		}
	}
	ext := strings.ToLower(path.Ext(last))
	for _, p := range w.publishers(u) {
		if isSet(p, "reachable") || slices.ContainsFunc(listed(p, "exclude"), func(pattern string) bool { return excludes(pattern, last) }) {
			return false // the judge cannot say
		}
		if l, ok := w.last(u, never); ok && l.Size > size(p, "max-file", 100_000_000) {
			return false
		}
		if isSet(p, "clean-urls") && (ext == "" || ext == ".html") {
			return ext == "" && last != "index" // page.html is published as page
		}
		for _, pattern := range listed(p, "include") {
			for _, one := range alternatives(pattern) {
				if ok, _ := path.Match(strings.TrimPrefix(one, "**/"), last); ok {
					return true
				}
			}
		}
	}
	if last == "index.html" {
		return false // its directory is published instead
	}
	return strings.HasSuffix(u, "/") || slices.Contains([]string{".html", ".htm", ".xhtml", ".pdf"}, ext)
}

// excludes reports whether a pattern of --exclude leaves out a file, or may, by the last part of its URL: the
// judge does not interpret patterns with directories.
func excludes(pattern, last string) bool {
	if strings.ContainsAny(pattern, "/{") {
		return true
	}
	file, _ := path.Match(pattern, last)
	clean, _ := path.Match(pattern, last+".html") // the last part may lack the extension
	return file || clean
}

// filtered reports whether the patterns of a crawl leave a URL out, or may: patterns that begin with "/" or
// "*" are matched as in robots.txt, and the judge does not interpret others.
func filtered(p record.Program, u string) bool {
	match := func(pattern string, otherwise bool) bool {
		if strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, "*") {
			return fits(spell(pattern), spell(pathOf(u)))
		}
		return otherwise
	}
	for _, pattern := range listed(p, "reject") {
		if match(pattern, true) {
			return true
		}
	}
	if list := listed(p, "accept"); len(list) > 0 && !slices.ContainsFunc(list, func(pattern string) bool { return match(pattern, false) }) {
		return true
	}
	list := listed(p, "static-ext")
	return len(list) > 0 && !slices.Contains(list, strings.TrimPrefix(path.Ext(strings.SplitN(pathOf(u), "?", 2)[0]), "."))
}

// alternatives expands a pattern with braces.
func alternatives(pattern string) []string {
	before, rest, ok := strings.Cut(pattern, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return []string{pattern}
	}
	var list []string
	for _, x := range strings.Split(inside, ",") {
		list = append(list, alternatives(before+x+after)...)
	}
	return list
}

// loggedOnly reports whether a crawler records a URL without fetching it, by its name.
func loggedOnly(u string) bool {
	ext := strings.ToLower(path.Ext(strings.SplitN(pathOf(u), "?", 2)[0]))
	return ext != "" && !slices.Contains([]string{".html", ".htm", ".xhtml", ".txt"}, ext)
}

// oddName reports whether a crawler has special rules for a name: parameters, sessions, words such as login,
// very long names, and components that repeat.
func oddName(u string) bool {
	if strings.ContainsAny(u, "?;") || len(u) > 2048 {
		return true
	}
	parts := strings.Split(pathOf(u), "/")
	count := map[string]int{}
	for _, p := range parts {
		if count[p]++; p != "" && count[p] > 4 {
			return true
		}
	}
	return strings.Contains(" login logout logon logoff log-in log-out signin signout sign-in sign-out signup sign-up register wp-login wp-signup unsubscribe ",
		" "+strings.ToLower(parts[len(parts)-1])+" ")
}

// allowed says whether robots.txt let a crawler fetch a URL between two times: "always", "never" or
// "sometimes". A missing file allows everything.
func (w *world) allowed(u, agent string, from, at time.Time) string {
	yes, no := false, false
	for _, s := range w.seen[originOf(u)+"/robots.txt"] {
		switch {
		case s.to.Before(from) || s.At.After(at) || s.Status == 0 || s.Status >= 500:
		case s.Status == 200 && !w.rulesOf(s.Sum, agent).allows(pathOf(u)):
			no = true
		default:
			yes = true
		}
	}
	switch {
	case yes && no:
		return "sometimes"
	case no:
		return "never"
	}
	return "always"
}

// down reports whether robots.txt of an origin cannot be fetched.
func (w *world) down(origin string, at time.Time) bool {
	l, ok := w.last(origin+"/robots.txt", at)
	return ok && (l.Status == 0 || l.Status >= 500 || l.Status == 429)
}

// before reports whether a URL, after a time, showed anything other than the last observation.
func (w *world) before(u string, l seen, began time.Time) bool {
	return slices.ContainsFunc(w.seen[u], func(s seen) bool {
		return s.to.After(began) && s.from.Before(l.from) && (s.Status != l.Status || s.Sum != l.Sum)
	})
}

// rewritten reports whether the file behind a URL was, after a time, another one for a while: a publisher
// that watches it announces both changes, though nobody else may see either.
func (w *world) rewritten(u string, began time.Time) bool {
	last := ""
	for _, f := range w.r.Docroot { // in the order of time
		if f.URL == u {
			last = f.Sum
		}
	}
	return slices.ContainsFunc(w.r.Docroot, func(f record.Fetch) bool { return f.URL == u && f.At.After(began) && f.Sum != last })
}

// base returns the longest base below which a URL is published.
func base(w *world, u string) (b string) {
	for _, p := range w.publishers(u) {
		for _, s := range p.Sites {
			if strings.HasPrefix(u, s) && len(s) > len(b) {
				b = s
			}
		}
	}
	return b
}

// stopped reports whether a crawl ends before it is done, or admits no more pages.
func stopped(p record.Program, urls int) bool {
	for _, o := range []string{"stop-after", "stop-bytes", "stop-pages", "stop-value"} {
		if v := option(p, o, "0"); v != "0" && v != "0s" {
			return true
		}
	}
	return float64(len(p.Sites)) > number(p, "max-sites", 1e5) || float64(urls) > number(p, "max-pages", 1e7) || float64(urls) > number(p, "per-site", 25_000)
}

// quota reports whether a copy may exceed its quota. Of the state that a page takes, it is only known that it is little.
func quota(p record.Program, urls int) bool {
	return float64(urls) > number(p, "max-pages", 1e7) || size(p, "max-state", 1<<40) < 4<<20
}

// thrift reports whether an announced change may wait: for the budget with --frugal, for the cap of requests
// outside it, or for the price of a manifest if there is no push.
func (w *world) thrift(p record.Program, runs []record.Program, u string) bool {
	if p.Kind != "run" {
		return p.Kind == "crawl" && isSet(p, "frugal") // it reports the changes that are not worth their price
	}
	if isSet(p, "frugal") || option(p, "policy", "priced") != "priced" {
		return !plenty(p, len(w.urls))
	}
	if !slices.ContainsFunc(w.publishers(u), streams) || isSet(p, "no-streams") {
		return !plenty(p, len(w.urls))
	}
	pages, changes := 0, 0.
	for _, v := range w.urls {
		if l, ok := w.last(v, never); ok && l.Status == 200 {
			pages++
			if l.from.After(runs[0].Started) || w.rewritten(v, runs[0].Started) {
				changes += max(1, cost(p, l.Size))
			}
		}
	}
	amount, perPage := strings.CutSuffix(option(p, "budget", "0.1/page"), "/page")
	budget, err := strconv.ParseFloat(amount, 64)
	if err != nil {
		return true
	}
	if perPage {
		budget *= float64(pages)
	}
	return changes > budget*number(p, "told-budget", 1)
}

// cost returns what a visit takes from a budget.
func cost(p record.Program, size int64) float64 {
	if option(p, "costs", "requests") == "bytes" {
		return float64(size) / 20_000
	}
	return 1
}
