package crawl_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/client/collection"
)

// A site that serves nothing without a session is crawled all the same, each page
// under one name, with one request per page except the first (E30).
func TestSiteThatRequiresSessions(t *testing.T) {
	for kind, refuse := range map[string]func(http.ResponseWriter, *http.Request, int){
		"redirect": func(rw http.ResponseWriter, req *http.Request, n int) {
			http.Redirect(rw, req, fmt.Sprintf("%s?PHPSESSID=%d", req.URL.Path, n), http.StatusFound)
		},
		"refusal": func(rw http.ResponseWriter, req *http.Request, n int) {
			if req.URL.Path != "/" { // there must be an entry
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, page("door", fmt.Sprintf("/p0.php?PHPSESSID=%d", n)))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			var mu sync.Mutex
			given, asked := 0, map[string]int{}
			w := newWeb(t, map[string]string{})
			w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				path := req.URL.Path
				if path != "/" && !strings.HasSuffix(path, ".php") {
					http.NotFound(rw, req)
					return
				}
				asked[path]++
				var n, p int
				fmt.Sscan(req.URL.Query().Get("PHPSESSID"), &n)
				if n == 0 {
					given++
					refuse(rw, req, given)
					return
				}
				fmt.Sscanf(path, "/p%d.php", &p)
				rw.Header().Set("Content-Type", "text/html")
				fmt.Fprint(rw, page(path, fmt.Sprintf("p%d.php?PHPSESSID=%d", (p+1)%20, n), fmt.Sprintf("/p%d.php?PHPSESSID=%d", p*2%20, n), fmt.Sprintf("/?PHPSESSID=%d", n)))
			})
			col := open(t, filepath.Join(t.TempDir(), "crawl"))
			defer col.Close()
			if err := crawler(col, w.URL+"/").Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for p, err := range col.Pages(t.Context()) {
				if err != nil || p.State != collection.Held || strings.Contains(p.URL, "SESS") {
					t.Errorf("%s is %v (%s), %v", p.URL, p.State, p.Fault, err)
				}
			}
			if col.Len() != 21 {
				t.Errorf("%d pages", col.Len())
			}
			mu.Lock()
			defer mu.Unlock()
			for path, n := range asked {
				if path != "/" && n != 1 || n > 2 {
					t.Errorf("%s was fetched %d times", path, n)
				}
			}
		})
	}
}
