package client

import (
	"archive/zip"
	"encoding/binary"
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

	maxPackage   = 1 << 20    // bytes of archivePackage
	maxFiles     = 10_000     // of an archive
	maxDirectory = 1 << 20    // bytes of the central directory
	maxArchived  = 50_000_000 // pages of an archive
	maxUnpacked  = 1 << 40    // bytes of them
)

// An archive is a WACZ file of a whole site, as it stood at a cursor: its data
// is a stream of package bundle that follows no cursor: all pages are new.
type archive struct {
	pages  *bundle.Reader
	cursor protocol.Cursor
	data   io.ReadCloser // its checksum is verified at its end
}

// openArchive reads an archive's metadata. The caller closes it.
func openArchive(r io.ReaderAt, size, page int64) (_ *archive, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open archive: %w", err)
		}
	}()
	if err := checkDirectory(r, size); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	a := &archive{}
	items, err := a.describe(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archivePackage, err)
	}
	if a.data, err = z.Open(archiveData); err != nil {
		return nil, err
	}
	if a.pages, err = bundle.NewReader(a.data, bundle.Limits{Page: page, Total: maxUnpacked, Changes: maxArchived}); err == nil {
		if h := a.pages.Head; !h.From.IsZero() || h.To != a.cursor || h.Changes != items {
			err = fmt.Errorf("%d pages from cursor %v to %v, but the package states %d pages at cursor %v", h.Changes, h.From, h.To, items, a.cursor)
			a.pages.Close()
		}
	}
	if err != nil {
		a.data.Close()
		return nil, fmt.Errorf("%s: %w", archiveData, err)
	}
	return a, nil
}

// checkDirectory refuses a zip file with too many files or too large a central directory. zip.NewReader alone
// would read as many consecutive headers as there are, whatever count is stated, and use up to five times
// their bytes in memory. The directory must be followed by the end record, which must end the file.
func checkDirectory(r io.ReaderAt, size int64) error {
	const end, end64, locator = 22, 56, 20 // bytes of the records
	var buf [locator + end]byte
	if size < end {
		return zip.ErrFormat
	}
	from := max(size-int64(len(buf)), 0)
	tail := buf[:size-from]
	if _, err := r.ReadAt(tail, from); err != nil && err != io.EOF {
		return err
	}
	last := tail[len(tail)-end:]
	if string(last[:4]) != "PK\x05\x06" || last[20] != 0 || last[21] != 0 {
		return fmt.Errorf("%w: no end record at the end of the file", zip.ErrFormat)
	}
	le := binary.LittleEndian
	at := size - end // where the directory must end
	files, length, first := uint64(le.Uint16(last[10:])), uint64(le.Uint32(last[12:])), uint64(le.Uint32(last[16:]))
	if len(tail) == len(buf) && string(tail[:4]) == "PK\x06\x07" {
		var b [end64]byte
		if at = int64(le.Uint64(tail[8:])); at < 0 || at > size-int64(len(buf))-end64 {
			return zip.ErrFormat
		}
		if _, err := r.ReadAt(b[:], at); err != nil {
			return err
		}
		if string(b[:4]) != "PK\x06\x06" {
			return zip.ErrFormat
		}
		files, length, first = le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])
	}
	switch {
	case files > maxFiles:
		return fmt.Errorf("%d files, more than %d", files, maxFiles)
	case length > maxDirectory:
		return fmt.Errorf("a directory of %d bytes, more than %d", length, maxDirectory)
	case first > uint64(at) || first+length != uint64(at):
		return fmt.Errorf("%w: the end record gives a wrong position of the directory", zip.ErrFormat)
	}
	return nil
}

// describe reads the archive's cursor, and returns how many pages it states.
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
		return 0, fmt.Errorf("the archive's cursor is missing")
	}
	return d.Parley.Items, nil
}

// Close closes the data and its reader.
func (a *archive) Close() error {
	a.pages.Close()
	return a.data.Close()
}
