package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/parleyweb/parley/server/content"
)

// Kept returns the archives that may be served now, the newest first, and false while there may be others of an earlier process, which
// Run has not verified. With now the archives are checked first, however short the last check is ago.
func (m *Maker) Kept(now bool) (list []content.Kept, all bool) {
	m.lock()
	defer m.mu.Unlock()
	if now {
		for _, f := range m.stock.kept {
			f.checked = time.Time{}
		}
	}
	for _, f := range m.stock.good() {
		list = append(list, content.Kept{Archived: f.Archived, Until: f.until})
	}
	return list, !m.stock.unsound()
}

// File opens the file of an archive. The error wraps os.ErrNotExist if there is none any more.
func (m *Maker) File(a content.Archived) (*os.File, error) {
	m.lock()
	defer m.mu.Unlock()
	if f := m.stock.find(a); f != nil {
		return os.Open(f.path)
	}
	return nil, fmt.Errorf("archive at %v: %w", a.Cursor, os.ErrNotExist)
}

// Add adds an archive that another Maker has made, unless it is there: fetch writes it. What is not that archive is an error, and is not
// added. Run must run.
func (m *Maker) Add(ctx context.Context, a content.Archived, fetch func(context.Context, io.Writer) error) (err error) {
	m.lock()
	there := m.stock.find(a) != nil
	if !there {
		m.stock.forget(1) // room for the new one
	}
	m.mu.Unlock()
	if there {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("add archive at %v: %w", a.Cursor, err)
		}
	}()
	b := &build{m: m, head: a.Cursor, items: a.Items, bodies: -1}
	if err := b.fits(a.Length); err != nil {
		return err
	}
	if err := b.spare(a.Length); err != nil {
		return err
	}
	whole, err := newPart(m.Dir)
	if err != nil {
		return err
	}
	defer whole.remove() // has no effect after place has renamed it
	if err := fetch(ctx, &bounded{whole, a.Length}); err != nil {
		return err
	}
	if sum := whole.sum.Sum(nil); whole.size != a.Length || !bytes.Equal(sum, a.Digest[:]) {
		return fmt.Errorf("its %d bytes have digest %x: want %d with %x", whole.size, sum, a.Length, a.Digest[:])
	}
	f, err := b.place(whole)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stock.add(f)
	return nil
}

// find returns the archive a, verified or not; nil if it is not there.
func (k *stock) find(a content.Archived) *file {
	if i := slices.IndexFunc(k.kept, func(f *file) bool { return f.Archived == a }); i >= 0 {
		return k.kept[i]
	}
	return nil
}

// bounded fails when more than left bytes are written to it.
type bounded struct {
	io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errors.New("it is longer than stated")
	}
	return b.Writer.Write(p)
}
