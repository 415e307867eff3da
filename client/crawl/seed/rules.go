package seed

import (
	"cmp"
	"fmt"
	"net"
	"strings"

	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/protocol"
)

// Rules say what a crawler wants, whatever the sites allow. The zero value is
// useful: those of WIRE (G04-G11), where the thesis prints them.
//
// Lists replace their defaults; an empty list that is not nil has nothing in it.
type Rules struct {
	// DomainSuffixes are what hosts must end in (G05), at a dot: "example.org"
	// takes www.example.org too, ".cl" all of Chile. Hosts are taken as they
	// are, each with its www twin: on all ports, or with "example.org:8080" on that
	// one. None of either means every host.
	DomainSuffixes, Hosts []string

	// Accept are patterns of which a URL must match one; none means that all do.
	// Reject are patterns of which it must match none, and wins over Accept. A
	// pattern that begins with "/" or "*" is matched from the beginning of the
	// path, as in robots.txt: "*" is anything, "$" at its end the end. One that
	// begins with "http" and "://" is matched so from the beginning of the URL.
	// Any other is found anywhere in path and query, whatever its case (V18).
	Accept, Reject []string

	// RejectWords are not followed where they are what a URL is for: the last of
	// at most three components of the path (an extension of DynamicExt
	// apart), or the name or value of a parameter. As substrings, which the
	// seed has (V18), they would cost every page on the keyword "register".
	// Nil means login, logout, register and their like.
	RejectWords []string

	// SessionIDs are the suffixes of parameters that name a session and not a
	// page (G09, P18), in the query or after a ";" of the path; with a "*" at the
	// end, prefixes. Nil means those of the common servers. Parameters called sid,
	// session, sess or s count too, if their value is 20 letters and digits or more.
	SessionIDs []string

	// Drop are other parameters without meaning, by name; a "*" at the end
	// stands for any rest. Nil means those that advertising adds.
	Drop []string

	// Replace rewrites the beginning of canonical URLs; the first that fits counts.
	Replace []Replace

	// Extensions, in lower case without the dot. Nil means: StaticExt, all that
	// are in no other list (G06); DynamicExt, those of programs (G07, V20); LogExt,
	// images, archives and the like, which are known and not asked for (G08).
	// A list of StaticExt is complete: others are refused. "" is no extension.
	StaticExt, DynamicExt, LogExt []string

	// StaticQueries takes a page with a query for static (V20: the rule is optional).
	StaticQueries bool

	// MaxDepthStatic and MaxDepthDynamic are how many links from a start page
	// a page may be away, before the site's own shape is asked (see doc.go).
	// Zero means 15 and 5 (G10, G11); negative means no limit.
	MaxDepthStatic, MaxDepthDynamic int

	// MaxPerSite is how many URLs of a site are taken; zero means 25,000 (G04),
	// negative no limit.
	MaxPerSite int

	// Repeats is how often one component may stand in a path (P19). Zero
	// means 4, negative any number.
	Repeats int

	// SplitWWW takes www.example.org and example.org for two sites. They are one
	// by default (P08): by the name that was met first, and unless [Seeder.Split]
	// says that a comparison has found otherwise (E44).
	SplitWWW bool

	// MaxURL is the longest URL taken, in bytes; zero means 2,048. It is at most
	// protocol.MaxURL, which negative means.
	MaxURL int
}

// A Replace says that URLs that begin with Old begin with New instead.
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

// defaultDocuments are what sites publish beside pages without being told to (server.Site).
func defaultDocuments() []string { return []string{"pdf"} }

func defaultLogged() []string {
	return strings.Fields("jpg jpeg jpe png gif webp avif svg svgz ico bmp tif tiff psd heic " +
		"mp3 ogg oga opus wav flac m4a aac mid midi wma ra ram " +
		"mp4 m4v avi mov mpg mpeg mpe webm mkv wmv flv ogv 3gp " +
		"zip gz tgz bz2 tbz xz txz zst 7z rar tar jar war iso img dmg msi deb rpm apk cab bin " +
		"ps eps doc docx xls xlsx ppt pptx odt ods odp odg rtf epub mobi djvu dvi " +
		"css js mjs map woff woff2 ttf otf eot swf class wasm")
}

