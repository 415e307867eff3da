package indexnow_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/indexnow"
	"github.com/parleyweb/parley/internal/must"
)

const key = "0123456789abcdef"

// A world holds hosts that serve keys, and the notices that a receiver accepted from them.
type world struct {
	t *testing.T
	*indexnow.Receiver

	mu     sync.Mutex
	files  map[string]func() *http.Response // by URL
	asked  []string
	slow   time.Duration // until a host answers
	stored []string
	full   error // returned by Accept
}

// story runs a scenario with a running receiver, in virtual time.
func story(t *testing.T, f func(w *world), change ...func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, files: make(map[string]func() *http.Response)}
		w.Receiver = &indexnow.Receiver{
			Accept: func(_ context.Context, urls []string) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.full == nil {
					w.stored = append(w.stored, urls...)
				}
				return w.full
			},
			Transport: func(origin string) http.RoundTripper { return w },
		}
		for _, c := range change {
			c(w)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var owned sync.WaitGroup
		owned.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		synctest.Wait()
		f(w)
		cancel()
		owned.Wait()
	})
}

func answer(status int, body string, header ...string) func() *http.Response {
	return func() *http.Response {
		h := make(http.Header)
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
	}
}

func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.asked = append(w.asked, req.URL.String())
	file, slow := w.files[req.URL.String()], w.slow
	w.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if file == nil {
		file = answer(404, "<h1>Not found</h1>")
	}
	if resp := file(); resp != nil {
		return resp, nil
	}
	return nil, errors.New("connection refused")
}

func (w *world) serve(url string, file func() *http.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[url] = file
}

// post sends a notice, as CMS plugins do, and returns the answer.
func (w *world) post(host string, urls ...string) *httptest.ResponseRecorder {
	return w.say(map[string]any{"host": host, "key": key, "urlList": urls})
}

func (w *world) say(msg any) *httptest.ResponseRecorder {
	b := must.Get(json.Marshal(msg))
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("POST", "/indexnow", strings.NewReader(string(b))))
	return rec
}

func (w *world) get(query string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("GET", "/indexnow?"+query, nil))
	return rec
}

func (w *world) want(what string, rec *httptest.ResponseRecorder, status int) {
	w.t.Helper()
	if rec.Code != status {
		w.t.Errorf("%s: %d (%s), want %d", what, rec.Code, strings.TrimSpace(rec.Body.String()), status)
	}
	if wait := rec.Header().Get("Retry-After"); status == 429 && wait == "" {
		w.t.Errorf("%s: 429 without Retry-After", what)
	}
}

func (w *world) wantStored(urls ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.stored, urls) {
		w.t.Errorf("stored %q, want %q", w.stored, urls)
	}
	w.stored = nil
}

func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

const keyFile = "https://example.org/" + key + ".txt"

func TestNoticeIsStoredBeforeResponse(t *testing.T) {
	story(t, func(w *world) {
		w.serve(keyFile, answer(200, "\ufeff"+key+"\r\n"))
		w.want("many", w.post("example.org", "https://example.org/a", "https://EXAMPLE.org:443/b#c", "https://example.org/a"), 200)
		w.wantStored("https://example.org/a", "https://example.org/b")
		w.want("one", w.get("url=https%3A%2F%2Fexample.org%2Fc%3Fd%3De&key="+key), 200)
		w.wantStored("https://example.org/c?d=e")
		if n := w.requests(); n != 1 {
			t.Errorf("the key was requested %d times, want once", n)
		}
		time.Sleep(25 * time.Hour)
		w.want("the day after", w.post("example.org", "https://example.org/a"), 200)
		if n := w.requests(); n != 2 {
			t.Errorf("the key was requested %d times, want a second request after a day", n)
		}
		w.wantStored("https://example.org/a")
		w.mu.Lock()
		w.full = errors.New("disk full")
		w.mu.Unlock()
		w.want("the notice cannot be stored", w.post("example.org", "https://example.org/a"), 503)
		c := w.Counts()
		if c.Notices != 4 || c.Accepted != 3 || c.Refused != 1 || c.URLs != 4 || c.Looks != 2 {
			t.Errorf("counts: %+v", c)
		}
	})
}

