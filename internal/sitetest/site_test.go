package sitetest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "Test")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestSite(t *testing.T) {
	s := sitetest.NewSite(t, map[string]string{"index.html": "home", "a/b.html": "page", "a/c.txt": "unpublished"})
	for path, want := range map[string]string{"": "home", "a/b.html": "page", "a/c.txt": "unpublished"} {
		if code, text, err := get(t, s.Base+path); code != 200 || text != want || err != nil {
			t.Errorf("%s: %d %q %v", path, code, text, err)
		}
	}
	if code, _, _ := get(t, s.Base+"nowhere.html"); code != 404 {
		t.Errorf("status %d", code)
	}
	if _, text, _ := get(t, s.Base+"robots.rdf"); strings.Count(text, "<item ") != 2 || !strings.Contains(text, s.Base+"a/b.html") {
		t.Errorf("manifest:\n%s", text)
	}
	if s.Hits("/a/b.html", "Test") != 1 || s.Hits("", "Test") != 5 || s.Hits("", "Other") != 0 {
		t.Errorf("requests %v", s.Requests())
	}
	at := s.Head()
	s.Write("a/b.html", "page, newer")
	s.Rename("index.html", "home.html")
	s.Remove("a/c.txt")
	if head := s.Publish(); head.Epoch != at.Epoch || head.Seq != at.Seq+2 {
		t.Errorf("head %v after %v", head, at)
	}
	_, text, _ := get(t, s.Base+"parley/changes?after="+at.String())
	m, err := protocol.ParseMessage([]byte(text))
	if err != nil || len(m.Changes) != 2 || m.To != s.Head() {
		t.Errorf("changes %s: %v", text, err)
	}
	if p := s.Pages(); len(p) != 2 || p[s.Base+"home.html"] != "home" || p[s.Base+"a/b.html"] != "page, newer" {
		t.Errorf("pages %v", p)
	}
	s.Restart(nil)
	if s.Head() != m.To {
		t.Errorf("head %v after a restart", s.Head())
	}
	s.LoseState()
	if s.Head().Epoch == at.Epoch {
		t.Errorf("head %v without its journal", s.Head())
	}
}

func TestWatch(t *testing.T) {
	s := sitetest.NewSite(t, map[string]string{"index.html": "home"})
	s.Watch()
	at := s.Head()
	s.Write("new.html", "x")
	if _, text, err := get(t, s.Base+"parley/changes?wait=30&after="+at.String()); err != nil || !strings.Contains(text, "new.html") {
		t.Errorf("changes %s, error %v", text, err)
	}
}

func TestFaults(t *testing.T) {
	s := sitetest.NewSite(t, map[string]string{"index.html": "home", "a.html": "0123456789"})
	for _, tt := range []struct {
		fault sitetest.Fault
		code  int
		text  string
		fails bool
	}{
		{sitetest.Status(429, time.Minute), 429, "", false},
		{sitetest.Truncate(4), 200, "0123", true},
		{sitetest.Bytes("other, and longer"), 200, "other, and longer", false},
		{sitetest.Slow(time.Millisecond), 200, "0123456789", false},
		{sitetest.Times(0, sitetest.Status(500, 0)), 200, "0123456789", false},
		{nil, 200, "0123456789", false},
	} {
		s.Break("/a.html", tt.fault)
		if code, text, err := get(t, s.Base+"a.html"); code != tt.code || text != tt.text || (err != nil) != tt.fails {
			t.Errorf("%d %q, error %v; want %d %q", code, text, err, tt.code, tt.text)
		}
	}
	s.Break("*", sitetest.Times(1, sitetest.Status(500, 0)))
	a, _, _ := get(t, s.Base)
	b, _, _ := get(t, s.Base)
	if a != 500 || b != 200 {
		t.Errorf("statuses %d %d", a, b)
	}
	s.Heal()
	s.Break("/parley/stream", sitetest.NoUpgrade)
	r, _ := http.NewRequest("GET", s.Base+"parley/stream?after="+s.Head().String(), nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}, "Sec-Websocket-Protocol": {protocol.Subprotocol}}
	resp := must.Get(http.DefaultClient.Do(r))
	resp.Body.Close()
	if resp.StatusCode/100 != 4 {
		t.Errorf("without upgrade: %s", resp.Status)
	}
}
