package docroot

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// A file is a directory entry that is not a directory. A directory may hold a million, so the struct is
// small.
type file struct {
	tail string // its URL after that of the directory
	name string
	kind fileKind
}

type fileKind byte

const (
	regularFile fileKind = iota // or a symbolic link to one within the root
	outsideFile                 // a symbolic link that leads out of the root
	irregularFile
)

// dir lists a directory, and appends its subdirectories to next.
func (a *ahead) dir(d *walkDir, next []*walkDir) ([]*walkDir, error) {
	a.files, a.links = a.files[:0], nil
	d.own, d.free = a.walk.ownIn(d), a.walk.rules.AllowsBelow(a.walk.site.urls.path(d.prefix))
	first := len(next)
	f, err := a.walk.tree.openDir(d.real)
	var open *sharedDir
	var stop error
	if err == nil {
		open = share(f)
		defer open.release()
		err = d.names(f, func(name string, mode fs.FileMode) error {
			var c *walkDir
			if c, stop = a.entry(d, f, name, mode); stop != nil {
				return stop
			}
			if c != nil && d.deep {
				next = append(next, c)
			}
			return a.ctx.Err()
		})
	}
	switch {
	case stop != nil:
		return nil, stop
	case a.ctx.Err() != nil:
		return nil, a.ctx.Err()
	case err == nil:
	case d.parent == nil:
		return nil, fmt.Errorf("docroot: %w", err)
	case isGone(err):
		return next[:first], nil
	case d.left != "": // nothing in it could be published
		return next[:first], a.leftOut(d.place+"/", d.left)
	default:
		return next[:first], a.say(said{err: unseen(d, d.place+"/", err)})
	}
	slices.SortFunc(next[first:], func(a, b *walkDir) int { return strings.Compare(a.prefix, b.prefix) })
	// Of two files with one URL, the one with that very name comes first.
	slices.SortFunc(a.files, func(a, b file) int {
		if c := strings.Compare(a.tail, b.tail); c != 0 {
			return c
		}
		return len(a.name) - len(b.name)
	})
	// Systems may list a name twice if it is created anew meanwhile.
	next = append(next[:first], slices.CompactFunc(next[first:], func(a, b *walkDir) bool { return a.place == b.place })...)
	a.files = slices.CompactFunc(a.files, func(a, b file) bool { return a.name == b.name })
	return next, a.sendFiles(d, open)
}

