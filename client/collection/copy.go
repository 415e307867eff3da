package collection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// A collection with Options.Site is a copy: its files stand in a directory of
// their own as on the site, and are what the site says, no more and no less.
// Open looks whether they still are, a page is gone by the site's word alone, and
// what the site offers is owed until it was had.
//
// The directory bears a mark that says whose copy it is, of which state, and
// the name of the run that filled it last. A state that speaks of another run
// than the directory is not the one that filled it last: one of the two was
// put back from a copy, and what the state says of the files need not be so.

// ErrOther is returned by Open for a state or a directory of another site, and
// for the copy of one where none is asked for.
var ErrOther = errors.New("kept for another site")

// A copyMeta is what is stored about a copy as a whole.
type copyMeta struct {
	Base     string `json:"base"`
	ID       string `json:"id"`
	Root     string `json:"root"`               // below the collection's directory, or absolute
	Fold     bool   `json:"fold,omitempty"`     // the file system does not tell upper from lower case
	Portable bool   `json:"portable,omitempty"` // it refuses what Windows refuses
	Strays   bool   `json:"strays,omitempty"`   // the directory may hold files of a state that was lost
	Run      string `json:"run"`                // the present or last one
	LastRun  string `json:"last_run,omitempty"` // the one before, while the directory may still bear its name
	Suspect  bool   `json:"suspect,omitempty"`  // the files need not be what the state says
	Digests
}

// Digests says how the digests that the site of a copy states have been.
type Digests struct {
	// Matched and Mismatched count answers with a digest equal to and other
	// than what the site says; MissRow is how many of the latter came since
	// the last of the former. Demoted says that the site's digests have never
	// been right and are not waited for.
	Matched    int64 `json:"matched"`
	Mismatched int64 `json:"mismatched"`
	MissRow    int   `json:"miss_row"`
	Demoted    bool  `json:"demoted"`
}

// demoteAfter is how many pages in a row must differ from their claims, none
// ever having matched, before a site's digests are no longer waited for.
const demoteAfter = 20

// refusals is when a page that the site names, and does not serve, is asked for
// again; the last holds for all that follow.
var refusals = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}

// copyKey is of the copyMeta, in the outbox.
var copyKey = []byte("copy")

// A siteMark says in the directory whose copy it is.
type siteMark struct {
	Base string `json:"base"`
	ID   string `json:"id"`  // of the state that fills it
	Run  string `json:"run"` // the last that did
}

// mark reads the mark of the directory, nil if it has none.
func (t *tree) mark() (*siteMark, error) {
	b, err := t.root.ReadFile(siteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var m siteMark
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", siteFile, err)
	}
	return &m, nil
}

func (t *tree) setMark(m siteMark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name, f, err := t.create()
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return t.root.Rename(name, siteFile)
}

// owner reads the mark of the directory, and refuses one that is not ours to fill.
func (c *Collection) owner(t *tree) (*siteMark, error) {
	mark, err := t.mark()
	switch {
	case err != nil:
		return nil, err
	case mark == nil && t.foreign():
		return nil, fmt.Errorf("directory %s is not empty and not a mirror", c.opts.Root)
	case mark != nil && mark.Base != c.opts.Site:
		return nil, fmt.Errorf("directory %s: %w: %s", c.opts.Root, ErrOther, mark.Base)
	}
	return mark, nil
}

// checkCopy refuses, before anything is written, what cannot be a copy.
func (c *Collection) checkCopy() error {
	o := &c.opts
	if o.Site == "" || o.ReadOnly {
		return nil
	}
	if _, path, ok := split(o.Site); !ok || !strings.HasSuffix(path, "/") || o.Root == "" || o.Contents != Mirror {
		return fmt.Errorf("copy of %q: want an absolute URL that ends in a slash, and a root for a mirror of it", o.Site)
	}
	t, err := openTree(o.Root)
	if err != nil {
		return err
	}
	_, err = c.owner(t)
	return errors.Join(err, t.close())
}

// loadCopy reads what the state says of the copy.
func (c *Collection) loadCopy(tx *bbolt.Tx) error {
	raw := tx.Bucket(outboxBucket).Get(copyKey)
	if raw == nil {
		if c.opts.Site != "" && !c.opts.ReadOnly && c.last > 0 {
			return fmt.Errorf("%w: it is no copy of one", ErrOther)
		}
		return nil
	}
	m := &copyMeta{}
	if err := json.Unmarshal(raw, m); err != nil {
		return damaged(outboxBucket, copyKey)
	}
	if c.opts.Site != m.Base && !c.opts.ReadOnly {
		return fmt.Errorf("%w: %s", ErrOther, m.Base)
	}
	c.copied, c.root = m, m.Root
	if !filepath.IsAbs(m.Root) {
		c.root = filepath.Join(c.dir, m.Root)
	}
	return nil
}

