package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
)

// newQueried is a newSite with a query door.
func newQueried(t *testing.T, change ...func(*doors.Notifier)) *site {
	t.Helper()
	w := newSite(t, change...)
	w.notifier.Content.Items = server.Moments(w.journal)
	return w
}

// ask sends a query, and returns the response and its body.
func (s *site) ask(method, path, contentType, body string, header ...string) (*http.Response, string) {
	s.Helper()
	if contentType != "" {
		header = append(header, "Content-Type", contentType)
	}
	return must.Fetch(s, method, s.web.URL+path, body, header...)
}

// told parses a response of the query door: names of items, with a "-" before those of deleted pages.
func (s *site) told(body string) (protocol.Manifest, string) {
	s.Helper()
	r := protocol.NewManifestReader(strings.NewReader(body), protocol.ManifestOptions{URL: base + "parley/query"})
	var names []string
	for {
		rec, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r.Head(), strings.Join(names, " ")
		case err != nil:
			s.Fatalf("%v\n%s", err, body)
		case rec.Gone != nil:
			names = append(names, "-"+strings.TrimPrefix(rec.Gone.URL, base))
		default:
			names = append(names, strings.TrimPrefix(rec.Item.URL, base))
		}
	}
}

func TestQuery(t *testing.T) {
	s := newQueried(t)
	s.write("docs/x.html", "xx")
	s.write("docs/y.html", "yyy")
	s.look()
	s.remove("b.html")
	must.Get(s.pub.AcceptDeletions(t.Context()))
	s.look()
	for path, want := range map[string]string{
		"/parley/query":                                    "a.html docs/x.html docs/y.html",
		"/parley/query?prefix=/docs/":                      "docs/x.html docs/y.html",
		"/parley/query?match=/**/x*&match=/a*":             "a.html docs/x.html",
		"/parley/query?minlen=3":                           "docs/y.html",
		"/parley/query?since=2000":                         "a.html docs/x.html docs/y.html -b.html",
		"/parley/query?since=2000&prefix=/b":               "-b.html",
		"/parley/query?since=2000&minlen=1000":             "-b.html",
		"/parley/query?since=2999":                         "",
		"/parley/query?limit=1":                            "a.html",
		"/parley/query?limit=2&past=" + base + "a.html":    "docs/x.html docs/y.html",
		"/parley/query?since=2000&past=" + base + "b.html": "docs/x.html docs/y.html", // b.html comes with the first page of results
	} {
		resp, body := s.get(path)
		head, names := s.told(body)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != protocol.ManifestType || names != want {
			t.Errorf("%s: %d %v: %q, want %q", path, resp.StatusCode, resp.Header, names, want)
		}
		if head.Complete || head.Cursor != s.journal.Head() || !head.Modified.Equal(s.modified()) || head.Changes != base+"parley/changes" || head.Base != base {
			t.Errorf("%s: %+v", path, head)
		}
		more := strings.HasPrefix(path, "/parley/query?limit=1")
		if (resp.Header.Get("Parley-More") == "items") != more || (resp.Header.Get("Link") == "<"+base+"parley/query?limit=1&past="+url.QueryEscape(base+"a.html")+`>; rel="next"`) != more {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}

// modified returns when the journal last changed.
func (s *site) modified() time.Time {
	v := must.Get(s.journal.View())
	defer v.Close()
	return v.Modified()
}

func TestQueryIsConditional(t *testing.T) {
	s := newQueried(t)
	resp, body := s.get("/parley/query?minlen=1")
	tag := resp.Header.Get("ETag")
	if tag == "" || resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", resp.Header)
	}
	for _, c := range []struct {
		method, path, tags string
		want               int
	}{
		{"GET", "/parley/query?minlen=1", tag, 304},
		{"HEAD", "/parley/query?minlen=1", strings.TrimPrefix(tag, "W/"), 304},
		{"GET", "/parley/query?minlen=1", `"x", ` + tag, 304},
		{"GET", "/parley/query?minlen=1", "*", 304},
		{"GET", "/parley/query?minlen=1", `"x"`, 200},
		{"GET", "/parley/query?minlen=2", tag, 200},
		{"GET", "/parley/query?minlen=1&limit=1", tag, 200},
	} {
		resp, got := s.ask(c.method, c.path, "", "", "If-None-Match", c.tags)
		if resp.StatusCode != c.want || c.want == 304 && (got != "" || resp.Header.Get("ETag") != tag) {
			t.Errorf("%+v: %d %v", c, resp.StatusCode, resp.Header)
		}
	}
	if resp, got := s.ask("HEAD", "/parley/query?minlen=1", "", ""); resp.StatusCode != 200 || got != "" || resp.Header.Get("ETag") != tag {
		t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
	}
	if _, again := s.get("/parley/query?minlen=1"); again != body {
		t.Error("one query has two answers")
	}
	s.write("c.html", "c")
	s.look()
	if resp, _ := s.ask("GET", "/parley/query?minlen=1", "", "", "If-None-Match", tag); resp.StatusCode != 200 {
		t.Errorf("after a change: %d", resp.StatusCode)
	}
}

func TestQueryParametersInBody(t *testing.T) {
	s := newQueried(t)
	const form = "application/x-www-form-urlencoded"
	_, want := s.get("/parley/query?prefix=/a")
	same := base + "parley/query?prefix=%2Fa"
	for _, c := range []struct{ method, path, body string }{
		{"QUERY", "/parley/query", "prefix=/a"}, {"POST", "/parley/query", "prefix=%2Fa"}, {"QUERY", "/parley/query?prefix=/a", ""},
	} {
		resp, body := s.ask(c.method, c.path, form+"; charset=UTF-8", c.body)
		location := ""
		if c.method == "QUERY" {
			location = same
		}
		if resp.StatusCode != 200 || body != want || resp.Header.Get("Content-Location") != same || resp.Header.Get("Location") != location {
			t.Errorf("%v: %d %v", c, resp.StatusCode, resp.Header)
		}
	}
	for _, c := range []struct {
		method, path, contentType, body string
		want                            int
	}{
		{"QUERY", "/parley/query", "application/json", "{}", 415},
		{"POST", "/parley/query", "", "prefix=/a", 415},
		{"QUERY", "/parley/query", form + "; charset=latin1", "prefix=/a", 415},
		{"QUERY", "/parley/query", form, strings.Repeat("x", 70_000), 413},
		{"QUERY", "/parley/query", form, "prefix=/a&%", 400},
		{"QUERY", "/parley/query?limit=1", form, "limit=2", 400},
		{"PUT", "/parley/query", form, "", 405},
		{"QUERY", "/parley/changes", "text/plain", "", 415},
		{"POST", "/parley/changes", form, "wat=1", 400},
	} {
		resp, body := s.ask(c.method, c.path, c.contentType, c.body)
		if resp.StatusCode != c.want || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60v: %d %s", c, resp.StatusCode, body)
		}
		if accepts := resp.Header.Get("Accept-Query"); c.want != 405 && accepts != `"`+form+`"` {
			t.Errorf("%.60v accepts %s", c, accepts)
		}
	}
	s.write("a.html", "aa")
	s.look()
	q := "after=" + s.cursor(0).String() + "&prefix=/a"
	_, want = s.get("/parley/changes?" + q)
	for _, method := range []string{"QUERY", "POST"} {
		if resp, body := s.ask(method, "/parley/changes", form, q); resp.StatusCode != 200 || body != want || !strings.Contains(body, `"op":"update"`) {
			t.Errorf("%s changes: %d %s", method, resp.StatusCode, body)
		}
	}
}

