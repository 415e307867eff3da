package cluster_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
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

// begin runs a node with one partition, and waits until that begins.
func (r *rig) begin(dir string, log *slog.Logger) (*running, *begun) {
	r.Helper()
	parts := make(chan *begun, 1)
	n := r.run(&cluster.Node{Name: filepath.Base(dir), Dir: dir, Partitions: 1, Lease: 5 * time.Second, Snapshots: time.Hour, Log: log, Engine: func(ctx context.Context, p *cluster.Part) error {
		b, _ := os.ReadFile(filepath.Join(p.Dir, "state.db"))
		select {
		case parts <- &begun{p, r.T, string(b)}:
		default: // the lease has ended on a busy machine
		}
		<-ctx.Done()
		return nil
	}})
	select {
	case b := <-parts:
		return n, b
	case <-time.After(time.Minute):
		r.Fatal("the partition does not begin")
		return nil, nil
	}
}

// A partition goes on with its snapshot where its directory is lost, or older. What it was sent since comes again, and what the snapshot has does not. A directory
// that is not older is used.
func TestStatesTravel(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
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

	node, b := r.begin(dirs[0], nil)
	check("a new partition begins with", b.state, "")
	send(b)
	check("it receives", b.receive(), "u1 ")
	must.OK(t, os.WriteFile(filepath.Join(b.Dir, "journal.db"), nil, 0o600))
	node.stop()

	node, b = r.begin(dirs[1], nil)
	check("handed over, it has", b.state, "u1 ")
	check("and receives nothing again", b.receive(), "u1 ")
	send(b)
	send(b)
	check("it receives", b.receive(), "u1 u2 u3 ")
	node.abandon()
	must.OK(t, os.RemoveAll(dirs[1]))

	node, b = r.begin(dirs[2], nil)
	check("its disk lost, it has", b.state, "u1 ")
	check("and receives again", b.receive(), "u1 u2 u3 ")
	send(b)
	node.abandon()

	node, b = r.begin(dirs[2], nil)
	check("with a directory that is younger than the snapshot, it has", b.state, "u1 u2 u3 ")
	check("and receives", b.receive(), "u1 u2 u3 u4 ")
	node.stop()

	node, b = r.begin(dirs[0], nil)
	check("where the directory is older, it has", b.state, "u1 u2 u3 u4 ")
	if witness := string(must.Get(os.ReadFile(filepath.Join(b.Dir, "journal.db")))); !strings.HasSuffix(witness, ":0") {
		t.Errorf("the witness of another state is left: %q", witness)
	}
	node.stop()
}

// A partition whose snapshot is damaged in NATS begins with what is on the disk, where readers of its events go on, and says so.
func TestADamagedSnapshot(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func(objects jetstream.ObjectStore, chunks jetstream.Stream, name string) error{
		"a part is lost": func(_ jetstream.ObjectStore, chunks jetstream.Stream, _ string) error {
			m, err := chunks.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject("$O.*.C.>"))
			if err == nil {
				err = chunks.DeleteMsg(t.Context(), m.Sequence)
			}
			return err
		},
		"all parts are lost": func(_ jetstream.ObjectStore, chunks jetstream.Stream, _ string) error {
			return chunks.Purge(t.Context(), jetstream.WithPurgeSubject("$O.*.C.>"))
		},
		"it cannot be decoded": func(objects jetstream.ObjectStore, _ jetstream.Stream, name string) error {
			packed, err := objects.GetBytes(t.Context(), name)
			if err == nil {
				_, err = objects.PutBytes(t.Context(), name, packed[:len(packed)/2])
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			dir, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
			write := func(dir, name, text string) {
				t.Helper()
				must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			node, b := r.begin(dir, nil)
			write(b.Dir, "state.db", "old")
			write(b.Dir, "journal.db", "witness")
			node.stop()
			node, b = r.begin(other, nil)
			random := make([]byte, 400_000)
			rand.Read(random)
			write(b.Dir, "state.db", string(random))
			node.stop()

			js := must.Get(jetstream.New(must.Get(nats.Connect(r.servers[0].ClientURL()))))
			defer js.Conn().Close()
			objects := must.Get(js.ObjectStore(t.Context(), "parley-crawl-test-states"))
			list := must.Get(objects.List(t.Context()))
			if len(list) != 1 || list[0].Chunks < 3 {
				t.Fatalf("%d snapshots, the first of %d parts", len(list), list[0].Chunks)
			}
			must.OK(t, damage(objects, must.Get(js.Stream(t.Context(), "OBJ_parley-crawl-test-states")), list[0].Name))

			var log strings.Builder
			node, b = r.begin(dir, slog.New(slog.NewTextHandler(&log, nil)))
			witness, err := os.ReadFile(filepath.Join(b.Dir, "journal.db"))
			if b.state != "old" || string(witness) != "witness" {
				t.Errorf("it begins with a state of %d bytes and %q, %v", len(b.state), witness, err)
			}
			node.stop() // whose snapshot replaces the damaged one
			want := "the object in NATS is damaged"
			if what != "it cannot be decoded" {
				want += ": of its "
			}
			if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), want) {
				t.Errorf("want %q: %s", want, log.String())
			}
			if _, b = r.begin(other, nil); b.state != "old" {
				t.Errorf("the next machine begins with a state of %d bytes", len(b.state))
			}
		})
	}
}
