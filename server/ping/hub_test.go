package ping_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/server/ping"
)

const ownHub = base + "parley/hub"

// feeds are the contents of topics, in all their versions.
type feeds struct {
	mu       sync.Mutex
	versions map[string][]string
	err      error
}

func (f *feeds) publish(topic, content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[topic] = append(f.versions[topic], content)
}

func (f *feeds) topic(_ context.Context, url string) (string, []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.versions[url]
	if len(v) == 0 || f.err != nil {
		return "", nil, errors.Join(f.err, errors.New("no content"))
	}
	return "application/atom+xml; charset=utf-8", []byte(v[len(v)-1]), nil
}

// A subscriber holds a hub against sections 5 to 8 of the specification.
type subscriber struct {
	t     testing.TB
	feeds *feeds

	mu      sync.Mutex
	secrets map[string]string // by callback
	verify  func(q url.Values) (int, string)
	mood    func() string // of a delivery; nil: 200
	asked   []url.Values
	got     []delivery
	kill    func()
}

// A delivery is one POST to a callback.
type delivery struct {
	at       time.Time
	callback string
	topic    string
	version  int // of the topic, from 1
	ok       bool
	n        int // its place among those of this callback and topic
}

var linkValue = regexp.MustCompile(`<([^>]*)>;\s*rel="?([a-z]+)"?`)

func newSubscriber(w *world, f *feeds, host string) *subscriber {
	s := &subscriber{t: w.t, feeds: f, secrets: make(map[string]string)}
	w.host(host, s)
	return s
}

func (s *subscriber) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return s.verification(r)
	}
	return s.delivery(r)
}

func (s *subscriber) verification(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	mode := q.Get("hub.mode")
	for name, values := range q {
		if strings.HasPrefix(name, "hub.") && len(values) != 1 {
			s.t.Errorf("%s stands %d times in a verification", name, len(values))
		}
	}
	switch {
	case q.Get("hub.topic") == "":
		s.t.Error("a verification without hub.topic")
	case mode == "denied":
	case len(q.Get("hub.challenge")) < 16:
		s.t.Errorf("hub.challenge %q can be guessed", q.Get("hub.challenge"))
	case mode == "subscribe":
		n, err := strconv.Atoi(q.Get("hub.lease_seconds"))
		if err != nil || n < 300 || n > 30*24*3600 {
			s.t.Errorf("hub.lease_seconds %q", q.Get("hub.lease_seconds"))
		}
	case mode == "unsubscribe":
	default:
		s.t.Errorf("hub.mode %q", mode)
	}
	s.mu.Lock()
	for _, was := range s.asked {
		if was.Get("hub.challenge") == q.Get("hub.challenge") && mode != "denied" {
			s.t.Error("a challenge was used twice")
		}
	}
	s.asked = append(s.asked, q)
	verify := s.verify
	s.mu.Unlock()
	if verify == nil {
		return response(r, 200, q.Get("hub.challenge")), nil
	}
	status, body := verify(q)
	switch status {
	case 0:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case 302:
		return response(r, 302, body, "Location", "https://internal.example/"), nil
	}
	return response(r, status, body), nil
}

func (s *subscriber) delivery(r *http.Request) (*http.Response, error) {
	t := s.t
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("delivery: %v", err)
	}
	links := make(map[string]string)
	for _, l := range r.Header.Values("Link") {
		for _, m := range linkValue.FindAllStringSubmatch(l, -1) {
			links[m[2]] = m[1]
		}
	}
	if links["hub"] != ownHub {
		t.Errorf("rel=hub is %q", links["hub"])
	}
	topic := links["self"]
	s.feeds.mu.Lock()
	version := slices.Index(s.feeds.versions[topic], string(body)) + 1
	s.feeds.mu.Unlock()
	if version == 0 {
		t.Errorf("delivery of what topic %q never was: %.80q", topic, body)
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/atom+xml; charset=utf-8" {
		t.Errorf("delivery as %q", ct)
	}
	callback := r.URL.String()
	s.mu.Lock()
	secret, mood := s.secrets[callback], "200"
	if s.mood != nil {
		mood = s.mood()
	}
	n := 0
	for _, d := range s.got {
		if d.callback == callback && d.topic == topic {
			n++
		}
	}
	ok := strings.HasPrefix(mood, "20") || mood == "kill"
	s.got = append(s.got, delivery{time.Now(), callback, topic, version, ok, n})
	s.mu.Unlock()
	if method, sum, _ := strings.Cut(r.Header.Get("X-Hub-Signature"), "="); secret == "" {
		check(t, "signature without a secret", method+sum, "")
	} else {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		check(t, "method of the signature", method, "sha256")
		check(t, "signature", sum, hex.EncodeToString(mac.Sum(nil)))
	}
	switch mood {
	case "kill":
		s.kill()
		return response(r, 200, ""), nil
	case "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "redirect":
		return response(r, 307, "", "Location", "https://internal.example/"), nil
	case "429 seconds":
		return response(r, 429, "", "Retry-After", "3600"), nil
	case "huge":
		resp := response(r, 200, "")
		resp.Body, resp.ContentLength = &endless{}, -1
		return resp, nil
	}
	status, err := strconv.Atoi(mood)
	if err != nil {
		return nil, err
	}
	return response(r, status, "thanks"), nil
}

