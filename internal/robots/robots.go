// Package robots parses robots.txt (RFC 9309). Both sides use it: a site to know what it must not publish, a
// crawler to be polite.
//
// Where the RFC leaves a choice, a file is read as the most used parser reads it, so that a file that works
// elsewhere works here: common misspellings of a name, a colon forgotten between two words, part of a byte
// order mark, and Allow of index.html, which allows its directory as well. Beyond that, Disallow of a path
// without its first slash is taken to have one.
//
// The RFC compares octets in one spelling; that parser compares them as written. Here a path is allowed only
// if both allow it: an Allow line with needlessly encoded octets matches only paths in that spelling, and a
// path with octets that must be encoded but are not must also be allowed as written.
package robots

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// MaxBytes is how much of a file is read (RFC 9309, 2.5): 500 KiB.
const MaxBytes = 500 << 10

// maxCrawlDelay is the longest delay that a file can ask for. A site that wants no crawler has Disallow to
// say so.
const maxCrawlDelay = time.Hour

// maxLine is the number of bytes read of a line: many times the longest path in use, and as many as other
// parsers read.
const maxLine = 8*2083 - 1

// A File is a parsed robots.txt. The zero File allows everything. It is
// immutable and safe for concurrent use.
type File struct {
	deny   bool                // nothing is allowed: the file could not be fetched
	agents map[string][]member // by product token in lower case, or "*"
	lines  map[string][]string // lines outside of groups, by name in lower case

	ruled   bool // some group has an Allow or Disallow line, be it an empty one
	forbids bool // some group has a Disallow line that is not empty
}

// A group holds the lines between two runs of User-agent lines.
type group struct {
	rules  []rule
	delays []time.Duration
}

// A member is an agent's share in a group: all rules, and the delays from index delay on. Crawl-delay does
// not end a run of User-agent lines, and must not slow down an agent that is only named after it.
type member struct {
	group *group
	delay int
}

// Parse parses a file of any content and skips lines that it does not understand. It reads at most MaxBytes,
// and no line that this limit cuts.
func Parse(b []byte) *File {
	if len(b) > MaxBytes {
		b = b[:MaxBytes]
		b = b[:bytes.LastIndexAny(b, "\r\n")+1]
	}
	b = narrow(b)
	for _, mark := range []byte("\uFEFF") {
		if len(b) == 0 || b[0] != mark {
			break
		}
		b = b[1:]
	}
	p := parser{file: &File{agents: map[string][]member{}, lines: map[string][]string{}}}
	for len(b) > 0 {
		line := b
		// A CRLF is two ends, with an empty line between.
		if end := bytes.IndexAny(b, "\r\n"); end >= 0 {
			line, b = b[:end], b[end+1:]
		} else {
			b = nil
		}
		if name, value, ok := split(string(line[:min(len(line), maxLine)])); ok {
			p.line(name, value)
		}
	}
	return p.file
}

// narrow converts a file in UTF-16 with a byte order mark, which some editors write, to UTF-8, and returns
// any other unchanged.
func narrow(b []byte) []byte {
	if len(b) < 2 || b[0]^b[1] != 1 || b[0]|b[1] != 0xff { // FE FF or FF FE
		return b
	}
	big := 0 // which of two octets is the high one
	if b[0] == 0xff {
		big = 1
	}
	wide := make([]uint16, 0, len(b)/2-1)
	for i := 2; i+1 < len(b); i += 2 {
		wide = append(wide, uint16(b[i+big])<<8|uint16(b[i+1-big]))
	}
	return []byte(string(utf16.Decode(wide)))
}

// blank is what is trimmed around names and values.
const blank = " \t\v\f\x00"

// split splits a line into name and value. Without a colon, two words are a name and its value.
func split(line string) (name, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	line = strings.Trim(line, blank)
	if name, value, ok = strings.Cut(line, ":"); !ok {
		i := strings.IndexAny(line, blank)
		if i < 0 {
			return "", "", false
		}
		name, value = line[:i], strings.TrimLeft(line[i:], blank)
		if strings.ContainsAny(value, blank) {
			return "", "", false
		}
	}
	name, value = strings.ToLower(strings.TrimRight(name, blank)), strings.TrimLeft(value, blank)
	return name, value, name != ""
}

type parser struct {
	file  *File
	group *group // nil before the first User-agent line
	ruled bool   // the group has a rule, so that the next User-agent line begins another
}

func (p *parser) line(name, value string) {
	switch name {
	case "user-agent", "useragent", "user agent":
		if p.group == nil || p.ruled {
			p.group, p.ruled = new(group), false
		}
		p.agent(agentNamed(value))
	case "allow":
		p.rule(value, true)
	case "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
		p.rule(value, false)
	case "crawl-delay", "crawldelay":
		if d, ok := parseDelay(value); ok && p.group != nil {
			p.group.delays = append(p.group.delays, d)
		}
	case "site-map":
		p.line("sitemap", value)
	default:
		p.file.lines[name] = append(p.file.lines[name], value)
	}
}

// agent makes the agent a member of the current group, once. The empty token names no agent.
func (p *parser) agent(token string) {
	list := p.file.agents[token]
	if token == "" || len(list) > 0 && list[len(list)-1].group == p.group {
		return
	}
	p.file.agents[token] = append(list, member{p.group, len(p.group.delays)})
}

