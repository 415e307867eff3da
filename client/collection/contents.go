package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// Directories below that of the collection.
const (
	warcDir   = "warc"
	mirrorDir = "mirror"
)

// ErrNoContent is returned if no body is stored.
var ErrNoContent = errors.New("no content is stored")

// A contents writes bodies and events. Only the writer uses it, except for what the locks of outlet and
// sizing guard.
type contents struct {
	archive *warc.Writer // nil: none
	mirror  *mirror      // nil: none
	noted   []unreadableYet
	outbox

	sizing  sync.Mutex
	sizes   map[string]standing // by archive
	damaged map[spot]bool
}

// openContents opens what keep and tell need. state is the stateOfContents of the last committed
// transaction, nil if there was none.
func (c *Collection) openContents(state []byte) error {
	setBack, err := c.openJournal()
	if err != nil {
		return errors.Join(err, c.closeContents())
	}
	if err := c.readDamaged(); err != nil {
		return errors.Join(err, c.closeContents())
	}
	if c.opts.ReadOnly {
		return nil
	}
	if c.opts.Contents&WARC != 0 {
		o := &warc.Options{Coding: c.opts.Coding, MaxBytes: c.opts.MaxWARC, Now: c.opts.Now, Info: info(c.opts.Info)}
		// Records after the mark are of turns that were never committed. A new collection has its mark
		// before the first file. But if the state was restored from a backup, it is the state that is wrong.
		if mark, ok := parseMark(state); ok && !setBack {
			o.Mark = &mark
		}
		if c.contents.archive, err = warc.OpenWriter(filepath.Join(c.dir, warcDir), o); err != nil {
			return errors.Join(err, c.closeContents())
		}
		if o.Mark == nil { // existing records stay, but not those of a first turn that is never committed
			if err := c.markContents(); err != nil {
				return errors.Join(err, c.closeContents())
			}
		}
	}
	if c.opts.Contents&Mirror != 0 {
		if err := c.openMirror(); err != nil {
			return errors.Join(err, c.closeContents())
		}
	}
	return nil
}

// markContents stores the present end of the contents, in a transaction of its own.
func (c *Collection) markContents() error {
	c.committed = c.stateOfContents()
	return boltfile.RecoverDamage(func() error { return c.db.Update(c.writeMeta) })
}

func info(m map[string]string) []warc.Field {
	var fields []warc.Field
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, warc.Field{Name: name, Value: m[name]})
	}
	return fields
}

func (c *Collection) closeContents() error {
	k := &c.contents
	err := c.closeJournal()
	if k.archive != nil {
		err = errors.Join(err, k.archive.Close())
		k.archive = nil
	}
	if k.mirror != nil {
		err = errors.Join(err, k.mirror.close())
		k.mirror = nil
	}
	return err
}

// keep writes the answer of a visit, and returns where its body is stored. p is the page as it was before.
// It runs in the transaction of the visit, in the order of visits, in one goroutine at a time.
func (u *update) keep(v *Visit, p *Page) (Place, error) {
	c := u.c
	body := isPage(v.Status)
	switch {
	case v.Fault != "" && !v.Cut, v.Soft404:
		return Place{}, nil
	case !body && (v.Status != http.StatusNotModified || p.Digest.IsZero()):
		return Place{}, u.answer(v, p)
	}
	place, of, stored := p.Stored, warc.Original{}, false // whether the answer's body is stored already
	if !body || p.Digest == v.Digest {
		of, stored = c.captured(place)
	}
	if c.contents.mirror != nil && body && !(stored && p.has()) {
		if err := c.contents.mirror.keep(p.ID, v); err != nil {
			return Place{}, err
		}
	}
	_, ok := archived(place)
	if c.contents.archive == nil || !body && !(ok && stored) {
		if stored && p.has() {
			return place, nil
		}
		return Place{}, nil // the mirror's tell sets the place, once the name is known
	}
	if stored = stored && ok; !stored {
		twin, err := u.twin(v, p.ID)
		if err != nil {
			return Place{}, err
		}
		if twin != nil {
			place = twin.Stored
			of, stored = c.captured(place)
		}
	}
	capture := u.capture(v, p)
	if stored {
		if of.Digest = p.Digest; body {
			of.Digest = v.Digest
		}
		capture.Of = &of
		_, err := c.contents.archive.Revisit(capture)
		return place, err
	}
	at, err := c.contents.archive.Response(capture)
	c.contents.note(at, capture.URL, capture.Date)
	return below(at), err
}

