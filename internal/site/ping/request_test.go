package ping_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
)

func TestBadRequestsAreRefused(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		for _, c := range []struct {
			name, value string
			status      int
		}{
			{"hub.mode", "publish", 400},
			{"hub.mode", "", 400},
			{"hub.topic", base + "secret.html", 404},
			{"hub.topic", "", 404},
			{"hub.callback", "", 400},
			{"hub.callback", "reader.example/cb", 400},
			{"hub.callback", "ftp://reader.example/cb", 400},
			{"hub.callback", "file:///etc/passwd", 400},
			{"hub.callback", "https://user:pass@reader.example/cb", 400},
			{"hub.callback", "https://reader.example/cb#part", 400},
			{"hub.callback", "https://reader.example:22/cb", 400},
			{"hub.callback", "https://reader.example:99999/cb", 400},
			{"hub.callback", "http://127.0.0.1/cb", 400},
			{"hub.callback", "http://[::1]:8080/cb", 400},
			{"hub.callback", "http://10.1.2.3/cb", 400},
			{"hub.callback", "http://169.254.169.254/latest/meta-data/", 400},
			{"hub.callback", "http://[::ffff:192.168.0.1]/cb", 400},
			{"hub.callback", "https://reader.example/" + strings.Repeat("x", 2048), 400},
			{"hub.secret", strings.Repeat("s", 200), 400},
			{"hub.lease_seconds", "-1", 400},
			{"hub.lease_seconds", "for ever", 400},
			{"hub.lease_seconds", "1e3", 400},
		} {
			check(t, c.name+"="+c.value, w.ask(c.name, c.value), c.status)
		}
		for _, c := range []struct {
			body, contentType string
			status            int
		}{
			{"", "application/x-www-form-urlencoded", 400},
			{"hub.mode=subscribe&hub.mode=unsubscribe", "application/x-www-form-urlencoded", 400},
			{"%zz", "application/x-www-form-urlencoded", 400},
			{"{}", "application/json", 415},
			{"", "", 415},
			{"hub.mode=" + strings.Repeat("x", 20<<10), "application/x-www-form-urlencoded", 413},
		} {
			status, _ := post(w.hub, c.body, c.contentType)
			check(t, fmt.Sprintf("%.40q as %s", c.body, c.contentType), status, c.status)
		}
		rec := httptest.NewRecorder()
		w.hub.ServeHTTP(rec, httptest.NewRequest("GET", "/parley/hub", nil))
		check(t, "GET", rec.Code, 405)
		pass(time.Minute)
		check(t, "asked", len(w.sub.modes()), 0)
		check(t, "notes", w.hubNotes(), 0)
	})
}

func TestHubIsBounded(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.stop()
		w.hub = &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client(), MaxSubscriptions: 6, PerHost: 4}}
		// Without verifications, requests wait up to a limit, and further ones are rejected.
		count := func(host string, n int) string {
			answers := make(map[int]int)
			for i := range n {
				answers[w.ask("hub.callback", fmt.Sprintf("https://%s/%d", host, i))]++
			}
			return fmt.Sprint(answers)
		}
		check(t, "requests for one host", count("reader.example", 10), "map[202:4 429:6]")
		check(t, "the same again", count("reader.example", 4), "map[202:4]")
		w.stop = run(t, w.hub)
		pass(2 * time.Minute)
		check(t, "too many for one host", w.ask("hub.callback", "https://reader.example/5"), 429)
		newSubscriber(w.world, w.feeds, "other.example")
		for i, want := range []int{202, 202, 503} {
			check(t, "of another host", w.ask("hub.callback", fmt.Sprint("https://other.example/", i)), want)
			pass(time.Minute)
		}
		// Existing subscribers can still renew and unsubscribe.
		check(t, "renewal", w.ask("hub.callback", "https://reader.example/0"), 202)
		check(t, "leaving", w.ask("hub.callback", "https://reader.example/1", "hub.mode", "unsubscribe"), 202)
		pass(time.Minute)
		check(t, "in its place", w.ask("hub.callback", "https://other.example/3"), 202)
		pass(time.Minute)
		// A flood of requests does not cause a flood of verifications.
		before := len(w.sub.modes())
		for i := range 1000 {
			w.ask("hub.callback", "https://reader.example/0", "hub.mode", []string{"subscribe", "unsubscribe"}[i%2])
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(w.sub.modes()) - before; n > 30 {
			t.Errorf("%d verifications within ten seconds", n)
		}
	})
}

