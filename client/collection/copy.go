package collection

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/filetree"
	"github.com/parleyweb/parley/client/collection/internal/mirror"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A collection with Options.Site is a copy: its files stand in a directory of their own, named as on the
// site, and equal what the site announces, no more and no less. Open checks that they still do, a page is
// gone by the site's word alone, and each announced page is a pending fetch until it was fetched.
//
// The directory has a mark that names the site, the state, and the run that filled it last. If the state
// names another run than the directory, one of the two was restored from a backup, and the state may be
// wrong about the files.

// ErrOther is returned by Open for a state or a directory of another site, and for a copy opened without
// Options.Site.
var ErrOther = errors.New("belongs to another site")

// A copyMeta is the stored record of the copy as a whole.
type copyMeta struct {
	Base     string    `json:"base"`
	Was      string    `json:"was,omitempty"`  // the bases from which the site has moved, separated by spaces
	To       string    `json:"to,omitempty"`   // the base to which the site has moved: the next Open renames its pages
	Moved    time.Time `json:"moved,omitzero"` // when To was set last
	ID       string    `json:"id"`
	Root     string    `json:"root"`               // relative to the collection's directory, or absolute
	Fold     bool      `json:"fold,omitempty"`     // the file system ignores case
	Portable bool      `json:"portable,omitempty"` // the file system refuses names that Windows refuses
	Strays   bool      `json:"strays,omitempty"`   // the directory may hold files of a state that was lost
	Run      string    `json:"run"`                // the present or last run
	LastRun  string    `json:"last_run,omitempty"` // the run before, while the directory may still have it in its mark
	Suspect  bool      `json:"suspect,omitempty"`  // the files may differ from the state
	Digests
}

// Digests counts how often the digests announced by a copy's site were right.
type Digests struct {
	// Matched and Mismatched count answers with the announced digest and with another; MissRow is the number
	// of mismatches since the last match. Demoted: the site's digests have never been right, and mismatches
	// are no longer retried.
	Matched    int64 `json:"matched"`
	Mismatched int64 `json:"mismatched"`
	MissRow    int   `json:"miss_row"`
	Demoted    bool  `json:"demoted"`
}

// demoteAfter is how many pages in a row must differ from their claims, without a match ever, before
// mismatches with a site's digests are no longer retried.
const demoteAfter = 20

// refusals are the waits before retries of a page that the site announces, and does not serve; the last wait repeats.
var refusals = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}

// copyKey is the key of the copyMeta in changes.Bucket.
var copyKey = []byte("copy")

// A siteMark is the mark in the directory of a copy.
type siteMark struct {
	Base string `json:"base"`
	Was  string `json:"was,omitempty"`
	ID   string `json:"id"`  // of its state
	Run  string `json:"run"` // the last run that filled it
}