func TestQueryRefuses(t *testing.T) {
	s := newQueried(t)
	for query, parameter := range map[string]string{
		"op=delete": "op", "minsig=0.5": "minsig", "as=page": "as", "after=0:0": "after", "agent=x": "agent",
		"limit=0": "limit", "limit=50001": "limit", "past=/a.html": "past", "past=" + base + "x/../y": "past",
		"where=true": "where", "minlen=x": "minlen", "prefix=docs": "prefix", "since=1&since=2": "since",
	} {
		resp, body := s.get("/parley/query?" + query)
		if resp.StatusCode != 400 || !strings.Contains(body, fmt.Sprintf("%q:%q", "parameter", parameter)) {
			t.Errorf("%s: %d %s", query, resp.StatusCode, body)
		}
	}
	if a := answers(&doors.Notifier{Log: s.journal, Base: base}, "/parley/query"); a.Code != 404 {
		t.Errorf("without Items: %d", a.Code)
	}
}

// A query may be too long for a URL: then no equivalent GET URL is offered.
func TestQueryTooLongForURL(t *testing.T) {
	s := newQueried(t, func(n *doors.Notifier) {
		n.Clients.Where = func(string) (caller.Predicate, error) {
			return func(_ context.Context, c *protocol.Change) (bool, error) {
				return strings.HasSuffix(c.Item.URL, "b.html"), nil
			}, nil
		}
	})
	body := url.Values{"where": {strings.Repeat("é", 2000)}}.Encode()
	resp, answer := s.ask("QUERY", "/parley/query", "application/x-www-form-urlencoded", body)
	head, names := s.told(answer)
	if resp.StatusCode != 200 || names != "b.html" || head.URL != base+"parley/query" || resp.Header.Get("Location") != "" || resp.Header.Get("Content-Location") != "" {
		t.Errorf("%d %v: %q of %s", resp.StatusCode, resp.Header, names, head.URL)
	}
}

