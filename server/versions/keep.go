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

// Run keeps what the site has, until ctx ends: first what is present and not
// kept yet, as far as there is room, beside all other work and no faster than
// half of a processor allows; then what changes. Of what is withdrawn it throws
// away all that there is, in memory too. It returns what ended it.
func (s *Store) Run(ctx context.Context) error {
	s.ready()
	if s.Journal == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		if err := s.Journal.Wait(ctx, protocol.Cursor{}); err != nil {
			return fmt.Errorf("keep versions: %w", err)
		}
		at := s.Journal.Head()
		s.recent.clear() // of that pages may have been withdrawn while nobody followed
		var err error
		if s.Dir != "" {
			err = s.tidy()
		}
		if err == nil && s.Dir != "" {
			err = s.fill(ctx, true)
		}
		if err != nil {
			return fmt.Errorf("keep versions: %w", err)
		}
		err = s.follow(ctx, at)
		if !errors.Is(err, protocol.ErrEpoch) && !errors.Is(err, protocol.ErrTooOld) {
			return fmt.Errorf("keep versions: %w", err)
		}
	}
}

// fillSize is how many pages are found at a time: no view of the journal is
// held while they are read.
const fillSize = 64

// tidy throws away what was kept of pages that are gone: they may have been
// withdrawn while nobody followed.
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

// Fill keeps what is present and not kept yet, as Run does at its beginning,
// as fast as it can.
func (s *Store) Fill(ctx context.Context) error {
	s.ready()
	if s.Dir == "" || s.Journal == nil {
		return nil
	}
	if err := s.fill(ctx, false); err != nil {
		return fmt.Errorf("keep versions: %w", err)
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
			s.takeIn(ctx, &missing[i])
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

// missing returns some items that are not kept, after a URL, and the URL to
// look after next; empty if there is nothing behind it.
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

// wanted reports whether a page is one to keep.
func (s *Store) wanted(it *protocol.Item) bool {
	return !it.Digest.IsZero() && it.Length <= s.maxPage() && s.public(it.URL)
}

// filled reports whether there is no room to speak of: what is present already
// is not driven out by what is present too.
func (s *Store) filled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes > s.maxBytes()-s.maxBytes()/10 || !s.trouble.IsZero() || s.tight
}

// takeIn keeps what stands at a URL, if it is still what it was.
func (s *Store) takeIn(ctx context.Context, it *protocol.Item) {
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

// follow takes in what changes after a cursor.
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
				s.withdraw(id) // it may be there again, as is said by what follows
				continue
			}
			if !c.Prev.IsZero() {
				s.has(id, c.Prev, true) // now it is of use: those who have it will ask
			}
			if s.wanted(&c.Item) {
				s.takeIn(ctx, &c.Item)
			}
		}
		if took := time.Since(begun); len(changes) == protocol.MaxBatch {
			if err := pause.Sleep(ctx, took); err != nil {
				return err
			}
		}
	}
}

// Keeping returns inv, whose Read also keeps what it has read before it
// returns: so a version is kept before anybody can overwrite it. It takes a
// tenth of the time for that, at most; what it passes over is taken in by Run
// a little later. So are the pages of a first look.
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
	s.takeIn(ctx, it)
	s.credit.spend(time.Since(begun))
}

// keepPage keeps a whole page whose bytes are at hand, for inventories that
// are no files: see Fetch.Features of package catalog.
func (s *Store) keepPage(url string, page []byte) {
	s.ready()
	id, d := idOf(url), protocol.Sum(page)
	if s.public(url) && !s.has(id, d, false) {
		s.put(id, d, page)
	}
}

// Seeing returns features that also keeps the pages that it is shown: what
// Fetch.Features of package catalog is, for a site whose pages are fetched. It
// is shown HTML of at most 2 MiB whole, and nothing else. features may be nil.
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

// credit is how much time keeping may take of those who have other work: a
// tenth, and up to half a second at once.
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