// capture returns a visit in the form that the archive stores.
func (u *update) capture(v *Visit, p *Page) *warc.Capture {
	asked := v.Asked
	if asked.IsZero() {
		asked = u.c.opts.Now()
	}
	return &warc.Capture{URL: p.URL, Date: asked, IP: v.IP, Proto: v.Proto, Status: v.Status, Header: v.Header,
		Body: v.Body, Cut: v.Cut, Digest: v.Digest, Type: v.Type}
}

// syncContents makes the writes of keep durable. It is called before the commit of the transaction that
// refers to them.
func (c *Collection) syncContents() error {
	k := &c.contents
	k.unnote()
	if k.mirror != nil {
		if err := k.mirror.sync(); err != nil {
			return err
		}
	}
	if k.archive != nil {
		return k.archive.Sync()
	}
	return nil
}

// stateOfContents returns the end of the contents that the transaction refers to, which is stored in it.
// Records after that belong to no transaction.
func (c *Collection) stateOfContents() []byte {
	if c.contents.archive == nil {
		return c.committed
	}
	m := c.contents.archive.Mark()
	return binary.AppendUvarint(appendString(nil, m.File), uint64(m.Offset))
}

func parseMark(b []byte) (warc.Place, bool) {
	d := decoder{b: b}
	p := warc.Place{File: d.string(), Offset: int64(d.uint())}
	return p, !d.bad
}

// A Version is one fetch of a page, as archived. If its Status is a redirect or an error, the body is not
// the page's content.
type Version struct {
	URL    string
	At     time.Time // to the second
	Status int
	Type   string          // empty if it brought nothing new
	Digest protocol.Digest // of the body
	Same   bool            // it brought nothing new: 304, or the same bytes
	Stored Place           // of its own record
	Body   Place           // of the record with the body; the zero Place: unknown
}

// Versions returns the history of a URL, oldest first. It is empty without an archive.
func (c *Collection) Versions(url string) ([]Version, error) {
	list, err := warc.Index{Dir: filepath.Join(c.dir, warcDir)}.Lookup(url)
	if err != nil {
		return nil, fmt.Errorf("read versions of %s: %w", url, err)
	}
	versions := make([]Version, len(list))
	for i, e := range list {
		v := Version{URL: e.URL, At: e.Date, Status: e.Status, Type: e.Type, Digest: e.Digest, Same: e.Revisit(), Stored: below(e.Place)}
		v.Body = v.Stored
		if v.Same {
			v.Type = ""
			if v.Body = below(e.Of); v.Body.File == "" {
				for _, w := range versions[:i] {
					if !w.Same && w.Digest == v.Digest && w.brings() {
						v.Body = w.Stored
					}
				}
				if v.Body.File == "" {
					v.Body = c.referred(&e)
				}
			}
		}
		versions[i] = v
	}
	return versions, nil
}

func below(p warc.Place) Place {
	if p.File == "" {
		return Place{}
	}
	p.File = warcDir + "/" + p.File
	return Place(p)
}

// A Content is a body as it was stored. Close it.
type Content struct {
	io.Reader             // the body
	At        time.Time   // when it was requested; the zero time: unknown
	Status    int         // 0: unknown
	Header    http.Header // as received, but for the codings; nil: unknown
	Length    int64       // of the body; -1: unknown

	closer io.Closer
	url    string // of its WARC record; empty: none
}

// Close releases the file.
func (c *Content) Close() error { return c.closer.Close() }

// Stores reports whether bodies are stored at all: if not, a Visit needs none.
func (c *Collection) Stores() bool { return c.opts.Contents != 0 }

// Stands reports whether the file of a body exists and is long enough: if not, the page must be fetched
// without conditions, and its body stored again. It does not read the file: damage is found only by a read
// of the body. The zero Place stands only in a collection that stores nothing. It is fast: the size of an
// archive is cached for some seconds.
func (c *Collection) Stands(p Place) bool {
	return c.opts.Contents == 0 || p.File != "" && c.standing(p)
}

// A standing is the recent size of a file.
type standing struct {
	size int64
	at   time.Time
}

// believed is how long the cached size of an archive is used: archives only grow, unless somebody tampers with them.
const believed = 5 * time.Second

