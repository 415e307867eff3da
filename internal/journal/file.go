package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// The buckets of the file. Present items are in one of two, so that a new description can be written beside
// the valid one.
var (
	metaBucket    = []byte("meta")                                // metaKey -> meta
	itemsBuckets  = [2][]byte{[]byte("items0"), []byte("items1")} // item key -> entry
	heldBucket    = []byte("held")                                // item key of a held item -> nothing
	changesBucket = []byte("changes")                             // number -> change
	goneBucket    = []byte("gone")                                // URL that is gone -> number of the change that deleted it
	gravesBucket  = []byte("graves")                              // number of a change that is in gone -> nothing
	notesBucket   = []byte("notes")                               // see SetNotes; a file of plainState has none

	metaKey = []byte("journal")
)

// logBuckets are the buckets that start empty in every epoch.
func logBuckets() [][]byte { return [][]byte{heldBucket, changesBucket, goneBucket, gravesBucket} }

const (
	// For boltfile.Options: the file can grow into this room even while a View is open.
	roomToGrow = 1 << 30
	growBy     = 4 << 20

	// giveBackAfter is how many items are touched before the pages mapped for them are given back. Otherwise
	// a walk over a million items would look like 200 MB of used memory, though the system can reclaim it at
	// any time.
	giveBackAfter = 1 << 16
)

func (j *Journal) open() error {
	db, err := boltfile.Open(j.path, boltfile.Options{ReadOnly: j.opts.ReadOnly, Wait: j.opts.Wait, Room: roomToGrow, GrowBy: growBy})
	if err != nil {
		return err
	}
	j.db = db
	if err := boltfile.RecoverDamage(j.load); err != nil {
		j.db.Close()
		return err
	}
	return nil
}

// load reads the state, initializes a new file, and drops leftovers.
func (j *Journal) load() error {
	var fresh, leftover bool
	err := j.db.View(func(tx *bbolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil || j.shared && tx.Bucket(metaBucket).Get(metaKey) == nil {
			fresh = true
			return nil
		}
		var err error
		if j.state, err = readMeta(tx); err != nil {
			return err
		}
		leftover = tx.Bucket(itemsBuckets[1-j.state.slot]) != nil
		return checkLog(tx, j.state)
	})
	switch {
	case err != nil:
		return err
	case fresh && j.opts.ReadOnly:
		return errors.New("nothing was ever written to it")
	case j.opts.ReadOnly || !fresh && !leftover && !j.state.old:
		return nil
	}
	tx, err := j.db.Begin(true)
	if err != nil {
		return err
	}
	defer j.db.Rollback(tx)
	var missing [][]byte
	switch {
	case fresh:
		j.state = meta{epoch: newEpoch().Epoch}
		missing = append(logBuckets(), metaBucket, itemsBuckets[0], notesBucket)
	case j.state.old:
		j.state.old = false
		missing = [][]byte{notesBucket}
	}
	if leftover {
		if err := dropBucket(tx, itemsBuckets[1-j.state.slot]); err != nil {
			return err
		}
	}
	for _, name := range missing {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	if err := writeMeta(tx, j.state); err != nil {
		return err
	}
	return tx.Commit()
}

// dropBucket deletes a bucket that must exist.
func dropBucket(tx *bbolt.Tx, name []byte) error {
	if err := tx.DeleteBucket(name); err != nil {
		return fmt.Errorf("file is %w: %w", ErrDamaged, err)
	}
	return nil
}

// checkLog returns an error unless the changes are those that the state names.
func checkLog(tx *bbolt.Tx, m meta) error {
	for _, name := range append(logBuckets(), itemsBuckets[m.slot], notesBucket) {
		if tx.Bucket(name) == nil && !(m.old && string(name) == string(notesBucket)) {
			return fmt.Errorf("file is %w: no %s", ErrDamaged, name)
		}
	}
	c := tx.Bucket(changesBucket).Cursor()
	first, _ := c.First()
	last, _ := c.Last()
	switch {
	case first == nil && m.head == m.floor:
	case first == nil || seqOf(first) != m.floor+1 || seqOf(last) != m.head:
		return fmt.Errorf("file is %w: changes are not those after %d up to %d", ErrDamaged, m.floor, m.head)
	}
	return nil
}

// newEpoch returns the beginning of a new epoch, whose name is 80 random bits.
func newEpoch() protocol.Cursor { return protocol.Cursor{Epoch: strings.ToLower(rand.Text()[:16])} }

// seqKey is the key of change number seq.
func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// seqOf parses the output of seqKey; 0, which is no change, if the key is not valid.
func seqOf(key []byte) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

func readMeta(tx *bbolt.Tx) (meta, error) {
	b := tx.Bucket(metaBucket)
	if b == nil {
		return meta{}, errors.New("not a journal")
	}
	raw := b.Get(metaKey)
	if raw == nil {
		return meta{}, errors.New("not a journal")
	}
	return parseMeta(raw)
}

func writeMeta(tx *bbolt.Tx, m meta) error {
	return tx.Bucket(metaBucket).Put(metaKey, appendMeta(nil, m))
}

// begin begins a read transaction. The caller ends it with Rollback.
func (j *Journal) begin() (*bbolt.Tx, error) {
	j.commit.RLock()
	defer j.commit.RUnlock()
	tx, err := j.db.Begin(false)
	if errors.Is(err, boltfile.ErrClosed) {
		return nil, errClosed
	}
	return tx, err
}

// errNothing ends an update that has nothing to write.
var errNothing = errors.New("nothing to write")

// update runs f in one durable transaction with the state, which f may change; then it publishes the state
// and wakes waiting readers. The caller holds j.turn.
func (j *Journal) update(f func(tx *bbolt.Tx, m *meta) error) error {
	if j.broken != nil {
		return j.broken
	}
	err := boltfile.RecoverDamage(func() error {
		tx, err := j.db.Begin(true)
		if errors.Is(err, boltfile.ErrClosed) {
			return errClosed
		} else if err != nil {
			return err
		}
		defer j.db.Rollback(tx)
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		if j.touched >= giveBackAfter {
			j.touched = 0
			boltfile.ReleasePages(tx)
		}
		if err := f(tx, &m); err != nil {
			return err
		}
		if err := writeMeta(tx, m); err != nil {
			return err
		}
		j.commit.Lock()
		defer j.commit.Unlock()
		id := tx.ID()
		if err := tx.Commit(); err != nil {
			if j.db.Visible(id) {
				j.broken = fmt.Errorf("it must be reopened, since the last transaction may or may not be stored: %w", err)
			}
			return err
		}
		j.publish(m)
		return nil
	})
	switch {
	case err == errNothing:
		return nil
	case errors.Is(err, ErrDamaged):
		j.broken = err // bbolt's memory of the file may be wrong as well
	}
	return err
}

func (j *Journal) publish(m meta) {
	j.mu.Lock()
	defer j.mu.Unlock()
	news := m.headCursor() != j.state.headCursor()
	j.state = m
	if news && !j.closed {
		close(j.wake)
		j.wake = make(chan struct{})
	}
}
