package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
)

// TestStatusMetricsAndHealth runs a notifier and inspects it as an admin can: status, metrics and health.
func TestStatusMetricsAndHealth(t *testing.T) {
	dir := t.TempDir()
	root, state := filepath.Join(dir, "public"), filepath.Join(dir, "state")
	for _, name := range []string{"a.html", "b.html"} {
		must.Write(t, filepath.Join(root, name), name)
	}
	const base = "http://127.0.0.1:9/" // nothing listens there, so the self-check has something to report
	statusOf := func(want int) string {
		t.Helper()
		var out, errs strings.Builder
		if got := command.Main(t.Context(), notifier, []string{"status", "--base", base, "--state", state}, nil, &out, &errs); got != want {
			t.Errorf("status: exit code %d, want %d: %s", got, want, errs.String())
		}
		return out.String() + errs.String()
	}
	if got := statusOf(1); !strings.Contains(got, "there is no state of "+base) {
		t.Errorf("status before the first run: %s", got)
	}

	admin := front.FreeAddress()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int)
	go func() {
		ended <- command.Main(ctx, notifier, []string{"--docroot", root, "--base", base, "--state", state,
			"--listen", front.FreeAddress(), "--admin", admin, "--log-level", "error"}, nil, io.Discard, io.Discard)
	}()
	until(t, func() bool { code, _ := get("http://" + admin + "/healthz"); return code == http.StatusOK })
	_, metrics := get("http://" + admin + "/metrics")
	for _, want := range []string{"\nparley_items 2\n", "\nparley_mass_held 0\n", "\nparley_changes_missed_total 0\n", "go_goroutines"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	if got := statusOf(0); !strings.Contains(got, "notifier   running\n") || !strings.Contains(got, "2, of which 0 are missing") {
		t.Errorf("status while it runs: %s", got)
	}

	// A docroot that has vanished is not reported as deletions, nor as healthy.
	must.OK(t, os.Rename(root, root+".away"))
	until(t, func() bool {
		code, _ := get("http://" + admin + "/healthz")
		return code == http.StatusServiceUnavailable
	})
	if _, body := get("http://" + admin + "/healthz"); !strings.Contains(body, `"items":2`) || !strings.Contains(body, `"error":`) {
		t.Errorf("health without a docroot: %s", body)
	}

	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d after stop", code)
	}
	if got := statusOf(0); !strings.Contains(got, "not running") || !strings.Contains(got, "2, of which 0 are missing") {
		t.Errorf("status after it ended: %s", got)
	}
}

// A notifier that its web server does not forward to says so at the start: crawlers would never find it.
func TestSelfCheckOfWhatIsForwarded(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "public")
	must.Write(t, filepath.Join(root, "a.html"), "a")
	f := must.Get(front.Serve(root))
	defer f.Close()
	for listen, want := range map[string]int{f.Sidecar: 0, front.FreeAddress(): 1} {
		ctx, stop := context.WithCancel(t.Context())
		log := must.Get(os.Create(filepath.Join(dir, "log")))
		said := func() string { return string(must.Get(os.ReadFile(log.Name()))) }
		ended := make(chan int)
		go func() {
			ended <- command.Main(ctx, notifier, []string{"--docroot", root, "--base", f.Base, "--state", filepath.Join(dir, "state"), "--listen", listen}, nil, io.Discard, log)
		}()
		until(t, func() bool { return strings.Contains(said(), "1 of 1 pages were checked") })
		for _, path := range []string{"robots.rdf", ".well-known/parley"} {
			if got := strings.Count(said(), f.Base+path+": the web server answers 502 Bad Gateway: crawlers cannot find"); got != want {
				t.Errorf("--listen %s: %d warnings of %s, want %d: %s", listen, got, path, want, said())
			}
		}
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d", code)
		}
		log.Close()
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{
		{"--base", "https://example.org/"},
		{"--docroot", t.TempDir(), "--base", "example.org"},
		{"--docroot", t.TempDir(), "--base", "https://example.org/", "--grace", "soon"},
		{"--docroot", t.TempDir(), "--base", "https://example.org/", "--trusted-proxy", "0.0.0.0/0"},
		{"--docroot", t.TempDir(), "--base", "https://example.org/", "--admin-token", "tokens"},
	} {
		var errs strings.Builder
		if code := command.Main(t.Context(), notifier, args, nil, io.Discard, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("notifier %q: exit code %d, want 2: %s", args, code, errs.String())
		}
	}
}

func get(url string) (int, string) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func until(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out after 20 s")
		}
	}
}
