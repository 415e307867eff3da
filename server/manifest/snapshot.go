// Package manifest writes robots.rdf, a site's manifest, from the site's journal, and serves it.
package manifest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
)

// A Snapshot is the published manifest, which any web server may serve, and which is also an http.Handler that serves
// it: one file, or for a big site an index with a directory of parts beside it. What it says is always complete.
//
// Its methods may be called by many goroutines at once.
type Snapshot struct {
	// Path is the file, such as /srv/www/robots.rdf. Its temporary files, beside it
	// while it is being written, are named .robots.rdf.*.tmp.
	Path string

	// Manifest holds the manifest's fields about the site: URL, Base, Title,
	// Description and doors. The rest is filled in. See Describe of package doors.
	Manifest protocol.Manifest

	// Public reports which URLs may be published now; nil means all.
	Public func(url string) bool

	// Parts is the number of items from which the manifest is an index, with parts in the directory that has the name
	// of the file and PartsSuffix: then an edit costs what changed, not a file of all items. A site that has parts
	// keeps them until it has less than half as many items. Zero means one file, however many items there are.
	//
	// What Public forbids without a change of the journal, which the next scan makes, disappears only from parts that
	// are written anew; a page that is gone from the journal and not public disappears from all of them at once.
	Parts int

	// Told, if not nil, is called before a manifest is put in place, and returns once its cursor may be known: at every door
	// of a site with several. If it returns an error, the manifest before it stays.
	Told func(context.Context, protocol.Cursor) error

	// Now is the clock for the removal of old parts, time.Now if nil.
	Now func() time.Time

	writing sync.Mutex // held while the file is written or compared; guards parted
	parted  parted

	mu      sync.RWMutex // guards the fields below, and that state describes the file
	state   *published
	journal *journal.Journal // the journal that the file was written from; nil before the first Load or Write

	feeder chan struct{} // holds one token while a feed is made
}

// published is what is known about the manifest file.
type published struct {
	cursor  protocol.Cursor
	items   int
	etag    string // quoted
	info    os.FileInfo
	checked bool // this process has compared or written it

	length int64     // in bytes, of the parts if there are any
	dir    time.Time // mtime of the directory of the parts; zero: there are none. Guarded by Snapshot.mu

	forms manifestForms
}

// errDiffers ends a comparison.
var errDiffers = errors.New("published manifest differs")

// Load takes over the file of an earlier run, if its cursor is of the journal's present
// epoch and not beyond its head: then it is served at once. It also removes temporary
// files that a killed process left behind.
func (s *Snapshot) Load(j *journal.Journal) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.belongTo(j)
	if err := s.tidy(); err != nil {
		return err
	}
	st, _, err := s.read(s.Path, j)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil || st == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
	return nil
}

