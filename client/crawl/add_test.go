package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// A page that a person adds is fetched next, though its site has many other due pages, and
// though it was handed out with them already.
func TestAddedPageIsFetchedNext(t *testing.T) {
	const pages = 200
	all := map[string]string{}
	var links []string
	for i := range pages {
		links = append(links, fmt.Sprintf("/p%d.html", i))
		all[links[i]] = page(links[i])
	}
	all["/"] = page("home", links...)
	w := newWeb(t, all)
	var mu sync.Mutex
	var order []string
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		mu.Lock()
		order = append(order, req.URL.Path)
		mu.Unlock()
		w.ServeHTTP(rw, req)
	})
	asked := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(order)
	}
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	c := crawler(col, w.URL+"/")
	c.Once, c.Harvester.Options.Wait, c.Harvester.Options.WaitBig = false, 20*time.Millisecond, 20*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { cancel(); <-done }()
	until := func(what string, cond func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("timed out waiting until %s: %v", what, asked())
			}
		}
	}
	until("pages are fetched", func() bool { return len(asked()) > 10 })
	var wanted string
	for i := pages - 1; i >= 0; i-- {
		if wanted = fmt.Sprintf("/p%d.html", i); !slices.Contains(asked(), wanted) {
			break
		}
	}
	if _, err := c.Add(ctx, []string{w.URL + wanted}); err != nil {
		t.Fatal(err)
	}
	before := len(asked())
	until("the added page is fetched", func() bool { return slices.Contains(asked(), wanted) })
	if at := slices.Index(asked(), wanted); at > before+2 {
		t.Errorf("%d other pages were fetched before it", at-before)
	}
}
