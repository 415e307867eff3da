package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// The speed of reading the archives of an earlier process.
const (
	verifyPiece = 1 << 20
	verifyRate  = 64 << 20 // bytes per second, at most
)

// verify checks the digests of the archives of an earlier process, the newest first,
// and deletes those that do not match. It is busy for half of the time at most.
func (m *Maker) verify(ctx context.Context) error {
	for {
		m.mu.Lock()
		m.good()
		var f *file
		if i := slices.IndexFunc(m.kept, func(f *file) bool { return !f.verified }); i >= 0 {
			f = m.kept[i]
		}
		m.mu.Unlock()
		if f == nil {
			return nil
		}
		sound, err := f.verify(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.mu.Lock()
		if f.verified = sound; !sound {
			m.log().Error("archive deleted: its file is damaged", "file", f.path, "err", err)
			m.kept = slices.DeleteFunc(m.kept, func(k *file) bool { return k == f })
			os.Remove(f.path)
		}
		m.changed()
		m.latest() // a newer one may be due
		m.mu.Unlock()
	}
}

// verify reports whether the archive has the digest in its name.
func (f *file) verify(ctx context.Context) (bool, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum := sha256.New()
	for {
		began := time.Now()
		n, err := io.CopyN(sum, in, verifyPiece)
		if err == io.EOF {
			return bytes.Equal(sum.Sum(nil), f.Digest[:]), nil
		}
		if err != nil {
			return false, err
		}
		if err := pause.Sleep(ctx, max(time.Since(began), time.Duration(n)*time.Second/verifyRate)); err != nil {
			return false, err
		}
	}
}

// unsound reports whether an archive has not been verified yet. mu is held.
func (m *Maker) unsound() bool {
	return slices.ContainsFunc(m.kept, func(f *file) bool { return !f.verified })
}

// took adds an archive as the newest, unless it is nil, or Purge was called while
// it was made.
func (m *Maker) took(f *file, purged int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.making = false
	if f == nil {
		return
	}
	if purged != m.purged {
		os.Remove(f.path)
		m.began = time.Time{}
		return
	}
	// An archive of the same cursor is replaced, whether its bytes are the same or not.
	m.kept = slices.DeleteFunc(m.kept, func(old *file) bool {
		if old.Cursor == f.Cursor && old.path != f.path {
			os.Remove(old.path)
		}
		return old.Cursor == f.Cursor
	})
	m.kept = slices.Insert(m.kept, 0, f)
	m.changed()
}

// Purge deletes every archive that holds a page, and the one being made. The next
// request causes a new one. It returns the number of deleted archives.
func (m *Maker) Purge(page string) (n int) {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purged++
	m.kept = slices.DeleteFunc(m.kept, func(f *file) bool {
		without, err := f.within(nil, func(url string) bool { return url != page }, nil)
		if err == nil && without {
			return false
		}
		f.void = true
		os.Remove(f.path)
		n++
		return true
	})
	if n > 0 {
		m.began = time.Time{}
		m.changed()
	}
	return n
}

// forget deletes all archives but the newest most. mu is held.
func (m *Maker) forget(most int) {
	for len(m.kept) > most {
		last := m.kept[len(m.kept)-1]
		os.Remove(last.path) // downloads in progress continue
		m.kept = m.kept[:len(m.kept)-1]
	}
}

// changed wakes callers of Wait. mu is held.
func (m *Maker) changed() {
	close(m.wake)
	m.wake = make(chan struct{})
}

// good deletes the archives that may not be served any more, and returns the verified
// ones of the rest. mu is held.
func (m *Maker) good() []*file {
	head := m.Journal.Head()
	n := len(m.kept)
	m.kept = slices.DeleteFunc(m.kept, func(f *file) bool {
		if head.IsZero() || f.Cursor.Epoch == head.Epoch && f.Cursor.Seq <= head.Seq && m.check(f, nil) && !m.isPast(f) {
			return false
		}
		f.void = true
		os.Remove(f.path)
		return true
	})
	if len(m.kept) < n {
		m.changed()
	}
	if head.IsZero() {
		return nil
	}
	if !m.unsound() {
		return m.kept
	}
	return slices.DeleteFunc(slices.Clone(m.kept), func(f *file) bool { return !f.verified })
}

// The interval between checks that an archive is public: a moment, or so long that
// the checks take at most a twentieth of the time.
const (
	checkEvery  = 50 * time.Millisecond
	checkFactor = 20
)

// goneFactor is the least wait between two archives, in multiples of the time that
// it took to make the last one.
const goneFactor = 20

// check reports whether all pages of an archive are public. mu is held.
func (m *Maker) check(f *file, content io.ReaderAt) bool {
	now := m.now()
	if age := now.Sub(f.checked); age >= 0 && age < max(checkEvery, checkFactor*f.took) {
		return true
	}
	began := time.Now()
	ok, err := f.within(content, m.public, m.Given)
	if err != nil {
		m.log().Error("archive could not be read", "file", f.path, "err", err)
	} else if !ok {
		m.log().Info("archive deleted: it holds a page that is no longer public", "cursor", f.Cursor.String())
	}
	f.checked, f.took = now, time.Since(began)
	return err == nil && ok
}

// goneFor returns how long ago the first page of an archive was deleted, and oldFor
// how long ago the first one was deleted or changed. mu is held.
func (m *Maker) goneFor(f *file) time.Duration {
	m.look(f)
	return m.since(f.gone)
}

func (m *Maker) oldFor(f *file) time.Duration {
	m.look(f)
	return m.since(f.old)
}

func (m *Maker) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, m.now().Sub(t))
}

