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

// What a command left in the background ends with it.
func TestCommandGroup(t *testing.T) {
	w := newWorld(t)
	pipe := w.path("pipe")
	w.must(syscall.Mkfifo(pipe, 0o600))
	ended := make(chan string)
	began := make(chan struct{})
	go func() { // the pipe's end is that of the last program that could write to it
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
	if _, err := w.publisher.Look(ctx, nil); !errors.Is(err, context.Canceled) {
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
