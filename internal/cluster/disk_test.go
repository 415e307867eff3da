package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/cluster"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/must"
)

// begun is a partition that has begun, with the state that it began with.
type begun struct {
	*cluster.Part
	t     *testing.T
	state string
}

// receive takes in what has come, and returns its URLs.
func (b *begun) receive() string {
	b.t.Helper()
	must.OK(b.t, b.Receive(b.t.Context(), func(finds []partition.Find, damaged error) error {
		for _, f := range finds {
			b.state += f.URL + " "
		}
		must.OK(b.t, damaged)
		return os.WriteFile(filepath.Join(b.Dir, "state.db"), []byte(b.state), 0o600)
	}))
	return b.state
}

// A partition goes on with its snapshot where its directory is lost, or older. What it was sent since comes again, and what the snapshot has does not. A directory
// that is not older is used.
func TestStatesTravel(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	run := func(dir string) (*running, *begun) {
		t.Helper()
		parts := make(chan *begun, 1)
		n := r.run(&cluster.Node{Name: filepath.Base(dir), Dir: dir, Partitions: 1, Lease: 5 * time.Second, Snapshots: time.Hour, Engine: func(ctx context.Context, p *cluster.Part) error {
			b, _ := os.ReadFile(filepath.Join(p.Dir, "state.db"))
			select {
			case parts <- &begun{p, t, string(b)}:
			default: // the lease has ended on a busy machine
			}
			<-ctx.Done()
			return nil
		}})
		select {
		case b := <-parts:
			return n, b
		case <-time.After(time.Minute):
			t.Fatal("the partition does not begin")
			return nil, nil
		}
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	sent := 0
	send := func(b *begun) {
		t.Helper()
		sent++
		must.OK(t, b.Send([]partition.Find{{Partition: 1, URL: fmt.Sprint("u", sent)}}))
	}
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "c")}

	node, b := run(dirs[0])
	check("a new partition begins with", b.state, "")
	send(b)
	check("it receives", b.receive(), "u1 ")
	must.OK(t, os.WriteFile(filepath.Join(b.Dir, "journal.db"), nil, 0o600))
	node.stop()

	node, b = run(dirs[1])
	check("handed over, it has", b.state, "u1 ")
	check("and receives nothing again", b.receive(), "u1 ")
	send(b)
	send(b)
	check("it receives", b.receive(), "u1 u2 u3 ")
	node.abandon()
	must.OK(t, os.RemoveAll(dirs[1]))

	node, b = run(dirs[2])
	check("its disk lost, it has", b.state, "u1 ")
	check("and receives again", b.receive(), "u1 u2 u3 ")
	send(b)
	node.abandon()

	node, b = run(dirs[2])
	check("with a directory that is younger than the snapshot, it has", b.state, "u1 u2 u3 ")
	check("and receives", b.receive(), "u1 u2 u3 u4 ")
	node.stop()

	node, b = run(dirs[0])
	check("where the directory is older, it has", b.state, "u1 u2 u3 u4 ")
	if list := must.Get(filepath.Glob(filepath.Join(b.Dir, "*"))); len(list) != 2 || strings.Contains(fmt.Sprint(list), "journal.db") {
		t.Errorf("the witness of another state is left: %v", list)
	}
	node.stop()
}
