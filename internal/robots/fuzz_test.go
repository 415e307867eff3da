package robots_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/robots"
)

// oracle computes the expected result of Allowed in the simplest way: no index, no early
// end, and each pattern as a regular expression.
func oracle(file, agent, path string) bool {
	if spell(path, false, "") == "/robots.txt" {
		return true
	}
	return decide(file, agent, path, spell(path, false, "")) && decide(file, agent, path, spell(path, false, "raw"))
}

// decide answers for a path in one of its spellings.
func decide(file, agent, path, spelled string) bool {
	exact := spell(path, false, "encoded")
	if spelled != spell(path, false, "") {
		exact = spelled
	}
	path = spelled
	named := false
	for _, r := range readRules(file) {
		named = named || r.agents[agent]
	}
	who := "*"
	if named {
		who = agent
	}
	best, allowed := -1, true
	for _, r := range readRules(file) {
		if !r.agents[who] || r.pattern == "" {
			continue
		}
		strict := spell(r.pattern, true, "")
		if kept := spell(r.pattern, true, "encoded"); r.allow && kept != strict {
			if !regexOf(kept).MatchString(exact) {
				continue
			}
		} else if !regexOf(strict).MatchString(path) &&
			!(strings.Contains(path, "?") && regexOf(relax(strict, "?*")).MatchString(relax(path, "?"))) {
			continue
		}
		if len(strict) > best || len(strict) == best && r.allow {
			best, allowed = len(strict), r.allow
		}
	}
	return allowed
}

type plainRule struct {
	agents  map[string]bool
	allow   bool
	pattern string
}

var lineEnds = regexp.MustCompile(`\r|\n`)

// readRules reads a file of at most MaxBytes. A group without rules has one with an empty pattern.
func readRules(file string) []plainRule {
	if len(file) > robots.MaxBytes {
		file = file[:robots.MaxBytes]
		file = file[:strings.LastIndexAny(file, "\r\n")+1]
	}
	for _, c := range []string{"\xEF", "\xBB", "\xBF"} {
		rest, ok := strings.CutPrefix(file, c)
		if !ok {
			break
		}
		file = rest
	}
	var rules []plainRule
	var agents map[string]bool
	fresh := false
	for _, line := range lineEnds.Split(file, -1) {
		line = line[:min(len(line), 8*2083-1)]
		line = strings.Trim(strings.SplitN(line, "#", 2)[0], " \t\v\f\x00")
		parts := strings.SplitN(line, ":", 2)
		if len(parts) == 1 {
			if parts = strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\v\f\x00", r) }); len(parts) != 2 {
				continue
			}
		}
		value := strings.Trim(parts[1], " \t\v\f\x00")
		switch name := strings.ToLower(strings.Trim(parts[0], " \t\v\f\x00")); name {
		case "user-agent", "useragent", "user agent":
			if !fresh {
				agents, fresh = map[string]bool{}, true
			}
			if regexp.MustCompile(`^\*([ \t\v\f\x00]|$)`).MatchString(value) || len(value) > 1 && value[0] == '*' && value[1] >= 0x80 {
				agents["*"] = true
			} else if token := regexp.MustCompile(`^[a-zA-Z_-]+`).FindString(value); token != "" {
				agents[strings.ToLower(token)] = true
			}
			rules = append(rules, plainRule{agents: agents})
		case "allow", "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
			if agents == nil {
				continue
			}
			fresh = false
			if name != "allow" && value != "" && !strings.ContainsAny(value[:1], "/*$") {
				value = "/" + value
			}
			rules = append(rules, plainRule{agents, name == "allow", value})
			if i := strings.LastIndex(value, "/index.htm"); name == "allow" && i >= 0 && i == strings.LastIndex(value, "/") {
				rules = append(rules, plainRule{agents, true, value[:i+1] + "$"})
			}
		}
	}
	return rules
}

var octet = regexp.MustCompile(`(?s)%[0-9a-fA-F]{2}|.`)

// spell writes each octet in its one spelling; but, if keep says so, one that
// is "encoded" without need, or one that is "raw" and must be encoded, as it is.
func spell(s string, pattern bool, keep string) string {
	if !pattern {
		s = strings.SplitN(s, "#", 2)[0]
		if !strings.HasPrefix(s, "/") {
			s = "/" + s
		}
	}
	end := ""
	if pattern && strings.HasSuffix(s, "$") {
		s, end = s[:len(s)-1], "$"
	}
	var b strings.Builder
	for len(s) > 0 {
		c := s[:1]
		encoded := len(s) > 2 && octet.FindString(s[:3]) == s[:3]
		if encoded {
			raw, _ := url.PathUnescape(s[:3])
			c, s = raw, s[3:]
		} else {
			s = s[1:]
		}
		switch {
		case strings.Contains("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", c) && !(encoded && keep == "encoded"):
			b.WriteString(c)
		case !encoded && keep == "raw" && !strings.Contains("*$", c):
			b.WriteString(c)
		case !encoded && strings.Contains(":/?#[]@!&'()+,;=", c), !encoded && pattern && c == "*":
			b.WriteString(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c[0])
		}
	}
	return b.String() + end
}

