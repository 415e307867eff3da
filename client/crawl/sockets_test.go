package crawl_test

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
)

// A socketSite is a site on its own port.
type socketSite struct {
	origin string
	pages  map[string]string

	mu      sync.Mutex
	open    int // requests
	last    time.Time
	asked   map[string]int
	faults  []string
	connect int // connections
}

const (
	socketSites = 300
	socketWait  = 30 * time.Millisecond
)

func (s *socketSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	s.mu.Lock()
	if s.open++; s.open > 1 {
		s.faults = append(s.faults, "two at once: "+r.URL.Path)
	}
	// now minus s.last is an upper bound of the crawler's gap, whatever the scheduler
	// does: the crawler cannot have begun to wait before the last request arrived here.
	if gap := now.Sub(s.last); !s.last.IsZero() && gap < socketWait {
		s.faults = append(s.faults, fmt.Sprintf("%v after %v", r.URL.Path, gap))
	}
	s.last = now
	if len(s.asked) == 0 && r.URL.Path != "/robots.txt" {
		s.faults = append(s.faults, "before robots.txt: "+r.URL.Path)
	}
	s.asked[r.URL.Path]++
	body, ok := s.pages[r.URL.Path]
	s.mu.Unlock()
	if ok {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasSuffix(r.URL.Path, ".txt") {
			w.Header().Set("Content-Type", "text/plain")
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	} else {
		w.WriteHeader(http.StatusNotFound)
	}
	s.mu.Lock() // before the client can know that it has all of it
	s.open--
	s.mu.Unlock()
	fmt.Fprint(w, body)
}

// 300 sites on their own addresses and ports, over the real network stack:
// each gets polite requests, one for each of its pages, and none for forbidden
// URLs; and no connection is left open.
func TestRealSockets(t *testing.T) {
	var sites []*socketSite
	var servers []*http.Server
	var serving sync.WaitGroup
	var start []string
	for i := range socketSites {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.%d.%d:0", i/250, i%250+1))
		if err != nil { // a system with one loopback address
			if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Skip(err)
			}
		}
		s := &socketSite{origin: "http://" + l.Addr().String(), asked: map[string]int{}, pages: map[string]string{
			"/robots.txt": "User-agent: *\nDisallow: /private/\n",
			"/":           page(fmt.Sprint("home of ", i), "a.html", "b.html", "/private/x.html"),
			"/a.html":     page(fmt.Sprint("a of ", i), "/", "c.html"),
			"/b.html":     page(fmt.Sprint("b of ", i), "a.html", "private/y.html"),
			"/c.html":     page(fmt.Sprint("c of ", i)),
		}}
		if i > 0 {
			s.pages["/c.html"] = page(fmt.Sprint("c of ", i), sites[i-1].origin+"/")
		}
		sites = append(sites, s)
		server := &http.Server{Handler: s, ConnState: func(_ net.Conn, state http.ConnState) {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch state {
			case http.StateNew:
				s.connect++
			case http.StateClosed:
				s.connect--
			}
		}}
		servers = append(servers, server)
		serving.Go(func() { server.Serve(l) })
	}
	t.Cleanup(func() {
		for _, s := range servers {
			s.Close()
		}
		serving.Wait()
	})
	before := runtime.NumGoroutine()
	start = append(start, sites[socketSites-1].origin+"/") // each links to the one before
	for i := range socketSites {
		if i%3 == 0 {
			start = append(start, sites[i].origin+"/")
		}
	}
	c := crawler(t, "", start...)
	col := c.Collection
	c.Harvester.Options.Wait, c.Harvester.Options.Sites = socketWait, socketSites
	c.NoManifests, c.NoSitemaps, c.Patience = true, true, time.Millisecond
	finish(t, c)
	for _, s := range sites {
		s.mu.Lock()
		for _, f := range s.faults {
			t.Errorf("%s: %s", s.origin, f)
		}
		for path := range s.pages {
			if s.asked[path] != 1 {
				t.Errorf("%s%s was fetched %d times", s.origin, path, s.asked[path])
			}
		}
		for path := range s.asked {
			if strings.HasPrefix(path, "/private/") {
				t.Errorf("%s%s was fetched", s.origin, path)
			}
		}
		s.mu.Unlock()
		if st, _ := col.Site(s.origin); st.Held != 4 {
			t.Errorf("of %s %d pages are stored", s.origin, st.Held)
		}
	}
	var excluded int
	for p := range every(t, col.Pages(t.Context())) {
		if p.State == collection.Excluded {
			excluded++
		}
	}
	if excluded != 2*socketSites {
		t.Errorf("%d pages are excluded, want %d", excluded, 2*socketSites)
	}
	// The other ends notice it a moment later.
	until(t, c, "no connection is open, and no goroutine is left", func() bool {
		open := 0
		for _, s := range sites {
			s.mu.Lock()
			open += s.connect
			s.mu.Unlock()
		}
		return open == 0 && runtime.NumGoroutine() <= before
	})
}
