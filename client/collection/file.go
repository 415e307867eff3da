package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/parleyweb/parley/client/frontier"
)

// The buckets of state.db.
var (
	metaBucket    = []byte("meta")    // metaKey -> version, strategy, state of the contents
	urlsBucket    = []byte("urls")    // block number -> known URLs
	pagesBucket   = []byte("pages")   // page -> what more is known of it
	sitesBucket   = []byte("sites")   // site -> what seldom changes
	countsBucket  = []byte("counts")  // site -> what is counted
	sourcesBucket = []byte("sources") // source -> source
	namedBucket   = []byte("named")   // source, page -> whether it is doomed: what the source has named
	readyBucket   = []byte("ready")   // site, rank, page -> at
	logBucket     = []byte("log")     // number -> changes of ready, pages and digests that are held back
	waitingBucket = []byte("waiting") // at, page -> site, rank
	linksBucket   = []byte("links")   // page -> pages
	digestsBucket = []byte("digests") // start of the digest of parsed content -> the page that had it first
	outboxBucket  = []byte("outbox")  // for tell and pass

	allBuckets = [][]byte{metaBucket, urlsBucket, pagesBucket, sitesBucket, countsBucket, sourcesBucket, namedBucket,
		readyBucket, logBucket, waitingBucket, linksBucket, digestsBucket, outboxBucket}
	metaKey = []byte("collection")
)

const (
	// formatVersion is raised whenever what is written becomes something that a program of
	// before cannot read, or reads what was written before as something else.
	formatVersion = 2

	// roomToGrow is address space, not memory: bbolt cannot grow the mapping
	// of its file while somebody reads, so there is room for a long time.
	roomToGrow = int64(4 << 30)

	// growBy is how much the file grows at once. It costs a sync each time.
	growBy = 16 << 20

	// giveBackAfter is how many records are touched before the pages that were
	// mapped for them are given back: else all of the file would soon look like
	// memory, though the system can have it whenever it wants.
	giveBackAfter = 1 << 17
)

func (c *Collection) open(path string) error {
	if err := c.checkCopy(); err != nil {
		return err
	}
	if !c.opts.ReadOnly {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	o := &bbolt.Options{
		Timeout:  max(c.opts.Wait, time.Millisecond), // zero would wait for ever
		ReadOnly: c.opts.ReadOnly,
		// A free list that is not in the file would be found by reading all of
		// it on every Open, in a goroutine that panics if the file is damaged.
		NoFreelistSync: false,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	}
	if st, err := os.Stat(path); err == nil && st.Size() == 0 && c.opts.ReadOnly {
		return errEmpty // bbolt would make a state of it
	}
	if strconv.IntSize == 64 && runtime.GOOS != "windows" { // there the file itself would grow
		room := roomToGrow
		o.InitialMmapSize = int(room)
		if st, err := os.Stat(path); err == nil {
			o.InitialMmapSize += int(st.Size())
		}
	}
	o.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		c.file, err = os.OpenFile(name, flag, mode)
		return c.file, err
	}
	err := guard(func() (err error) {
		c.db, err = bbolt.Open(path, 0o600, o)
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, berrors.ErrTimeout):
		return ErrHeld
	case errors.Is(err, ErrDamaged):
		if c.file != nil {
			c.abandon()
		}
		return err
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	default:
		return err
	}
	c.db.AllocSize = growBy
	if err := guard(c.load); err != nil {
		c.closeFile()
		return err
	}
	if err := c.openContents(c.committed); err != nil {
		c.closeFile()
		return err
	}
	if !c.opts.ReadOnly {
		err := c.pass()
		if err == nil && c.opts.Site != "" {
			err = c.verifyCopy()
		}
		if err == nil {
			err = c.list()
		}
		if err == nil {
			err = c.waitAnew()
		}
		if err != nil {
			return errors.Join(err, c.closeContents(), c.closeFile())
		}
	}
	return nil
}

var errEmpty = errors.New("nothing was ever written to it")

