package contents

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parleyweb/parley/internal/warc"
)

// A disk may flip bits, and archives are not checked when they are opened: they may be terabytes. Each read
// of a body checks it. A damaged body no longer stands, so that its pages are fetched as if it had never
// been stored; a file beside the archives remembers it, since finding the damage again would mean reading
// the whole body again.

// ErrBodyDamaged is returned by a read of a body that differs from what was stored.
var ErrBodyDamaged = errors.New("the stored body is damaged: its pages are fetched again when they are due; \"crawler crawl --again\" fetches them now")

// damagedName is the file with one line for each record found damaged.
const damagedName = "damaged.txt"

// maxDamaged bounds their number: with more, the disk must be replaced.
const maxDamaged = 10_000

// A spot is the start of a record.
type spot struct {
	file   string // relative to the directory of archives
	offset int64
}

// ReadDamaged reads the file of damaged records.
func (s *Reader) ReadDamaged() error {
	f, err := os.Open(filepath.Join(s.warcs(), damagedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	s.damaged = map[spot]bool{}
	lines := bufio.NewScanner(f)
	for len(s.damaged) < maxDamaged && lines.Scan() {
		var at spot
		if _, err := fmt.Sscanf(lines.Text(), "%d %s", &at.offset, &at.file); err == nil {
			s.damaged[at] = true
		}
	}
	return lines.Err()
}

// addDamaged remembers that a record is damaged. If writing that fails, the next process only has to read the
// record again.
func (s *Reader) addDamaged(p warc.Place) {
	at := spot{p.File, p.Offset}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damaged[at] || len(s.damaged) >= maxDamaged {
		return
	}
	if s.damaged == nil {
		s.damaged = map[spot]bool{}
	}
	s.damaged[at] = true
	f, err := os.OpenFile(filepath.Join(s.warcs(), damagedName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	fmt.Fprintf(f, "%d %s\n", at.offset, at.file)
	f.Close()
}

// isDamaged reports whether a record is known to be damaged.
func (s *Reader) isDamaged(p Place) bool {
	place, ok := Archived(p)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged[spot{place.File, place.Offset}]
}

// A checked is a body read from a record, with a check for damage.
type checked struct {
	store *Reader
	place warc.Place
	body  io.Reader
	sum   hash.Hash // nil: the record has no digest of the body
	want  [sha256.Size]byte
}

func (s *Reader) check(place warc.Place, rec *warc.Record, body io.Reader) *checked {
	k := &checked{store: s, place: place, body: body}
	if d, ok := warc.ParseDigest(rec.Fields.Get("WARC-Payload-Digest")); ok && rec.Type() == warc.Response {
		k.sum, k.want = sha256.New(), d
	}
	return k
}

func (k *checked) Read(p []byte) (int, error) {
	n, err := k.body.Read(p)
	if k.sum != nil {
		k.sum.Write(p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && (k.sum == nil || [sha256.Size]byte(k.sum.Sum(nil)) == k.want):
		return n, err
	case err == io.EOF:
		err = errDigest
	}
	return n, k.store.Damage(k.place, err)
}

var errDigest = errors.New("the body does not match its digest")

// Damage returns the error for a record that cannot be read, and remembers the record unless the cause is not damage.
func (s *Reader) Damage(place warc.Place, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) { // no such file, no permission, or a disk failure
		return err
	}
	s.addDamaged(place)
	return fmt.Errorf("%w: record at %d of %s: %w", ErrBodyDamaged, place.Offset, place.File, err)
}
