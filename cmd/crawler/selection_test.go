package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

func TestInvalidSelectionIsRejected(t *testing.T) {
	s := sitetest.NewSite(t, map[string]string{"index.html": "home"})
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--as", "diff"}, 2, "want auto, meta, delta, page, batch or site"},
		{[]string{"--only", "color=red"}, 2, "PARAM being one of prefix, match"},
		{[]string{"--only", "minlen=many"}, 2, "minlen"},
		{[]string{"--every", "1h"}, 2, "--as batch"},
		{[]string{"--every", "48h", "--as", "batch"}, 2, "want from 1s to 24h"},
		{[]string{"--count", "-1", "--as", "batch"}, 2, "want from 1 to 100000"},
		{[]string{"--ask-every", "1h"}, 2, "--via changes"},
		{[]string{"--program", "no-such-file.wasm"}, 2, "no-such-file.wasm"},
		{[]string{"--program", "no-such-file.wasm", "--as", "batch"}, 2, "--as auto, meta, delta or page"},
		{[]string{"--program", "no-such-file.wasm", "--as", "site"}, 2, "--as auto, meta, delta or page"},
		{[]string{"--program", protocol.Sum(nil).String()}, 1, "does not offer the filter agent; it offers prefix"},
		{[]string{"--as", "delta"}, 1, "does not offer the form delta; it offers meta"},
		{[]string{"--where", "true"}, 1, "does not offer the filter where; it offers prefix"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		args := append([]string{"follow", s.Base, "--into", filepath.Join(t.TempDir(), "copy")}, tt.args...)
		if code, _, said := program(ctx, args...); code != tt.code || !strings.Contains(said, tt.says) || ctx.Err() != nil {
			t.Errorf("%v: exit code %d: %s", tt.args, code, said)
		}
		cancel()
	}
}

// A copy of a part of a site; people can see what the site delivers to it, and why.
func TestFollowPartOfSite(t *testing.T) {
	files := map[string]string{"index.html": "home"}
	for i := range 30 {
		files[fmt.Sprintf("docs/p%d.html", i)] = strings.Repeat(fmt.Sprintf("page %d\n", i), 100)
	}
	s := sitetest.NewWhole(t, files)
	dir := filepath.Join(t.TempDir(), "copy")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string, 1)
	go func() {
		code, _, said := program(ctx, "follow", s.Base, "--into", dir, "--only", "prefix=/docs/")
		done <- fmt.Sprint(code, said)
	}()
	has := func(name, text string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil && string(b) == text {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("no %s", name)
			}
		}
	}
	for name, text := range files {
		if name != "index.html" {
			has(name, text)
		}
	}
	s.ForgetRequests()
	s.Write("docs/p1.html", files["docs/p1.html"]+"more\n")
	s.Write("index.html", "another home")
	s.Publish()
	has("docs/p1.html", files["docs/p1.html"]+"more\n")
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err == nil {
		t.Error("the home page is outside the selection and was stored")
	}
	code, out, said := program(t.Context(), "status", dir)
	if code != 0 || !strings.Contains(out, "as delta: stored pages serve as the base of deltas") || !strings.Contains(out, "1 pages delivered without a request") && !strings.Contains(out, "31 pages delivered without") {
		t.Errorf("status: exit code %d: %s%s", code, out, said)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the page may be there before its door is recorded
		_, out, _ := program(t.Context(), "why", "--into", dir, s.Base+"docs/p1.html")
		if strings.Contains(out, "followed via stream, as delta") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("why: %s", out)
		}
	}
	if n := s.Hits("/docs/p1.html", ""); n > 0 {
		t.Errorf("%d requests for a page that was delivered", n)
	}
	cancel()
	switch got := <-done; {
	case !strings.HasPrefix(got, "0"):
		t.Errorf("follow ended with %s", got)
	case strings.Count(got, "the copy is up to date") != 1 || !strings.Contains(got, `"the copy is up to date" pages=30 `):
		t.Errorf("it does not say once when the copy is up to date: %s", got)
	case !strings.Contains(got, "the copy has 30 of 30 pages") || !strings.Contains(got, "31 pages obtained: 0 fetched, 30 in batches, 1 with their change"):
		t.Errorf("at its end it does not say what the copy has, and how the pages came: %s", got)
	}
	if _, out, said := program(t.Context(), "status", dir); !strings.Contains(out, "last as delta: stored pages serve as the base of deltas") {
		t.Errorf("status without a crawler: %s%s", out, said)
	}
	if _, out, _ := program(t.Context(), "why", "--into", dir, s.Base+"docs/p1.html"); !strings.Contains(out, "last read via stream; last subscribed as delta: stored pages serve") ||
		!strings.Contains(out, "none: in a copy") || strings.Contains(out, "estimated") {
		t.Errorf("why without a crawler: %s", out)
	}
}
