package archive

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

var (
	errNotWhole = errors.New("the site's first scan is not complete")
	errRules    = errors.New("the rules for public pages changed meanwhile")
	errFull     = errors.New("the file system is nearly full")
	errSize     = errors.New("the site is too large for an archive")
)

// A build is an archive under construction.
type build struct {
	m        *Maker // its options
	head     protocol.Cursor
	modified time.Time // of the site
	items    int
	bodies   int
	left     int  // pages that ask for no copy
	home     bool // there is a page at the base URL

	list  *part // items, as messages on lines
	data  *part
	pages *part
	index [][]byte
}

// make packs the site as it is now. It leaves out the bytes of pages that have
// changed since it read the journal.
func (m *Maker) make(ctx context.Context) (_ *file, err error) {
	b := &build{m: m}
	defer func() {
		for _, p := range []*part{b.list, b.data, b.pages} {
			if p != nil {
				p.remove()
			}
		}
	}()
	for _, p := range []**part{&b.list, &b.data, &b.pages} {
		if *p, err = newPart(m.Dir); err != nil {
			return nil, err
		}
	}
	if err := b.look(ctx); err != nil {
		return nil, err
	}
	if err := b.pack(ctx); err != nil {
		return nil, err
	}
	if m.Told != nil {
		if err := m.Told(ctx, b.head); err != nil {
			return nil, err
		}
	}
	return b.zip(ctx)
}

// look copies the list of items to a file, so that its view of the journal is short.
func (b *build) look(ctx context.Context) error {
	v, err := b.m.Journal.View()
	if err != nil {
		return err
	}
	defer v.Close()
	if b.head, b.modified = v.Head(), v.Modified(); b.head.IsZero() {
		return errNotWhole
	}
	if b.modified.IsZero() {
		b.modified = time.Unix(0, 0)
	}
	for e, err := range v.Entries() {
		if err == nil && b.items%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if !b.m.stock.public(e.Item.URL) {
			continue
		}
		c := protocol.Change{Seq: b.head.Seq, Op: protocol.Create, Item: e.Item, At: e.Item.Modified}
		if c.At.IsZero() {
			c.At = b.modified
		}
		line := protocol.Message{Kind: protocol.Ev, To: b.head, Changes: []protocol.Change{c}}.Encode()
		if _, err := b.list.Write(append(line, '\n')); err != nil {
			return err
		}
		b.items++
	}
	return nil
}

// pack reads the listed pages, and writes them into the archive's data.
func (b *build) pack(ctx context.Context) error {
	if err := b.list.rewind(); err != nil {
		return err
	}
	line, err := json.Marshal(pagesHead{"json-pages-1.0", "pages", "All pages of " + b.m.Base})
	if err == nil {
		_, err = b.pages.Write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	spare := int64(0) // bytes that may be written before the next check of the free space
	out := bundle.NewWriter(b.data, bundle.Head{To: b.head, Changes: b.items, At: b.modified}, bundle.Gzip)
	packer := bundle.NewPacker(bundle.Gzip)
	var records []byte
	lines := bufio.NewReaderSize(b.list.file, 64<<10)
	for range b.items {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		m, err := protocol.ParseMessage(line)
		if err != nil {
			return err
		}
		c := &m.Changes[0]
		if !b.m.stock.public(c.Item.URL) {
			return errRules
		}
		page, err := b.page(ctx, c)
		if err != nil {
			return err
		}
		at := 0
		records, at = packer.Append(records[:0], b.head.Epoch, c, page)
		pages := 0
		if page != nil {
			pages = 1
			b.bodies++
			b.index = append(b.index, warc.AppendEntry(nil, &warc.Entry{URL: c.Item.URL, Date: c.At, Type: c.Item.Type, Status: 200,
				Digest: c.Item.Digest, Place: warc.Place{File: path.Base(dataName), Offset: out.Offset() + int64(at), Length: int64(len(records) - at)}}))
		}
		// Records that are gzip members of their own need no seal.
		if err := out.AddPacked(records, 1, pages); err != nil {
			return err
		}
		if spare -= int64(len(records)); spare < 0 {
			// The data will be copied once more, into the archive.
			if err := b.spare(spareEvery + b.data.size); err != nil {
				return err
			}
			spare = spareEvery
		}
		if err := b.fits(b.data.size); err != nil {
			return err
		}
		if err := b.line(c, len(page)); err != nil {
			return err
		}
	}
	return out.Close()
}

// spareEvery is the number of bytes written between two checks of the free space.
const spareEvery = 8 << 20

// spare returns errFull if size bytes cannot be written without using the Reserve.
func (b *build) spare(size int64) error {
	if free, known := atomicfile.Spare(b.m.Dir, b.m.Reserve); known && free < size {
		return errFull
	}
	return nil
}

// fits returns errSize if size is more than MaxBytes.
func (b *build) fits(size int64) error {
	if most := cmp.Or(max(b.m.MaxBytes, 0), DefaultMaxBytes); size > most {
		return fmt.Errorf("more than %d bytes: %w", most, errSize)
	}
	return nil
}

// page returns the bytes of a page, nil if they are not available or must not be archived.
func (b *build) page(ctx context.Context, c *protocol.Change) ([]byte, error) {
	if c.Item.Digest.IsZero() {
		return nil, ctx.Err()
	}
	page, err := b.m.Pages.Page(ctx, &c.Item, cmp.Or(max(b.m.MaxPage, 0), 64<<20))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && b.m.NoArchive != nil && b.m.NoArchive(&c.Item, page):
		b.left++
		return nil, nil // the archive names it; its bytes are at its own URL
	case err == nil && page == nil:
		return []byte{}, nil
	case err == nil:
		return page, nil
	case !errors.Is(err, content.ErrNoVersion):
		b.m.stock.log.Warn("page could not be read", "url", c.Item.URL, "err", err)
	}
	return nil, nil
}