// readMark reads the mark of the directory, nil if it has none.
func readMark(t *filetree.Tree) (*siteMark, error) {
	f, err := t.Open(filetree.SiteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	var m siteMark
	if err := json.NewDecoder(f).Decode(&m); err != nil {
		return nil, fmt.Errorf("read %s: %w", filetree.SiteFile, err)
	}
	return &m, nil
}

func writeMark(t *filetree.Tree, m siteMark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return t.WriteFile(filetree.SiteFile, append(b, '\n'))
}

// owner reads the mark of the directory, and returns an error if the directory is not this copy's.
func owner(t *filetree.Tree, o *Options) (*siteMark, error) {
	mark, err := readMark(t)
	switch {
	case err != nil:
		return nil, err
	case mark == nil && t.Foreign():
		return nil, fmt.Errorf("directory %s is not empty, and holds no copy: name an empty or a new one", o.Root)
	case mark != nil && !o.names(mark.Base, mark.Was):
		return nil, fmt.Errorf("directory %s: %w: %s", o.Root, ErrOther, mark.Base)
	}
	return mark, nil
}

// checkCopy returns an error, before anything is written, if the options or the directory do not fit a copy.
func checkCopy(o *Options) error {
	if o.Site == "" || o.ReadOnly {
		return nil
	}
	if _, path, ok := split(o.Site); !ok || !strings.HasSuffix(path, "/") || o.Root == "" || o.Contents != Mirror {
		return fmt.Errorf("copy of %q: want an absolute URL that ends in a slash, and a root for a mirror of it", o.Site)
	}
	t, err := filetree.Open(o.Root)
	if err != nil {
		return err
	}
	_, err = owner(t, o)
	return errors.Join(err, t.Close())
}

// loadCopy reads the copy's record from the state.
func (o *opening) loadCopy(tx *bbolt.Tx) error {
	c := o.c
	raw := tx.Bucket(changes.Bucket).Get(copyKey)
	if raw == nil {
		if c.opts.Site != "" && !c.opts.ReadOnly && c.index.last > 0 {
			return fmt.Errorf("%w: it is a crawl, not a copy of one site", ErrOther)
		}
		return nil
	}
	m := &copyMeta{}
	if err := json.Unmarshal(raw, m); err != nil {
		return record.Damaged(changes.Bucket, copyKey)
	}
	if !c.opts.names(m.Base, m.Was) && !c.opts.ReadOnly {
		return fmt.Errorf("%w: %s", ErrOther, m.Base)
	}
	c.copied, c.sinks.store.Files = m, m.Root
	if !filepath.IsAbs(m.Root) {
		c.sinks.store.Files = filepath.Join(c.dir, m.Root)
	}
	return nil
}

// openCopy locks the directory, and completes the file operations of the last transaction.
func (o *opening) openCopy() error {
	c := o.c
	t, err := filetree.Open(c.opts.Root)
	if err != nil {
		return err
	}
	m := mirror.New(t)
	c.sinks.mirror, c.sinks.store.Files = m, c.opts.Root
	if err := t.Lock(); err != nil {
		return fmt.Errorf("directory %s: %w", c.opts.Root, err)
	}
	mark, err := owner(t, &c.opts) // again, now that no other process can change it
	if err != nil {
		return err
	}
	if mark == nil {
		mark = &siteMark{}
	}
	meta := copyMeta{Base: c.opts.Site, ID: rand.Text(), Strays: mark.ID != ""}
	if c.copied != nil {
		meta = *c.copied
		m.Fold, m.Portable = meta.Fold, meta.Portable
	}
	m.Base = meta.Base
	if err := o.redo(); err != nil {
		return err
	}
	if c.copied == nil {
		meta.Fold, meta.Portable = t.Probe()
		meta.Portable = meta.Portable || runtime.GOOS == "windows"
		m.Fold, m.Portable = meta.Fold, meta.Portable
	} else if mark.ID != meta.ID || mark.Run != meta.Run && (meta.LastRun == "" || mark.Run != meta.LastRun) {
		meta.Suspect, meta.Strays = true, true // until every file was read, even if by a later run
	}
	meta.Run, meta.LastRun, meta.Root = rand.Text(), mark.Run, c.opts.Root
	if rel, err := filepath.Rel(c.dir, c.opts.Root); err == nil && filepath.IsLocal(filepath.Join("below", rel)) {
		meta.Root = rel // so that both can be moved together
	} else if abs, err := filepath.Abs(c.opts.Root); err == nil {
		meta.Root = abs
	}
	if err := write(c, meta.write); err != nil {
		return err
	}
	c.copied = &meta
	return writeMark(t, siteMark{Base: meta.Base, Was: meta.Was, ID: meta.ID, Run: meta.Run})
}

func (m *copyMeta) write(tx *bbolt.Tx) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Bucket(changes.Bucket).Put(copyKey, raw)
}

