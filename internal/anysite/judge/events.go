package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// events checks that a crawler's events, folded from zero, give its copy, and that each event has the flags
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
					say("the cursor %q is none", e.Cursor)
				case epoch != "" && ep != epoch:
					say("the epoch changes from %s to %s", epoch, ep)
				case epoch != "" && n != seq+1:
					say("the event %d comes after %d", n, seq)
				}
				epoch, seq = ep, n
			}
			_, was := held[e.URL]
			switch e.Op {
			case "create":
				if was {
					say("is created, and was there")
				}
				held[e.URL] = e
			case "update":
				if !was {
					say("is updated, and was not there")
				}
				held[e.URL] = e
			case "move":
				if _, ok := held[e.From]; !ok {
					say("comes from %s, which was not there", e.From)
				}
				delete(held, e.From)
				held[e.URL] = e
			case "delete":
				if !was {
					say("is deleted, and was not there")
				}
				delete(held, e.URL)
			default:
				say("is told as %q", e.Op)
			}
		}
		for u, s := range cp.Pages {
			e, told := held[u]
			delete(held, u)
			if s.Sum == "" {
				if told {
					c.add(cp.Crawler, u, e.At, "is held by the events and not by the copy")
				}
				continue
			}
			switch {
			case !told:
				c.add(cp.Crawler, u, time.Time{}, "is held by the copy, and no event says so")
			case e.Sum != s.Sum:
				c.add(cp.Crawler, u, e.At, "is %.8s by the events and %.8s in the copy", e.Sum, s.Sum)
			}
			if !told {
				continue
			}
			cut := s.Truncated || w.cut(u, s)
			flag := func(name string, is bool) {
				if has := slices.Contains(e.Flags, name); has != is {
					c.add(cp.Crawler, u, e.At, "is said to be %s: %t, and that is %t", name, has, is)
				}
			}
			flag("truncated", cut)
			if l, seen := w.said(u, s.Sum); seen && p.Kind != "follow" && !isSet(p, "no-parse") { // --no-parse reads no page
				flag("noindex", l.NoIndex)
				flag("nofollow", l.NoFollow)
			}
		}
		for u, e := range held {
			c.add(cp.Crawler, u, e.At, "is held by the events and not by the copy")
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
