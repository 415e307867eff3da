package holding

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/parleyweb/parley/protocol"
)

// Every run has a name, which the state and then the mark of the directory
// take on. A state that speaks of another run than the directory is not the
// one that filled it last: one of the two was put back from a copy, and what
// the state says of the files need not be so.

// enter begins a run. What the files hold is then as the state says, or owed.
func (c *Holding) enter(was siteMark) error {
	m := c.meta
	if was.Run != m.Run && (m.LastRun == "" || was.Run != m.LastRun) {
		m.Suspect = true // until every file was read, were it in a later run
		m.Strays = true
	}
	m.Run, m.LastRun = rand.Text(), was.Run
	if err := c.update(func(u *update) error {
		u.meta.Run, u.meta.LastRun, u.meta.Suspect, u.meta.Strays = m.Run, m.LastRun, m.Suspect, m.Strays
		return nil
	}); err != nil {
		return err
	}
	if err := c.tree.mark(siteMark{Base: m.Base, ID: m.ID, Run: m.Run}); err != nil {
		return err
	}
	after, first := []byte(nil), true
	for first || after != nil {
		first = false
		if err := c.update(func(u *update) (err error) {
			if after, err = u.verify(after); after == nil {
				u.meta.LastRun, u.meta.Suspect = "", false
			}
			return err
		}); err != nil {
			return fmt.Errorf("verify files: %w", err)
		}
	}
	return nil
}

// verify makes owed the pages whose files are gone, or of another size, or, in
// a suspect state, of other bytes. It looks at a bounded number of pages and
// returns where to go on, nil at the end.
func (u *update) verify(after []byte) ([]byte, error) {
	list, next, err := u.pick(after, func(p *Page) bool { return p.Path != "" && !u.stands(p) })
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if err := u.release(s.p.Path); err != nil {
			return nil, err
		}
		owed := *s.p
		owed.Path, owed.Held, owed.Length, owed.ETag, owed.LastModified = "", protocol.Digest{}, 0, "", ""
		if !owed.Due.Equal(Parked) {
			owed.Due, owed.fails, owed.misses = u.now, 0, 0
		}
		if err := u.put(s.url, s.p, &owed); err != nil {
			return nil, err
		}
	}
	return next, u.promote()
}

// stands reports whether the file of a page is there as it was left.
func (u *update) stands(p *Page) bool {
	info, err := u.tree.lstat(p.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != p.Length {
		return false
	}
	if !u.meta.Suspect {
		return true
	}
	f, err := u.tree.root.Open(p.Path)
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
	return d == p.Held
}
