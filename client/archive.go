package client

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
)

// The files of an archive that are read: see server/archive.
const (
	archivePackage = "datapackage.json"
	archiveData    = "archive/data.warc.gz"

	maxPackage  = 1 << 20    // bytes of the former
	maxFiles    = 10_000     // of an archive
	maxArchived = 50_000_000 // pages of an archive
	maxUnpacked = 1 << 40    // bytes of them
)

// An archive is a WACZ file of a whole site, as it stood at a cursor: its data
// is a stream of package bundle that begins with nothing.
type archive struct {
	*bundle.Reader
	cursor protocol.Cursor
	data   io.ReadCloser // whose sum is checked at its end
}

// openArchive reads what an archive says of itself. Close it.
func openArchive(r io.ReaderAt, size int64, page int64) (*archive, error) {
	a, err := unpackArchive(r, size, page)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	return a, nil
}

func unpackArchive(r io.ReaderAt, size, page int64) (*archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxFiles {
		return nil, fmt.Errorf("%d files, more than %d", len(z.File), maxFiles)
	}
	a := &archive{}
	items, err := a.describe(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archivePackage, err)
	}
	if a.data, err = z.Open(archiveData); err != nil {
		return nil, err
	}
	if a.Reader, err = bundle.NewReader(a.data, bundle.Limits{Page: page, Total: maxUnpacked, Changes: maxArchived}); err == nil {
		if h := a.Head; !h.From.IsZero() || h.To != a.cursor || h.Changes != items {
			err = fmt.Errorf("%d pages from %v to %v, not %d at %v", h.Changes, h.From, h.To, items, a.cursor)
			a.Reader.Close()
		}
	}
	if err != nil {
		a.data.Close()
		return nil, fmt.Errorf("%s: %w", archiveData, err)
	}
	return a, nil
}

// describe reads where the archive stands, and returns how many pages it states.
func (a *archive) describe(z *zip.Reader) (items int, err error) {
	f, err := z.Open(archivePackage)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPackage+1))
	if err != nil {
		return 0, err
	}
	if len(b) > maxPackage {
		return 0, fmt.Errorf("more than %d bytes", maxPackage)
	}
	var d struct {
		Parley struct {
			Cursor protocol.Cursor `json:"cursor"`
			Items  int             `json:"items"`
		} `json:"parley"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return 0, err
	}
	if a.cursor = d.Parley.Cursor; a.cursor.IsZero() {
		return 0, fmt.Errorf("it does not say where the archive stands")
	}
	return d.Parley.Items, nil
}

// Close frees what reading takes.
func (a *archive) Close() error {
	a.Reader.Close()
	return a.data.Close()
}
