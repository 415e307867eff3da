package collection

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// Events are read from the journal, a file of its own. So that nothing is lost between the two files, the
// transaction of a change puts the change into an outbox; after the commit it is appended to the journal,
// and the next transaction removes it from the outbox. That one also stores the journal's head: after a
// crash with a filled outbox, the journal has the outbox if and only if its head is further.
//
// The parts of a change that are not for crawlers (its signal, the place of the body) are stored under its
// journal number.

// A news is a change of the stored content, for subscribers of the collection.
type news struct {
	op      protocol.Op
	page    *Page           // after the change; tell may set Stored, the page is written afterwards
	prev    protocol.Digest // the digest before; zero if nothing was stored
	text    protocol.Digest // the main text's digest before
	from    string          // of a Move: the old URL of the content
	source  frontier.PageID // the page of that URL
	signal  Signal
	changed time.Time // when we learned of it
}

// An eventExtras is the part of a change that the journal does not have.
type eventExtras struct {
	signal Signal
	same   bool // the main text is unchanged
	marks  Marks
	stored contents.Place
}

// A posted change is one in the outbox.
type posted struct {
	step journal.Step
	eventExtras
}

// Buckets and keys within the outbox.
var (
	stepsBucket  = []byte("steps")  // number -> posted
	extrasBucket = []byte("asides") // number of a change in the journal -> eventExtras
	toldKey      = []byte("told")   // the journal's head when everything not in steps was appended
)

// An outbox passes changes from transactions to the journal.
type outbox struct {
	journal *journal.Journal

	// Only for the writer.
	tx     *bbolt.Tx // the transaction of box; nil: none
	box    *bbolt.Bucket
	steps  *bbolt.Bucket
	batch  []posted        // changes posted in tx
	struck bool            // tx removes what was passed before
	passed bool            // the outbox holds passed changes
	told   protocol.Cursor // the journal's head after those

	mu      sync.RWMutex           // held during appends to the journal; guards pending
	pending map[uint64]eventExtras // of changes passed and still in the outbox
}

func (c *Collection) journalPath() string { return filepath.Join(c.dir, "journal.db") }

// openJournal opens the journal, and makes a new one from the state if there is none that continues the
// events sent so far. It reports whether the state is older than the journal: then somebody restored it from
// a backup.
func (c *Collection) openJournal() (setBack bool, err error) {
	o := &c.sinks.outbox
	o.pending = map[uint64]eventExtras{}
	var left int
	if o.told, left, err = c.readTold(); err != nil {
		return false, err
	}
	open := func() error {
		o.journal, err = journal.Open(c.journalPath(), &journal.Options{MaxChanges: c.opts.MaxEvents, ReadOnly: c.opts.ReadOnly, Wait: c.opts.Wait, Now: c.opts.Now})
		return err
	}
	err = open()
	if errors.Is(err, journal.ErrHeld) {
		return false, ErrHeld
	}
	if c.opts.ReadOnly {
		if err != nil && o.told.IsZero() {
			err = nil // there was never an event
		} else if err == nil && left > 0 {
			err = c.recall()
		}
		return false, err
	}
	switch {
	case errors.Is(err, journal.ErrDamaged):
	case err != nil:
		return false, err
	case o.told.IsZero() && o.journal.Len() == 0 && o.journal.Head().Seq == 0:
		return false, c.beginJournal() // everything is new
	case !o.journal.Whole(), o.told.IsZero(), o.journal.Head().Epoch != o.told.Epoch, o.journal.Head().Seq < o.told.Seq:
	case o.journal.Head().Seq-o.told.Seq <= uint64(left):
		return false, nil
	default:
		setBack = true
	}
	// Subscribers have received other events than the state implies: a new epoch begins with the stored contents.
	if o.journal != nil {
		if err := o.journal.Close(); err != nil {
			return false, err
		}
	}
	if err := os.Rename(c.journalPath(), c.journalPath()+".lost"); err != nil {
		return false, err
	}
	if err := open(); err != nil {
		return false, err
	}
	if err := c.refill(); err != nil {
		return false, err
	}
	return setBack, c.beginJournal()
}

