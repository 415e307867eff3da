package versions

import (
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

// A disk stores versions within a bound: a file for each, below a directory, and an index of them in memory. While
// writes fail it stores nothing. Its methods may be called by many goroutines at once.
type disk struct {
	once sync.Once // sets the fields of the next two groups

	dir      string // empty: nothing is stored
	maxBytes int64
	maxPage  int64
	reserve  int64 // see Store.Reserve
	log      *slog.Logger

	// current returns the current versions of the pages that have stored ones: these are deleted last.
	current func() (map[pageID]protocol.Digest, error)

	index          index
	packers, plain sync.Pool  // of zstd
	sweeping       sync.Mutex // held while making room
	health         health
}

// A health says whether a disk takes writes.
type health struct {
	failed atomic.Pointer[time.Time] // when a write last failed; nil if writes succeed
	tight  atomic.Bool               // the file system has been too full, and has not had much room since
}

const (
	blockSize = 4096 // file sizes are rounded up to this, in bytes
	temporary = "new-"
)

// load reads the names of the files that an earlier process stored, and removes temporary files of a killed one.
func (k *disk) load() error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	shards, err := os.ReadDir(k.dir)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		if !shard.IsDir() || len(shard.Name()) != 2 {
			continue
		}
		list, err := os.ReadDir(filepath.Join(k.dir, shard.Name()))
		if err != nil {
			return err
		}
		for _, e := range list {
			id, digest, ok := parseName(e.Name())
			if !ok {
				if strings.HasPrefix(e.Name(), temporary) {
					os.Remove(filepath.Join(k.dir, shard.Name(), e.Name()))
				}
				continue
			}
			if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
				used := fi.ModTime().UnixNano()
				k.index.add(id, version{digest: digest, size: blocks(fi.Size()), used: used, saved: used}, 0)
			}
		}
	}
	return nil
}

// blocks returns a file size, rounded up to whole blocks.
func blocks(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

func (k *disk) path(id pageID, d protocol.Digest) string {
	return filepath.Join(k.dir, hex.EncodeToString(id[:1]), name(id, d))
}

// use reports whether a version is stored, and marks it as used now.
func (k *disk) use(id pageID, d protocol.Digest) bool {
	now := time.Now().UnixNano()
	ok, save := k.index.use(id, d, now)
	if save {
		os.Chtimes(k.path(id, d), time.Time{}, time.Unix(0, now)) // so that its last use survives a restart
	}
	return ok
}

// get returns a stored version, and false if it is not stored, or damaged: a
// damaged version is deleted.
func (k *disk) get(id pageID, d protocol.Digest) ([]byte, bool) {
	if !k.index.has(id, d) {
		return nil, false
	}
	page, err := k.read(id, d)
	if err == nil {
		return page, true
	}
	k.remove([]candidate{{id: id, version: version{digest: d}}}, -1)
	if !errors.Is(err, fs.ErrNotExist) {
		k.log.Warn("deleted a damaged old version of a page", "file", k.path(id, d), "err", err)
	}
	return nil, false
}

func (k *disk) read(id pageID, d protocol.Digest) ([]byte, error) {
	f, err := os.Open(k.path(id, d))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(-1)
	if fi, err := f.Stat(); err == nil {
		size = fi.Size()
	}
	// A page that does not compress becomes a little larger.
	packed, err := readAll(f, size, k.maxPage+k.maxPage/100+1024)
	if err != nil {
		return nil, err
	}
	b, _ := k.plain.Get().(*coding.Body)
	if b == nil {
		b = new(coding.Body)
	}
	defer func() { b.Close(); k.plain.Put(b) }()
	if err := b.Open("zstd", packed); err != nil {
		return nil, err
	}
	page, err := readAll(b, -1, k.maxPage)
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

// remove deletes the first versions of list until at most goal bytes are stored, all of them if goal is -1, and returns
// their number.
func (k *disk) remove(list []candidate, goal int64) int {
	k.index.files.Lock()
	defer k.index.files.Unlock()
	out := k.index.remove(list, goal)
	for _, c := range out {
		os.Remove(k.path(c.id, c.digest))
	}
	return len(out)
}

// put stores a version, whose digest is d. A file with its final name is complete,
// unless the system crashed.
func (k *disk) put(id pageID, d protocol.Digest, page []byte) {
	if k.dir == "" || int64(len(page)) > k.maxPage || !k.spare(int64(len(page))) || k.rests() {
		return
	}
	packed := press(&k.packers, "zstd", page)
	size := blocks(int64(len(packed)))
	if size > k.maxBytes/4 {
		return
	}
	k.makeRoom(size)
	now := time.Now().UnixNano()
	if err := k.write(id, version{digest: d, size: size, used: now, saved: now}, packed); err != nil {
		k.index.reserve(-size)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			k.giveBack(size) // other users of the disk need the space more
		}
		k.failed(err)
		return
	}
	if k.health.failed.Swap(nil) != nil {
		k.log.Info("old versions of pages are stored again", "dir", k.dir)
	}
}

// write stores the file of a version whose size is reserved.
func (k *disk) write(id pageID, v version, b []byte) error {
	k.index.files.Lock()
	defer k.index.files.Unlock()
	path := k.path(id, v.digest)
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
		return err
	}
	k.index.add(id, v, v.size)
	return nil
}

// failed records that writes fail, and logs it once.
func (k *disk) failed(err error) {
	now := time.Now()
	if k.health.failed.Swap(&now) == nil {
		k.log.Warn("old versions of pages cannot be stored: fewer differences are available", "dir", k.dir, "err", err)
	}
}

const tryAgain = time.Minute // after a failed write

// rests reports whether a write failed less than tryAgain ago.
func (k *disk) rests() bool {
	at := k.health.failed.Load()
	return at != nil && time.Since(*at) < tryAgain
}
