package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sitetest"
)

// A subscriber is one of the two example crawlers, which follows a site.
type subscriber struct {
	t     *testing.T
	site  *sitetest.Site
	lines chan string
}

func listen(t *testing.T, site *sitetest.Site, out io.Reader) *subscriber {
	s := &subscriber{t, site, make(chan string, 100)}
	go func() {
		for l := bufio.NewScanner(out); l.Scan(); {
			s.lines <- strings.TrimSpace(strings.ReplaceAll(l.Text(), site.Base, "/"))
		}
	}()
	return s
}

// says expects the next lines.
func (s *subscriber) says(want ...string) {
	s.t.Helper()
	for _, w := range want {
		select {
		case got := <-s.lines:
			if got != w {
				s.t.Fatalf("said %q, want %q", got, w)
			}
		case <-time.After(30 * time.Second):
			s.t.Fatalf("silent, want %q", w)
		}
	}
}

// story is the scenario whose changes both crawlers must report.
func (s *subscriber) story() {
	s.says("create /", "create /about.html")
	s.site.Write("new.html", "new")
	s.site.Publish()
	s.says("create /new.html")
	s.site.Write("about.html", "more about us")
	s.site.Publish()
	s.says("update /about.html")
	s.site.Rename("new.html", "old.html")
	s.site.Publish()
	s.says("move /old.html /new.html")
	s.site.Remove("old.html")
	s.site.Publish()
	s.says("delete /old.html")
}

func newSite(t *testing.T) *sitetest.Site {
	return sitetest.NewSite(t, map[string]string{"index.html": "home", "about.html": "about us"})
}

func TestSubscribe(t *testing.T) {
	site := newSite(t)
	file := filepath.Join(t.TempDir(), "cursor.txt")
	start := func() (*subscriber, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- follow(ctx, site.Base, file, out) }()
		return listen(t, site, in), func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			out.Close()
		}
	}
	s, stop := start()
	s.story()
	site.Write("last.html", "last")
	head := site.Publish()
	s.says("create /last.html")
	for { // until the cursor is stored too
		if b, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if string(b) == head.String() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()

	// After a restart it continues from its cursor.
	site.Write("meanwhile.html", "while nobody listened")
	site.Publish()
	s, stop = start()
	s.says("create /meanwhile.html")
	stop()

	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := follow(t.Context(), site.Base, file, io.Discard); err == nil {
		t.Error("no error for an invalid cursor")
	}
}

func TestPoller(t *testing.T) {
	python := machine.Tool(t, "python3")
	site := newSite(t)
	poller := exec.Command(python, "poller.py", site.Base)
	poller.Stderr = os.Stderr
	out, err := poller.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := poller.Start(); err != nil {
		t.Fatal(err)
	}
	defer poller.Wait()
	defer poller.Process.Kill()
	s := listen(t, site, out)
	s.story()

	// A lost state is a new epoch: it starts again with the manifest.
	site.LoseState()
	s.says("create /", "create /about.html")
	site.Write("about.html", "still more")
	site.Publish()
	s.says("update /about.html")
}

// The examples are short: that is their point.
func TestExamplesAreShort(t *testing.T) {
	for file, most := range map[string]int{"main.go": 59, "poller.py": 40} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n > most {
			t.Errorf("%s has %d lines, more than %d", file, n, most)
		}
	}
}
