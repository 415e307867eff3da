//go:build unix

package catalog_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/server/catalog"
)

// Background processes that a command leaves behind are killed with it.
func TestCommandKillsBackgroundProcesses(t *testing.T) {
	w := newWorld(t)
	pipe := w.path("pipe")
	w.must(syscall.Mkfifo(pipe, 0o600))
	ended := make(chan string)
	began := make(chan struct{})
	go func() { // the pipe ends when the last program that could write to it has ended
		f, err := os.Open(pipe)
		if err != nil {
			ended <- err.Error()
			return
		}
		close(began)
		b, _ := io.ReadAll(f)
		ended <- string(b)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	w.catalog.Sources = []catalog.Source{catalog.Command{Line: "(echo begun; sleep 60; echo survived) > " + pipe + " & sleep 60"}}
	w.restart()
	if _, err := w.publisher.Scan(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	select {
	case said := <-ended:
		if strings.Contains(said, "survived") {
			t.Error("a program in the background outlived its command")
		}
	case <-time.After(20 * time.Second):
		t.Error("a program in the background outlives its command")
	}
}

// A command ends when its process ends, even if it leaves children with its output open; all its output is
// read, by a slow reader too.
func TestCommandEndsDespiteBackgroundProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel()
	const n = 20_000
	for line, want := range map[string]int{
		"sleep 60 & seq -f /p%.0f 20000":                         n,
		"(sleep 0.1; seq -f /p%.0f 20000 | gzip -c; sleep 60) &": n,
		"sleep 60 >/dev/null & seq -f /p%.0f 20000":              n,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			read := 0
			began := time.Now()
			_, err := catalog.Command{Line: line}.Read(t.Context(), "", func(e catalog.Entry) error {
				if read++; read == 1 && strings.HasPrefix(line, "sleep 60 & ") {
					time.Sleep(2000 * time.Millisecond) // the reader is slow, and the pipe is full meanwhile
				}
				return nil
			})
			if err != nil || read != want {
				t.Errorf("read %d lines, %v", read, err)
			}
			if d := time.Since(began); d > 15*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
	t.Run("failing command", func(t *testing.T) {
		t.Parallel()
		c := catalog.Command{Line: "sleep 60 & echo /a; echo no database >&2; exit 3"}
		if _, err := c.Read(t.Context(), "", func(catalog.Entry) error { return nil }); err == nil || !strings.Contains(err.Error(), "exit status 3: no database") {
			t.Errorf("error %v", err)
		}
	})
}
