package holding

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// ErrHeld is returned by Open when another process has the state or the directory.
var ErrHeld = errors.New("held by another process")

// ErrOther is returned by Open for a state or a directory of another site.
var ErrOther = errors.New("kept for another site")

// ErrDamaged is returned where the state is not what was written: its disk has
// lost some of it, or it is no state. Without it the copy is made anew.
var ErrDamaged = errors.New("state is damaged: remove it, and the copy is made anew")

// formatVersion is the version of the state's format.
const formatVersion = 1

var (
	metaBucket  = []byte("meta")
	pagesBucket = []byte("pages") // URL -> page
	debtsBucket = []byte("debts") // when, depth, URL -> nothing
	pathsBucket = []byte("paths") // file name -> URL
	opsBucket   = []byte("ops")   // number -> what the last transaction asked of the files
	metaKey     = []byte("meta")
)

// Options says how a holding is kept. The zero value is a useful one.
type Options struct {
	// Wait is how long Open waits for a state that another process has. Zero means not at all.
	Wait time.Duration

	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Counts says how much there is.
type Counts struct {
	Pages  int   `json:"pages"`  // URLs that the site offers
	Held   int   `json:"held"`   // of them, how many have a file
	Owed   int   `json:"owed"`   // URLs to be fetched, now or later
	Parked int   `json:"parked"` // URLs that robots.txt forbids to fetch
	Bytes  int64 `json:"bytes"`  // size of the files held

	// Matched and Mismatched count answers with a digest equal to and other
	// than what the site says; MissRow is how many of the latter came since
	// the last of the former. Demoted says that the site's digests have never
	// been right and are not waited for.
	Matched    int64 `json:"matched"`
	Mismatched int64 `json:"mismatched"`
	MissRow    int   `json:"miss_row"`
	Demoted    bool  `json:"demoted"`
}

// meta is what is stored about the whole.
type meta struct {
	Version  int             `json:"version"`
	Base     string          `json:"base"`
	ID       string          `json:"id"`
	Fold     bool            `json:"fold"`     // the file system does not tell upper from lower case
	Portable bool            `json:"portable"` // it refuses what Windows refuses
	Strays   bool            `json:"strays"`   // the directory may hold files of a state that was lost
	Cursor   protocol.Cursor `json:"cursor"`
	Door     client.Door     `json:"door"`
	Gen      uint32          `json:"gen"`
	Counts   Counts          `json:"counts"`

	Run     string `json:"run"`                // the present or last one, see enter
	LastRun string `json:"last_run,omitempty"` // the one before, while the directory may still bear its name
	Suspect bool   `json:"suspect,omitempty"`  // the files need not be what the state says
}

// A Holding is safe for use by many goroutines.
type Holding struct {
	db   *bbolt.DB
	tree *tree
	now  func() time.Time

	damaged atomic.Bool // bbolt has panicked: it is not to be closed, and holds the file until the process ends

	mu     sync.Mutex // one update, with its file operations, at a time
	broken error      // guarded by mu: file operations failed; only Open may go on

	view  sync.Mutex // guards what follows
	meta  meta
	taken map[string]bool // debts that Next gave and Settle has not had
}

// Open opens or creates the state file at path and the directory dir that
// holds the copy of the site at base, an absolute URL that ends in "/". A
// state or a directory of another site is refused with ErrOther. A directory
// that is not empty must be one that a holding made.
//
// A state whose directory was emptied or replaced starts afresh. A page whose
// file is gone or of another size is owed again; where the state or the
// directory was put back from a copy, every file is read. A directory that
// another process keeps is refused with ErrHeld, whatever its state.
func Open(path, dir, base string, opts *Options) (*Holding, error) {
	if opts == nil {
		opts = &Options{}
	}
	c := &Holding{now: opts.Now, taken: map[string]bool{}}
	if c.now == nil {
		c.now = time.Now
	}
	if err := c.open(path, dir, base, opts.Wait); err != nil {
		c.Close()
		return nil, fmt.Errorf("open holding %s: %w", path, err)
	}
	return c, nil
}

func (c *Holding) open(path, dir, base string, wait time.Duration) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || !strings.HasSuffix(base, "/") {
		return fmt.Errorf("base %q: want an absolute URL that ends in a slash", base)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err = guard(func() (err error) {
		c.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:      max(wait, time.Millisecond), // zero would wait for ever
			FreelistType: bbolt.FreelistMapType,
			// Without the list in the file bbolt looks for it on every Open, in
			// a goroutine that panics if the file is damaged.
			NoFreelistSync: false,
		})
		return err
	})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return ErrHeld
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrChecksum), errors.Is(err, bbolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	case err != nil:
		return err
	}
	if err := c.load(base); err != nil {
		return err
	}
	if c.tree, err = openTree(dir); err != nil {
		return err
	}
	if _, err := c.owner(dir, base); err != nil {
		return err
	}
	if err := c.tree.hold(); err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	site, err := c.owner(dir, base) // as it is now that nobody else can change it
	if err != nil {
		return err
	}
	if site == nil || site.ID != c.meta.ID {
		if err := c.begin(base, site != nil); err != nil {
			return err
		}
		site = &siteMark{}
	}
	if err := c.redo(); err != nil {
		return err
	}
	if err := c.tree.clean(); err != nil {
		return err
	}
	return c.enter(*site)
}

