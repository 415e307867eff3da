package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Somebody watches the page of a site: an edit appears by itself, while something is typed; pages vanish, and a button accepts that; the notifier ends.
func TestSitePage(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "docroot")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page := func(i, edition int) string {
		return fmt.Sprintf("<html lang=en><title>Page %d of a site with a long title</title>%s<p>Edition %d", i, strings.Repeat("<p>Words that stay as they are.", 50), edition)
	}
	for i := range 40 {
		write(fmt.Sprintf("articles/2026/%d.html", i), page(i, 1))
	}
	var lines strings.Builder
	for i, name := range []string{"Googlebot/2.1", "bingbot/2.0", "GPTBot/1.2", "ClaudeBot/1.0", "AhrefsBot/7.0"} {
		for n := range 40 - 7*i {
			fmt.Fprintf(&lines, "192.0.2.%d - - [%s] \"GET /articles/2026/%d.html HTTP/1.1\" %d 5120 \"-\" \"Mozilla/5.0 (compatible; %s)\"\n", i, now(), n%40, 200+104*(n%2), name)
		}
	}
	write("../access.log", lines.String())
	listen, admin := freeAddress(t), freeAddress(t)
	base, origin := "http://"+listen+"/", "http://"+admin
	stop := start(t, "notifier", "--docroot", root, "--base", base, "--state", filepath.Join(dir, "state"), "--listen", listen, "--admin", admin,
		"--serve-pages", "--trust-docroot", "--versions", "1MB", "--grace", "0", "--sitemap", filepath.Join(dir, "sitemap.xml"), "--atom", filepath.Join(dir, "news.atom"),
		"--webhook", "http://127.0.0.1:9/purge", "--on-change", "true", "--access-log", filepath.Join(dir, "access.log"), "--no-self-check", "--log-level", "error")
	answers(t, base+"robots.rdf", http.StatusOK)

	b.do(chromedp.Navigate(origin + "/"))
	b.until("the page is live", `document.getElementById("state").textContent === "Live"`)
	b.painted("site", origin+"/")
	b.until("the costs are read", `document.getElementById("live-crawlers").innerText.includes("Googlebot")`)

	// An edit appears, while somebody types in a section that changes too.
	b.do(chromedp.Focus("#purge"), chromedp.SendKeys("#purge", base+"articles"))
	write("articles/2026/3.html", page(3, 2))
	b.until("the edit", `document.getElementById("live-changes").innerText.includes("/articles/2026/3.html")`)
	before := value[string](b, `document.getElementById("live-delivery").innerText`)
	answers(t, base+"parley/changes?after="+value[string](b, "fetch('/api/status').then(r => r.json()).then(s => s.head)"), http.StatusOK)
	b.until("the delivery", fmt.Sprintf(`document.getElementById("live-delivery").innerText !== %q`, before))
	if got := value[string](b, `document.activeElement.id + " " + document.activeElement.value`); got != "purge "+base+"articles" {
		t.Errorf("after the section was replaced, the focus and the text are %q", got)
	}
	b.do(chromedp.SendKeys("#purge", "/2026/3.html"+kb.Enter))
	b.until("the answer", `document.body.innerText.includes("discarded") && document.title.startsWith("Done")`)
	b.looks("done")
	b.do(chromedp.Click("main a"))
	b.until("the page is live again", `document.getElementById("state")?.textContent === "Live"`)

	// Many pages vanish.
	for i := range 25 {
		if err := os.Remove(filepath.Join(root, fmt.Sprintf("articles/2026/%d.html", i))); err != nil {
			t.Fatal(err)
		}
	}
	b.until("the missing pages", `document.getElementById("live-needs").innerText.includes("25 pages are missing")`)
	b.until("the failing webhook", `document.getElementById("live-needs").innerText.includes("webhook")`)
	var polls sync.WaitGroup
	defer polls.Wait()
	for i, agent := range []string{"NiceBot/1.0 (+https://bot.example/about-this-crawler)", "<b>Rude</b>" + strings.Repeat("x", 500)} {
		r, err := http.NewRequest("GET", base+"parley/changes?wait=60&after="+value[string](b, "fetch('/api/status').then(r => r.json()).then(s => s.head)"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", agent)
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("2001:db8:0:%d::1", i))
		polls.Go(func() {
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		})
	}
	b.until("those who listen", `document.getElementById("live-listeners").innerText.includes("2 connected; all have every change.")`)
	b.looks("site")
	stops := b.tabs()
	if len(stops) < 12 || stops[0] != "Skip to the content" || !strings.Contains(strings.Join(stops, "|"), "|Announce the deletions|") || stops[len(stops)-1] != "Discard" {
		t.Errorf("the keyboard stops at %q", stops)
	}
	b.do(chromedp.Click(`#live-needs button`))
	if got := value[string](b, "location.pathname"); got != "/" {
		t.Errorf("without a confirmation the button led to %s", got)
	}
	b.do(chromedp.Click(`#live-needs input[name=sure]`), chromedp.Click(`#live-needs button`))
	b.until("the answer", `document.body.innerText.includes("gone 25")`)
	b.do(chromedp.Click("main a"))
	b.until("the deletions", `!document.getElementById("live-needs")?.innerText.includes("pages are missing") && document.getElementById("state")?.textContent === "Live"`)

	b.do(chromedp.Click("#pause"))
	b.until("a pause", `document.getElementById("state").textContent === "Paused"`)
	b.do(chromedp.Click("#pause"))
	b.until("its end", `document.getElementById("state").textContent === "Live"`)
	b.clean(origin)
	stop()
	b.until("the end of the notifier", `document.getElementById("state").textContent.startsWith("Not live")`)
	b.looks("not-live")
}

// With a token, the first page is a form.
func TestSiteLogin(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"index.html": "<title>One</title>", "../tokens": "0123456789abcdef\n"} {
		if err := os.MkdirAll(filepath.Join(dir, "docroot"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "docroot", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listen, admin := freeAddress(t), freeAddress(t)
	start(t, "notifier", "--docroot", filepath.Join(dir, "docroot"), "--base", "http://"+listen+"/", "--state", filepath.Join(dir, "state"), "--listen", listen, "--admin", admin,
		"--admin-token", filepath.Join(dir, "tokens"), "--no-self-check", "--log-level", "error")
	answers(t, "http://"+admin+"/healthz", http.StatusOK)
	b.do(chromedp.Navigate("http://" + admin + "/"))
	b.looks("login")
	b.do(chromedp.SendKeys("#token", "wrong"+kb.Enter))
	b.until("the refusal", `document.body.innerText.includes("none of the tokens")`)
	b.do(chromedp.Click("main a"), chromedp.SendKeys("#token", "0123456789abcdef"+kb.Enter))
	b.until("the page", `document.getElementById("state")?.textContent === "Live"`)
	if got := value[string](b, "document.cookie"); got != "" {
		t.Errorf("scripts see the cookie %q", got)
	}
	b.do(chromedp.Click(`form[action="/logout"] button`))
	b.until("the form again", `document.getElementById("token") !== null`)
}

// now is the time in an access log.
func now() string { return time.Now().Format("02/Jan/2006:15:04:05 -0700") }