// A set of rules, made for asking them often.
type compiled struct {
	suffixes       []string // with their dot
	hosts          map[string]bool
	accept, reject []pattern
	words          map[string]bool
	longWord       int // bytes of the longest of them
	sessions, drop names
	replace        []Replace
	ext            map[string]class
	longExt        int
	onlyStatic     bool
	queries        bool
	static         int // depth; negative: no limit
	dynamic        int
	perSite        int
	repeats        int
	split          bool
	maxURL         int
}

type class uint8

const (
	unlisted class = iota
	static
	dynamic
	logged
	document // logged where a page leads there, and asked for where the site lists it
)

func (r *Rules) compile() *compiled {
	c := &compiled{replace: r.Replace, onlyStatic: r.StaticExt != nil, queries: !r.StaticQueries,
		static: cmp.Or(r.MaxDepthStatic, depthStatic), dynamic: cmp.Or(r.MaxDepthDynamic, depthDynamic),
		perSite: cmp.Or(r.MaxPerSite, maxPerSite), repeats: cmp.Or(r.Repeats, repeats),
		split: r.SplitWWW, maxURL: cmp.Or(r.MaxURL, maxURL),
		words: map[string]bool{}, hosts: map[string]bool{}, ext: map[string]class{}}
	if c.maxURL < 0 || c.maxURL > protocol.MaxURL {
		c.maxURL = protocol.MaxURL
	}
	for _, s := range r.DomainSuffixes {
		if s = strings.Trim(s, ". "); s != "" {
			c.suffixes = append(c.suffixes, "."+strings.ToLower(s))
		}
	}
	for _, s := range r.Hosts {
		port := ""
		if host, p, err := net.SplitHostPort(s); err == nil {
			s, port = host, ":"+p
		}
		if s = strings.Trim(strings.ToLower(s), "[]."); s != "" {
			c.hosts[strings.TrimPrefix(s, "www.")+port] = true
		}
	}
	for _, s := range r.Accept {
		c.accept = append(c.accept, newPattern(s))
	}
	for _, s := range r.Reject {
		c.reject = append(c.reject, newPattern(s))
	}
	for _, s := range list(r.RejectWords, defaultWords) {
		c.words[strings.ToLower(s)] = true
		c.longWord = max(c.longWord, len(s))
	}
	c.sessions = newNames(list(r.SessionIDs, defaultSessions), true)
	c.drop = newNames(list(r.Drop, defaultDrop), false)
	// Where a list of the user's and a default disagree, the user's counts.
	if r.DynamicExt == nil {
		c.classify(defaultDynamic(), dynamic)
	}
	if r.LogExt == nil {
		c.classify(defaultLogged(), logged)
		c.classify(defaultDocuments(), document)
	}
	c.classify(r.LogExt, logged)
	c.classify(r.DynamicExt, dynamic)
	c.classify(r.StaticExt, static)
	return c
}

func (c *compiled) classify(exts []string, k class) {
	for _, e := range exts {
		e = strings.ToLower(strings.TrimPrefix(e, "."))
		c.ext[e] = k
		c.longExt = max(c.longExt, len(e))
	}
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
	glob  string // from the beginning of the path, or of the URL
	whole bool   // glob is of the URL
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

// matches is asked with a URL, its path and query, and these in lower case.
func (p *pattern) matches(url, path, lower string) bool {
	switch {
	case p.find != "":
		return strings.Contains(lower, p.find)
	case p.whole:
		return glob(p.glob, url)
	}
	return p.glob != "" && glob(p.glob, path)
}

// glob matches as robots.txt does. Each literal between wildcards can be taken
// where it first occurs: whatever follows has then the most room.
func glob(pattern, s string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	literal, rest, wild := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, literal)
	for ok && wild {
		literal, rest, wild = strings.Cut(rest, "*")
		if !wild && whole {
			return strings.HasSuffix(s, literal)
		}
		_, s, ok = strings.Cut(s, literal)
	}
	return ok && (!whole || s == "")
}

