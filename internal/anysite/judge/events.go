package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// events checks that a crawler's events, applied to an empty copy, give the crawler's copy, and that each event has the flags
// that a reader of the page needs.
func events(r *record.Recording, w *world) []Finding {
	c := &collector{oracle: "events"}
	for _, cp := range r.Copies {
		list, ok := r.Events[cp.Crawler]
		if !ok || cp.Err != "" {
			continue
		}
		p, _ := w.program(cp.Crawler, never)
		held := map[string]record.Event{}
		var epoch string
		var seq uint64
		for _, e := range list {
			say := func(format string, args ...any) { c.add(cp.Crawler, e.URL, e.At, format, args...) }
			if e.Cursor != "" {
				ep, n, ok := cursor(e.Cursor)
				switch {
				case !ok:
					say("event has an invalid cursor %q", e.Cursor)
				case epoch != "" && ep != epoch:
					say("the epoch changes from %s to %s", epoch, ep)
				case epoch != "" && n != seq+1:
					say("event %d follows event %d", n, seq)
				}
				epoch, seq = ep, n
			}
			_, was := held[e.URL]
			switch e.Op {
			case "create":
				if was {
					say("is created, but already existed")
				}
				held[e.URL] = e
			case "update":
				if !was {
					say("is updated, but did not exist")
				}
				held[e.URL] = e
			case "move":
				if _, ok := held[e.From]; !ok {
					say("is moved from %s, which did not exist", e.From)
				}
				delete(held, e.From)
				held[e.URL] = e
			case "delete":
				if !was {
					say("is deleted, but did not exist")
				}
				delete(held, e.URL)
			default:
				say("has an event with unknown op %q", e.Op)
			}
		}
		for u, s := range cp.Pages {
			e, told := held[u]
			delete(held, u)
			if s.Sum == "" {
				if told {
					c.add(cp.Crawler, u, e.At, "exists according to the events, but is not in the copy")
				}
				continue
			}
			switch {
			case !told:
				c.add(cp.Crawler, u, time.Time{}, "is in the copy, but has no event")
			case e.Sum != s.Sum:
				c.add(cp.Crawler, u, e.At, "has digest %.8s according to the events, but %.8s in the copy", e.Sum, s.Sum)
			}
			if !told {
				continue
			}
			cut := s.Truncated || w.cut(u, s)
			flag := func(name string, is bool) {
				if has := slices.Contains(e.Flags, name); has != is {
					c.add(cp.Crawler, u, e.At, "event has flag %s: %t, want %t", name, has, is)
				}
			}
			flag("truncated", cut)
			if l, seen := w.said(u, s.Sum); seen && p.Kind != "follow" && !isSet(p, "no-parse") { // --no-parse reads no page
				flag("noindex", l.NoIndex)
				flag("nofollow", l.NoFollow)
			}
		}
		for u, e := range held {
			c.add(cp.Crawler, u, e.At, "exists according to the events, but is not in the copy")
		}
	}
	return c.list
}

func cursor(s string) (epoch string, seq uint64, ok bool) {
	epoch, n, ok := strings.Cut(s, ":")
	seq, err := strconv.ParseUint(n, 10, 64)
	return epoch, seq, ok && err == nil
}

// said returns the last observation of a URL with this body by a client that parsed the page.
func (w *world) said(u, sum string) (s seen, ok bool) {
	for _, x := range w.seen[u] {
		if x.Status == 200 && x.Sum == sum && !x.ByTap {
			s, ok = x, true
		}
	}
	return s, ok
}

// cut reports whether the stored content of a URL is only the beginning of a body that was seen.
func (w *world) cut(u string, s record.Stored) bool {
	return !w.ever(u, s.Sum) && slices.ContainsFunc(w.seen[u], func(x seen) bool {
		if x.Status != 200 {
			return false
		}
		if _, known := w.r.Bodies[x.Sum]; !known && x.Size < 0 {
			return false
		}
		return w.beginsWith(x, s.Sum, s.Size)
	})
}