// have returns the versions that a callback got, in order.
func (s *subscriber) have(callback string) (list []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.got {
		if d.callback == callback && d.ok {
			list = append(list, d.version)
		}
	}
	return list
}

func (s *subscriber) modes() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.asked {
		list = append(list, q.Get("hub.mode"))
	}
	return list
}

// hubWorld is a world with a hub and a subscriber.
type hubWorld struct {
	*world
	feeds *feeds
	hub   *ping.Hub
	sub   *subscriber
	stop  func()
}

const callback = "https://reader.example/cb?id=7"

func newHubWorld(t testing.TB) *hubWorld {
	w := &hubWorld{world: newWorld(t), feeds: &feeds{versions: make(map[string][]string)}}
	w.publish("first")
	w.feeds.publish(rdfTopic, "<rdf/>")
	w.sub = newSubscriber(w.world, w.feeds, "reader.example")
	w.begin()
	return w
}

func (w *hubWorld) begin() {
	w.hub = &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic, rdfTopic}, Topic: w.feeds.topic, HTTP: w.client(), Log: w.log}
	w.stop = run(w.t, w.hub)
	synctest.Wait()
}

// restart is another process.
func (w *hubWorld) restart() {
	w.stop()
	w.must(w.journal.Close())
	w.open()
	w.begin()
}

// publish changes the feed.
func (w *hubWorld) publish(content string) {
	w.feeds.publish(feedTopic, content)
	w.change(create(fmt.Sprint(time.Now().UnixNano(), len(w.feeds.versions[feedTopic]))))
}

// ask sends a request to the hub, and returns the status.
func (w *hubWorld) ask(form ...string) int {
	v := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {feedTopic}, "hub.callback": {callback}}
	for i := 0; i+1 < len(form); i += 2 {
		v.Set(form[i], form[i+1])
	}
	status, _ := post(w.hub, v.Encode(), "application/x-www-form-urlencoded")
	return status
}

func post(h http.Handler, body, contentType string) (int, string) {
	r := httptest.NewRequest("POST", "/parley/hub", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func hubStory(t *testing.T, f func(w *hubWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newHubWorld(t)
		defer func() { w.stop() }()
		f(w)
	})
}

func TestSubscribers(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.sub.secrets[callback] = strings.Repeat("s", 199)
		check(t, "answer", w.ask("hub.secret", w.sub.secrets[callback], "hub.lease_seconds", "864000"), 202)
		pass(time.Second)
		check(t, "asked", fmt.Sprint(w.sub.modes()), "[subscribe]")
		check(t, "lease", w.sub.asked[0].Get("hub.lease_seconds"), "864000")
		check(t, "the callback's own query", w.sub.asked[0].Get("id"), "7")
		pass(time.Hour)
		check(t, "deliveries of what was there before", len(w.sub.have(callback)), 0)
		w.publish("second")
		pass(time.Minute)
		w.publish("third")
		w.publish("fourth")
		pass(time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 4]")
		w.change(create("nothing in the feed"))
		pass(time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 4]")
		w.restart()
		pass(time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 4]")
		w.stop()
		w.publish("fifth") // while nobody is there
		w.begin()
		pass(time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 4 5]")
		st, err := w.hub.Status()
		w.must(err)
		check(t, "subscribers", st.Topics[0].Subscribers, 1)
		check(t, "subscribers of the other topic", st.Topics[1].Subscribers, 0)
		if len(st.Subscriptions) != 1 || st.Subscriptions[0].Deliveries != 3 || st.Subscriptions[0].Callback != callback {
			t.Errorf("%+v", st.Subscriptions)
		}
		check(t, "answer", w.ask("hub.mode", "unsubscribe"), 202)
		pass(time.Second)
		w.publish("sixth")
		pass(time.Hour)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 4 5]")
		check(t, "notes", w.hubNotes(), 0)
	})
}

