package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// Look walks the docroot, as [Inventory] says; no file is opened but
// robots.txt. It goes by level, since that is the order of URLs: all
// directories of one depth, ordered by URL, and in each of them its files. So
// it remembers the directories of two levels and the names in one directory.
//
// Dot directories are not entered; they are reported once, without a URL. A
// scope whose directory does not exist, or is never public, yields nothing. A
// docroot that does not exist or cannot be read ends the walk with an error,
// as does a robots.txt that cannot be read. robots.txt is read again by every
// look at everything.
func (s *Site) Look(ctx context.Context, scopes []Scope) iter.Seq2[Offer, error] {
	return func(yield func(Offer, error) bool) {
		w := walk{site: s, yield: yield}
		if err := w.run(ctx, scopes); err != nil && err != errStop {
			yield(Offer{}, err)
		}
	}
}

// errStop says that the caller of Look wants no more.
var errStop = errors.New("stop")

// A walk is one Look.
type walk struct {
	site  *Site
	tree  *tree
	rules *robots.File
	own   map[string]bool
	yield func(Offer, error) bool
	files []file            // of the present directory
	links map[string]string // of the present directory: where a symbolic link to a file leads, below the root
}

// A file is what a directory holds, but for directories. A directory may hold
// a million, so it has no more than it must.
type file struct {
	tail string // of its URL, after that of the directory
	name string
	kind fileKind
}

type fileKind byte

const (
	regularFile fileKind = iota // or a symbolic link to one, within the root
	outsideFile                 // a symbolic link that leads out of the root
	irregularFile
)

func (w *walk) run(ctx context.Context, scopes []Scope) error {
	s := w.site
	if err := s.Check(); err != nil {
		return err
	}
	t, err := s.openTree()
	if err != nil {
		return err
	}
	w.tree = t
	s.share(t)
	defer s.release(t)
	if err := w.prepare(ctx, len(scopes) == 0); err != nil {
		return err
	}
	starts, err := w.starts(scopes)
	if err != nil {
		return err
	}
	var level []*walkDir
	for len(level) > 0 || len(starts) > 0 {
		depth := 0
		if len(level) > 0 {
			depth = protocol.Depth(level[0].prefix)
		}
		joined := false
		for len(starts) > 0 && (len(level) == 0 || protocol.Depth(starts[0].prefix) <= depth) {
			depth = protocol.Depth(starts[0].prefix)
			level, starts, joined = append(level, starts[0]), starts[1:], true
		}
		if joined {
			slices.SortFunc(level, func(a, b *walkDir) int { return strings.Compare(a.prefix, b.prefix) })
		}
		var next []*walkDir
		for i, d := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			if next, err = w.dir(ctx, d, next); err != nil {
				return err
			}
			level[i] = nil
		}
		level = next
	}
	return nil
}

func (w *walk) prepare(ctx context.Context, whole bool) (err error) {
	s := w.site
	s.mu.Lock()
	w.rules = s.robots
	s.mu.Unlock()
	if whole || w.rules == nil {
		if w.rules, err = s.readRules(ctx, w.tree); err != nil {
			return err
		}
	}
	s.mu.Lock()
	w.own = s.own
	s.mu.Unlock()
	return nil
}

// root returns the walkDir that every walk comes from.
func (s *Site) root() *walkDir { return &walkDir{prefix: s.urls.base, real: ".", deep: true} }

// starts returns where to begin for the given scopes, ordered by URL, none
// within another.
func (w *walk) starts(scopes []Scope) ([]*walkDir, error) {
	root := w.site.root()
	if len(scopes) == 0 {
		return []*walkDir{root}, nil
	}
	scopes = slices.Clone(scopes)
	slices.SortFunc(scopes, func(a, b Scope) int { return protocol.Compare(a.Prefix, b.Prefix) })
	deep := make(map[string]bool)
	for _, sc := range scopes {
		if sc.Deep {
			deep[sc.Prefix] = true
		}
	}
	var starts []*walkDir
	for i, sc := range scopes {
		if i > 0 && sc.Prefix == scopes[i-1].Prefix || w.within(sc.Prefix, deep) {
			continue
		}
		d, err := w.enter(root, sc)
		if err != nil {
			return nil, err
		}
		if d != nil {
			d.deep = deep[sc.Prefix]
			starts = append(starts, d)
		}
	}
	return starts, nil
}

