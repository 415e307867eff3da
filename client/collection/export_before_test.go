package collection

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// Format returns the format of the state in a directory.
func Format(dir string) (format uint64, err error) {
	db, err := boltfile.Open(filepath.Join(dir, "state.db"), boltfile.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	var k sinks
	err = db.View(func(tx *bbolt.Tx) error {
		_, err := k.parseMeta(tx.Bucket(metaBucket).Get(metaKey))
		return err
	})
	return k.format, errors.Join(err, db.Close())
}

// MakeBefore turns a collection into one of the version before, which was killed after its last transaction: earlier is a
// copy of the collection from before that. The transaction's changes are in the outbox, and so many of them, in
// batches, in the journal too.
func MakeBefore(dir, earlier string, appended int, o *journal.Options) error {
	now, err := boltfile.Open(filepath.Join(dir, "state.db"), boltfile.Options{})
	if err != nil {
		return err
	}
	defer now.Close()
	then, err := boltfile.Open(filepath.Join(earlier, "state.db"), boltfile.Options{})
	if err != nil {
		return err
	}
	defer then.Close()
	from, err := journal.In(then, o)
	if err != nil {
		return err
	}
	steps, err := makeOutbox(now, from.Head(), o)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "journal.db")
	old, err := boltfile.Open(file+".new", boltfile.Options{})
	if err != nil {
		return err
	}
	err = old.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("meta"))
		return err
	})
	if err = errors.Join(err, journal.Copy(old, from), old.Close()); err != nil {
		return err
	}
	j, err := journal.Open(file+".new", o)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(steps[:appended], protocol.MaxBatch) {
		if _, err := j.Append(context.Background(), batch); err != nil {
			return err
		}
	}
	return errors.Join(j.Close(), os.Rename(file+".new", file))
}

// makeOutbox moves the changes after a cursor from the journal of a state into an outbox, and removes the journal.
func makeOutbox(db *boltfile.File, told protocol.Cursor, o *journal.Options) (steps []journal.Step, err error) {
	j, err := journal.In(db, o)
	if err != nil {
		return nil, err
	}
	var list []protocol.Change
	for after := told; after != j.Head(); after.Seq = list[len(list)-1].Seq {
		some, err := j.Read(context.Background(), after, 0)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	if err := journal.Copy(db, nil); err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		box := tx.Bucket(changes.Bucket)
		b, err := box.CreateBucketIfNotExists([]byte("steps"))
		if err != nil {
			return err
		}
		for i, ch := range list {
			steps = append(steps, journal.Step{Op: ch.Op, From: ch.From, Significance: ch.Significance, Entry: journal.Entry{Item: ch.Item}})
			seq, key := binary.BigEndian.AppendUint64(nil, ch.Seq), binary.BigEndian.AppendUint64(nil, uint64(i+1))
			asides := box.Bucket([]byte("asides"))
			aside, ok := record.Unseal(seq, asides.Get(seq))
			if !ok {
				return record.Damaged([]byte("asides"), seq)
			}
			if err := errors.Join(b.Put(key, posted(key, slices.Clone(aside), &ch)), asides.Delete(seq)); err != nil {
				return err
			}
		}
		meta := tx.Bucket(metaBucket)
		body, _ := record.Unseal(metaKey, meta.Get(metaKey))
		body = slices.Clone(body)
		body[0] = formatBefore
		return errors.Join(box.Put([]byte("told"), []byte(told.String())), meta.Put(metaKey, record.Seal(body, metaKey, 0)))
	})
	return steps, err
}

// posted returns the record of a change in the outbox: its aside, and then its step.
func posted(key, aside []byte, ch *protocol.Change) []byte {
	x, it, significance := record.Codec{Out: aside}, &ch.Item, uint64(ch.Significance)
	x.Text((*string)(&ch.Op))
	x.Text(&ch.From)
	x.Uint(&significance)
	x.Text(&it.URL)
	x.Text(&it.Title)
	x.Time(&it.Modified)
	x.Int(&it.Length)
	x.Text(&it.Type)
	x.Digest(&it.Digest)
	x.Digest(&it.Text)
	x.Text(&it.Language)
	x.Text(&it.Canonical)
	x.Byte((*byte)(&it.Importance))
	return record.Seal(x.Out, key, 0)
}
