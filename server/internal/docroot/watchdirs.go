package docroot

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// begin watches the paths that lead to the root, and all directories below it.
func (w *watcher) begin(ctx context.Context) error {
	t, err := openTree(w.site.Settings.Docroot)
	if t == nil {
		return err
	}
	if name, ok := w.site.robotsFile(t); ok {
		w.known.set(w.known.robots, name)
		w.site.settling.setRobots(name)
		w.guard(name)
	}
	for _, l := range t.links {
		w.guard(l)
	}
	w.guard(t.path) // or the existing part of it
	if err != nil {
		w.site.log().Warn("docroot cannot be watched until it can be opened", "err", err)
		return nil
	}
	defer t.close()
	if w.root, err = rootOf(t); err != nil {
		return errAgain
	}
	w.site.findOwn(t)
	return w.add(ctx, t, w.site.root())
}

// guard watches a path that leads to the root, or to robots.txt.
func (w *watcher) guard(path string) {
	w.known.set(w.known.guards, path)
	w.watch(filepath.Dir(path))
}

// rootOf returns the rootID of a tree.
func rootOf(t *tree) (rootID, error) {
	st, err := stat.Of(t.top)
	return rootID{t.path, dirID{st.Dev, st.Ino}}, err
}

// checkRoot returns errAgain if the docroot is another directory by now.
func (w *watcher) checkRoot() error {
	var now rootID
	if t, err := openTree(w.site.Settings.Docroot); err == nil {
		now, err = rootOf(t)
		t.close()
		if err != nil {
			now = rootID{}
		}
	}
	if now == w.root {
		return nil
	}
	w.site.log().Info("docroot is another directory now", "path", now.path)
	w.tell(nil)
	return errAgain
}

// watch adds a watch, if that can be done.
func (w *watcher) watch(dir string) {
	if w.full {
		return
	}
	err := w.fs.Add(dir)
	switch {
	case errors.Is(err, syscall.ENOSPC) && w.files.close(): // those are watched once from here on
		w.watch(dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE):
		w.full = true
		w.site.log().Warn("the system allows no more watches (fs.inotify.max_user_watches): changes in the other directories are found by the regular scan only",
			"watched", len(w.fs.WatchList()), "err", err)
	case err != nil && !isGone(err):
		w.site.log().Debug("directory cannot be watched", "dir", dir, "err", err)
	}
}

// restructure handles changes of directories. First it forgets those that are gone, then it watches those
// that are there: so the order of the events does not matter.
func (w *watcher) restructure(ctx context.Context) error {
	changed, guarded, again := w.known.takeChanged(w.root.path)
	if guarded {
		if err := w.checkRoot(); err != nil {
			return err
		}
	}
	if again {
		w.tell(nil)
		return errAgain
	}
	if w.root.path == "" {
		return nil
	}
	var appeared []string
	for _, p := range slices.Sorted(maps.Keys(changed)) {
		st, err := stat.Path(p)
		isDir := err == nil && st.Mode.IsDir()
		// A directory created anew may have the inode number of the one that has gone.
		if isDir && !changed[p].left && w.known.pathOf(dirID{st.Dev, st.Ino}) == p {
			continue // it existed before its parent was listed
		}
		w.forget(p)
		if isDir || err == nil && st.Mode&fs.ModeSymlink != 0 {
			appeared = append(appeared, p)
		}
	}
	if len(appeared) == 0 {
		return nil
	}
	t, err := openTree(w.site.Settings.Docroot)
	if err == nil {
		defer t.close()
	}
	if err != nil || t.path != w.root.path {
		return errAgain
	}
	for _, p := range appeared {
		if err := w.appear(ctx, t, p); err != nil {
			return err
		}
	}
	return nil
}

// forget ends the watches of a directory and of all below it. After a rename those would go on under their
// old names.
func (w *watcher) forget(path string) {
	paths := w.known.forget(path)
	for _, p := range paths {
		_ = w.fs.Remove(p) // it may be gone already
		w.files.remove(p)
	}
	if len(paths) > 0 {
		w.settling(path, otherDir)
	}
}

