package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/doors"
)

// defaults returns the options of a program with their default values.
func defaults(t *testing.T, name string, args ...string) map[string]string {
	t.Helper()
	out, code := run(t, name, append(args, "--help-json")...)
	var table []command.Option
	if err := json.Unmarshal([]byte(out), &table); err != nil || code != 0 {
		t.Fatalf("%s %q: exit code %d, %v: %s", name, args, code, err, out)
	}
	m := map[string]string{}
	for _, o := range table {
		m[o.Name] = o.Default
	}
	return m
}

// Each line of the table in docs/limits.md states the present defaults of the programs' options
// and the bounds that both sides share.
func TestLimitsInTheManual(t *testing.T) {
	site, sidecar := defaults(t, "rdfgen"), defaults(t, "notifier")
	follow, crawl := defaults(t, "crawler", "follow"), defaults(t, "crawler", "config")
	page := must.Get(os.ReadFile("../../docs/limits.md"))
	both := func(n int) [2]string { return [2]string{fmt.Sprint(n), fmt.Sprint(n)} }
	for what, value := range map[string][2]string{
		"a page, `follow`":                            {"`--max-file` " + site["max-file"], "`--max-page` " + follow["max-page"]},
		"a page, `crawl` and `run`":                   {"`--max-file` " + site["max-file"], "`--max-file` " + crawl["max-file"]},
		"a URL, bytes":                                both(protocol.MaxURL),
		"robots.txt, bytes read":                      both(robots.MaxBytes),
		"robots.txt is read again":                    {"on every scan; from a URL every minute", "`--robots-every` " + crawl["robots-every"]},
		"new permissions in robots.txt take effect":   {"after `--robots-wait` " + site["robots-wait"], "when it is read"},
		"a description (`.well-known/parley`), bytes": both(protocol.MaxDiscovery),
		"longest silence of a stream":                 {"`--heartbeat` " + sidecar["heartbeat"], fmt.Sprintf("two heartbeats of at most %v min", protocol.MaxHeartbeat.Minutes())},
		"a message, bytes":                            both(protocol.MaxMessage),
		"changes in a message":                        both(protocol.MaxBatch),
		"a page within a message, bytes":              both(protocol.MaxInline),
		"a batch request, bytes":                      both(protocol.MaxQuestion),
		"a batch request, URLs":                       both(protocol.MaxQuestionPages),
	} {
		if line := "| " + what + " | " + value[0] + " | " + value[1] + " |"; !strings.Contains(string(page), line+"\n") {
			t.Errorf("docs/limits.md lacks the line\n%s", line)
		}
	}
	if site["max-file"] != follow["max-page"] {
		t.Errorf("a site publishes pages of %s, but a follower accepts %s", site["max-file"], follow["max-page"])
	}
	if site["max-file"] != sidecar["max-file"] || site["robots-wait"] != sidecar["robots-wait"] {
		t.Error("rdfgen and notifier differ")
	}
	if out, code := run(t, "notifier", "--docroot", t.TempDir(), "--base", "http://site.example/", "--heartbeat", "11m"); code != 2 || !strings.Contains(out, "--heartbeat") {
		t.Errorf("a heartbeat above the maximum: exit code %d: %s", code, out)
	}
}

// With default options, a crawler fetches every type of file that a site publishes and lists.
func TestPublishedTypesAreFetched(t *testing.T) {
	root := t.TempDir()
	rules := filepath.Join(t.TempDir(), "robots.txt")
	for _, name := range strings.Fields("a.htm a.html a.html.en a.html.in a.xhtml a.pdf a.txt a.xml a.jpg a.zip a.css a.js a.mp4 a.doc a.php noextension") {
		must.Write(t, filepath.Join(root, name), "content")
	}
	must.Write(t, rules, "User-agent: *\nDisallow:\n")
	page := must.Get(os.ReadFile("../../docs/limits.md"))
	s, crawler, published := &server.Site{Docroot: root, Base: "https://site.example/"}, &seed.Seeder{}, []string{}
	s.Robots.File = rules
	for o, err := range s.Scan(t.Context(), nil) {
		switch {
		case err != nil:
			t.Fatal(err)
		case o.LeftOut != "":
			continue
		}
		published = append(published, "`"+o.Place[1:]+"` "+o.Type)
		if v := crawler.Admit(seed.Ref{URL: o.URL, Kind: seed.Listed}); !v.OK || v.LogOnly {
			t.Errorf("%s is published, but not fetched: %+v", o.URL, v)
		}
	}
	if line := strings.Join(published, ", "); len(published) != 5 || !strings.Contains(string(page), line) {
		t.Errorf("docs/limits.md does not say that a site publishes %s", line)
	}
}

// Even with the longest allowed base, the description of a site is not longer than readers accept.
func TestLongestDescriptionIsRead(t *testing.T) {
	base := "https://site.example/" + strings.Repeat("&", protocol.MaxURL/2-len("https://site.example/")-1) + "/"
	must.OK(t, (&server.Site{Docroot: t.TempDir(), Base: base}).Check())
	if err := (&server.Site{Docroot: t.TempDir(), Base: base + "&/"}).Check(); err == nil {
		t.Fatal("a longer base is accepted too")
	}
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	must.OK(t, j.EndBaseline())
	n := &doors.Notifier{Log: j, Base: base, Content: doors.Content{Items: server.Moments(j)},
		Clients: doors.Clients{Where: func(string) (caller.Predicate, error) { return nil, nil }}}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/"+protocol.DiscoveryPath, nil)
	n.ServeHTTP(w, r)
	// Three more doors have a URL of that length: batch, site and agents.
	if size := w.Body.Len() + 3*len(base) + 1000; w.Code != http.StatusOK || size > protocol.MaxDiscovery {
		t.Errorf("status %d, %d bytes: %.300s", w.Code, size, w.Body)
	}
}
