package collection

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

// readDamaged reads the file of damaged records.
func (c *Collection) readDamaged() error {
	f, err := os.Open(filepath.Join(c.dir, warcDir, damagedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	k := &c.contents
	k.damaged = map[spot]bool{}
	lines := bufio.NewScanner(f)
	for len(k.damaged) < maxDamaged && lines.Scan() {
		var s spot
		if _, err := fmt.Sscanf(lines.Text(), "%d %s", &s.offset, &s.file); err == nil {
			k.damaged[s] = true
		}
	}
	return lines.Err()
}

// spoiled remembers that a record is damaged. If writing that fails, the next process only has to read the
// record again.
func (c *Collection) spoiled(p warc.Place) {
	k, s := &c.contents, spot{p.File, p.Offset}
	k.sizing.Lock()
	defer k.sizing.Unlock()
	if k.damaged[s] || len(k.damaged) >= maxDamaged {
		return
	}
	if k.damaged == nil {
		k.damaged = map[spot]bool{}
	}
	k.damaged[s] = true
	f, err := os.OpenFile(filepath.Join(c.dir, warcDir, damagedName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	fmt.Fprintf(f, "%d %s\n", s.offset, s.file)
	f.Close()
}

// isSpoiled reports whether a record is known to be damaged.
func (c *Collection) isSpoiled(p Place) bool {
	place, ok := archived(p)
	if !ok {
		return false
	}
	k := &c.contents
	k.sizing.Lock()
	defer k.sizing.Unlock()
	return k.damaged[spot{place.File, place.Offset}]
}

// A checked is a body read from a record, with a check for damage.
type checked struct {
	c     *Collection
	place warc.Place
	body  io.Reader
	sum   hash.Hash // nil: the record has no digest of the body
	want  [sha256.Size]byte
}

func (c *Collection) check(place warc.Place, rec *warc.Record, body io.Reader) *checked {
	k := &checked{c: c, place: place, body: body}
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
	return n, k.c.damage(k.place, err)
}

var errDigest = errors.New("the body does not match its digest")

// damage returns the error for a record that cannot be read, and remembers the record unless the cause is not damage.
func (c *Collection) damage(place warc.Place, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) { // no such file, no permission, or a disk failure
		return err
	}
	c.spoiled(place)
	return fmt.Errorf("%w: record at %d of %s: %w", ErrBodyDamaged, place.Offset, place.File, err)
}
