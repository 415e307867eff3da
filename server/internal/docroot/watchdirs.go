package docroot

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parleyweb/parley/internal/pause"
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
		w.mu.Lock()
		w.robots = name
		w.mu.Unlock()
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
	return w.add(ctx, t, w.site.root())
}

// guard watches a path that leads to the root, or to robots.txt.
func (w *watcher) guard(path string) {
	w.mu.Lock()
	w.guards[path] = true
	w.mu.Unlock()
	w.watch(filepath.Dir(path))
}

// rootOf returns the rootID of a tree.
func rootOf(t *tree) (rootID, error) {
	f, err := t.root.OpenFile(".", stat.Directory, 0)
	if err != nil {
		return rootID{}, err
	}
	defer f.Close()
	st, err := stat.Of(f)
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

// watch adds a watch, and reports whether it succeeded.
func (w *watcher) watch(dir string) bool {
	w.mu.Lock()
	full := w.full
	w.mu.Unlock()
	if full {
		return false
	}
	err := w.fs.Add(dir)
	switch {
	case err == nil:
		return true
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE):
		w.mu.Lock()
		w.full = true
		n := len(w.dirs)
		w.mu.Unlock()
		w.site.log().Warn("the system allows no more watches (fs.inotify.max_user_watches): changes in the other directories are found by the regular scan only",
			"watched", n, "err", err)
	case !isGone(err):
		w.site.log().Debug("directory cannot be watched", "dir", dir, "err", err)
	}
	return false
}

