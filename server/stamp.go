package server

import (
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"time"
)

// A fileStat is what the file system says of a file. What it does not know is zero.
type fileStat struct {
	mode         fs.FileMode // the type alone
	size         int64
	links        uint64 // names that the file has
	dev, ino     uint64
	mtime, ctime time.Time // ctime: when content or inode last changed; nobody can set it
}

// Two writes so close together can leave the same times behind.
const (
	racyFine   = 50 * time.Millisecond // kernels count time in ticks of up to 10 ms
	racyCoarse = 2 * time.Second       // FAT and others keep no fractions
)

// stamp encodes what must be equal for a file not to be read again: device,
// inode, size, mtime and ctime. It is equality that counts, never "newer
// than": times go backwards when a file is replaced by an older one. It is
// empty for a file whose times are so close to now, when they were read, that
// a later write could leave the same ones: it must be read again next time.
func (s *fileStat) stamp(now time.Time) []byte {
	if s.racy(now) {
		return nil
	}
	b := make([]byte, 0, 40)
	b = binary.AppendUvarint(b, s.dev)
	b = binary.AppendUvarint(b, s.ino)
	b = binary.AppendVarint(b, s.size)
	for _, t := range []time.Time{s.mtime, s.ctime} {
		if t.IsZero() {
			b = append(b, 0)
			continue
		}
		b = binary.AppendVarint(b, t.Unix())
		b = binary.AppendUvarint(b, uint64(t.Nanosecond()))
	}
	return b
}

// racy reports whether the file may change after now without its times
// telling. That is a matter of ctime, where there is one: mtime can be set to
// anything. A ctime in the future means that a clock was set back.
func (s *fileStat) racy(now time.Time) bool {
	window := racyFine
	if s.mtime.Nanosecond() == 0 && (s.ctime.IsZero() || s.ctime.Nanosecond() == 0) {
		window = racyCoarse
	}
	if !s.ctime.IsZero() && now.Sub(s.ctime) < window {
		return true
	}
	age := now.Sub(s.mtime)
	return age < window && (age > -window || s.ctime.IsZero())
}

// same reports whether two readings of one file's state agree.
func (s *fileStat) same(o *fileStat) bool {
	return s.dev == o.dev && s.ino == o.ino && s.size == o.size && s.mtime.Equal(o.mtime) && s.ctime.Equal(o.ctime)
}

// settledStamp is the stamp that a file has once its times are not young any
// more, if nobody writes to it. For one whose time was just set it may be kept
// at once: whoever writes later leaves the time of then, and the second that
// was set is over. For the same reason it was read after that, not before.
func (s *fileStat) settledStamp() []byte {
	latest := s.mtime
	if s.ctime.After(latest) {
		latest = s.ctime
	}
	return s.stamp(latest.Add(time.Hour))
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