// A client that names callbacks on many hosts takes no slots from others.
func TestHubIsBoundedPerClient(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.stop()
		who := "one"
		w.hub = &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client(), MaxSubscriptions: 40,
			Client: func(*http.Request) string { return who }}}
		count := func(n int) string {
			answers := make(map[int]int)
			for i := range n {
				answers[w.ask("hub.callback", fmt.Sprintf("https://%s%d.example/", who, i))]++
			}
			return fmt.Sprint(answers)
		}
		check(t, "one client names 200 hosts", count(200), "map[202:10 429:190]")
		who = "two"
		check(t, "another client", count(3), "map[202:3]")
		w.stop = run(t, w.hub)
		for i := range 10 {
			newSubscriber(w.world, w.feeds, fmt.Sprintf("one%d.example", i))
		}
		who = "one"
		pass(20 * time.Minute)
		got := 0
		for range 10 { // verified now, and renewed for ever
			w.ask("hub.callback", "https://one0.example/")
			if w.ask("hub.callback", fmt.Sprintf("https://one%d.example/more", got)) == 202 {
				got++
			}
			pass(2 * time.Minute)
		}
		st := must.Get(w.hub.Status())
		n := 0
		for _, s := range st.Subscriptions {
			if strings.HasPrefix(s.Callback, "https://one") {
				n++
			}
		}
		if n > 10 {
			t.Errorf("one client has %d of 40 subscriptions", n)
		}
	})
}

// Over real connections: callbacks on this machine are not called, under any host name, unless that is
// allowed.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	for _, allow := range []bool{false, true} {
		t.Run(fmt.Sprint("allowed ", allow), func(t *testing.T) {
			w := newWorld(t)
			f := &feeds{versions: make(map[string][]string)}
			f.publish(feedTopic, "first")
			s := &subscriber{t: t, feeds: f, secrets: make(map[string]string)}
			var calls atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				resp, err := s.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				rw.WriteHeader(resp.StatusCode)
				io.Copy(rw, resp.Body)
			}))
			defer web.Close()
			hub := &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: f.topic, AllowPrivate: allow, Debounce: time.Millisecond, Log: w.log}}
			stop := run(t, hub)
			defer stop()
			own := strings.Replace(web.URL, "127.0.0.1", "localhost", 1) + "/cb"
			status, body := post(hub, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {feedTopic}, "hub.callback": {own}}.Encode(), "application/x-www-form-urlencoded")
			check(t, body, status, 202)
			until(t, func() bool {
				st, err := hub.Status()
				return err == nil && (len(st.Subscriptions) == 0 || st.Subscriptions[0].Waiting == "")
			})
			f.publish(feedTopic, "second")
			w.change(create("second"))
			if allow {
				until(t, func() bool { return len(s.have("/cb")) == 1 })
				return
			}
			st := must.Get(hub.Status())
			check(t, "subscriptions", len(st.Subscriptions), 0)
			check(t, "calls", calls.Load(), 0)
		})
	}
}

// until waits up to a minute for a condition.
func until(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the subscription was never confirmed")
		}
	}
}

func FuzzHubRequest(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=" + url.QueryEscape(feedTopic) + "&hub.callback=" + url.QueryEscape(callback) + "&hub.lease_seconds=300&hub.secret=s")
	f.Add("hub.mode=unsubscribe&hub.topic=" + url.QueryEscape(feedTopic) + "&hub.callback=http%3A%2F%2F%5B%3A%3A1%5D%2F")
	f.Add("hub.mode=subscribe&hub.callback=https%3A%2F%2Freader.example%3A0%2F&hub.topic=" + url.QueryEscape(feedTopic))
	f.Add("hub.mode=publish&hub.url=x")
	f.Add("&&==%00")
	w := newWorld(f)
	hub := &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: (&feeds{}).topic, MaxSubscriptions: 1 << 30, PerHost: 1 << 30}}
	f.Fuzz(func(t *testing.T, form string) {
		status, _ := post(hub, form, "application/x-www-form-urlencoded")
		switch status {
		case 202, 400, 404, 413, 429, 503:
		default:
			t.Errorf("%q: %d", form, status)
		}
		st := must.Get(hub.Status())
		for _, s := range st.Subscriptions {
			u, err := url.Parse(s.Callback)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || s.Topic != feedTopic {
				t.Errorf("%q became a subscription of %q to %q", form, s.Callback, s.Topic)
			}
		}
	})
}
