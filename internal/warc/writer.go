package warc

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// Options configure a Writer. Zero values are useful.
type Options struct {
	Coding string // of each record: "", "gzip" or "zstd"

	// MaxBytes and MaxRecords are the size at which a file is closed and a new one begun. Zero means 1 GiB
	// and 250,000.
	MaxBytes   int64
	MaxRecords int

	// Info are the fields of the warcinfo record that begins each file, beside format and conformsTo: "software", "operator",
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
	opts Options

	mu     sync.Mutex // guards the fields below
	closed bool
	file   file
	enc    encoder
}

// conformsTo is the URL of the standard, for readers.
const conformsTo = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"

const (
	defaultBytes   = 1 << 30
	defaultRecords = 250_000
)

// OpenWriter opens a directory for writing, and creates it if missing. A file that a killed writer left is
// cut back to its last whole record (or to Options.Mark). Only one Writer at a time may use a directory: the
// caller must see to that.
func OpenWriter(dir string, o *Options) (*Writer, error) {
	w := &Writer{file: file{dir: dir}}
	if o != nil {
		w.opts = *o
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
	err := w.enc.open(w.opts.Coding)
	if err == nil {
		if err = w.file.recover(w.opts.Coding, w.opts.Mark); err != nil {
			w.file.closeFiles()
		}
	}
	if err != nil {
		return nil, w.fail("open", err)
	}
	return w, nil
}

// begin makes sure that a file with room is open.
func (w *Writer) begin() error {
	f := &w.file
	switch {
	case f.err != nil:
		return f.err
	case w.closed:
		return fs.ErrClosed
	case f.data != nil && f.size < w.opts.MaxBytes && f.records < w.opts.MaxRecords:
		return nil
	}
	if err := f.end(); err != nil {
		return err
	}
	now := w.opts.Now().UTC()
	if err := f.create(now.Format(stampLayout), extension(w.opts.Coding)); err != nil {
		return err
	}
	f.info = w.enc.id()
	info := append(Fields{{"format", "WARC File Format 1.1"}, {"conformsTo", conformsTo}}, w.opts.Info...)
	b := appendField(w.enc.start(Warcinfo, now, f.info), "WARC-Filename", f.name)
	_, err := f.add(&w.enc, b, InfoType, AppendInfo(nil, info), nil)
	return err
}

// do calls f with the lock held. op is for the error.
func (w *Writer) do(op string, f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := f(); err != nil {
		return w.fail(op, err)
	}
	return nil
}

// Rotate closes the open file and sorts its index; the next record begins a new file.
func (w *Writer) Rotate() error { return w.do("close", w.file.end) }

// Sync makes the records written so far durable. Places returned before may be relied upon after it.
func (w *Writer) Sync() error {
	return w.do("sync", func() error {
		if w.closed {
			return fs.ErrClosed
		}
		return w.file.sync()
	})
}

// Mark returns the end of the data written, whether the file is open or not, with a Length of 0; the zero
// Place if there is none.
func (w *Writer) Mark() Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Place{File: w.file.name, Offset: w.file.size}
}

// Synced returns the end of the durable data, as Mark does: other readers may read up to there.
func (w *Writer) Synced() Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := Place{File: w.file.name, Offset: w.file.size}
	if w.file.data != nil {
		p.Offset = w.file.synced
	}
	return p
}

// Rewind removes what was written since a mark, if there was no sync and no file was closed since; else it
// does nothing.
func (w *Writer) Rewind(mark Place) error {
	return w.do("rewind", func() error { return w.file.rewind(mark) })
}

// Close syncs and closes. The open file is continued when the directory is opened again; until then it has a
// sorted index.
func (w *Writer) Close() error {
	return w.do("close", func() error {
		if w.closed {
			return nil
		}
		w.closed = true
		open := w.file.data != nil
		err := errors.Join(w.file.sync(), w.file.closeFiles())
		if err == nil && open {
			if err = writeIndex(w.file.path()); errors.Is(err, fs.ErrNotExist) {
				err = nil // somebody has removed the files
			}
		}
		return err
	})
}

func (w *Writer) fail(op string, err error) error {
	return fmt.Errorf("%s archive %s: %w", op, w.file.dir, err)
}
