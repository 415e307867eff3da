package versions

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

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
	saveEvery = 10 * time.Minute // how far mtimes may lag behind used
	suffix    = ".zst"
)

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

// An index lists the stored versions, and opens no files. Its methods may be called by many goroutines at once.
type index struct {
	files sync.Mutex // held while a file and its entry appear, or go; locked before mu

	mu    sync.Mutex // guards the fields below
	pages map[pageID][]version
	count int
	bytes int64 // on disk, and reserved
}

// add adds a version if it is not listed, in place of reserved bytes.
func (x *index) add(id pageID, v version, reserved int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bytes -= reserved
	if find(x.pages[id], v.digest) != nil {
		return
	}
	if x.pages == nil {
		x.pages = make(map[pageID][]version)
	}
	x.pages[id] = append(x.pages[id], v)
	x.count++
	x.bytes += v.size
}

func find(list []version, d protocol.Digest) *version {
	for i := range list {
		if list[i].digest == d {
			return &list[i]
		}
	}
	return nil
}

// size returns how many versions are listed, and their bytes with those reserved.
func (x *index) size() (count int, bytes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count, x.bytes
}

// reserve counts size bytes as used, and returns the new total.
func (x *index) reserve(size int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bytes += size
	return x.bytes
}

// of returns the listed versions of a page.
func (x *index) of(id pageID) (list []candidate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, v := range x.pages[id] {
		list = append(list, candidate{id: id, version: v})
	}
	return list
}

func (x *index) has(id pageID, d protocol.Digest) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return find(x.pages[id], d) != nil
}

// use marks a version as used now. save says that the file's mtime is to be set too.
func (x *index) use(id pageID, d protocol.Digest, now int64) (ok, save bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := find(x.pages[id], d)
	if v == nil {
		return false, false
	}
	v.used = now
	if save = now-v.saved > int64(saveEvery); save {
		v.saved = now
	}
	return true, save
}

// remove removes the first versions of list until at most goal bytes are listed, and returns those that were there.
func (x *index) remove(list []candidate, goal int64) (gone []candidate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range list {
		if x.bytes <= goal {
			break
		}
		of := x.pages[c.id]
		v := find(of, c.digest)
		if v == nil {
			continue
		}
		x.count--
		x.bytes -= v.size
		last := len(of) - 1
		*v = of[last]
		if last == 0 {
			delete(x.pages, c.id)
		} else {
			x.pages[c.id] = of[:last]
		}
		gone = append(gone, c)
	}
	return gone
}

// A candidate is a version that may be deleted.
type candidate struct {
	id pageID
	version
	rank    int  // among the old versions of its page, the newest being 0
	present bool // it is the current version of its page
}

// candidates returns all listed versions, given the current ones.
func (x *index) candidates(present map[pageID]protocol.Digest) []candidate {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]candidate, 0, x.count)
	for id, versions := range x.pages {
		slices.SortFunc(versions, func(a, b version) int { return cmp.Compare(b.used, a.used) })
		now, ok := present[id]
		rank := 0
		for _, v := range versions {
			c := candidate{id: id, version: v, present: ok && v.digest == now}
			if !c.present {
				c.rank, rank = rank, rank+1
			}
			list = append(list, c)
		}
	}
	return list
}
