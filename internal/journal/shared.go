package journal

import (
	"errors"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// A journal can be part of a file that belongs to somebody else, such as the state of a crawler: then a change and its
// cause are stored in one transaction. The journal's buckets stand beside those of the owner, who must have a bucket
// meta, and must use neither the names of the others nor its key "journal".

// In opens the journal in a file of another owner, and creates it, not whole, if the file has none. The owner writes
// to it by Join; Append, EndBaseline, SetNotes, SetMark and Renew begin transactions of their own, and wait for the owner's.
func In(db *boltfile.File, opts *Options) (*Journal, error) {
	j := &Journal{path: db.Path(), opts: opts.withDefaults(), db: db, shared: true, wake: make(chan struct{})}
	if err := boltfile.RecoverDamage(j.load); err != nil {
		return nil, j.fail("open", err)
	}
	return j, nil
}

// A Part is what one transaction of the owner of a shared file writes to the journal. It is for the goroutine of the
// transaction. A transaction that is rolled back, or whose commit fails, drops its Part.
type Part struct {
	j  *Journal
	tx *bbolt.Tx
	m  meta
	t  *turn
}

// Join begins the journal's part of a write transaction. There is one at a time, until Publish.
func (j *Journal) Join(tx *bbolt.Tx) (*Part, error) {
	m, err := readMeta(tx)
	if err != nil {
		return nil, j.fail("write to", err)
	}
	p := &Part{j: j, tx: tx, m: m}
	p.t = newTurn(tx, &p.m, j.opts.Now())
	return p, nil
}

// Append stores a step as Journal.Append does. It returns the number of its change, 0 if it is none.
func (p *Part) Append(s Step) (uint64, error) {
	head := p.m.head
	err := s.check()
	if err == nil {
		err = p.t.take(s)
	}
	if err != nil {
		return 0, p.j.fail("append to", err)
	}
	if p.m.head == head {
		return 0, nil
	}
	return p.m.head, nil
}

// Renew begins a new epoch, which is whole: all changes are removed, present items stay. If there are any, it stores a
// note under a key, by which readers know that the epoch began with items that no change announced.
func (p *Part) Renew(note string) error {
	if err := beginEpoch(p.tx, &p.m, newEpoch(), changesBucket, goneBucket, gravesBucket); err != nil {
		return p.j.fail("renew", err)
	}
	p.m.whole = true
	if p.t = newTurn(p.tx, &p.m, p.t.now); p.m.items > 0 {
		if err := p.tx.Bucket(notesBucket).Put([]byte(note), appendNote(nil, note, []byte("1"))); err != nil {
			return p.j.fail("renew", err)
		}
	}
	p.t.dirty = true
	return nil
}

// Commit drops old changes, and commits the transaction. Until it is durable, readers of the journal wait to begin.
func (p *Part) Commit() error {
	err := p.t.finish(&p.j.opts)
	if err == nil {
		err = writeMeta(p.tx, p.m)
	}
	if err != nil && err != errNothing {
		return p.j.fail("append to", err)
	}
	p.j.commit.Lock()
	defer p.j.commit.Unlock()
	return p.tx.Commit()
}

// Publish gives the committed changes to readers, and wakes those that wait.
func (p *Part) Publish() { p.j.publish(p.m) }

// Head returns the journal's head after the transaction.
func (p *Part) Head() protocol.Cursor { return p.m.headCursor() }

// HideAfter hides the changes after a number from Head, Read and Wait, as if they were not published.
func (j *Journal) HideAfter(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.head = max(j.state.floor, min(j.state.head, seq))
}

// itsBuckets are the buckets of a journal, except for meta.
func itsBuckets() [][]byte {
	return append(logBuckets(), itemsBuckets[0], itemsBuckets[1], notesBucket)
}

// Size returns how many bytes the journal takes in a shared file. It reads all of its pages.
func (j *Journal) Size(tx *bbolt.Tx) (n int64) {
	for _, name := range itsBuckets() {
		if b := tx.Bucket(name); b != nil {
			s := b.Stats()
			n += int64(s.BranchAlloc + s.LeafAlloc)
		}
	}
	return n
}

// copyAtOnce is how many bytes Copy writes in a transaction.
const copyAtOnce = 4 << 20

// Copy replaces the journal in a shared file, which nobody has open, by a copy of another journal, or by none if from
// is nil. Its transactions are of bounded size. Killed, it leaves behind what the next Copy replaces.
func Copy(db *boltfile.File, from *Journal) error {
	err := boltfile.RecoverDamage(func() error {
		return db.Update(func(tx *bbolt.Tx) error {
			for _, name := range itsBuckets() {
				if tx.Bucket(name) != nil {
					if err := tx.DeleteBucket(name); err != nil {
						return err
					}
				}
			}
			return tx.Bucket(metaBucket).Delete(metaKey)
		})
	})
	if err != nil || from == nil {
		return err
	}
	v, err := from.View()
	if err != nil {
		return err
	}
	defer v.Close()
	return boltfile.RecoverDamage(func() error {
		for _, name := range append(logBuckets(), itemsBuckets[v.m.slot], notesBucket) {
			if b := v.tx.Bucket(name); b != nil { // a file of plainState has no notes
				if err := copyBucket(db, name, b); err != nil {
					return from.fail("copy", err)
				}
			}
		}
		return db.Update(func(tx *bbolt.Tx) error {
			v.m.old = false
			_, err := tx.CreateBucketIfNotExists(notesBucket)
			return errors.Join(err, writeMeta(tx, v.m))
		})
	})
}

// copyBucket copies a bucket to another file, under the same name.
func copyBucket(db *boltfile.File, name []byte, from *bbolt.Bucket) error {
	c := from.Cursor()
	move := c.First
	for more := true; more; {
		var rows [][2][]byte
		err := boltfile.RecoverDamage(func() error {
			for size := 0; more && size < copyAtOnce; move = c.Next {
				k, b := move()
				if more = k != nil; more {
					rows, size = append(rows, [2][]byte{k, b}), size+len(k)+len(b)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			to, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			to.FillPercent = ascending
			for _, r := range rows {
				if err := to.Put(r[0], r[1]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
