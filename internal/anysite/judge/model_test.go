package judge

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A model is a small web with ideal programs. It writes recordings without faults, and shares no code with
// the programs or the oracles.
type model struct {
	r    *record.Recording
	rng  *rand.Rand
	now  time.Time
	conn int

	pages    map[string]*page // all pages that ever existed, by URL
	order    []string         // their URLs
	copies   map[string]*keeper
	keepers  []*keeper
	evidence map[string]bool // URL and sum of the evidence that the notifier has
}

type page struct {
	status            int
	body              string
	links             []string
	noindex, nofollow bool
}

type keeper struct {
	name, kind, site string
	wait             time.Duration
	limit            int
	last             time.Time // end of the last request
	held             map[string]record.Stored
	place            map[string]record.WARCRecord
	offset           int64
	seq              int
}

const (
	siteA = "http://127.1.1.1:8001/" // publishes changes
	siteB = "http://127.1.1.2:8002/" // publishes nothing
	secs  = time.Second
)

var dawn = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// clean returns a recording of a run without faults.
func clean(seed uint64) *record.Recording {
	m := &model{r: &record.Recording{Seed: seed, Bodies: map[string][]byte{}, Events: map[string][]record.Event{}, Accounts: map[string]record.Account{}},
		rng: rand.New(rand.NewPCG(seed, 1)), now: dawn, pages: map[string]*page{}, copies: map[string]*keeper{}, evidence: map[string]bool{}}
	m.site(siteA, 14+m.rng.IntN(10))
	m.site(siteB, 12+m.rng.IntN(10))
	m.put(siteA+"private/x.html", "secret of a", 200)
	m.put(siteA+"members.html", "", 401)
	m.put(siteB+"big.html", strings.Repeat("big ", 500), 200)
	m.link(siteB, siteB+"big.html")
	m.link(siteB, siteB+"missing.html")
	m.put(siteB+"missing.html", "", 404)
	m.link(siteB, siteB+"ni.html")
	m.put(siteB+"ni.html", "do not list", 200)
	m.pages[siteB+"ni.html"].noindex = true
	for _, s := range []string{siteA, siteB} {
		m.put(s+"robots.txt", "User-agent: *\nDisallow: /private/\nCrawl-delay: 1.5\n\nUser-agent: other\nDisallow: /\n", 200)
	}
	m.program("notifier-a", "notifier", map[string]string{"preset": "high", "look-every": "100ms", "grace": "100ms",
		"write-every": "100ms", "ask-again": "20s", "stream": "true"}, siteA)
	m.step("start", "notifier-a", nil)
	run := m.crawler("crawler-1", "run", siteA, 2*secs, map[string]string{"budget": "1000/page", "manifest-every": "1s"})
	follow := m.crawler("crawler-2", "follow", siteA, secs, map[string]string{"as": "page"})
	m.step("start", "crawler-1", nil)
	for _, k := range []*keeper{run, follow} {
		m.ask(k, siteA+"robots.txt", "robots")
		m.ask(k, siteA+"robots.rdf", "manifest")
		m.stream(k)
		for _, u := range m.public(siteA) {
			m.fetch(k, u)
		}
	}
	for i := range 4 + m.rng.IntN(4) {
		m.now = m.now.Add(secs)
		list := m.public(siteA)
		u := list[1+m.rng.IntN(len(list)-1)]
		what := i // each kind once, then random ones
		if i > 3 {
			what = m.rng.IntN(4)
		}
		switch what {
		case 0:
			m.step("edit", siteA, func() { m.pages[u].body += fmt.Sprintf(" edited %d", m.rng.IntN(1e9)) }, u)
			m.told(run, follow, u)
		case 1:
			u = fmt.Sprintf("%snew-%d.html", siteA, m.rng.IntN(1e9))
			m.step("create", siteA, func() { m.put(u, "new "+u, 200) }, u)
			m.told(run, follow, u)
		case 2:
			v := fmt.Sprintf("%smoved-%d.html", siteA, m.rng.IntN(1e9))
			m.step("move", siteA, func() { m.put(v, m.pages[u].body, 200); m.pages[u].status = 404 }, u, v)
			for _, k := range []*keeper{run, follow} {
				m.moved(k, u, v)
			}
		case 3:
			m.step("delete", siteA, func() { m.pages[u].status = 404 }, u)
			m.now = m.now.Add(200 * time.Millisecond)
			for _, k := range []*keeper{run, follow} {
				m.event(k, record.Event{Op: "delete", URL: u})
				delete(k.held, u)
			}
		}
	}
	crawl := m.crawler("crawler-3", "crawl", siteB, 2*secs, map[string]string{"max-file": "1KB", "again": "true"})
	m.ask(crawl, siteB+"robots.txt", "robots")
	for _, u := range m.order {
		if strings.HasPrefix(u, siteB) && !strings.HasSuffix(u, ".txt") && !strings.Contains(u, "/private/") {
			m.fetch(crawl, u)
		}
	}
	m.r.Exits = append(m.r.Exits, record.Exit{Program: "crawler-3", At: m.now, Stderr: "12 pages fetched"})
	m.now = m.now.Add(10 * time.Minute)
	m.r.Ended = m.now
	for _, n := range []string{"crawler-1", "crawler-2", "notifier-a"} {
		m.r.Exits = append(m.r.Exits, record.Exit{Program: n, At: m.now.Add(secs), Asked: true, Stderr: "level=INFO msg=bye"})
		m.r.Usage = append(m.r.Usage, record.Usage{Program: n, PeakRSS: 50 << 20, StateSize: 1 << 20, Written: 2 << 20})
	}
	for _, k := range m.keepers {
		m.account(k)
	}
	return m.r
}