// rule adds a rule to the current group. Outside of groups it is ignored, and an empty one only ends the run
// of User-agent lines.
func (p *parser) rule(pattern string, allow bool) {
	if p.group == nil {
		return
	}
	p.ruled, p.file.ruled = true, true
	if pattern == "" {
		return
	}
	p.file.forbids = p.file.forbids || !allow
	if !allow && strings.IndexByte("/*$", pattern[0]) < 0 {
		pattern = "/" + pattern
	}
	p.group.rules = append(p.group.rules, newRule(pattern, allow))
	if i := strings.LastIndexByte(pattern, '/'); allow && i >= 0 && strings.HasPrefix(pattern[i:], "/index.htm") {
		p.group.rules = append(p.group.rules, newRule(pattern[:i+1]+"$", true))
	}
}

// agentNamed returns the agent of a User-agent line: "*", or a product token. A "*" before white space or a
// non-ASCII byte, such as the no-break space that editors put there, means every agent.
func agentNamed(value string) string {
	if rest, ok := strings.CutPrefix(value, "*"); ok && (rest == "" || rest[0] >= 0x80 || strings.IndexByte(blank, rest[0]) >= 0) {
		return "*"
	}
	return token(value)
}

// asked returns the product token of an agent that asks, in lower case. Two words name no agent.
func asked(agent string) string {
	t := token(agent)
	if len(t) < len(agent) && strings.IndexByte(blank, agent[len(t)]) >= 0 {
		return ""
	}
	return t
}

// token returns the product token at the beginning of s, in lower case.
func token(s string) string {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_':
		default:
			return strings.ToLower(s[:i])
		}
	}
	return strings.ToLower(s)
}

// parseDelay parses seconds, with or without a fraction, and ignores a unit.
func parseDelay(s string) (time.Duration, bool) {
	end := 0
	for end < len(s) && ('0' <= s[end] && s[end] <= '9' || s[end] == '.') {
		end++
	}
	seconds, err := strconv.ParseFloat(s[:end], 64)
	if seconds >= maxCrawlDelay.Seconds() { // infinity too, which is an error
		return maxCrawlDelay, true
	}
	return time.Duration(seconds * float64(time.Second)), err == nil
}

// ForStatus returns the rules that a crawler must assume for a response to robots.txt: the parsed body after
// 2xx, everything allowed after 3xx (too many redirects) and 4xx, nothing allowed after 5xx and without a
// response (status 0). Nothing is allowed after 429 either: it says "not now".
func ForStatus(status int, body []byte) *File {
	switch {
	case 200 <= status && status < 300:
		return Parse(body)
	case 300 <= status && status < 500 && status != 429:
		return &File{}
	}
	return &File{deny: true}
}

// Allowed reports whether agent (a product token such as "parley") may fetch path, which begins with "/" and
// has its query if any, percent-encoded or not. Text after the token in agent, as in "parley/1.0", is
// ignored; an agent without a token, such as "*", or of two words counts as one that the file does not name.
// /robots.txt itself is always allowed.
//
// A page may have other paths, such as "/a/index.html" beside "/a/": then the highest-ranking rule that
// matches any of them decides.
//
// It takes time linear in the size of the agent's rules, times the length of path.
func (f *File) Allowed(agent, path string, others ...string) bool {
	ok, _ := f.Decide(agent, path, others...)
	return ok
}

// Decide is Allowed, and also returns the deciding line as written, such as "Disallow: /private/"; it is
// empty if no line decides.
func (f *File) Decide(agent, path string, others ...string) (allowed bool, line string) {
	if len(f.agents) == 0 && !f.deny {
		return true, ""
	}
	target := newTarget(path)
	if target.path == "/robots.txt" {
		return true, ""
	}
	if f.deny {
		return false, ""
	}
	best := f.decisive(nil, agent, target)
	raw := target.raw != ""
	for _, o := range others {
		t := newTarget(o)
		raw = raw || t.raw != ""
		best = f.decisive(best, agent, t)
	}
	if raw && (best == nil || best.allow) {
		best = f.decisive(nil, agent, target.asWritten())
		for _, o := range others {
			best = f.decisive(best, agent, newTarget(o).asWritten())
		}
	}
	switch {
	case best == nil:
		return true, ""
	case best.allow:
		return true, "Allow: " + best.text
	}
	return false, "Disallow: " + best.text
}

// decisive returns the highest-ranking of best and the rules that match the target.
func (f *File) decisive(best *rule, agent string, t target) *rule {
	for _, m := range f.members(agent) {
		for i := range m.group.rules {
			if r := &m.group.rules[i]; r.outranks(best) && r.matches(&t) {
				best = r
			}
		}
	}
	return best
}

// CrawlDelay returns the Crawl-delay of agent's group, 0 if there is none.
// Of several the longest counts; none is longer than maxCrawlDelay.
func (f *File) CrawlDelay(agent string) time.Duration {
	var longest time.Duration
	for _, m := range f.members(agent) {
		for _, d := range m.group.delays[m.delay:] {
			longest = max(longest, d)
		}
	}
	return longest
}

// members returns the groups of agent, else those of everybody.
func (f *File) members(agent string) []member {
	if list, ok := f.agents[asked(agent)]; ok {
		return list
	}
	return f.agents["*"]
}

// Lines returns the values of all lines outside of groups with the given
// name, such as "sitemap" or "manifest", in order, whatever their case. Such
// lines belong to no group wherever they stand: they neither begin nor end one.
func (f *File) Lines(name string) []string {
	return append([]string(nil), f.lines[strings.ToLower(name)]...)
}