// readTold reads the stored head of the journal, and how many changes are in the outbox.
func (c *Collection) readTold() (told protocol.Cursor, left int, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		box := tx.Bucket(outboxBucket)
		if raw := box.Get(toldKey); raw != nil {
			if told, err = protocol.ParseCursor(string(raw)); err != nil {
				return record.Damaged(outboxBucket, toldKey)
			}
		}
		if steps := box.Bucket(stepsBucket); steps != nil {
			left = steps.Stats().KeyN
		}
		return nil
	})
	return told, left, err
}

// beginJournal makes the journal whole, stores its head, and empties the outbox, whose changes it has.
func (c *Collection) beginJournal() error {
	o := &c.sinks.outbox
	if err := o.journal.Settle(); err != nil {
		return err
	}
	o.told = o.journal.Head()
	return boltfile.RecoverDamage(func() error {
		return c.db.Update(func(tx *bbolt.Tx) error {
			box := tx.Bucket(outboxBucket)
			for _, name := range [][]byte{stepsBucket, extrasBucket} {
				if box.Bucket(name) != nil {
					if err := box.DeleteBucket(name); err != nil {
						return err
					}
				}
			}
			return box.Put(toldKey, []byte(o.told.String()))
		})
	})
}

// refill appends all stored pages to a new journal.
func (c *Collection) refill() error {
	ctx := context.Background()
	if err := c.sinks.journal.SetNotes(map[string][]byte{refilledNote: []byte("1")}); err != nil {
		return err
	}
	batch := make([]journal.Step, 0, protocol.MaxBatch)
	for p, err := range c.Pages(ctx) {
		if err != nil {
			return err
		}
		if !p.has() {
			continue
		}
		batch = append(batch, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: itemOf(&p, p.Last)}})
		if len(batch) == cap(batch) {
			if _, err := c.sinks.journal.Append(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	_, err := c.sinks.journal.Append(ctx, batch)
	return err
}

// refilledNote marks a journal that began with items which no change announced.
const refilledNote = "collection/refilled"

func (c *Collection) closeJournal() error {
	o := &c.sinks.outbox
	if o.journal == nil {
		return nil
	}
	var err error
	if o.passed && c.broken == nil {
		err = c.strikeNow()
	}
	err = errors.Join(err, o.journal.Close())
	return err
}

// itemOf returns the journal's item for a page's content.
func itemOf(p *Page, changed time.Time) protocol.Item {
	it := protocol.Item{URL: p.URL, Title: p.Title, Modified: changed, Length: p.Length, Type: p.Type, Digest: p.Digest, Text: p.Text,
		Language: p.Language, Canonical: p.Canonical, Importance: protocol.ImportanceOf(float64(p.Importance))}
	if t, err := http.ParseTime(p.LastModified); err == nil {
		if t, ok := protocol.SaneModified(t, changed); ok {
			it.Modified = t
		}
	}
	if it.Canonical == it.URL {
		it.Canonical = ""
	}
	return it
}

// rollback undoes the posts and content writes of a transaction that was not committed.
func (c *Collection) rollback() {
	o := &c.sinks.outbox
	o.tx, o.box, o.steps, o.batch, o.struck = nil, nil, nil, nil, false
	if c.sinks.mirror != nil {
		c.sinks.mirror.rollback()
	}
	if store := &c.sinks.store; store.HasArchive() {
		if mark, ok := parseMark(c.committed); ok {
			_ = store.Rewind(mark) // records left behind belong to no transaction
		}
	}
}

// enter prepares the outbox for a transaction.
func (c *Collection) enter(tx *bbolt.Tx) error {
	o := &c.sinks.outbox
	if o.tx == tx {
		return nil
	}
	o.tx, o.batch, o.struck = tx, nil, false
	o.box = tx.Bucket(outboxBucket)
	if o.passed {
		if err := o.strike(o.box); err != nil {
			return err
		}
		o.struck = true
	}
	var err error
	o.steps, err = o.box.CreateBucketIfNotExists(stepsBucket)
	o.steps.FillPercent = 1
	return err
}

// tell puts a change into the outbox, in the transaction of its cause.
func (c *Collection) tell(tx *bbolt.Tx, n news) error {
	if err := c.enter(tx); err != nil {
		return err
	}
	o := &c.sinks.outbox
	if m := c.sinks.mirror; m != nil {
		if err := c.tellMirror(m, &n); err != nil {
			return err
		}
	}
	p := posted{eventExtras: eventExtras{signal: n.signal, stored: n.page.Stored}}
	p.step.Op, p.step.From = n.op, n.from
	switch n.op {
	case protocol.Delete:
		p.step.Entry.Item = protocol.Item{URL: n.page.URL, Length: -1}
		p.stored = contents.Place{}
	default:
		p.step.Entry.Item, p.marks = itemOf(n.page, n.changed), n.page.marks()
		if p.same = !n.text.IsZero() && n.text == n.page.Text || n.op == protocol.Move && n.prev == n.page.Digest; p.same {
			p.step.Significance = protocol.SignificanceOf(0)
		}
	}
	number, err := o.steps.NextSequence()
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint64(nil, number)
	o.batch = append(o.batch, p)
	return o.steps.Put(key, appendPosted(key, &p))
}

// restore puts back a lost file, which a visit has brought unchanged: no news.
func (c *Collection) restore(tx *bbolt.Tx, p *Page) (again bool, err error) {
	m := c.sinks.mirror
	if m == nil || m.temps[p.ID] == "" {
		return false, nil
	}
	if err := c.enter(tx); err != nil {
		return false, err
	}
	return true, c.tellMirror(m, &news{op: protocol.Update, page: p})
}

func (c *Collection) tellMirror(m *mirror, n *news) error {
	g, err := m.in(c.sinks.box)
	if err != nil {
		return err
	}
	name, err := g.tell(n)
	if err != nil || c.sinks.store.HasArchive() {
		return err
	}
	n.page.Stored = contents.Place{}
	if name != "" {
		n.page.Stored.File = contents.MirrorDir + "/" + name
	}
	return nil
}

// strike removes passed changes from the outbox, and stores their eventExtras.
func (o *outbox) strike(box *bbolt.Bucket) error {
	for _, name := range [][]byte{stepsBucket, opsBucket} {
		if box.Bucket(name) != nil {
			if err := empty(box, name); err != nil {
				return err
			}
		}
	}
	asides, err := box.CreateBucketIfNotExists(extrasBucket)
	if err != nil {
		return err
	}
	asides.FillPercent = 0.9
	for seq := range o.pending {
		key := binary.BigEndian.AppendUint64(nil, seq)
		a := o.pending[seq]
		if err := asides.Put(key, record.Seal(appendAside(nil, &a), key, 0)); err != nil {
			return err
		}
	}
	// Changes before the journal's floor are never read.
	floor := o.journal.Floor()
	cur := asides.Cursor()
	for k, _ := cur.First(); k != nil && binary.BigEndian.Uint64(k) <= floor.Seq; k, _ = cur.First() {
		if err := cur.Delete(); err != nil {
			return err
		}
	}
	return box.Put(toldKey, []byte(o.told.String()))
}

// empty empties a bucket. It keeps its sequence.
func empty(box *bbolt.Bucket, name []byte) error {
	b := box.Bucket(name)
	if k, _ := b.Cursor().First(); k == nil {
		return nil
	}
	seq := b.Sequence()
	if err := box.DeleteBucket(name); err != nil {
		return err
	}
	b, err := box.CreateBucket(name)
	if err != nil {
		return err
	}
	return b.SetSequence(seq)
}

// strikeNow runs strike in a transaction of its own.
func (c *Collection) strikeNow() error {
	o := &c.sinks.outbox
	err := boltfile.RecoverDamage(func() error {
		return c.db.Update(func(tx *bbolt.Tx) error { return o.strike(tx.Bucket(outboxBucket)) })
	})
	if err == nil {
		o.forget()
	}
	return err
}

// forget drops struck changes from memory.
func (o *outbox) forget() {
	o.passed, o.struck = false, false
	o.mu.Lock()
	clear(o.pending)
	o.mu.Unlock()
}

// pass applies the outbox to the journal and to the files of a mirror. It is called after every commit with
// news and when the collection is opened, and may be repeated. If it fails, the next Open completes it.
func (c *Collection) pass() error {
	o := &c.sinks.outbox
	fresh := o.tx != nil // else the collection was just opened
	if o.struck {
		o.forget()
	}
	batch := o.batch
	o.tx, o.box, o.steps, o.batch = nil, nil, nil, nil
	if !fresh {
		var err error
		if batch, err = c.readOutbox(); err != nil {
			return err
		}
	}
	if m := c.sinks.mirror; m != nil && (fresh || len(batch) > 0) {
		ops, err := c.ops()
		if err != nil {
			return err
		}
		if err := m.Do(ops); err != nil {
			return err
		}
		o.passed = o.passed || len(ops) > 0
	}
	for len(batch) > 0 {
		n := min(len(batch), protocol.MaxBatch)
		if err := c.passSome(batch[:n], !fresh); err != nil {
			return err
		}
		batch = batch[n:]
		if len(batch) > 0 {
			// The stored head must match the start of the outbox.
			if err := c.strikeFirst(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// passSome appends a batch to the journal, unless, after a restart, the journal has it.
func (c *Collection) passSome(batch []posted, again bool) error {
	o := &c.sinks.outbox
	ctx := context.Background()
	steps := make([]journal.Step, len(batch))
	for i := range batch {
		steps[i] = batch[i].step
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.told
	// Batches are appended one at a time, so the journal has all of this one or none of it.
	if !again || o.journal.Head() == before {
		if _, err := o.journal.Append(ctx, steps); err != nil {
			return err
		}
	}
	o.passed = true
	o.told = o.journal.Head()
	if o.told == before {
		return nil
	}
	return o.match(before, batch)
}

// match finds the eventExtras of the changes after a cursor, which come from a batch. The caller holds o.mu.
func (o *outbox) match(after protocol.Cursor, batch []posted) error {
	changes, err := o.journal.Read(context.Background(), after, protocol.MaxBatch)
	if err != nil {
		return err
	}
	// A step without news is no change: the changes are some of the steps, in order.
	i := 0
	for _, ch := range changes {
		for i < len(batch) && !tells(&batch[i].step, &ch) {
			i++
		}
		if i == len(batch) {
			break
		}
		o.pending[ch.Seq] = batch[i].eventExtras
		i++
	}
	return nil
}

// recall, for a read-only collection, finds the eventExtras of changes that the journal had when a process was
// killed before it stored them.
func (c *Collection) recall() error {
	o := &c.sinks.outbox
	if head := o.journal.Head(); head.Epoch != o.told.Epoch || head.Seq <= o.told.Seq {
		return nil
	}
	batch, err := c.readOutbox()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.match(o.told, batch)
}

// tells reports whether a change may be the result of a step.
func tells(s *journal.Step, ch *protocol.Change) bool {
	return s.Entry.Item.URL == ch.Item.URL && (s.Op == protocol.Delete) == (ch.Op == protocol.Delete) && s.Entry.Item.Digest == ch.Item.Digest
}

// strikeFirst removes the first n changes from the outbox, in a transaction of its own.
func (c *Collection) strikeFirst(n int) error {
	o := &c.sinks.outbox
	var rest [][2][]byte
	err := boltfile.RecoverDamage(func() error {
		return c.db.Update(func(tx *bbolt.Tx) error {
			box := tx.Bucket(outboxBucket)
			i := 0
			err := box.Bucket(stepsBucket).ForEach(func(k, v []byte) error {
				if i++; i > n {
					rest = append(rest, [2][]byte{clone(k), clone(v)})
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := o.strike(box); err != nil {
				return err
			}
			for _, r := range rest {
				if err := box.Bucket(stepsBucket).Put(r[0], r[1]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil {
		o.forget()
	}
	return err
}

// readOutbox reads the changes that a process has left in the outbox.
func (c *Collection) readOutbox() (batch []posted, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		steps := tx.Bucket(outboxBucket).Bucket(stepsBucket)
		if steps == nil {
			return nil
		}
		return steps.ForEach(func(k, v []byte) error {
			p, ok := parsePosted(k, v)
			if !ok {
				return record.Damaged(stepsBucket, k)
			}
			batch = append(batch, p)
			return nil
		})
	})
	return batch, err
}