func (m *model) site(base string, n int) {
	m.put(base, "home of "+base, 200)
	home := len(m.order) - 1
	for i := range n {
		u := fmt.Sprintf("%sp%d.html", base, i)
		m.put(u, fmt.Sprintf("page %d of %s: %d", i, base, m.rng.IntN(1e9)), 200)
		m.link(m.order[home+m.rng.IntN(i+1)], u)
	}
}

func (m *model) put(u, body string, status int) {
	if m.pages[u] == nil {
		m.order = append(m.order, u)
		m.pages[u] = &page{}
	}
	m.pages[u].body, m.pages[u].status = body, status
}

func (m *model) link(from, to string) { m.pages[from].links = append(m.pages[from].links, to) }

// public lists the pages that a site publishes.
func (m *model) public(base string) (list []string) {
	for _, u := range m.order {
		if strings.HasPrefix(u, base) && m.pages[u].status == 200 && !strings.HasSuffix(u, ".txt") && !strings.Contains(u, "/private/") {
			list = append(list, u)
		}
	}
	return list
}

func (m *model) program(name, kind string, options map[string]string, site string) {
	m.r.Settings = append(m.r.Settings, record.Program{Name: name, Kind: kind, Options: options, Sites: []string{site}, Started: m.now})
}

func (m *model) crawler(name, kind, site string, wait time.Duration, options map[string]string) *keeper {
	k := &keeper{name: name, kind: kind, site: site, wait: wait, limit: 400_000,
		held: map[string]record.Stored{}, place: map[string]record.WARCRecord{}}
	options["agent"], options["wait"], options["delay"] = "Parley/0.1", wait.String(), wait.String()
	if options["max-file"] == "1KB" {
		k.limit = 1000
	}
	m.program(name, kind, options, site)
	m.copies[name] = k
	m.keepers = append(m.keepers, k)
	m.r.Copies = append(m.r.Copies, record.Copy{Crawler: name})
	return k
}

func (m *model) step(kind, target string, do func(), urls ...string) {
	s := record.Step{At: m.now, Kind: kind, Target: target, URLs: urls}
	if do != nil {
		do()
	}
	m.now = m.now.Add(5 * time.Millisecond)
	s.Done = m.now
	m.r.Steps = append(m.r.Steps, s)
	for _, u := range m.order {
		m.now = m.now.Add(time.Millisecond)
		p := m.pages[u]
		f := record.Fetch{At: m.now, URL: u, Status: p.status, From: "127.77.77.77", NoIndex: p.noindex, NoFollow: p.nofollow, Links: p.links}
		if p.status == 200 {
			f.Type, f.Sum, f.Size = "text/html", m.sum(p.body), int64(len(p.body))
		}
		m.r.Fetches = append(m.r.Fetches, f)
	}
}

func (m *model) sum(body string) string {
	s := Sum([]byte(body))
	m.r.Bodies[s] = []byte(body)
	return s
}

// ask is a request of a crawler at the earliest permitted moment.
func (m *model) ask(k *keeper, u, door string) record.Request {
	wait := max(k.wait, 1500*time.Millisecond)
	if m.now = m.now.Add(time.Millisecond); m.now.Before(k.last.Add(wait)) {
		m.now = k.last.Add(wait)
	}
	m.conn++
	host, _, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
	q := record.Request{From: k.name, Host: host, Address: host, Conn: m.conn, Method: "GET", URL: u, Door: door, Began: m.now,
		Header: map[string]string{"user-agent": "Parley/0.1 (+" + k.name + "@anysite.test)"}, Status: 200}
	m.now = m.now.Add(time.Duration(1+m.rng.IntN(20)) * time.Millisecond)
	q.Ended = m.now
	if p := m.pages[u]; p != nil {
		if q.Status = p.status; p.status == 200 {
			q.Sum, q.Size = m.sum(p.body), int64(len(p.body))
		}
	}
	k.last = q.Ended
	m.r.Requests = append(m.r.Requests, q)
	return q
}

func (m *model) stream(k *keeper) {
	q := m.ask(k, "http://127.1.1.1:8001/parley/stream", "stream")
	m.r.Requests[len(m.r.Requests)-1].Ended = q.Ended.Add(time.Hour)
}

func (m *model) fetch(k *keeper, u string) {
	q := m.ask(k, u, "")
	if q.Status != 200 {
		return
	}
	body, cut := m.pages[u].body, false
	if len(body) > k.limit {
		body, cut = body[:k.limit], true
		m.r.Requests[len(m.r.Requests)-1].Truncated = true
	}
	m.keep(k, u, body, cut, "response")
}

