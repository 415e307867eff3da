package fetch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/must"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func site(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestBodyIsBounded(t *testing.T) {
	base := site(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 100)) })
	for _, c := range []struct {
		most int64
		want int
		cut  bool
	}{{99, 99, true}, {100, 100, false}, {101, 100, false}, {-1, 100, false}, {0, 100, false}, {1, 1, true}} {
		client := fetch.Client{MaxBytes: c.most}
		a, err := client.Get(t.Context(), base, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := a.Bytes()
		if err != nil || len(b) != c.want || a.Received != int64(c.want) || a.Cut() != c.cut || !a.Remote.IsLoopback() || a.Length != 100 {
			t.Errorf("at most %d: %d bytes of %d, cut %v, from %v: %v", c.most, len(b), a.Length, a.Cut(), a.Remote, err)
		}
		if n, err := a.Read(make([]byte, 10)); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d bytes, %v", n, err)
		}
		a.Close()
	}
}

func TestRedirects(t *testing.T) {
	asked := 0
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("X-Kept") != "yes" || r.Header.Get("User-Agent") != "agent" {
			t.Errorf("%s was requested with %v", r.URL, r.Header)
		}
		switch r.URL.Path {
		case "/a":
			http.Redirect(w, r, "b?q=1", http.StatusFound)
		case "/b":
			http.Redirect(w, r, "/c", http.StatusMovedPermanently)
		default:
			io.WriteString(w, "c")
		}
	})
	for redirects, want := range []struct{ url, location string }{{"/a", "/b?q=1"}, {"/b?q=1", "/c"}, {"/c", ""}, {"/c", ""}} {
		paced := 0
		client := fetch.Client{Agent: "agent", Redirects: redirects, Pace: func(context.Context) error { paced++; return nil }}
		asked = 0
		a := must.Get(client.Get(t.Context(), base+"/a", http.Header{"X-Kept": {"yes"}}))
		a.Close()
		if a.URL != base+want.url || strings.TrimPrefix(a.Location, base) != want.location || a.OK() != (want.location == "") {
			t.Errorf("%d redirects: %s of %s leads to %q", redirects, a.Says(), a.URL, a.Location)
		}
		if paced != asked {
			t.Errorf("%d redirects: Pace called %d times for %d requests", redirects, paced, asked)
		}
	}
}

// A server that sends nothing, a byte a second, or an endless body is abandoned.
func TestSlowServers(t *testing.T) {
	ended := make(chan struct{})
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/header" {
			<-ended
			return
		}
		io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/dripping" {
			for drip := time.NewTicker(10 * time.Millisecond); ; {
				select {
				case <-ended:
					return
				case <-drip.C:
					io.WriteString(w, ".")
					w.(http.Flusher).Flush()
				}
			}
		}
		<-ended
	})
	defer close(ended)
	for _, c := range []struct {
		path   string
		client fetch.Client
	}{
		{"/header", fetch.Client{Timeout: 50 * time.Millisecond}},
		{"/header", fetch.Client{Timeout: time.Hour, Idle: 50 * time.Millisecond}},
		{"/body", fetch.Client{Timeout: 100 * time.Millisecond}},
		{"/body", fetch.Client{Timeout: time.Hour, Idle: 100 * time.Millisecond}},
		{"/dripping", fetch.Client{Timeout: 200 * time.Millisecond, Idle: 150 * time.Millisecond}},
	} {
		a, err := c.client.Get(t.Context(), base+c.path, nil)
		if err == nil {
			_, err = a.Bytes()
			a.Close()
		}
		if !errors.Is(err, fetch.ErrTimeout) {
			t.Errorf("%s, %v, idle %v: %v", c.path, c.client.Timeout, c.client.Idle, err)
		}
	}
}