// within reports whether a prefix lies below one of those in deep.
func (w *walk) within(prefix string, deep map[string]bool) bool {
	for len(prefix) > len(w.site.urls.base) {
		prefix = prefix[:strings.LastIndexByte(prefix[:len(prefix)-1], '/')+1]
		if deep[prefix] {
			return true
		}
	}
	return false
}

// enter goes down from the root to the directory of a scope, by the same rules
// as a walk. It returns nil if a walk would not come there, or nothing is there.
func (w *walk) enter(root *walkDir, sc Scope) (*walkDir, error) {
	place, ok := w.site.urls.dir(sc.Prefix)
	if !ok {
		return nil, nil
	}
	d := *root
	if place == "" {
		return &d, nil
	}
	at := &d
	for name := range strings.SplitSeq(place, "/") {
		next, err := w.down(at, name)
		if err != nil {
			return nil, w.unseen(sc.Prefix, err)
		}
		if next == nil {
			return nil, nil
		}
		at = next
	}
	return at, nil
}

func (w *walk) down(d *walkDir, name string) (*walkDir, error) {
	c := w.site.child(d, name)
	if c.left == leftHidden || len(c.prefix) > protocol.MaxURL {
		return nil, nil
	}
	f, err := w.tree.root.OpenFile(d.real, openDir, 0)
	if err != nil {
		return nil, ignoreGone(err)
	}
	defer f.Close()
	st, err := statAt(f, name, false)
	if err != nil {
		return nil, ignoreGone(err)
	}
	switch st.mode {
	case fs.ModeDir:
		return c, nil
	case fs.ModeSymlink:
		l, err := w.site.link(w.tree, d, f, name)
		return l.dir, err
	}
	return nil, nil
}

func ignoreGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// unseen yields an UnseenError.
func (w *walk) unseen(prefix string, err error) error {
	if !w.yield(Offer{}, &UnseenError{Prefix: prefix, Err: err}) {
		return errStop
	}
	return nil
}