// openCopy takes the directory, and makes the names of its files what the state has.
func (c *Collection) openCopy() error {
	t, err := openTree(c.opts.Root)
	if err != nil {
		return err
	}
	m := newMirror(t)
	c.contents.mirror, c.root, m.base = m, c.opts.Root, c.opts.Site
	if err := t.hold(); err != nil {
		return fmt.Errorf("directory %s: %w", c.opts.Root, err)
	}
	mark, err := c.owner(t) // as it is now that nobody else can change it
	if err != nil {
		return err
	}
	if mark == nil {
		mark = &siteMark{}
	}
	meta := copyMeta{Base: c.opts.Site, ID: rand.Text(), Strays: mark.ID != ""}
	if c.copied != nil {
		meta = *c.copied
		m.fold, m.portable = meta.Fold, meta.Portable
	}
	if err := c.redo(); err != nil {
		return err
	}
	if c.copied == nil {
		meta.Fold, meta.Portable = t.probe()
		meta.Portable = meta.Portable || runtime.GOOS == "windows"
		m.fold, m.portable = meta.Fold, meta.Portable
	} else if mark.ID != meta.ID || mark.Run != meta.Run && (meta.LastRun == "" || mark.Run != meta.LastRun) {
		meta.Suspect, meta.Strays = true, true // until every file was read, were it in a later run
	}
	meta.Run, meta.LastRun, meta.Root = rand.Text(), mark.Run, c.opts.Root
	if rel, err := filepath.Rel(c.dir, c.opts.Root); err == nil && filepath.IsLocal(filepath.Join("below", rel)) {
		meta.Root = rel // both can be moved together
	} else if abs, err := filepath.Abs(c.opts.Root); err == nil {
		meta.Root = abs
	}
	if err := boltfile.Guard(func() error { return c.db.Update(meta.write) }); err != nil {
		return err
	}
	c.copied = &meta
	return t.setMark(siteMark{Base: meta.Base, ID: meta.ID, Run: meta.Run})
}

func (m *copyMeta) write(tx *bbolt.Tx) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Bucket(outboxBucket).Put(copyKey, raw)
}

// verifyCopy makes owed the pages whose files are not there as they were left:
// gone, or of another size, or, in a suspect state, of other bytes.
func (c *Collection) verifyCopy() error {
	m := c.contents.mirror
	var key [4]byte
	for done := false; !done; {
		var lost []frontier.PageID
		err := c.reading(func(tx *bbolt.Tx) error {
			v := c.view(tx)
			names := tx.Bucket(outboxBucket).Bucket(namesBucket)
			if done = names == nil; done {
				return nil
			}
			var p Page
			cur := names.Cursor()
			k, name := cur.Seek(key[:])
			for looked := 0; ; k, name = cur.Next() {
				if done = k == nil; done {
					return nil
				}
				if len(k) != len(key) {
					return damaged(namesBucket, k)
				}
				if copy(key[:], k); looked == mostLooked || len(lost) == dropAtOnce {
					return nil
				}
				looked++
				if ok, err := v.page(keyPage(k), &p); err != nil {
					return err
				} else if !ok {
					return damaged(namesBucket, k)
				}
				if !m.stands(string(name), &p, c.copied.Suspect) {
					lost = append(lost, p.ID)
				}
			}
		})
		if err != nil {
			return err
		}
		if len(lost) == 0 && !done {
			continue
		}
		if err := c.update(func(u *update) error {
			if done {
				u.copied.LastRun, u.copied.Suspect = "", false
			}
			return u.loseAll(lost)
		}); err != nil {
			return err
		}
	}
	return nil
}

// mostLooked is how many files are looked at in one reading transaction.
const mostLooked = 50_000

// stands reports whether the file of a page is there as it was left.
func (m *mirror) stands(name string, p *Page, suspect bool) bool {
	info, err := m.lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != p.Length {
		return false
	}
	if !suspect {
		return true
	}
	f, err := m.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false
	}
	var d protocol.Digest
	h.Sum(d[:0])
	return d == p.Digest
}

// loseAll gives up the files of pages.
func (u *update) loseAll(lost []frontier.PageID) error {
	if len(lost) == 0 {
		return nil
	}
	if err := u.c.enter(u.tx); err != nil {
		return err
	}
	g, err := u.c.contents.mirror.in(u.c.contents.box)
	if err != nil {
		return err
	}
	u.news++ // for the files
	for _, id := range lost {
		key := pageKey(id)
		if err := g.release(id, string(g.names.Get(key[:]))); err != nil {
			return err
		}
		w, err := u.get(id)
		if err != nil {
			return err
		}
		u.lose(w)
	}
	return nil
}

// lose makes a page owe what was held of it, whose file is gone.
func (u *update) lose(w *work) {
	w.Stored, w.ETag, w.LastModified, w.dirty = Place{}, "", "", true
	if w.State == Excluded || !w.has() {
		return
	}
	if !w.Told {
		w.Told, w.claim, w.claimed, w.Debt, w.Missed = true, w.Digest, u.now, w.Digest, 0
		w.DebtText, w.DebtLength = zeroDigest, 0
	}
	w.At, w.planned = time.Time{}, true
	u.plan(w)
}

