// Package stat reads the metadata of files, without following a link or blocking on a pipe where that could
// do harm, and makes stamps of it: equal stamps, equal bytes.
package stat

import (
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"time"
)

// A File is the metadata of a file. Unknown fields are zero.
type File struct {
	Mode              fs.FileMode // the type bits only
	Size              int64
	Links             uint64 // number of hard links
	Dev, Ino          uint64
	Modified, Changed time.Time // mtime and ctime. ctime is when content or inode last changed; nobody can set it
}

// Two writes this close together can leave the same times.
const (
	Tick   = 50 * time.Millisecond // kernels count time in ticks of up to 10 ms
	Coarse = 2 * time.Second       // FAT and others keep no fractions
)

// Stamp encodes what must be equal for a file not to be read again: device, inode, size, mtime and ctime.
// Only equality counts, never "newer than": times go backwards when a file is replaced by an older one. The
// stamp is empty if the times are so close to now, when they were read, that a later write could leave the
// same ones: the file must be read again next time.
func (s *File) Stamp(now time.Time) []byte {
	if s.Young(now) {
		return nil
	}
	return s.Settled(make([]byte, 0, 40))
}

// Settled appends the stamp that a file will have once its times are no longer young, if nobody writes to it.
// For a file whose mtime was just set the stamp may be stored at once: a later write leaves the time of that
// write, and the second that was set is over. For the same reason the file must be read after the setting,
// not before.
func (s *File) Settled(b []byte) []byte {
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

// Young reports whether the file may change after now without a change of its times. That depends on ctime,
// where there is one: mtime can be set to anything. A ctime in the future means that a clock was set back.
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

// readSome calls f with the entries of an open directory, some at a time.
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
