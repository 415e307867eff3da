package contents

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

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

// brings reports whether a version is of the page, not an error or a redirect.
func (v *Version) brings() bool { return v.Same || v.Status == 0 || IsPage(v.Status) }

// IsPage reports whether an answer brings the page; so does 203, which a proxy has changed on the way.
func IsPage(status int) bool {
	return status == http.StatusOK || status == http.StatusNonAuthoritativeInfo || status == http.StatusPartialContent
}

// Versions returns the history of a URL, oldest first. It is empty without an archive.
func (s *Reader) Versions(url string) ([]Version, error) {
	list, err := warc.Index{Dir: s.warcs()}.Lookup(url)
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
					v.Body = s.referred(&e)
				}
			}
		}
		versions[i] = v
	}
	return versions, nil
}

// At opens the content that a URL had at a time: its newest version that is not younger. It needs an
// archive, and returns ErrNoContent if there is no such version.
func (s *Reader) At(url string, at time.Time) (*Content, error) {
	versions, err := s.Versions(url)
	if err != nil {
		return nil, err
	}
	for i := len(versions) - 1; i >= 0; i-- {
		if v := versions[i]; !v.At.After(at) && v.brings() {
			content, err := s.bodyOf(&v)
			if err == nil {
				return content, nil
			}
			return nil, fmt.Errorf("open content of %s at %s: %w", url, at.UTC().Format(time.RFC3339), err)
		}
	}
	return nil, fmt.Errorf("open content of %s at %s: %w", url, at.UTC().Format(time.RFC3339), ErrNoContent)
}

// bodyOf opens the body of a version.
func (s *Reader) bodyOf(v *Version) (*Content, error) {
	content, err := s.Body(v.Body)
	if err != nil || content.url == v.URL || content.url == "" {
		return content, err
	}
	place, _ := Archived(v.Stored)
	return content.answered(s.Record(place))
}

// Own opens the record of a URL's own answer, if its body, at a place, is in another URL's record. It returns nil
// if there is none: the page was moved there.
func (s *Reader) Own(url string, body Place) (*warc.Stored, error) {
	versions, err := s.Versions(url)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(versions) {
		if v.Body == body {
			place, _ := Archived(v.Stored)
			return s.Record(place)
		}
	}
	return nil, nil
}

// referred returns the place of the body of a revisit whose index line does not name it, because the line
// was rebuilt from the record. It is empty if the body cannot be found.
func (s *Reader) referred(e *warc.Entry) Place {
	r, err := s.Record(e.Place)
	if err != nil {
		return Place{}
	}
	url := r.Fields.Get("WARC-Refers-To-Target-URI")
	r.Close()
	if url == "" || url == e.URL {
		return Place{}
	}
	return s.Original(e, url)
}

// Original returns the record of a URL with the body of a revisit; the zero Place if there is none.
func (s *Reader) Original(e *warc.Entry, url string) Place {
	list, err := warc.Index{Dir: s.warcs()}.Lookup(url)
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
