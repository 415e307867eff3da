package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/protocol"
)

// crawledByCluster is NATS, and a Web site that has two names.
func crawledByCluster(t *testing.T) (servers string, site *httptest.Server) {
	t.Helper()
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/":
			fmt.Fprint(w, `<a href="/a.html">a</a> <a href="/b.html">b</a>`)
		case "/a.html", "/b.html", "/c.html":
			fmt.Fprint(w, req.URL.Path)
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(site.Close)
	return natstest.Start(t, 1).URLs(), site
}

// Two machines share a crawl. When the first one is stopped, the second one has the pages that the first one has stored, and reads their contents from
// the copies of its WARC files. The commands show the partitions. (V29)
func TestCluster(t *testing.T) {
	servers, site := crawledByCluster(t)
	copies := t.TempDir()
	node := func(dir string) *running {
		return begin(t, dir, "run", site.URL+"/", "--cluster", servers, "--partitions", "3", "--lease", "2s", "--copy-to", copies)
	}
	// has reports whether a machine runs all partitions, and has the pages.
	has := func(dir string) func() bool {
		return func() bool {
			_, out, _ := program(t.Context(), "status", dir)
			return strings.Count(out, "running, ") == 3 && strings.Contains(out, "3 known, 3 stored, 0 gone, ")
		}
	}
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "other")
	first := node(one)
	until(t, "the first machine has crawled the site", has(one))
	told := func(after string) (cursor string, urls []string) {
		t.Helper()
		_, out, _ := program(t.Context(), "events", "--cluster", servers, "--after", after)
		cursor = after
		for line := range strings.Lines(out) {
			var e struct {
				Cursor    protocol.Cursor
				Partition int
				Op, URL   string
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Op != "create" || e.Partition < 1 {
				t.Fatalf("%v: %s", err, line)
			}
			cursor, urls = e.Cursor.String(), append(urls, e.URL)
		}
		return cursor, urls
	}
	until(t, "the events of the first machine are told", func() bool { _, urls := told(protocol.Cursor{}.String()); return len(urls) == 3 })
	cursor, _ := told(protocol.Cursor{}.String())
	node(other)
	first.finish()
	until(t, "the second machine has what the first one had", has(other))
	if code, out, said := program(t.Context(), "get", site.URL+"/a.html", "--cluster", servers); code != 0 || out != "/a.html" {
		t.Errorf("the content that the first machine has fetched: exit code %d, %q: %s", code, out, said)
	}
	succeeds(t, "add", site.URL+"/c.html", "--cluster", servers)
	until(t, "the second machine tells a new page, and no other again", func() bool {
		_, urls := told(cursor)
		if len(urls) > 1 {
			t.Fatalf("told again: %v", urls)
		}
		return len(urls) == 1 && urls[0] == site.URL+"/c.html"
	})
	ends(t, 3, "cursor", "events", "--cluster", servers, "--after", "other:1")
	ends(t, 2, "--text does not work with --cluster", "events", "--cluster", servers, "--text", "plain")
	found := 0
	for i := 1; i <= 3; i++ {
		dir := filepath.Join(other, fmt.Sprintf("partition-%03d", i))
		_, out, _ := program(t.Context(), "pages", "--into", dir)
		found += strings.Count(out, site.URL)
		ends(t, 0, fmt.Sprintf("partition-%03d  ", i), "status", one)
		ends(t, 0, "crawler    running since", "status", dir)
	}
	if found != 4 {
		t.Errorf("the second machine lists %d pages", found)
	}
}

