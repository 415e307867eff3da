package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/internal/warc"
)

// A running is a crawler started through its command line.
type running struct {
	t    *testing.T
	dir  string
	stop context.CancelFunc
	end  chan int
}

// own returns the options for a site on this machine.
func own(dir string) []string {
	return []string{"--into", dir, "--allow-private", "--wait", "0", "--coding", "none", "--text-digest"}
}

func begin(t *testing.T, dir string, args ...string) *running {
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, dir: dir, stop: stop, end: make(chan int, 1)}
	go func() {
		code, _, said := program(ctx, append(args, own(dir)...)...)
		if code != 0 {
			t.Errorf("crawler %q: exit code %d: %s", args, code, said)
		}
		r.end <- code
	}()
	t.Cleanup(r.finish)
	return r
}

func (r *running) finish() {
	if r.stop == nil {
		return
	}
	r.stop()
	<-r.end
	r.stop = nil
}

// until waits up to 20 s until f returns true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 20 s waiting until %s", what)
		}
	}
}

func (r *running) says(args ...string) string {
	r.t.Helper()
	code, out, said := program(r.t.Context(), append(args, "--into", r.dir)...)
	if code != 0 {
		r.t.Fatalf("crawler %q: exit code %d: %s", args, code, said)
	}
	return out
}

