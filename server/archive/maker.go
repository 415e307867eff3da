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
// Do not change fields after a method has been called. The methods may be called by
// many goroutines at once.
type Maker struct {
	Dir     string // the directory of the archives alone, created if it does not exist
	Base    string // the site's base URL
	Title   string // for people; empty means Base
	Journal *server.Journal
	Pages   content.Pages

	// Public reports whether a URL is public now; nil means that all are. An
	// archive with one that is not is deleted.
	Public func(url string) bool

	// Given reports whether the bytes of a page in an archive may still be sent to
	// anybody. Nil: they may. An archive with the bytes of another page is deleted.
	Given func(url string) bool

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
	// was deleted or changed. Zero means an hour.
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

	once sync.Once

	mu      sync.Mutex
	failed  error         // of reading Dir
	kept    []*file       // newest first
	wake    chan struct{} // closed when kept changes
	ask     chan struct{} // has a value when an archive is due
	asked   bool          // ask has a value, or Run has just received it
	running bool
	making  bool
	purged  int       // number of calls of Purge
	full    bool      // the last attempt failed since the disk is nearly full
	unmade  bool      // the last attempt failed
	began   time.Time // the start of the last attempt
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

// DefaultMaxBytes is the default of Maker.MaxBytes: a larger site has no archive.
const DefaultMaxBytes = 16 << 30

// init lists the archives of an earlier process, and removes its temporary files.
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

// Open prepares Dir, and returns an error if it cannot hold archives: then none will
// be made, and Run returns the same error. Calling it is optional.
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
		case <-tidy.C: // archives that nobody requests must expire too
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
		case again: // already logged
		case errors.Is(err, errRules): // no fault: the next one follows the new rules
			m.log().Info("archive is built again", "dir", m.Dir, "why", err)
		case err != nil:
			m.log().Error("archive could not be made", "dir", m.Dir, "err", err)
		default:
			m.log().Info("archive made", "cursor", f.Cursor.String(), "items", f.Items, "bytes", f.Length, "took", m.now().Sub(began))
		}
		m.took(f, purged)
		if errors.Is(err, errRules) || errors.Is(err, errNotWhole) {
			// The next one is due at once, or soon: there is no archive to serve meanwhile.
			m.mu.Lock()
			m.began = time.Time{}
			m.mu.Unlock()
		}
	}
}

// tidyPart is the number of checks per MaxAge whether archives have exceeded it.
const tidyPart = 12

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

// due reports whether a newer archive is due. mu is held.
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

// other reports whether more than Share of the site has changed since an archive was
// made. mu is held.
func (m *Maker) other(f *file) bool {
	return f != nil && float64(m.Journal.Head().Seq-f.Cursor.Seq) > m.share()*float64(f.Items)
}

// sinceBegun returns the time since the start of the last attempt. mu is held.
func (m *Maker) sinceBegun() time.Duration {
	if d := m.now().Sub(m.began); !m.began.IsZero() && d >= 0 {
		return d
	}
	return math.MaxInt64
}

// rest returns how long to wait before the next archive, so that making them takes a
// twentieth of the time. After a failure the interval is at least Every. mu is held.
func (m *Maker) rest() time.Duration {
	rest := goneFactor * m.stats.Took
	if m.unmade {
		rest = max(rest, m.every())
	}
	return max(0, rest-m.sinceBegun())
}