func TestUnservedKeyIsRefused(t *testing.T) {
	for what, file := range map[string]func() *http.Response{
		"no key file":                  answer(404, ""),
		"another key":                  answer(200, "ffffffffffffffff"),
		"a page at every URL":          answer(200, "<html>"+key+"</html>"),
		"a key file that is too long":  answer(200, key+strings.Repeat("x", 10_000)),
		"a redirect to another host":   answer(301, "", "Location", "https://evil.example/"+key+".txt"),
		"a redirect loop":              answer(302, "", "Location", keyFile),
		"a redirect without Location":  answer(302, ""),
		"forbidden":                    answer(403, key),
		"status 206":                   answer(206, key),
		"a redirect to an invalid URL": answer(301, "", "Location", "http://%zz"),
	} {
		story(t, func(w *world) {
			w.serve(keyFile, file)
			w.serve("https://evil.example/"+key+".txt", answer(200, key))
			w.want(what, w.post("example.org", "https://example.org/a"), 403)
			n := w.requests()
			w.want(what+", again", w.post("example.org", "https://example.org/a"), 403)
			if w.requests() != n {
				t.Errorf("%s: the key was requested again immediately", what)
			}
			w.serve(keyFile, answer(200, key))
			time.Sleep(11 * time.Minute)
			w.want(what+", key file repaired", w.post("example.org", "https://example.org/a"), 200)
			w.wantStored("https://example.org/a")
		})
	}
}

func TestKeyRedirectWithinHostIsFollowed(t *testing.T) {
	story(t, func(w *world) {
		w.serve("http://example.org/"+key+".txt", answer(301, "", "Location", keyFile))
		w.serve(keyFile, answer(200, key))
		w.want("http to https", w.post("example.org", "http://example.org/a"), 200)
		w.wantStored("http://example.org/a")
	})
}

func TestKeyIsValidForItsDirectory(t *testing.T) {
	story(t, func(w *world) {
		w.serve("https://example.org/shop/k.txt", answer(200, key))
		say := func(url string) *httptest.ResponseRecorder {
			return w.say(map[string]any{"host": "example.org", "key": key, "keyLocation": "https://example.org/shop/k.txt", "urlList": []string{url}})
		}
		w.want("below", say("https://example.org/shop/a/b"), 200)
		w.want("beside", say("https://example.org/shopping"), 422)
		w.want("above", say("https://example.org/"), 422)
		w.want("dots", say("https://example.org/shop/../a"), 422)
		w.want("by GET", w.get("key="+key+"&keyLocation="+url.QueryEscape("https://example.org/shop/k.txt")+"&url="+url.QueryEscape("https://example.org/shop/")), 200)
		w.wantStored("https://example.org/shop/a/b", "https://example.org/shop/")
	})
}

func TestInvalidNoticeIsRefusedWithoutKeyRequest(t *testing.T) {
	story(t, func(w *world) {
		many := make([]string, 10_001)
		for i := range many {
			many[i] = fmt.Sprint("https://example.org/", i)
		}
		raw := func(body string) *httptest.ResponseRecorder {
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, httptest.NewRequest("POST", "/", strings.NewReader(body)))
			return rec
		}
		w.want("nothing", raw(""), 400)
		w.want("no JSON", raw("url=https://example.org/"), 400)
		w.want("JSON of the wrong type", raw(`{"urlList":"https://example.org/"}`), 400)
		w.want("cut short", raw(`{"host":"example.org","key":"`), 400)
		w.want("two notices", raw(`{}{}`), 400)
		w.want("deeply nested JSON", raw(strings.Repeat(`{"a":`, 100_000)), 400)
		w.want("huge", raw(`{"key":"`+strings.Repeat("x", 9<<20)), 413)
		w.want("no URL", w.post("example.org"), 400)
		w.want("too many URLs", w.post("example.org", many...), 413)
		w.want("another host", w.post("example.org", "https://example.net/"), 422)
		w.want("two hosts", w.post("example.org", "https://example.org/", "https://example.net/"), 422)
		w.want("another port", w.post("example.org", "https://example.org:8443/"), 422)
		w.want("not a URL", w.post("example.org", "example.org/a"), 422)
		w.want("another scheme", w.post("example.org", "file:///etc/passwd"), 422)
		w.want("a user", w.post("example.org", "https://a:b@example.org/"), 422)
		w.want("no key", w.get("url=https://example.org/"), 400)
		w.want("a short key", w.get("url=https://example.org/&key=abc"), 422)
		w.want("a key that contains a path", w.get("url=https://example.org/&key=../../secret"), 422)
		w.want("a key on another host", w.get("url=https://example.org/&key="+key+"&keyLocation=https://evil.example/k.txt"), 422)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, httptest.NewRequest("PUT", "/", nil))
		w.want("another method", rec, 405)
		if n := w.requests(); n != 0 {
			t.Errorf("%d requests were sent: %q", n, w.asked)
		}
		w.wantStored()
	})
}

