package browse

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"hash/maphash"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/engine/seed"
)

// The bounds of what is remembered of a log.
const (
	expires     = 30 * 60   // seconds without a request that end a session (G37)
	maxOpen     = 256 << 20 // bytes of clients with open sessions
	maxOfClient = 10_000    // requests of one
	maxAsked    = 1 << 17   // robots and scanners
	maxPages    = 1 << 20   // different pages
	maxHosts    = 1000      // that referred to pages
	maxURL      = 2048      // bytes of a request, and of a referrer
	maxDepth    = 32        // of directories; deeper ones count there
)

// LeftOut counts requests for pages that are no views, and what else was done to a log (section 5.3).
type LeftOut struct {
	Robots       int64 `json:"robots"`       // by user agents that name no browser, or that asked for /robots.txt
	Scanners     int64 `json:"scanners"`     // of clients that look for security holes
	Applications int64 `json:"applications"` // to e-mail or content management
	Reloads      int64 `json:"reloads"`      // of the page seen last
	Frames       int64 `json:"frames"`       // within a second after the page that refers to them
	Added        int64 `json:"views_added"`  // not in the log: a later page refers to them
	Early        int64 `json:"ended_early"`  // clients whose sessions ended since there were too many requests to remember
	Backwards    int64 `json:"backwards"`    // how often the time of the log went back by more than half an hour
}

// A logReader makes sessions of requests.
type logReader struct {
	visits  Visits
	agents  *accesslog.Agents
	dynamic []string                 // extensions of pages that are generated
	clients map[string]*list.Element // of open, by virtual host and address
	open    *list.List               // of *client, in the order of their last requests
	size    int                      // bytes of all, about
	now     int64                    // the latest time

	seed   maphash.Seed
	robots map[uint64]bool // clients with their user agents; scanners, without
	hosts  map[string]int  // of referrers
	own    string          // the most frequent of them: the site, if the log has no virtual hosts
	pages  map[uint64]bool // whether a session began there
}

// A client is an address with requests that are less than 30 minutes old.
type client struct {
	key, host string
	seen      int64 // the latest time when it came
	failed    int   // requests for pages, with status 4xx
	hits      []hit
}

// A hit is a request for a page.
type hit struct {
	at         int64
	agent      uint64
	page       string // path and query
	host, from string // of the referrer: its site, path and query
}

func (h *hit) size() int { return 100 + len(h.page) + len(h.host) + len(h.from) }

func (c *client) size() int { return 300 + len(c.key) + len(c.host) }

