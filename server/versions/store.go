// Package versions serves the current and old versions of a site's pages, and
// differences between them (Castillo 2004: C05 to C08).
//
// A [Store] stores old versions on disk within a bound. The doors of a
// doors.Notifier use it for pages and differences; a [Handler] answers HTTP
// requests for the pages themselves.
package versions

import (
	"cmp"
	"container/list"
	"context"
	"io"
	"log/slog"
	"runtime"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A Store implements content.Pages. It reads current pages from the site, and
// stores their former versions compressed, one file each.
//
// A version can be stored only while it is the current one. So it is stored when
// an inventory reads it (see [Store.Keeping]), and by Run, which follows the journal
// and finds skipped pages, such as those of the first scan. If neither was in
// time, or the disk is full, the version is not stored: the only consequence is
// that there are no differences against it.
//
// Nothing is synced. A version damaged by a crash or a failing disk is detected
// by its digest, and deleted.
//
// The fields are not changed once a method has been called. The methods may be
// called by many goroutines at once. One process at a time uses a directory:
// the one that has the journal.
type Store struct {
	// Dir is the directory of old versions, created if it does not exist. It is for
	// this store alone, and not below the docroot. If empty, nothing is stored.
	Dir string

	// Journal is the site's. It tells which versions are current: these are deleted
	// last. Without it none counts as current, and pages are not checked for being
	// gone: that is left to the caller.
	Journal *server.Journal

	// Open opens the current page of a URL: Site.OpenPage. Nil means that current
	// pages are available only if they are stored.
	Open func(ctx context.Context, url string) (io.ReadCloser, error)

	// Earlier opens an earlier version of a page, the present one being item, which another program stores, and has checked. Its
	// error, and that of the file, wraps content.ErrNoVersion if it is not there. Nil: only what is in Dir is there.
	Earlier func(ctx context.Context, item *protocol.Item, d protocol.Digest) (io.ReadCloser, error)

	// Public reports whether url is public. Pages that are not are not stored, and
	// their stored versions are deleted. Nil means that all are.
	Public func(url string) bool

	MaxBytes  int64 // on disk, whole blocks counted; zero means 1 GiB
	MaxPage   int64 // the largest page, in bytes; zero means 32 MiB, the maximum
	MaxMemory int64 // cache of larger pages, compressed pages and differences; zero means 64 MiB

	// MaxAtOnce bounds the differences computed at one time. Zero means half of
	// the processors. Those of large pages are computed one at a time.
	MaxAtOnce int

	// Reserve is the free space to leave in the file system, in bytes, mainly for the
	// journal. While less is free nothing is stored, and stored versions are deleted
	// until the reserve is free. Zero means a twentieth of the file system, at least
	// 64 MiB and at most 1 GiB.
	Reserve int64

	Log *slog.Logger

	has struct {
		onDisk   disk   // use disk
		inMemory memory // use memory
	}
}

func (s *Store) maxPage() int64 {
	return min(cmp.Or(max(s.MaxPage, 0), coding.MaxDeltaBase), coding.MaxDeltaBase)
}

func (s *Store) public(url string) bool { return s.Public == nil || s.Public(url) }

// disk returns the stored versions, with those that an earlier process stored.
func (s *Store) disk() *disk {
	k := &s.has.onDisk
	k.once.Do(func() {
		k.dir, k.maxBytes, k.maxPage, k.reserve = s.Dir, cmp.Or(max(s.MaxBytes, 0), 1<<30), s.maxPage(), s.Reserve
		k.log, k.current = cmp.Or(s.Log, slog.New(slog.DiscardHandler)), s.present
		if k.dir == "" {
			return
		}
		if err := k.load(); err != nil {
			k.failed(err)
		}
	})
	return k
}

// memory returns what has been computed lately.
func (s *Store) memory() *memory {
	m := &s.has.inMemory
	m.once.Do(func() {
		n := s.MaxAtOnce
		if n < 1 {
			n = max(1, runtime.GOMAXPROCS(0)/2)
		}
		m.small, m.large, m.opens = make(chan struct{}, n), make(chan struct{}, 1), make(chan struct{}, maxOpens)
		m.recent = cache{max: cmp.Or(max(s.MaxMemory, 0), 64<<20), byKey: make(map[cacheKey]*list.Element),
			byPage: make(map[pageID]map[cacheKey]struct{}), flights: make(map[cacheKey]*flight)}
	})
	return m
}

// withdraw deletes all versions of a page, and the cached data made from them: the
// page is not public any more. It reports whether there were any versions.
func (s *Store) withdraw(id pageID) bool {
	k, recent := s.disk(), &s.memory().recent
	recent.withdraw(id)
	n := k.remove(k.index.of(id), -1)
	recent.withdraw(id) // what was computed meanwhile, from versions that still existed
	return n > 0
}

// Purge deletes all stored versions of a page, and the cached data made from them,
// and reports whether any was stored. The current page is still served.
func (s *Store) Purge(url string) bool { return s.withdraw(idOf(url)) }

// present returns the current digests of the public pages that have stored versions.
func (s *Store) present() (map[pageID]protocol.Digest, error) {
	if s.Journal == nil || s.Dir == "" {
		return nil, nil
	}
	v, err := s.Journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	now := make(map[pageID]protocol.Digest)
	for e, err := range v.Entries() {
		if err != nil {
			return now, err
		}
		if id := idOf(e.Item.URL); len(s.disk().index.of(id)) > 0 && s.public(e.Item.URL) {
			now[id] = e.Item.Digest
		}
	}
	return now, nil
}

// Stats says how much is stored.
type Stats struct {
	Versions int   `json:"versions"`
	Bytes    int64 `json:"bytes"`   // on disk
	Trouble  bool  `json:"trouble"` // nothing can be written at present

	// Since the store began: differences computed; requests answered with a
	// difference; and requests without one, since a version is not stored or the
	// page itself is no larger.
	Deltas  int `json:"deltas"`
	Given   int `json:"given"`
	Refused int `json:"refused"`
}

// Stats returns how much is stored now.
func (s *Store) Stats() Stats {
	k, m := s.disk(), s.memory()
	count, bytes := k.index.size()
	return Stats{count, bytes, k.health.failed.Load() != nil, int(m.deltas.Load()), int(m.given.Load()), int(m.refused.Load())}
}