func (w *hubWorld) hubNotes() (n int) {
	w.must(w.journal.EachNote("hub/", func(string, []byte) error { n++; return nil }))
	return n
}

// Nobody is subscribed, or unsubscribed, who did not ask for it.
func TestIntentIsVerified(t *testing.T) {
	for name, answer := range map[string]func(url.Values) (int, string){
		"not found":     func(q url.Values) (int, string) { return 404, q.Get("hub.challenge") },
		"other":         func(q url.Values) (int, string) { return 200, "hello" },
		"more":          func(q url.Values) (int, string) { return 200, q.Get("hub.challenge") + " and more" },
		"part":          func(q url.Values) (int, string) { return 200, q.Get("hub.challenge")[:8] },
		"empty":         func(q url.Values) (int, string) { return 200, "" },
		"redirect":      func(q url.Values) (int, string) { return 302, q.Get("hub.challenge") },
		"hang":          func(q url.Values) (int, string) { return 0, "" },
		"server's page": func(q url.Values) (int, string) { return 200, strings.Repeat(q.Get("hub.challenge"), 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			hubStory(t, func(w *hubWorld) {
				w.host("internal.example", serving{http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })})
				w.sub.verify = answer
				check(t, "answer", w.ask(), 202)
				pass(time.Minute)
				w.publish("second")
				pass(time.Hour)
				check(t, "deliveries", len(w.sub.have(callback)), 0)
				check(t, "notes", w.hubNotes(), 0)
				// A stranger cannot end the subscription of another either, nor change its secret.
				w.sub.verify = nil
				w.ask()
				pass(time.Minute)
				w.sub.verify = answer
				w.ask("hub.mode", "unsubscribe")
				pass(time.Minute)
				w.ask("hub.secret", "mine now")
				pass(time.Minute)
				w.publish("third")
				pass(time.Hour)
				check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[3]")
			})
		})
	}
}

func TestLeases(t *testing.T) {
	for _, c := range []struct {
		asked, given string
	}{{"", "864000"}, {"1", "300"}, {"86400", "86400"}, {"99999999999999999999999", "2592000"}, {"31536000", "2592000"}} {
		hubStory(t, func(w *hubWorld) {
			if c.asked == "" {
				w.ask()
			} else {
				w.ask("hub.lease_seconds", c.asked)
			}
			pass(time.Second)
			check(t, "lease", w.sub.asked[0].Get("hub.lease_seconds"), c.given)
			n, err := strconv.Atoi(c.given)
			w.must(err)
			pass(time.Duration(n)*time.Second - time.Minute)
			w.publish("before the end")
			pass(30 * time.Second)
			check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
			pass(time.Minute)
			check(t, "notes", w.hubNotes(), 0)
			w.publish("after the end")
			pass(time.Hour)
			check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
		})
	}
	// Renewed it goes on, without a gap, and with the new secret.
	hubStory(t, func(w *hubWorld) {
		w.ask("hub.lease_seconds", "3600")
		for i := range 5 {
			pass(50 * time.Minute)
			w.publish(fmt.Sprint("version ", i+2))
			w.sub.secrets[callback] = fmt.Sprint("secret ", i)
			w.ask("hub.lease_seconds", "3600", "hub.secret", fmt.Sprint("secret ", i))
			pass(time.Second)
		}
		pass(time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 3 4 5 6]")
	})
}

func TestDeliveriesAreTriedAgain(t *testing.T) {
	for mood, least := range map[string]time.Duration{"500": time.Minute, "404": time.Minute, "hang": time.Minute, "redirect": time.Minute, "429 seconds": time.Hour} {
		hubStory(t, func(w *hubWorld) {
			w.host("internal.example", serving{http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })})
			w.ask()
			pass(time.Second)
			left := 2
			w.sub.mood = func() string {
				if left--; left >= 0 {
					return mood
				}
				return "200"
			}
			w.publish("second")
			pass(time.Minute)
			st, err := w.hub.Status()
			w.must(err)
			if s := st.Subscriptions[0]; s.Failures != 1 || s.Trouble == "" || s.RetryAt.IsZero() {
				t.Errorf("%s: %+v", mood, s)
			}
			w.restart()
			pass(5 * time.Hour)
			check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
			check(t, "tries", len(w.sub.got), 3)
			if d := w.sub.got[1].at.Sub(w.sub.got[0].at); d < least {
				t.Errorf("%s: tried again after %v", mood, d)
			}
		})
	}
}

