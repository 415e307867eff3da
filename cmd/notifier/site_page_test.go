package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// page returns the page about the site.
func (s *sidecar) page(header ...string) string {
	s.Helper()
	code, text := ask(s.T, "GET", "http://"+s.admin+"/", "", append(header, "Accept", "text/html")...)
	if code != 200 {
		s.Errorf("the page: %d: %s", code, text)
	}
	return text
}

// press sends a form of the page, as a browser does, and returns the answer.
func (s *sidecar) press(task string, fields ...string) (int, string) {
	s.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return ask(s.T, "POST", "http://"+s.admin+"/do/"+task, form.Encode(), "Content-Type", "application/x-www-form-urlencoded",
		"Origin", "http://"+s.admin, "Accept", "text/html")
}

// shows waits until the page contains a text.
func (s *sidecar) shows(what, text string) {
	s.Helper()
	s.Log("waiting until the page shows " + what)
	until(s.T, func() bool {
		code, page := get("http://" + s.admin + "/")
		return code == 200 && strings.Contains(page, text)
	})
}

// Somebody who runs a site looks at its page: a crawler listens, an edit reaches it, most pages vanish, and a button accepts that.
func TestSitePage(t *testing.T) {
	files := map[string]string{"robots.txt": "User-agent: *\nDisallow: /private/\n"}
	for i := range 40 {
		files[fmt.Sprintf("p/%d.html", i)] = text(fmt.Sprint(i))
	}
	s := startSidecar(t, files, "--sitemap", filepath.Join(t.TempDir(), "sitemap.xml"), "--versions", "1MB", "--serve-pages", "--trust-docroot")
	if page := s.page(); !strings.Contains(page, "Nothing needs a person.") || !strings.Contains(page, ">Nobody is connected now.") ||
		!strings.Contains(page, "<dt>Pages</dt><dd>40</dd>") || !strings.Contains(page, "No change has been recorded since the first scan.") || !strings.Contains(page, "<bdi>sitemap</bdi>") ||
		!strings.Contains(page, "A client that polls the pages instead makes 40 requests each time") {
		t.Errorf("at first: %s", page)
	}

	start := s.head()
	conn := must.Get(wsconn.Dial(t.Context(), s.base+"parley/stream?after="+start.String(), http.Header{"User-Agent": {"<b>NiceBot</b>" + strings.Repeat("x", 10_000)}}, nil,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage}))
	defer conn.Close(1000, "")
	s.shows("a listener", "&lt;b&gt;NiceBot&lt;/b&gt;xxx")
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	go func() { // a long poll, for which none of the changes is
		r, err := http.NewRequestWithContext(ctx, "GET", s.base+"parley/changes?wait=60&op=delete&after="+start.String(), nil)
		if err != nil {
			panic(err)
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	s.shows("another listener", "long poll")
	s.write("p/1.html", strings.Replace(text("1"), "A page", `<img src=x onerror=alert(1)>`+strings.Repeat("y", 100_000), 1))
	if _, err := conn.Read(t.Context()); err != nil { // the hello
		t.Fatal(err)
	}
	s.shows("the change", "<bdi>/p/1.html</bdi>")
	s.shows("how far it has come", `data-label="Reached">2 of 2</td>`)
	s.shows("that nobody lacks anything", "2 connected; all have every change.")
	hangUp()
	if page := s.page(); strings.Contains(page, "<img") || strings.Contains(page, "<b>Nice") || len(page) > 60_000 {
		t.Errorf("%d bytes, with hostile text: %s", len(page), page)
	}

	// A robots.txt that allows more waits, unless a person knows better.
	s.write("robots.txt", "User-agent: *\nDisallow: /other/\n")
	s.press("look")
	s.shows("new rules that wait", "new permissions 60 s later")
	if code, answer := s.press("robots-now"); code != 409 || !strings.Contains(answer, "check the box") {
		t.Errorf("robots-now without a confirmation: %d: %s", code, answer)
	}
	seen := s.robots()
	if code, answer := s.press("robots-now", "sure", "yes"); code != 409 {
		t.Errorf("robots-now by somebody who has not seen the state of robots.txt: %d: %s", code, answer)
	}
	until(t, func() bool { return !strings.Contains(seen, time.Now().UTC().Format(time.RFC3339)) })
	s.write("robots.txt", "User-agent: *\nDisallow: /another/\n")
	if code, answer := s.press("robots-now", "sure", "yes", "seen", seen); code != 409 || !strings.Contains(answer, "look again") {
		t.Errorf("robots-now just after another edit: %d: %s", code, answer)
	}
	if code, answer := s.press("robots-now", "sure", "yes", "seen", s.robots()); code != 200 || !strings.Contains(answer, "The site was scanned") {
		t.Errorf("robots-now: %d: %s", code, answer)
	}
	s.shows("after that", "Nothing needs a person.")

	// If the site cannot be scanned, nobody knows what the button is about.
	s.write("robots.txt", "User-agent: *\nDisallow: /third/\n")
	s.press("look")
	seen = s.robots()
	away := s.root + "-away"
	must.OK(t, os.Rename(s.root, away))
	for task, seen := range map[string]string{"robots-now": seen, "accept-deletions": "0"} {
		if code, answer := s.press(task, "sure", "yes", "seen", seen); code != 409 || strings.Contains(answer, "look again") {
			t.Errorf("%s without a docroot: %d: %s", task, code, answer)
		}
	}
	must.OK(t, os.Rename(away, s.root))
	if s.press("look"); s.robots() != seen {
		t.Errorf("robots.txt after that: %q, not %q", s.robots(), seen)
	}
	if code, answer := s.press("robots-now", "sure", "yes", "seen", s.robots()); code != 200 {
		t.Errorf("robots-now: %d: %s", code, answer)
	}

	// Most pages vanish. The button wants a confirmation, by somebody who has seen how many there are.
	for i := 15; i < 40; i++ {
		must.OK(t, os.Remove(filepath.Join(s.root, fmt.Sprintf("p/%d.html", i))))
	}
	s.shows("a mass disappearance", "25 pages are missing: if they were deleted on purpose")
	s.shows("the missing pages", "<summary>Missing pages, the first 20</summary><ul><li><bdi>/p/15.html</bdi></li>")
	for _, tt := range []struct {
		fields []string
		want   string
	}{
		{nil, "check the box"},
		{[]string{"seen", "25"}, "check the box"},
		{[]string{"sure", "yes"}, "look again"},
		{[]string{"sure", "yes", "seen", "24"}, "it is about 25 pages now, and the page showed 24"},
	} {
		if code, answer := s.press("accept-deletions", tt.fields...); code != 409 || !strings.Contains(answer, tt.want) {
			t.Errorf("accept deletions with %q: %d: %s", tt.fields, code, answer)
		}
	}
	must.OK(t, os.Remove(filepath.Join(s.root, "p/14.html")))
	if code, answer := s.press("accept-deletions", "sure", "yes", "seen", "25"); code != 409 || !strings.Contains(answer, "it is about 26 pages now") {
		t.Errorf("accept deletions just after another one: %d: %s", code, answer)
	}
	if code, answer := s.press("accept-deletions", "sure", "yes", "seen", "26"); code != 200 || !strings.Contains(answer, "gone 26") {
		t.Errorf("accept deletions: %d: %s", code, answer)
	}
	s.shows("after that", "Nothing needs a person.")
	s.shows("after that", "<dt>Pages</dt><dd>14</dd>")

	// The other buttons.
	for task, want := range map[string]string{"look": "The site was scanned", "self-check": "14 of 14 pages were checked", "recheck": "The notifier checks", "purge": "discarded"} {
		if code, answer := s.press(task, "url", s.base+"p/1.html"); code != 200 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d: %s", task, code, answer)
		}
	}
	if code, answer := s.press("purge", "url", "https://elsewhere.example/"); code != 409 || !strings.Contains(answer, "is not a page of "+s.base) {
		t.Errorf("purge of a page of another site: %d: %s", code, answer)
	}
	for _, task := range []string{"does", "accept-refusals", "nothing"} {
		if code, _ := s.press(task); code != 409 {
			t.Errorf("%s: %d", task, code)
		}
	}

	// Other sites, and names that lead here, get nothing.
	for _, header := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, nil} {
		if code, _ := ask(t, "POST", "http://"+s.admin+"/api/look", "", header...); code != 403 {
			t.Errorf("a POST with %q: %d", header, code)
		}
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), "GET", "http://"+s.admin+"/", nil))
	r.Host = "evil.example"
	resp := must.Get(http.DefaultClient.Do(r))
	resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("with another Host: %d", resp.StatusCode)
	}
}

