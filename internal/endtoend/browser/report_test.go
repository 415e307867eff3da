package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Somebody opens the report of a crawl of two sites, and one that compares it with another crawl: pages of one file each, without scripts.
func TestReportPage(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	crawler := built(t, "crawler")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(crawler, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("crawler %q: %v: %s", args, err, out)
		}
	}
	var sites [2]*httptest.Server
	for i := range sites {
		sites[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/gone") {
				http.NotFound(w, r)
				return
			}
			var n int
			fmt.Sscanf(r.URL.Path, "/%d", &n)
			fmt.Fprintf(w, `<html lang=%s><title>%d</title><p>%s<img src="/logo.png"><a href="/paper%d.pdf">paper</a><a href="/gone%d.html">gone</a>`,
				[]string{"en", "es", "de"}[n%3], n, strings.Repeat("some text of the page ", 1+n*n%97), n, n)
			for link := range 1 + n%7 {
				fmt.Fprintf(w, `<a href="/%d.html?page=%d">next</a><a href="/%d.html">another</a>`, 2*n+link+1, link, n/2)
			}
			if n%10 == 0 && i == 0 {
				fmt.Fprintf(w, `<a href="%s/">the other site</a>`, sites[1].URL)
			}
		}))
		t.Cleanup(sites[i].Close)
	}
	crawl := func(into string, pages int, starts ...string) {
		run(append([]string{"crawl", "--into", into, "--allow-private", "--wait", "0", "--max-pages", fmt.Sprint(pages)}, starts...)...)
	}
	crawl("crawl", 200, sites[0].URL+"/", sites[1].URL+"/")
	crawl("older", 100, sites[0].URL+"/")
	run("report", "crawl", "--html", "report.html", "--price-of-a-request", ".001")
	run("report", "crawl", "--against", "older", "--html", "compared.html")
	const want = "states status lengths depths languages degrees length_links scores pagerank_levels references media site_depths bowtie"
	for _, name := range []string{"report", "compared"} {
		if st, err := os.Stat(filepath.Join(dir, name+".html")); err != nil || st.Size() > 2_000_000 {
			t.Fatalf("%v %v", st, err)
		}
		b.do(chromedp.Navigate("file://" + filepath.Join(dir, name+".html")))
		if name == "report" {
			b.looks(name)
		}
		// What there is of one kind or at one depth alone, or of two sizes, is not drawn.
		drawn := value[string](b, `[...document.querySelectorAll("article:has(figure svg[role=img])")].map(a => a.id).join(" ")`)
		if drawn != want {
			t.Errorf("%s has drawings of %s, want %s", name, drawn, want)
		}
		if n := value[int](b, `document.scripts.length`); n != 0 {
			t.Errorf("%s has %d scripts", name, n)
		}
	}
	b.clean("file://" + dir)
}
