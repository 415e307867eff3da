package warc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	crand "crypto/rand"

	"github.com/parleyweb/parley/internal/coding"
)

// Options configure a Writer. Zero values are useful.
type Options struct {
	Prefix string // begins the names of files; "" means "parley"
	Coding string // of each record: "", "gzip" or "zstd"

	// MaxBytes and MaxRecords are the size at which a file is closed and a new one begun. Zero means 1 GiB
	// and 250,000.
	MaxBytes   int64
	MaxRecords int

	// BlockDigest adds the digest of each whole block, which costs as much as the rest of an uncompressed
	// record. The digest of the payload is always written.
	BlockDigest bool

	// Info are the fields of the warcinfo record that begins each file: "software", "operator",
	// "http-header-user-agent" and so on.
	Info []Field

	// Mark, if not nil, is the end of the data that the caller relies on, as Mark returned it after a Sync;
	// the zero Place is before the first file. Everything written after it is removed, whole files included.
	// Without Mark, or if its file does not exist, only an incomplete last record is removed.
	Mark *Place

	Now func() time.Time // time.Now if nil
}

// A Writer fills a directory with archives. It is safe for concurrent use; one goroutine writes at a time.
type Writer struct {
	dir  string
	opts Options

	mu      sync.Mutex
	err     error // final: the disk may differ from the Writer's state
	file    *os.File
	name    string // of file, or of the last one if none is open
	info    string // id of the warcinfo record of file
	serial  int    // of the newest file
	size    int64
	records int
	buf     []byte // the end of file, not written yet
	synced  int64
	log     *os.File // index lines of file, as far as it is synced
	lines   []byte   // index lines not yet in log
	rand    *rand.ChaCha8
	pack    *coding.Packer
	plain   []byte // a record before compression
	keys    []string
	closed  bool
}

const (
	defaultBytes   = 1 << 30
	defaultRecords = 250_000

	// flushAt is the number of buffered bytes that triggers a write.
	flushAt = 256 << 10
)

// OpenWriter opens a directory for writing, and creates it if missing. A file that a killed writer left is
// cut back to its last whole record (or to Options.Mark). Only one Writer at a time may use a directory: the
// caller must see to that.
func OpenWriter(dir string, o *Options) (*Writer, error) {
	w := &Writer{dir: dir}
	if o != nil {
		w.opts = *o
	}
	if w.opts.Prefix == "" {
		w.opts.Prefix = "parley"
	}
	if w.opts.MaxBytes <= 0 {
		w.opts.MaxBytes = defaultBytes
	}
	if w.opts.MaxRecords <= 0 {
		w.opts.MaxRecords = defaultRecords
	}
	if w.opts.Now == nil {
		w.opts.Now = time.Now
	}
	if w.opts.Coding != "" {
		var err error
		if w.pack, err = coding.NewPacker(w.opts.Coding); err != nil {
			return nil, fmt.Errorf("open archive %s: %w", dir, err)
		}
	}
	var seed [32]byte
	crand.Read(seed[:])
	w.rand = rand.NewChaCha8(seed)
	if err := w.recover(); err != nil {
		w.closeFiles()
		return nil, fmt.Errorf("open archive %s: %w", dir, err)
	}
	return w, nil
}

// extension returns the file extension for a coding.
func extension(coding string) string {
	switch coding {
	case "gzip":
		return ".warc.gz"
	case "zstd":
		return ".warc.zst"
	}
	return ".warc"
}

// begin makes sure that a file with room is open.
func (w *Writer) begin() error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return fs.ErrClosed
	case w.file != nil && w.size < w.opts.MaxBytes && w.records < w.opts.MaxRecords:
		return nil
	}
	if err := w.rotate(); err != nil {
		return err
	}
	now := w.opts.Now().UTC()
	w.serial++
	name := fmt.Sprintf("%s-%s-%08d%s", w.opts.Prefix, now.Format(stampLayout), w.serial, extension(w.opts.Coding))
	// The log marks the file as this Writer's to continue or cut: it comes first.
	if err := w.create(name); err != nil {
		w.err = err
		return err
	}
	w.info = w.id()
	body := make([]byte, 0, 256)
	for _, f := range append([]Field{{"format", "WARC File Format 1.1"}}, w.opts.Info...) {
		if isToken(f.Name) {
			body = append(appendValue(append(append(body, f.Name...), ": "...), f.Value), crlf...)
		}
	}
	b := w.start(Warcinfo, now, w.info, "")
	b = appendField(b, "WARC-Filename", name)
	_, err := w.finish(b, "application/warc-fields", body, nil)
	return err
}

