package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
)

// A Source lists pages of a site.
type Source interface {
	// Read calls each with every entry of the source, in any order, and returns its version. If the source
	// still has the version last, of an earlier Read, Read may return errUnchanged instead. An empty
	// version means that the source has no usable one. After any other error nothing may be concluded from
	// absence. An error of each ends the reading, and is returned.
	Read(ctx context.Context, last string, each func(Entry) error) (version string, err error)

	// Partial reports whether the source lists only some pages of the site, such as the newest ones, so that
	// pages that it does not list may exist.
	Partial() bool

	// String names the source for people.
	String() string
}

// errUnchanged is what Source.Read returns when the source has not changed.
var errUnchanged = errors.New("unchanged")

// A List is a Source: a list of URLs in a file, or at an http(s) URL. It is a text with one URL per line, a
// CSV file with a header, or JSON lines, compressed or not. To replace a list while it is in use, write a new
// file beside it and rename that.
type List string

// Read implements [Source].
func (l List) Read(ctx context.Context, last string, each func(Entry) error) (string, error) {
	d, err := openDocument(ctx, string(l), last)
	if err != nil {
		return "", err
	}
	defer d.Close()
	if err := readList(d, each); err != nil {
		return "", err
	}
	return d.version()
}

// Partial is false.
func (l List) Partial() bool { return false }

func (l List) String() string { return redacted(string(l)) }

const (
	documentTimeout = 5 * time.Minute  // for a whole list, sitemap or feed
	documentIdle    = 30 * time.Second // without a byte

	documentRedirects = 10

	// racy is the age below which a file's next change may leave the same size and time.
	racy = 2 * time.Second
)

// userAgent is the User-Agent of requests to Parley's own site.
const userAgent = "parley (+https://github.com/parleyweb/parley)"

// A document is an open list, sitemap or feed.
type document struct {
	io.Reader
	io.Closer
	name string

	file     *os.File // nil if it was fetched
	size     int64
	modified time.Time

	validators string // if it was fetched
}

func isWeb(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// redacted returns a name without a password.
func redacted(name string) string {
	if isWeb(name) {
		if u, err := url.Parse(name); err == nil {
			return u.Redacted()
		}
	}
	return name
}

// openDocument opens a file or an http(s) URL. The error is errUnchanged if it still has the version last.
func openDocument(ctx context.Context, name, last string) (*document, error) {
	if isWeb(name) {
		return getDocument(ctx, name, last)
	}
	// Opening a pipe would block.
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: give a command that prints it", name)
	}
	d := &document{name: name, size: st.Size(), modified: st.ModTime()}
	if last != "" && d.fileVersion() == last {
		return nil, errUnchanged
	}
	if d.file, err = os.Open(name); err != nil {
		return nil, err
	}
	d.Reader, d.Closer = pause.Reader(ctx, d.file), d.file
	if st, err = d.file.Stat(); err != nil {
		d.Close()
		return nil, err
	}
	d.size, d.modified = st.Size(), st.ModTime()
	return d, nil
}

func (d *document) fileVersion() string {
	return fmt.Sprintf("%d %d", d.size, d.modified.UnixNano())
}

// version returns the version of a document that has been read to its end.
func (d *document) version() (string, error) {
	if d.file == nil {
		return d.validators, nil
	}
	st, err := d.file.Stat()
	if err != nil {
		return "", err
	}
	if st.Size() != d.size || !st.ModTime().Equal(d.modified) {
		return "", fmt.Errorf("%s changed while it was read", d.name)
	}
	if time.Since(d.modified) < racy {
		return "", nil
	}
	return d.fileVersion(), nil
}

func getDocument(ctx context.Context, name, last string) (*document, error) {
	c := fetch.Client{Agent: userAgent, Timeout: documentTimeout, Idle: documentIdle, MaxBytes: -1, Redirects: documentRedirects}
	a, err := c.Get(ctx, name, parseValidators(last).Header())
	if err != nil {
		return nil, err
	}
	d := &document{Reader: a, Closer: a, name: name, validators: keepValidators(fetch.ValidatorsOf(a.Header))}
	switch {
	case a.OK():
		return d, nil
	case a.Status == http.StatusNotModified && last != "":
		err = errUnchanged
	default:
		err = fmt.Errorf("GET %s: %s", redacted(name), a.Says())
	}
	d.Close()
	return nil, err
}

// keepValidators encodes validators for storage; parseValidators decodes them.
func keepValidators(v fetch.Validators) string {
	if v == (fetch.Validators{}) {
		return ""
	}
	return v.ETag + "\n" + v.LastModified
}

func parseValidators(s string) (v fetch.Validators) {
	v.ETag, v.LastModified, _ = strings.Cut(s, "\n")
	return v
}