// Place puts a file that another Snapshot wrote in the place of the manifest, if its cursor is of the journal's present
// epoch and not beyond its head. Its parts must be in their directory.
func (s *Snapshot) Place(file string, j *journal.Journal) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.belongTo(j)
	st, whole, err := s.read(file, j)
	switch {
	case err != nil:
		return err
	case st == nil:
		return fmt.Errorf("place %s: its cursor is not one of the journal", file)
	}
	if whole != nil {
		for _, p := range slices.Concat(whole.Parts, whole.Changed) {
			if info, err := os.Stat(filepath.Join(s.partsDir(), fileName(p.Digest))); err != nil || info.Size() != p.Length {
				return fmt.Errorf("place %s: its part %s is not there", file, fileName(p.Digest))
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := atomicfile.Replace(file, s.Path); err != nil {
		return err
	}
	s.state = st
	return atomicfile.SyncDir(filepath.Dir(s.Path))
}

// read describes a manifest at a path; nil if it is not of the journal's present epoch, or beyond its head.
func (s *Snapshot) read(path string, j *journal.Journal) (*published, *protocol.Whole, error) {
	f, err := stat.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	st := &published{info: info, length: info.Size() + s.parted.state.length()}
	var whole *protocol.Whole
	if a := readAccount(j); a.isOf(f) {
		st.cursor, st.items, st.etag = a.Cursor, a.Items, a.Etag
	} else {
		head, err := protocol.ReadManifestHead(f, protocol.ManifestOptions{URL: s.Manifest.URL})
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", path, err)
		}
		st.cursor, st.items, whole = head.At(), head.Items, head.Whole
		if whole != nil {
			st.items = whole.Items
		}
	}
	at := j.Head()
	if !j.Whole() || st.cursor.Epoch != at.Epoch || st.cursor.Seq > at.Seq {
		return nil, nil, nil
	}
	if st.etag == "" {
		st.etag, err = etagOfFile(f, st.cursor)
	}
	return st, whole, err
}

func (s *Snapshot) belongTo(j *journal.Journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal != j || s.parted.state == nil {
		s.parted.state = s.readParts(j)
	}
	s.journal = j
}

// tidy removes temporary files of a writer that was killed.
func (s *Snapshot) tidy() error {
	dir, name := filepath.Split(s.Path)
	if dir == "" {
		dir = "."
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "."+name+".") && strings.HasSuffix(e.Name(), ".tmp") && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Cursor returns the cursor of the published manifest; zero if there is none yet.
func (s *Snapshot) Cursor() protocol.Cursor {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == nil {
		return protocol.Cursor{}
	}
	return s.state.cursor
}

// Items returns the number of items in the published manifest; 0 if there is none yet.
func (s *Snapshot) Items() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == nil {
		return 0
	}
	return s.state.items
}

// IsCurrent reports whether there is nothing to write.
func (s *Snapshot) IsCurrent(j *journal.Journal) bool {
	if !j.Whole() {
		return true
	}
	s.mu.RLock()
	st := s.state
	var dir time.Time
	if st != nil {
		dir = st.dir
	}
	s.mu.RUnlock()
	return st != nil && st.checked && st.cursor == j.Head() && unchanged(st.info, s.Path) &&
		(dir.IsZero() || dir.Equal(mtimeOf(s.partsDir())))
}

func unchanged(info os.FileInfo, path string) bool {
	now, err := os.Stat(path)
	return err == nil && sameFile(info, now)
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Write brings the file up to the journal's head, and reports whether it wrote: a file
// that is already identical is not touched. The file is replaced atomically and
// durably. Before the journal is whole there is nothing to write.
func (s *Snapshot) Write(ctx context.Context, j *journal.Journal) (wrote bool, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.belongTo(j)
	if s.IsCurrent(j) {
		return false, nil
	}
	if wrote, err = s.bring(ctx, j); err != nil {
		return wrote, fmt.Errorf("write %s: %w", s.Path, err)
	}
	return wrote, nil
}

// bring brings the file up to the journal's head. What is left of a fold of parts is for the next Write.
func (s *Snapshot) bring(ctx context.Context, j *journal.Journal) (wrote bool, err error) {
	if !s.accounted(ctx, j) {
		var a account
		if wrote, a, err = s.write(ctx, j); err != nil {
			return wrote, err
		}
		s.account(ctx, j, a)
	}
	if s.state.dir.IsZero() {
		return wrote, s.leaveParts(j)
	}
	return wrote, nil
}

// refuseHTMLPage refuses to replace an HTML page with the manifest, in case somebody has
// configured the wrong path. Any other file there may be an old manifest, or what
// is left of one.
func (s *Snapshot) refuseHTMLPage() error {
	f, err := stat.Open(s.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 8<<10))
	if err != nil {
		return err
	}
	if head = bytes.ToLower(head); bytes.Contains(head, []byte("<html")) || bytes.Contains(head, []byte("<!doctype html")) {
		return fmt.Errorf("replace %s: the file is an HTML page: choose another path for the manifest", s.Path)
	}
	return nil
}

// write reports whether it wrote, and returns the account to store, whose file fields
// the method account fills in. Its Revision stays 0 if there is nothing to account for.
func (s *Snapshot) write(ctx context.Context, j *journal.Journal) (wrote bool, a account, err error) {
	quiet, err := j.Note(journal.QuietNote) // before the view: it is not newer than its items
	if err != nil {
		return false, a, err
	}
	v, err := j.View()
	if err != nil {
		return false, a, err
	}
	defer v.Close()
	parts := s.inParts(v.Len(), !s.parted.state.isNone())
	if a.Config, err = s.config(v, parts); err != nil {
		return false, a, err
	}
	a.Revision = v.Revision()
	n := v.Len()
	var d *draft
	more := false // of a fold
	if parts {
		d, more, err = s.partsDraft(ctx, j, v, string(quiet))
	} else {
		d, err = s.draft(ctx, v)
	}
	if err != nil {
		return false, a, err
	}
	// Without an account the next process compares: where rules withhold entries of the journal, and where a
	// change of what stands beside the bytes was left to a later pass.
	if d.count() != n || more || parts && s.parted.state.Quiet != string(quiet) {
		a.Revision = 0
	}
	st, err := d.compare(s.Path)
	if errors.Is(err, errDiffers) {
		if err = s.refuseHTMLPage(); err == nil {
			st, err = s.replace(ctx, d)
		}
		wrote = err == nil
	}
	if err != nil {
		return wrote, a, err
	}
	if parts {
		if err := s.sweep(); err != nil {
			return wrote, a, err
		}
	}
	s.mu.Lock()
	if s.state = st; parts {
		st.dir = s.parted.disk.as
	}
	s.mu.Unlock()
	a.Cursor, a.Items, a.Etag = st.cursor, st.items, st.etag
	return wrote, a, nil
}

// replace writes the draft and renames it to the file's path.
func (s *Snapshot) replace(ctx context.Context, d *draft) (*published, error) {
	dir, name := filepath.Split(s.Path)
	f, err := os.CreateTemp(dir, "."+name+".*.tmp")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // already renamed when all went well
	defer f.Close()
	sum := sha256.New()
	if err := d.writeTo(bufio.NewWriterSize(io.MultiWriter(f, sum), 256<<10)); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o644); err != nil && runtime.GOOS != "windows" {
		return nil, err
	}
	if err := s.stampTime(f); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	st := d.published(sum, info)
	if s.Told != nil {
		if err := s.Told(ctx, st.cursor); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	err = atomicfile.Replace(f.Name(), s.Path)
	if err == nil {
		s.state = st
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return st, atomicfile.SyncDir(filepath.Dir(s.Path))
}

// stampTime gives the new file a later second than the old one has: web servers
// answer conditional requests by it, and some derive entity tags from it.
func (s *Snapshot) stampTime(f *os.File) error {
	old, err := os.Stat(s.Path)
	if err != nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if o := old.ModTime().Truncate(time.Second); !info.ModTime().Truncate(time.Second).After(o) {
		return os.Chtimes(f.Name(), time.Time{}, o.Add(time.Second))
	}
	return nil
}

// etagOfFile hashes a file from its beginning.
func etagOfFile(f *os.File, at protocol.Cursor) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return etagAt(sum, at), nil
}

// etagAt returns an entity tag that contains the manifest's cursor: to a client that
// sends it back, the server can send the changes since then.
func etagAt(h hash.Hash, at protocol.Cursor) string {
	return fmt.Sprintf(`"%s.%d.%x"`, at.Epoch, at.Seq, h.Sum(nil)[:16])
}

// A draft is the manifest of one View, before it is written.
type draft struct {
	m     protocol.Manifest
	items iter.Seq2[protocol.Item, error]
	gone  iter.Seq2[protocol.Tombstone, error]
}

func (s *Snapshot) draft(ctx context.Context, v *journal.View) (*draft, error) {
	var hidden []int // positions of the entries that are not public: decided once, so that all passes agree
	d := &draft{m: s.Manifest}
	d.m.Cursor, d.m.Modified, d.m.Complete = v.Head(), v.Modified(), true
	d.items = func(yield func(protocol.Item, error) bool) {
		n, skip := 0, hidden
		for e, err := range v.Entries() {
			if n++; err == nil && n%1024 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(protocol.Item{}, err)
				return
			}
			if len(skip) > 0 && skip[0] == n-1 {
				skip = skip[1:]
			} else if !yield(e.Item, nil) {
				return
			}
		}
	}
	d.gone = func(yield func(protocol.Tombstone, error) bool) {
		for t, err := range v.Tombstones() {
			if err == nil {
				if t.To != "" && !s.isPublic(t.To) {
					t.To = ""
				}
				if !s.isPublic(t.URL) {
					continue
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
	if s.Public != nil {
		n := 0
		for item, err := range d.items {
			if err != nil {
				return nil, err
			}
			if !s.isPublic(item.URL) {
				hidden = append(hidden, n)
			}
			n++
		}
	}
	d.m.Items = v.Len() - len(hidden)
	return d, nil
}

// count returns the number of items that it describes.
func (d *draft) count() int {
	if d.m.Whole != nil {
		return d.m.Whole.Items
	}
	return d.m.Items
}

// published describes the file of the draft.
func (d *draft) published(sum hash.Hash, info os.FileInfo) *published {
	st := &published{cursor: d.m.At(), items: d.count(), etag: etagAt(sum, d.m.At()), info: info, length: info.Size(), checked: true}
	if w := d.m.Whole; w != nil {
		for _, p := range slices.Concat(w.Parts, w.Changed) {
			st.length += p.Length
		}
	}
	return st
}

func (d *draft) writeTo(w *bufio.Writer) error {
	if err := protocol.WriteManifest(w, d.m, d.items, d.gone); err != nil {
		return err
	}
	return w.Flush()
}

// compare returns the state of the file at path if it equals this draft byte
// for byte, and errDiffers if it does not or does not exist.
func (d *draft) compare(path string) (*published, error) {
	f, err := stat.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDiffers
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	c := &comparer{old: bufio.NewReaderSize(f, 256<<10), sum: sum}
	if err := d.writeTo(bufio.NewWriterSize(c, 64<<10)); err != nil {
		return nil, err
	}
	if _, err := c.old.ReadByte(); err != io.EOF {
		return nil, errDiffers
	}
	return d.published(sum, info), nil
}

// comparer is a writer that accepts only the bytes that old holds.
type comparer struct {
	old *bufio.Reader
	sum hash.Hash
	buf []byte
}

func (c *comparer) Write(p []byte) (int, error) {
	if cap(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	b := c.buf[:len(p)]
	if _, err := io.ReadFull(c.old, b); err != nil || !bytes.Equal(b, p) {
		return 0, errDiffers
	}
	return c.sum.Write(p)
}

// open opens the file that state describes. It returns nil if there is none.
func (s *Snapshot) open() (*os.File, *published) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == nil {
		return nil, nil
	}
	f, err := stat.Open(s.Path)
	if err != nil {
		return nil, nil
	}
	// Another program may have replaced the file; the next write corrects that.
	if info, err := f.Stat(); err != nil || !sameFile(s.state.info, info) {
		f.Close()
		return nil, nil
	}
	return f, s.state
}