func TestUncrawledHostGetsNoKeyRequest(t *testing.T) {
	story(t, func(w *world) {
		w.want("a host that is not crawled", w.post("example.org", "https://example.org/"), 422)
		if w.requests() != 0 {
			t.Error("the key was requested")
		}
	}, func(w *world) { w.Wanted = func(host string) bool { return host == "example.com" } })
}

// The key is fetched from a site when politeness allows it: until then the notice
// is held, and answered by 202.
func TestSlowKeyFileIsAnsweredWith202(t *testing.T) {
	story(t, func(w *world) {
		w.serve(keyFile, answer(200, key))
		w.slow = 20 * time.Second
		begin := time.Now()
		var owned sync.WaitGroup
		for _, u := range []string{"a", "b", "a"} {
			owned.Go(func() { w.want("during the key request", w.post("example.org", "https://example.org/"+u), 202) })
		}
		owned.Wait()
		if d := time.Since(begin); d != 5*time.Second {
			t.Errorf("answered after %v, want 5s", d)
		}
		w.wantStored()
		time.Sleep(16 * time.Second)
		synctest.Wait()
		slices.Sort(w.stored)
		w.wantStored("https://example.org/a", "https://example.org/b")
		if n := w.requests(); n != 1 {
			t.Errorf("%d key requests, want one for all notices", n)
		}
		if c := w.Counts(); c.Pending != 3 || c.Late != 3 {
			t.Errorf("counts: %+v", c)
		}
		w.want("afterwards", w.post("example.org", "https://example.org/c"), 200)
	})
}

func TestKeyRequestIsRetriedWhileSiteIsDown(t *testing.T) {
	story(t, func(w *world) {
		w.serve(keyFile, func() *http.Response { return nil })
		w.want("down", w.post("example.org", "https://example.org/a"), 202)
		w.serve(keyFile, answer(503, ""))
		time.Sleep(time.Minute)
		w.serve(keyFile, answer(200, key))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.wantStored("https://example.org/a")

		w.serve("https://example.com/"+key+".txt", answer(500, ""))
		w.want("down for a day", w.post("example.com", "https://example.com/a"), 202)
		time.Sleep(24 * time.Hour)
		n := w.requests()
		time.Sleep(24 * time.Hour)
		if w.requests() != n {
			t.Error("the key is still requested after a day")
		}
		w.wantStored()
	})
}

// A forger may send notices in another site's name: the number of key requests to that site is bounded.
func TestForgedNoticesCauseFewKeyRequests(t *testing.T) {
	story(t, func(w *world) {
		w.serve(keyFile, answer(200, key))
		w.want("a genuine notice", w.post("example.org", "https://example.org/a"), 200)
		for i := range 5000 {
			w.say(map[string]any{"host": "example.org", "key": fmt.Sprintf("forged-%06d", i), "urlList": []string{"https://example.org/x"}})
			time.Sleep(time.Second)
		}
		if n := w.requests(); n > 1+10+14+1 {
			t.Errorf("%d key requests to the site within 83 minutes, want at most 26", n)
		}
		w.want("a genuine notice after the forged ones", w.post("example.org", "https://example.org/b"), 200)
		w.wantStored("https://example.org/a", "https://example.org/b")
	})
}

func TestConcurrentForgedNoticesCauseFewKeyRequests(t *testing.T) {
	story(t, func(w *world) {
		w.serve(keyFile, answer(200, key))
		w.want("a genuine notice", w.post("example.org", "https://example.org/a"), 200)
		var all sync.WaitGroup
		for i := range 200 { // at once, before the first key is looked at
			all.Go(func() {
				w.say(map[string]any{"host": "example.org", "key": fmt.Sprintf("forged-%06d", i), "urlList": []string{"https://example.org/x"}})
			})
		}
		all.Wait()
		if n := w.requests(); n > 1+10 {
			t.Errorf("%d key requests to the site, want at most 11", n)
		}
	})
}

func TestURLsPerHostAreLimited(t *testing.T) {
	story(t, func(w *world) {
		w.serve(keyFile, answer(200, key))
		all := make([]string, 10_000)
		for i := range all {
			all[i] = fmt.Sprint("https://example.org/", i)
		}
		w.want("all", w.post("example.org", all...), 200)
		w.want("all again", w.post("example.org", all...), 200)
		w.want("and again", w.post("example.org", all...), 429)
		time.Sleep(time.Hour)
		w.want("an hour later", w.post("example.org", all...), 200)
	})
}