// appear handles a directory or a symbolic link that now stands at path.
func (w *watcher) appear(ctx context.Context, t *tree, path string) error {
	dir, name := filepath.Split(path)
	for _, d := range w.known.places(filepath.Clean(dir)) {
		f, err := t.openDir(d.real)
		if err != nil {
			continue // its own event will come
		}
		var c *walkDir
		if st, err := stat.At(f, name, false); err == nil {
			c = w.entry(t, d, f, name, st.Mode)
		}
		f.Close()
		if c == nil {
			continue
		}
		if err := w.add(ctx, t, c); err != nil {
			return err
		}
		path := t.abs(c.real)
		w.known.set(w.known.fresh, path)
		w.settling(path, otherDir)
	}
	return nil
}

// entry returns the directory of the given name in d if it is to be watched, and remembers symbolic links.
func (w *watcher) entry(t *tree, d *walkDir, f *os.File, name string, mode fs.FileMode) *walkDir {
	s := w.site
	switch {
	case mode.IsDir():
		if c := s.child(d, name); c.left == "" {
			return c
		}
	case mode&fs.ModeSymlink != 0:
		l, err := s.link(t, d, f, name)
		if err != nil || l.left != "" {
			return nil
		}
		for i, path := range l.links {
			if i > 0 || l.dir != nil {
				w.known.set(w.known.links, path)
			}
			if i > 0 {
				w.watch(filepath.Dir(path))
			}
		}
		if l.dir != nil {
			if l.dir.left == "" {
				return l.dir
			}
			return nil
		}
		if s.names.File(d.left, joinPlace(d.place, name), name) == "" {
			if target := t.abs(l.real); w.known.alias(target, d) {
				w.watch(filepath.Dir(target))
			}
		}
	}
	return nil
}

// add watches a directory and all below it. Each is watched before it is listed, so that no entry can appear
// unseen in between.
func (w *watcher) add(ctx context.Context, t *tree, top *walkDir) error {
	for stack := []*walkDir{top}; len(stack) > 0; {
		if ctx.Err() != nil {
			return nil
		}
		d := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f, err := t.openDir(d.real)
		if err != nil {
			continue
		}
		stack = append(stack, w.addOne(t, d, f)...)
		f.Close()
	}
	return nil
}

// addOne watches the directory d, which is open as f, and returns its subdirectories.
func (w *watcher) addOne(t *tree, d *walkDir, f *os.File) []*walkDir {
	st, err := stat.Of(f)
	if err != nil {
		return nil
	}
	path, id := t.abs(d.real), dirID{st.Dev, st.Ino}
	if old := w.known.pathOf(id); old != "" && old != path {
		w.forget(old) // renamed: the system would report its events under the old names
	}
	w.known.add(path, id, d)
	w.watch(path)
	w.files.add(path)
	var list []*walkDir
	_ = stat.ReadDir(f, func(entries []fs.DirEntry) error { // Scan reports unreadable directories
		for _, e := range entries {
			if c := w.entry(t, d, f, e.Name(), e.Type()); c != nil {
				list = append(list, c)
			}
		}
		return nil
	})
	return list
}

// settled reports paths that have settled, and with them those that have left. It returns true if one is a hard-linked
// file, whose other names are unknown.
func (w *watcher) settled(due []changing, left []string, now time.Time) (linked bool) {
	all := false
	scopes := make(map[inventory.Scope]bool)
	for _, c := range due {
		if list, robots := w.known.scopes(w.site, c.path, false); robots || len(list) > 0 {
			st, err := stat.Path(c.path)
			if err == nil && st.Mode.IsRegular() {
				if st.Size == 0 && w.site.settling.wait(c, now) {
					continue
				}
				linked = linked || st.Links > 1
			}
		}
		if !w.site.settling.done(c, now) {
			continue
		}
		list, robots := w.known.scopes(w.site, c.path, true)
		for _, s := range list {
			scopes[s] = true
		}
		all = all || robots
	}
	if len(scopes) > 0 {
		for _, path := range left { // which will be reported again when they have settled
			list, _ := w.known.scopes(w.site, path, false)
			for _, s := range list {
				scopes[s] = true
			}
		}
	}
	switch {
	case all:
		w.tell(nil)
	case len(scopes) > 0:
		w.tell(slices.Collect(maps.Keys(scopes)))
	}
	return linked
}
