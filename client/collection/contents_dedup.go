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

// A body in the archive is not stored again, whatever URL brings it: a revisit record refers to it. The
// digests bucket names a page with that body: by the parsed digest, whose entry exists anyway, or, if
// nothing was parsed or the bodies differ though the parsed content is equal, by the digest of the body, an
// entry of 12 bytes. That page's record has the place of the body. The bucket remembers one page per digest.

// A unreadableYet is a record written in the present turn, which cannot be read yet.
type unreadableYet struct {
	warc.Place
	url  string
	date time.Time
}

// note remembers a record. Earlier ones in another file can be read, and are dropped.
func (k *contents) note(p warc.Place, url string, date time.Time) {
	if n := len(k.noted); n > 0 && k.noted[n-1].File != p.File {
		k.unnote()
	}
	k.noted = append(k.noted, unreadableYet{p, url, date})
}

func (k *contents) unnote() {
	clear(k.noted)
	k.noted = k.noted[:0]
}

// archived returns a place in the form of package warc, and false if it is not in the archive.
func archived(p Place) (warc.Place, bool) {
	name, ok := strings.CutPrefix(p.File, warcDir+"/")
	return warc.Place{File: name, Offset: p.Offset, Length: p.Length}, ok
}

// captured returns the URL and date of the record at a place, nothing for a plain file, and whether the body
// is there. It does not read to the end.
func (c *Collection) captured(p Place) (of warc.Original, stored bool) {
	place, ok := archived(p)
	if !ok || c.contents.archive == nil {
		return of, p.File != "" && c.standing(p)
	}
	if of.Place = place; c.isSpoiled(p) {
		return of, false
	}
	if list := c.contents.noted; len(list) > 0 && list[0].File == place.File {
		i, found := slices.BinarySearchFunc(list, place.Offset, func(n unreadableYet, at int64) int { return cmp.Compare(n.Offset, at) })
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

// twin returns a page whose stored body equals that of a visit of page id, nil if none is known.
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

// holds reports whether the body is the page's, and in the archive.
func (p *Page) holds(body protocol.Digest) bool {
	_, ok := archived(p.Stored)
	return ok && p.Digest == body
}

// referred returns the place of the body of a revisit whose index line does not name it, because the line
// was rebuilt from the record. It is empty if the body cannot be found.
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

// standsOf returns the record of a URL with the body of a revisit; the zero Place if there is none.
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

// ownRecord opens the record of a page's own answer, if its body is in another URL's record. It returns nil
// if there is none: the page was moved there.
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