// relax decodes the octets that a query may have in both spellings.
func relax(s, begin string) string {
	i := strings.IndexAny(s, begin)
	if i < 0 {
		return s
	}
	q := s[i:]
	for _, c := range []string{"/", ":", "?", "@"} {
		q = strings.ReplaceAll(q, fmt.Sprintf("%%%02X", c[0]), c)
	}
	return s[:i] + q
}

func regexOf(pattern string) *regexp.Regexp {
	end := ""
	if rest, ok := strings.CutSuffix(pattern, "$"); ok {
		pattern, end = rest, "$"
	}
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, "(?s:.*)") + end)
}

// wide reports whether a file says that it is in UTF-16, which the oracle cannot read.
func wide(file string) bool {
	return strings.HasPrefix(file, "\xfe\xff") || strings.HasPrefix(file, "\xff\xfe")
}

// FuzzParse: any file can be parsed, and gives the same result each time.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\uFEFFUser-agent: *\r\nDisallow: /*.php$\rCrawl-delay: 1.5\nSitemap: x\n"))
	f.Add([]byte("user agent a\ndisalow /\x00b\nallow: /c/index.html\nuseragent: *"))
	f.Add([]byte("Disallow: /\nUser-agent: 9\n:::\n#\n%%%\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		file := robots.Parse(body)
		before := string(body)
		for _, agent := range []string{"a", "*", "parley/1"} {
			if d := file.CrawlDelay(agent); d < 0 || d > robots.MaxCrawlDelay {
				t.Fatalf("delay %v", d)
			}
			if !file.Allowed(agent, "/robots.txt") {
				t.Fatal("robots.txt refused")
			}
		}
		if a, b := file.Allowed("a", "/b"), file.Allowed("A/2", "/%62"); a != b {
			t.Fatal("two calls with the same arguments differ")
		}
		// Lines with other names, comments and blank lines change nothing.
		other := robots.Parse([]byte(strings.ReplaceAll(before, "\n", "\n# x\n\nother: x\n")))
		if len(before) < 1000 && !wide(before) && other.Allowed("a", "/b") != file.Allowed("a", "/b") {
			t.Fatal("unrelated lines change a decision")
		}
		if string(body) != before {
			t.Fatal("the body was altered")
		}
	})
}

// FuzzAllowed compares with the oracle.
func FuzzAllowed(f *testing.F) {
	for _, s := range []string{"disallow: /a*b$\nallow: /ab", "allow: /%7e*/x$\ndisallow: *", "disallow: /x?u=%2f*\nallow: /x?u=/a"} {
		f.Add("user-agent: *\n"+s, "/ab")
		f.Add("user-agent: a\nuser-agent: b\n"+s+"\nuser-agent: *\ndisallow: /", "/~x?u=%2Fa#c")
	}
	f.Fuzz(func(t *testing.T, file, path string) {
		if len(file) > 2000 || len(path) > 200 || wide(file) {
			return
		}
		if got, want := robots.Parse([]byte(file)).Allowed("a", path), oracle(file, "a", path); got != want {
			t.Fatalf("allowed %v, want %v\n%q\n%q", got, want, file, path)
		}
	})
}

// FuzzMatch lets the fuzzer work on one pattern and one path only.
func FuzzMatch(f *testing.F) {
	f.Add("/a*b*ab$", "/abab")
	f.Add("*%2fa", "/?%2Fa")
	f.Add("/%2a$$", "/*$")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 100 || len(path) > 100 {
			return
		}
		file := "user-agent: a\nallow: /\ndisallow: " + pattern
		if got, want := robots.Parse([]byte(file)).Allowed("a", path), oracle(file, "a", path); got != want {
			t.Fatalf("allowed %v, want %v\n%q\n%q", got, want, pattern, path)
		}
	})
}

func BenchmarkAllowed(b *testing.B) {
	var file strings.Builder
	file.WriteString("User-agent: *\n")
	for i := range 400 {
		fmt.Fprintf(&file, "Disallow: /dir%d/*/private%d$\n", i, i)
	}
	body := []byte(file.String())
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			robots.Parse(body)
		}
	})
	f := robots.Parse(body)
	b.Run("match", func(b *testing.B) {
		for b.Loop() {
			f.Allowed("parley", "/dir399/some/where/page.html")
		}
	})
}
