package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A Maker makes archives of a site and serves them. It is a [server.Archive].
//
// Run makes them, one at a time. It begins with those that an earlier process
// has left in Dir: they are read, and those that have not the digest which they
// had go. Without it there are none. Two at most are kept: the newest, and the one before,
// for those who are still downloading it. While one is made there stand its
// data in Dir too, twice.
//
// Fields are not to be changed once a method has been called. The methods may
// be called by many goroutines at once.
type Maker struct {
	Dir     string // where the archives stand; it is made if it is not there, and nothing else belongs there
	Base    string // the site's base URL
	Title   string // for people; empty means Base
	Journal *server.Journal
	Pages   server.Pages

	// Public says which URLs may be told to anybody now; nil means all. An
	// archive with one that may not be is thrown away.
	Public func(url string) bool

	// Given reports whether the bytes of a page that is in an archive may still be
	// given to anybody. Nil: they may. An archive with other ones is thrown away.
	Given func(url string) bool

	// Settle, if not nil, blocks until it is known what may be given to anybody,
	// or ctx ends: no archive is made before. Givable, if not nil, is of how
	// many pages that is known now: an archive that holds the bytes of far fewer, by Share, is
	// due to be made anew.
	Settle  func(context.Context) error
	Givable func() int

	// Share is how many changes there must be since the newest archive was
	// made for a newer one to be due, as a share of its pages. Zero means a half.
	Share float64

	// Every is the shortest time between two archives, and how long a page must be
	// gone for a newer one to be due that does not hold it. Zero means 10
	// minutes. None is made for what has gone, or changed, for more than a twentieth of the
	// time; for the changes of Share that alone counts, and not Every.
	Every time.Duration

	// MaxAge is how long a page may be gone, or another than it was, that is in an
	// archive which is given to anybody, or stands in Dir. Zero means an hour.
	MaxAge time.Duration

	// NoArchive reports whether a page asks that no copy of it be kept: then an
	// archive names it, without its bytes. Nil: none does.
	NoArchive func(item *protocol.Item, page []byte) bool

	MaxPage  int64 // bytes of a page whose bytes are in an archive; zero means 64 MiB
	MaxBytes int64 // bytes of an archive; zero means DefaultMaxBytes

	// Reserve is how much of the file system is left to others, in bytes: first
	// of all to the journal. Where less is free no archive is made. Zero means a
	// twentieth of the file system, at least 64 MiB and at most 1 GiB.
	Reserve int64

	Logger *slog.Logger
	Now    func() time.Time

	once sync.Once

	mu      sync.Mutex
	failed  error         // of reading Dir
	kept    []*file       // newest first
	wake    chan struct{} // closed when kept changes
	ask     chan struct{} // has one when an archive is due
	asked   bool          // ask has one, or Run has just taken it
	running bool
	making  bool
	purged  int       // how often Purge was called
	full    bool      // the last one was not made since the disk is nearly full
	unmade  bool      // the last one could not be made
	began   time.Time // when the last one was begun to be made
	stats   Stats
}

func (m *Maker) public(url string) bool { return m.Public == nil || m.Public(url) }

func (m *Maker) now() time.Time { return clock.Now(m.Now) }

func (m *Maker) log() *slog.Logger { return cmp.Or(m.Logger, slog.New(slog.DiscardHandler)) }

func (m *Maker) title() string {
	if m.Title != "" {
		return m.Title
	}
	return m.Base
}

func (m *Maker) share() float64 {
	if m.Share > 0 {
		return m.Share
	}
	return 0.5
}

func (m *Maker) every() time.Duration {
	if m.Every > 0 {
		return m.Every
	}
	return 10 * time.Minute
}

func (m *Maker) maxAge() time.Duration {
	if m.MaxAge > 0 {
		return m.MaxAge
	}
	return time.Hour
}

func (m *Maker) maxPage() int64 {
	if m.MaxPage > 0 {
		return m.MaxPage
	}
	return 64 << 20
}

func (m *Maker) maxBytes() int64 {
	if m.MaxBytes > 0 {
		return m.MaxBytes
	}
	return DefaultMaxBytes
}

// DefaultMaxBytes is how large an archive gets: a larger site has none.
const DefaultMaxBytes = 16 << 30

// init takes over what an earlier process has left.
func (m *Maker) init() {
	m.once.Do(func() {
		m.wake, m.ask = make(chan struct{}), make(chan struct{}, 1)
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
				m.kept = append(m.kept, f)
			}
		}
		slices.SortFunc(m.kept, func(a, b *file) int { return int(b.Cursor.Seq) - int(a.Cursor.Seq) })
	})
}

