package crawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
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
			html(rw, page("door", fmt.Sprintf("/p0.php?PHPSESSID=%d", n)))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			var given atomic.Int64
			w := newWeb(t, nil)
			w.answer(func(rw http.ResponseWriter, req *http.Request) bool {
				path := req.URL.Path
				if path != "/" && !strings.HasSuffix(path, ".php") {
					return false
				}
				var n, p int
				fmt.Sscan(req.URL.Query().Get("PHPSESSID"), &n)
				if n == 0 {
					refuse(rw, req, int(given.Add(1)))
					return true
				}
				fmt.Sscanf(path, "/p%d.php", &p)
				html(rw, page(path, fmt.Sprintf("p%d.php?PHPSESSID=%d", (p+1)%20, n), fmt.Sprintf("/p%d.php?PHPSESSID=%d", p*2%20, n), fmt.Sprintf("/?PHPSESSID=%d", n)))
				return true
			})
			col := crawled(t, w.URL+"/")
			for p := range every(t, col.Pages(t.Context())) {
				if p.State != collection.Held || strings.Contains(p.URL, "SESS") {
					t.Errorf("%s is %v (%s)", p.URL, p.State, p.Fault)
				}
			}
			if col.Len() != 21 {
				t.Errorf("%d pages", col.Len())
			}
			for path, n := range w.counts() {
				if strings.HasSuffix(path, ".php") && n != 1 || path == "/" && n > 2 {
					t.Errorf("%s was fetched %d times", path, n)
				}
			}
		})
	}
}
