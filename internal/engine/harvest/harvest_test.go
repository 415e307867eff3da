package harvest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
)

func once(b *harvest.Batch) func(context.Context, bool) (*harvest.Batch, error) {
	return func(context.Context, bool) (*harvest.Batch, error) {
		given := b
		b = nil
		return given, nil
	}
}

func tasks(origin string, n int) []harvest.Task {
	list := make([]harvest.Task, n)
	for i := range list {
		list[i] = harvest.Task{URL: fmt.Sprintf("%s/%d.html", origin, i), Page: 1}
	}
	return list
}

// BenchmarkHarvest measures a page of 26 KB with client and server in one process,
// and net/http in the same setting.
func BenchmarkHarvest(b *testing.B) {
	page := []byte(strings.Repeat("x", 26<<10))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write(page)
	}))
	defer s.Close()
	b.Run("harvest", func(b *testing.B) {
		h := &harvest.Harvester{Options: harvest.Options{Wait: -1, Private: true}}
		good := 0
		b.ReportAllocs()
		batch := &harvest.Batch{Sites: []harvest.SiteBatch{{Site: 1, Origin: s.URL, Tasks: tasks(s.URL, b.N)}}}
		b.ResetTimer()
		err := h.Run(b.Context(), once(batch), func(a *harvest.Answer) {
			if a.Status == 200 && len(a.Body) == len(page) {
				good++
			}
			a.Release()
		})
		if err != nil || good != b.N {
			b.Fatal(good, err)
		}
	})
	b.Run("net-http", func(b *testing.B) {
		buf := make([]byte, 0, 1<<20)
		list := tasks(s.URL, b.N)
		b.ReportAllocs()
		b.ResetTimer()
		for _, t := range list {
			resp, err := s.Client().Get(t.URL)
			if err != nil {
				b.Fatal(err)
			}
			w := bytes.NewBuffer(buf[:0])
			n, err := io.Copy(w, resp.Body)
			resp.Body.Close()
			if err != nil || n != int64(len(page)) {
				b.Fatal(n, err)
			}
		}
	})
}

// Three hundred real listeners, each on its own address, never get two
// requests at once or too soon.
func TestRealListeners(t *testing.T) {
	const sites, pages, wait = 300, 3, 50 * time.Millisecond
	if l, err := net.Listen("tcp", "127.1.2.3:0"); err != nil {
		t.Skipf("this system has only one loopback address: %v", err)
	} else {
		l.Close()
	}
	type site struct {
		mu    sync.Mutex
		last  time.Time // when the last answer ended
		doing int
		asked int
	}
	b := &harvest.Batch{}
	known := map[string]*site{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := known[r.Host]
		s.mu.Lock()
		if gap := time.Since(s.last); s.doing > 0 || s.asked > 0 && gap < wait {
			t.Errorf("%s: request %v after the last, with %d others", r.Host, gap, s.doing)
		}
		s.doing++
		s.asked++
		s.mu.Unlock()
		io.WriteString(w, "<p>hello")
		http.NewResponseController(w).Flush()
		s.mu.Lock()
		s.doing--
		s.last = time.Now()
		s.mu.Unlock()
	})}
	defer server.Close()
	for i := range sites {
		l := must.Get(net.Listen("tcp", fmt.Sprintf("127.1.%d.%d:0", i/200, i%200+1)))
		known[l.Addr().String()] = &site{}
		origin := "http://" + l.Addr().String()
		b.Sites = append(b.Sites, harvest.SiteBatch{Site: frontier.SiteID(i + 1), Origin: origin, Tasks: tasks(origin, pages)})
		go server.Serve(l)
	}
	h := &harvest.Harvester{Options: harvest.Options{Private: true, Wait: wait, Slow: -1}}
	for url, a := range harvestAll(t, h, b) {
		if a.Status != 200 || string(a.Body) != "<p>hello" {
			t.Errorf("%s: %d %v", url, a.Status, a.Err)
		}
	}
	for host, s := range known {
		if s.asked != pages {
			t.Errorf("%s got %d requests", host, s.asked)
		}
	}
}
