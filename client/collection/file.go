package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/adjacency"
	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// The buckets of state.db.
var (
	metaBucket    = []byte("meta")    // metaKey -> version, strategy, state of the contents
	sitesBucket   = []byte("sites")   // site -> fields that seldom change
	sourcesBucket = []byte("sources") // source -> source
	namedBucket   = []byte("named")   // source, page -> whether it is doomed: pages that the source has named

	allBuckets = [][]byte{metaBucket, urls.Bucket, queue.Pages, sitesBucket, queue.Counts, sourcesBucket, namedBucket,
		queue.Ready, queue.Log, queue.Waiting, adjacency.Links, queue.Digests, changes.Bucket}
	metaKey = []byte("collection")
)

const (
	// formatVersion is raised when earlier programs cannot read what this one writes, or this one would
	// misread what they wrote.
	formatVersion = 6

	// formatFewer is the oldest format of a state whose records lack parts only: before 4 speeds of sites and predictions of
	// pages, before 5 staged changes of the waiting bucket and of counts, before 6 sketches of main texts.
	formatFewer = 3

	// formatBefore is the format of a state whose log is a file of its own. A new state has it for a moment, until it has
	// a log.
	formatBefore = 2

	// For boltfile.Options: the file can grow into this room even while a reader is open.
	roomToGrow = 4 << 30
	growBy     = 16 << 20

	// giveBackAfter is how many records are touched before the pages mapped for them are given back:
	// otherwise all of the file would soon look like used memory, though the system can reclaim it at any time.
	giveBackAfter = 1 << 17
)

// An opening is one call of Open: it brings a collection, which nobody else uses yet, into memory and in order.
type opening struct{ c *Collection }

func (o *opening) open(path string) error {
	c := o.c
	if err := checkCopy(&c.opts); err != nil {
		return err
	}
	if st, err := os.Stat(path); err == nil && st.Size() == 0 && c.opts.ReadOnly {
		return errEmpty // bbolt would initialize it
	}
	db, err := boltfile.Open(path, boltfile.Options{ReadOnly: c.opts.ReadOnly, Wait: c.opts.Wait, Room: roomToGrow, GrowBy: growBy})
	if err != nil {
		return err
	}
	c.db = db
	if err = boltfile.RecoverDamage(o.rename); err == nil {
		err = boltfile.RecoverDamage(o.load)
	}
	if err == nil {
		err = o.openContents()
	}
	if err == nil && !c.opts.ReadOnly {
		if c.opts.Site != "" {
			err = o.verifyCopy()
		}
		if err == nil {
			err = o.list()
		}
		if err == nil {
			err = o.waitAnew()
		}
	}
	if err != nil {
		return errors.Join(err, c.sinks.close(), c.db.Close())
	}
	return nil
}

var errEmpty = errors.New("the state is empty: no crawl has written to it")

// load reads the part of the state that stays in memory, and makes the buckets of a new file.
func (o *opening) load() error {
	c := o.c
	fresh := false
	strategy := ""
	err := c.db.View(func(tx *bbolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil {
			fresh = true
			return nil
		}
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return fmt.Errorf("state is %w: no %s", ErrDamaged, metaBucket)
		}
		var err error
		if strategy, err = c.sinks.parseMeta(meta.Get(metaKey)); err != nil {
			return err // nothing else is known of another version
		}
		for _, name := range allBuckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("state is %w: no %s", ErrDamaged, name)
			}
		}
		if err := c.stage.Load(tx); err != nil {
			return err
		}
		if err := c.index.load(tx, c.stage); err != nil {
			return err
		}
		defer boltfile.ReleasePages(tx)
		var each func(url string)
		if of := c.opts.Part; of != nil {
			each = func(url string) {
				if part, _ := of(url); part != "" {
					c.index.parts[part]++
				}
			}
		}
		if c.index.last, err = urls.Load(tx.Bucket(urls.Bucket), c.index.names, c.index.urls, each); err != nil {
			return err
		}
		return o.loadCopy(tx)
	})
	if err == nil && c.sinks.format >= formatFewer && c.sinks.format < formatVersion && !c.opts.ReadOnly {
		c.sinks.format = formatVersion
		err = c.db.Update(func(tx *bbolt.Tx) error { return c.sinks.putMeta(tx, strategy) })
	}
	switch {
	case err != nil:
		return err
	case c.opts.ReadOnly && fresh:
		return errEmpty
	case c.opts.ReadOnly || !fresh && strategy == c.opts.Strategy.Name():
		return nil
	case fresh:
		c.sinks.format = formatBefore
		return c.db.Update(func(tx *bbolt.Tx) error {
			for _, name := range allBuckets {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			if err := tx.Bucket(metaBucket).Put(listedKey, []byte{1}); err != nil {
				return err
			}
			return c.writeMeta(tx)
		})
	}
	return o.reorder()
}

