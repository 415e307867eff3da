// Package archive packs a whole site into one file, a WACZ of version 1.1.1, for
// crawlers that know nothing of the site yet, or to which most of it is new (C11, C12).
//
// An archive holds what the site offered at one cursor:
//
//   - archive/data.warc.gz: a stream as package bundle writes it, of all pages in the
//     order of the manifest: for each its item and its bytes, without the bytes if the
//     page changed while the archive was made; the change follows in the journal;
//   - indexes/index.cdx.gz: the position of each page in that stream, as CDXJ;
//   - pages/pages.jsonl: the URLs of all pages;
//   - datapackage.json, whose member "parley" names the cursor and the number of items,
//     and datapackage-digest.json.
//
// A deleted page, or text edited out of a page, stays in existing archives for
// [Maker].MaxAge at most: then they are deleted, and the next request causes a new one.
// After a deletion a new archive is due once [Maker].Every has passed. An archive with a
// page that the rules no longer allow to be public is deleted at once, and so is one
// with a page given to [Maker.Purge]. Archives already downloaded cannot be recalled.
//
// All files are stored uncompressed in the zip, so that a Range request can fetch a
// part of any.
package archive

import (
	"archive/zip"
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// The files of a WACZ.
const (
	dataName    = "archive/data.warc.gz"
	indexName   = "indexes/index.cdx.gz"
	pagesName   = "pages/pages.jsonl"
	packageName = "datapackage.json"
	digestName  = "datapackage-digest.json"
)

// A file is an archive on the disk.
type file struct {
	content.Archived
	path string
	etag string

	// verified says that the content has the digest in the file name. Archives of an
	// earlier process must be verified first: until then they are not served.
	verified bool

	// void says that it must not be served any more, not even to a request in
	// progress: it holds pages that are not public, or is outdated or purged.
	void bool

	read protocol.Cursor // look has examined the changes up to here
	gone time.Time       // when the first page of it was deleted; zero if none was
	old  time.Time       // when the first page of it was deleted or changed; zero if none was

	bodies int       // pages whose bytes are in it, without empty ones; -1 if not counted yet
	until  time.Time // of Maker.Given, when it was checked: the first of all pages; zero if nothing says
	left   int       // pages that ask for no copy, as far as is known

	checked time.Time     // the last check that all of it is public
	took    time.Duration // the duration of that check
}

// nameOf returns the file name, which holds all metadata that is needed after a
// restart.
func nameOf(a content.Archived) string {
	return fmt.Sprintf("site.%s.%d.%d.%x.wacz", a.Cursor.Epoch, a.Cursor.Seq, a.Items, a.Digest[:])
}

// openFile returns the archive at path, whose name is one of nameOf.
func openFile(path string) (*file, bool) {
	part := strings.Split(filepath.Base(path), ".")
	if len(part) != 6 || part[0] != "site" || part[5] != "wacz" {
		return nil, false
	}
	f := &file{path: path, bodies: -1}
	var err error
	if f.Cursor, err = protocol.ParseCursor(part[1] + ":" + part[2]); err != nil {
		return nil, false
	}
	if f.Items, err = strconv.Atoi(part[3]); err != nil {
		return nil, false
	}
	if n, err := hex.Decode(f.Digest[:], []byte(part[4])); err != nil || n != len(f.Digest) {
		return nil, false
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	f.Length = info.Size()
	f.etag = `"` + part[4][:32] + `"`
	return f, true
}

// within reports whether may is true for every URL in the archive, and given, if
// not nil, for every URL whose bytes are in it. It opens the archive if content is
// nil. If given is not nil, it sets bodies and until.
func (f *file) within(content io.ReaderAt, may func(url string) bool, given func(url string) time.Time) (bool, error) {
	if content == nil {
		file, err := os.Open(f.path)
		if err != nil {
			return false, err
		}
		defer file.Close()
		content = file
	}
	z, err := zip.NewReader(content, f.Length)
	if err != nil {
		return false, err
	}
	in, err := z.Open(pagesName)
	if err != nil {
		return false, err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16*protocol.MaxURL)
	n, bodies, first := -1, 0, time.Time{}
	for ; lines.Scan(); n++ {
		if n < 0 {
			continue // the header line
		}
		var p pageLine
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return false, err
		}
		if !may(p.URL) {
			return false, nil
		}
		if p.Size == 0 {
			continue
		}
		bodies++
		if given == nil {
			continue
		}
		until := given(p.URL)
		if until.IsZero() {
			return false, nil
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	if err := lines.Err(); err != nil {
		return false, err
	}
	if n != f.Items {
		return false, io.ErrUnexpectedEOF
	}
	if given != nil {
		f.bodies, f.until = bodies, first
	}
	return true, nil
}

// A pageLine is a line of pages.jsonl.
type pageLine struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	TS    string `json:"ts"`
	Title string `json:"title,omitempty"`
	Size  int64  `json:"size"`
}

// A pagesHead is the first line of pages.jsonl.
type pagesHead struct {
	Format string `json:"format"`
	ID     string `json:"id"`
	Title  string `json:"title"`
}

// A dataPackage is datapackage.json.
type dataPackage struct {
	Profile     string     `json:"profile"`
	Version     string     `json:"wacz_version"`
	Title       string     `json:"title"`
	Description string     `json:"description,omitempty"`
	Created     string     `json:"created"`
	Modified    string     `json:"modified"`
	Software    string     `json:"software"`
	MainPageURL string     `json:"mainPageUrl,omitempty"`
	Parley      standing   `json:"parley"`
	Resources   []resource `json:"resources"`
}

// A standing is the member "parley" of datapackage.json.
type standing struct {
	Base   string          `json:"base"`
	Cursor protocol.Cursor `json:"cursor"`
	Items  int             `json:"items"`
	Bodies int             `json:"bodies"` // pages whose bytes are in it
}

// A resource is a file within an archive.
type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}
