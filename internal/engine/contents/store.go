// Package contents stores the bodies of pages in WARC files, and reads them from there and from plain files. A
// body in an archive is not stored twice: revisit records refer to it.
package contents

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/bucket"
	"github.com/parleyweb/parley/internal/warc"
)

// Directories below that of a collection.
const (
	WARCDir   = "warc"
	MirrorDir = "mirror"

	StateFile   = "state.db"   // beside the contents: the state of the collection
	WitnessFile = "journal.db" // and the number of its newest event
)

// A Place is where a body is stored.
type Place struct {
	File   string `json:"file,omitempty"` // relative to the collection, for a copy "mirror/" and the name below its root; empty: not stored
	Offset int64  `json:"offset"`
	Length int64  `json:"length"` // of the record, 0 for a plain file
}

// A Reader reads the bodies of a collection. It may be used by many at once.
type Reader struct {
	Dir   string // of the collection
	Files string // of the plain files; empty: MirrorDir below Dir
	None  bool   // no bodies are stored any more; those that are can be read

	mu      sync.Mutex          // guards the fields below
	sizes   map[string]fileSize // by archive
	damaged map[spot]bool
	copies  bucket.Bucket // nil: none, or not opened yet
}

// A Store has the bodies of a collection. One goroutine writes; others may read.
type Store struct {
	Reader

	archive   *warc.Writer // nil: nothing is archived
	unread    []unread
	witnessed string // what is in the file of Witness

	copied map[string]bool // the archives that are in the bucket; only Copy uses it
}

func (s *Reader) warcs() string { return filepath.Join(s.Dir, WARCDir) }

// OpenArchive opens the archive for writing. Copy fills the bucket that copyTo names, see bucket.Open; empty: the last one.
func (s *Store) OpenArchive(o *warc.Options, copyTo string) (err error) {
	if copyTo != "" {
		if err := s.copyTo(copyTo); err != nil {
			return err
		}
	}
	s.archive, err = warc.OpenWriter(s.warcs(), o)
	return err
}

// HasArchive reports whether bodies are archived.
func (s *Store) HasArchive() bool { return s.archive != nil }

// Close closes the archive.
func (s *Store) Close() error {
	if s.archive == nil {
		return nil
	}
	err := s.archive.Close()
	s.archive = nil
	return err
}

// Response archives a response, and returns where its body is.
func (s *Store) Response(c *warc.Capture) (Place, error) {
	at, err := s.archive.Response(c)
	if err != nil {
		return Place{}, err
	}
	// Earlier records in another file can be read.
	if n := len(s.unread); n > 0 && s.unread[n-1].File != at.File {
		s.forgetUnread()
	}
	s.unread = append(s.unread, unread{at, c.URL, c.Date})
	return below(at), nil
}

// Revisit archives a response whose body is stored already, in the record c.Of.
func (s *Store) Revisit(c *warc.Capture) error {
	_, err := s.archive.Revisit(c)
	return err
}

// Sync makes all records durable.
func (s *Store) Sync() error {
	s.forgetUnread()
	if s.archive == nil {
		return nil
	}
	return s.archive.Sync()
}

// Rotate closes the open archive.
func (s *Store) Rotate() error { return s.archive.Rotate() }

// Mark returns the end of the archive.
func (s *Store) Mark() warc.Place { return s.archive.Mark() }

// Synced returns the end of the durable records; the zero Place if nothing is archived.
func (s *Store) Synced() warc.Place {
	if s.archive == nil {
		return warc.Place{}
	}
	return s.archive.Synced()
}

// Rewind removes the records after a mark.
func (s *Store) Rewind(mark warc.Place) error {
	s.forgetUnread()
	return s.archive.Rewind(mark)
}

// An unread is a record that is not durable, and cannot be read yet.
type unread struct {
	warc.Place
	url  string
	date time.Time
}

func (s *Store) forgetUnread() {
	clear(s.unread)
	s.unread = s.unread[:0]
}

// Captured returns the URL and date of the record at a place, nothing for a plain file, and whether the body
// is there. It does not read to the end.
func (s *Store) Captured(p Place) (of warc.Original, stored bool) {
	place, ok := Archived(p)
	if !ok || s.archive == nil {
		return of, p.File != "" && s.stands(p)
	}
	if of.Place = place; s.isDamaged(p) {
		return of, false
	}
	if list := s.unread; len(list) > 0 && list[0].File == place.File {
		i, found := slices.BinarySearchFunc(list, place.Offset, func(n unread, at int64) int { return cmp.Compare(n.Offset, at) })
		if found {
			of.URL, of.Date = list[i].url, list[i].date
			return of, true
		}
	}
	r, err := s.Record(place)
	if err != nil {
		var damage *warc.Damage
		return of, !errors.As(err, &damage) && !errors.Is(err, fs.ErrNotExist)
	}
	defer r.Close()
	of.URL, of.Date = r.URL(), r.Date()
	return of, true
}

// fileOf returns the directory of a body that is a plain file, and its name relative to that.
func (s *Reader) fileOf(p Place) (dir, name string) {
	if rest, ok := strings.CutPrefix(p.File, MirrorDir+"/"); ok && s.Files != "" {
		return s.Files, rest
	}
	return s.Dir, p.File
}

// A fileSize is the size of a file, and how long it is believed.
type fileSize struct {
	size  int64
	until time.Time
}

// believed is how long the size of an archive is believed: archives only grow, unless somebody tampers with them.
const believed = 5 * time.Second

// Stands reports whether the file of a body exists and is long enough: if not, the page must be fetched
// without conditions, and its body stored again. It does not read the file: damage is found only by a read
// of the body. The zero Place stands only in a collection that stores nothing. It is fast: the size of an
// archive is cached for some seconds.
func (s *Reader) Stands(p Place) bool { return s.None || s.stands(p) }

func (s *Reader) stands(p Place) bool {
	if !filepath.IsLocal(p.File) || p.Offset < 0 || p.Length < 0 || s.isDamaged(p) {
		return false
	}
	archive, shared := Archived(p) // with many pages
	now := time.Now()
	if shared {
		s.mu.Lock()
		known, asked := s.sizes[p.File]
		s.mu.Unlock()
		if asked && now.Before(known.until) && (known.size < 0 || known.size >= p.Offset+p.Length) {
			return known.size >= 0
		}
	}
	dir, name := s.fileOf(p)
	st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	is := fileSize{-1, now.Add(missing)}
	switch {
	case err == nil && st.Mode().IsRegular():
		is = fileSize{st.Size(), now.Add(believed)}
	case shared && errors.Is(err, fs.ErrNotExist):
		is.size = s.copySize(archive.File)
	}
	if shared {
		s.mu.Lock()
		if s.sizes == nil {
			s.sizes = map[string]fileSize{}
		}
		s.sizes[p.File] = is
		s.mu.Unlock()
	}
	return is.size >= p.Offset+p.Length
}

// Archived returns a place in the form of package warc, and false if it is not in an archive.
func Archived(p Place) (warc.Place, bool) {
	name, ok := strings.CutPrefix(p.File, WARCDir+"/")
	return warc.Place{File: name, Offset: p.Offset, Length: p.Length}, ok
}

func below(p warc.Place) Place {
	if p.File == "" {
		return Place{}
	}
	p.File = WARCDir + "/" + p.File
	return Place(p)
}
