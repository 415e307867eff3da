package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A disk is the directory of a partition, as a tenure has it.
type disk struct {
	age    uint64 // the revision with which the lease began
	saving sync.Mutex
	saved  time.Time // the mtime of state.db that the newest snapshot has
	at     progress
}

// A progress is how far a state has what is in the streams.
type progress struct {
	urls    atomic.Uint64                   // the last message of URLs that the state has
	events  atomic.Uint64                   // a message of events, up to which it has all
	told    atomic.Pointer[protocol.Cursor] // up to which event of this state the stream has them; nil: not known
	untold  atomic.Bool                     // the last Part.Told has failed
	whole   bool                            // see record, which was read when the tenure began
	hurry   chan struct{}                   // has room for one who waits in Part.Told
	marking sync.Mutex                      // held while the mark is written
}

// A mark is the file in the directory of a partition that says how old it is.
type mark struct {
	Crawl    string `json:"crawl"` // its id
	Age      uint64 `json:"age"`
	Position uint64 `json:"position"` // as in progress, like the next two
	Events   uint64 `json:"events"`

	Told *protocol.Cursor `json:"told,omitempty"`
}

const markFile = "cluster.json"

func (t *tenure) dir() string   { return filepath.Join(t.n.Dir, fmt.Sprintf("partition-%03d", t.number)) }
func (t *tenure) state() string { return filepath.Join(t.dir(), contents.StateFile) }

// mark writes the mark.
func (t *tenure) mark() error {
	t.at.marking.Lock()
	defer t.at.marking.Unlock()
	b, err := json.Marshal(mark{t.n.in.id, t.age, t.at.urls.Load(), t.at.events.Load(), t.at.told.Load()})
	if err == nil {
		err = atomicfile.Write(filepath.Join(t.dir(), markFile), string(b)+"\n", 0o644)
	}
	return err
}

// prepare makes the directory of the partition, with the newest state that there is.
func (t *tenure) prepare(ctx context.Context) (dir string, err error) {
	dir = t.dir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var is mark
	b, err := os.ReadFile(filepath.Join(dir, markFile))
	if _, missing := os.Stat(t.state()); err != nil || missing != nil || json.Unmarshal(b, &is) != nil || is.Crawl != t.n.in.id {
		is = mark{}
	}
	t.mu.Lock()
	rec := t.rec
	t.mu.Unlock()
	if rec.Snapshot != "" && is.Age < rec.Age {
		err := t.fetch(ctx, rec.Snapshot)
		switch {
		case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, errDamaged):
			t.n.Log.Error("the snapshot of a partition cannot be used: it begins with what is here", "partition", t.number, "err", err)
		case err != nil:
			return "", err
		default:
			is.Position, is.Events, is.Told = rec.Position, rec.Events, nil
			if t.at.whole {
				t.n.Log.Info("a partition begins with its snapshot", "partition", t.number)
			} else {
				t.n.Log.Warn("a partition begins with its last snapshot: what its node has done since is lost", "partition", t.number)
			}
		}
	}
	err = t.n.retry(ctx, func() error {
		info, err := t.n.in.urls.Info(ctx)
		if err == nil && info.State.LastSeq < is.Position {
			is.Position = 0 // the stream is another one
		}
		return err
	})
	if err == nil {
		t.at.urls.Store(is.Position)
		t.at.events.Store(is.Events)
		t.at.told.Store(is.Told)
		err = t.mark()
	}
	return dir, err
}

var errDamaged = errors.New("the object in NATS is damaged")

