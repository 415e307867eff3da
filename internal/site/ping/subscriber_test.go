package ping_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

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

// A subscriber checks a hub against sections 5 to 8 of the specification.
type subscriber struct {
	t     testing.TB
	feeds *feeds

	mu      sync.Mutex
	secrets map[string]string // by callback
	verify  func(q url.Values) (int, string)
	mood    func() string // status of a delivery; nil: 200
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
	n        int // its index among those of this callback and topic
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
			s.t.Errorf("%s is in a verification %d times", name, len(values))
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
		t.Errorf("delivery of content that topic %q never had: %.80q", topic, body)
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
