package docroot

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// Scan walks the docroot level by level, which is the order of URLs: all directories of one depth, ordered by
// URL, and in each of them its files. So it remembers the directories of two levels and the names in one
// directory. Files are described a bounded number ahead of what it yields.
//
// Dot directories are not entered; they are reported once, without a URL. A
// scope whose directory does not exist, or is never public, yields nothing.
func (s *Site) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		w := walk{site: s, yield: yield}
		if err := w.run(ctx, scopes); err != nil && err != errStop {
			yield(inventory.Offer{}, err)
		}
	}
}

// errStop says that the caller of Scan has stopped.
var errStop = errors.New("stop")

// A walk is one Scan.
type walk struct {
	site  *Site
	tree  *tree
	rules *robots.Rules
	yield func(inventory.Offer, error) bool

	own     map[string]bool // places of our own outputs
	ownDirs map[string]bool // the directories of those
}

func (w *walk) run(ctx context.Context, scopes []inventory.Scope) error {
	s := w.site
	if err := s.Check(); err != nil {
		return err
	}
	t, err := openTree(s.Settings.Docroot)
	if err != nil {
		s.trees.lost()
		return err
	}
	w.tree = t
	s.trees.share(t)
	defer s.trees.end(t)
	if err := w.prepare(ctx, len(scopes) == 0); err != nil {
		return err
	}
	starts, err := w.starts(scopes)
	if err != nil {
		return err
	}
	a := w.lookAhead(ctx, starts)
	defer a.stop()
	for b := range a.order {
		<-b.done
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range b.out {
			x := &b.out[i]
			if x.real != "" && x.offer.LeftOut == "" {
				// Checked now, not when the file was described: the caller reads it now.
				x.offer.Unsettled = s.settling.has(t, x.real)
			}
			if !w.yield(x.offer, x.err) {
				return errStop
			}
		}
		a.giveBack(b)
	}
	return a.err
}

func (w *walk) prepare(ctx context.Context, whole bool) (err error) {
	s := w.site
	if w.rules = s.robots.Current(); whole || w.rules == nil {
		if w.rules, err = s.readRules(ctx, w.tree); err != nil {
			return err
		}
		s.findOwn(w.tree)
	}
	s.mu.Lock()
	w.own = s.own
	s.mu.Unlock()
	w.ownDirs = make(map[string]bool)
	for place := range w.own {
		dir, _ := splitPlace(place)
		w.ownDirs[dir] = true
	}
	return nil
}

// root returns the walkDir at which every walk begins.
func (s *Site) root() *walkDir {
	return &walkDir{prefix: s.urls.base, real: ".", deep: true, plain: true}
}

// starts returns the directories of the given scopes, ordered by URL, none within another.
func (w *walk) starts(scopes []inventory.Scope) ([]*walkDir, error) {
	root := w.site.root()
	if len(scopes) == 0 || len(scopes) > inventory.MaxScopes {
		return []*walkDir{root}, nil
	}
	urls := &w.site.urls
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(sc inventory.Scope) bool {
		_, ok := urls.dir(sc.Prefix)
		return !ok && len(urls.places(sc.Page)) == 0
	})
	scopes = inventory.Covering(scopes)
	if len(scopes) == 0 {
		return nil, nil
	}
	var starts []*walkDir
	byPages := map[string]*walkDir{} // directories that are walked for some of their pages; nil: none is there
	for _, sc := range scopes {
		if sc.Page == "" {
			d, err := w.enter(root, sc.Prefix)
			if err != nil {
				return nil, err
			}
			if d != nil {
				d.deep = sc.Deep
				starts = append(starts, d)
			}
			continue
		}
		prefix := inventory.ScopeOf(sc.Page).Prefix
		d, ok := byPages[prefix]
		if !ok {
			var err error
			if d, err = w.enter(root, prefix); err != nil {
				return nil, err
			}
			if byPages[prefix] = d; d != nil {
				d.deep = false
				starts = append(starts, d)
			}
		}
		if d != nil {
			for _, place := range urls.places(sc.Page) {
				_, name := splitPlace(place)
				d.only = append(d.only, name)
			}
		}
	}
	slices.SortFunc(starts, func(a, b *walkDir) int { return protocol.Compare(a.prefix, b.prefix) })
	return starts, nil
}

// enter descends from the root to the directory with the given URL, by the same rules as a walk. It returns nil if a
// walk would not get there, or nothing is there.
func (w *walk) enter(root *walkDir, prefix string) (*walkDir, error) {
	place, _ := w.site.urls.dir(prefix)
	d := *root
	if place == "" {
		return &d, nil
	}
	at := &d
	for name := range strings.SplitSeq(place, "/") {
		next, err := w.down(at, name)
		switch {
		case err != nil && !w.yield(inventory.Offer{}, err):
			return nil, errStop
		case next == nil:
			return nil, nil
		}
		at = next
	}
	return at, nil
}

func (w *walk) down(d *walkDir, name string) (*walkDir, error) {
	c := w.site.child(d, name)
	if c.left == public.Hidden || c.left == public.Own || len(c.prefix) > protocol.MaxURL {
		return nil, nil
	}
	f, err := w.tree.openDir(d.real)
	if err != nil {
		return nil, unseen(d, d.place+"/", err)
	}
	defer f.Close()
	st, err := stat.At(f, name, false)
	if err != nil {
		return nil, unseen(c, c.place+"/", err)
	}
	switch st.Mode {
	case fs.ModeDir:
		return c, nil
	case fs.ModeSymlink:
		l, err := w.site.link(w.tree, d, f, name)
		if err != nil {
			return nil, unseen(c, c.place, err)
		}
		return l.dir, nil
	}
	return nil, nil
}

// unseen returns the error of a directory that cannot be scanned; nil if it is gone, or nothing in it could be published.
func unseen(d *walkDir, place string, err error) error {
	if isGone(err) || d.left != "" {
		return nil
	}
	return &inventory.UnseenError{Prefix: d.prefix, Place: place, Err: err}
}

// unseenLink returns the error of a link in d that cannot be followed: to a page, or to the directory c.
func unseenLink(s *Site, d, c *walkDir, name string, err error) error {
	if isGone(err) {
		return nil
	}
	return &inventory.UnseenError{Page: d.prefix + s.urls.tail(name), Prefix: c.prefix, Place: c.place, Err: err}
}