// owner reads the mark of the directory, nil if it has none, and refuses a
// directory that is not ours to fill.
func (c *Holding) owner(dir, base string) (*siteMark, error) {
	site, err := c.tree.site()
	switch {
	case err != nil:
		return nil, err
	case site == nil && c.tree.foreign():
		return nil, fmt.Errorf("directory %s is not empty and not a mirror", dir)
	case site != nil && site.Base != base:
		return nil, fmt.Errorf("directory %s: %w: %s", dir, ErrOther, site.Base)
	}
	return site, nil
}

// load reads the meta record, and makes the buckets of a new state.
func (c *Holding) load(base string) error {
	return c.writing(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		for _, name := range [][]byte{pagesBucket, debtsBucket, pathsBucket, opsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		raw := b.Get(metaKey)
		if raw == nil {
			c.meta = meta{Version: formatVersion, Base: base}
			return nil
		}
		if err := json.Unmarshal(raw, &c.meta); err != nil {
			return fmt.Errorf("read state: %w", err)
		}
		if c.meta.Version != formatVersion {
			return fmt.Errorf("state has format %d, this program knows %d", c.meta.Version, formatVersion)
		}
		if c.meta.Base != base {
			return fmt.Errorf("%w: %s", ErrOther, c.meta.Base)
		}
		return nil
	})
}

// begin makes an empty state for a directory that this state has not filled.
func (c *Holding) begin(base string, strays bool) error {
	if err := c.tree.prepare(); err != nil {
		return err
	}
	m := meta{Version: formatVersion, Base: base, ID: rand.Text(), Strays: strays}
	m.Fold, m.Portable = c.tree.probe()
	m.Portable = m.Portable || runtime.GOOS == "windows"
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := c.writing(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{pagesBucket, debtsBucket, pathsBucket, opsBucket} {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(metaKey, raw)
	}); err != nil {
		return err
	}
	c.meta = m
	return c.tree.mark(siteMark{Base: base, ID: m.ID})
}

// redo does what the last transaction asked of the files, if a process was
// killed before it could.
func (c *Holding) redo() error {
	var ops []op
	if err := c.reading(func(tx *bbolt.Tx) error {
		return tx.Bucket(opsBucket).ForEach(func(_, v []byte) error {
			o, err := parseOp(v)
			ops = append(ops, o)
			return err
		})
	}); err != nil {
		return err
	}
	return c.tree.do(ops)
}

func (c *Holding) reading(fn func(*bbolt.Tx) error) error {
	return c.noted(guard(func() error { return c.db.View(fn) }))
}