func TestQueryAnswerDependsOnCaller(t *testing.T) {
	s := newQueried(t, func(n *doors.Notifier) {
		n.Clients.Identify = func(r *http.Request) (caller.Caller, error) {
			return caller.Caller{Name: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}, nil
		}
		n.Clients.PublicTo = func(name, url string) bool { return name != "bad" || !strings.HasSuffix(url, "/a.html") }
	})
	s.remove("a.html")
	must.Get(s.pub.AcceptDeletions(t.Context()))
	s.look()
	s.write("a.html", "new")
	s.write("c.html", "c")
	s.look()
	tags := map[string]bool{}
	for name, want := range map[string]string{"": "a.html b.html c.html", "good": "a.html b.html c.html", "bad": "b.html c.html"} {
		resp, body := s.ask("GET", "/parley/query?since=2000", "", "", "Authorization", "Bearer "+name)
		if _, names := s.told(body); names != want || resp.Header.Get("Vary") != "Authorization" || resp.Header.Get("Cache-Control") != "private, no-cache" {
			t.Errorf("%q is told %q, %v", name, names, resp.Header)
		}
		tags[resp.Header.Get("ETag")] = true
	}
	if len(tags) != 3 {
		t.Errorf("entity tags %v", tags)
	}
}

// If the rules change and the journal does not, the response differs: a 304 would let a client keep pages
// that it may no longer see.
func TestQueryIsConditionalOnTheRules(t *testing.T) {
	var forbidden atomic.Value // suffix of the URLs hidden from the caller
	forbidden.Store("never")
	s := newQueried(t, func(n *doors.Notifier) {
		n.Clients.Identify = func(*http.Request) (caller.Caller, error) { return caller.Caller{Name: "somebody"}, nil }
		n.Clients.PublicTo = func(_, url string) bool { return !strings.HasSuffix(url, forbidden.Load().(string)) }
	})
	s.rename("a.html", "c.html")
	s.look()
	const path = "/parley/query?since=2000"
	resp, body := s.get(path)
	first := resp.Header.Get("ETag")
	if _, names := s.told(body); names != "b.html c.html -a.html" || !strings.Contains(body, "isReplacedBy") {
		t.Fatalf("%s", body)
	}
	tags := map[string]bool{first: true}
	for end, want := range map[string]string{"/b.html": "c.html -a.html", "/a.html": "b.html c.html", "/c.html": "b.html -a.html", "l": ""} {
		forbidden.Store(end)
		resp, body := s.ask("GET", path, "", "", "If-None-Match", first)
		tag := resp.Header.Get("ETag")
		if resp.StatusCode != 200 || tags[tag] {
			t.Fatalf("without %s: %d, %s", end, resp.StatusCode, tag)
		}
		tags[tag] = true
		if _, names := s.told(body); names != want || strings.Contains(body, "c.html") != strings.Contains(want, "c.html") {
			t.Errorf("without %s: %s", end, body)
		}
		if resp, _ := s.ask("GET", path, "", "", "If-None-Match", tag); resp.StatusCode != 304 {
			t.Errorf("without %s, again: %d", end, resp.StatusCode)
		}
	}
	forbidden.Store("never")
	if resp, _ := s.ask("GET", path, "", "", "If-None-Match", first); resp.StatusCode != 304 {
		t.Errorf("with the previous rules: status %d", resp.StatusCode)
	}
	// The destination of a move may be the only thing left out of the answer.
	const moved = "/parley/query?since=2000&prefix=/a"
	resp, _ = s.get(moved)
	forbidden.Store("/c.html")
	if resp, body := s.ask("GET", moved, "", "", "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != 200 || !strings.Contains(body, "Tombstone") || strings.Contains(body, "c.html") {
		t.Errorf("target of the move: %d %s", resp.StatusCode, body)
	}
}

