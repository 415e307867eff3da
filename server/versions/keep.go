package versions

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// Run stores versions until ctx ends: first the current ones that are not stored
// yet, as far as there is room, using at most half of a processor; then those of
// pages that change. It deletes all versions of withdrawn pages, in memory too. It
// returns the error that ended it.
func (s *Store) Run(ctx context.Context) error {
	if s.Journal == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		if err := s.Journal.Wait(ctx, protocol.Cursor{}); err != nil {
			return fmt.Errorf("store versions: %w", err)
		}
		at := s.Journal.Head()
		s.memory().recent.clear() // pages may have been withdrawn before we followed
		err := s.tidy()
		if err == nil {
			err = s.fill(ctx, true)
		}
		if err == nil {
			err = s.follow(ctx, at)
		}
		if !errors.Is(err, protocol.ErrEpoch) && !errors.Is(err, protocol.ErrTooOld) {
			return fmt.Errorf("store versions: %w", err)
		}
	}
}

// fillSize bounds the pages looked up in one view of the journal, which is closed
// before they are read.
const fillSize = 64

// tidy deletes the versions of pages that are gone: the pages may have been
// withdrawn while nothing followed the journal.
func (s *Store) tidy() error {
	present, err := s.present()
	if err != nil {
		return err
	}
	for _, c := range s.disk().index.candidates(present) {
		if _, ok := present[c.id]; !ok {
			s.withdraw(c.id)
		}
	}
	return nil
}

// Fill stores the current versions that are not stored yet, as Run does first, but
// at full speed.
func (s *Store) Fill(ctx context.Context) error {
	if err := s.fill(ctx, false); err != nil {
		return fmt.Errorf("store versions: %w", err)
	}
	return nil
}

func (s *Store) fill(ctx context.Context, slowly bool) error {
	if s.Dir == "" || s.Journal == nil {
		return nil
	}
	last := ""
	for {
		missing, next, err := s.missing(last)
		if err != nil {
			return err
		}
		begun := time.Now()
		for i := range missing {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.storeItem(ctx, &missing[i])
		}
		if next == "" || s.disk().filled() {
			return nil
		}
		last = next
		if slowly {
			if err := pause.Sleep(ctx, time.Since(begun)); err != nil {
				return err
			}
		}
	}
}

// missing returns some items after a URL that are not stored, and the URL for the
// next call; empty at the end.
func (s *Store) missing(after string) (missing []protocol.Item, next string, err error) {
	v, err := s.Journal.View()
	if err != nil {
		return nil, "", err
	}
	defer v.Close()
	r := v.Reader("", true, after)
	for len(missing) < fillSize {
		e, ok, err := r.Next()
		if err != nil || !ok {
			return missing, "", err
		}
		next = e.Item.URL
		if e.Held.IsZero() && s.wanted(&e.Item) && !s.disk().index.has(idOf(next), e.Item.Digest) {
			missing = append(missing, e.Item)
		}
	}
	return missing, next, nil
}

// wanted reports whether a page is to be stored.
func (s *Store) wanted(it *protocol.Item) bool {
	return !it.Digest.IsZero() && it.Length <= s.maxPage() && s.public(it.URL)
}

// storeItem stores the current page of a URL, if it still has the digest of it.
func (s *Store) storeItem(ctx context.Context, it *protocol.Item) {
	id, k := idOf(it.URL), s.disk()
	if s.Dir == "" || s.Open == nil || k.index.has(id, it.Digest) || k.rests() {
		return
	}
	f, err := s.Open(ctx, it.URL)
	if err != nil {
		return
	}
	page, err := s.standing(it, f)
	f.Close()
	if err == nil {
		k.put(id, it.Digest, page)
	}
}

// follow processes the changes after a cursor.
func (s *Store) follow(ctx context.Context, at protocol.Cursor) error {
	for {
		if err := s.Journal.Wait(ctx, at); err != nil {
			return err
		}
		changes, err := s.Journal.Read(ctx, at, protocol.MaxBatch)
		if err != nil {
			return err
		}
		begun := time.Now()
		for i := range changes {
			c := &changes[i]
			at.Seq = c.Seq
			id := idOf(c.Item.URL)
			if c.From != "" {
				s.withdraw(idOf(c.From))
			}
			if c.Op == protocol.Delete || !s.public(c.Item.URL) {
				s.withdraw(id) // if it exists again, a later change says so
				continue
			}
			if !c.Prev.IsZero() {
				s.disk().use(id, c.Prev) // mark it as used: clients that have it will request differences
			}
			if s.wanted(&c.Item) {
				s.storeItem(ctx, &c.Item)
			}
		}
		if len(changes) == protocol.MaxBatch {
			if err := pause.Sleep(ctx, time.Since(begun)); err != nil {
				return err
			}
		}
	}
}

// Keeping returns inv with a Read that also stores the page before it returns, so
// that a version is stored before it can be overwritten. Storing takes at most a
// tenth of the time; Run stores the skipped pages a little later, and those of the
// first scan.
func (s *Store) Keeping(inv inventory.Inventory) inventory.Inventory {
	return &keeping{Inventory: inv, store: s}
}

// A keeping is an inventory whose pages are stored when they are read.
type keeping struct {
	inventory.Inventory
	store  *Store
	credit credit
}

// Scan lets pages be read in parallel only while none is stored: they would wait for each other, and use up the credit.
func (k *keeping) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		j := k.store.Journal
		first := j != nil && !j.Whole()
		for o, err := range k.Inventory.Scan(ctx, scopes) {
			o.Parallel = o.Parallel && first
			if !yield(o, err) {
				return
			}
		}
	}
}

func (k *keeping) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	o, err := k.Inventory.Read(ctx, o)
	it, s := &protocol.Item{URL: o.URL, Digest: o.Digest, Length: o.Length}, k.store
	if err != nil || o.LeftOut != "" || o.Unsettled || s.Dir == "" || s.Journal != nil && !s.Journal.Whole() || !s.wanted(it) || !k.credit.left() {
		return o, err
	}
	begun := time.Now()
	s.storeItem(ctx, it)
	k.credit.spend(time.Since(begun))
	return o, nil
}

// keepPage stores a whole page whose bytes are in memory, for inventories that
// are no files: see Fetch.Features of package catalog.
func (s *Store) keepPage(url string, page []byte) {
	id, d := idOf(url), protocol.Sum(page)
	if k := s.disk(); s.public(url) && !k.index.has(id, d) {
		k.put(id, d, page)
	}
}

// Seeing returns features, extended to store the pages passed to it: for
// Fetch.Features of package catalog, on a site whose pages are fetched. That
// receives HTML of at most 2 MiB whole, and nothing else. features may be nil.
func (s *Store) Seeing(features func(url string, page []byte, whole bool) (inventory.Features, error)) func(string, []byte, bool) (inventory.Features, error) {
	return func(url string, page []byte, whole bool) (inventory.Features, error) {
		var f inventory.Features
		var err error
		if features != nil {
			f, err = features(url, page, whole)
		}
		if whole && !f.NoIndex {
			s.keepPage(url, page)
		}
		return f, err
	}
}

// credit bounds the time that a keeping takes from its callers: a tenth, and up to
// half a second at once.
type credit struct {
	mu   sync.Mutex
	owes time.Duration
	at   time.Time
}

const (
	creditShare = 10
	creditMost  = 500 * time.Millisecond
)

func (c *credit) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.owes = max(0, c.owes-now.Sub(c.at)/creditShare)
	c.at = now
	return c.owes < creditMost
}

func (c *credit) spend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owes += d
}
