package judge

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules of a robots.txt for one crawler, by RFC 9309: the groups that name it, else those of "*"; the longest
// matching pattern wins, and Allow if two are as long.
type rules struct {
	lines []rule
	delay time.Duration // Crawl-delay
	empty bool          // no group of this file has a rule for any crawler
}

type rule struct {
	allow   bool
	pattern string
}

// rulesOf parses a body that was seen, with a cache.
func (w *world) rulesOf(sum, agent string) rules {
	k := [2]string{sum, agent}
	r, ok := w.parsed[k]
	if !ok {
		r = readRobots(w.r.Bodies[sum], agent)
		w.parsed[k] = r
	}
	return r
}

func readRobots(body []byte, agent string) (r rules) {
	agent, _, _ = strings.Cut(strings.ToLower(agent), "/")
	type group struct {
		rules
		named []string
	}
	var groups []*group
	var g *group
	naming := false
	r.empty = true
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	for line := range bytes.FieldsFuncSeq(body, func(c rune) bool { return c == '\n' || c == '\r' }) {
		text, _, _ := strings.Cut(string(line), "#")
		key, value, ok := strings.Cut(text, ":")
		if !ok {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch key {
		case "user-agent":
			if !naming {
				g = &group{}
				groups = append(groups, g)
			}
			naming = true
			name, _, _ := strings.Cut(strings.ToLower(value), "/")
			g.named = append(g.named, strings.TrimSpace(name))
		case "allow", "disallow":
			naming = false
			if g != nil {
				r.empty = false // an empty Disallow is a rule, too: it allows everything
				if value != "" {
					g.lines = append(g.lines, rule{key == "allow", spell(value)})
				}
			}
		case "crawl-delay":
			if f, err := strconv.ParseFloat(value, 64); err == nil && g != nil && f >= 0 {
				g.delay = max(g.delay, time.Duration(min(f, 3600)*float64(time.Second)))
			}
		}
	}
	take := func(name string) (found bool) {
		for _, g := range groups {
			for _, n := range g.named {
				if n == name {
					found = true
					r.lines, r.delay = append(r.lines, g.lines...), max(r.delay, g.delay)
					break
				}
			}
		}
		return found
	}
	if agent == "" || !take(agent) {
		take("*")
	}
	return r
}

// allows reports whether a path, with its query, may be fetched.
func (r rules) allows(path string) bool {
	if path == "/robots.txt" {
		return true
	}
	path = spell(path)
	best, allow := -1, true
	for _, l := range r.lines {
		if len(l.pattern) < best || len(l.pattern) == best && !l.allow || !fits(l.pattern, path) {
			continue
		}
		best, allow = len(l.pattern), l.allow
	}
	return allow
}

func fits(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(path, parts[0])
	for i, p := range parts[1:] {
		if !ok {
			return false
		}
		if whole && i == len(parts)-2 {
			return strings.HasSuffix(rest, p)
		}
		_, rest, ok = strings.Cut(rest, p)
	}
	return ok && (!whole || rest == "")
}

// spell normalizes a path: unreserved characters are decoded, all others are encoded in upper case.
func spell(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				i += 2
				if c = byte(n); !unreserved(c) {
					b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
					continue
				}
			}
		}
		if c <= ' ' || c >= 0x7f {
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// A robotsAt holds the rules of robots.txt from a time on.
type robotsAt struct {
	from time.Time
	rules
}

// robots returns the rules of an origin's robots.txt for an agent over time. A robots.txt that is missing,
// empty or without rules does not revoke earlier rules: it looks like a mishap, and a site that means it says
// so explicitly.
func (w *world) robots(origin, agent string) (list []robotsAt) {
	for _, s := range w.seen[origin+"/robots.txt"] {
		_, known := w.r.Bodies[s.Sum]
		var now rules
		switch {
		case s.ByTap && cmp.Or(s.Status, 200) != 200, s.Status == 0, s.Status >= 500, s.Status == 200 && !known && s.Size != 0:
			continue // as before
		case s.Status == 200:
			now = w.rulesOf(s.Sum, agent)
		default:
			now = rules{empty: true}
		}
		if n := len(list); n > 0 && (now.empty || now.delay == list[n-1].delay && slices.Equal(now.lines, list[n-1].lines)) {
			continue
		}
		list = append(list, robotsAt{s.from, now})
	}
	return list
}