func TestASubscriberThatIsGone(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask()
		pass(time.Second)
		w.sub.mood = func() string { return "410" }
		w.publish("second")
		pass(time.Minute)
		check(t, "notes", w.hubNotes(), 0)
		w.publish("third")
		pass(time.Hour)
		check(t, "tries", len(w.sub.got), 1)
	})
}

func TestASlowSubscriberHoldsUpNoOther(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		slow := newSubscriber(w.world, w.feeds, "slow.example")
		slow.mood = func() string { return "hang" }
		for i := range 15 {
			w.ask("hub.callback", fmt.Sprint("https://slow.example/", i))
			pass(3 * time.Second)
		}
		w.ask()
		pass(time.Minute)
		w.publish("second")
		pass(12 * time.Second)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
	})
}

func TestLiesOfSubscribersAreBounded(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask()
		pass(time.Second)
		w.sub.mood = func() string { return "huge" }
		w.publish("second")
		pass(time.Hour)
		check(t, "tries", len(w.sub.got), 1)
	})
}

func TestTopicsThatAreGoneAreSaid(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask("hub.topic", rdfTopic)
		pass(time.Second)
		w.stop()
		w.hub = &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client()}
		w.stop = run(t, w.hub)
		pass(time.Minute)
		check(t, "asked", fmt.Sprint(w.sub.modes()), "[subscribe denied]")
		check(t, "topic", w.sub.asked[1].Get("hub.topic"), rdfTopic)
		check(t, "notes", w.hubNotes(), 0)
	})
}

func TestTopicsThatCannotBeRead(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask()
		pass(time.Second)
		w.feeds.mu.Lock()
		w.feeds.err = errors.New("disk on fire")
		w.feeds.mu.Unlock()
		w.publish("second")
		pass(time.Hour)
		st, err := w.hub.Status()
		w.must(err)
		if !strings.Contains(st.Topics[0].Trouble, "disk on fire") {
			t.Errorf("trouble %q", st.Topics[0].Trouble)
		}
		w.feeds.mu.Lock()
		w.feeds.err = nil
		w.feeds.mu.Unlock()
		pass(2 * time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
		st, err = w.hub.Status()
		w.must(err)
		check(t, "trouble", st.Topics[0].Trouble, "")
		w.publish(strings.Repeat("x", 17<<20))
		pass(time.Hour)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
		st, err = w.hub.Status()
		w.must(err)
		if !strings.Contains(st.Topics[0].Trouble, "shorter") {
			t.Errorf("trouble %q", st.Topics[0].Trouble)
		}
	})
}

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

func TestTheHubIsBounded(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.stop()
		w.hub = &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client(), MaxSubscriptions: 6, PerHost: 4}
		// Nobody verifies: requests wait, and others are refused.
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
		// Who is subscribed can renew, and leave, all the same.
		check(t, "renewal", w.ask("hub.callback", "https://reader.example/0"), 202)
		check(t, "leaving", w.ask("hub.callback", "https://reader.example/1", "hub.mode", "unsubscribe"), 202)
		pass(time.Minute)
		check(t, "in its place", w.ask("hub.callback", "https://other.example/3"), 202)
		pass(time.Minute)
		// A flood of requests becomes no flood of verifications.
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

// Over real connections: callbacks on this machine are not called, whatever
// their name is, unless that is allowed.
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
			hub := &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: f.topic, AllowPrivate: allow, Debounce: time.Millisecond, Log: w.log}
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
			st, err := hub.Status()
			w.must(err)
			check(t, "subscriptions", len(st.Subscriptions), 0)
			check(t, "calls", calls.Load(), 0)
		})
	}
}

// until waits until something is so.
func until(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to be")
		}
	}
}

