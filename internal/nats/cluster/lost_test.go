package cluster_test

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
)

// Partitions begin, move to a machine that comes, and from one that goes, and nothing says that a state is older than it was. When a machine fails with its disk, what it has
// done since the last snapshots is lost: that is said, of its partitions, and of no state that is read.
func TestWarningsOfLostStates(t *testing.T) {
	t.Parallel()
	r, w := newRig(t, 1), newWeb(t, 16, 4, time.Second)
	var said lines
	w.log = slog.New(slog.NewTextHandler(&said, nil))
	dir := t.TempDir()
	node := func(name, dir string) *running {
		return r.run(&cluster.Node{Name: name, Dir: dir, Partitions: 4, Lease: 5 * time.Second, Snapshots: time.Hour, Events: 1000, Engine: w.engine, Log: w.log})
	}
	stored := func(n int) {
		t.Helper()
		r.eventually("more pages are stored", func() bool { return w.stored() >= n })
	}
	first := node("first", t.TempDir())
	stored(10)
	second := node("second", dir)
	stored(25)
	first.stop()
	stored(40)
	const epochs = "a new epoch of events begins with the stored pages"
	if list := said.with("older than it was", "is lost"); len(list) > 0 || len(said.with(epochs)) == 0 {
		t.Errorf("nothing is lost, %d epochs begin, and the log has %q", len(said.with(epochs)), list)
	}
	second.abandon()
	must.OK(t, os.RemoveAll(dir))
	third := node("third", t.TempDir())
	r.eventually("the lost states are named", func() bool { return len(said.with("what its node has done since is lost")) == 4 })
	stored(len(w.all))
	third.stop()
	if list := said.with("older than it was"); len(list) > 0 {
		t.Errorf("the state is the snapshot, and the log has %q", list)
	}
}

// lines are those of a log.
type lines struct {
	mu  sync.Mutex // guards the next one
	all strings.Builder
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(text)
}

// with returns the lines that have one of some texts.
func (l *lines) with(texts ...string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			list = append(list, line)
		}
	}
	return list
}
