package holding

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/filename"
)

// An update is one transaction: the pages it changes, and what it will ask
// of the files once it is committed.
type update struct {
	c     *Holding
	tree  *tree
	meta  meta
	now   time.Time
	pages *bbolt.Bucket
	debts *bbolt.Bucket
	paths *bbolt.Bucket

	// files says, by the key of a name, what stands there after this update,
	// where that is something else than before.
	files map[string]op
	order []string // the keys of files, in the order they came

	// links are the files of tmpDir that this update made, with the names
	// they were lifted from.
	links map[string]string

	released bool // a name came free
}

// errBroken is returned once the files could not be brought to what the state
// says. Nothing more is taken in then; Open tries again.
var errBroken = errors.New("change files")

// update runs fn in a transaction and does to the files what it asked for.
func (c *Holding) update(fn func(u *update) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	c.view.Lock()
	m := c.meta
	c.view.Unlock()
	u := &update{c: c, tree: c.tree, meta: m, now: c.now(), files: map[string]op{}, links: map[string]string{}}
	var ops []op
	err := c.writing(func(tx *bbolt.Tx) error {
		u.pages, u.debts, u.paths = tx.Bucket(pagesBucket), tx.Bucket(debtsBucket), tx.Bucket(pathsBucket)
		if err := fn(u); err != nil {
			return err
		}
		ops = u.ops()
		if err := writeOps(tx, ops); err != nil {
			return err
		}
		raw, err := json.Marshal(u.meta)
		if err != nil {
			return err
		}
		return tx.Bucket(metaBucket).Put(metaKey, raw)
	})
	if err != nil {
		for temp := range u.links {
			c.tree.discard(temp)
		}
		return err
	}
	c.view.Lock()
	c.meta = u.meta
	c.view.Unlock()
	for _, o := range ops {
		delete(u.links, o.temp)
	}
	for temp := range u.links {
		c.tree.discard(temp) // lifted, and then gone or back where it was
	}
	if err := c.tree.do(ops); err != nil {
		c.broken = fmt.Errorf("%w: %w", errBroken, err)
		return c.broken
	}
	return nil
}

// writeOps replaces the operations of the transaction before, which are done.
func writeOps(tx *bbolt.Tx, ops []op) error {
	b := tx.Bucket(opsBucket)
	cur := b.Cursor()
	for k, _ := cur.First(); k != nil; k, _ = cur.First() {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	for i, o := range ops {
		if err := b.Put(binary.BigEndian.AppendUint32(nil, uint32(i)), appendOp(nil, o)); err != nil {
			return err
		}
	}
	return nil
}

// ops returns what is to be done to the files: first everything that goes, to
// make room, then everything that comes. Each name occurs once, so that the
// list can be done again from any point.
func (u *update) ops() []op {
	var gone, come []op
	for _, key := range u.order {
		switch o := u.files[key]; {
		case o.temp == "":
			gone = append(gone, o)
		case u.links[o.temp] != o.name: // else it stands there
			come = append(come, o)
		}
	}
	return append(gone, come...)
}

// get returns the page of a URL, nil if the site does not offer it.
func (u *update) get(url string) (*Page, error) {
	raw := u.pages.Get([]byte(url))
	if raw == nil {
		return nil, nil
	}
	p, err := parsePage(url, raw)
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", url, err)
	}
	return p, nil
}

// put replaces the page old, nil if there was none, with p, nil to drop it,
// and keeps the queue of debts and the counts in step. Files and paths are
// the caller's care.
func (u *update) put(url string, old, p *Page) error {
	n := &u.meta.Counts
	if old == nil {
		old = &Page{}
	} else {
		n.count(old, -1)
	}
	next := p
	if p == nil {
		next = &Page{}
	} else {
		n.count(p, 1)
	}
	if dueKey(old.Due) != dueKey(next.Due) {
		if !old.Due.IsZero() {
			if err := u.debts.Delete(debtKey(old.Due, url)); err != nil {
				return err
			}
		}
		if !next.Due.IsZero() {
			if err := u.debts.Put(debtKey(next.Due, url), nil); err != nil {
				return err
			}
		}
	}
	if p == nil {
		return u.pages.Delete([]byte(url))
	}
	return u.pages.Put([]byte(url), appendPage(nil, p))
}