// From any machine, all partitions are asked together, or the one that has a URL. What nobody answers for is named.
func TestAskACluster(t *testing.T) {
	servers, site := crawledByCluster(t)
	other := strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
	node := begin(t, filepath.Join(t.TempDir(), "node"), "run", site.URL+"/", other+"/", "--cluster", servers, "--partitions", "3", "--lease", "20s", "--cluster-name", "test")
	ask := func(args ...string) (int, string, string) {
		return program(t.Context(), append(args, "--cluster", servers, "--cluster-name", "test")...)
	}
	wants := func(code int, text string, args ...string) {
		t.Helper()
		if is, out, said := ask(args...); is != code || !strings.Contains(out+said, text) {
			t.Errorf("crawler %q: exit code %d, want %d and %q: %s%s", args, is, code, text, out, said)
		}
	}
	until(t, "both sites are crawled", func() bool {
		code, out, _ := ask("status")
		return code == 0 && strings.Contains(out, "6 known, 6 stored, 0 gone, 0 due")
	})
	wants(0, "partitions 3, of which 3 answer", "status")
	wants(0, `"partitions": 3`, "status", "--json")
	wants(0, "localhost", "sites")
	if _, out, _ := ask("sites", "--format", "csv"); strings.Count(out, "\n") != 3 || strings.Index(out, site.URL) > strings.Index(out, other) {
		t.Errorf("sites: %s", out)
	}
	for _, of := range []string{site.URL, other} {
		wants(0, of+"/b.html", "pages")
		wants(0, of+"/a.html\n  held", "why", of+"/a.html")
		wants(0, of+"/b.html", "links", of+"/")
		wants(0, "/a.html", "get", of+"/a.html")
		wants(0, of+"/a.html", "export")
	}
	wants(0, "", "add", site.URL+"/a.html", other+"/a.html")
	wants(1, "http://elsewhere.example/ is not fetched: ", "add", "http://elsewhere.example/", other+"/b.html")
	wants(1, "is not known", "get", other+"/missing")
	wants(0, "budget=3000", "rate", "budget=3000")
	wants(0, "budget=3000", "rate")
	wants(0, "localhost is paused", "pause", "localhost")
	wants(0, "no site is paused", "resume")
	if _, _, said := ask("pause", "localhost", "nowhere.example"); !strings.Contains(said, "nowhere.example: no site") || strings.Contains(said, "localhost: no site") {
		t.Errorf("of two names that are paused, one unknown: %s", said)
	}
	wants(2, "--into and --cluster exclude each other", "sites", "--into", t.TempDir())
	t.Setenv("PARLEY_INTO", t.TempDir())
	wants(0, "localhost", "sites")
	t.Setenv("PARLEY_CLUSTER", servers)
	ends(t, 2, "PARLEY_INTO and --cluster exclude each other", "sites")
	ends(t, 1, "has no collection", "sites", "--into", t.TempDir())
	t.Setenv("PARLEY_INTO", "")
	ends(t, 0, "localhost", "sites", "--cluster-name", "test")
	t.Setenv("PARLEY_CLUSTER", "")
	wants(2, "--warc out: with --cluster", "export", "--warc", "out")
	ends(t, 1, `NATS has no crawl "crawl"`, "sites", "--cluster", servers)
	node.finish()
	wants(1, "no machine answers for these partitions, which are left out: 1, 2, 3", "sites")
	wants(1, "no machine answers for these partitions, which are left out: 1, 2, 3", "pages", "--format", "json")
	wants(1, "partitions 3, of which 0 answer", "status")
	wants(1, "no machine answers", "why", other+"/")
	wants(1, "no machine answers", "add", other+"/")
}

// The command of the systemd unit in examples/cluster is understood.
func TestClusterUnit(t *testing.T) {
	unit := string(must.Get(os.ReadFile("../../examples/cluster/parley-crawler.service")))
	_, line, _ := strings.Cut(unit, "\nExecStart=/usr/local/bin/crawler ")
	line, _, _ = strings.Cut(line, "\n")
	t.Setenv("PARLEY_CLUSTER", "nats://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, said := program(ctx, strings.Fields(strings.Replace(line, "/var/lib/parley/crawl", t.TempDir(), 1))...); code != 0 || !strings.HasPrefix(line, "run ") {
		t.Errorf("crawler %s: exit code %d: %s", line, code, said)
	}
}

// With servers that may lose what they have acknowledged a crawl does not start, and its crawler says what to set.
func TestClusterOfServersThatSyncLater(t *testing.T) {
	ends(t, 1, "set sync_interval: always in the jetstream block", "run", "https://www.example.org/", "--cluster", "nats://"+natstest.User+natstest.Syncing(t, "2m").Addr().String(), "--into", t.TempDir(), "--contact", "a@example.net")
}

func TestClusterMisuse(t *testing.T) {
	for args, want := range map[string]string{
		"crawl --cluster nats://127.0.0.1:1":                        `--cluster is for "crawler run"`,
		"run --lease 5s":                                            "--lease needs --cluster",
		"run --cluster nats://127.0.0.1:1 --partition 1/2":          "--partition and --cluster exclude each other",
		"run --cluster nats://127.0.0.1:1 --store mirror":           "--store mirror: with --cluster want warc or none",
		"run --cluster nats://127.0.0.1:1 --partitions 1025":        "--partitions 1025: want 1 to 1024",
		"run --cluster nats://127.0.0.1:1 --lease 1s":               "--lease 1s: want 2 s to an hour",
		"run --cluster nats://127.0.0.1:1 http://elsewhere.example": "crawler run: elsewhere.example is another machine: add --contact",
		"run --cluster nats://127.0.0.1:1 --cluster-creds missing":  "--cluster: connect to NATS: ",
	} {
		code := 2
		if strings.Contains(args, "missing") {
			code = 1
		}
		ends(t, code, want, append(strings.Fields(args), append([]string{"http://127.0.0.1:9/"}, own(t.TempDir())...)...)...)
	}
}