func (w *Writer) create(name string) (err error) {
	path := filepath.Join(w.dir, name)
	if w.log, err = os.OpenFile(path+logSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	if w.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	w.name, w.size, w.synced, w.records = name, 0, 0, 0
	return syncDir(w.dir)
}

const stampLayout = "20060102150405"

// Rotate closes the open file and sorts its index; the next record begins a new file.
func (w *Writer) Rotate() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.rotate(); err != nil {
		return w.fail("close", err)
	}
	return nil
}

func (w *Writer) rotate() error {
	if w.file == nil {
		return w.err
	}
	if err := w.sync(); err != nil {
		return err
	}
	if err := w.closeFiles(); err != nil {
		w.err = err
		return err
	}
	if err := sortIndex(w.dir, w.name); err != nil {
		w.err = err
		return err
	}
	return nil
}

// closeFiles closes the open file and its log.
func (w *Writer) closeFiles() error {
	var err error
	for _, f := range []**os.File{&w.file, &w.log} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

// write writes the buffer to the file.
func (w *Writer) write() error {
	if len(w.buf) == 0 || w.err != nil {
		return w.err
	}
	if _, err := w.file.Write(w.buf); err != nil {
		// Part of it may be there. Callers that already have places in it learn of the error at the next
		// Sync.
		w.err = err
		return err
	}
	w.buf = w.buf[:0]
	return nil
}

// Sync makes the records written so far durable. Places returned before may be relied upon after it.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.fail("sync", fs.ErrClosed)
	}
	if err := w.sync(); err != nil {
		return w.fail("sync", err)
	}
	return nil
}

func (w *Writer) sync() error {
	if w.err != nil || w.file == nil || w.synced == w.size {
		return w.err
	}
	if err := w.write(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		w.err = err
		return err
	}
	w.synced = w.size
	// The log describes only durable data, so that recovery can begin after its last line. Losing some of the
	// log costs only time.
	if _, err := w.log.Write(w.lines); err != nil {
		w.err = err
		return err
	}
	w.lines = w.lines[:0]
	return nil
}

// Mark returns the end of the data written, whether the file is open or not, with a Length of 0; the zero
// Place if there is none.
func (w *Writer) Mark() Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Place{File: w.name, Offset: w.size}
}

// Synced returns the end of the durable data, as Mark does: other readers may read up to there.
func (w *Writer) Synced() Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return Place{File: w.name, Offset: w.size}
	}
	return Place{File: w.name, Offset: w.synced}
}

// Rewind removes what was written since a mark, if there was no sync and no file was closed since; else it
// does nothing.
func (w *Writer) Rewind(mark Place) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.file == nil || w.name != mark.File || w.synced > mark.Offset || w.size <= mark.Offset {
		return w.err
	}
	if at := w.size - int64(len(w.buf)); at <= mark.Offset {
		w.buf = w.buf[:mark.Offset-at]
	} else {
		w.buf = w.buf[:0]
		if err := w.file.Truncate(mark.Offset); err != nil {
			w.err = err
			return w.fail("rewind", err)
		}
	}
	w.size = mark.Offset
	kept, _, _ := cutLines(w.lines, mark.Offset)
	w.lines = []byte(join(kept))
	return nil
}

// Close syncs and closes. The open file is continued when the directory is opened again.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if err := errors.Join(w.sync(), w.closeFiles()); err != nil {
		return w.fail("close", err)
	}
	return nil
}

func (w *Writer) fail(op string, err error) error {
	return fmt.Errorf("%s archive %s: %w", op, w.dir, err)
}

// id returns a new record id: a random UUID.
func (w *Writer) id() string {
	var u [16]byte
	w.rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	b := make([]byte, 0, 47)
	b = append(b, "<urn:uuid:"...)
	for i, n := range []int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, u[:n])
		copy(u[:], u[n:])
	}
	return string(append(b, '>'))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some systems have no such call
	return d.Close()
}
