package server_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// hold runs a holder until the test ends or stop is called.
func (w *world) hold(state string) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	h := &server.Holder{State: state, Publisher: w.pub, Log: testLog(w.T)}
	go func() { done <- h.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
	w.Cleanup(stop)
	return stop
}

func TestHolder(t *testing.T) {
	w := newWorld(t)
	socket := must.Get(holder.SocketPath(w.state()))
	if socket != w.state()+".sock" {
		t.Errorf("socket %s", socket)
	}
	// The socket that a killed holder left behind.
	ln := must.Get(net.Listen("unix", socket))
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	w.must(ln.Close())

	w.fill(3)
	w.look()
	stop := w.hold(w.state())
	var st server.Status
	w.must(server.Ask(t.Context(), w.state(), "GET", "/status", &st))
	if st.Head != w.journal.Head() || st.Items != 3 {
		t.Errorf("%+v", st)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	w.write("p/000.html", "new")
	var rep inventory.Report
	w.must(server.Ask(t.Context(), w.state(), "POST", "/look", &rep))
	if rep.Changed != 1 || rep.Head != w.journal.Head() {
		t.Errorf("%+v", rep)
	}
	w.wantTold("update p/000.html")
	if m, _, _ := w.manifest(); m.Cursor != w.journal.Head() {
		t.Errorf("the manifest is at %v", m.Cursor)
	}
	clear(w.pages)
	w.must(server.Ask(t.Context(), w.state(), "POST", "/look", &rep))
	if !rep.MassHeld {
		t.Errorf("%+v", rep)
	}
	w.must(server.Ask(t.Context(), w.state(), "POST", "/accept-deletions", &rep))
	if rep.MassHeld || rep.Gone != 3 {
		t.Errorf("%+v", rep)
	}
	w.fail = errors.New("the root is missing")
	if err := server.Ask(t.Context(), w.state(), "POST", "/look", &rep); err == nil || !strings.Contains(err.Error(), "the root is missing") {
		t.Errorf("%v", err)
	}
	for _, c := range [][2]string{{"GET", "/look"}, {"POST", "/nothing"}} {
		if err := server.Ask(t.Context(), w.state(), c[0], c[1], &rep); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	stop()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	w.must(w.journal.Close())
	if err := server.Ask(t.Context(), w.state(), "GET", "/status", &st); err != server.ErrNoHolder {
		t.Errorf("%v", err)
	}
	if err := server.Ask(t.Context(), filepath.Join(w.dir, "none"), "GET", "/status", &st); err != server.ErrNoHolder {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "none")); !os.IsNotExist(err) {
		t.Error("Ask created a journal")
	}
	w.open()
}

// A process that has the journal may need a moment to open its socket.
func TestAskWaitsForSocketOfHolder(t *testing.T) {
	w := newWorld(t)
	answer := make(chan error, 1)
	go func() {
		var st server.Status
		answer <- server.Ask(t.Context(), w.state(), "GET", "/status", &st)
	}()
	select {
	case err := <-answer:
		t.Fatalf("answered before there was a holder: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	w.hold(w.state())
	w.must(<-answer)
}

func TestHolderWithLongStatePath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	must.OK(t, os.Mkdir(dir, 0o755))
	state := filepath.Join(dir, "state")
	socket, err := holder.SocketPath(state)
	if err != nil || len(socket) > 100 || !strings.HasPrefix(socket, os.TempDir()) {
		t.Fatalf("%s %v", socket, err)
	}
	j := must.Get(server.OpenJournal(t.Context(), state, server.JournalOptions{Base: base}))
	defer j.Close()
	w := newWorld(t)
	w.pub.Journal = j
	w.hold(state)
	var st server.Status
	w.must(server.Ask(t.Context(), state, "GET", "/status", &st))
}

// Other parts of the process can be queried by name.
func TestHolderAnswers(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	h := &server.Holder{State: w.state(), Publisher: w.pub, Answers: map[string]func(context.Context) (any, error){
		"senders": func(context.Context) (any, error) { return map[string]int{"sent": 7}, nil },
		"broken":  func(context.Context) (any, error) { return nil, errors.New("the sender has no key") },
	}}
	go func() { done <- h.Run(ctx) }()
	var got map[string]int
	w.must(server.Ask(t.Context(), w.state(), "GET", "/senders", &got))
	if got["sent"] != 7 {
		t.Errorf("%v", got)
	}
	if err := server.Ask(t.Context(), w.state(), "GET", "/broken", &got); err == nil || !strings.Contains(err.Error(), "has no key") {
		t.Errorf("%v", err)
	}
	if err := server.Ask(t.Context(), w.state(), "POST", "/senders", &got); err == nil {
		t.Error("no error")
	}
	stop()
	w.must(<-done)
}