// load reads what is held in memory, and makes the buckets of a new file.
func (c *Collection) load() error {
	fresh := false
	strategy := ""
	err := c.db.View(func(tx *bbolt.Tx) error {
		// What lies beyond the end of the file cannot even be looked at.
		if st, err := c.file.Stat(); err != nil {
			return err
		} else if st.Size() < tx.Size() {
			return fmt.Errorf("%w: file has %d of %d bytes", ErrDamaged, st.Size(), tx.Size())
		}
		if k, _ := tx.Cursor().First(); k == nil {
			fresh = true
			return nil
		}
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return fmt.Errorf("%w: no %s", ErrDamaged, metaBucket)
		}
		var err error
		if strategy, c.committed, err = parseMeta(meta.Get(metaKey)); err != nil {
			return err // of another version nothing else is known
		}
		for _, name := range allBuckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: no %s", ErrDamaged, name)
			}
		}
		if err := c.loadSites(tx); err != nil {
			return err
		}
		if err := c.loadStage(tx); err != nil {
			return err
		}
		defer giveBack(tx)
		if err := c.loadURLs(tx); err != nil {
			return err
		}
		return c.loadCopy(tx)
	})
	switch {
	case err != nil:
		return err
	case c.opts.ReadOnly && fresh:
		return errEmpty
	case c.opts.ReadOnly || !fresh && strategy == c.opts.Strategy.Name():
		return nil
	case fresh:
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
	return c.reorder()
}

func (c *Collection) writeMeta(tx *bbolt.Tx) error {
	b := binary.AppendUvarint(nil, formatVersion)
	b = appendString(appendString(b, c.opts.Strategy.Name()), string(c.committed))
	return tx.Bucket(metaBucket).Put(metaKey, seal(b, metaKey, 0))
}

func parseMeta(raw []byte) (strategy string, contents []byte, err error) {
	body, ok := unseal(metaKey, raw)
	if !ok {
		return "", nil, damaged(metaBucket, metaKey)
	}
	d := decoder{b: body}
	if v := d.uint(); v != formatVersion {
		return "", nil, fmt.Errorf("%w: it has format %d, and this program knows %d: use the version that wrote it, or another directory", ErrVersion, v, formatVersion)
	}
	strategy, contents = d.string(), clone(d.bytes())
	if d.bad || len(d.b) > 0 {
		return "", nil, damaged(metaBucket, metaKey)
	}
	return strategy, contents, nil
}

// abandon does what bbolt cannot any more: it gives up the lock and the file.
func (c *Collection) abandon() error {
	unlock(c.file)
	return c.file.Close()
}

// closeFile closes the file. Where bbolt failed with its own lock held, it
// would wait for that for ever.
func (c *Collection) closeFile() error {
	if c.stuck {
		return c.abandon()
	}
	return c.db.Close()
}

// guard runs f and makes an error of a panic: bbolt panics on pages that it
// did not write, and so does whatever reads beyond the end of a file that
// somebody cut.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(runtime.Error); ok { // its text says nothing to people
				p = "a page of the file is not what was written"
			}
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return f()
}

// reading runs f in a reading transaction. It must not take long: bbolt cannot
// use again what is free since then, and writers wait to publish; and f must not read in another.
func (c *Collection) reading(f func(*bbolt.Tx) error) error {
	c.stage.mu.RLock() // what is merged into a bucket goes from the stage after that
	defer c.stage.mu.RUnlock()
	return guard(func() error { return c.db.View(f) })
}

// reorder gives every page that waits the rank that another strategy gives it.
// Killed on the way it begins again: to rank a page twice is to rank it once.
func (c *Collection) reorder() error {
	const each = 100 * blockLen
	c.mu.Lock()
	defer c.mu.Unlock()
	for next := frontier.PageID(1); next <= c.last; next += each {
		err := c.update(func(u *update) error {
			for id := next; id < next+each && id <= c.last; id++ {
				w, err := u.get(id)
				if err != nil {
					return err
				}
				if w == nil || w.At.Equal(Never) {
					continue
				}
				if rank := u.rank(w); rank != w.rank {
					w.rank, w.dirty = rank, true
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reorder queue: %w", err)
		}
	}
	return c.db.Update(c.writeMeta)
}
