package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

// leftIn makes a directory the one for temporary files, and returns a function that lists it.
func leftIn(t *testing.T, dir string) func() int {
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // Windows
	return func() int {
		list := must.Get(os.ReadDir(dir))
		return len(list)
	}
}

func testEnv() *command.Env {
	return &command.Env{Stdout: io.Discard, Stderr: io.Discard, Log: slog.New(slog.DiscardHandler)}
}

// While a crawler runs, others read a copy of its state, which stays as it was, and is removed at the end.
func TestSnapshotBesideCrawler(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": `<a href="a.html">a</a>`, "a.html": "first"})
	dir := filepath.Join(t.TempDir(), "crawl")
	left := leftIn(t, t.TempDir())
	r := begin(t, dir, "run", site.Base)
	held := func() string { return r.says("pages", "--state", "held", "--format", "csv") }
	until(t, "both pages are stored", func() bool {
		if code, _, _ := program(t.Context(), "status", dir); code != 0 { // the crawler has begun to write its state
			return false
		}
		return strings.Count(held(), "\n") == 3
	})
	col, end, err := snapshot(t.Context(), testEnv(), dir)
	if err != nil {
		t.Fatal(err)
	}
	p, ok, err := col.Page(site.Base + "a.html")
	if err != nil || !ok || left() != 0 && runtime.GOOS != "windows" {
		t.Fatalf("%v, %v, %d temporary files", ok, err, left())
	}
	site.Write("a.html", "second")
	site.Publish()
	until(t, "the change is stored", func() bool { return !strings.Contains(r.says("pages", "--format", "json"), p.Digest.String()) })
	if again, _, err := col.Page(p.URL); err != nil || again.Digest != p.Digest {
		t.Errorf("the snapshot has changed: %v", err)
	}
	if err := end(); err != nil || left() != 0 {
		t.Errorf("%v: %d temporary files are left", err, left())
	}
	r.finish()

	col, end, err = snapshot(t.Context(), testEnv(), dir)
	if err != nil || left() != 0 {
		t.Fatalf("without a crawler: %v, %d temporary files", err, left())
	}
	if again, _, err := col.Page(p.URL); err != nil || again.Digest == p.Digest {
		t.Errorf("the collection is old: %v", err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// If a copy of the state fails, an error says so, and nothing is left.
func TestSnapshotFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	col := must.Get(collection.Open(dir, nil))
	defer col.Close()
	temp := t.TempDir()
	left := leftIn(t, temp)
	api := (&localAPI{col: col, log: slog.New(slog.DiscardHandler)}).handler()
	ends := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // as that of a crawler that is killed
		w.Write(make([]byte, 100_000))
		panic(http.ErrAbortHandler)
	})
	for _, c := range []struct {
		name, want string
		h          http.Handler
		ctx        func(context.Context) context.Context
		temp       string
	}{
		{name: "the crawler is killed", want: "ended or broken off", h: ends},
		{name: "interrupted", want: "context canceled", h: api, ctx: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}},
		{name: "no directory for temporary files", want: "TMPDIR", h: api, temp: filepath.Join(dir, "none")},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- holder.Serve(ctx, statePath(dir), c.h, nil) }()
			defer func() {
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			}()
			if c.temp != "" {
				t.Setenv("TMPDIR", c.temp)
				t.Setenv("TMP", c.temp)
			}
			asking := t.Context()
			if c.ctx != nil {
				asking = c.ctx(asking)
			}
			_, _, err := snapshot(asking, testEnv(), dir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if n := left(); n != 0 {
				t.Errorf("%d temporary files are left", n)
			}
		})
	}
	if _, _, err := snapshot(t.Context(), testEnv(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no collection") {
		t.Error(err)
	}
}