// fetch puts a snapshot in the place of the state. By the witness of the events, which is written first, a new epoch of them begins: other nodes may
// have told more than the snapshot has. It returns errDamaged, with the state left as it is, if the snapshot is damaged whenever it is read: one server may only be behind.
func (t *tenure) fetch(ctx context.Context, name string) error {
	temp := filepath.Join(t.dir(), ".snapshot.tmp")
	defer os.Remove(temp)
	var since time.Time // when it was first found damaged
	err := t.n.retry(ctx, func() error {
		err := t.download(ctx, name, temp)
		switch {
		case !errors.Is(err, errDamaged):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
			fallthrough
		case time.Since(since) < max(patience, t.n.Lease/2):
			return fmt.Errorf("try again: %v", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fetch snapshot %s: %w", name, err)
	}
	epoch := protocol.Cursor{Epoch: strings.ToLower(rand.Text())}
	if err := atomicfile.Write(filepath.Join(t.dir(), contents.WitnessFile), epoch.String(), 0o600); err != nil {
		return err
	}
	return atomicfile.Replace(temp, t.state())
}

// download writes a snapshot to a file.
func (t *tenure) download(ctx context.Context, name, to string) error {
	info, err := t.n.in.states.GetInfo(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := carry(ctx, int64(info.Size))
	defer cancel()
	stream, err := t.n.in.js.Stream(ctx, "OBJ_"+info.Bucket)
	if err != nil {
		return err
	}
	subject := "$O." + info.Bucket + ".C." + info.NUID
	is, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return err
	}
	if n := is.State.Subjects[subject]; n < uint64(info.Chunks) { // the NATS client would wait for the others
		return fmt.Errorf("%w: of its %d parts %d are missing", errDamaged, info.Chunks, uint64(info.Chunks)-n)
	}
	o, err := t.n.in.states.Get(ctx, name)
	if err != nil {
		return err
	}
	defer o.Close()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	plain, undecoded := coding.NewReader(o)
	if undecoded == nil {
		defer plain.Close()
		_, undecoded = io.Copy(f, plain)
	}
	_, unread := io.Copy(io.Discard, o) // which checks the digest at its end
	err = errors.Join(f.Sync(), f.Close())
	switch {
	case errors.As(undecoded, new(*fs.PathError)):
		return undecoded
	case ctx.Err() != nil: // the NATS client may then say that the digest is wrong
		return ctx.Err()
	case errors.Is(unread, jetstream.ErrDigestMismatch), unread == nil && undecoded != nil:
		return fmt.Errorf("%w: %w", errDamaged, cmp.Or(undecoded, unread))
	}
	return cmp.Or(unread, err)
}

// Save stores snapshots, if the state has changed, until ctx ends. Backup writes the state as it is.
func (p *Part) Save(ctx context.Context, backup func(io.Writer) error) {
	for n := p.is.n; pause.For(ctx, n.Snapshots); {
		if err := p.is.save(ctx, backup); err != nil && ctx.Err() == nil {
			n.Log.Warn("a snapshot of a partition could not be stored", "partition", p.Number, "err", err)
		}
	}
}

// save stores a snapshot if the state has changed; backup is nil if nobody has it open. The snapshot counts, and an earlier one does not any more, once the record names it: only
// the node that has the lease can do that.
func (t *tenure) save(ctx context.Context, backup func(io.Writer) error) error {
	t.saving.Lock()
	defer t.saving.Unlock()
	st, err := os.Stat(t.state())
	switch {
	case errors.Is(err, os.ErrNotExist): // nothing was stored yet
		return nil
	case err != nil || st.ModTime().Equal(t.saved):
		return err
	case backup == nil && t.at.untold.Load():
		return errUntold
	}
	select {
	case t.n.run.copying <- struct{}{}: // few at a time
		defer func() { <-t.n.run.copying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	position, events := t.at.urls.Load(), t.at.events.Load() // before the copy begins
	temp := filepath.Join(t.dir(), ".snapshot.zst.tmp")
	defer os.Remove(temp)
	if err := pack(temp, t.state(), backup); err != nil {
		return err
	}
	f, err := os.Open(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	packed, err := f.Stat()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d.%s", t.number, rand.Text())
	moving, cancel := carry(ctx, packed.Size())
	defer cancel()
	if _, err := t.n.in.states.Put(moving, jetstream.ObjectMeta{Name: name}, f); err != nil {
		return fmt.Errorf("store snapshot: %w", err)
	}
	err = t.write(ctx, func(r *record) { r.Snapshot, r.Age, r.Position, r.Events = name, t.age, position, events })
	if err == nil {
		err = t.mark() // which says how far events are told, too
	}
	if err != nil {
		return err // the next snapshot removes what was stored
	}
	t.saved = st.ModTime()
	tidy, stop := context.WithTimeout(ctx, patience) // the NATS client may wait for the end of the list of objects for ever
	defer stop()
	if position > 0 {
		err = t.n.in.urls.Purge(tidy, jetstream.WithPurgeSubject(t.n.subject(t.number)), jetstream.WithPurgeSequence(position+1))
	}
	return errors.Join(err, t.sweep(tidy, name))
}

// sweep removes the other snapshots of the partition.
func (t *tenure) sweep(ctx context.Context, but string) error {
	list, err := t.n.in.states.List(ctx)
	for _, o := range list {
		if err == nil && o.Name != but && strings.HasPrefix(o.Name, fmt.Sprint(t.number, ".")) {
			err = t.n.in.states.Delete(ctx, o.Name)
		}
	}
	return err
}

// pack writes a compressed copy of the state.
func pack(to, state string, backup func(io.Writer) error) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	z := coding.NewFastZstd(f)
	if backup == nil {
		backup = func(w io.Writer) error {
			s, err := os.Open(state)
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = io.Copy(w, s)
			return err
		}
	}
	if err = errors.Join(backup(z), z.Close(), f.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", state, err)
	}
	return nil
}