// line writes the line of a page into pages.jsonl.
func (b *build) line(c *protocol.Change, size int) error {
	sum := protocol.Sum([]byte(c.Item.URL))
	b.home = b.home || c.Item.URL == b.m.Base
	line, err := json.Marshal(pageLine{ID: fmt.Sprintf("%x", sum[:8]), URL: c.Item.URL, TS: c.At.UTC().Format(time.RFC3339), Title: c.Item.Title, Size: int64(size)})
	if err != nil {
		return err
	}
	_, err = b.pages.Write(append(line, '\n'))
	return err
}

// zip puts everything into one file, durably.
func (b *build) zip(ctx context.Context) (*file, error) {
	slices.SortFunc(b.index, bytes.Compare)
	index, err := newPart(b.m.Dir)
	if err != nil {
		return nil, err
	}
	defer index.remove()
	gz := coding.NewGzip(index)
	for _, line := range b.index {
		if _, err := gz.Write(line); err != nil {
			return nil, err
		}
	}
	if err := gz.Close(); err != nil {
		return nil, err
	}
	if err := b.spare(b.data.size + b.pages.size + index.size); err != nil {
		return nil, err
	}
	whole, err := newPart(b.m.Dir)
	if err != nil {
		return nil, err
	}
	defer whole.remove() // has no effect after place has renamed it
	z := zip.NewWriter(whole)
	d := dataPackage{Profile: "data-package", Version: "1.1.1", Title: cmp.Or(b.m.Title, b.m.Base), Software: "Parley",
		Description: "The pages of " + b.m.Base + " at cursor " + b.head.String() + ".",
		Created:     b.modified.UTC().Format(time.RFC3339), Modified: b.modified.UTC().Format(time.RFC3339),
		Parley: standing{Base: b.m.Base, Cursor: b.head, Items: b.items, Bodies: b.bodies}}
	if b.home {
		d.MainPageURL = b.m.Base
	}
	for _, f := range []struct {
		name string
		part *part
	}{{dataName, b.data}, {indexName, index}, {pagesName, b.pages}} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := f.part.into(z, f.name, b.modified)
		if err != nil {
			return nil, err
		}
		d.Resources = append(d.Resources, r)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	seal, err := json.Marshal(map[string]string{"path": packageName, "hash": fmt.Sprintf("sha256:%x", sha256.Sum256(text))})
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{packageName, text}, {digestName, seal}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store, Modified: b.modified})
		if err == nil {
			_, err = w.Write(f.text)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.place(whole)
}

// place syncs the archive and renames it to its final name.
func (b *build) place(whole *part) (*file, error) {
	if err := b.fits(whole.size); err != nil {
		return nil, err
	}
	if err := whole.buf.Flush(); err != nil {
		return nil, err
	}
	if err := whole.file.Sync(); err != nil {
		return nil, err
	}
	a := content.Archived{Cursor: b.head, Items: b.items, Length: whole.size, Digest: protocol.Digest(whole.sum.Sum(nil))}
	name := filepath.Join(b.m.Dir, nameOf(a))
	if err := os.Rename(whole.file.Name(), name); err != nil {
		return nil, err
	}
	if err := atomicfile.SyncDir(b.m.Dir); err != nil {
		return nil, err
	}
	f, ok := openFile(name)
	if !ok {
		return nil, fmt.Errorf("%s differs from what was written", name)
	}
	f.verified, f.bodies, f.left = true, b.bodies, b.left
	return f, nil
}

// A part is a temporary file while it is being written.
type part struct {
	file *os.File
	buf  *bufio.Writer
	sum  hash.Hash
	crc  hash.Hash32
	size int64
}

// tempPattern names temporary files; tidy removes what a killed process left.
const tempPattern = ".site-*.tmp"

func newPart(dir string) (*part, error) {
	f, err := os.CreateTemp(dir, tempPattern)
	if err != nil {
		return nil, err
	}
	return &part{file: f, buf: bufio.NewWriterSize(f, 256<<10), sum: sha256.New(), crc: crc32.NewIEEE()}, nil
}

func (p *part) Write(b []byte) (int, error) {
	n, err := p.buf.Write(b)
	p.sum.Write(b[:n])
	p.crc.Write(b[:n])
	p.size += int64(n)
	return n, err
}

// rewind ends writing, and goes to the beginning to read.
func (p *part) rewind() error {
	if err := p.buf.Flush(); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	return err
}

func (p *part) remove() {
	p.file.Close()
	os.Remove(p.file.Name())
}

// into copies the part into a zip file, uncompressed.
func (p *part) into(z *zip.Writer, name string, modified time.Time) (resource, error) {
	if err := p.rewind(); err != nil {
		return resource{}, err
	}
	h := &zip.FileHeader{Name: name, Method: zip.Store, Modified: modified, CRC32: p.crc.Sum32(),
		CompressedSize64: uint64(p.size), UncompressedSize64: uint64(p.size)}
	w, err := z.CreateRaw(h)
	if err == nil {
		_, err = io.Copy(w, p.file)
	}
	return resource{Name: path.Base(name), Path: name, Hash: fmt.Sprintf("sha256:%x", p.sum.Sum(nil)), Bytes: p.size}, err
}