// Whatever subscribers answer and however often the hub ends, in the end each
// has the newest content. Without a kill nobody gets the same twice that was
// taken, with one at most once more; and nobody gets an older one after a newer.
func TestRandomDeliveries(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 40
	}
	dir := scratch(t)
	var deliveries, kills, repeats int
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			rnd, moods := rand.New(rand.NewPCG(uint64(seed), 5)), rand.New(rand.NewPCG(uint64(seed), 6))
			w := &hubWorld{world: &world{t: t, file: fmt.Sprintf("%s/%d", dir, seed), hosts: make(map[string]roundTripper)},
				feeds: &feeds{versions: make(map[string][]string)}}
			w.open()
			defer func() { w.journal.Close() }()
			w.must(w.journal.Settle())
			w.feeds.publish(feedTopic, "first")
			w.sub = newSubscriber(w.world, w.feeds, "reader.example")
			var killed atomic.Bool
			var cancel context.CancelFunc
			var owned sync.WaitGroup
			start := func() {
				w.hub = &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client()}
				var ctx context.Context
				ctx, cancel = context.WithCancel(context.Background())
				hub := w.hub
				owned.Go(func() { hub.Run(ctx) })
			}
			w.sub.kill = func() {
				if killed.CompareAndSwap(false, true) {
					cancel()
					w.journal.Close()
				}
			}
			w.sub.mood = func() string {
				return []string{"200", "204", "202", "500", "hang", "redirect", "429 seconds", "kill"}[moods.IntN(8)]
			}
			ends := make(map[string][]int) // by callback: its last delivery before each kill
			restart := func() {
				cancel()
				owned.Wait()
				w.journal.Close()
				if killed.Swap(false) {
					kills++
					last := make(map[string]int)
					for _, d := range w.sub.got {
						last[d.callback] = d.n
					}
					for c, n := range last {
						ends[c] = append(ends[c], n)
					}
				}
				w.open()
				start()
				synctest.Wait()
			}
			start()
			synctest.Wait()
			names := []string{"https://reader.example/a", "https://reader.example/b", "https://reader.example/c?x=1"}
			active := make(map[string]bool)
			for i := range 25 {
				for killed.Load() || rnd.IntN(8) == 0 {
					restart()
				}
				switch c := names[rnd.IntN(3)]; rnd.IntN(4) {
				case 0:
					if w.ask("hub.callback", c, "hub.lease_seconds", "2592000") == 202 {
						active[c] = true
					}
				default:
					w.feeds.publish(feedTopic, fmt.Sprint("version ", i))
					w.change(create(fmt.Sprint(seed, "-", i)))
				}
				pass(time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, time.Hour}[rnd.IntN(3)]))))
			}
			w.sub.mu.Lock()
			w.sub.mood = nil
			w.sub.mu.Unlock()
			for killed.Load() {
				restart()
			}
			pass(72 * time.Hour)
			st, err := w.hub.Status()
			w.must(err)
			check(t, "subscriptions", len(st.Subscriptions), len(active))
			cancel()
			owned.Wait()
			newest := len(w.feeds.versions[feedTopic])
			for c := range active {
				var was *delivery
				for _, d := range w.sub.got {
					if d.callback != c || !d.ok {
						continue
					}
					deliveries++
					if was != nil && d.version < was.version {
						t.Errorf("seed %d: version %d after version %d", seed, d.version, was.version)
					}
					if was != nil && d.version == was.version {
						repeats++
						if !slices.Contains(ends[c], was.n) {
							t.Errorf("seed %d: version %d was delivered twice to %s, at %s and %s", seed, d.version, c, stamp(was.at), stamp(d.at))
						}
					}
					was = &d
				}
				for _, s := range st.Subscriptions {
					// One that was subscribed last of all had it already.
					if s.Callback == c && (was == nil || was.version != newest) && s.Deliveries > 0 {
						t.Errorf("seed %d: %s has %+v, the newest is version %d", seed, c, was, newest)
					}
				}
			}
		})
	}
	t.Logf("%d histories, %d deliveries, %d kills, %d deliveries repeated", n, deliveries, kills, repeats)
	if kills == 0 || repeats == 0 {
		t.Error("the histories test too little")
	}
}

func FuzzHubRequest(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=" + url.QueryEscape(feedTopic) + "&hub.callback=" + url.QueryEscape(callback) + "&hub.lease_seconds=300&hub.secret=s")
	f.Add("hub.mode=unsubscribe&hub.topic=" + url.QueryEscape(feedTopic) + "&hub.callback=http%3A%2F%2F%5B%3A%3A1%5D%2F")
	f.Add("hub.mode=subscribe&hub.callback=https%3A%2F%2Freader.example%3A0%2F&hub.topic=" + url.QueryEscape(feedTopic))
	f.Add("hub.mode=publish&hub.url=x")
	f.Add("&&==%00")
	w := newWorld(f)
	hub := &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: (&feeds{}).topic, MaxSubscriptions: 1 << 30, PerHost: 1 << 30}
	f.Fuzz(func(t *testing.T, form string) {
		status, _ := post(hub, form, "application/x-www-form-urlencoded")
		switch status {
		case 202, 400, 404, 413, 429, 503:
		default:
			t.Errorf("%q: %d", form, status)
		}
		st, err := hub.Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range st.Subscriptions {
			u, err := url.Parse(s.Callback)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || s.Topic != feedTopic {
				t.Errorf("%q became a subscription of %q to %q", form, s.Callback, s.Topic)
			}
		}
	})
}
