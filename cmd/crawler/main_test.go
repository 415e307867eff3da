package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/sitetest"
)

func program(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = command.Main(ctx, crawler, args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

// ends expects that the program ends with an exit code, and prints a text: to stdout if it succeeds, else to stderr.
func ends(t *testing.T, want int, text string, args ...string) {
	t.Helper()
	code, out, said := program(t.Context(), args...)
	if code != want || code == 0 && !strings.Contains(out, text) || code != 0 && !strings.Contains(said, text) {
		t.Errorf("crawler %q: exit code %d, want %d and %q: %s%s", args, code, want, text, out, said)
	}
}

func succeeds(t *testing.T, args ...string) {
	t.Helper()
	if code, _, said := program(t.Context(), args...); code != 0 {
		t.Fatalf("crawler %q: exit code %d: %s", args, code, said)
	}
}

func TestFollowAndStatus(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": "home", "a.html": "first"})
	dir := filepath.Join(t.TempDir(), "mirror")
	ends(t, 1, "neither a collection nor a copy", "status", dir)
	for _, via := range []string{"manifest", "changes", "stream"} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			code, _, _ := program(ctx, "follow", site.Base, "--into", dir, "--via", via, "--contact", "me@example.net", "--poll", "20ms")
			ended <- code
		}()
		site.Write("a.html", "told by "+via)
		site.Publish()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if b, _ := os.ReadFile(filepath.Join(dir, "a.html")); string(b) == "told by "+via {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("via %s: a.html is still %q", via, b)
			}
		}
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("via %s: exit code %d after stop", via, code)
		}
	}
	code, out, said := program(t.Context(), "status", dir)
	if code != 0 || !strings.Contains(out, site.Base) || !strings.Contains(out, "2 offered, 2 stored") || !strings.Contains(out, "source     ") {
		t.Errorf("status: exit code %d: %s%s", code, out, said)
	}
	ends(t, 2, "is a copy made by", "crawl", site.Base, "--into", dir, "--allow-private")
	var s copyStatus
	if _, out, _ = program(t.Context(), "status", dir, "--json"); json.Unmarshal([]byte(out), &s) != nil || s.Held != 2 || s.Running {
		t.Errorf("status as JSON: %s", out)
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{
		{}, {"fly"}, {"follow"}, {"follow", "https://example.org/"},
		{"follow", "https://example.org/", "--into", t.TempDir(), "--via", "pigeon"}, {"status"},
	} {
		if code, _, said := program(t.Context(), args...); code != 2 || said == "" {
			t.Errorf("crawler %q: exit code %d, want 2: %s", args, code, said)
		}
	}
	ends(t, 0, "crawler follow https://", "follow", "-h")
	if code, _, said := program(t.Context(), "follow", "not a url", "--into", filepath.Join(t.TempDir(), "m")); code == 0 || said == "" {
		t.Errorf("an invalid base: exit code %d: %s", code, said)
	}
}
