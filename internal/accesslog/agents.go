package accesslog

import "bytes"

// A Kind is the purpose of a client.
type Kind string

// The kinds. All from Search to OtherBot are crawlers.
const (
	Search   Kind = "search"  // to build a search engine
	AI       Kind = "ai"      // to train a language model, or to answer with one
	SEO      Kind = "seo"     // to sell data about links and ranks
	Feed     Kind = "feed"    // to show news to a reader
	Preview  Kind = "preview" // to show the target of a link in a message, or for an advertisement
	Archive  Kind = "archive" // to archive pages
	Monitor  Kind = "monitor" // to check whether the site responds
	OtherBot Kind = "other"   // for another purpose

	Program Kind = "program" // neither a browser nor a crawler by its name: curl, a script, an app
	Unnamed Kind = "unnamed" // no user agent
	Browser Kind = "browser" // most likely a person
)

// Crawler reports whether the kind is one of crawlers.
func (k Kind) Crawler() bool { return k != Program && k != Unnamed && k != Browser }

// An Agent is a client as its user agent names it. Anybody can claim any name.
type Agent struct {
	ID   int // from 0, in the order of first occurrence
	Name string
	Kind Kind

	// Hosts are the domains of the crawler's machines, as its operator states: an address belongs to the
	// crawler if its name is in one of them and resolves back to the address.
	Hosts []string

	Lastmod  bool // its operator says that it uses a sitemap's lastmod to choose pages
	IndexNow bool // its operator accepts IndexNow
}

// The bounds of what Agents remembers.
const (
	maxRemembered = 1 << 16 // user agents
	maxNames      = 2000    // names that are not in the table
	maxName       = 40      // bytes of each
	maxAgent      = 2048    // bytes of a user agent that are read
)

// Agents identifies crawlers by their names. It is for one goroutine at a time.
type Agents struct {
	known   map[string]*Agent // by word, in lower case
	names   map[string]*Agent // not in the table, by name
	by      map[string]*Agent // by user agent
	browser *Agent
	unnamed *Agent
	met     int
}

// NewAgents returns Agents that have seen no client yet.
func NewAgents() *Agents {
	return &Agents{
		known: table(), names: map[string]*Agent{}, by: map[string]*Agent{},
		browser: &Agent{ID: -1, Name: "Browsers", Kind: Browser},
		unnamed: &Agent{ID: -1, Name: "(no user agent)", Kind: Unnamed},
	}
}

// Identify returns the client that a user agent claims to be. Equal names give equal pointers. Past the
// bounds, all names that are not in the table are one.
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
	var sign []byte // the first word that shows a crawler
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
		// It names itself, or a page about itself.
		return a.named(ownName(agent, sign), OtherBot)
	case person || bytes.Contains(agent, []byte("Browser")) || bytes.Contains(agent, []byte("MIDP-")): // old telephones
		return a.browser
	}
	return a.named(ownName(agent, nil), Program)
}

// automaton reports whether a program that names itself a browser runs without a person.
func automaton(name []byte) bool {
	switch string(name) {
	case "headlesschrome", "phantomjs", "appengine-google":
		return true
	}
	return false
}

// product returns the next word, of letters, digits and -_.!, and the rest.
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

// isSign reports whether a word in lower case has a part that is typical of crawlers' names.
func isSign(w []byte) bool {
	for _, sign := range []string{"bot", "crawl", "spider", "scrap", "slurp", "archiver", "fetcher", "validator", "checker", "preview"} {
		if bytes.Contains(w, []byte(sign)) {
			return !bytes.HasPrefix(w, []byte("cubot")) // telephones
		}
	}
	return false
}

// ownName returns the name that software gives itself: the sign, unless that is only "robot" or part of an
// address; or the words after "compatible;"; or the first product; or, for software that claims to be a
// browser, the host of its page.
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

// generic reports whether a word is a kind of software, not a name.
func generic(w []byte) bool {
	switch string(bytes.ToLower(w)) {
	case "bot", "robot", "robots", "crawler", "crawlers", "spider", "fetcher", "preview", "validator", "checker", "webcrawler":
		return true
	}
	return false
}

// named returns the Agent of a name, with unprintable bytes replaced.
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