// verifyCopy makes pending fetches of the pages whose files have changed: missing, of another size, or, in a
// suspect state, with other bytes.
func (o *opening) verifyCopy() error {
	c := o.c
	next := frontier.PageID(0)
	for done := false; !done; {
		var lost []frontier.PageID
		err := c.reading(func(tx *bbolt.Tx) error {
			v := c.view(tx)
			var p Page
			looked := 0
			done = true
			return mirror.Each(tx.Bucket(changes.Bucket), next, func(id frontier.PageID, name string) (bool, error) {
				if next = id; looked == mostLooked || len(lost) == dropAtOnce {
					done = false
					return false, nil
				}
				looked++
				if ok, err := v.page(id, &p); err != nil {
					return false, err
				} else if !ok {
					return false, record.Damaged(changes.Bucket, []byte("names"))
				}
				if !c.sinks.mirror.Stands(name, p.Length, c.copied.Suspect, p.Digest) {
					lost = append(lost, id)
				}
				return true, nil
			})
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

// mostLooked is how many files are checked in one read transaction.
const mostLooked = 50_000

// loseAll handles the loss of the files of pages.
func (u *update) loseAll(lost []frontier.PageID) error {
	if len(lost) == 0 {
		return nil
	}
	names, err := u.names()
	if err != nil {
		return err
	}
	for _, id := range lost {
		if err := names.Release(id); err != nil {
			return err
		}
		w, err := u.pages.get(id)
		if err != nil {
			return err
		}
		u.lose(w)
	}
	return nil
}

// lose makes a pending fetch of a page whose file is gone, for the content that it had.
func (u *update) lose(w *work) {
	w.Stored, w.ETag, w.LastModified, w.dirty = contents.Place{}, "", "", true
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

// serves reports whether a visit brought a possible answer for the page, or a temporary failure.
func (x *visiting) serves() bool {
	v := x.v
	switch {
	case v.large():
		return false
	case v.Fault != "":
		return true
	case v.Status == http.StatusNotModified:
		return !x.w.Digest.IsZero()
	case v.Status == http.StatusOK, v.Status == http.StatusNonAuthoritativeInfo:
		return true
	}
	return v.Status >= 500 || v.Status == 0 || v.Status == http.StatusRequestTimeout || v.Status == http.StatusTooEarly || v.Status == http.StatusTooManyRequests
}

// large reports whether the page exceeds the size limit.
func (v *Visit) large() bool { return v.Cut && v.Status < 300 }

// unserved stores that the site does not serve a page that it announces: the page stays as it was, and the
// fetch stays pending. A page that is too large is not fetched again until the site announces a change.
func (x *visiting) unserved() {
	v, w := x.v, x.w
	fault := answer(v.Status)
	if v.large() {
		fault = "too large"
	}
	w.fail(fault, x.u.now)
	if w.State = Refused; w.has() {
		w.State = Failing
	}
	if v.large() {
		w.settle()
		w.At, w.planned = Never, true
		return
	}
	x.later(x.u.c.opts.hurried(refusals[min(w.Fails, len(refusals))-1]))
}

// matched and missed count answers to claims. missed reports whether the answer is to be believed, and
// whether it has demoted the site's digests; first is true for the first answer to a claim.
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

// judgeCopy is judge for a copy, which follows the site's word from any source: a repeated claim is no news,
// and any other is a pending fetch unless its content is stored.
func (s *applying) judgeCopy(w *work, item *protocol.Item) judgement {
	switch {
	case w.State == Gone:
		return owed
	case !item.Digest.IsZero() && w.has() && w.Digest == item.Digest && w.Stored.File != "":
		if w.State == Failing || w.State == Refused {
			w.answered()
			w.State, w.planned, w.dirty = Held, false, true
			s.u.plan(w)
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
	// A coarse or implausible date proves nothing.
	_, sane := protocol.SaneModified(item.Modified, s.u.now, s.u.c.opts.Dates)
	pending := w.Told || w.At.Equal(Never) && w.State != Held
	if sane && keepable(item.Modified).Equal(w.said) && (pending || !item.Modified.Add(item.Span).After(w.Last)) {
		return nothing
	}
	return owed
}

// Tidy removes files of a copy that belong to no page, left behind by a lost state. It does so once, when no
// fetch is pending, and costs nothing otherwise.
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
		names, err := u.names()
		if err != nil {
			return err
		}
		return c.sinks.mirror.Walk(func(name string) error {
			if names.Has(name) {
				return nil
			}
			return names.Remove(name)
		})
	})
	if err != nil {
		return fmt.Errorf("tidy directory: %w", err)
	}
	return nil
}

// NewBody creates a file of a copy for a body to come, see Visit.File. A caller that does not commit it
// should remove it; otherwise the next Open does.
func (c *Collection) NewBody() (*os.File, error) {
	return c.sinks.mirror.Create()
}

// A Copy is the state of the copy of a site.
type Copy struct {
	Base, Root string
	Moved      time.Time // when its site moved last; zero: never
	Digests
}

// Copy returns the state of the copy, and false if the collection is not a copy.
func (c *Collection) Copy() (Copy, bool) {
	c.index.mu.RLock()
	defer c.index.mu.RUnlock()
	if c.copied == nil {
		return Copy{}, false
	}
	return Copy{Base: c.copied.Base, Root: c.sinks.store.Files, Moved: c.copied.Moved, Digests: c.copied.Digests}, true
}
