package accesslog

import "bytes"

// A Kind is what somebody asks a site for.
type Kind string

// The kinds. All from Search to OtherBot are crawlers.
const (
	Search   Kind = "search"  // to be found in a search engine
	AI       Kind = "ai"      // to train, or to answer with, a language model
	SEO      Kind = "seo"     // to sell what is known of links and ranks
	Feed     Kind = "feed"    // to show news to a reader
	Preview  Kind = "preview" // to show what a link in a message leads to, or for an advertisement
	Archive  Kind = "archive" // to keep it
	Monitor  Kind = "monitor" // to see whether it answers
	OtherBot Kind = "other"   // for a reason of its own

	Program Kind = "program" // neither a browser nor a crawler by its name: curl, a script, an app
	Unnamed Kind = "unnamed" // there is no user agent
	Browser Kind = "browser" // most likely a person
)

// Crawler says whether the kind is one of crawlers.
func (k Kind) Crawler() bool { return k != Program && k != Unnamed && k != Browser }

// An Agent is who a user agent says it is. Anybody can say so.
type Agent struct {
	ID   int // from 0, in the order in which they were met
	Name string
	Kind Kind

	// Hosts are the domains that hold the crawler's machines, as its operator
	// says: an address whose name is in one of them, and whose name leads back
	// to the address, is the crawler's own.
	Hosts []string

	Lastmod  bool // its operator says that it reads a sitemap's lastmod to choose what to read
	IndexNow bool // its operator takes IndexNow
}

// The bounds of what Agents remembers.
const (
	maxRemembered = 1 << 16 // user agents
	maxNames      = 2000    // names that are not in the table
	maxName       = 40      // bytes of each
	maxAgent      = 2048    // bytes of a user agent that are looked at
)

// Agents knows the names of crawlers. It is for one goroutine at a time.
type Agents struct {
	known   map[string]*Agent // by word, in small letters
	names   map[string]*Agent // that are not in the table, by name
	by      map[string]*Agent // by user agent
	browser *Agent
	unnamed *Agent
	met     int
}

// NewAgents returns Agents that have seen none yet.
func NewAgents() *Agents {
	return &Agents{
		known: table(), names: map[string]*Agent{}, by: map[string]*Agent{},
		browser: &Agent{ID: -1, Name: "Browsers", Kind: Browser},
		unnamed: &Agent{ID: -1, Name: "(no user agent)", Kind: Unnamed},
	}
}

// Identify says who a user agent claims to be. Equal names give equal
// pointers. Past the bounds, names that are not in the table are one.
func (a *Agents) Identify(agent []byte) *Agent {
	if found := a.by[string(agent)]; found != nil {
		return found
	}
	found := a.identify(agent[:min(len(agent), maxAgent)])
	if found.ID < 0 {
		found.ID = a.met
		a.met++
	}
	if len(a.by) == maxRemembered {
		clear(a.by)
	}
	a.by[string(agent)] = found
	return found
}

func (a *Agents) identify(agent []byte) *Agent {
	agent = bytes.TrimSpace(agent)
	if len(agent) == 0 {
		return a.unnamed
	}
	var sign []byte // the first word that says what it is
	person := bytes.HasPrefix(agent, []byte("Mozilla/")) || bytes.HasPrefix(agent, []byte("Opera/"))
	for rest, first := agent, true; len(rest) > 0; {
		var w []byte
		if w, rest = product(rest); len(w) == 0 {
			continue
		}
		lower := bytes.ToLower(w)
		for name := lower; ; {
			// Java and PHP are programs only where they come first.
			if known := a.known[string(name)]; known != nil && (known.Kind != Program || first || automaton(name)) {
				return known
			}
			i := bytes.LastIndexByte(name, '-') // SemrushBot-BA is of the family of SemrushBot
			if i <= 0 {
				break
			}
			name = name[:i]
		}
		first = false
		if sign == nil && isSign(lower) {
			sign = w
		}
	}
	switch {
	case sign != nil || bytes.Contains(agent, []byte("http://")) || bytes.Contains(agent, []byte("https://")):
		// It says what it is, or where to read about it.
		return a.named(ownName(agent, sign), OtherBot)
	case person || bytes.Contains(agent, []byte("Browser")) || bytes.Contains(agent, []byte("MIDP-")): // old telephones
		return a.browser
	}
	return a.named(ownName(agent, nil), Program)
}

// automaton says whether a program calls itself a browser, and nobody sits at it.
func automaton(name []byte) bool {
	switch string(name) {
	case "headlesschrome", "phantomjs", "appengine-google":
		return true
	}
	return false
}

// product cuts the next word off: what letters, digits and -_.! make up.
func product(b []byte) (w, rest []byte) {
	i := 0
	for i < len(b) {
		c := b[i]
		if '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '_' || c == '.' || c == '!' || c >= 0x80 {
			i++
			continue
		}
		break
	}
	return b[:i], b[min(i+1, len(b)):]
}

// isSign says whether a word in small letters is such as crawlers have in their names.
func isSign(w []byte) bool {
	for _, sign := range []string{"bot", "crawl", "spider", "scrap", "slurp", "archiver", "fetcher", "validator", "checker", "preview"} {
		if bytes.Contains(w, []byte(sign)) {
			return !bytes.HasPrefix(w, []byte("cubot")) // telephones
		}
	}
	return false
}

// ownName is the name that software gives itself: the word that says what it
// is, unless that is only "robot" or of an address; or what follows
// "compatible;"; or the first product; or where to read about it, if that is
// what a browser says.
func ownName(agent, sign []byte) []byte {
	if sign != nil && bytes.IndexByte(sign, '.') < 0 && !generic(sign) {
		return sign
	}
	name := agent
	if i := bytes.Index(agent, []byte("compatible;")); i >= 0 {
		name = bytes.TrimLeft(agent[i+len("compatible;"):], " ")
	}
	if bytes.HasPrefix(name, []byte("Mozilla/")) || bytes.HasPrefix(name, []byte("MSIE ")) || len(name) == 0 {
		if _, host, ok := bytes.Cut(agent, []byte("://")); ok {
			host, _ = product(host)
			return host
		}
		return sign
	}
	if i := bytes.IndexAny(name, "/;,(+"); i > 0 {
		name = name[:i]
	}
	return bytes.TrimSpace(name)
}

// generic says whether a word is a trade and no name.
func generic(w []byte) bool {
	switch string(bytes.ToLower(w)) {
	case "bot", "robot", "robots", "crawler", "crawlers", "spider", "fetcher", "preview", "validator", "checker", "webcrawler":
		return true
	}
	return false
}

// named returns the Agent of a name, as far as that can be shown.
func (a *Agents) named(name []byte, kind Kind) *Agent {
	clean := make([]byte, 0, maxName)
	for _, c := range name[:min(len(name), maxName)] {
		if c < ' ' || c > '~' {
			c = '?'
		}
		clean = append(clean, c)
	}
	if len(clean) == 0 {
		clean = []byte("?")
	}
	key := string(kind) + " " + string(clean)
	if found := a.names[key]; found != nil {
		return found
	}
	if len(a.names) >= maxNames {
		key, clean = string(kind), []byte("(other names)")
		if found := a.names[key]; found != nil {
			return found
		}
	}
	found := &Agent{ID: -1, Name: string(clean), Kind: kind}
	a.names[key] = found
	return found
}