// refuses returns the rule by which a URL is not wanted, empty if it is. origin is
// the length of the URL's origin.
func (c *compiled) refuses(url string, origin int) (rule string) {
	path := url[origin:]
	if len(c.suffixes)+len(c.hosts) > 0 && !c.inDomain(url[:origin]) {
		return "domain is not accepted"
	}
	if port := portOf(url[:origin]); port != "" && inet.ForeignPort(port[1:]) {
		return "port is of another protocol"
	}
	if len(c.accept)+len(c.reject) > 0 {
		lower := strings.ToLower(path)
		for i := range c.reject {
			if c.reject[i].matches(url, path, lower) {
				return "reject: " + c.reject[i].text
			}
		}
		accepted := len(c.accept) == 0
		for i := range c.accept {
			accepted = accepted || c.accept[i].matches(url, path, lower)
		}
		if !accepted {
			return "no accept rule matches"
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

func (c *compiled) inDomain(origin string) bool {
	port := portOf(origin)
	host := strings.Trim(origin[strings.Index(origin, "://")+3:len(origin)-len(port)], "[].")
	for _, s := range c.suffixes {
		if strings.HasSuffix(host, s) || host == s[1:] {
			return true
		}
	}
	host = strings.TrimPrefix(host, "www.")
	if c.hosts[host] || port != "" && c.hosts[host+port] {
		return true
	}
	return port == "" && c.hosts[host+defaultPort(origin)]
}

// portOf returns the port of an origin with its colon, empty if that is the default.
func portOf(origin string) string {
	if i := strings.LastIndexByte(origin, ':'); i > len("https") && i > strings.LastIndexByte(origin, ']') {
		return origin[i:]
	}
	return ""
}

func defaultPort(origin string) string {
	if strings.HasPrefix(origin, "https:") {
		return ":443"
	}
	return ":80"
}

// word returns the reject word that is what a URL is for.
func (c *compiled) word(path, query string) string {
	if len(c.words) == 0 {
		return ""
	}
	if strings.Count(path, "/") <= 3 {
		last := path[strings.LastIndexByte(path, '/')+1:]
		if i := strings.LastIndexByte(last, '.'); i >= 0 && c.extension(last[i+1:]) == dynamic {
			last = last[:i]
		}
		if w := c.isWord(last); w != "" {
			return w
		}
	}
	for query != "" {
		var pair string
		pair, query = cutPair(query)
		name, value, _ := strings.Cut(pair, "=")
		if w := c.isWord(name); w != "" {
			return w
		}
		if w := c.isWord(value); w != "" {
			return w
		}
	}
	return ""
}

func (c *compiled) isWord(s string) string {
	if len(s) == 0 || len(s) > c.longWord {
		return ""
	}
	var buf [16]byte
	if w := appendLower(buf[:0], s); c.words[string(w)] {
		return string(w)
	}
	return ""
}

// extension returns what kind of page an extension, in any case, makes.
func (c *compiled) extension(e string) class {
	if len(e) > c.longExt {
		return unlisted
	}
	var buf [8]byte
	return c.ext[string(appendLower(buf[:0], e))]
}

// classOf returns what kind of page a URL is by its looks: path and query.
func (c *compiled) classOf(path string) class {
	path, _, query := strings.Cut(path, "?")
	last := path[strings.LastIndexByte(path, '/')+1:]
	ext := ""
	if i := strings.LastIndexByte(last, '.'); i >= 0 {
		ext = last[i+1:]
	}
	k := c.extension(ext)
	if query && c.queries && k != logged && k != document {
		return dynamic
	}
	return k
}

// repeated returns the component that stands in path more than n times.
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

func appendLower(b []byte, s string) []byte {
	for i := range len(s) {
		b = append(b, lower(s[i]))
	}
	return b
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
