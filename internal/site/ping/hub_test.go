package ping_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
)

const ownHub = base + "parley/hub"

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
	w.hub = &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic, rdfTopic}, Topic: w.feeds.topic, HTTP: w.client(), Log: w.log}}
	w.stop = run(w.t, w.hub)
	synctest.Wait()
}

// restart simulates another process.
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

// ask sends a request to the hub and returns the status.
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
		w.publish("fifth") // while the hub is down
		w.begin()
		pass(time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2 4 5]")
		st := must.Get(w.hub.Status())
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

// No subscription is made or ended without the subscriber's confirmation.
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
				// A stranger can neither end another's subscription nor change its secret.
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
			n := must.Get(strconv.Atoi(c.given))
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
	// A renewed subscription continues without a gap, and with the new secret.
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

func TestFailedDeliveriesAreRetried(t *testing.T) {
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
			st := must.Get(w.hub.Status())
			if s := st.Subscriptions[0]; s.Failures != 1 || s.Trouble == "" || s.RetryAt.IsZero() {
				t.Errorf("%s: %+v", mood, s)
			}
			w.restart()
			pass(5 * time.Hour)
			check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
			check(t, "tries", len(w.sub.got), 3)
			if d := w.sub.got[1].at.Sub(w.sub.got[0].at); d < least {
				t.Errorf("%s: retried after %v", mood, d)
			}
		})
	}
}

func TestSubscriptionEndsAfter410(t *testing.T) {
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

func TestSlowSubscriberDelaysNoOther(t *testing.T) {
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

func TestAnswersOfSubscribersAreBounded(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask()
		pass(time.Second)
		w.sub.mood = func() string { return "huge" }
		w.publish("second")
		pass(time.Hour)
		check(t, "tries", len(w.sub.got), 1)
	})
}

func TestSubscribersLearnOfRemovedTopics(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask("hub.topic", rdfTopic)
		pass(time.Second)
		w.stop()
		w.hub = &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client()}}
		w.stop = run(t, w.hub)
		pass(time.Minute)
		check(t, "asked", fmt.Sprint(w.sub.modes()), "[subscribe denied]")
		check(t, "topic", w.sub.asked[1].Get("hub.topic"), rdfTopic)
		check(t, "notes", w.hubNotes(), 0)
	})
}

func TestUnreadableTopics(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.ask()
		pass(time.Second)
		w.feeds.mu.Lock()
		w.feeds.err = errors.New("disk on fire")
		w.feeds.mu.Unlock()
		w.publish("second")
		pass(time.Hour)
		st := must.Get(w.hub.Status())
		if !strings.Contains(st.Topics[0].Trouble, "disk on fire") {
			t.Errorf("trouble %q", st.Topics[0].Trouble)
		}
		w.feeds.mu.Lock()
		w.feeds.err = nil
		w.feeds.mu.Unlock()
		pass(2 * time.Minute)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
		st = must.Get(w.hub.Status())
		check(t, "trouble", st.Topics[0].Trouble, "")
		w.publish(strings.Repeat("x", 17<<20))
		pass(time.Hour)
		check(t, "versions", fmt.Sprint(w.sub.have(callback)), "[2]")
		st = must.Get(w.hub.Status())
		if !strings.Contains(st.Topics[0].Trouble, "shorter") {
			t.Errorf("trouble %q", st.Topics[0].Trouble)
		}
	})
}