// restructure handles changes of directories. First it forgets those that are gone, then it watches those
// that are there: so the order of the events does not matter.
func (w *watcher) restructure(ctx context.Context) error {
	w.mu.Lock()
	changed, left := w.changed, w.left
	w.changed, w.left = make(map[string]bool), make(map[string]bool)
	guarded, again := false, false
	for p, other := range changed {
		guarded = guarded || w.guards[p]
		// A link that others depend on leads elsewhere, or the system has ended the watch of the root.
		again = again || other && (w.links[p] || p == w.root.path)
	}
	w.mu.Unlock()
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
		if isDir && !left[p] && w.isWatched(p, dirID{st.Dev, st.Ino}) {
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

// isWatched reports whether the directory with this id is watched under this path.
func (w *watcher) isWatched(path string, id dirID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.dirs[path]
	return x != nil && x.id == id && id != dirID{}
}

// forget ends the watches of a directory and of all below it. After a rename those would go on under their
// old names.
func (w *watcher) forget(path string) {
	w.mu.Lock()
	top := w.dirs[path]
	if top == nil {
		w.mu.Unlock()
		return
	}
	var paths []string
	var scopes []inventory.Scope
	for p, x := range w.dirs {
		if p != path && !strings.HasPrefix(p, path+string(filepath.Separator)) {
			continue
		}
		paths = append(paths, p)
		for _, d := range x.at {
			if p == path || !below(d.prefix, top.at) {
				scopes = append(scopes, inventory.Scope{Prefix: d.prefix, Deep: true})
			}
		}
		delete(w.byID, x.id)
	}
	for _, p := range paths {
		delete(w.dirs, p)
	}
	w.gone[path] = append(w.gone[path], scopes...)
	w.mu.Unlock()
	for _, p := range paths {
		_ = w.fs.Remove(p) // it may be gone already
	}
	w.site.settling.note(path, time.Now())
	pause.Wake(w.noted)
}

func below(prefix string, dirs []*walkDir) bool {
	return slices.ContainsFunc(dirs, func(d *walkDir) bool { return strings.HasPrefix(prefix, d.prefix) })
}

// appear handles a directory or a symbolic link that now stands at path.
func (w *watcher) appear(ctx context.Context, t *tree, path string) error {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	w.mu.Lock()
	var at []*walkDir
	if x := w.dirs[dir]; x != nil {
		at = slices.Clone(x.at)
	}
	w.mu.Unlock()
	for _, d := range at {
		f, err := t.root.OpenFile(d.real, stat.Directory, 0)
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
		w.mu.Lock()
		w.fresh[path] = true
		w.mu.Unlock()
		w.site.settling.note(path, time.Now())
		pause.Wake(w.noted)
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
		w.mu.Lock()
		for i, path := range l.links {
			if i > 0 || l.dir != nil {
				w.links[path] = true
			}
		}
		w.mu.Unlock()
		for _, path := range l.links[1:] {
			w.watch(filepath.Dir(path))
		}
		if l.dir != nil {
			if l.dir.left == "" {
				return l.dir
			}
			return nil
		}
		if s.names.File(d.left, joinPlace(d.place, name), name) == "" {
			w.alias(t.abs(l.real), d)
		}
	}
	return nil
}

// alias records that a symbolic link to a file stands in d. Its target may lie in a directory that is not
// watched otherwise.
func (w *watcher) alias(target string, d *walkDir) {
	dir := filepath.Dir(target)
	w.mu.Lock()
	if !slices.ContainsFunc(w.aliases[target], func(o *walkDir) bool { return o.prefix == d.prefix }) {
		w.aliases[target] = append(w.aliases[target], d)
	}
	known := w.dirs[dir] != nil
	if !known {
		w.dirs[dir] = &watched{}
	}
	w.mu.Unlock()
	if !known {
		w.watch(dir)
	}
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
		f, err := t.root.OpenFile(d.real, stat.Directory, 0)
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
	w.mu.Lock()
	old := w.byID[id]
	w.mu.Unlock()
	if id != (dirID{}) && old != "" && old != path {
		w.forget(old) // renamed: the system would report its events under the old names
	}
	w.mu.Lock()
	x := w.dirs[path]
	if x == nil {
		x = &watched{}
		w.dirs[path] = x
	}
	delete(w.byID, x.id)
	x.id = id
	if id != (dirID{}) {
		w.byID[id] = path
	}
	x.at = slices.DeleteFunc(x.at, func(o *walkDir) bool { return o.prefix == d.prefix })
	x.at = append(x.at, d)
	w.mu.Unlock()
	w.watch(path)
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

// settled reports paths that have settled. It returns true if one is a hard-linked file, whose other names
// are unknown.
func (w *watcher) settled(due []changing, now time.Time) (linked bool) {
	w.mu.Lock()
	robots := w.robots
	w.mu.Unlock()
	all := false
	scopes := make(map[inventory.Scope]bool)
	for _, c := range due {
		if c.path == robots || len(w.scopes(c.path, false)) > 0 {
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
		for _, s := range w.scopes(c.path, true) {
			scopes[s] = true
		}
		all = all || c.path == robots
	}
	switch {
	case all:
		w.tell(nil)
	case len(scopes) > 0:
		w.tell(slices.Collect(maps.Keys(scopes)))
	}
	return linked
}

// scopes returns the scopes to scan because of a change at path. With told, it forgets those that are to be
// reported only once.
func (w *watcher) scopes(path string, told bool) (list []inventory.Scope) {
	dir, name := filepath.Split(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.dirs[filepath.Clean(dir)]; x != nil {
		for _, d := range x.at {
			if w.mayBePage(d, name) {
				list = append(list, inventory.Scope{Prefix: d.prefix})
			}
		}
	}
	for _, d := range w.aliases[path] {
		list = append(list, inventory.Scope{Prefix: d.prefix})
	}
	if x := w.dirs[path]; x != nil {
		for _, d := range x.at {
			list = append(list, inventory.Scope{Prefix: d.prefix, Deep: w.fresh[path]})
		}
	}
	list = append(list, w.gone[path]...)
	if told {
		delete(w.fresh, path)
		delete(w.gone, path)
	}
	return list
}

// mayBePage reports whether a file of the given name in d could ever be published.
func (w *watcher) mayBePage(d *walkDir, name string) bool {
	place := joinPlace(d.place, name)
	if w.site.names.File(d.left, place, name) != "" {
		return false
	}
	w.site.mu.Lock()
	defer w.site.mu.Unlock()
	return !ownOutput(w.site.own, place)
}