func TestErrorsDoNotNameTheURL(t *testing.T) {
	base := site(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	var client fetch.Client
	if _, err := client.Get(t.Context(), base+"/secret", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Get(ctx, base, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: error %v", err)
	}
	if _, err := client.Get(t.Context(), "http://[", nil); err == nil {
		t.Error("that is no URL")
	}
}

func TestPublicAddressesOnly(t *testing.T) {
	base := site(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	client := fetch.Client{Transport: fetch.Public()}
	if _, err := client.Get(t.Context(), base, nil); !errors.Is(err, fetch.ErrPrivate) {
		t.Errorf("error %v", err)
	}
}

func TestValidators(t *testing.T) {
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 12:10:00 GMT")
		if r.Header.Get("If-None-Match") == `"1"` && r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(http.StatusNotModified)
		}
	})
	var client fetch.Client
	var known fetch.Validators
	for _, want := range []int{http.StatusOK, http.StatusNotModified} {
		a := must.Get(client.Get(t.Context(), base, known.Header()))
		a.Close()
		if a.Status != want {
			t.Errorf("requested with %v, the server answers %s", known, a.Says())
		}
		known = fetch.ValidatorsOf(a.Header)
	}
	const second, later = "Sat, 21 Nov 2026 12:10:00 GMT", "Sat, 21 Nov 2026 12:10:01 GMT"
	for _, c := range []struct {
		etag, date string
		shows      bool
	}{
		{"", second, false},
		{"", later, true},
		{"", "Sat, 21 Nov 2026 11:10:00 GMT", true}, // dated in advance
		{"", "", true},
		{`"6b018a18-d0"`, second, false}, // of nginx: the second and the length
		{`W/"6b018a18-d0"`, second, false},
		{`"6b018a18-d0"`, later, true},
		{`"of-the-content"`, second, true},
	} {
		h := http.Header{"Etag": {c.etag}, "Last-Modified": {second}, "Date": {c.date}}
		if v := fetch.ValidatorsOf(h); (v != fetch.Validators{}) != c.shows {
			t.Errorf("%q, changed at %s, answered at %q: %+v is kept", c.etag, second, c.date, v)
		}
	}
	long := http.Header{"Etag": {strings.Repeat("x", 1000)}}
	if v := fetch.ValidatorsOf(long); v != (fetch.Validators{}) {
		t.Errorf("%d bytes are kept", len(v.ETag))
	}
}

const aDay = 24 * time.Hour

func retryAfter(s string) (time.Duration, bool) {
	return fetch.RetryAfter(http.Header{"Retry-After": {s}}, now, aDay)
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		header string
		want   time.Duration // less than zero: it says nothing
	}{
		{"120", 2 * time.Minute},
		{" 120 ", 2 * time.Minute},
		{"0", 0},
		{"86401", aDay},
		{"99999999999999999999999999", aDay},
		{"Sat, 21 Nov 2026 12:10:00 GMT", 10 * time.Minute},
		{"Saturday, 21-Nov-26 12:10:00 GMT", 10 * time.Minute},
		{"Sat Nov 21 12:10:00 2026", 10 * time.Minute},
		{"Sat, 21 Nov 2026 11:00:00 GMT", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", aDay},
		{"", -1},
		{"-1", -1},
		{"1.5", -1},
		{"soon", -1},
		{"2026-11-21T12:10:00Z", -1},
	} {
		got, ok := retryAfter(c.header)
		if got != max(c.want, 0) || ok != (c.want >= 0) {
			t.Errorf("%q: %v %v, want %v", c.header, got, ok, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "Sat, 21 Nov 2026 12:10:00 GMT", "99999999999999999999", "-5", "", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := retryAfter(s)
		if d < 0 || d > aDay || !ok && d != 0 {
			t.Errorf("%q: %v %v", s, d, ok)
		}
		if at, err := http.ParseTime(strings.TrimSpace(s)); err == nil && !ok {
			t.Errorf("%q is %v, but was not parsed", s, at)
		}
	})
}
