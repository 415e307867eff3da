package docroot

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/parleyweb/parley/server/inventory"
)

// knownPaths is what a watcher knows of a tree: which directories it watches, at which places of the site they
// are, and which paths matter otherwise. Paths are absolute and without symbolic links. Any goroutine may call
// its methods, none of which reads the disk.
type knownPaths struct {
	mu      sync.Mutex // guards what follows
	changed map[string]change
	dirs    map[string]*watched
	byID    map[dirID]string             // the paths of dirs
	aliases map[string][]*walkDir        // by file: the directories with symbolic links to it
	links   map[string]bool              // symbolic links that lead to directories or to other links
	guards  map[string]bool              // paths that determine which directory the root is
	fresh   map[string]bool              // new directories
	gone    map[string][]inventory.Scope // scopes to scan for directories that are gone, by their path
	robots  map[string]bool              // robots.txt, if it is a file
}

// A change is what happened to a path that may be a directory or a link.
type change struct {
	other bool // another file may stand there now
	left  bool // the file was removed or renamed
}

// watched is a directory that is watched.
type watched struct {
	id dirID
	at []*walkDir // its places in the site: several if symbolic links lead to it
}

// A dirID identifies a directory whatever its path. It is zero where the system has no such id.
type dirID struct{ dev, ino uint64 }

// note records an event. It reports whether the path is inside the tree, or is robots.txt, and whether a
// directory or the root may have changed.
func (k *knownPaths) note(ev fsnotify.Event) (inside, structure bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	isDir := k.dirs[ev.Name] != nil
	inside = isDir || k.dirs[filepath.Dir(ev.Name)] != nil || k.robots[ev.Name]
	if !inside && !k.guards[ev.Name] && !k.links[ev.Name] {
		return false, false // beside the root, or no longer in it
	}
	left := ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	other := left || ev.Has(fsnotify.Create)
	structure = other || ev.Has(fsnotify.Chmod) && !isDir // perhaps a directory that was unreadable before
	if structure {
		c := k.changed[ev.Name]
		k.changed[ev.Name] = change{other: c.other || other, left: c.left || left}
	}
	return inside, structure
}

// takeChanged returns the changes since its last call. It reports whether the root may be another directory, and
// whether everything must be watched anew.
func (k *knownPaths) takeChanged(root string) (changed map[string]change, guarded, again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, k.changed = k.changed, make(map[string]change)
	for p, c := range changed {
		guarded = guarded || k.guards[p]
		// A link that others depend on leads elsewhere, or the system has ended the watch of the root.
		again = again || c.other && (k.links[p] || p == root)
	}
	return changed, guarded, again
}

// set adds a path to one of the sets.
func (k *knownPaths) set(m map[string]bool, path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m[path] = true
}

// pathOf returns the path under which a directory is watched, empty if it is not, or has no id.
func (k *knownPaths) pathOf(id dirID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byID[id]
}

// places returns the places of a directory in the site.
func (k *knownPaths) places(path string) []*walkDir {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.dirs[path]; x != nil {
		return slices.Clone(x.at)
	}
	return nil
}

// add adds a directory, or another place of one.
func (k *knownPaths) add(path string, id dirID, d *walkDir) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.dirs[path]
	if x == nil {
		x = &watched{}
		k.dirs[path] = x
	}
	delete(k.byID, x.id)
	x.id = id
	if id != (dirID{}) {
		k.byID[id] = path
	}
	x.at = slices.DeleteFunc(x.at, func(o *walkDir) bool { return o.prefix == d.prefix })
	x.at = append(x.at, d)
}

// alias records that a symbolic link to a file stands in d. It reports whether the file's directory is not watched
// yet: it may lie anywhere below the root.
func (k *knownPaths) alias(target string, d *walkDir) (unwatched bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.ContainsFunc(k.aliases[target], func(o *walkDir) bool { return o.prefix == d.prefix }) {
		k.aliases[target] = append(k.aliases[target], d)
	}
	dir := filepath.Dir(target)
	if k.dirs[dir] != nil {
		return false
	}
	k.dirs[dir] = &watched{}
	return true
}

// forget removes a directory and all below it, and returns their paths.
func (k *knownPaths) forget(path string) (paths []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	top := k.dirs[path]
	if top == nil {
		return nil
	}
	for p, x := range k.dirs {
		if p != path && !strings.HasPrefix(p, path+string(filepath.Separator)) {
			continue
		}
		paths = append(paths, p)
		for _, d := range x.at {
			below := func(o *walkDir) bool { return strings.HasPrefix(d.prefix, o.prefix) }
			if p == path || !slices.ContainsFunc(top.at, below) {
				k.gone[path] = append(k.gone[path], inventory.Scope{Prefix: d.prefix, Deep: true})
			}
		}
		delete(k.byID, x.id)
		delete(k.dirs, p)
	}
	return paths
}

// scopes returns the scopes to scan because of a change at path, and whether that is robots.txt. With told, it
// forgets those that are to be reported only once.
func (k *knownPaths) scopes(s *Site, path string, told bool) (list []inventory.Scope, robots bool) {
	dir, name := filepath.Split(path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.dirs[filepath.Clean(dir)]; x != nil {
		for _, d := range x.at {
			if s.mayBePage(d, name) {
				list = append(list, inventory.Scope{Page: d.prefix + s.urls.tail(name)})
			}
		}
	}
	for _, d := range k.aliases[path] {
		list = append(list, inventory.Scope{Prefix: d.prefix})
	}
	if x := k.dirs[path]; x != nil {
		for _, d := range x.at {
			list = append(list, inventory.Scope{Prefix: d.prefix, Deep: k.fresh[path]})
		}
	}
	list = append(list, k.gone[path]...)
	if told {
		delete(k.fresh, path)
		delete(k.gone, path)
	}
	return list, k.robots[path]
}

// mayBePage reports whether a file of the given name in d could ever be published.
func (s *Site) mayBePage(d *walkDir, name string) bool {
	place := joinPlace(d.place, name)
	if s.names.File(d.left, place, name) != "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !ownOutput(s.own, place)
}