// look finds the first page that has changed since an archive was made, and the
// first that was deleted. A page that was both created and deleted since counts too:
// that is not worth more code. mu is held.
func (m *Maker) look(f *file) {
	if f.read.IsZero() {
		f.read = f.Cursor
	}
	for head := m.Journal.Head(); f.gone.IsZero() && f.read.Epoch == head.Epoch && f.read.Seq < head.Seq; {
		changes, err := m.Journal.Read(context.Background(), f.read, protocol.MaxBatch)
		if errors.Is(err, protocol.ErrTooOld) {
			f.gone = m.now() // assumed: it is unknown, and no reader can continue from f.Cursor
			if f.old.IsZero() {
				f.old = f.gone
			}
		}
		if err != nil || len(changes) == 0 {
			return
		}
		for i := range changes {
			c := &changes[i]
			f.read.Seq = c.Seq
			goes := c.Op == protocol.Delete || c.Op == protocol.Move
			if !goes && (c.Op != protocol.Update || c.Prev == c.Item.Digest && !c.Prev.IsZero()) {
				continue
			}
			at := c.At
			if now := m.now(); at.IsZero() || at.After(now) {
				at = now
			}
			if f.old.IsZero() {
				f.old = at
			}
			if goes {
				f.gone = at
				return
			}
		}
	}
}

// isPast reports whether a page of an archive was deleted or changed longer than
// MaxAge ago. mu is held.
func (m *Maker) isPast(f *file) bool {
	past := m.oldFor(f) > m.maxAge()
	if past {
		m.log().Info("archive deleted: a page in it was changed or deleted too long ago", "cursor", f.Cursor.String(), "since", f.old)
	}
	return past
}

// latest returns the newest archive, and requests a newer one if that is due. It
// returns nil if there is none, or if its cursor is below the journal's floor, so that
// a reader could not continue from it. mu is held.
func (m *Maker) latest() *file {
	var f *file
	if good := m.good(); len(good) > 0 && good[0].Cursor.Seq >= m.Journal.Floor().Seq {
		f = good[0]
	}
	if !m.making && !m.asked && m.due(f) {
		m.asked = true
		m.ask <- struct{}{}
	}
	return f
}
