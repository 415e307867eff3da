package endtoend

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// moving is the former address of a site: it redirects to the new one, and counts the requests of the crawler.
type moving struct {
	to string

	mu    sync.Mutex
	asked []string // paths
}

func (m *moving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.UserAgent(), "Parley/") {
		m.mu.Lock()
		m.asked = append(m.asked, r.URL.Path)
		m.mu.Unlock()
	}
	http.Redirect(w, r, strings.TrimSuffix(m.to, "/")+r.URL.RequestURI(), http.StatusMovedPermanently)
}

// pages returns the requested paths that are no doors of a site.
func (m *moving) pages() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.asked), func(p string) bool {
		return p == "/robots.txt" || p == "/robots.rdf" || p == "/.well-known/parley" || strings.HasPrefix(p, "/parley/")
	})
}

// manifestAt returns the head of the manifest at a base URL.
func (r *rig) manifestAt(base string) protocol.Manifest {
	r.t.Helper()
	resp := must.Get(http.Get(base + "robots.rdf"))
	defer resp.Body.Close()
	return must.Get(protocol.ReadManifestHead(resp.Body, protocol.ManifestOptions{URL: base + "robots.rdf"}))
}

// A site moves to another address while a page is edited, and the old address redirects there. The running crawler goes over to the
// new one and fetches that page alone; started with the old address, it goes on at the new one.
func TestSiteMovesToAnotherAddress(t *testing.T) {
	r := newRig(t)
	for i := range 40 {
		r.write(fmt.Sprintf("d%d/p%d.html", i%4, i), fmt.Sprintf("<title>page %d</title><p>The page %d", i, i))
	}
	r.flags = []string{"--hurry", "50ms", "--preset", "high"}
	r.startNotifier()
	r.startCrawler("--hurry", "100ms")
	r.identical()
	old, was := r.base, r.manifestAt(r.base)

	// Without the option, the state is not taken for that of another site.
	r.notifier.stop()
	next := must.Get(front.Serve(r.root))
	defer next.Close()
	r.base, r.sidecar = next.Base, next.Sidecar
	if out, code := r.rdfgen(); code != 1 || !strings.Contains(out, "--moved-from "+old) {
		t.Errorf("rdfgen exits with %d: %s", code, out)
	}
	r.write("d1/p1.html", "<title>page 1</title><p>Edited while the site moved")
	r.flags = append(r.flags, "--moved-from", old)
	r.startNotifier()
	now := r.manifestAt(r.base)
	if now.Cursor.Epoch == was.Cursor.Epoch || now.Items != was.Items || !slices.Equal(now.Replaces, []string{old}) {
		t.Errorf("the manifest was %+v, and is %+v", was, now)
	}
	r.notifier.stop() // once more with the same options
	r.startNotifier()
	if again := r.manifestAt(r.base); again.Cursor.Epoch != now.Cursor.Epoch {
		t.Errorf("a second start with the same options begins another epoch: %v, was %v", again.Cursor, now.Cursor)
	}

	r.must(r.web.Close())
	ln := must.Get(net.Listen("tcp", strings.TrimSuffix(strings.TrimPrefix(old, "http://"), "/")))
	address := &moving{to: r.base}
	server := &http.Server{Handler: address}
	go server.Serve(ln)
	defer server.Close()
	kept := must.Get(os.Stat(filepath.Join(r.mirror, "d2/p2.html")))
	r.until("the crawler has moved", func() bool { return strings.Contains(r.crawler.said(), "the site has moved") })
	r.crawler.kill9() // perhaps before it has fetched anything there
	r.base = old      // on the command line
	r.startCrawler("--hurry", "100ms")
	r.identical()
	if got := next.Requests(); len(got) != 1 || got["/d1/p1.html"] > 2 {
		t.Errorf("requested from the new address: %v", got)
	}
	if is, err := os.Stat(filepath.Join(r.mirror, "d2/p2.html")); err != nil || !os.SameFile(kept, is) {
		t.Errorf("an unchanged page was written again: %v", err)
	}

	r.write("d3/new.html", "<p>written at the new address")
	r.identical()
	r.crawler.kill9()
	r.write("d3/new.html", "<p>edited while nobody followed")
	r.startCrawler("--hurry", "100ms")
	r.identical()
	if got := next.Requests(); got["/d3/new.html"] > 2 || len(got) > 1 {
		t.Errorf("requested after the move: %v", got)
	}
	if got := address.pages(); len(got) > 0 {
		t.Errorf("pages requested from the old address: %q", got)
	}
	out, code := run(t, "crawler", "status", r.mirror)
	if code != 0 || !strings.Contains(out, next.Base) {
		t.Errorf("crawler status exits with %d: %s", code, out)
	}
}
