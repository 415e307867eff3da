package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/robots"
)

// has reports whether a URL belongs to the family. It does not use the rules, which are checked against it.
func (t *tally) has(u *split) bool {
	if u.host != t.family.Host {
		return false
	}
	for i, part := range t.parts {
		if t.params() && !slices.ContainsFunc(u.params, func(p param) bool { return p.name == part }) ||
			!t.params() && (i >= len(u.dirs) || part != "*" && part != u.dirs[i]) {
			return false
		}
	}
	return true
}

// rules sets the lines for robots.txt and nginx; n numbers the family. It returns false if the lines for robots.txt would
// miss a URL of the family that crawlers requested and that is remembered, or would forbid another one that is a page, or a
// known page of the site.
func (t *tally) rules(p *pages, known []string, n int) bool {
	t.family.Robots = t.robotsLines()
	file := robots.Parse([]byte("User-agent: *\n" + strings.Join(t.family.Robots, "\n") + "\n"))
	var u split
	for id, url := range p.urls {
		s := &p.list[id].spent
		if s.Requests == 0 || p.list[id].door {
			continue
		}
		if u.read(url); u.host != t.family.Host {
			continue
		}
		if in := t.has(&u); in == file.Allowed("*", u.target) && (in || s.reads > 0) {
			return false
		}
	}
	for _, url := range known {
		u.read(url)
		host, _, _ := strings.Cut(u.host, ":")
		if (t.family.Host == "" || host == t.family.Host) && !file.Allowed("*", u.target) {
			return false
		}
	}
	for _, e := range t.examples {
		t.family.Example = max(t.family.Example, e.url)
	}
	if t.family.Nginx = []string{}; !t.used() && 2*t.family.Redirected < t.family.Requests {
		t.family.Nginx = t.nginxLines(n)
	}
	return true
}

// robotsLines returns the lines that forbid the family (RFC 9309, 2.2.3): a parameter may be the first of a query or a later
// one, and two may come in either order.
func (t *tally) robotsLines() (lines []string) {
	if !t.params() {
		return []string{"Disallow: " + t.family.Name}
	}
	spellings := func(name string) []string {
		if encoded := strings.NewReplacer("[", "%5B", "]", "%5D").Replace(name); encoded != name {
			return []string{name, encoded}
		}
		return []string{name}
	}
	for i, name := range t.parts {
		for _, a := range spellings(name) {
			if len(t.parts) == 1 {
				lines = append(lines, "Disallow: /*?"+a+"=", "Disallow: /*&"+a+"=")
				continue
			}
			for _, b := range spellings(t.parts[1-i]) {
				lines = append(lines, "Disallow: /*?"+a+"=*&"+b+"=", "Disallow: /*&"+a+"=*&"+b+"=")
			}
		}
	}
	return lines
}

// nginxLines returns lines with which nginx redirects to the page without the parameter, if there mostly is one, and otherwise
// says that the URLs are gone. They match the URL as requested: nginx decodes $uri, which would let a line break through.
func (t *tally) nginxLines(n int) []string {
	quoted := strings.NewReplacer(".", "[.]", "[", "(?:[[]|%5[Bb])", "]", "(?:[]]|%5[Dd])")
	if !t.params() {
		pattern := strings.ReplaceAll(quoted.Replace(t.family.Name), "*", "[^/]+")
		return []string{"# in the server block:", "location ~ ^" + pattern + " { return 410; }"}
	}
	lines, path := []string{"# in the http block:", fmt.Sprintf("map $request_uri $parley_%d {", n)}, fmt.Sprintf("(?<a%d>/(?:[A-Za-z0-9._~%%-][^?]*)?", n)
	name := quoted.Replace(t.parts[0])
	action := "410"
	switch {
	case len(t.parts) == 2:
		lines = append(lines, fmt.Sprintf(`    "~^[^?]*[?](?=(?:.*&)?%s=)(?:.*&)?%s=" 1;`, name, quoted.Replace(t.parts[1])))
	case t.bare < 0.5:
		lines = append(lines, fmt.Sprintf(`    "~^[^?]*[?](?:.*&)?%s=" 1;`, name))
	default:
		action = fmt.Sprintf("301 $parley_%d", n)
		lines = append(lines,
			fmt.Sprintf(`    "~^%s)[?]%s=[^&]*$" $a%d;`, path, name, n),
			fmt.Sprintf(`    "~^%s[?])%s=[^&]*&(?<b%d>.*)$" $a%d$b%d;`, path, name, n, n, n),
			fmt.Sprintf(`    "~^%s[?].*?)&%s=[^&]*(?<b%d>.*)$" $a%d$b%d;`, path, name, n, n, n))
	}
	return append(lines, "}", "# in the server block:", fmt.Sprintf("if ($parley_%d) { return %s; }", n, action))
}