// A site that supports Parley is fetched whole, after a change only the changed pages are fetched, and every
// command reports on it while the crawler runs.
func TestRunFollowsSiteWithManifest(t *testing.T) {
	pages := map[string]string{"index.html": "<title>Home</title>home <a href=a.html>a</a>"}
	for i := range 30 {
		pages[fmt.Sprintf("p%d.html", i)] = fmt.Sprintf("<title>Page %d</title>text %d", i, i)
	}
	site := sitetest.NewSite(t, pages)
	dir := filepath.Join(t.TempDir(), "crawl")
	r := begin(t, dir, "run", site.Base)
	until(t, "all pages are stored", func() bool {
		_, out, _ := program(t.Context(), "sites", "--format", "csv", "--into", dir) // which fails until there is a collection
		return strings.Contains(out, ",32,31,0,")                                    // one is linked but does not exist
	})
	page := site.Base + "p7.html"
	if got := r.says("get", page); got != pages["p7.html"] {
		t.Errorf("get: %q", got)
	}
	site.Write("p7.html", "<title>Page 7</title>quite another text")
	site.Publish()
	until(t, "the change is stored", func() bool { return strings.Contains(r.says("get", page), "quite another") })

	var last collection.Event
	lines := strings.Split(strings.TrimSpace(r.says("events", "--text", "plain")), "\n")
	must.OK(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	if last.URL != page || last.Op != "update" || !last.TextChanged || last.Signal != collection.ByStream {
		t.Errorf("the last event is %+v", last)
	}
	if !strings.Contains(lines[len(lines)-1], `"body":"quite another text"`) {
		t.Errorf("the last event has no text: %s", lines[len(lines)-1])
	}
	if out := r.says("sites"); !strings.Contains(out, "stream") || !strings.Contains(out, "100%") {
		t.Errorf("sites: %s", out)
	}
	if out := r.says("why", page); !strings.Contains(out, "robots.txt allows it") || !strings.Contains(out, "via stream") {
		t.Errorf("why: %s", out)
	}
	if out := r.says("pages", "--prefix", site.Base+"p1", "--format", "csv"); strings.Count(out, "\n") != 12 {
		t.Errorf("pages: %s", out)
	}
	code, _, said := program(t.Context(), "add", site.Base+"new.html", site.Base+"p1.html", "ftp://x/", "--into", dir)
	if code != 1 || !strings.Contains(said, "ftp://x/ is not fetched") {
		t.Errorf("add: exit code %d: %s", code, said)
	}
	until(t, "the added URLs are fetched", func() bool {
		return strings.Contains(r.says("pages", "--prefix", site.Base+"new.html"), "404") && strings.Contains(r.says("pages", "--prefix", site.Base+"p1.html", "--format", "csv"), ",2,0,")
	})
	code, out, said := program(t.Context(), "status", dir)
	if code != 0 || !strings.Contains(out, "running since") || !strings.Contains(out, "1 site followed") {
		t.Errorf("status: exit code %d: %s%s", code, out, said)
	}
	r.finish()
	if out := r.says("get", page); !strings.Contains(out, "quite another") {
		t.Errorf("get without a crawler: %q", out)
	}
	for _, args := range [][]string{{dir}, {"--into", dir}} {
		ends(t, 0, "not running", append([]string{"status"}, args...)...)
	}
	ends(t, 0, "quite another", "get", page, dir)
}

// An archive says who made it and how. With --requests it has what the server received, and when the crawl has ended, its index
// is sorted.
func TestArchiveOfACrawl(t *testing.T) {
	var mu sync.Mutex
	received := map[string]http.Header{}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received[r.URL.Path] = r.Header.Clone()
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<title>Home</title><a href=z.html>z</a> <a href=a.html>a</a>")
		case "/a.html", "/z.html":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Set-Cookie", "secret=1")
			fmt.Fprint(w, "<title>Page</title>", r.URL.Path)
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	dir := filepath.Join(t.TempDir(), "crawl")
	code, _, said := program(t.Context(), append([]string{"crawl", site.URL + "/", "--requests", "--contact", "me@example.net"}, own(dir)...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	mu.Lock()
	defer mu.Unlock()
	info, requested := warc.Fields{}, 0
	err := warc.Each(filepath.Join(dir, "warc"), warc.Place{}, func(name string, r *warc.Reader) error {
		index, err := os.ReadFile(filepath.Join(dir, "warc", name+".cdxj"))
		if lines := slices.Collect(strings.Lines(string(index))); err != nil || len(lines) != 3 || !slices.IsSorted(lines) {
			t.Errorf("index %q: %v", lines, err)
		}
		for {
			rec, err := r.Next()
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			block, err := io.ReadAll(rec.Body)
			if err != nil {
				return err
			}
			switch rec.Type() {
			case warc.Warcinfo:
				info = warc.ParseInfo(block)
			case warc.Request:
				sent, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(block)))
				if err != nil {
					return err
				}
				requested++
				if got := received[sent.URL.Path]; rec.URL() != site.URL+sent.URL.Path || !maps.EqualFunc(sent.Header, got, slices.Equal) || got.Get("Cookie") != "" {
					t.Errorf("request for %s: %v, but the server received %v", rec.URL(), sent.Header, got)
				}
			}
		}
	})
	if err != nil || requested != 3 {
		t.Errorf("%d requests: %v", requested, err)
	}
	for name, want := range map[string]string{"software": "Parley", "operator": "me@example.net", "robots": "classic", "format": "WARC File Format 1.1",
		"conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/", "http-header-user-agent": received["/"].Get("User-Agent")} {
		if got := info.Get(name); got != want {
			t.Errorf("warcinfo: %s is %q, want %q", name, got, want)
		}
	}
}

// A site whose certificate is of an authority of one's own is crawled with --ca, and not without. A wrong file or proxy is a misuse.
func TestOwnAuthority(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": "<title>Home</title>home"})
	inner := must.Get(url.Parse(site.Base))
	secure := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(inner))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.OK(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644))
	start := secure.URL + inner.Path
	dir := filepath.Join(t.TempDir(), "crawl")
	crawl := append([]string{"crawl", start, "--patience", "1ns"}, own(dir)...)
	program(t.Context(), crawl...)
	if code, out, _ := program(t.Context(), "get", start, "--into", dir); code == 0 {
		t.Errorf("crawled without --ca: %q", out)
	}
	succeeds(t, append(crawl, "--ca", ca, "--again")...)
	ends(t, 0, "home", "get", start, "--into", dir)
	for _, args := range [][]string{append(crawl, "--ca", dir), {"follow", start, "--into", t.TempDir(), "--ca", dir}} {
		ends(t, 2, "--ca: ", args...)
	}
	ends(t, 2, "--proxy: want http://HOST:PORT or socks5://HOST:PORT", append(crawl, "--proxy", "127.0.0.1:3128")...)
}