// Open prepares Dir, and returns an error if archives cannot stand there: then
// there will be none, and Run returns that error too. It need not be called.
func (m *Maker) Open() error {
	m.init()
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
	m.mu.Lock()
	m.running = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.running, m.making, m.asked = false, false, len(m.ask) > 0
		m.mu.Unlock()
	}()
	if err := m.verify(ctx); err != nil {
		return err
	}
	tidy := time.NewTicker(max(m.maxAge()/tidyPart, time.Millisecond))
	defer tidy.Stop()
	for {
		select {
		case <-m.ask:
		case <-tidy.C: // what nobody asks for does not stay for that
			m.mu.Lock()
			m.good()
			m.mu.Unlock()
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		m.mu.Lock()
		purged := m.purged
		m.making, m.asked, m.began = true, false, m.now()
		m.forget(1) // room for the new one
		m.mu.Unlock()
		if m.Settle != nil {
			if err := m.Settle(ctx); err != nil {
				return err
			}
		}
		began := m.now()
		m.mu.Lock()
		m.began = began
		m.mu.Unlock()
		f, err := m.make(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.count(err, m.now().Sub(began))
		again := errors.Is(err, errFull) && m.full
		m.full = errors.Is(err, errFull)
		switch {
		case again: // it is known
		case errors.Is(err, errRules): // nothing is wrong, and the next one goes by the new ones
			m.log().Info("archive is made anew", "dir", m.Dir, "why", err)
		case err != nil:
			m.log().Error("archive could not be made", "dir", m.Dir, "err", err)
		default:
			m.log().Info("archive made", "cursor", f.Cursor.String(), "items", f.Items, "bytes", f.Length, "took", m.now().Sub(began))
		}
		m.took(f, purged)
		if errors.Is(err, errRules) || errors.Is(err, errNotWhole) {
			// It is due at once, or soon, and nothing of it can be shown meanwhile.
			m.mu.Lock()
			m.began = time.Time{}
			m.mu.Unlock()
		}
	}
}

// tidyPart is how many times in MaxAge it is looked whether archives are past it.
const tidyPart = 12

// Stats counts what a Maker has done since its process began.
type Stats struct {
	Made   int           `json:"made"`
	Failed int           `json:"failed"`
	Took   time.Duration `json:"took"` // the last one that was made

	// The newest there is, whether it may be given to anybody now or not.
	Cursor protocol.Cursor `json:"cursor,omitzero"`
	Items  int             `json:"items,omitempty"`
	Bytes  int64           `json:"bytes,omitempty"`
}

// Stats returns the counts as they are now. It has nothing made.
func (m *Maker) Stats() Stats {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	if len(m.kept) > 0 {
		s.Cursor, s.Items, s.Bytes = m.kept[0].Cursor, m.kept[0].Items, m.kept[0].Length
	}
	return s
}

func (m *Maker) count(err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unmade = err != nil; m.unmade {
		m.stats.Failed++
		return
	}
	m.stats.Made++
	m.stats.Took = took
}

// due reports whether a newer archive is to be made. mu is held.
func (m *Maker) due(f *file) bool {
	if m.Journal.Head().IsZero() || m.failed != nil || f == nil && m.unsound() {
		return false
	}
	if m.rest() > 0 {
		return false
	}
	if f == nil || m.other(f) {
		return true
	}
	if m.sinceBegun() < m.every() {
		return false
	}
	return m.Givable != nil && f.bodies >= 0 && float64(m.Givable()-f.bodies-f.left) > m.share()*float64(f.Items) ||
		m.goneFor(f) > m.every()
}

// other reports whether most of the site has changed since an archive was made. mu is held.
func (m *Maker) other(f *file) bool {
	return f != nil && float64(m.Journal.Head().Seq-f.Cursor.Seq) > m.share()*float64(f.Items)
}

// sinceBegun is how long ago the last archive was begun to be made. mu is held.
func (m *Maker) sinceBegun() time.Duration {
	if d := m.now().Sub(m.began); !m.began.IsZero() && d >= 0 {
		return d
	}
	return math.MaxInt64
}

// rest is for how long no archive is made yet, so that making them takes a
// twentieth of the time. Where the last one could not be made it is Every. mu is held.
func (m *Maker) rest() time.Duration {
	rest := goneFactor * m.stats.Took
	if m.unmade {
		rest = max(rest, m.every())
	}
	return max(0, rest-m.sinceBegun())
}
