package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
)

const token = "a token that is long enough"

// A mouth sends requests to the announce door of a world.
type mouth struct {
	*world
	n      *doors.Notifier
	header http.Header
}

func newMouth(t *testing.T) *mouth {
	w := newWorld(t)
	w.write("a.html", "a")
	w.look()
	m := &mouth{world: w, header: http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}}
	m.open("another", token)
	return m
}

// open replaces the doors by some that accept these tokens.
func (m *mouth) open(tokens ...string) {
	m.n = &doors.Notifier{Log: m.journal, Base: base, Public: m.Public, Ready: m.pub.Ready, Logger: testLog(m.T),
		Clients: doors.Clients{Announce: m.pub.Announce, AnnounceTokens: tokens}}
}

func (m *mouth) post(body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest("POST", base+"parley/announce", strings.NewReader(body))
	req.Header = m.header.Clone()
	rec := httptest.NewRecorder()
	m.n.ServeHTTP(rec, req)
	return rec
}

func TestAnnounceDoor(t *testing.T) {
	m := newMouth(t)
	at := m.now.Format(time.RFC3339)
	page := func(url string) string { return fmt.Sprintf(`{"url":%q,"modified":%q,"of_no_use":[1,{}]}`, url, at) }
	said := func(body string) protocol.Announced {
		t.Helper()
		rec := m.post(body)
		var done protocol.Announced
		if err := json.Unmarshal(rec.Body.Bytes(), &done); rec.Code != 200 || err != nil || rec.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v: %s", rec.Code, err, rec.Body)
		}
		if done.Cursor != m.journal.Head() {
			t.Errorf("%+v", done)
		}
		return done
	}
	said(page("/one"))
	said(" [" + page("/two") + "," + page(base+"three") + "]\n")
	said(`{"pages":[` + page("/four") + `]}`)
	m.wantTold("create one, create two, create three, create four")
	said(`{"url":"/one","gone":true}`)
	m.header.Set("Content-Type", "application/x-ndjson; charset=utf-8")
	said(page("/five") + "\n\n" + page("/six") + "\r\n")
	m.wantTold("delete one, create five, create six")
	if done := said(""); done.Created != 0 {
		t.Errorf("%+v", done)
	}
	m.header.Del("Content-Type")
	done := said(`[]`)
	if done.Created+done.Unchanged != 0 {
		t.Errorf("%+v", done)
	}
	done = said(`[` + page("http://elsewhere.example/") + `,` + page("/five") + `]`)
	if len(done.Refused) != 1 || done.Refused[0].URL != "http://elsewhere.example/" || done.Unchanged != 1 {
		t.Errorf("%+v", done)
	}
	sum := protocol.Sum([]byte("x")).String()
	if done = said(`{"url":"/seven","digest":"` + sum + `","length":1,"type":"text/html"}`); done.Created != 1 || m.entry("seven").Digest.String() != sum {
		t.Errorf("%+v", done)
	}
}

func TestAnnounceDoorRefuses(t *testing.T) {
	m := newMouth(t)
	good := fmt.Sprintf(`{"url":"/x","modified":%q}`, m.now.Format(time.RFC3339))
	many := "[" + strings.Repeat(good+",", protocol.MaxBatch) + good + "]"
	for _, c := range []struct {
		body, ctype string
		status      int
		says        string
	}{
		{``, "", 400, "not valid JSON"},
		{`[` + good, "", 400, "not valid JSON"},
		{good + good, "", 400, "not valid JSON"},
		{`"x"`, "", 400, ""},
		{`null`, "", 400, "page 0"},
		{`[` + good + `,7]`, "", 400, "page 1 cannot be read: not a JSON object"},
		{`[` + good + `,{"modified":"2026-11-21T09:00:00Z"}]`, "", 400, "page 1 cannot be read: url is missing"},
		{`[` + good + `,{"url":"/y","modified":"yesterday"}]`, "", 400, "page 1"},
		{`{"pages":[{"url":"/y","digest":"md5"}]}`, "", 400, "page 0"},
		{good + "\n{", "application/x-ndjson", 400, "page 1"},
		{many, "", 413, "more than 1000 pages at once: send them in several requests"},
		{strings.Repeat(good+"\n", protocol.MaxBatch+1), "application/x-ndjson", 413, "in several requests"},
		{good + strings.Repeat(" ", 4<<20), "", 413, "4194304 bytes per request"},
		{good, "application/x-www-form-urlencoded", 415, "application/json"},
		{good, "nonsense/", 415, "application/json"},
	} {
		m.header.Set("Content-Type", c.ctype)
		if c.ctype == "" {
			m.header.Set("Content-Type", "application/json")
		}
		rec := m.post(c.body)
		var p struct {
			Status            int
			Detail, Parameter string
		}
		json.Unmarshal(rec.Body.Bytes(), &p)
		if rec.Code != c.status || p.Status != c.status || !strings.Contains(p.Detail, c.says) || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60q: %d %s, want %d %s", c.body, rec.Code, rec.Body, c.status, c.says)
		}
		if strings.HasPrefix(c.says, "page ") && p.Parameter != "pages["+c.says[5:6]+"]" {
			t.Errorf("%.60q: parameter %q", c.body, p.Parameter)
		}
	}
	m.header.Set("Content-Type", "application/json")
	m.header.Set("Content-Encoding", "gzip")
	if rec := m.post(good); rec.Code != 415 {
		t.Errorf("gzip: %d", rec.Code)
	}
	m.wantTold("")
}

