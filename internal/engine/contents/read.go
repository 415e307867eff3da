package contents

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/parleyweb/parley/internal/warc"
)

// ErrNoContent is returned if no body is stored.
var ErrNoContent = errors.New("no content is stored")

// A Content is a body as it was stored. Close it.
type Content struct {
	io.Reader             // the body
	At        time.Time   // when it was requested; the zero time: unknown
	Status    int         // 0: unknown
	Header    http.Header // as received, but for the codings; nil: unknown
	Length    int64       // of the body; -1: unknown

	// Authorized: it was requested with cookies or a client certificate, and is not to be given to others.
	Authorized bool

	closer io.Closer
	url    string // of its WARC record; empty: none
}

// Close releases the file.
func (c *Content) Close() error { return c.closer.Close() }

// answered gives c, a body read from the record of another URL, the date, status and header of own, the record
// that refers to it, if that is not nil. It closes own, and after an error c.
func (c *Content) answered(own *warc.Stored, err error) (*Content, error) {
	if own == nil && err == nil {
		return c, nil
	}
	var m *warc.Message
	if err == nil {
		defer own.Close()
		m, err = warc.ReadMessage(own.Record.Body)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if length := c.Header.Values("Content-Length"); len(length) > 0 {
		m.Header["Content-Length"] = length // of the body read, not of the one sent
	}
	c.At, c.Status, c.Header, c.url = own.Date(), m.Status, m.Header, own.URL()
	c.Authorized = c.Authorized || own.Authorized()
	return c, nil
}

// Content opens the body of a URL at a place. If the body is in the record of another URL, it comes with the
// date, status and header of the URL's own record. It returns ErrNoContent for the zero Place.
func (s *Reader) Content(url string, p Place) (*Content, error) {
	content, err := s.Body(p)
	if err == nil && content.url != url && content.url != "" {
		content, err = content.answered(s.Own(url, p))
	}
	if err != nil {
		return nil, fmt.Errorf("open content of %s: %w", url, err)
	}
	return content, nil
}

// Body opens the body at a place. It returns ErrNoContent for the zero Place, and ErrBodyDamaged, at once or
// while reading, if the record is damaged.
func (s *Reader) Body(p Place) (*Content, error) {
	if p.File == "" {
		return nil, ErrNoContent
	}
	if place, ok := Archived(p); ok {
		r, err := s.Record(place)
		if err != nil {
			return nil, s.Damage(place, err)
		}
		m, err := warc.ReadMessage(r.Record.Body)
		if err != nil {
			r.Close()
			return nil, s.Damage(place, err)
		}
		content := &Content{Reader: s.check(place, r.Record, m.Body), At: r.Date(), Status: m.Status, Header: m.Header, Length: -1, Authorized: r.Authorized(), closer: r, url: r.URL()}
		if n, err := strconv.ParseInt(m.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
			content.Length = n
		}
		return content, nil
	}
	dir, name := s.fileOf(p)
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
