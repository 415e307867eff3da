package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
)

// fromEnv is a number from the environment: PARLEY_SITES (2000 takes minutes) and
// PARLEY_SEED make some tests larger, and other.
func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// scratch is a directory in memory, if there is such a place: beside virtual
// time nothing is as slow as a disk.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "parley")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A wildWeb is a fake Web whose sites change their robots.txt, disallow their
// sitemaps, feeds and doors in it, and sometimes do not serve it.
type wildWeb struct {
	*fakeweb.Web
	rand   *rand.Rand
	mu     sync.Mutex
	served map[*fakeweb.Site][]rules // each time robots.txt was asked for
	strict map[*fakeweb.Site]bool    // whose robots.txt differs from fakeweb's
	most   int                       // requests to a site without a gap
}

// rules are a site's response to a request for robots.txt.
type rules struct {
	status int // 0: half of it
	text   string
}

// newWild makes a Web of n sites of every kind. Every other one is twisted.
func newWild(n int, seed uint64, share int, own bool) *wildWeb {
	w := &wildWeb{Web: fakeweb.New(fakeweb.Options{Seed: seed, Sites: n, Pages: 8, Speak: 50, Share: share, Own: own}),
		rand: rand.New(rand.NewPCG(seed, 77)), served: map[*fakeweb.Site][]rules{}, strict: map[*fakeweb.Site]bool{}}
	for i, s := range w.Sites() {
		w.twist(s, i)
	}
	return w
}

// twist gives a site another robots.txt, or several.
func (w *wildWeb) twist(s *fakeweb.Site, i int) {
	r := rand.New(rand.NewPCG(uint64(i), 99))
	plain := s.Robots
	list := []rules{{200, plain}}
	if plain == "" {
		list[0].status = 404
	}
	group := "User-agent: parley\n"
	feed := `<link rel="alternate" type="application/rss+xml" href="`
	name := func(where string) {
		if body, ok := s.Body("/"); ok {
			s.Put("/", strings.Replace(body, "</head>", feed+where+`"></head>`, 1))
		}
	}
	more, turn := "", (3*(i%22)+i/22)%10 // each kind in another way
	switch {
	case turn == 1: // the feed may not be read
		name("/private/feed.xml")
		more = "Disallow: /private/\n"
	case turn == 2: // the sitemap and the manifest's doors may not be read
		more = "Disallow: /parley/\nDisallow: /hidden/\nSitemap: " + s.Origin + "/hidden/sitemap.xml\n"
	case turn == 3: // now this is forbidden, then that, and sometimes it is to be slow
		for range 5 {
			text := group + fmt.Sprintf("Disallow: /p%d\n", r.IntN(8))
			if r.IntN(2) == 0 {
				text += fmt.Sprintf("Crawl-delay: %d\n", 10+r.IntN(50))
			}
			if r.IntN(2) == 0 {
				text += "Disallow: /robots.rdf\nDisallow: /parley\nDisallow: /sitemap.xml\n"
			}
			list = append(list, rules{200, text}, list[0])
		}
	case turn == 4: // sometimes it is gone, and sometimes only half of it is sent
		list = append([]rules{{503, ""}, {0, plain}}, list[0], rules{500, ""}, rules{0, plain}, list[0], rules{404, ""})
	case turn == 5: // it is elsewhere
		list = []rules{{301, "/rules.txt"}}
		more = "Disallow: /p1\n"
	case turn == 6: // the sitemap is in a forbidden place
		more = "Disallow: /sitemap2.xml\n"
	case turn == 7: // a feed that may be read
		name("/feed.xml")
	case turn == 8 && s.Kind == fakeweb.Honest: // everything is forbidden
		list = []rules{{200, group + "Disallow: /\n"}}
	}
	for k := range list {
		if list[k].text == plain && list[k].status == 200 {
			list[k].text = group + strings.TrimPrefix(plain, "User-agent: *\n") + more
		}
	}
	w.strict[s] = len(list) > 1 || list[0].status != 200
	n := 0
	s.Handler = func(rw http.ResponseWriter, q *http.Request) bool {
		switch q.URL.Path {
		case "/robots.txt":
			w.mu.Lock()
			now := list[n%len(list)]
			n++
			w.served[s] = append(w.served[s], now)
			w.mu.Unlock()
			h := rw.Header()
			switch now.status {
			case 301:
				h.Set("Location", now.text)
			case 0:
				h.Set("Content-Length", strconv.Itoa(len(now.text)+100))
				now.status = 200
			}
			rw.WriteHeader(now.status)
			if now.status == 200 {
				fmt.Fprint(rw, now.text)
			}
		case "/rules.txt":
			fmt.Fprint(rw, group+"Disallow: /p1\n")
		case "/sitemap.xml":
			if turn != 6 {
				return false
			}
			http.Redirect(rw, q, "/sitemap2.xml", http.StatusFound)
		case "/feed.xml", "/private/feed.xml":
			rw.Header().Set("Content-Type", "application/rss+xml")
			fmt.Fprintf(rw, `<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>%s/</link><item><link>%s/p1.html</link><pubDate>%s</pubDate></item></channel></rss>`,
				s.Origin, s.Origin, time.Now().UTC().Format(time.RFC1123))
		default:
			return false
		}
		return true
	}
}