func (c *Collection) writeMeta(tx *bbolt.Tx) error {
	return c.sinks.putMeta(tx, c.opts.Strategy.Name())
}

// putMeta stores the format of the state, the strategy of its ranks and the end of the contents.
func (k *sinks) putMeta(tx *bbolt.Tx, strategy string) error {
	b := binary.AppendUvarint(nil, k.format)
	b = record.AppendString(record.AppendString(b, strategy), string(k.committed))
	return tx.Bucket(metaBucket).Put(metaKey, record.Seal(b, metaKey, 0))
}

// parseMeta reads the format of the state and the end of the contents, and returns the strategy.
func (k *sinks) parseMeta(raw []byte) (strategy string, err error) {
	body, ok := record.Unseal(metaKey, raw)
	if !ok {
		return "", record.Damaged(metaBucket, metaKey)
	}
	d := record.Decoder{B: body}
	if k.format = d.Uint(); k.format < formatBefore || k.format > formatVersion {
		return "", fmt.Errorf("%w: it has format %d, and this program knows %d: use the version that wrote it, or another directory", ErrVersion, k.format, formatVersion)
	}
	strategy, k.committed = d.Text(), clone(d.Bytes())
	if d.Bad || len(d.B) > 0 {
		return "", record.Damaged(metaBucket, metaKey)
	}
	return strategy, nil
}

// reading runs f in a read transaction. f must be quick: meanwhile bbolt cannot reuse pages freed since, and
// writers wait to publish. f must not call reading.
func (c *Collection) reading(f func(*bbolt.Tx) error) error {
	c.stage.RLock()
	defer c.stage.RUnlock()
	return boltfile.RecoverDamage(func() error { return c.db.View(f) })
}

// write runs f in a write transaction of its own.
func write(c *Collection, f func(*bbolt.Tx) error) error {
	return boltfile.RecoverDamage(func() error { return c.db.Update(f) })
}

// giveBack gives back mapped pages, before so many more records are read: one reading of all would map all of the file.
func giveBack(tx *bbolt.Tx, read *int, more int) {
	if *read += more; *read >= giveBackAfter/4 {
		*read = 0
		boltfile.ReleasePages(tx)
	}
}

// reorder gives every page in the queue the rank of a new strategy. If killed it starts again: ranking a
// page twice is harmless.
func (o *opening) reorder() error {
	c := o.c
	const each = 100 * urls.BlockLen
	c.mu.Lock()
	defer c.mu.Unlock()
	for next := frontier.PageID(1); next <= c.index.last; next += each {
		err := c.update(func(u *update) error {
			for id := next; id < next+each && id <= c.index.last; id++ {
				w, err := u.pages.get(id)
				if err != nil {
					return err
				}
				if w == nil || w.At.Equal(Never) {
					continue
				}
				was := w.rank
				w.rank = 0 // it is no cash, nor a number of links
				w.rank = u.rank(w)
				w.dirty = w.dirty || w.rank != was
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reorder queue: %w", err)
		}
	}
	return c.db.Update(c.writeMeta)
}
