package docroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/internal/stat"
)

// A tree is an opened docroot: the directory that it is at this moment, whatever happens to the symbolic
// links that lead to it.
type tree struct {
	path  string // absolute, without symbolic links
	root  *os.Root
	top   *os.File // root, open as a directory
	links []string // the symbolic links in the docroot's path, each as a path without other links
	users int      // guarded by trees.mu
}

// openTree opens a docroot as it is now.
func openTree(docroot string) (*tree, error) {
	abs, err := filepath.Abs(docroot)
	if err != nil {
		return nil, fmt.Errorf("docroot: %w", err)
	}
	path, links, err := follow("", abs)
	t := &tree{path: path, links: links}
	if err != nil {
		return t, fmt.Errorf("docroot: %w", err)
	}
	if t.root, err = os.OpenRoot(path); err != nil {
		return t, fmt.Errorf("docroot: %w", err)
	}
	if t.top, err = t.root.OpenFile(".", stat.Directory, 0); err != nil {
		t.root.Close()
		return t, fmt.Errorf("docroot: %w", err)
	}
	return t, nil
}

func (t *tree) close() {
	t.top.Close()
	t.root.Close()
}

// openDir opens a directory below the root. No symbolic link can lead out of it.
func (t *tree) openDir(real string) (*os.File, error) { return t.openAs(real, stat.Directory) }

// openFile opens a file in the same way, without blocking on a pipe.
func (t *tree) openFile(name string) (*os.File, error) { return t.openAs(name, stat.Quietly) }

// openAs falls back to os.Root where one system call cannot do it, or reports that it cannot be done: os.Root
// goes from directory to directory, and checks for links.
func (t *tree) openAs(name string, flags int) (*os.File, error) {
	if f := t.openBeneath(name, flags); f != nil {
		return f, nil
	}
	return t.root.OpenFile(name, flags, 0)
}

// inside returns a path without symbolic links as a path below the root, and false if it is not below.
func (t *tree) inside(path string) (real string, ok bool) {
	if path == t.path {
		return ".", true
	}
	real, ok = strings.CutPrefix(path, strings.TrimSuffix(t.path, string(filepath.Separator))+string(filepath.Separator))
	return real, ok
}

// abs is the reverse of inside.
func (t *tree) abs(real string) string { return filepath.Join(t.path, real) }

// maxFollow bounds the symbolic links of one path, as in most systems.
const maxFollow = 255

var errTooManyLinks = errors.New("too many symbolic links")

// follow resolves path, and returns the result without symbolic links, and the links that it followed. path
// is relative to dir, which has no symbolic links. With an error it returns the path at which that occurred.
func follow(dir, path string) (real string, links []string, err error) {
	const sep = string(filepath.Separator)
	root := func(p string) (string, string) {
		v := filepath.VolumeName(p)
		return v + sep, p[len(v):]
	}
	real = dir
	if filepath.IsAbs(path) {
		real, path = root(path)
	}
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, sep)
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		fi, err := os.Lstat(next)
		if err != nil {
			return next, links, err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links = append(links, next); len(links) > maxFollow {
			return next, links, &fs.PathError{Op: "follow", Path: next, Err: errTooManyLinks}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return next, links, err
		}
		target = filepath.FromSlash(target)
		if filepath.IsAbs(target) {
			real, target = root(target)
		}
		path = target + sep + path
	}
	return real, links, nil
}

// isGone reports whether an error means that nothing exists at a path.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// maxLinkedDirs bounds the symbolic links to directories in one place.
const maxLinkedDirs = 4

// A walkDir is a directory as a walk reaches it.
type walkDir struct {
	parent *walkDir
	place  string // "" for the root
	prefix string // its URL
	real   string // path below the root of the tree, without symbolic links; "." for the root
	links  int    // number of symbolic links to directories in place
	left   string // why all files below are left out; empty if they are not
	deep   bool   // the directories below are walked too
	plain  bool   // prefix is base + place, since no name had to be escaped
	own    ownKind
	free   bool     // robots.txt is known to forbid none of its files; set when it is listed
	only   []string // nil, or the names to which the walk of this directory is limited
}

// child returns the directory of the given name in d.
func (s *Site) child(d *walkDir, name string) *walkDir {
	escaped := escapeName(name)
	c := &walkDir{parent: d, place: joinPlace(d.place, name), prefix: d.prefix + escaped + "/",
		links: d.links, deep: d.deep, plain: d.plain && escaped == name}
	if filepath.Separator == '/' && d.real == d.place || d.parent == nil {
		c.real = c.place // shared string, where nothing is linked
	} else {
		c.real = filepath.Join(d.real, name)
	}
	if c.left = s.names.Dir(d.left, c.place, name); c.left == "" {
		s.mu.Lock()
		if s.own[c.place] {
			c.left = public.Own
		}
		s.mu.Unlock()
	}
	return c
}

// A linked is the target of a symbolic link: a directory to be walked or, with dir nil, a file.
type linked struct {
	dir   *walkDir
	real  string   // below the root, without symbolic links
	links []string // those that were followed; the first is the link itself
	left  string   // why it is left out; then dir is nil
}

// link follows the symbolic link of the given name in d, which is open as f. An error means that the target
// is unknown.
func (s *Site) link(t *tree, d *walkDir, f *os.File, name string) (l linked, err error) {
	path, links, err := follow(t.abs(d.real), name)
	l.links = links
	switch {
	case errors.Is(err, errTooManyLinks) || err != nil && isGone(err):
		l.left = leftDangling
		return l, nil
	case err != nil:
		return l, err
	}
	real, ok := t.inside(path)
	if !ok {
		l.left = leftOutside
		return l, nil
	}
	st, err := stat.At(f, name, true)
	switch {
	case err != nil && isGone(err):
		l.left = leftDangling
		return l, nil
	case err != nil:
		return l, err
	}
	l.real = real
	if st.Mode != fs.ModeDir {
		return l, nil
	}
	c := s.child(d, name)
	c.real = real
	if c.links++; c.links > maxLinkedDirs {
		l.left = leftNested
	}
	for p := d; p != nil; p = p.parent {
		if p.real == real {
			l.left = leftLoop
		}
	}
	if l.left == "" {
		l.dir = c
	}
	return l, nil
}
