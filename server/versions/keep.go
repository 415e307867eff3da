package versions

import (
	"context"
	"errors"
	"fmt"
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
	s.ready()
	if s.Journal == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		if err := s.Journal.Wait(ctx, protocol.Cursor{}); err != nil {
			return fmt.Errorf("store versions: %w", err)
		}
		at := s.Journal.Head()
		s.recent.clear() // pages may have been withdrawn before we followed
		var err error
		if s.Dir != "" {
			err = s.tidy()
		}
		if err == nil && s.Dir != "" {
			err = s.fill(ctx, true)
		}
		if err != nil {
			return fmt.Errorf("store versions: %w", err)
		}
		err = s.follow(ctx, at)
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
	var gone []pageID
	s.mu.Lock()
	for id := range s.pages {
		if _, ok := present[id]; !ok {
			gone = append(gone, id)
		}
	}
	s.mu.Unlock()
	for _, id := range gone {
		s.withdraw(id)
	}
	return nil
}

// Fill stores the current versions that are not stored yet, as Run does first, but
// at full speed.
func (s *Store) Fill(ctx context.Context) error {
	s.ready()
	if s.Dir == "" || s.Journal == nil {
		return nil
	}
	if err := s.fill(ctx, false); err != nil {
		return fmt.Errorf("store versions: %w", err)
	}
	return nil
}

func (s *Store) fill(ctx context.Context, slowly bool) error {
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
		if next == "" || s.filled() {
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
		if e.Held.IsZero() && s.wanted(&e.Item) && !s.has(idOf(next), e.Item.Digest, false) {
			missing = append(missing, e.Item)
		}
	}
	return missing, next, nil
}

// wanted reports whether a page is to be stored.
func (s *Store) wanted(it *protocol.Item) bool {
	return !it.Digest.IsZero() && it.Length <= s.maxPage() && s.public(it.URL)
}

// filled reports whether there is little room left: one current version does not
// displace another.
func (s *Store) filled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes > s.maxBytes()-s.maxBytes()/10 || !s.trouble.IsZero() || s.tight
}

// storeItem stores the current page of a URL, if it still has the digest of it.
func (s *Store) storeItem(ctx context.Context, it *protocol.Item) {
	id := idOf(it.URL)
	if s.Dir == "" || s.Open == nil || s.has(id, it.Digest, false) || s.resting() {
		return
	}
	f, err := s.Open(ctx, it.URL)
	if err != nil {
		return
	}
	page, err := s.standing(it, f)
	f.Close()
	if err == nil {
		s.put(id, it.Digest, page)
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
				s.has(id, c.Prev, true) // mark it as used: clients that have it will request differences
			}
			if s.wanted(&c.Item) {
				s.storeItem(ctx, &c.Item)
			}
		}
		if took := time.Since(begun); len(changes) == protocol.MaxBatch {
			if err := pause.Sleep(ctx, took); err != nil {
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
	k := keeping{inv, s}
	if h, ok := inv.(inventory.Healer); ok {
		return struct {
			keeping
			inventory.Healer
		}{k, h}
	}
	return k
}

type keeping struct {
	inventory.Inventory
	store *Store
}

func (k keeping) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	o, err := k.Inventory.Read(ctx, o)
	if err == nil && o.LeftOut == "" && !o.Unsettled {
		k.store.keep(ctx, &protocol.Item{URL: o.URL, Digest: o.Digest, Length: o.Length})
	}
	return o, err
}

func (s *Store) keep(ctx context.Context, it *protocol.Item) {
	s.ready()
	if s.Dir == "" || s.Journal != nil && !s.Journal.Whole() || !s.wanted(it) || !s.credit.left() {
		return
	}
	begun := time.Now()
	s.storeItem(ctx, it)
	s.credit.spend(time.Since(begun))
}

// keepPage stores a whole page whose bytes are in memory, for inventories that
// are no files: see Fetch.Features of package catalog.
func (s *Store) keepPage(url string, page []byte) {
	s.ready()
	id, d := idOf(url), protocol.Sum(page)
	if s.public(url) && !s.has(id, d, false) {
		s.put(id, d, page)
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

// credit bounds the time that keep takes from its callers: a tenth, and up to
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