// dir yields what stands in a directory, and appends the directories in it to next.
func (w *walk) dir(ctx context.Context, d *walkDir, next []*walkDir) ([]*walkDir, error) {
	f, err := w.tree.root.OpenFile(d.real, openDir, 0)
	w.files = w.files[:0]
	clear(w.links)
	first := len(next)
	var stop error
	if err == nil {
		defer f.Close()
		err = readDir(f, func(entries []fs.DirEntry) error {
			for _, e := range entries {
				var c *walkDir
				if c, stop = w.entry(d, f, e.Name(), e.Type()); stop != nil {
					return stop
				}
				if c != nil && d.deep {
					next = append(next, c)
				}
			}
			return ctx.Err()
		})
	}
	switch {
	case stop != nil:
		return nil, stop
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
	case d.parent == nil:
		return nil, fmt.Errorf("docroot: %w", err)
	case isGone(err):
		return next[:first], nil
	default:
		return next[:first], w.unseen(d.prefix, err)
	}
	slices.SortFunc(next[first:], func(a, b *walkDir) int { return strings.Compare(a.prefix, b.prefix) })
	// Of two files with one URL, the one that is called so stands first.
	slices.SortFunc(w.files, func(a, b file) int {
		if c := strings.Compare(a.tail, b.tail); c != 0 {
			return c
		}
		return len(a.name) - len(b.name)
	})
	// Systems may give a name twice if it is made anew while they list.
	next = append(next[:first], slices.CompactFunc(next[first:], func(a, b *walkDir) bool { return a.place == b.place })...)
	w.files = slices.CompactFunc(w.files, func(a, b file) bool { return a.name == b.name })
	now := time.Now()
	for i := 0; i < len(w.files); {
		j := i + 1
		for j < len(w.files) && w.files[j].tail == w.files[i].tail {
			j++
		}
		if err := w.same(d, f, now, w.files[i:j]); err != nil {
			return nil, err
		}
		if i = j; i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return next, nil
}

// entry takes in what a directory holds: a file, or a directory, which it returns if it is to be walked.
func (w *walk) entry(d *walkDir, f *os.File, name string, mode fs.FileMode) (*walkDir, error) {
	s := w.site
	switch {
	case mode.IsDir():
		c := s.child(d, name)
		switch {
		case c.left == leftHidden:
			return nil, w.leftOut(c.place+"/", leftHidden)
		case len(c.prefix) > protocol.MaxURL:
			return nil, w.leftOut(c.place+"/", leftLongURL)
		}
		return c, nil
	case name[0] == '.' && s.names.dir(d.left, joinPlace(d.place, name), name) == leftHidden:
		return nil, w.leftOut(joinPlace(d.place, name), leftHidden) // wherever it may lead
	case mode&fs.ModeSymlink != 0:
		l, err := s.link(w.tree, d, f, name)
		switch {
		case err != nil:
			return nil, w.unseen(d.prefix+escapeName(name), err)
		case l.left == leftOutside:
			w.files = append(w.files, file{s.urls.tail(name), name, outsideFile})
		case l.left != "":
			return nil, w.leftOut(joinPlace(d.place, name), l.left)
		case l.dir != nil:
			if len(l.dir.prefix) > protocol.MaxURL {
				return nil, w.leftOut(l.dir.place+"/", leftLongURL)
			}
			return l.dir, nil
		default:
			w.files = append(w.files, file{s.urls.tail(name), name, regularFile})
			if w.links == nil {
				w.links = make(map[string]string)
			}
			w.links[name] = l.real
		}
		return nil, nil
	}
	kind := regularFile
	if !mode.IsRegular() {
		kind = irregularFile
	}
	w.files = append(w.files, file{s.urls.tail(name), name, kind})
	return nil, nil
}

// leftOut yields what has no URL and is left out.
func (w *walk) leftOut(place, left string) error {
	if !w.yield(Offer{Place: place, LeftOut: left, Length: -1}, nil) {
		return errStop
	}
	return nil
}

// same yields the files of one URL, which is but one file as a rule. The first
// that nothing is against has the URL; if there is none, the first of all.
func (w *walk) same(d *walkDir, f *os.File, now time.Time, list []file) error {
	var offers []Offer
	winner := -1
	for _, x := range list {
		o, ok, err := w.offer(d, f, now, x)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if len(list) == 1 {
			if !w.yield(o, nil) {
				return errStop
			}
			return nil
		}
		if winner < 0 && o.LeftOut == "" {
			winner = len(offers)
		}
		offers = append(offers, o)
	}
	for i, o := range offers {
		if i != max(winner, 0) {
			o.URL = ""
			if o.LeftOut == "" {
				_, name := splitPlace(offers[winner].Place)
				o = Offer{Place: o.Place, LeftOut: leftSameURL + name, Length: -1}
			}
		}
		if !w.yield(o, nil) {
			return errStop
		}
	}
	return nil
}

// offer returns what there is to say of a file, and false if it has gone.
func (w *walk) offer(d *walkDir, f *os.File, now time.Time, x file) (o Offer, ok bool, err error) {
	s := w.site
	o = Offer{URL: d.prefix + x.tail, Place: joinPlace(d.place, x.name), Length: -1}
	real, linked := w.links[x.name]
	if !linked {
		real = w.realPath(d, o.Place, x.name)
	}
	if o.LeftOut = w.left(d, &o, x, real); o.LeftOut != "" {
		return o, true, nil
	}
	st, err := statAt(f, x.name, linked)
	switch {
	case err != nil && isGone(err):
		return o, false, nil
	case err != nil:
		return o, false, w.unseen(o.URL, err)
	case st.mode != 0:
		o.LeftOut = leftIrregular
		return o, true, nil
	case st.size > s.maxFile():
		o.LeftOut = leftTooLarge
		o.Length = st.size
		return o, true, nil
	}
	o.Length, o.Modified, o.Type = st.size, st.mtime, mediaType(x.name)
	if o.Stamp = st.stamp(now); len(o.Stamp) == 0 {
		o.Young = st.settledStamp()
	}
	o.Unsettled = s.settling.has(w.tree, real)
	if s.saysNoIndex(o.URL, o.Stamp) {
		o.LeftOut = leftNoIndex
	}
	return o, true, nil
}

// left returns why a file is left out, as far as that can be said without
// looking at it.
func (w *walk) left(d *walkDir, o *Offer, x file, real string) string {
	s := w.site
	left := s.names.file(d.left, o.Place, x.name)
	switch {
	case left == leftHidden:
	case ownOutput(w.own, real) || ownOutput(w.own, o.Place):
		left = leftOwn
	case x.kind == outsideFile:
		left = leftOutside
	case x.kind == irregularFile:
		left = leftIrregular
	case left != "":
	case len(o.URL) > protocol.MaxURL:
		o.URL, left = "", leftLongURL
	case !s.allowed(w.rules, o.Place, o.URL):
		left = leftRobots
	}
	return left
}

// realPath returns where the file of a directory stands below the root.
func (w *walk) realPath(d *walkDir, place, name string) string {
	if d.real == d.place || d.parent == nil {
		return place
	}
	return d.real + "/" + name
}