func TestAnnounceDoorNeedsToken(t *testing.T) {
	m := newMouth(t)
	body := `{"url":"/x","modified":"2026-11-21T08:00:00Z"}`
	var first string
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + token + "x", "Basic " + token, token, "Bearer another " + token} {
		m.header.Set("Authorization", auth)
		rec := m.post(body)
		if rec.Code != 401 || !strings.HasPrefix(rec.Header().Get("Www-Authenticate"), "Bearer ") {
			t.Errorf("%q: %d %v", auth, rec.Code, rec.Header())
		}
		if first == "" {
			first = rec.Body.String()
		}
		if rec.Body.String() != first {
			t.Errorf("%q: answered %s, else %s", auth, rec.Body, first)
		}
	}
	m.open("")
	m.header.Set("Authorization", "Bearer ")
	if rec := m.post(body); rec.Code != 401 {
		t.Errorf("an empty token is accepted: status %d", rec.Code)
	}
	m.open()
	m.header.Set("Authorization", "Bearer "+token)
	if rec := m.post(body); rec.Code != 401 {
		t.Errorf("without tokens: status %d", rec.Code)
	}
	m.open(token)
	m.header.Set("Authorization", "bearer  "+token+" ")
	if rec := m.post(body); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	get := func(method, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		m.n.ServeHTTP(rec, httptest.NewRequest(method, base+path, nil))
		return rec
	}
	if rec := get("GET", "parley/announce"); rec.Code != 405 || rec.Header().Get("Allow") != "POST" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
	if rec := get("PUT", "parley/changes"); rec.Code != 405 || rec.Header().Get("Allow") != "GET, HEAD, QUERY, POST" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
	m.open(token)
	m.n.Clients.Announce = nil
	if a, b := get("GET", "parley/announce"), m.post(body); a.Code != 404 || b.Code != 404 {
		t.Errorf("without Announce: status %d, %d", a.Code, b.Code)
	}
}

// An error that may go away asks for a retry.
func TestAnnounceDoorAsksForRetry(t *testing.T) {
	m := newMouth(t)
	var answer error
	m.n.Clients.Announce = func(context.Context, []protocol.Announcement) (protocol.Announced, error) {
		return protocol.Announced{}, answer
	}
	for _, c := range []struct {
		err    error
		status int
	}{
		{fmt.Errorf("announce: %w", content.ErrNotReady), 503},
		{fmt.Errorf("announce: %w", context.DeadlineExceeded), 503},
		{errors.New("disk full"), 500},
	} {
		answer = c.err
		rec := m.post(`{"url":"/x"}`)
		if again := rec.Header().Get("Retry-After"); rec.Code != c.status || (c.status == 503) != (again != "") {
			t.Errorf("%v: %d, again after %q", c.err, rec.Code, again)
		}
		if strings.Contains(rec.Body.String(), "disk") {
			t.Errorf("the response reveals an internal error: %s", rec.Body)
		}
	}
}

// The door answers any request body, and accepts no more pages than its limit.
func FuzzAnnounceDoor(f *testing.F) {
	for _, s := range []string{``, `{"url":"/x","modified":"2026-11-21T09:00:00Z"}`, `[{"url":"/x","gone":true},{"url":"y"}]`,
		`{"pages":[{"url":"/x","digest":"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:","length":-1}]}`,
		`{"pages":null}`, `{"pages":{}}`, "{\"url\":\"/x\"}\n{\"url\":\"/y\"}\n", `[[[[`, "\xff", `{"url":"\ud800"}`} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		n := &doors.Notifier{Base: base, Clients: doors.Clients{AnnounceTokens: []string{token}}}
		got := -1
		n.Clients.Announce = func(_ context.Context, list []protocol.Announcement) (protocol.Announced, error) {
			got = len(list)
			for _, a := range list {
				if a.URL == "" {
					t.Error("a page without a URL was accepted")
				}
			}
			return protocol.Announced{}, nil
		}
		req := httptest.NewRequest("POST", base+"parley/announce", bytes.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+token)
		if lines {
			req.Header.Set("Content-Type", "application/x-ndjson")
		}
		rec := httptest.NewRecorder()
		n.ServeHTTP(rec, req)
		switch rec.Code {
		case 200:
			if got < 0 || got > protocol.MaxBatch {
				t.Errorf("%d pages", got)
			}
		case 400, 413:
			if got >= 0 {
				t.Error("an accepted request was answered with an error")
			}
		default:
			t.Errorf("status %d", rec.Code)
		}
		if !json.Valid(rec.Body.Bytes()) {
			t.Errorf("answered %q", rec.Body)
		}
	})
}
