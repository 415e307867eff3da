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
	d.own = a.walk.ownIn(d)
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

// describe makes the offers of a batch.
func (w *walk) describe(b *batch) {
	now := time.Now()
	for i := 0; i < len(b.files); {
		j := i + 1
		for j < len(b.files) && b.files[j].tail == b.files[i].tail {
			j++
		}
		w.same(b, now, b.files[i:j])
		i = j
	}
}

// same describes the files of one URL, usually a single one. The first file that is not left out gets the
// URL; if there is none, the first of all.
func (w *walk) same(b *batch, now time.Time, list []file) {
	if len(list) == 1 {
		if o, real, ok := w.offer(b, now, list[0]); ok {
			b.out = append(b.out, said{offer: o, real: real})
		}
		return
	}
	var offers []said
	winner := -1
	for _, x := range list {
		o, real, ok := w.offer(b, now, x)
		if !ok {
			continue
		}
		if winner < 0 && o.LeftOut == "" {
			winner = len(offers)
		}
		offers = append(offers, said{offer: o, real: real})
	}
	for i := range offers {
		o := &offers[i].offer
		if i == max(winner, 0) {
			continue
		}
		o.URL = ""
		if o.LeftOut == "" {
			_, name := splitPlace(offers[winner].offer.Place)
			*o = inventory.Offer{Place: o.Place, LeftOut: leftSameURL + name, Length: -1}
		}
	}
	b.out = append(b.out, offers...)
}

// offer describes a file. It returns false if the file has gone, or if an error prevents it, which it appends
// to the batch.
func (w *walk) offer(b *batch, now time.Time, x file) (o inventory.Offer, real string, ok bool) {
	s, d := w.site, b.dir
	o.URL, o.Length = d.prefix+x.tail, -1
	if d.plain && x.tail == x.name {
		o.Place = o.URL[len(s.urls.base):] // share one string
	} else {
		o.Place = joinPlace(d.place, x.name)
	}
	real, linked := b.links[x.name]
	if !linked {
		real = w.realPath(d, o.Place, x.name)
	}
	if o.LeftOut = w.left(d, &o, x, real, linked); o.LeftOut != "" {
		return o, real, true
	}
	st, err := stat.At(b.open.File, x.name, linked)
	switch {
	case err != nil && isGone(err):
		return o, real, false
	case err != nil:
		b.out = append(b.out, said{err: &inventory.UnseenError{Page: o.URL, Place: o.Place, Err: err}})
		return o, real, false
	case st.Mode != 0:
		o.LeftOut = leftIrregular
		return o, real, true
	case st.Size > s.maxFile():
		o.LeftOut = leftTooLarge
		o.Length = st.Size
		return o, real, true
	}
	o.Length, o.Modified, o.Type, o.Parallel = st.Size, st.Modified, mediaType(x.name), true
	if o.Stamp = s.versioned(st.Stamp(now), o.Type); len(o.Stamp) == 0 {
		o.Young = s.versioned(st.Settled(), o.Type)
	}
	if s.noIndex.says(o.URL, o.Stamp) {
		o.LeftOut = leftNoIndex
	}
	return o, real, true
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
	case !s.allowed(w.rules, o.Place, o.URL):
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
