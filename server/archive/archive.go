// Package archive packs a whole site into one file, a WACZ of version 1.1.1,
// for whoever knows nothing of the site yet, and for those to whom most of it
// is new (C11, C12).
//
// What is in it is what the site offered at one cursor. It holds
//
//   - archive/data.warc.gz: a stream as package bundle writes it, of all pages
//     in the order of the manifest: for each its item, and its bytes. Those of a
//     page that has changed meanwhile are not there; the change follows.
//   - indexes/index.cdx.gz: where in it each page stands, as CDXJ;
//   - pages/pages.jsonl: the URLs of all pages;
//   - datapackage.json, whose member "parley" names the cursor and the number of items,
//     and datapackage-digest.json.
//
// A page that is taken away, or text that is edited out of one, stays in the archives that are there
// for [Maker].MaxAge at most: then they are thrown away, and another is made when
// somebody asks. Where a page has gone, one is due as soon as [Maker].Every has passed. What the
// rules do not let be public any more takes an archive with it at once, and so
// does [Maker.Purge]. Whoever has an archive keeps it: what has left cannot be recalled.
//
// All files are stored as they are, so that a part of any can be asked for by Range.
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
	"github.com/parleyweb/parley/server"
)

// The files of a WACZ.
const (
	dataName    = "archive/data.warc.gz"
	indexName   = "indexes/index.cdx.gz"
	pagesName   = "pages/pages.jsonl"
	packageName = "datapackage.json"
	digestName  = "datapackage-digest.json"
)

// A file is an archive that stands on the disk.
type file struct {
	server.Archived
	path string
	etag string

	// sound says that it has the digest that its name says. Of what an earlier
	// process has left that is to be found out: until then it is given to nobody.
	sound bool

	// void says that it holds what is not public any more: nothing more of it
	// is given to anybody.
	void bool

	read protocol.Cursor // as far as the changes after it were looked at
	gone time.Time       // since when a page that is in it is not there; zero if all are
	old  time.Time       // since when one is not there, or another; zero if all are as they were

	bodies int // pages whose bytes are in it, but for empty ones; -1 until that was found out
	left   int // pages that ask for no copy, as far as is known

	checked time.Time     // when all of it was public
	took    time.Duration // to find that out
}

// nameOf is the name of the file, in which stands what must be known of it
// after a restart.
func nameOf(a server.Archived) string {
	return fmt.Sprintf("site.%s.%d.%d.%x.wacz", a.Cursor.Epoch, a.Cursor.Seq, a.Items, a.Digest[:])
}

// openFile takes over a file of that name.
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

// within reports whether may is true of every URL in the archive, and given, if
// it is not nil, of those whose bytes are there. It opens the archive if content
// is nil, and counts bodies.
func (f *file) within(content io.ReaderAt, may, given func(url string) bool) (bool, error) {
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
	n, bodies := -1, 0
	for ; lines.Scan(); n++ {
		if n < 0 {
			continue // it says what the lines are
		}
		var p pageLine
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return false, err
		}
		if !may(p.URL) || given != nil && p.Size > 0 && !given(p.URL) {
			return false, nil
		}
		if p.Size > 0 {
			bodies++
		}
	}
	if err := lines.Err(); err != nil {
		return false, err
	}
	if n != f.Items {
		return false, io.ErrUnexpectedEOF
	}
	if given != nil {
		f.bodies = bodies
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

// A pagesHead is the first of them.
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

// A standing says where an archive stands.
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
