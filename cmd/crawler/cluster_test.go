package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/parleyweb/parley/internal/must"
)

// Two machines share a crawl. When the first one is stopped, the second one has the pages that the first one has stored, and goes on. The commands show the partitions. (V29)
func TestCluster(t *testing.T) {
	s := must.Get(natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true}))
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("a NATS server does not start")
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/":
			fmt.Fprint(w, `<a href="/a.html">a</a> <a href="/b.html">b</a>`)
		case "/a.html", "/b.html":
			fmt.Fprint(w, req.URL.Path)
		default:
			http.NotFound(w, req)
		}
	}))
	defer site.Close()
	node := func(dir string) *running {
		return begin(t, dir, "run", site.URL+"/", "--cluster", s.ClientURL(), "--partitions", "3", "--lease", "2s")
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
	node(other)
	first.finish()
	until(t, "the second machine has what the first one had", has(other))
	found := 0
	for i := 1; i <= 3; i++ {
		dir := filepath.Join(other, fmt.Sprintf("partition-%03d", i))
		_, out, _ := program(t.Context(), "pages", "--into", dir)
		found += strings.Count(out, site.URL)
		ends(t, 0, fmt.Sprintf("partition-%03d  ", i), "status", one)
		ends(t, 0, "crawler    running since", "status", dir)
	}
	if found != 3 {
		t.Errorf("the second machine lists %d pages", found)
	}
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