func (n *Counts) count(p *Page, by int) {
	n.Pages += by
	if p.Path != "" {
		n.Held += by
		n.Bytes += int64(by) * p.Length
	}
	switch {
	case p.Due.IsZero():
	case p.Due.Equal(Parked):
		n.Parked += by
	default:
		n.Owed += by
	}
}

// key returns the key of a file name in the paths bucket.
func (u *update) key(name string) []byte {
	if u.meta.Fold {
		name = filename.Fold(name)
	}
	return []byte(name)
}

// claim finds the file name for a page and notes who has it. It is the name
// that follows the URL, unless that is taken, or a file would have to be a
// directory too.
func (u *update) claim(url, mediaType string) (string, error) {
	if name, ok := u.free(url, mediaType); ok {
		return name, u.paths.Put(u.key(name), []byte(url))
	}
	name := filename.Other(url)
	return name, u.paths.Put(u.key(name), []byte(url))
}

// free returns the natural name of url and whether it can be had.
func (u *update) free(url, mediaType string) (string, bool) {
	name, ok := naturalName(u.meta.Base, url, mediaType, u.meta.Portable)
	if !ok {
		return "", false
	}
	key := u.key(name)
	if owner := u.paths.Get(key); owner != nil {
		return name, string(owner) == url
	}
	for i, c := range key {
		if c == '/' && u.paths.Get(key[:i]) != nil {
			return "", false
		}
	}
	below := append(key, '/')
	if k, _ := u.paths.Cursor().Seek(below); bytes.HasPrefix(k, below) {
		return "", false
	}
	return name, u.tree.vacant(name, func(name string) bool {
		o, ok := u.files[string(u.key(name))]
		return ok && o.temp == ""
	})
}

// place puts a file of tmpDir at a name.
func (u *update) place(name, temp string) {
	key := string(u.key(name))
	if _, ok := u.files[key]; !ok {
		u.order = append(u.order, key)
	}
	u.files[key] = op{name: name, temp: temp}
}

// release takes the file of a page away and frees its name.
func (u *update) release(name string) error {
	if name == "" {
		return nil
	}
	u.place(name, "")
	u.released = true
	return u.paths.Delete(u.key(name))
}

// lift gives what stands at a name a second name in tmpDir, from where it can
// be placed elsewhere. It returns "" if nothing stands there.
func (u *update) lift(name string) (string, error) {
	if o, ok := u.files[string(u.key(name))]; ok {
		return o.temp, nil
	}
	temp, err := u.tree.link(name)
	if err != nil || temp == "" {
		return "", err
	}
	u.links[temp] = name
	return temp, nil
}

// drop forgets a page and its file.
func (u *update) drop(url string, p *Page) error {
	if err := u.release(p.Path); err != nil {
		return err
	}
	return u.put(url, p, nil)
}

// promote gives pages that stand aside their natural names, where those came free.
func (u *update) promote() error {
	const most = 1000
	if !u.released {
		return nil
	}
	var aside []string
	prefix := []byte(otherDir + "/")
	cur := u.paths.Cursor()
	for k, url := cur.Seek(prefix); bytes.HasPrefix(k, prefix) && len(aside) < most; k, url = cur.Next() {
		aside = append(aside, string(url))
	}
	for _, url := range aside {
		p, err := u.get(url)
		if err != nil {
			return err
		}
		if p == nil || p.Path == "" {
			return errors.New("a file is noted for a page that has none: " + url)
		}
		name, ok := u.free(url, p.Item.Type)
		if !ok || !strings.HasPrefix(p.Path, otherDir+"/") {
			continue
		}
		temp, err := u.lift(p.Path)
		if err != nil {
			return err
		}
		if temp == "" {
			continue
		}
		next := *p
		if err := u.release(p.Path); err != nil {
			return err
		}
		if err := u.paths.Put(u.key(name), []byte(url)); err != nil {
			return err
		}
		u.place(name, temp)
		next.Path = name
		if err := u.put(url, p, &next); err != nil {
			return err
		}
	}
	return nil
}
