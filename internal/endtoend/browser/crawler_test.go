package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Somebody watches a crawler: it fetches a site, is paused and resumed, explains a page, and gets another scope, while nothing that was
// typed is lost.
func TestCrawlPage(t *testing.T) {
	b := openBrowser(t)
	var requests atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case r.URL.Path == "/":
			fmt.Fprint(w, "<html lang=en><title>Home</title>")
			for i := range 200 {
				fmt.Fprintf(w, "<a href=/articles/%d.html>%[1]d</a> ", i)
			}
		case strings.HasPrefix(r.URL.Path, "/articles/"):
			fmt.Fprintf(w, "<html lang=en><title>%s</title><p>An article, at %[1]s, of some length.", r.URL.Path)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	admin := freeAddress(t)
	origin := "http://" + admin
	stop := start(t, "crawler", "run", site.URL+"/", dead.URL+"/", "--into", filepath.Join(t.TempDir(), "crawl"), "--allow-private", "--wait", "0", "--hurry", "100ms", "--admin", admin, "--log-level", "error")
	answers(t, origin+"/healthz", http.StatusOK)

	b.do(chromedp.Navigate(origin + "/"))
	b.until("the page is live", `document.getElementById("state").textContent === "Live"`)
	b.painted("crawl", origin+"/")
	b.until("the site is stored", `document.getElementById("live-crawl").innerText.includes("201")`)
	b.until("the dead site", fmt.Sprintf(`document.getElementById("live-sites").innerText.includes(%q) && document.getElementById("live-errors").innerText.includes("refused")`, dead.URL))
	b.looks("crawl")
	stops := b.tabs()
	if len(stops) < 20 || stops[0] != "Skip to the content" || !strings.Contains(strings.Join(stops, "|"), "|Explain|") || stops[len(stops)-1] != "Set the scope" {
		t.Errorf("the keyboard stops at %q", stops)
	}

	// The site is paused while somebody types an address.
	b.do(chromedp.SendKeys("#pause-site", site.URL), chromedp.Click(`form[action="/do/pause"] button`))
	b.until("the answer", `document.body.innerText.includes("is paused")`)
	b.do(chromedp.Click("main a"))
	b.until("the pause", `document.getElementById("live-needs")?.innerText.includes("is paused")`)
	before := requests.Load()
	b.do(chromedp.SendKeys("#add", site.URL+"/articles/7.html"), chromedp.Click(`form[action="/do/add"] button`))
	b.until("the answer", `document.body.innerText.includes("Fetched next: 1.")`)
	b.do(chromedp.Click("main a"))
	b.until("what is due", `document.getElementById("live-needs")?.innerText.includes("is paused")`)
	b.looks("crawl-paused")
	if n := requests.Load() - before; n > 0 {
		t.Errorf("the paused site got %d requests", n)
	}
	b.do(chromedp.Focus("#why-url"), chromedp.SendKeys("#why-url", site.URL+"/articles/7"))
	answers(t, origin+"/api/status", http.StatusOK)
	b.do(chromedp.SendKeys("#why-url", ".html"+kb.Enter))
	b.until("the explanation", `document.body.innerText.includes("A person has paused") || document.body.innerText.includes("a person has paused its site")`)
	b.looks("crawl-why")
	b.do(chromedp.Click("main a"))
	b.until("the page is live again", `document.getElementById("state")?.textContent === "Live"`)
	b.do(chromedp.Click(`#live-needs button`))
	b.until("the answer", `document.body.innerText.includes("no site is paused")`)
	b.do(chromedp.Click("main a"))
	b.until("the page that was added", `document.getElementById("live-needs")?.innerText.includes("Nothing needs a person")`)

	b.do(chromedp.SendKeys("#reject", "/articles/1"+kb.Enter+"/articles/2"), chromedp.Click(`form[action="/do/scope"] button`))
	b.until("the answer", `document.body.innerText.includes("reject=/articles/1 reject=/articles/2")`)
	b.do(chromedp.Click("main a"))
	b.until("the scope", `document.getElementById("reject")?.value === "/articles/1\n/articles/2"`)
	b.clean(origin)
	stop()
	b.until("the end of the crawler", `document.getElementById("state").textContent.startsWith("Not live")`)
}
