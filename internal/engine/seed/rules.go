package seed

import (
	"cmp"
	"fmt"
	"net"
	"strings"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// Rules select the URLs that a crawler wants, apart from what the sites allow. The
// zero value means the rules of WIRE (G04-G11), where the thesis gives them.
//
// A list that is not nil replaces its default, even if it is empty.
type Rules struct {
	// DomainSuffixes are the domains that hosts must be in (G05): "example.org"
	// also accepts www.example.org, ".cl" all of Chile. Hosts are single hosts,
	// each with its www twin: on all ports, or as "example.org:8080" on that
	// one. If both are empty, every host is accepted.
	DomainSuffixes, Hosts []string

	// Partition is the hosts, of those that are accepted, that this crawler fetches from; the zero value means all.
	Partition partition.Partition

	// Accept are patterns of which a URL must match one; an empty list accepts all.
	// Reject are patterns of which it must match none, and wins over Accept. A
	// pattern that begins with "/" or "*" is matched from the beginning of the
	// path, as in robots.txt: "*" matches anything, "$" at its end the end. A pattern that
	// begins with "http://" or "https://" is matched likewise from the beginning of the URL.
	// Any other is found anywhere in path and query, ignoring case (V18).
	Accept, Reject []string

	// RejectWords refuse a URL where they are its purpose: the last of
	// at most three components of the path (without an extension of
	// DynamicExt), or the name or value of a parameter. As substrings, as in
	// the seed (V18), they would exclude every page on the keyword "register".
	// Nil means login, logout, register and the like.
	RejectWords []string

	// SessionIDs are suffixes of the names of session parameters
	// (G09, P18), in the query or after a ";" of the path; with a "*" at the
	// end, prefixes. Nil means those of the common servers. Parameters named sid,
	// session, sess or s count too, if their value is 20 letters and digits or more.
	SessionIDs []string

	// Drop are the names of other parameters without meaning; a "*" at the end
	// matches any rest. Nil means those that advertising adds.
	Drop []string

	// Replace rewrites the beginning of canonical URLs; the first match counts.
	Replace []Replace

	// Extensions, in lower case without the dot. Nil means: StaticExt, all that
	// are in no other list (G06); DynamicExt, those of programs (G07, V20); LogExt,
	// images, archives and the like, which are recorded but not fetched (G08).
	// If StaticExt is set, other extensions are refused. "" means no extension.
	StaticExt, DynamicExt, LogExt []string

	// StaticQueries treats pages with a query as static (V20: the rule is optional).
	StaticQueries bool

	// MaxDepthStatic and MaxDepthDynamic are how many links a page may be away from
	// a start page before the site's shape decides (see doc.go).
	// Zero means 15 and 5 (G10, G11); negative means no limit.
	MaxDepthStatic, MaxDepthDynamic int

	// MaxPerSite bounds the URLs of a site; zero means 25,000 (G04), negative no
	// limit.
	MaxPerSite int

	// Repeats is how often one component may occur in a path (P19). Zero
	// means 4, negative any number.
	Repeats int

	// SplitWWW treats www.example.org and example.org as two sites. By default they
	// are one (P08), under the name that was met first, unless a redirect
	// leads from one to the other (E44).
	SplitWWW bool

	// MaxURL is the length of the longest accepted URL, in bytes; zero means 2,048.
	// Negative means protocol.MaxURL, which is also the maximum.
	MaxURL int
}

// A Replace replaces Old at the beginning of URLs by New.
type Replace struct{ Old, New string }

const (
	depthStatic  = 15
	depthDynamic = 5
	maxPerSite   = 25_000
	repeats      = 4
	maxURL       = 2048
)

func defaultWords() []string {
	return strings.Fields("login logout logon logoff log-in log-out signin signout sign-in sign-out signup sign-up " +
		"register wp-login wp-signup unsubscribe")
}

func defaultSessions() []string {
	return strings.Fields("phpsessid jsessionid aspsessionid* cfid cftoken sessionid session_id session-id sessid sess_id " +
		"oscsid zenid xtcsid")
}

func defaultDrop() []string {
	return strings.Fields("utm_* gclid dclid fbclid msclkid yclid mc_cid mc_eid _ga _gl igshid")
}

func defaultDynamic() []string {
	return strings.Fields("php php3 php4 php5 phtml pl cgi fcgi asp aspx jsp jspx jspa do cfm cfml action py rb dll exe lasso nsf shtm pcgi")
}

// defaultDocuments are extensions that sites publish by default beside pages (server.Site).
func defaultDocuments() []string { return []string{"pdf"} }

func defaultLogged() []string {
	return strings.Fields("jpg jpeg jpe png gif webp avif svg svgz ico bmp tif tiff psd heic " +
		"mp3 ogg oga opus wav flac m4a aac mid midi wma ra ram " +
		"mp4 m4v avi mov mpg mpeg mpe webm mkv wmv flv ogv 3gp " +
		"zip gz tgz bz2 tbz xz txz zst 7z rar tar jar war iso img dmg msi deb rpm apk cab bin " +
		"ps eps doc docx xls xlsx ppt pptx odt ods odp odg rtf epub mobi djvu dvi " +
		"css js mjs map woff woff2 ttf otf eot swf class wasm")
}

// BuiltIn returns the lists that apply where Rules have none.
func BuiltIn() Rules {
	return Rules{RejectWords: defaultWords(), SessionIDs: defaultSessions(), DynamicExt: defaultDynamic(), LogExt: defaultLogged()}
}

// A compiled is a set of Rules, prepared for fast matching.
type compiled struct {
	of             Rules
	domains        domains
	accept, reject []pattern
	words          folded[string] // by themselves
	naming         naming
	classes        classes
	limits         limits
	repeats        int
	split          bool
}

// limits are upper bounds; a negative one is none.
type limits struct {
	static, dynamic int // depth
	perSite         int
	url             int // bytes
}

func (r *Rules) compile() *compiled {
	c := &compiled{of: *r, classes: classes{onlyStatic: r.StaticExt != nil, queries: !r.StaticQueries},
		limits: limits{static: cmp.Or(r.MaxDepthStatic, depthStatic), dynamic: cmp.Or(r.MaxDepthDynamic, depthDynamic),
			perSite: cmp.Or(r.MaxPerSite, maxPerSite), url: cmp.Or(r.MaxURL, maxURL)},
		naming:  naming{newNames(list(r.SessionIDs, defaultSessions), true), newNames(list(r.Drop, defaultDrop), false), r.Replace},
		repeats: cmp.Or(r.Repeats, repeats), split: r.SplitWWW, domains: domains{hosts: map[string]bool{}}}
	if c.limits.url < 0 || c.limits.url > protocol.MaxURL {
		c.limits.url = protocol.MaxURL
	}
	for _, s := range r.DomainSuffixes {
		if s = strings.Trim(s, ". "); s != "" {
			c.domains.suffixes = append(c.domains.suffixes, "."+strings.ToLower(s))
		}
	}
	for _, s := range r.Hosts {
		port := ""
		if host, p, err := net.SplitHostPort(s); err == nil {
			s, port = host, ":"+p
		}
		if s = strings.Trim(strings.ToLower(s), "[]."); s != "" {
			c.domains.hosts[strings.TrimPrefix(s, "www.")+port] = true
		}
	}
	for _, s := range r.Accept {
		c.accept = append(c.accept, newPattern(s))
	}
	for _, s := range r.Reject {
		c.reject = append(c.reject, newPattern(s))
	}
	for _, s := range list(r.RejectWords, defaultWords) {
		s = strings.ToLower(s)
		c.words.add(s, s)
	}
	// The user's lists override the defaults.
	if r.DynamicExt == nil {
		c.classes.classify(defaultDynamic(), dynamic)
	}
	if r.LogExt == nil {
		c.classes.classify(defaultLogged(), logged)
		c.classes.classify(defaultDocuments(), document)
	}
	c.classes.classify(r.LogExt, logged)
	c.classes.classify(r.DynamicExt, dynamic)
	c.classes.classify(r.StaticExt, static)
	return c
}

func list(l []string, otherwise func() []string) []string {
	if l == nil {
		return otherwise()
	}
	return l
}

// A pattern is one of Accept or Reject.
type pattern struct {
	text  string // as written
	find  string // in lower case: found anywhere after the origin; empty: see glob
	glob  string // matched from the beginning of the path, or of the URL
	whole bool   // glob is matched with the URL
}

func newPattern(s string) pattern {
	switch {
	case s == "" || s[0] == '/' || s[0] == '*':
		return pattern{text: s, glob: s}
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		return pattern{text: s, glob: s, whole: true}
	}
	return pattern{text: s, find: strings.ToLower(s)}
}

// matches reports whether a URL matches; path is its path and query, lower the same in lower case.
func (p *pattern) matches(url, path, lower string) bool {
	switch {
	case p.find != "":
		return strings.Contains(lower, p.find)
	case p.whole:
		return robots.Match(p.glob, url)
	}
	return p.glob != "" && robots.Match(p.glob, path)
}

// The rules of Hosts and DomainSuffixes, Accept and Reject.
const (
	domainRule = "domain is not accepted"
	acceptRule = "no accept rule matches"
	rejectRule = "reject: "
)

// OfScope reports whether the rule of a Verdict is one of Hosts, DomainSuffixes, Accept and Reject.
func OfScope(rule string) bool {
	return rule == domainRule || rule == acceptRule || strings.HasPrefix(rule, rejectRule)
}

// refuses returns the rule that refuses a URL, empty if none does. origin is the
// length of the URL's origin.
func (c *compiled) refuses(url string, origin int) (rule string) {
	path := url[origin:]
	if !c.domains.has(url[:origin]) {
		return domainRule
	}
	if port := portOf(url[:origin]); port != "" && inet.ForeignPort(port[1:]) {
		return "port is for another protocol"
	}
	if len(c.accept)+len(c.reject) > 0 {
		lower := strings.ToLower(path)
		for i := range c.reject {
			if c.reject[i].matches(url, path, lower) {
				return rejectRule + c.reject[i].text
			}
		}
		accepted := len(c.accept) == 0
		for i := range c.accept {
			accepted = accepted || c.accept[i].matches(url, path, lower)
		}
		if !accepted {
			return acceptRule
		}
	}
	path, query, _ := strings.Cut(path, "?")
	if w := c.word(path, query); w != "" {
		return "reject word: " + w
	}
	if c.repeats >= 0 {
		if part := repeated(path, c.repeats); part != "" {
			return fmt.Sprintf("repeated component %.40q", part)
		}
	}
	return ""
}

// repeated returns a component that occurs more than n times in path, or "".
func repeated(path string, n int) string {
	if strings.Count(path, "/") <= n {
		return ""
	}
	var parts [64]string
	count := 0
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			continue
		}
		times := 1
		for _, p := range parts[:count] {
			if p == part {
				times++
			}
		}
		if times > n {
			return part
		}
		if count < len(parts) {
			parts[count] = part
			count++
		}
	}
	return ""
}

// word returns the reject word that is the purpose of a URL, see Rules.RejectWords.
func (c *compiled) word(path, query string) string {
	if len(c.words.of) == 0 {
		return ""
	}
	if strings.Count(path, "/") <= 3 {
		last := path[strings.LastIndexByte(path, '/')+1:]
		if i := strings.LastIndexByte(last, '.'); i >= 0 && c.classes.ext.get(last[i+1:]) == dynamic {
			last = last[:i]
		}
		if w := c.words.get(last); w != "" {
			return w
		}
	}
	for query != "" {
		var pair string
		pair, query = cutPair(query)
		name, value, _ := strings.Cut(pair, "=")
		if w := c.words.get(name); w != "" {
			return w
		}
		if w := c.words.get(value); w != "" {
			return w
		}
	}
	return ""
}
