package warc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A file is the archive that a Writer fills, one after the other in its directory, and the log that becomes its
// index. Only the Writer calls it, with its lock held.
type file struct {
	dir    string
	serial int    // of the newest file
	name   string // of the open one, or of the last one if none is open
	info   string // id of its warcinfo record

	data    *os.File // nil if none is open
	size    int64
	records int
	buf     []byte // the end of data, not written yet
	synced  int64
	log     *os.File // index lines, as far as data is synced
	lines   []byte   // index lines not yet in log

	err error // final: the disk may differ from this
}

// flushAt is the number of buffered bytes that triggers a write.
const flushAt = 256 << 10

// maxKept bounds a buffer that is reused for the next record.
const maxKept = 1 << 20

const stampLayout = "20060102150405"

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

// namePrefix begins the names of files.
const namePrefix = "parley-"

func (f *file) path() string { return filepath.Join(f.dir, f.name) }

// broken makes err final, if it is one.
func (f *file) broken(err error) error {
	f.err = err
	return err
}

// create begins a new file.
func (f *file) create(stamp, extension string) (err error) {
	f.serial++
	name := fmt.Sprintf("%s%s-%08d%s", namePrefix, stamp, f.serial, extension)
	path := filepath.Join(f.dir, name)
	const begin = os.O_CREATE | os.O_EXCL | os.O_WRONLY | os.O_APPEND
	// The log marks the file as this Writer's to continue or cut: it comes first.
	if f.log, err = os.OpenFile(path+logSuffix, begin, 0o644); err != nil {
		return f.broken(err)
	}
	if f.data, err = os.OpenFile(path, begin, 0o644); err != nil {
		return f.broken(err)
	}
	f.name, f.size, f.synced, f.records = name, 0, 0, 0
	return f.broken(syncDir(f.dir))
}

// add appends a record whose header begins with b, and whose block is head and body.
func (f *file) add(e *encoder, b []byte, mediaType string, head, body []byte) (Place, error) {
	b = appendLength(appendField(b, "Content-Type", mediaType), len(head)+len(body))
	e.plain = b
	at := len(f.buf)
	p := Place{File: f.name, Offset: f.size}
	var err error
	switch {
	case e.pack != nil:
		e.plain = append(append(append(b, head...), body...), "\r\n\r\n"...)
		f.buf = e.pack.Append(f.buf, e.plain)
		p.Length = int64(len(f.buf) - at)
	case len(body) < flushAt:
		f.buf = append(append(append(append(f.buf, b...), head...), body...), "\r\n\r\n"...)
		p.Length = int64(len(f.buf) - at)
	default: // a large body is not copied
		f.buf = append(append(f.buf, b...), head...)
		p.Length = int64(len(f.buf)-at) + int64(len(body)) + 4
		if err = f.write(); err == nil {
			_, err = f.data.Write(body)
			f.err = err
		}
		f.buf = append(f.buf, "\r\n\r\n"...)
	}
	f.size += p.Length
	f.records++
	if err == nil && len(f.buf) >= flushAt {
		err = f.write()
	}
	if cap(e.plain) > maxKept {
		e.plain = nil
	}
	if len(f.buf) == 0 && cap(f.buf) > maxKept {
		f.buf = nil
	}
	return p, err
}

// write writes the buffer to the file.
func (f *file) write() error {
	if len(f.buf) == 0 || f.err != nil {
		return f.err
	}
	if _, err := f.data.Write(f.buf); err != nil {
		// Part of it may be there. Callers that already have places in it learn of the error at the next
		// Sync.
		return f.broken(err)
	}
	f.buf = f.buf[:0]
	return nil
}

// sync makes the records durable.
func (f *file) sync() error {
	if f.err != nil || f.data == nil || f.synced == f.size {
		return f.err
	}
	if err := f.write(); err != nil {
		return err
	}
	if err := f.data.Sync(); err != nil {
		return f.broken(err)
	}
	f.synced = f.size
	// The log describes only durable data, so that recovery can begin after its last line. Losing some of the
	// log costs only time.
	if _, err := f.log.Write(f.lines); err != nil {
		return f.broken(err)
	}
	f.lines = f.lines[:0]
	return nil
}

// rewind removes what was written since a mark, if that can be done.
func (f *file) rewind(mark Place) error {
	if f.err != nil || f.data == nil || f.name != mark.File || f.synced > mark.Offset || f.size <= mark.Offset {
		return f.err
	}
	if at := f.size - int64(len(f.buf)); at <= mark.Offset {
		f.buf = f.buf[:mark.Offset-at]
	} else {
		f.buf = f.buf[:0]
		if err := f.data.Truncate(mark.Offset); err != nil {
			return f.broken(err)
		}
	}
	f.size = mark.Offset
	kept, _, _ := cutLines(f.lines, mark.Offset)
	f.lines = []byte(join(kept))
	return nil
}

// end closes the open file and sorts its index.
func (f *file) end() error {
	if f.data == nil {
		return f.err
	}
	if err := f.sync(); err != nil {
		return err
	}
	if err := f.closeFiles(); err != nil {
		return f.broken(err)
	}
	return f.broken(sortIndex(f.path()))
}

// closeFiles closes the open file and its log.
func (f *file) closeFiles() error {
	var err error
	for _, open := range []**os.File{&f.data, &f.log} {
		if *open != nil {
			err = errors.Join(err, (*open).Close())
			*open = nil
		}
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some systems have no such call
	return d.Close()
}
