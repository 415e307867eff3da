package cel_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/catalog"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
)

// For pages generated on request, listed by a file and by a command (C36), queries work as for files.
func TestQueriesToDynamicSite(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is written for a POSIX shell")
	}
	web := httptest.NewServer(http.NotFoundHandler()) // no robots.txt: everything is allowed
	defer web.Close()
	site := web.URL + "/"
	list := filepath.Join(t.TempDir(), "urls.csv")
	write := func(text string) {
		t.Helper()
		must.Write(t, list, text)
	}
	write("url,modified,type,title,language\n/show?id=1,2026-11-01,text/html,Release notes,en\n/show?id=2,2026-11-20,text/html,News,en-GB\n")
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: site}))
	defer j.Close()
	c := &catalog.Catalog{Base: site, Sources: []catalog.Source{catalog.List(list),
		catalog.Command{Line: `printf 'url,type,modified\n/feed.php?of=all,application/rss+xml,2026-11-19\n'`}}}
	p := &server.Publisher{Inventory: c, Journal: j, Pace: server.Pace{Grace: time.Nanosecond}}
	look := func() {
		t.Helper()
		must.Get(p.Scan(t.Context(), nil))
	}
	look()
	from := j.Head()
	n := &doors.Notifier{Log: j, Base: site, Public: c.Public,
		Content: doors.Content{Items: server.Moments(j)}, Clients: doors.Clients{Where: new(cel.Expressions).Compile}}
	get := func(path string, v url.Values) string {
		t.Helper()
		w := httptest.NewRecorder()
		n.ServeHTTP(w, httptest.NewRequest("GET", path+"?"+v.Encode(), nil))
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	for _, q := range []struct {
		name, value string
		want        []string
	}{
		{"prefix", "/show", []string{"show?id=1", "show?id=2"}},
		{"type", "application/*", []string{"feed.php?of=all"}},
		{"lang", "en", []string{"show?id=1", "show?id=2"}},
		{"since", "2026-11-19", []string{"feed.php?of=all", "show?id=2"}},
		{"where", `page.title.startsWith("Release") || change.url.endsWith("of=all")`, []string{"feed.php?of=all", "show?id=1"}},
	} {
		m := protocol.NewManifestReader(strings.NewReader(get("/parley/query", url.Values{q.name: {q.value}})), protocol.ManifestOptions{URL: site})
		var got []string
		for rec, err := m.Next(); err == nil; rec, err = m.Next() {
			got = append(got, strings.TrimPrefix(rec.Item.URL, site))
		}
		if strings.Join(got, " ") != strings.Join(q.want, " ") {
			t.Errorf("%s=%s: %q, want %q", q.name, q.value, got, q.want)
		}
	}
	write("url,modified,type,title,language\n/show?id=2,2026-11-21,text/html,News,en-GB\n/show?id=3,2026-11-21,text/html,More,de\n")
	look()
	must.Get(p.AcceptDeletions(t.Context()))
	for where, want := range map[string]string{
		`page.language == "en-GB"`:             "update show?id=2, delete show?id=1",
		`has(page.language) && change.seq > 0`: "update show?id=2, create show?id=3",
		`change.url.endsWith("=3")`:            "create show?id=3",
	} {
		var m struct{ Ev []struct{ Op, URL string } }
		must.OK(t, json.Unmarshal([]byte(get("/parley/changes", url.Values{"after": {from.String()}, "where": {where}})), &m))
		var got []string
		for _, e := range m.Ev {
			got = append(got, e.Op+" "+strings.TrimPrefix(e.URL, site))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: delivered %q, want %q", where, got, want)
		}
	}
}
