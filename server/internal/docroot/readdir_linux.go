package docroot

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/parleyweb/parley/server/internal/stat"
)

// openBeneath opens a name in the tree by openat2, which lets no path lead out of the tree. It returns nil if
// that fails, for whatever reason.
func (t *tree) openBeneath(name string, flags int) *os.File {
	fd, err := t.descriptor(name, flags)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), t.abs(name))
}

func (t *tree) descriptor(name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(int(t.top.Fd()), name, &how)
}

// openSmall opens a file in the same way, if it is regular and has at most most bytes; else it returns nil.
func (t *tree) openSmall(name string, most int64) io.ReadCloser {
	fd, err := t.descriptor(name, stat.Quietly)
	if err != nil {
		return nil
	}
	f := &smallFile{fd}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > most {
		f.Close()
		return nil
	}
	return f
}

// A smallFile is a regular file without the machinery of an os.File: opening and closing take half as long.
// It is for one goroutine, which closes it.
type smallFile struct{ fd int }

func (f *smallFile) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: "page", Err: err}
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *smallFile) Seek(offset int64, whence int) (int64, error) {
	return unix.Seek(f.fd, offset, whence)
}

func (f *smallFile) Close() error {
	if f.fd < 0 {
		return fs.ErrClosed // the descriptor may be another file's by now
	}
	err := unix.Close(f.fd)
	f.fd = -1
	return err
}

var direntBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// readNames calls f with every name in an open directory, and its type, until
// f returns an error.
func readNames(dir *os.File, f func(name string, mode fs.FileMode) error) error {
	buf := direntBuffers.Get().(*[32 << 10]byte)
	defer direntBuffers.Put(buf)
	fd := int(dir.Fd())
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "readdir", Path: dir.Name(), Err: err}
		}
		if n <= 0 {
			return nil
		}
		for b := buf[:n]; len(b) > 0; {
			name, kind, size := direntOf(b)
			if size == 0 {
				return &fs.PathError{Op: "readdir", Path: dir.Name(), Err: unix.EIO}
			}
			b = b[size:]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			s := string(name)
			mode, known := direntMode(kind)
			if !known { // some file systems do not state the type
				st, err := stat.At(dir, s, false)
				if err != nil && isGone(err) {
					continue
				} else if err != nil {
					return err
				}
				mode = st.Mode
			}
			if err := f(s, mode); err != nil {
				return err
			}
		}
	}
}

// direntOf reads the first struct linux_dirent64 of b: inode and offset of 8 bytes each, its size of 2, a
// type of 1, and the name, which ends with a NUL. The size is 0 if b holds none.
func direntOf(b []byte) (name []byte, kind byte, size int) {
	const start = 19
	if len(b) < start {
		return nil, 0, 0
	}
	size = int(binary.NativeEndian.Uint16(b[16:]))
	if size < start || size > len(b) {
		return nil, 0, 0
	}
	name = b[start:size]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	return name, b[18], size
}

func direntMode(kind byte) (mode fs.FileMode, known bool) {
	switch kind {
	case unix.DT_REG:
		return 0, true
	case unix.DT_DIR:
		return fs.ModeDir, true
	case unix.DT_LNK:
		return fs.ModeSymlink, true
	case unix.DT_UNKNOWN:
		return 0, false
	}
	return fs.ModeIrregular, true
}
