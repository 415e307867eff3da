package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/content"
)

// A Maker makes archives of a site and serves them. It is a [content.Archive].
//
// Run makes them, one at a time; without it none are made. It first verifies the
// archives that an earlier process has left in Dir, and deletes those whose digest
// does not match. At most two are kept: the newest, and the one before, for clients
// that are still downloading it. While an archive is made, Dir also holds its data,
// twice.
//
// Do not change fields after a method other than Open has been called. The methods may be
// called by many goroutines at once.
type Maker struct {
	Dir     string // the directory of the archives alone, created if it does not exist
	Base    string // the site's base URL
	Title   string // for people; empty means Base
	Journal *server.Journal
	Log     protocol.Log // from which readers of an archive go on; nil: Journal

	// Pages has the bytes of the pages. Nil: no archives are made here, and those of another
	// Maker are served: see Add.
	Pages content.Pages

	// Public reports whether a URL is public now; nil means that all are. An
	// archive with one that is not is deleted.
	Public func(url string) bool

	// Given returns until when the bytes of a page in an archive may be sent to anybody, the
	// zero time if they may not any more. Nil: they may. An archive with the bytes of a page
	// that may not be sent is deleted.
	Given func(url string) (until time.Time)

	// Told, if not nil, blocks until readers elsewhere are told what the journal has up to a
	// cursor, or fails: an archive is made of no more than that.
	Told func(context.Context, protocol.Cursor) error

	// Named, if not nil, reports whether the maker of an archive says that it may be served
	// now: if not, it is deleted. While that is not known, which an error says, none is served.
	Named func(content.Archived) (bool, error)

	// Settle, if not nil, blocks until it is known which bytes may be sent to
	// anybody, or ctx ends: no archive is made before. Givable, if not nil, returns the
	// number of pages whose bytes may be sent now: an archive with the bytes of far
	// fewer, by Share, is due to be replaced.
	Settle  func(context.Context) error
	Givable func() int

	// Share is the number of changes since the newest archive after which a newer one
	// is due, as a share of its pages. Zero means a half.
	Share float64

	// Every is the minimum interval between two archives, and how long a page must be
	// gone before an archive without it is due. Zero means 10 minutes. Making archives
	// takes at most a twentieth of the time; for the changes of Share only this bound
	// applies, and not Every.
	Every time.Duration

	// MaxAge is how long an archive may be served, or stay in Dir, after a page in it
	// was deleted or changed. Zero means an hour. While Named, or Log, does not know,
	// it stays, and is not served.
	MaxAge time.Duration

	// NoArchive reports whether a page asks that no copy of it be kept: an archive
	// then names it without its bytes. Nil: none does.
	NoArchive func(item *protocol.Item, page []byte) bool

	MaxPage  int64 // the largest page whose bytes are archived; zero means 64 MiB
	MaxBytes int64 // the largest archive, in bytes; zero means DefaultMaxBytes

	// Reserve is the free space to leave in the file system, in bytes, mainly for the
	// journal. While less is free no archive is made. Zero means a twentieth of the
	// file system, at least 64 MiB and at most 1 GiB.
	Reserve int64

	Logger *slog.Logger
	Now    func() time.Time

	once, opened sync.Once
	failed       error // of reading Dir

	mu       sync.Mutex // guards the fields below
	stock    stock
	schedule schedule
}

// DefaultMaxBytes is the default of Maker.MaxBytes: a larger site has no archive.
const DefaultMaxBytes = 16 << 30

// init copies the fields to stock and schedule, at the first call of a method other than Open.
func (m *Maker) init() {
	m.once.Do(func() {
		m.open()
		now := func() time.Time { return clock.Now(m.Now) }
		m.schedule = schedule{every: cmp.Or(max(m.Every, 0), 10*time.Minute), now: now, ask: make(chan struct{}, 1)}
		k := &m.stock
		*k = stock{kept: k.kept, journal: cmp.Or[protocol.Log](m.Log, m.Journal), public: m.Public, given: m.Given, named: m.Named, maxAge: cmp.Or(max(m.MaxAge, 0), time.Hour),
			share: cmp.Or(max(m.Share, 0), 0.5), now: now, log: cmp.Or(m.Logger, slog.New(slog.DiscardHandler)), wake: make(chan struct{})}
		if k.public == nil {
			k.public = func(string) bool { return true }
		}
		if k.named == nil {
			k.named = func(content.Archived) (bool, error) { return true, nil }
		}
	})
}

// open lists the archives of an earlier process, and removes its temporary files.
func (m *Maker) open() {
	m.opened.Do(func() {
		k := &m.stock
		if m.failed = os.MkdirAll(m.Dir, 0o700); m.failed != nil {
			return
		}
		torn, _ := filepath.Glob(filepath.Join(m.Dir, tempPattern)) // the pattern is good
		for _, name := range torn {
			os.Remove(name)
		}
		var list []fs.DirEntry
		if list, m.failed = os.ReadDir(m.Dir); m.failed != nil {
			return
		}
		for _, e := range list {
			if f, ok := openFile(filepath.Join(m.Dir, e.Name())); ok {
				k.kept = append(k.kept, f)
			}
		}
		slices.SortFunc(k.kept, func(a, b *file) int { return int(b.Cursor.Seq) - int(a.Cursor.Seq) })
	})
}