func (c *Holding) writing(fn func(*bbolt.Tx) error) error {
	return c.noted(guard(func() error { return c.db.Update(fn) }))
}

func (c *Holding) noted(err error) error {
	if errors.Is(err, ErrDamaged) {
		c.damaged.Store(true)
	}
	return err
}

// guard makes an error of what bbolt does about pages that it did not write:
// it panics, and so does whatever reads beyond the end of a file that was cut.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, p)
		}
	}()
	return f()
}

// Close closes the state and the directory.
func (c *Holding) Close() error {
	var err error
	if c.db != nil && !c.damaged.Load() { // else bbolt has panicked with its locks taken, and Close would wait for them
		err = c.db.Close()
	}
	if c.tree != nil {
		err = errors.Join(err, c.tree.close())
	}
	return err
}

// Cursor returns where the holding stands in the site's journal, and by
// which door the site told of it last.
func (c *Holding) Cursor() (protocol.Cursor, client.Door) {
	c.view.Lock()
	defer c.view.Unlock()
	return c.meta.Cursor, c.meta.Door
}

// Counts returns how much there is.
func (c *Holding) Counts() Counts {
	c.view.Lock()
	defer c.view.Unlock()
	return c.meta.Counts
}

// Page returns what is known of a URL, and false if the site does not offer it.
func (c *Holding) Page(url string) (Page, bool, error) {
	var p *Page
	err := c.reading(func(tx *bbolt.Tx) (err error) {
		if raw := tx.Bucket(pagesBucket).Get([]byte(url)); raw != nil {
			p, err = parsePage(url, raw)
		}
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read page %s: %w", url, err)
	}
	if p == nil {
		return Page{}, false, nil
	}
	return *p, true, nil
}

// A Debt is a page that is to be fetched.
type Debt struct {
	Page
	URL string

	demoted bool
}

// Conditional returns what to send as If-None-Match and If-Modified-Since,
// empty where the request should not be conditional.
//
// It should be where we hold something that may still be right. Where the
// site has just named another digest it is not: a server whose entity tag is
// made of seconds and size takes two edits of one second for one. For the
// same reason the last of several requests is not.
func (d Debt) Conditional() (ifNoneMatch, ifModifiedSince string) {
	again := 0 < d.misses && d.misses < len(missWaits)
	if d.Path == "" || !(d.Item.Digest.IsZero() || d.demoted || again) {
		return "", ""
	}
	return d.ETag, d.LastModified
}

// Next returns the debt that is due longest, of those due at once the one of
// the least depth; not those that Next has given before and Settle has not
// had. If none is due, ok is false and next is when the next one will be; the
// zero time means that nothing is owed.
func (c *Holding) Next() (d Debt, ok bool, next time.Time, err error) {
	now := dueKey(c.now())
	c.view.Lock()
	defer c.view.Unlock()
	err = c.reading(func(tx *bbolt.Tx) error {
		pages, cur := tx.Bucket(pagesBucket), tx.Bucket(debtsBucket).Cursor()
		for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
			due, url := splitDebt(k)
			switch {
			case due == math.MaxInt64:
				return nil
			case due > now:
				next = keyDue(due)
				return nil
			case c.taken[url]:
				continue
			}
			p, err := parsePage(url, pages.Get([]byte(url)))
			if err != nil {
				return fmt.Errorf("read page %s: %w", url, err)
			}
			d, ok = Debt{Page: *p, URL: url, demoted: c.meta.Counts.Demoted}, true
			c.taken[url] = true
			return nil
		}
		return nil
	})
	return d, ok, next, err
}

// debtKey orders debts by time, then depth, then URL.
func debtKey(due time.Time, url string) []byte {
	k := make([]byte, 10, 10+len(url))
	binary.BigEndian.PutUint64(k, dueKey(due))
	binary.BigEndian.PutUint16(k[8:], uint16(min(protocol.Depth(url), math.MaxUint16)))
	return append(k, url...)
}

func splitDebt(k []byte) (due uint64, url string) {
	return binary.BigEndian.Uint64(k), string(k[10:])
}