// names calls f with the entries of the directory, which is open, or with those of them to which its walk is limited.
func (d *walkDir) names(dir *os.File, f func(name string, mode fs.FileMode) error) error {
	switch {
	case d.only == nil:
		return readNames(dir, f)
	case !stat.ExactNames(dir): // then a name by which a file can be opened need not be its name
		return readNames(dir, func(name string, mode fs.FileMode) error {
			if !slices.Contains(d.only, name) {
				return nil
			}
			return f(name, mode)
		})
	}
	for _, name := range d.only {
		st, err := stat.At(dir, name, false)
		switch {
		case err == nil:
			err = f(name, st.Mode)
		case isGone(err):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry handles a directory entry. It returns a directory that is to be walked.
func (a *ahead) entry(d *walkDir, f *os.File, name string, mode fs.FileMode) (*walkDir, error) {
	s := a.walk.site
	switch {
	case mode.IsDir():
		c := s.child(d, name)
		switch {
		case c.left == public.Hidden, c.left == public.Own:
			return nil, a.leftOut(c.place+"/", c.left)
		case len(c.prefix) > protocol.MaxURL:
			return nil, a.leftOut(c.place+"/", leftLongURL)
		}
		return c, nil
	case name[0] == '.' && s.names.Dir(d.left, joinPlace(d.place, name), name) == public.Hidden:
		return nil, a.leftOut(joinPlace(d.place, name), public.Hidden) // wherever it leads
	case mode&fs.ModeSymlink != 0:
		l, err := s.link(a.walk.tree, d, f, name)
		switch c := s.child(d, name); {
		case err != nil && c.left != "":
			return nil, a.leftOut(c.place, c.left)
		case err != nil:
			return nil, a.say(said{err: unseenLink(s, d, c, name, err)})
		case l.left == leftOutside:
			a.files = append(a.files, file{s.urls.tail(name), name, outsideFile})
		case l.left != "":
			return nil, a.leftOut(joinPlace(d.place, name), l.left)
		case l.dir != nil:
			if len(l.dir.prefix) > protocol.MaxURL {
				return nil, a.leftOut(l.dir.place+"/", leftLongURL)
			}
			return l.dir, nil
		default:
			a.files = append(a.files, file{s.urls.tail(name), name, regularFile})
			if a.links == nil {
				a.links = make(map[string]string)
			}
			a.links[name] = l.real
		}
		return nil, nil
	}
	kind := regularFile
	if !mode.IsRegular() {
		kind = irregularFile
	}
	a.files = append(a.files, file{s.urls.tail(name), name, kind})
	return nil, nil
}

// leftOut appends a left-out entry without a URL.
func (a *ahead) leftOut(place, left string) error {
	return a.say(said{offer: inventory.Offer{Place: place, LeftOut: left, Length: -1}})
}

// describe makes the offers of a batch. Their URLs share one piece of memory, and so do their stamps.
func (w *walk) describe(b *batch) {
	now := time.Now()
	size := 0
	for _, x := range b.files {
		size += len(b.dir.prefix) + len(x.tail)
	}
	b.urls.Grow(size)
	b.stamps = make([]byte, 0, stampSize*len(b.files))
	for i := 0; i < len(b.files); {
		first, tail := len(b.out), b.files[i].tail
		for ; i < len(b.files) && b.files[i].tail == tail; i++ {
			w.offer(b, now, b.files[i])
		}
		if len(b.out)-first > 1 {
			chooseFile(b.out[first:])
		}
	}
}

// join returns two strings as one, in the memory for the URLs of the batch.
func (b *batch) join(x, y string) string {
	start := b.urls.Len()
	b.urls.WriteString(x)
	b.urls.WriteString(y)
	return b.urls.String()[start:]
}

// chooseFile lets one of several files have their URL: the first that is not left out; if there is none, the first of all.
func chooseFile(list []said) {
	best := -1
	for i, x := range list {
		if x.err == nil && (best < 0 || list[best].offer.LeftOut != "" && x.offer.LeftOut == "") {
			best = i
		}
	}
	for i := range list {
		o := &list[i].offer
		if i == best || list[i].err != nil {
			continue
		}
		o.URL = ""
		if o.LeftOut == "" {
			_, name := splitPlace(list[best].offer.Place)
			*o = inventory.Offer{Place: o.Place, LeftOut: leftSameURL + name, Length: -1}
		}
	}
}

// offer appends the offer of a file to its batch, or the error that prevents it; nothing if the file has gone.
func (w *walk) offer(b *batch, now time.Time, x file) {
	s, d := w.site, b.dir
	b.out = append(b.out, said{})
	y := &b.out[len(b.out)-1]
	o := &y.offer
	o.URL, o.Length = b.join(d.prefix, x.tail), -1
	if d.plain && x.tail == x.name {
		o.Place = o.URL[len(s.urls.base):] // share one string
	} else {
		o.Place = joinPlace(d.place, x.name)
	}
	linked := false
	if y.real, linked = b.links[x.name]; !linked {
		y.real = w.realPath(d, o.Place, x.name)
	}
	if o.LeftOut = w.left(d, o, x, y.real, linked); o.LeftOut != "" {
		return
	}
	st, err := stat.At(b.open.File, x.name, linked)
	switch {
	case err != nil && isGone(err):
		b.out = b.out[:len(b.out)-1]
		return
	case err != nil:
		*y = said{err: &inventory.UnseenError{Page: o.URL, Place: o.Place, Err: err}}
		return
	case st.Mode != 0:
		o.LeftOut = leftIrregular
		return
	case st.Size > s.maxFile():
		o.LeftOut, o.Length = leftTooLarge, st.Size
		return
	}
	o.Length, o.Modified, o.Type, o.Parallel = st.Size, st.Modified, mediaType(x.name), true
	stamp := s.versioned(st.Settled(b.stamps), o.Type)
	b.stamps = stamp[len(stamp):]
	if stamp = slices.Clip(stamp); st.Young(now) {
		o.Young = stamp
	} else {
		o.Stamp = stamp
	}
	if s.noIndex.says(o.URL, o.Stamp) {
		o.LeftOut = leftNoIndex
	}
}

// left returns why a file is left out, as far as that is known without a stat.
func (w *walk) left(d *walkDir, o *inventory.Offer, x file, real string, linked bool) string {
	s := w.site
	left := s.names.File(d.left, o.Place, x.name)
	switch {
	case left == public.Hidden:
	case d.own == isOwn, d.own == hasOwn && (w.own[real] || w.own[o.Place]), linked && ownOutput(w.own, real):
		left = public.Own
	case x.kind == outsideFile:
		left = leftOutside
	case x.kind == irregularFile:
		left = leftIrregular
	case left != "":
	case len(o.URL) > protocol.MaxURL:
		o.URL, left = "", leftLongURL
	case s.urls.path(o.URL) == "/robots.txt":
		left = leftRules
	case !d.free && !s.allowed(w.rules, x.name, o.URL):
		left = leftRobots
	}
	return left
}

// realPath returns the path of a directory's file below the root, without symbolic links.
func (w *walk) realPath(d *walkDir, place, name string) string {
	if d.real == d.place || d.parent == nil {
		return place
	}
	return d.real + "/" + name
}

// An ownKind says which of a directory's entries are our own outputs.
type ownKind byte

const (
	noOwn  ownKind = iota
	hasOwn         // some of its entries
	isOwn          // all of them
)

// ownIn returns the ownKind of a directory: most are noOwn, which saves a lookup for each file.
func (w *walk) ownIn(d *walkDir) ownKind {
	switch {
	case ownOutput(w.own, d.place), ownOutput(w.own, d.real):
		return isOwn
	case w.ownDirs[d.place], w.ownDirs[d.real]:
		return hasOwn
	}
	return noOwn
}