// ReadLog makes sessions of the requests in logs, by the rules of Castillo 2004, section 5.3.
//
// A session is of one address (on one virtual host), and ends after 30 minutes, with another user agent, and where the visitor comes
// from another site, since to go there is the action jump. Views are successful requests by GET for HTML or documents. The referrer says
// which page links to a view; a page of this site that refers to a view, and is not the view before it, was seen in between, out of a
// cache. Without a referrer the view before is taken for the one that links. So levels are too deep where few clients name referrers.
//
// Requests may be out of order by up to 30 minutes. If the time goes back further, all sessions end, and it is counted. A robot is known
// by its name, or from the session on in which it asks for robots.txt.
func ReadLog(ctx context.Context, files *accesslog.Files) (*Visits, error) {
	l := &logReader{visits: Visits{LeftOut: &LeftOut{}}, agents: accesslog.NewAgents(), dynamic: seed.BuiltIn().DynamicExt, clients: map[string]*list.Element{}, open: list.New(),
		seed: maphash.MakeSeed(), robots: map[uint64]bool{}, hosts: map[string]int{}, pages: map[uint64]bool{}}
	for n := 1; ; n++ {
		e := files.Next()
		if e == nil {
			l.end(func(*client) bool { return true })
			return &l.visits, nil
		}
		if l.take(e); n%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// take remembers a request.
func (l *logReader) take(e *accesslog.Entry) {
	back := e.Unix < l.now-expires
	if back {
		l.visits.LeftOut.Backwards++
		l.now = e.Unix
	}
	l.now = max(l.now, e.Unix)
	l.end(func(c *client) bool { return back || c.seen < l.now-expires })

	key, agent := string(e.Host)+" "+string(e.Addr), maphash.Bytes(l.seed, e.Agent)
	path := accesslog.Path(e.Target)
	switch {
	case len(key) > maxURL:
		return
	case string(path) == "/robots.txt":
		l.automatic(key, agent)
	case len(e.Method) == 0 || len(e.Target) > maxURL || attacks(e.Target):
		l.automatic(key, 0)
	}
	refers := ""
	if _, host, ok := bytes.Cut(e.Referer, []byte("://")); ok && len(e.Referer) <= maxURL {
		if i := bytes.IndexAny(host, "/?#"); i >= 0 {
			host = host[:i]
		}
		refers = site(host)
		if l.hosts[refers] > 0 || len(l.hosts) < maxHosts { // pages refer to their images, so that this is soon clear
			if l.hosts[refers]++; l.hosts[refers] > l.hosts[l.own] {
				l.own = refers
			}
		}
	}
	page := string(e.Method) == "GET" && len(e.Target) <= maxURL && l.isPage(path)
	view, failed := page && (e.Status == 200 || e.Status == 206 || e.Status == 304), page && e.Status/100 == 4
	switch {
	case !view && !failed:
		return
	case view && !e.NoAgent && l.agents.Identify(e.Agent).Kind != accesslog.Browser:
		l.visits.LeftOut.Robots++
		return
	case view && isApplication(path):
		l.visits.LeftOut.Applications++
		return
	}
	at := l.clients[key]
	if at == nil {
		c := &client{key: key, host: site(e.Host)}
		at = l.open.PushBack(c)
		l.clients[key] = at
		l.size += c.size()
	}
	c := at.Value.(*client)
	c.seen = l.now
	if failed {
		c.failed++
	} else {
		h := hit{at: e.Unix, agent: agent, page: pageOf(e.Target), host: refers}
		if refers != "" {
			h.from = pageOf(e.Referer)
		}
		c.hits = append(c.hits, h)
		l.size += h.size()
	}
	if l.open.MoveToBack(at); len(c.hits) >= maxOfClient {
		l.open.MoveToFront(at)
	}
	if l.size > maxOpen || len(c.hits) >= maxOfClient {
		l.visits.LeftOut.Early++
		first := l.open.Front().Value
		l.end(func(c *client) bool { return c == first })
	}
}

// automatic remembers a client that is no person: by its user agent, or without.
func (l *logReader) automatic(key string, agent uint64) {
	if len(l.robots) >= maxAsked {
		clear(l.robots)
	}
	l.robots[maphash.String(l.seed, key)^agent] = true
}

// end ends the sessions of the clients that came first, as long as done holds.
func (l *logReader) end(done func(*client) bool) {
	for at := l.open.Front(); at != nil && done(at.Value.(*client)); at = l.open.Front() {
		c := l.open.Remove(at).(*client)
		delete(l.clients, c.key)
		n, key := len(c.hits), maphash.String(l.seed, c.key)
		l.size -= c.size()
		for i := range c.hits {
			l.size -= c.hits[i].size()
		}
		// Somebody who fails ten times, and more often than not, tries names.
		if l.robots[key] || c.failed >= 10 && c.failed > n {
			l.visits.LeftOut.Scanners += int64(n)
			continue
		}
		c.hits = slices.DeleteFunc(c.hits, func(h hit) bool { return l.robots[key^h.agent] })
		l.visits.LeftOut.Robots += int64(n - len(c.hits))
		slices.SortStableFunc(c.hits, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
		l.sessions(c.hits, cmp.Or(c.host, l.own))
	}
}

// sessions adds the sessions of a client, given its requests in the order of time and the site.
func (l *logReader) sessions(hits []hit, own string) {
	type view struct{ level int }
	var levels []int
	var now *view   // seen last
	var began int64 // when
	var seen = map[string]*view{}
	end := func() {
		if len(levels) > 0 {
			l.visits.Add(levels)
		}
		levels, now = levels[:0], nil
		clear(seen)
	}
	see := func(page string, at int64) { // by a link on the page seen last
		v := seen[page]
		if v == nil {
			v = &view{}
			if now != nil {
				v.level = now.level + 1
			}
			seen[page] = v
			l.note(page, now == nil)
		}
		now, began, levels = v, at, append(levels, v.level)
	}
	for i, h := range hits {
		if i > 0 && (h.at-hits[i-1].at > expires || h.agent != hits[i-1].agent) {
			end()
		}
		if now != nil && seen[h.page] == now {
			l.visits.LeftOut.Reloads++ // also with the referrer of the first time
			continue
		}
		if h.host != "" && h.host != own {
			end()
		} else if path := accesslog.Path([]byte(h.from)); h.host != "" && h.from != h.page && l.isPage(path) && !isApplication(path) {
			switch by := seen[h.from]; {
			case by == nil || by != now:
				l.visits.LeftOut.Added++
				see(h.from, h.at)
			case h.at-began <= 1:
				l.visits.LeftOut.Frames++
				if seen[h.page] == nil {
					seen[h.page] = now // links in the frame are links of the page
				}
				continue
			}
		}
		see(h.page, h.at)
	}
	end()
}

// note counts a page, and the session if it is the first one there, by directory depth.
func (l *logReader) note(page string, first bool) {
	path := string(accesslog.Path([]byte(page)))
	depth := min(strings.Count(path, "/")-1, maxDepth)
	for len(l.visits.Dirs) <= depth {
		l.visits.Dirs = append(l.visits.Dirs, Dir{})
	}
	d, id := &l.visits.Dirs[depth], maphash.String(l.seed, page)
	entered, known := l.pages[id]
	if !known && len(l.pages) < maxPages {
		l.pages[id], known = false, true
		d.Pages++
	}
	if !first {
		return
	}
	if d.Sessions++; path == "/" {
		l.visits.Home++
	}
	if known && !entered {
		l.pages[id] = true
		d.Entries++
	}
}

// pageOf returns path and query of a request or of a URL; /index.html is /.
func pageOf(target []byte) string {
	page := string(accesslog.Path(target))
	dir, name := path.Split(page)
	switch name {
	case "index.html", "index.htm", "index.php":
		page = dir
	}
	target, _, _ = bytes.Cut(target, []byte("#"))
	if _, query, ok := bytes.Cut(target, []byte("?")); ok {
		page += "?" + string(query)
	}
	return page
}

// site returns a host in lower case, without port and www.
func site(host []byte) string {
	s := strings.ToLower(string(host))
	if h, _, err := net.SplitHostPort(s); err == nil {
		s = h
	}
	return strings.TrimPrefix(s, "www.")
}

// isPage reports whether a path is one of HTML or of a document such as Word, PDF or Postscript. Up to 5 other letters
// and digits after a dot are the extension of something else.
func (l *logReader) isPage(path []byte) bool {
	name := path[bytes.LastIndexByte(path, '/')+1:]
	ext := strings.ToLower(string(name[bytes.LastIndexByte(name, '.')+1:]))
	switch {
	case len(path) == 0 || path[0] != '/':
		return false
	case len(ext) == len(name) || slices.Contains(l.dynamic, ext) && ext != "exe" && ext != "dll": // these are rather files to store
		return true
	}
	switch ext {
	case "html", "htm", "xhtml", "shtml", "pdf", "ps", "doc", "docx", "odt", "rtf":
		return true
	}
	return len(ext) > 5 || strings.Trim(ext, "0123456789") == "" || strings.Trim(ext, "0123456789abcdefghijklmnopqrstuvwxyz") != ""
}

// isApplication reports whether a path belongs to an application with which people write, not read: e-mail or content management.
func isApplication(path []byte) bool {
	return containsAny(path, "/", "webmail", "roundcube", "squirrelmail", "horde", "owa", "wp-admin", "wp-login.php", "administrator", "admin", "typo3", "umbraco", "phpmyadmin", "cpanel")
}

// attacks reports whether a request looks for a security hole.
func attacks(target []byte) bool {
	return containsAny(target, "", "../", "..%2f", "%2e%2e", "..\\", "etc/passwd", "cmd.exe", "root.exe", "default.ida", "<script", "%3cscript", "%00",
		"union+select", "union%20select", "/.env", "/.git/", "/.ssh", "/.aws", "phpunit", "w00tw00t", "/hnap1", "/boaform", "/pma/", "wp-config.php")
}

// containsAny reports whether text has one of the words, each between two ends, in lower or upper case.
func containsAny(text []byte, end string, words ...string) bool {
	lower := strings.ToLower(string(text)) + end
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, end+w+end) })
}