// robots returns the state of robots.txt; empty if nothing waits.
func (s *sidecar) robots() string {
	s.Helper()
	var status siteflags.RobotsStatus
	code, text := get("http://" + s.admin + "/api/robots")
	if err := json.Unmarshal([]byte(text), &status); err != nil || code != 200 {
		s.Fatalf("robots.txt: %d, %v: %s", code, err, text)
	}
	return status.Robots
}

// head returns the newest cursor.
func (s *sidecar) head() protocol.Cursor {
	s.Helper()
	var status server.Status
	code, text := get("http://" + s.admin + "/api/status")
	if err := json.Unmarshal([]byte(text), &status); err != nil || code != 200 {
		s.Fatalf("status: %d, %v: %s", code, err, text)
	}
	return status.Head
}

// With a token, the page is for those who have it; metrics and health are for all. A log shows what crawlers cost.
func TestSitePageWithToken(t *testing.T) {
	dir := t.TempDir()
	const token = "0123456789abcdef"
	for name, text := range map[string]string{"tokens": "# admins\n" + token + "\n", "access.log": accessLog(40)} {
		must.Write(t, filepath.Join(dir, name), text)
	}
	s := startSidecar(t, map[string]string{"a.html": text("a")}, "--admin-token", filepath.Join(dir, "tokens"), "--access-log", filepath.Join(dir, "access.log"))
	admin := "http://" + s.admin
	for path, want := range map[string]int{"/": 401, "/events": 401, "/api/status": 401, "/nothing": 401, "/metrics": 200, "/healthz": 200, "/admin.css": 200, "/admin.js": 200} {
		if code, answer := ask(t, "GET", admin+path, ""); code != want || strings.Contains(answer, "a.html") {
			t.Errorf("%s without a token: %d: %s", path, code, answer)
		}
	}
	if code, _ := ask(t, "POST", admin+"/api/look", "", "Authorization", "Bearer "+token); code != 200 {
		t.Errorf("a program scans: %d", code)
	}
	if code, answer := ask(t, "GET", admin+"/api/status", "", "Authorization", "Bearer "+token); code != 200 || !strings.Contains(answer, `"items":1`) {
		t.Errorf("a program reads the status: %d: %s", code, answer)
	}
	if code, _ := ask(t, "POST", admin+"/api/look", "", "Authorization", "Bearer "+token+"0"); code != 401 {
		t.Errorf("with a wrong token: %d", code)
	}
	resp := must.Get((&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(login(t, admin, token)))
	resp.Body.Close()
	if resp.StatusCode != 303 || len(resp.Cookies()) != 1 {
		t.Fatalf("login: %d, %v", resp.StatusCode, resp.Header)
	}
	cookie := []string{"Cookie", resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value}
	until(t, func() bool { return strings.Contains(s.page(cookie...), "Requests of crawlers") })
	if page := s.page(cookie...); !strings.Contains(page, "<bdi>Googlebot</bdi>") || !strings.Contains(page, "<dd>40<small>of 40 in 1 day<") || !strings.Contains(page, "Log out") {
		t.Errorf("the page: %s", page)
	}
}

func login(t *testing.T, admin, token string) *http.Request {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), "POST", admin+"/login", strings.NewReader("token="+token)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", admin)
	return r
}

