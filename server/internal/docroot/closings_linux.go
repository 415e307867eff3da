package docroot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// maxClosings bounds the directories that closings watches: each costs about 300 bytes of memory, half of it the kernel's. Files of
// the others are debounced.
const maxClosings = 1 << 16

// closings reports when writers close files, and when files are renamed: fsnotify reports no IN_CLOSE_WRITE, and cannot tell
// IN_MOVED_TO from IN_CREATE. It reports the other events of these files, too, since those of two inotify instances
// have no common order.
type closings struct {
	mu   sync.Mutex // guards the fields below
	file *os.File   // the inotify instance, nil if there is none
	fd   int
	dirs map[int]string
	ids  map[string]int // of dirs
}

// open begins. If the system allows no further inotify instance, nothing is watched.
func (c *closings) open() {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		c.file, c.fd, c.dirs, c.ids = os.NewFile(uintptr(fd), "inotify"), fd, map[int]string{}, map[string]int{}
	}
}

// close ends all watches, and read. It reports whether there were any.
func (c *closings) close() (any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		c.file.Close()
	}
	any = len(c.dirs) > 0
	c.file, c.dirs, c.ids = nil, nil, nil
	return any
}

func (c *closings) add(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil || len(c.dirs) >= maxClosings {
		return
	}
	id, err := unix.InotifyAddWatch(c.fd, dir, unix.IN_ONLYDIR|unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_MODIFY|
		unix.IN_CREATE|unix.IN_ATTRIB|unix.IN_MOVED_FROM|unix.IN_DELETE)
	if err == nil {
		c.dirs[id], c.ids[dir] = dir, id
	}
}

func (c *closings) remove(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.ids[dir]; ok {
		_, _ = unix.InotifyRmWatch(c.fd, uint32(id)) // the directory may be gone already
		c.forget(id)
	}
}

// forget removes a directory, while mu is held. By then another one may have its path.
func (c *closings) forget(id int) {
	if dir := c.dirs[id]; c.ids[dir] == id {
		delete(c.ids, dir)
	}
	delete(c.dirs, id)
}

// has reports whether the events of a directory's files are reported.
func (c *closings) has(dir string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.ids[dir]
	return ok
}

// read reports events until close is called.
func (c *closings) read(note func(path string, e event)) error {
	c.mu.Lock()
	f := c.file
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	buf := make([]byte, 1<<16)
	for {
		n, err := f.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			id, mask := int(int32(binary.NativeEndian.Uint32(b))), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + binary.NativeEndian.Uint32(b[12:])
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))
			b = b[end:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				return fsnotify.ErrEventOverflow
			}
			c.mu.Lock()
			dir, known := c.dirs[id]
			if mask&unix.IN_IGNORED != 0 {
				c.forget(id)
			}
			c.mu.Unlock()
			if known && name != "" {
				note(filepath.Join(dir, name), eventOf(mask))
			}
		}
	}
}

func eventOf(mask uint32) event {
	switch {
	case mask&unix.IN_ISDIR != 0 && mask&unix.IN_ATTRIB == 0:
		return otherDir
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		return left
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0:
		return complete
	case mask&unix.IN_MODIFY != 0:
		return written
	case mask&unix.IN_CREATE != 0:
		return created
	}
	return touched
}