// keep stores a body as a crawler does.
func (m *model) keep(k *keeper, u, body string, cut bool, kind string) {
	op := "create"
	if _, ok := k.held[u]; ok {
		op = "update"
	}
	s := record.Stored{Status: 200, Sum: m.sum(body), Size: int64(len(body)), Stored: m.now, Truncated: cut, NoIndex: m.pages[u].noindex}
	e := record.Event{Op: op, URL: u, Sum: s.Sum}
	if cut {
		e.Flags = append(e.Flags, "truncated")
	}
	if s.NoIndex {
		e.Flags = append(e.Flags, "noindex")
	}
	m.event(k, e)
	m.store(k, u, s, kind)
}

func (m *model) store(k *keeper, u string, s record.Stored, kind string) {
	k.held[u] = s
	if k.kind == "follow" {
		return
	}
	k.offset += 100 + s.Size
	x := record.WARCRecord{File: "1.warc", Offset: k.offset, Type: kind, URL: u, At: m.now.Truncate(secs), Status: 200, Sum: s.Sum}
	k.place[u] = x
	c := m.copyOf(k.name)
	c.WARC = append(c.WARC, x)
}

func (m *model) copyOf(name string) *record.Copy {
	i := slices.IndexFunc(m.r.Copies, func(c record.Copy) bool { return c.Crawler == name })
	return &m.r.Copies[i]
}

func (m *model) event(k *keeper, e record.Event) {
	k.seq++
	e.Cursor, e.At = fmt.Sprintf("ep:%d", k.seq), m.now
	m.r.Events[k.name] = append(m.r.Events[k.name], e)
}

// told makes the requests that follow an edit: the notifier fetches the page, then one crawler fetches it,
// and the other receives it.
func (m *model) told(run, follow *keeper, u string) {
	m.now = m.now.Add(30 * time.Millisecond)
	m.conn++
	p := m.pages[u]
	m.r.Requests = append(m.r.Requests, record.Request{From: "notifier-a", Host: "127.1.1.1:8001", Address: "127.1.1.1:8001", Conn: m.conn,
		Method: "GET", URL: u, Began: m.now, Ended: m.now.Add(time.Millisecond), Status: 200, Sum: m.sum(p.body), Size: int64(len(p.body))})
	m.now = m.now.Add(5 * time.Millisecond)
	m.r.Given = append(m.r.Given, record.Given{At: m.now, Site: siteA, To: follow.name, Door: "page", URL: u, Sum: m.sum(p.body)},
		record.Given{At: m.now, Site: siteA, To: "reader", Door: "stream", URL: u})
	m.now = m.now.Add(time.Millisecond)
	m.keep(follow, u, p.body, false, "response")
	m.fetch(run, u)
}

func (m *model) moved(k *keeper, u, v string) {
	m.now = m.now.Add(50 * time.Millisecond)
	s := k.held[u]
	delete(k.held, u)
	s.Stored = m.now
	m.event(k, record.Event{Op: "move", URL: v, From: u, Sum: s.Sum})
	m.store(k, v, s, "revisit")
}

// account writes a crawler's final reports.
func (m *model) account(k *keeper) {
	c := m.copyOf(k.name)
	c.Pages = maps.Clone(k.held)
	a := record.Account{Why: map[string]string{}}
	for _, u := range slices.Sorted(maps.Keys(k.held)) {
		s := k.held[u]
		raw, _ := hex.DecodeString(s.Sum)
		row := map[string]any{"url": u, "state": "held", "status": 200.0, "digest": "sha-256=:" + base64.StdEncoding.EncodeToString(raw) + ":"}
		why := map[string]any{"url": u, "known": true, "state": "held", "rules": []string{"robots.txt allows it"}}
		if s.Truncated {
			row["truncated"] = true
			why["rules"] = []string{"cut after 1000 bytes: --max-file"}
		}
		if x, ok := k.place[u]; ok {
			row["stored"] = map[string]any{"file": "warc/" + x.File, "offset": float64(x.Offset)}
		}
		b, _ := json.Marshal(why)
		a.Pages, a.Why[u] = append(a.Pages, row), string(b)
	}
	held := len(a.Pages)
	if k.kind == "crawl" {
		a.Pages = append(a.Pages, map[string]any{"url": siteB + "missing.html", "state": "refused", "status": 404.0})
	}
	a.Status = map[string]any{"known": float64(len(a.Pages)), "held": float64(held), "gone": 0.0, "of": 1.0, "cursor": fmt.Sprintf("ep:%d", k.seq)}
	a.Sites = []map[string]any{{"origin": strings.TrimSuffix(k.site, "/"), "pages": float64(len(a.Pages)), "held": float64(held)}}
	if k.kind == "follow" {
		c.Files = map[string]string{}
		for u, s := range k.held {
			c.Files[strings.TrimPrefix(u, k.site)+"#"] = s.Sum
		}
	}
	m.r.Accounts[k.name] = a
}