// endless returns a Moment of a site with infinitely many pages.
func endless(each func()) *content.Moment {
	m := &content.Moment{Cursor: protocol.Cursor{Epoch: "e", Seq: 1}, Close: func() {}}
	m.Items = func(string) iter.Seq2[protocol.Item, error] {
		return func(yield func(protocol.Item, error) bool) {
			for i := 0; ; i++ {
				each()
				if !yield(protocol.Item{URL: fmt.Sprintf("%s%09d", base, i), Length: 1}, nil) {
					return
				}
			}
		}
	}
	return m
}

// answers sends a request without a network.
func answers(n *doors.Notifier, path string) *httptest.ResponseRecorder {
	return answersTo(n, path, "192.0.2.1:1234")
}

func answersTo(n *doors.Notifier, path, peer string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = peer
	n.ServeHTTP(w, r)
	return w
}

func TestSlowQueryIsRejected(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	synctest.Test(t, func(t *testing.T) {
		n := &doors.Notifier{Log: w.journal, Base: base,
			Content: doors.Content{Items: func(context.Context) (*content.Moment, error) {
				return endless(func() { time.Sleep(time.Second) }), nil
			}}}
		if a := answers(n, "/parley/query?minlen=2"); a.Code != 422 || !strings.Contains(a.Body.String(), "prefix") {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		if a := answers(n, "/parley/query?limit=3"); a.Code != 200 || strings.Count(a.Body.String(), "<item ") != 3 || a.Header().Get("Parley-More") != "items" {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		n.Close(t.Context())
	})
}

func TestTooManyQueriesAtATime(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		n := &doors.Notifier{Log: w.journal, Base: base,
			Content: doors.Content{Items: func(context.Context) (*content.Moment, error) {
				time.Sleep(time.Minute)
				m := endless(func() {})
				m.Close = func() { closed.Add(1) }
				return m, nil
			}}}
		for _, c := range []struct{ peers, each, want int }{{1, 6, 4}, {10, 4, 32}} {
			closed.Store(0)
			answered := make(chan int)
			for i := range c.peers * c.each {
				go func() {
					answered <- answersTo(n, "/parley/query?limit=1", fmt.Sprintf("192.0.2.%d:1234", i%c.peers)).Code
				}()
			}
			codes := map[int]int{}
			for range c.peers * c.each {
				codes[<-answered]++
			}
			if codes[200] != c.want || codes[429] != c.peers*c.each-c.want || int(closed.Load()) != c.want {
				t.Errorf("%d from each of %d: answers %v, %d closed", c.each, c.peers, codes, closed.Load())
			}
		}
		n.Close(t.Context())
	})
}

func TestQueryOfBrokenJournal(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	broken := errors.New("broken")
	n := &doors.Notifier{Log: w.journal, Base: base, Content: doors.Content{Items: func(context.Context) (*content.Moment, error) { return nil, broken }}}
	if a := answers(n, "/parley/query"); a.Code != 500 || strings.Contains(a.Body.String(), "broken") {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	// A failure after the response has begun must not look like a complete response.
	reading := 0
	n = &doors.Notifier{Log: w.journal, Base: base}
	n.Content.Items = func(context.Context) (*content.Moment, error) {
		m := &content.Moment{Cursor: protocol.Cursor{Epoch: "e", Seq: 1}, Close: func() {}}
		m.Items = func(string) iter.Seq2[protocol.Item, error] {
			return func(yield func(protocol.Item, error) bool) {
				reading++
				last := reading == 3
				for i := range 5000 {
					if last && i == 4000 {
						yield(protocol.Item{}, broken)
						return
					}
					if !yield(protocol.Item{URL: fmt.Sprintf("%s%09d", base, i), Length: 1}, nil) {
						return
					}
				}
			}
		}
		return m, nil
	}
	web := httptest.NewServer(n)
	defer web.Close()
	resp, err := http.Get(web.URL + "/parley/query")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("the answer looks complete")
	}
}