// lock locks mu, after init.
func (m *Maker) lock() {
	m.init()
	m.mu.Lock()
}

// Open prepares Dir, and returns an error if it cannot hold archives: then none will
// be made, and Run returns the same error. Calling it is optional.
func (m *Maker) Open() error {
	m.open()
	if m.failed != nil {
		return fmt.Errorf("archive: %w", m.failed)
	}
	return nil
}

// Run makes an archive whenever one is due, until ctx ends.
func (m *Maker) Run(ctx context.Context) error {
	if err := m.Open(); err != nil {
		return err
	}
	m.lock()
	m.schedule.running = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		s := &m.schedule
		s.running, s.making, s.asked = false, false, len(s.ask) > 0
		m.mu.Unlock()
	}()
	if err := m.verify(ctx); err != nil {
		return err
	}
	tidy := time.NewTicker(max(m.stock.maxAge/tidyPart, time.Millisecond))
	defer tidy.Stop()
	for full := false; ; { // whether the last attempt failed since the disk is nearly full
		select {
		case <-m.schedule.ask:
		case <-tidy.C: // archives that nobody requests must expire too
			m.mu.Lock()
			m.stock.good()
			m.mu.Unlock()
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		purged := m.begin(true)
		if m.Settle != nil {
			if err := m.Settle(ctx); err != nil {
				return err
			}
		}
		m.begin(false)
		began := m.schedule.now()
		f, err := m.make(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took, log := m.schedule.now().Sub(began), m.stock.log
		was := full
		full = errors.Is(err, errFull)
		switch {
		case was && full: // already logged
		case errors.Is(err, errRules): // no fault: the next one follows the new rules
			log.Info("archive is built again", "dir", m.Dir, "why", err)
		case err != nil:
			log.Error("archive could not be made", "dir", m.Dir, "err", err)
		default:
			log.Info("archive made", "cursor", f.Cursor.String(), "items", f.Items, "bytes", f.Length, "took", took)
		}
		m.end(f, err, took, purged)
	}
}

// tidyPart is the number of checks per MaxAge whether archives have exceeded it.
const tidyPart = 12

// begin notes the start of an attempt: first, and once more when Settle has returned. It returns how often Purge has been called.
func (m *Maker) begin(first bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.schedule
	s.making, s.began = true, s.now()
	if first {
		s.asked = false
		m.stock.forget(1) // room for the new one
	}
	return m.stock.purged
}

// end ends an attempt. It adds the archive as the newest, unless Purge was called while it was made.
func (m *Maker) end(f *file, err error, took time.Duration, purged int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.schedule
	s.making, s.unmade = false, err != nil
	if s.unmade {
		s.stats.Failed++
	} else {
		s.stats.Made++
		s.stats.Took = took
	}
	switch {
	case err == nil && purged == m.stock.purged:
		m.stock.add(f)
	case err == nil:
		os.Remove(f.path)
		s.began = time.Time{}
	case errors.Is(err, errRules) || errors.Is(err, errNotWhole):
		// The next one is due at once, or soon: there is no archive to serve meanwhile.
		s.began = time.Time{}
	}
}

// Stats counts what a Maker has done since its process began.
type Stats struct {
	Made   int           `json:"made"`
	Failed int           `json:"failed"`
	Took   time.Duration `json:"took"` // for the last one made

	// The newest archive, whether it may be served now or not.
	Cursor protocol.Cursor `json:"cursor,omitzero"`
	Items  int             `json:"items,omitempty"`
	Bytes  int64           `json:"bytes,omitempty"`
}

// Stats returns the current counts. It does not request an archive.
func (m *Maker) Stats() Stats {
	m.lock()
	defer m.mu.Unlock()
	s := m.schedule.stats
	if kept := m.stock.kept; len(kept) > 0 {
		s.Cursor, s.Items, s.Bytes = kept[0].Cursor, kept[0].Items, kept[0].Length
	}
	return s
}

// latest returns the newest archive, and requests a newer one if that is due. It
// returns nil if there is none, or if its cursor is below the journal's floor, so that
// a reader could not continue from it. The caller holds mu.
func (m *Maker) latest() *file {
	var f *file
	if good := m.stock.good(); len(good) > 0 && good[0].Cursor.Seq >= m.stock.journal.Floor().Seq {
		f = good[0]
	}
	if s := &m.schedule; !s.isBusy() && m.due(f) {
		s.asked = true
		s.ask <- struct{}{}
	}
	return f
}

// due reports whether a newer archive than f, of stock.good, is due. The caller holds mu.
func (m *Maker) due(f *file) bool {
	s, k := &m.schedule, &m.stock
	switch {
	case m.Pages == nil || k.journal.Head().IsZero() || m.failed != nil || f == nil && k.unsound() || s.rest() > 0:
		return false
	case f == nil || k.isOther(f):
		return true
	}
	return s.sinceBegun() >= s.every && (k.since(f.gone) > s.every ||
		m.Givable != nil && f.bodies >= 0 && float64(m.Givable()-f.bodies-f.left) > k.share*float64(f.Items))
}
