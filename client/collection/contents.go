package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// Directories below that of the collection.
const (
	warcDir   = "warc"
	mirrorDir = "mirror"
)

// ErrNoContent is returned where no body is stored.
var ErrNoContent = errors.New("no content is stored")

// A contents is where bodies and news go. It is the writer's alone, but for what
// outlet and sizing guard.
type contents struct {
	archive *warc.Writer // nil: none
	mirror  *mirror      // nil: none
	outlet

	sizing sync.Mutex
	sizes  map[string]standing // by archive
}

// openContents makes ready what keep and tell need. state is what stateOfContents
// gave to the last transaction that was committed, nil if there was none.
func (c *Collection) openContents(state []byte) error {
	setBack, err := c.openJournal()
	if err != nil {
		return errors.Join(err, c.closeContents())
	}
	if c.opts.ReadOnly {
		return nil
	}
	if c.opts.Contents&WARC != 0 {
		o := &warc.Options{Coding: c.opts.Coding, MaxBytes: c.opts.MaxWARC, Now: c.opts.Now, Info: info(c.opts.Info)}
		// What stands behind the mark is of turns that were never taken in. The
		// mark of a new collection stands before the first file. But
		// if the state was put back from a copy, it is the state that is wrong.
		if mark, ok := parseMark(state); ok && !setBack {
			o.Mark = &mark
		}
		if c.contents.archive, err = warc.OpenWriter(filepath.Join(c.dir, warcDir), o); err != nil {
			return errors.Join(err, c.closeContents())
		}
		if o.Mark == nil { // what stands there now stays, but not what a first turn adds before it is taken in
			if err := c.markContents(); err != nil {
				return errors.Join(err, c.closeContents())
			}
		}
	}
	if c.opts.Contents&Mirror != 0 {
		if c.contents.mirror, err = openMirror(filepath.Join(c.dir, mirrorDir)); err != nil {
			return errors.Join(err, c.closeContents())
		}
		if err := c.redo(); err != nil {
			return errors.Join(err, c.closeContents())
		}
	}
	return nil
}