// serves reports whether a visit brought what may be the page, or a failure that will pass.
func (v *Visit) serves(w *work) bool {
	switch {
	case v.large():
		return false
	case v.Fault != "":
		return true
	case v.Status == http.StatusNotModified:
		return !w.Digest.IsZero()
	case v.Status == http.StatusOK, v.Status == http.StatusNonAuthoritativeInfo:
		return true
	}
	return v.Status >= 500 || v.Status == 0 || v.Status == http.StatusRequestTimeout || v.Status == http.StatusTooEarly || v.Status == http.StatusTooManyRequests
}

// large reports whether the page is too large.
func (v *Visit) large() bool { return v.Cut && v.Status < 300 }

// unserved takes in that a page which the site names is not to be had: it stays
// what it was, and owed. One that is too large is not asked for again until
// the site says that it has changed.
func (u *update) unserved(w *work, v *Visit) {
	fault := answer(v.Status)
	if v.large() {
		fault = "too large"
	}
	w.fail(fault, u.now)
	if w.State = Refused; w.has() {
		w.State = Failing
	}
	if v.large() {
		w.settle()
		w.At, w.planned = Never, true
		return
	}
	u.later(w, v, u.c.opts.hurried(refusals[min(w.Fails, len(refusals))-1]))
}

// matched and missed count answers to claims. missed reports whether the answer
// is to be taken for what the site has; first is that of the first answer to a claim.
func (d *Digests) matched() {
	d.Matched++
	d.MissRow, d.Demoted = 0, false
}

func (d *Digests) missed(first bool) (believe, demoted bool) {
	d.Mismatched++
	if d.Demoted {
		return true, false
	}
	if first {
		d.MissRow++
	}
	if d.Matched == 0 && d.MissRow >= demoteAfter {
		d.Demoted = true
	}
	return d.Demoted, d.Demoted
}

// judgeCopy is judge for a copy, which has what the site says, whoever says it:
// what was said before is no news, and all else is owed unless it is held.
func (s *applying) judgeCopy(w *work, item *protocol.Item) judgement {
	switch {
	case w.State == Gone:
		return owed
	case !item.Digest.IsZero() && w.has() && w.Digest == item.Digest && w.Stored.File != "":
		if w.State == Failing || w.State == Refused {
			w.answered()
			w.State, w.planned, w.dirty = Held, false, true
			s.plan(w)
		}
		return confirmed
	case w.claimed.IsZero():
		return owed
	case !item.Digest.IsZero() || !w.claim.IsZero():
		if item.Digest == w.claim {
			return nothing
		}
		return owed
	}
	// A date that is coarse, or not to be believed, proves nothing.
	_, sane := protocol.SaneModified(item.Modified, s.now)
	pending := w.Told || w.At.Equal(Never) && w.State != Held
	if sane && keepable(item.Modified).Equal(w.said) && (pending || !item.Modified.Add(item.Span).After(w.Last)) {
		return nothing
	}
	return owed
}

// Tidy removes files of a copy that no page has, which a lost state left behind.
// It does so once, when nothing is owed any more, and is free of cost otherwise.
func (c *Collection) Tidy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copied == nil || !c.copied.Strays || c.opts.ReadOnly {
		return nil
	}
	held := false
	for p, err := range c.Pages(context.Background()) {
		if err != nil {
			return fmt.Errorf("tidy directory: %w", err)
		}
		if p.Told || p.State == Known {
			return nil
		}
		held = held || p.has()
	}
	if !held {
		return nil
	}
	err := c.update(func(u *update) error {
		u.copied.Strays = false
		if err := c.enter(u.tx); err != nil {
			return err
		}
		g, err := c.contents.mirror.in(c.contents.box)
		if err != nil {
			return err
		}
		u.news++ // for the files
		return g.m.walk(func(name string) error {
			if g.paths.Get(g.path(name)) != nil {
				return nil
			}
			return g.ops.Put([]byte(name), nil)
		})
	})
	if err != nil {
		return fmt.Errorf("tidy directory: %w", err)
	}
	return nil
}

// NewBody makes a file of a copy for a body to come, see Visit.File. Whoever makes
// it and does not commit it removes it, or the next Open does.
func (c *Collection) NewBody() (*os.File, error) {
	_, f, err := c.contents.mirror.create()
	return f, err
}

// A Copy is how the copy of a site stands.
type Copy struct {
	Base, Root string
	Digests
}

// Copy returns how the copy stands, and false if the collection is none.
func (c *Collection) Copy() (Copy, bool) {
	c.mem.RLock()
	defer c.mem.RUnlock()
	if c.copied == nil {
		return Copy{}, false
	}
	return Copy{Base: c.copied.Base, Root: c.root, Digests: c.copied.Digests}, true
}