// manners are what a crawler promised.
type manners struct {
	wait, big time.Duration
	slow      bool
	atOnce    int                     // requests to one's own sites without a gap, on one connection
	pages     func(*fakeweb.Site) int // that were known at last
}

// faults returns the broken promises that the log shows, at most 20 of them.
func (w *wildWeb) faults(m manners) (list []string) {
	type state struct {
		last      fakeweb.Access
		until     time.Time // not to be asked before
		why       string
		robots    *robots.File // nil: nothing may be asked for
		asked     bool         // for robots.txt, ever
		half      bool         // it could not be had at last
		turn      int
		count     int // requests since the last gap
		forwarded bool
	}
	say := func(format string, args ...any) {
		if len(list) < 20 {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	sites, addresses, names := map[*fakeweb.Site]*state{}, map[netip.Addr]fakeweb.Access{}, map[netip.Addr]int{}
	for _, s := range w.Sites() {
		names[s.IP]++
	}
	slow := m.wait // of which a tenth is too long for another request without a gap
	if !m.slow {
		slow = math.MaxInt64
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.Log() {
		if a.Site == nil {
			say("no site: %s", a.Path)
			continue
		}
		s := sites[a.Site]
		if s == nil {
			s = &state{}
			sites[a.Site] = s
		}
		if !strings.Contains(a.Agent, "ParleyTest/1") || a.From != "test@example.net" {
			say("%v: agent %q from %q", a, a.Agent, a.From)
		}
		// Two at once, and too soon.
		if s.last.Site != nil && !s.last.Waits && (s.last.End.IsZero() || a.Begin.Before(s.last.End)) {
			say("two at once: %v; %v", s.last, a)
		}
		switch soon := a.Begin.Before(s.until); {
		case !soon:
			s.count = 0
		case s.count >= m.atOnce || !s.last.Prompt(a, slow) || s.robots != nil && s.robots.CrawlDelay("parley") > 0:
			say("%v too soon (%s): %v; %v", s.until.Sub(a.Begin), s.why, s.last, a)
		}
		s.count++
		w.most = max(w.most, s.count)
		// An address gets no more than each of its names would, and two requests a second in all.
		at := addresses[a.Site.IP]
		rate := min(harvest.DefaultAddressRate, float64(names[a.Site.IP])/min(m.wait, m.big).Seconds())
		pause := time.Duration(float64(time.Second)/rate) - time.Millisecond // which looking at a kept connection may take
		if d := a.Begin.Sub(at.Begin); at.Site != nil && d < pause && s.count == 1 {
			say("%v after %v to an address: %v; %v", d, pause, at, a)
		}
		if s.count == 1 {
			addresses[a.Site.IP] = a
		}
		// What robots.txt said last.
		path, _, _ := strings.Cut(a.Path, "?")
		switch {
		case path == "/robots.txt":
			s.asked = true
			if s.turn < len(w.served[a.Site]) {
				v := w.served[a.Site][s.turn]
				s.turn++
				s.forwarded = false
				switch {
				case v.status == 200:
					s.robots, s.half = robots.Parse([]byte(v.text)), false
				case v.status == 301:
					s.forwarded, s.half = true, true
				case v.status == 404:
					s.robots, s.half = &robots.File{}, false
				default:
					s.half = true
				}
			}
		case path == "/rules.txt" && s.forwarded:
			s.robots, s.half = robots.Parse([]byte("User-agent: *\nDisallow: /p1\n")), false
		case !s.asked:
			say("before robots.txt: %v", a)
		case s.half:
			say("though robots.txt could not be fetched: %v", a)
		case s.robots != nil && !s.robots.Allowed("parley", a.Path):
			say("forbidden: %v", a)
		}
		// When it may be asked next.
		gap, why := m.wait, "wait"
		if m.pages(a.Site) > harvest.BigSite {
			gap = min(gap, m.big)
		}
		end, took := a.End, time.Duration(0)
		if a.Waits {
			end = a.Begin
		} else {
			took = end.Sub(a.Begin)
		}
		if d := min(10*took, 5*time.Minute); m.slow && d > gap {
			gap, why = d, "slow"
		}
		if s.robots != nil {
			if d := min(s.robots.CrawlDelay("parley"), time.Hour); d > gap {
				gap, why = d, "crawl-delay"
			}
		}
		if a.Again > gap {
			gap, why = a.Again, "retry-after"
		}
		if until := end.Add(gap); until.After(s.until) {
			s.until, s.why = until, why
		}
		if !a.Waits {
			s.last = a
		}
	}
	return list
}

// complete looks for pages of honest sites that were not fetched.
func (w *wildWeb) complete(t *testing.T, col *collection.Collection) {
	for _, s := range w.Sites() {
		if s.Kind != fakeweb.Honest && s.Kind != fakeweb.Slow && s.Kind != fakeweb.Closing && s.Kind != fakeweb.Forbidding || w.strict[s] {
			continue
		}
		file := robots.Parse([]byte(w.served[s][0].text))
		for _, path := range s.Paths() {
			p := pageOf(t, col, s.Origin+path)
			if stored := p.URL != "" && p.State == collection.Held; stored != file.Allowed("parley", path) {
				t.Errorf("%s%s is %v: %s %v", s.Origin, path, p.State, p.Fault, p.Status)
			}
		}
	}
}

// disturb announces changes, true and false ones, and adds, edits and deletes pages.
func (w *wildWeb) disturb(ctx context.Context, c *crawl.Engine) {
	r, sites := w.rand, w.Sites()
	some := func() string {
		s := sites[r.IntN(len(sites))]
		paths := append(s.Paths(), s.Traps...)
		switch r.IntN(10) {
		case 0:
			return s.Origin + "/private/" + strconv.Itoa(r.IntN(9))
		case 1:
			return s.Origin + "/made/up/" + strconv.Itoa(r.IntN(9)) + ".html"
		case 2:
			return "http://nobody" + strconv.Itoa(r.IntN(9)) + ".example/"
		case 3:
			return "http://127.0.0.1/admin"
		case 4:
			return "not a URL"
		}
		return s.Origin + paths[r.IntN(len(paths))]
	}
	for pause.For(ctx, time.Duration(r.IntN(600))*time.Second) {
		var err error
		switch r.IntN(4) {
		case 0:
			var urls []string
			for range 1 + r.IntN(50) {
				urls = append(urls, some())
			}
			err = c.Notice(ctx, urls, collection.ByIndexNow)
		case 1:
			_, err = c.Add(ctx, []string{some(), some()})
		case 2, 3:
			s := sites[r.IntN(len(sites))]
			paths := s.Paths()
			if p := paths[r.IntN(len(paths))]; p != "/" && r.IntN(10) == 0 {
				s.Delete(p)
			} else if strings.HasPrefix(p, "/p") {
				s.Edit(p)
			}
		}
		if errors.Is(err, crawl.ErrRunning) {
			return // a crawl that has ended
		}
	}
}