func TestNoticesAreRefusedWhileNotRunning(t *testing.T) {
	r := &indexnow.Receiver{
		Accept:    func(context.Context, []string) error { t.Error("accepted"); return nil },
		Transport: func(string) http.RoundTripper { t.Error("Transport was called"); return nil },
	}
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, httptest.NewRequest("GET", "/?key="+key+"&url=https://example.org/", nil))
	if rec.Code != 503 {
		t.Errorf("%d, want 503", rec.Code)
	}
	if err := (&indexnow.Receiver{}).Run(t.Context()); err == nil {
		t.Error("Run returns no error without Accept")
	}
}

func TestWaitingNoticeIsAnsweredOnShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, slow: time.Hour}
		w.Receiver = &indexnow.Receiver{
			Accept:    func(context.Context, []string) error { return nil },
			Transport: func(string) http.RoundTripper { return w },
		}
		ctx, cancel := context.WithCancel(t.Context())
		var owned sync.WaitGroup
		owned.Go(func() { w.Run(ctx) })
		synctest.Wait()
		owned.Go(func() { w.want("on shutdown", w.post("example.org", "https://example.org/"), 503) })
		synctest.Wait()
		cancel()
		owned.Wait()
	})
}

func FuzzServeHTTP(f *testing.F) {
	f.Add("POST", "", `{"host":"example.org","key":"0123456789abcdef","urlList":["https://example.org/a"]}`)
	f.Add("GET", "key=0123456789abcdef&url=https://example.org/&keyLocation=https://example.org/a/k.txt", "")
	f.Add("POST", "", `{"host":"[::1]:80","key":"01234567","urlList":["http://[::1]/","http://[::1]:80/?"]}`)
	f.Fuzz(func(t *testing.T, method, query, body string) {
		if method != "POST" {
			method = "GET"
		}
		w := &world{t: t, files: map[string]func() *http.Response{keyFile: answer(200, key)}}
		var stored []string
		w.Receiver = &indexnow.Receiver{
			Accept:    func(_ context.Context, urls []string) error { stored = urls; return nil },
			Transport: func(string) http.RoundTripper { return w },
		}
		ctx, cancel := context.WithCancel(t.Context())
		var owned sync.WaitGroup
		owned.Go(func() { w.Run(ctx) })
		for !w.Running() {
			runtime.Gosched()
		}
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, &http.Request{Method: method, URL: &url.URL{Path: "/", RawQuery: query}, Body: io.NopCloser(strings.NewReader(body))})
		cancel()
		owned.Wait()
		if rec.Code != 200 && len(stored) > 0 {
			t.Errorf("stored, and answered by %d", rec.Code)
		}
		for _, u := range stored {
			if !strings.HasPrefix(u, "https://example.org/") {
				t.Errorf("%q was stored: its host serves no key", u)
			}
		}
	})
}

// slow opens connections that send notices without end, and returns when they are being read.
func slow(t *testing.T, url string, n int, from string) {
	t.Helper()
	for range n {
		nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		// "Expect" is answered when the body is asked for.
		fmt.Fprintf(nc, "POST /indexnow HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", from)
		line, err := bufio.NewReader(nc).ReadString('\n')
		if err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// A slow sender's notices are rejected, and do not delay those of others.
func TestSlowSendersDelayNoOthers(t *testing.T) {
	var r indexnow.Receiver
	server := httptest.NewServer(&r)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	say := func(from string) int {
		req := must.Get(http.NewRequest("POST", server.URL+"/indexnow", strings.NewReader("{}")))
		req.Header.Set("X-Forwarded-For", from)
		resp := must.Get(http.DefaultClient.Do(req))
		resp.Body.Close()
		return resp.StatusCode
	}
	for i := range 10 {
		slow(t, server.URL, 4, fmt.Sprintf("203.0.113.%d", i))
	}
	if got := say("203.0.113.0"); got != http.StatusTooManyRequests {
		t.Errorf("another notice from a slow sender: status %d, want 429", got)
	}
	if got := say("198.51.100.1"); got != http.StatusBadRequest { // it says nothing, but it was read
		t.Errorf("a notice from another address: status %d, want 400", got)
	}
	began := time.Now()
	for say("203.0.113.0") != http.StatusBadRequest {
		if time.Since(began) > 20*time.Second {
			t.Fatal("slow notices are still being read after 20 s")
		}
		time.Sleep(50 * time.Millisecond)
	}
}
