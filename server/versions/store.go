// Package versions serves the current and old versions of a site's pages, and
// differences between them (Castillo 2004: C05 to C08).
//
// A [Store] stores old versions on disk within a bound. The doors of a
// doors.Notifier use it for pages and differences; a [Handler] answers HTTP
// requests for the pages themselves.
package versions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

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

	once   sync.Once
	recent cache
	small  chan struct{} // a token for each computation
	large  chan struct{}
	opens  chan struct{} // a token for each page being read
	credit credit

	packers, gzips, bodies sync.Pool

	sweeping sync.Mutex // held while making room

	mu      sync.Mutex // guards the fields below
	pages   map[pageID][]version
	count   int
	deltas  int
	given   int
	refused int
	bytes   int64     // on disk
	trouble time.Time // since when writes fail; zero if they succeed
	tried   time.Time // the last failed attempt
	tight   bool      // the file system has been too full, and has not had much room since
}

// A pageID is a hash of a URL.
type pageID [16]byte

func idOf(url string) (id pageID) {
	sum := sha256.Sum256([]byte(url))
	copy(id[:], sum[:])
	return id
}

// A version is the index entry of a stored version. A page has few of them.
type version struct {
	digest protocol.Digest
	size   int64 // on disk
	used   int64 // when it was last used, in nanoseconds since 1970
	saved  int64 // the value of used that the file's mtime has
}

const (
	blockSize = 4096             // file sizes are rounded up to this, in bytes
	saveEvery = 10 * time.Minute // how far mtimes may lag behind used

	suffix    = ".zst"
	temporary = "new-"

	tryAgain = time.Minute // after trouble with the disk
)

func (s *Store) maxBytes() int64 { return cmp.Or(max(s.MaxBytes, 0), 1<<30) }

func (s *Store) maxPage() int64 {
	return min(cmp.Or(max(s.MaxPage, 0), coding.MaxDeltaBase), coding.MaxDeltaBase)
}

func (s *Store) public(url string) bool { return s.Public == nil || s.Public(url) }

func (s *Store) log() *slog.Logger { return cmp.Or(s.Log, slog.New(slog.DiscardHandler)) }

// ready prepares the store, and loads the versions stored by an earlier process.
func (s *Store) ready() {
	s.once.Do(func() {
		s.prepare()
		s.pages = make(map[pageID][]version)
		if s.Dir == "" {
			return
		}
		if err := s.load(); err != nil {
			s.inTrouble(err)
		}
	})
}

// load reads the names of the files, and removes temporary files of a killed
// process.
func (s *Store) load() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	shards, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		if !shard.IsDir() || len(shard.Name()) != 2 {
			continue
		}
		list, err := os.ReadDir(filepath.Join(s.Dir, shard.Name()))
		if err != nil {
			return err
		}
		for _, e := range list {
			id, digest, ok := parseName(e.Name())
			if !ok {
				if strings.HasPrefix(e.Name(), temporary) {
					os.Remove(filepath.Join(s.Dir, shard.Name(), e.Name()))
				}
				continue
			}
			if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
				used := fi.ModTime().UnixNano()
				s.add(id, version{digest: digest, size: onDisk(fi.Size()), used: used, saved: used})
			}
		}
	}
	return nil
}

// add adds a version to the index. The caller holds mu, or is the only user.
func (s *Store) add(id pageID, v version) {
	s.pages[id] = append(s.pages[id], v)
	s.count++
	s.bytes += v.size
}