// markContents stores how far the contents go, in a transaction of its own.
func (c *Collection) markContents() error {
	c.committed = c.stateOfContents()
	return guard(func() error { return c.db.Update(c.writeMeta) })
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

// keep writes what a visit brought, and returns where the body stands. p is
// the page as it was before. It is called in the transaction that takes the
// visit in, in the order of visits, by one goroutine at a time.
func (c *Collection) keep(v *Visit, p *Page) (Place, error) {
	body := v.Status == http.StatusOK || v.Status == http.StatusNonAuthoritativeInfo || v.Status == http.StatusPartialContent
	switch {
	case v.Fault != "" && !v.Cut, v.Soft404:
		return Place{}, nil
	case !body && (v.Status != http.StatusNotModified || p.Digest.IsZero()):
		return Place{}, nil
	}
	same := !body || p.Digest == v.Digest
	date, stored := time.Time{}, false // whether what came is there already
	if same {
		date, stored = c.captured(p.Stored)
	}
	if c.contents.mirror != nil && body && !(stored && p.has()) {
		if err := c.contents.mirror.keep(p.ID, v.Body); err != nil {
			return Place{}, err
		}
	}
	original, ok := archived(p.Stored)
	if c.contents.archive == nil || !body && !(ok && stored) {
		if stored && p.has() {
			return p.Stored, nil
		}
		return Place{}, nil // a mirror's tell says where, once the name is known
	}
	asked := v.Asked
	if asked.IsZero() {
		asked = c.opts.Now()
	}
	capture := &warc.Capture{URL: p.URL, Date: asked, IP: v.IP, Proto: v.Proto, Status: v.Status, Header: v.Header,
		Body: v.Body, Cut: v.Cut, Digest: v.Digest, Type: v.Type}
	if ok && stored {
		capture.Of = &warc.Original{URL: p.URL, Digest: p.Digest, Place: original, Date: date}
		_, err := c.contents.archive.Revisit(capture)
		return p.Stored, err
	}
	place, err := c.contents.archive.Response(capture)
	place.File = warcDir + "/" + place.File
	return Place(place), err
}

// archived returns a place as the archive knows it, and false if it is not there.
func archived(p Place) (warc.Place, bool) {
	name, ok := strings.CutPrefix(p.File, warcDir+"/")
	return warc.Place{File: name, Offset: p.Offset, Length: p.Length}, ok
}

// captured returns the date that a record states, the zero time for a file
// without records, and whether there is one. It does not read to the end.
func (c *Collection) captured(p Place) (time.Time, bool) {
	place, ok := archived(p)
	if !ok || c.contents.archive == nil {
		return time.Time{}, p.File != "" && c.standing(p)
	}
	if end := c.contents.archive.Synced(); place.File == end.File && place.Offset >= end.Offset {
		return time.Time{}, true // of the turn that is being taken in
	}
	s, err := warc.Open(filepath.Join(c.dir, warcDir), place)
	if err != nil {
		var damage *warc.Damage
		return time.Time{}, !errors.As(err, &damage) && !errors.Is(err, fs.ErrNotExist)
	}
	defer s.Close()
	return s.Date(), true
}

// syncContents makes what keep wrote durable. It is called before the
// transaction is committed that names it.
func (c *Collection) syncContents() error {
	k := &c.contents
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

// stateOfContents is stored in the transaction: how far the contents go that it
// speaks of. What stands behind that is nobody's.
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

// A Version is one time at which a page was asked for, as the archive has it.
type Version struct {
	URL    string
	At     time.Time // to the second
	Status int
	Type   string          // empty for one that brought nothing new
	Digest protocol.Digest // of the body
	Same   bool            // it brought nothing new: 304, or the same bytes
	Stored Place           // of its own record
	Body   Place           // of the record with the body; the zero Place: unknown
}

// Versions returns the history of a URL, oldest first. It is empty where there
// is no archive.
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
					if !w.Same && w.Digest == v.Digest {
						v.Body = w.Stored
					}
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
	At        time.Time   // when it was asked for; the zero time: unknown
	Status    int         // 0: unknown
	Header    http.Header // as it came, but for the codings; nil: unknown
	Length    int64       // of the body; -1: unknown

	closer io.Closer
}

// Close ends the reading.
func (c *Content) Close() error { return c.closer.Close() }

// Stores reports whether bodies are stored at all: if not, a Visit needs none.
func (c *Collection) Stores() bool { return c.opts.Contents != 0 }

// Stands reports whether the file is there, and long enough, in which a body
// stands: else the page is to be asked for unconditionally, and what comes is
// stored again. It does not read the file. The zero Place stands only in a
// collection that stores nothing. It is quick: what it finds out of an archive it
// believes for some seconds.
func (c *Collection) Stands(p Place) bool {
	return c.opts.Contents == 0 || p.File != "" && c.standing(p)
}

// A standing is the size of a file, as it was not long ago.
type standing struct {
	size int64
	at   time.Time
}

// believed is how long the size of an archive is believed: they only grow, unless somebody
// lays hands on them.
const believed = 5 * time.Second

func (c *Collection) standing(p Place) bool {
	if !filepath.IsLocal(p.File) || p.Offset < 0 || p.Length < 0 {
		return false
	}
	_, shared := archived(p) // by many pages
	now := time.Now()
	if shared {
		c.contents.sizing.Lock()
		s := c.contents.sizes[p.File]
		c.contents.sizing.Unlock()
		if s.size >= p.Offset+p.Length && now.Sub(s.at) < believed {
			return true
		}
	}
	st, err := os.Stat(filepath.Join(c.dir, filepath.FromSlash(p.File)))
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

// Content opens what is held of a page, or was held if it is gone. It returns
// ErrNoContent if nothing is stored.
func (c *Collection) Content(p *Page) (*Content, error) {
	content, err := c.Body(p.Stored)
	if err != nil {
		return nil, fmt.Errorf("open content of %s: %w", p.URL, err)
	}
	return content, nil
}

// ContentAt opens what was held of a URL at a time: of the newest version that
// is not younger. It needs an archive, and returns ErrNoContent where there is
// no such version.
func (c *Collection) ContentAt(url string, at time.Time) (*Content, error) {
	versions, err := c.Versions(url)
	if err != nil {
		return nil, err
	}
	err = ErrNoContent
	for i := len(versions) - 1; i >= 0; i-- {
		if v := versions[i]; !v.At.After(at) {
			var content *Content
			if content, err = c.Body(v.Body); err == nil {
				return content, nil
			}
			break
		}
	}
	return nil, fmt.Errorf("open content of %s at %s: %w", url, at.UTC().Format(time.RFC3339), err)
}

// Body opens the body that stands at a place. It returns ErrNoContent for the zero Place.
func (c *Collection) Body(p Place) (*Content, error) {
	if p.File == "" {
		return nil, ErrNoContent
	}
	if place, ok := archived(p); ok {
		s, err := warc.Open(filepath.Join(c.dir, warcDir), place)
		if err != nil {
			return nil, err
		}
		m, err := warc.ReadMessage(s.Record.Body)
		if err != nil {
			s.Close()
			return nil, err
		}
		content := &Content{Reader: m.Body, At: s.Date(), Status: m.Status, Header: m.Header, Length: -1, closer: s}
		if n, err := strconv.ParseInt(m.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
			content.Length = n
		}
		return content, nil
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(p.File))
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