func (c *Collection) standing(p Place) bool {
	if !filepath.IsLocal(p.File) || p.Offset < 0 || p.Length < 0 || c.isSpoiled(p) {
		return false
	}
	_, shared := archived(p) // with many pages
	now := time.Now()
	if shared {
		c.contents.sizing.Lock()
		s := c.contents.sizes[p.File]
		c.contents.sizing.Unlock()
		if s.size >= p.Offset+p.Length && now.Sub(s.at) < believed {
			return true
		}
	}
	dir, name := c.fileOf(p)
	st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	if shared {
		c.contents.sizing.Lock()
		if c.contents.sizes == nil {
			c.contents.sizes = map[string]standing{}
		}
		c.contents.sizes[p.File] = standing{st.Size(), now}
		c.contents.sizing.Unlock()
	}
	return st.Size() >= p.Offset+p.Length
}

// Content opens the stored content of a page, or its last content if it is gone. It returns ErrNoContent if
// none is stored.
func (c *Collection) Content(p *Page) (*Content, error) {
	content, err := c.Body(p.Stored)
	if err == nil && content.url != p.URL && content.url != "" {
		var own *warc.Stored
		if own, err = c.ownRecord(p); own != nil {
			err = content.answered(own)
		}
		if err != nil {
			content.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open content of %s: %w", p.URL, err)
	}
	return content, nil
}

// Version returns the stored content of a URL, if its digest is d and it has at most max bytes: the base of
// a site's delta. Otherwise it returns ErrNoContent.
func (c *Collection) Version(url string, d protocol.Digest, max int64) ([]byte, error) {
	p, ok, err := c.Page(url)
	switch {
	case err != nil:
		return nil, err
	case !ok || d.IsZero() || p.Digest != d || p.Length > max || p.Stored.File == "":
		return nil, ErrNoContent
	}
	content, err := c.Body(p.Stored)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	b, err := io.ReadAll(io.LimitReader(content, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max || protocol.Sum(b) != d { // somebody has changed the file
		return nil, ErrNoContent
	}
	return b, nil
}

// answered gives c, a body read from the record of another URL, the date, status and header of own, the
// record that refers to it. It closes own.
func (c *Content) answered(own *warc.Stored) error {
	defer own.Close()
	m, err := warc.ReadMessage(own.Record.Body)
	if err != nil {
		return err
	}
	if length := c.Header.Values("Content-Length"); len(length) > 0 {
		m.Header["Content-Length"] = length // of the body read, not of the one sent
	}
	c.At, c.Status, c.Header, c.url = own.Date(), m.Status, m.Header, own.URL()
	return nil
}

// ContentAt opens the content that a URL had at a time: its newest version that is not younger. It needs an
// archive, and returns ErrNoContent if there is no such version.
func (c *Collection) ContentAt(url string, at time.Time) (*Content, error) {
	versions, err := c.Versions(url)
	if err != nil {
		return nil, err
	}
	for i := len(versions) - 1; i >= 0; i-- {
		if v := versions[i]; !v.At.After(at) && v.brings() {
			content, err := c.bodyOf(&v)
			if err == nil {
				return content, nil
			}
			return nil, fmt.Errorf("open content of %s at %s: %w", url, at.UTC().Format(time.RFC3339), err)
		}
	}
	return nil, fmt.Errorf("open content of %s at %s: %w", url, at.UTC().Format(time.RFC3339), ErrNoContent)
}

// bodyOf opens the body of a version.
func (c *Collection) bodyOf(v *Version) (*Content, error) {
	content, err := c.Body(v.Body)
	if err != nil || content.url == v.URL || content.url == "" {
		return content, err
	}
	place, _ := archived(v.Stored)
	own, err := warc.Open(filepath.Join(c.dir, warcDir), place)
	if err == nil {
		err = content.answered(own)
	}
	if err != nil {
		content.Close()
		return nil, err
	}
	return content, nil
}

// Body opens the body at a place. It returns ErrNoContent for the zero Place, and ErrBodyDamaged, at once or
// while reading, if the record is damaged.
func (c *Collection) Body(p Place) (*Content, error) {
	if p.File == "" {
		return nil, ErrNoContent
	}
	if place, ok := archived(p); ok {
		s, err := warc.Open(filepath.Join(c.dir, warcDir), place)
		if err != nil {
			return nil, c.damage(place, err)
		}
		m, err := warc.ReadMessage(s.Record.Body)
		if err != nil {
			s.Close()
			return nil, c.damage(place, err)
		}
		content := &Content{Reader: c.check(place, s.Record, m.Body), At: s.Date(), Status: m.Status, Header: m.Header, Length: -1, closer: s, url: s.URL()}
		if n, err := strconv.ParseInt(m.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
			content.Length = n
		}
		return content, nil
	}
	dir, name := c.fileOf(p)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(ErrNoContent, err)
	}
	return &Content{Reader: f, Length: st.Size(), closer: f}, nil
}
