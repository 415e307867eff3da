package judge

import (
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// words checks that programs report their result by exit code and text: that a failure is reported, and that
// none is reported where none was drawn.
func words(r *record.Recording, w *world) []Finding {
	c := &collector{oracle: "words"}
	failing := slices.ContainsFunc(r.Steps, func(s record.Step) bool { return s.Failure })
	for _, x := range r.Exits {
		say := func(format string, args ...any) { c.add(x.Program, "", x.At, format, args...) }
		for _, cry := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE", "goroutine 1 ["} {
			if strings.Contains(x.Stderr, cry) {
				say("crashed: %s", excerpt(x.Stderr, cry))
			}
		}
		if x.Killed || x.Code < 0 && x.Asked { // the second was stopped before it could listen for signals
			continue
		}
		p, ok := w.program(x.Program, x.At)
		if !ok {
			continue
		}
		failing := failing || !crawls(p) && slices.ContainsFunc(r.Steps, func(s record.Step) bool {
			return s.Kind == "robots-lost" || s.Kind == "robots-empty" || s.Kind == "wrong-docroot" || // a person is needed, and is told so
				s.Kind == "robots-back" // while it is being written it may be read empty
		}) || p.Kind == "follow" && quota(p, len(w.urls))
		dead := w.dead(p, x)
		switch {
		case x.Code != 0 && strings.TrimSpace(x.Stderr) == "":
			say("exited with %d without a message", x.Code)
		case x.Code != 0 && !failing && !dead && !w.away(p, x):
			say("exited with %d, but no failure was injected: %s", x.Code, tail(x.Stderr))
		case x.Code == 0 && p.Kind == "crawl" && !x.Asked && !stopped(p, 0) && w.nothing(p, r):
			say("exited with 0, but stored no page")
		case dead && crawls(p) && p.Kind != "crawl" && !says(x.Stderr, "level=warn", "level=error", `"level":"warn"`, `"level":"error"`) && x.At.Sub(p.Started) > 4*slack:
			say("reached none of its sites, but logged no warning")
		}
		if !failing && !dead && says(x.Stderr, "level=error", `"level":"error"`) {
			say("logged an error, but no failure was injected: %s", excerpt(x.Stderr, "level=ERROR"))
		}
	}
	return c.list
}

// dead reports whether none of a program's sites answered anybody while it ran, or last before.
func (w *world) dead(p record.Program, x record.Exit) bool {
	asked := false
	for u := range w.seen {
		if !slices.ContainsFunc(p.Sites, func(s string) bool { return hostOf(s) == hostOf(u) }) {
			continue
		}
		if l, ok := w.last(u, x.At); ok {
			if asked = true; l.Status != 0 {
				return false
			}
		}
	}
	return asked
}

// away reports whether a crawl began while the only server of its sites was restarting: where the notifier
// serves the pages itself, nobody else does meanwhile, and such a crawl may obtain nothing.
func (w *world) away(p record.Program, x record.Exit) bool {
	if p.Kind != "crawl" || !slices.Contains(w.r.Features, "front=notifier") {
		return false
	}
	return slices.ContainsFunc(w.r.Steps, func(s record.Step) bool {
		end := later(s.Done, s.At)
		for _, q := range w.r.Settings { // as it was started in that step
			if q.Name != s.Target || q.Kind != "notifier" || q.Started.Before(s.At) || q.Started.After(end) || end.Before(p.Started) || s.At.After(x.At) {
				continue
			}
			alone := !slices.ContainsFunc(p.Sites, func(base string) bool { return !slices.Contains(q.Sites, base) })
			if alone && slices.ContainsFunc(w.r.Requests, func(r record.Request) bool {
				return r.From == p.Name && r.Status == 502 && !r.Began.Before(s.At) && !r.Ended.After(end)
			}) {
				return true
			}
		}
		return false
	})
}

// nothing reports whether a crawl stores no page in the end.
func (w *world) nothing(p record.Program, r *record.Recording) bool {
	for _, cp := range r.Copies {
		if cp.Crawler == p.Name && cp.Err == "" {
			for _, s := range cp.Pages {
				if s.Sum != "" {
					return false
				}
			}
			return true
		}
	}
	return false
}

// tail returns the end of the output, which has the reason.
func tail(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[max(len(s)-300, 0):]
}

func excerpt(s, from string) string {
	if i := strings.Index(s, from); i > 0 {
		s = s[i:]
	}
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 300)]
}
