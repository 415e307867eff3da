package collection

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// A body that stands in the archive is not stored again, whatever URL brings it:
// a revisit record says where it stands. The digests bucket names a page that holds the body: by
// the digest of what was parsed, which it has anyway, or, where nothing was parsed or the bodies
// differ though that is alike, by the digest of the body, an entry of 12 bytes. That page's
// record says where the body stands. The bucket remembers one page a digest.

// A noted record was written in the turn that is being taken in, and cannot be
// read yet.
type noted struct {
	warc.Place
	url  string
	date time.Time
}

// note takes note of a record. Those before it in another file can be read.
func (k *contents) note(p warc.Place, url string, date time.Time) {
	if n := len(k.noted); n > 0 && k.noted[n-1].File != p.File {
		k.unnote()
	}
	k.noted = append(k.noted, noted{p, url, date})
}

func (k *contents) unnote() {
	clear(k.noted)
	k.noted = k.noted[:0]
}

// archived returns a place as the archive knows it, and false if it is not there.
func archived(p Place) (warc.Place, bool) {
	name, ok := strings.CutPrefix(p.File, warcDir+"/")
	return warc.Place{File: name, Offset: p.Offset, Length: p.Length}, ok
}

// captured returns what a record says of itself, nothing for a file without
// records, and whether there is one. It does not read to the end.
func (c *Collection) captured(p Place) (of warc.Original, stored bool) {
	place, ok := archived(p)
	if !ok || c.contents.archive == nil {
		return of, p.File != "" && c.standing(p)
	}
	if of.Place = place; c.isSpoiled(p) {
		return of, false
	}
	if list := c.contents.noted; len(list) > 0 && list[0].File == place.File {
		i, found := slices.BinarySearchFunc(list, place.Offset, func(n noted, at int64) int { return cmp.Compare(n.Offset, at) })
		if found {
			of.URL, of.Date = list[i].url, list[i].date
			return of, true
		}
	}
	s, err := warc.Open(filepath.Join(c.dir, warcDir), place)
	if err != nil {
		var damage *warc.Damage
		return of, !errors.As(err, &damage) && !errors.Is(err, fs.ErrNotExist)
	}
	defer s.Close()
	of.URL, of.Date = s.URL(), s.Date()
	return of, true
}

// twin returns a page that holds the very body that a visit of page id has
// brought, nil if none is known.
func (u *update) twin(v *Visit, id frontier.PageID) (*work, error) {
	if len(v.Body) == 0 || v.Cut {
		return nil, nil
	}
	if !v.Parsed.IsZero() {
		w, err := u.original(v.Parsed, id)
		if err != nil || w == nil {
			return nil, err
		}
		if w.holds(v.Digest) {
			return w, nil
		}
	}
	key := digestKey(v.Digest)
	first := u.firstOf(key)
	if first == id {
		return nil, nil
	}
	if first != 0 {
		if w, err := u.get(first); err != nil || w != nil && w.holds(v.Digest) {
			return w, err
		}
	}
	u.firsts[key] = id
	return nil, nil
}

// holds reports whether a body stands in the archive at the page's place.
func (p *Page) holds(body protocol.Digest) bool {
	_, ok := archived(p.Stored)
	return ok && p.Digest == body
}

// referred returns where the body of a revisit stands whose line in the index does
// not say so, since it was made anew from the record. It is empty if that cannot be found.
func (c *Collection) referred(e *warc.Entry) Place {
	s, err := warc.Open(filepath.Join(c.dir, warcDir), e.Place)
	if err != nil {
		return Place{}
	}
	url := s.Fields.Get("WARC-Refers-To-Target-URI")
	s.Close()
	if url == "" || url == e.URL {
		return Place{}
	}
	return c.standsOf(e, url)
}

// standsOf returns the record of a URL that has the body of a revisit; the zero Place if there is none.
func (c *Collection) standsOf(e *warc.Entry, url string) Place {
	list, err := warc.Index{Dir: filepath.Join(c.dir, warcDir)}.Lookup(url)
	if err != nil {
		return Place{}
	}
	for _, o := range slices.Backward(list) {
		if !o.Revisit() && o.Digest == e.Digest && !o.Date.After(e.Date) {
			return below(o.Place)
		}
	}
	return Place{}
}

// ownRecord opens the record of a page's own answer where its body stands in another's.
// It returns nil if there is none: the page was moved there.
func (c *Collection) ownRecord(p *Page) (*warc.Stored, error) {
	versions, err := c.Versions(p.URL)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(versions) {
		if v.Body == p.Stored {
			place, _ := archived(v.Stored)
			return warc.Open(filepath.Join(c.dir, warcDir), place)
		}
	}
	return nil, nil
}