// accessLog returns the lines of n requests of a crawler, now.
func accessLog(n int) string {
	return strings.Repeat(`66.249.66.1 - - [`+time.Now().Format("02/Jan/2006:15:04:05 -0700")+`] "GET /a.html HTTP/1.1" 200 5120 "-" "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"`+"\n", n)
}

// The notifier is stopped while it checks, for a viewer, a web server that does not answer.
func TestStopDuringACheck(t *testing.T) {
	asked, end := make(chan struct{}, 100), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-end
	}))
	defer web.Close()
	defer close(end)
	var answered sync.WaitGroup
	var stopped time.Time
	t.Run("check", func(t *testing.T) {
		s := startSidecar(t, map[string]string{"a.html": text("a")}, "--base", web.URL+"/", "--ask-rate", "0")
		answered.Go(func() {
			r, err := http.NewRequest("POST", "http://"+s.admin+"/do/self-check", nil)
			if err != nil {
				panic(err)
			}
			r.Header.Set("Origin", "http://"+s.admin)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		})
		<-asked
		stopped = time.Now()
	})
	answered.Wait()
	if took := time.Since(stopped); took > 5*time.Second {
		t.Errorf("the notifier ended %s after it was stopped", took)
	}
}

// A subscriber's callback may have a secret in it: the status says only where it leads.
func TestCallbacksAreNotShown(t *testing.T) {
	j, err := server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: "https://www.example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	const topic = "https://www.example.org/robots.rdf"
	hub := &ping.Hub{Options: ping.HubOptions{Journal: j, URL: "https://www.example.org/parley/hub", Topics: []string{topic},
		Topic: func(context.Context, string) (string, []byte, error) { return "", nil, nil }}}
	for _, callback := range []string{"https://c.example/secret?a=secret", "http://c.example:8080?a=secret"} {
		r := httptest.NewRequest("POST", "/parley/hub", strings.NewReader(url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if hub.ServeHTTP(w, r); w.Code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", callback, w.Code, w.Body)
		}
	}
	told := must.Get((&senders{hub: hub}).status())
	text, err := json.Marshal(told)
	if err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), `"callback":"https://c.example"`) || !strings.Contains(string(text), `"callback":"http://c.example:8080"`) {
		t.Errorf("%v: %s", err, text)
	}
}

// Crawlers subscribe at the site's own hub, and do not answer: that needs nobody who runs the site. Another hub that fails does.
func TestSubscribersThatFail(t *testing.T) {
	told := tellersStatus{WebSub: []ping.PingStatus{{Hub: "https://hub.example/", Trouble: "it answers 403"}}, Hub: &ping.HubStatus{}}
	for i := range 100 {
		told.Hub.Subscriptions = append(told.Hub.Subscriptions, ping.SubscriptionStatus{Callback: fmt.Sprintf("https://c%d.example/secret", i), Trouble: "it does not answer"})
	}
	v := &siteView{Senders: told.rows()}
	if needs := (&sitePage{}).needs(v, siteflags.RobotsStatus{}, deliveryStatus{}); len(v.Senders) != 101 || len(needs) != 1 || !strings.Contains(needs[0].Text, "403") {
		t.Errorf("of %d receivers, a person is needed for %+v", len(v.Senders), needs)
	}
}
