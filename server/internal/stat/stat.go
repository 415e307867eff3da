// Package stat says what the file system knows of a file, without following a link or waiting for a
// pipe where that could do harm, and makes stamps of it: equal stamps, equal bytes.
package stat

import (
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"time"
)

// A File is what the file system says of a file. What it does not know is zero.
type File struct {
	Mode              fs.FileMode // the type alone
	Size              int64
	Links             uint64 // names that the file has
	Dev, Ino          uint64
	Modified, Changed time.Time // mtime and ctime. Changed is when content or inode last changed; nobody can set it
}

// Two writes so close together can leave the same times behind.
const (
	Tick   = 50 * time.Millisecond // kernels count time in ticks of up to 10 ms
	Coarse = 2 * time.Second       // FAT and others keep no fractions
)

// Stamp encodes what must be equal for a file not to be read again: device,
// inode, size, mtime and ctime. It is equality that counts, never "newer
// than": times go backwards when a file is replaced by an older one. It is
// empty for a file whose times are so close to now, when they were read, that
// a later write could leave the same ones: it must be read again next time.
func (s *File) Stamp(now time.Time) []byte {
	if s.Young(now) {
		return nil
	}
	b := make([]byte, 0, 40)
	b = binary.AppendUvarint(b, s.Dev)
	b = binary.AppendUvarint(b, s.Ino)
	b = binary.AppendVarint(b, s.Size)
	for _, t := range []time.Time{s.Modified, s.Changed} {
		if t.IsZero() {
			b = append(b, 0)
			continue
		}
		b = binary.AppendVarint(b, t.Unix())
		b = binary.AppendUvarint(b, uint64(t.Nanosecond()))
	}
	return b
}

// Young reports whether the file may change after now without its times
// telling. That is a matter of ctime, where there is one: mtime can be set to
// anything. A ctime in the future means that a clock was set back.
func (s *File) Young(now time.Time) bool {
	window := Tick
	if s.Modified.Nanosecond() == 0 && (s.Changed.IsZero() || s.Changed.Nanosecond() == 0) {
		window = Coarse
	}
	if !s.Changed.IsZero() && now.Sub(s.Changed) < window {
		return true
	}
	age := now.Sub(s.Modified)
	return age < window && (age > -window || s.Changed.IsZero())
}

// Same reports whether two readings of one file's state agree.
func (s *File) Same(o *File) bool {
	return s.Dev == o.Dev && s.Ino == o.Ino && s.Size == o.Size && s.Modified.Equal(o.Modified) && s.Changed.Equal(o.Changed)
}

// Settled is the stamp that a file has once its times are not young any
// more, if nobody writes to it. For one whose time was just set it may be kept
// at once: whoever writes later leaves the time of then, and the second that
// was set is over. For the same reason it was read after that, not before.
func (s *File) Settled() []byte {
	latest := s.Modified
	if s.Changed.After(latest) {
		latest = s.Changed
	}
	return s.Stamp(latest.Add(time.Hour))
}

// readSome calls f with what is in an open directory, some at a time.
func readSome(dir *os.File, f func([]fs.DirEntry) error) error {
	for {
		entries, err := dir.ReadDir(1024)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(entries); err != nil {
			return err
		}
	}
}