// A chain of 200 pages, each linking to the next, takes one cycle if the site lists its pages: nothing is
// parsed, and pages without incoming links are found too (C24).
func TestManifestFindsChainInOneCycle(t *testing.T) {
	pages := map[string]string{}
	for i := range 200 {
		pages[fmt.Sprintf("c%03d.html", i)] = fmt.Sprintf("<a href=c%03d.html>on</a>", i+1)
	}
	pages["orphan.html"] = "nobody leads here"
	site := sitetest.NewSite(t, pages)
	dir := filepath.Join(t.TempDir(), "crawl")
	code, _, said := program(t.Context(), append([]string{"crawl", site.Base + "c000.html", "--no-parse", "--no-sitemaps", "--log-level", "debug"}, own(dir)...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if n := strings.Count(said, `msg="batch begun"`); n != 2 {
		t.Errorf("%d batches, want one for robots.txt and one for all pages", n)
	}
	if !strings.Contains(said, "201 pages fetched") {
		t.Errorf("stderr %s", said)
	}
}

func TestForeignHostsNeedContactAndWait(t *testing.T) {
	for _, args := range [][]string{
		{"crawl", "https://example.org/", "--into", t.TempDir()},
		{"crawl", "https://example.org/", "--into", t.TempDir(), "--contact", "me@example.net", "--wait", "100ms"},
		{"crawl", "https://example.org/", "--into", t.TempDir(), "--contact", "me@example.net", "--wait-big", "100ms"},
		{"crawl", "https://example.org/", "--into", t.TempDir(), "--contact", "me@example.net", "--wait", "0", "--allow-private"},
		{"crawl", "http://127.0.0.1/", "--into", t.TempDir(), "--contact", "me@example.net", "--wait", "0", "--allow-private", "--domain", "org"},
		{"crawl", "http://192.168.7.7/", "https://example.org/", "--into", t.TempDir(), "--contact", "me@example.net", "--wait-big", "0", "--allow-private"},
		{"crawl", "http://127.0.0.1/", "--into", t.TempDir(), "--wait", "0"},
		{"crawl", "--into", t.TempDir()},
		{"crawl", "nonsense", "--into", t.TempDir()},
		{"crawl", "http://127.0.0.1/", "--into", t.TempDir(), "--strategy", "alphabetical"},
		{"crawl", "http://127.0.0.1/", "--into", t.TempDir(), "--store", "drawer"},
		{"events", "--into", t.TempDir(), "--after", "yesterday"},
	} {
		if code, _, said := program(t.Context(), args...); code != 2 || said == "" {
			t.Errorf("crawler %q: exit code %d, want 2: %s", args, code, said)
		}
	}
	ends(t, 1, "has no collection", "pages", "--into", t.TempDir())
}

// The printed configuration can be read back and has every setting of the papers.
func TestConfigOutputCanBeReadBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crawler.conf")
	must.Write(t, file, "wait 42s\nsame-site 7\nlog-ext zip\nlog-ext a b\n")
	_, short, _ := program(t.Context(), "config", "--config", file)
	if n := strings.Count(short, "\n# ") + strings.Count(short, "\n"); n < 12 || !strings.Contains(short, "\nwait 42s\n") || strings.Contains(short, "same-site") {
		t.Errorf("config: %s", short)
	}
	code, all, said := program(t.Context(), "config", "--all", "--config", file)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	for i := 1; i <= 54; i++ {
		if i >= 27 && i <= 29 {
			continue // these numbers do not exist
		}
		if !strings.Contains(all, fmt.Sprintf("# G%02d ", i)) {
			t.Errorf("G%02d is not explained", i)
		}
	}
	must.Write(t, file, all)
	if code, again, said := program(t.Context(), "config", "--all", "--config", file); code != 0 || again != all {
		t.Errorf("the printed configuration reads back differently: exit code %d: %s\n%s", code, said, again)
	}
	if !strings.Contains(all, "\nlog-ext zip\nlog-ext a b\n") {
		t.Error("a list is not printed as a line for each value")
	}

	// The lines that are commented out say what is in force: it stays so without the comment.
	lists := 0
	with := regexp.MustCompile(`(?m)^# (wait-big|max-file|store|reject-word|session-id|dynamic-ext|score|objective|per-address) (\S+)$`).ReplaceAllStringFunc(all, func(line string) string {
		lists++
		return line[2:]
	})
	must.Write(t, file, with)
	code, again, said := program(t.Context(), "config", "--all", "--config", file)
	plain := func(s string) string { return strings.ReplaceAll(s, "# ", "") }
	if code != 0 || lists < 40 || plain(again) != plain(all) {
		t.Errorf("%d lines were uncommented: exit code %d: %s\n%s", lists, code, said, again)
	}
}

// A crawl that has reached its page limit says so and names the limit.
func TestCrawlReportsPageLimits(t *testing.T) {
	pages := map[string]string{}
	for i := range 30 {
		pages[fmt.Sprintf("p%d.html", i)] = fmt.Sprintf("text %d", i)
	}
	site := sitetest.NewSite(t, pages)
	for _, limit := range []string{"--max-pages", "--per-site", ""} {
		args := []string{"crawl", site.Base}
		if limit != "" {
			args = append(args, limit, "10")
		}
		code, _, said := program(t.Context(), append(args, own(filepath.Join(t.TempDir(), "crawl"))...)...)
		if full := strings.Contains(said, "were dropped"); code != 0 || full != (limit != "") || !strings.Contains(said, "reached "+limit+", 10") && limit != "" {
			t.Errorf("with %q: exit code %d: %s", limit, code, said)
		}
	}
}

// The freshness of a site that has stopped answering is not reported.
func TestFreshnessOfFailingSiteIsUnknown(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/" {
			http.NotFound(w, req)
			return
		}
		fmt.Fprint(w, "<title>Home</title>home")
	}))
	defer srv.Close()
	dir := filepath.Join(t.TempDir(), "crawl")
	for _, away := range []bool{false, true} {
		if away {
			srv.Close()
		}
		code, _, said := program(t.Context(), append([]string{"crawl", srv.URL + "/", "--patience", "10ms"}, own(dir)...)...)
		if away == (code == 0) {
			t.Errorf("away %v: exit code %d: %s", away, code, said)
		}
		var row siteRow
		_, out, said := program(t.Context(), "sites", "--into", dir, "--format", "json")
		if err := json.Unmarshal([]byte(out), &row); err != nil {
			t.Fatalf("%v: %s %s", err, out, said)
		}
		if row.Held != 1 || away != (row.Fresh < 0) || away != (row.Fault != "") {
			t.Errorf("away %v: sites prints %s", away, out)
		}
	}
}

// An error of a lookup names no name server that was not asked, such as that of the system.
func TestUnknownHostWithResolver(t *testing.T) {
	server := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))
	defer server.Close()
	go func() {
		for q := make([]byte, 1500); ; {
			n, from, err := server.ReadFrom(q)
			if err != nil {
				return
			}
			q[2], q[3] = q[2]|0x80, 0x83 // a response: the name does not exist
			server.WriteTo(q[:n], from)
		}
	}()
	code, _, said := program(t.Context(), "crawl", "http://nobody.example/", "--into", t.TempDir(), "--contact", "me@example.net", "--resolver", server.LocalAddr().String(), "--patience", "10ms")
	if code != 1 || !strings.Contains(said, "lookup nobody.example: no such host") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