func onDisk(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

func name(id pageID, d protocol.Digest) string {
	return hex.EncodeToString(id[:]) + "-" + hex.EncodeToString(d[:]) + suffix
}

func parseName(name string) (id pageID, d protocol.Digest, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	page, digest, dash := strings.Cut(name, "-")
	if !ok || !dash || len(page) != 2*len(id) || len(digest) != 2*len(d) {
		return id, d, false
	}
	_, err1 := hex.Decode(id[:], []byte(page))
	_, err2 := hex.Decode(d[:], []byte(digest))
	return id, d, err1 == nil && err2 == nil
}

func (s *Store) path(id pageID, d protocol.Digest) string {
	return filepath.Join(s.Dir, hex.EncodeToString(id[:1]), name(id, d))
}

// has reports whether a version is stored. If touch is set, it marks it as used now.
func (s *Store) has(id pageID, d protocol.Digest, touch bool) bool {
	now := time.Now().UnixNano()
	save := false
	s.mu.Lock()
	v := find(s.pages[id], d)
	ok := v != nil
	if ok && touch {
		v.used = now
		if save = now-v.saved > int64(saveEvery); save {
			v.saved = now
		}
	}
	s.mu.Unlock()
	if save {
		os.Chtimes(s.path(id, d), time.Time{}, time.Unix(0, now)) // so that its last use survives a restart
	}
	return ok
}

func find(list []version, d protocol.Digest) *version {
	for i := range list {
		if list[i].digest == d {
			return &list[i]
		}
	}
	return nil
}

// get returns a stored version, and false if it is not stored, or damaged: a
// damaged version is deleted.
func (s *Store) get(id pageID, d protocol.Digest) ([]byte, bool) {
	if !s.has(id, d, false) {
		return nil, false
	}
	page, err := s.readVersion(id, d)
	if err == nil {
		return page, true
	}
	s.drop(id, d)
	if !errors.Is(err, fs.ErrNotExist) {
		s.log().Warn("deleted a damaged old version of a page", "file", s.path(id, d), "err", err)
	}
	return nil, false
}

func (s *Store) readVersion(id pageID, d protocol.Digest) ([]byte, error) {
	f, err := os.Open(s.path(id, d))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(-1)
	if fi, err := f.Stat(); err == nil {
		size = fi.Size()
	}
	// A page that does not compress becomes a little larger.
	packed, err := readAll(f, size, s.maxPage()+s.maxPage()/100+1024)
	if err != nil {
		return nil, err
	}
	b, _ := s.bodies.Get().(*coding.Body)
	if b == nil {
		b = new(coding.Body)
	}
	defer func() { b.Close(); s.bodies.Put(b) }()
	if err := b.Open("zstd", packed); err != nil {
		return nil, err
	}
	page, err := readAll(b, -1, s.maxPage())
	if err == nil && protocol.Sum(page) != d {
		err = errors.New("its content does not match the digest in its name")
	}
	return page, err
}

var errLarge = errors.New("too large")

// readAll reads r to its end, but at most most bytes. If known is not negative, it
// stops after that many bytes without waiting for the end: callers verify the
// digest.
func readAll(r io.Reader, known, most int64) ([]byte, error) {
	if known > most {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", errLarge, known, most)
	}
	room := known
	if known < 0 {
		room = min(most, 4<<10)
	}
	b := make([]byte, 0, room+1)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch room = most - int64(len(b)); {
		case room < 0:
			return nil, fmt.Errorf("%w: more than %d bytes", errLarge, most)
		case err == io.EOF || int64(len(b)) == known:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) == cap(b):
			b = slices.Grow(b, int(min(int64(len(b)), room+1)))
		}
	}
}

func (s *Store) drop(id pageID, d protocol.Digest) {
	s.mu.Lock()
	s.forget(id, d)
	s.mu.Unlock()
	s.recent.withdraw(id)
	os.Remove(s.path(id, d))
}

// forget removes a version from the index. mu is held.
func (s *Store) forget(id pageID, d protocol.Digest) {
	list := s.pages[id]
	v := find(list, d)
	if v == nil {
		return
	}
	s.count--
	s.bytes -= v.size
	last := len(list) - 1
	*v = list[last]
	if last == 0 {
		delete(s.pages, id)
	} else {
		s.pages[id] = list[:last]
	}
}

// withdraw deletes all versions of a page, and the cached data made from them: the
// page is not public any more.
func (s *Store) withdraw(id pageID) {
	s.mu.Lock()
	list := s.pages[id]
	for _, v := range list {
		s.count--
		s.bytes -= v.size
	}
	delete(s.pages, id)
	s.mu.Unlock()
	s.recent.withdraw(id)
	for _, v := range list {
		os.Remove(s.path(id, v.digest))
	}
}

// Purge deletes all stored versions of a page, and the cached data made from them,
// and reports whether any was stored. The current page is still served.
func (s *Store) Purge(url string) bool {
	s.ready()
	id := idOf(url)
	s.mu.Lock()
	kept := len(s.pages[id]) > 0
	s.mu.Unlock()
	s.withdraw(id)
	return kept
}

// put stores a version, whose digest is d. A file with its final name is complete,
// unless the system crashed.
func (s *Store) put(id pageID, d protocol.Digest, page []byte) {
	if s.Dir == "" || int64(len(page)) > s.maxPage() || !s.spare(int64(len(page))) || s.resting() {
		return
	}
	packed := s.zstd(page)
	size := onDisk(int64(len(packed)))
	if size > s.maxBytes()/4 {
		return
	}
	s.makeRoom(size)
	err := s.write(s.path(id, d), packed)
	now := time.Now().UnixNano()
	s.mu.Lock()
	s.bytes -= size // reserved by makeRoom
	over := err == nil && !s.trouble.IsZero()
	if err == nil {
		s.trouble = time.Time{}
		if find(s.pages[id], d) == nil {
			s.add(id, version{digest: d, size: size, used: now, saved: now})
		}
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			s.giveBack(size) // other users of the disk need the space more
		}
		s.inTrouble(err)
	case over:
		s.log().Info("old versions of pages are stored again", "dir", s.Dir)
	}
}

func (s *Store) write(path string, b []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, temporary+"*")
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		f, err = os.CreateTemp(dir, temporary+"*")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// inTrouble records that writes fail, and logs it once.
func (s *Store) inTrouble(err error) {
	s.mu.Lock()
	s.tried = time.Now()
	first := s.trouble.IsZero()
	if first {
		s.trouble = s.tried
	}
	s.mu.Unlock()
	if first {
		s.log().Warn("old versions of pages cannot be stored: fewer differences are available", "dir", s.Dir, "err", err)
	}
}

// resting reports whether a write failed less than tryAgain ago.
func (s *Store) resting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.trouble.IsZero() && time.Since(s.tried) < tryAgain
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
	s.ready()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{s.count, s.bytes, !s.trouble.IsZero(), s.deltas, s.given, s.refused}
}
