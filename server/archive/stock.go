package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// A stock has the archives, and determines which of them may still be served. Maker.mu guards it; the fields of the first
// group never change.
type stock struct {
	journal protocol.Log
	public  func(url string) bool
	given   func(url string) time.Time // nil: see Maker
	named   func(content.Archived) (bool, error)
	maxAge  time.Duration
	share   float64
	now     func() time.Time
	log     *slog.Logger

	kept   []*file       // newest first
	wake   chan struct{} // closed when kept changes
	purged int           // number of calls of Purge
}

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
		m.stock.good()
		i := slices.IndexFunc(m.stock.kept, isUnsound)
		if i < 0 {
			m.mu.Unlock()
			return nil
		}
		f := m.stock.kept[i]
		m.mu.Unlock()
		sound, err := f.verify(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.mu.Lock()
		if f.verified = sound; !sound {
			m.stock.log.Error("archive deleted: its file is damaged", "file", f.path, "err", err)
			m.stock.drop(func(k *file) bool { return k == f })
		}
		m.stock.changed()
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

func isUnsound(f *file) bool { return !f.verified }

// unsound reports whether an archive has not been verified yet.
func (k *stock) unsound() bool { return slices.ContainsFunc(k.kept, isUnsound) }

// add adds an archive as the newest.
func (k *stock) add(f *file) {
	// An archive of the same cursor is replaced, whether its bytes are the same or not.
	k.kept = slices.DeleteFunc(k.kept, func(old *file) bool {
		if old.Cursor == f.Cursor && old.path != f.path {
			os.Remove(old.path)
		}
		return old.Cursor == f.Cursor
	})
	k.kept = slices.Insert(k.kept, 0, f)
	k.changed()
}

// drop deletes the archives that are bad, also for downloads in progress, and returns their number.
func (k *stock) drop(bad func(*file) bool) (n int) {
	k.kept = slices.DeleteFunc(k.kept, func(f *file) bool {
		if !bad(f) {
			return false
		}
		f.void = true
		os.Remove(f.path)
		n++
		return true
	})
	if n > 0 {
		k.changed()
	}
	return n
}

// Purge deletes every archive that holds a page, and the one being made. The next
// request causes a new one. It returns the number of deleted archives.
func (m *Maker) Purge(page string) (n int) {
	m.lock()
	defer m.mu.Unlock()
	m.stock.purged++
	n = m.stock.drop(func(f *file) bool {
		without, err := f.within(nil, func(url string) bool { return url != page }, nil)
		return err != nil || !without
	})
	if n > 0 {
		m.schedule.began = time.Time{}
	}
	return n
}

// forget deletes all archives but the newest most.
func (k *stock) forget(most int) {
	for len(k.kept) > most {
		last := k.kept[len(k.kept)-1]
		os.Remove(last.path) // downloads in progress continue
		k.kept = k.kept[:len(k.kept)-1]
	}
}

// changed wakes callers of Wait.
func (k *stock) changed() {
	close(k.wake)
	k.wake = make(chan struct{})
}

// good deletes the archives that may not be served any more, and returns the verified
// ones of the rest, if it is known which may be served.
func (k *stock) good() []*file {
	head := k.journal.Head()
	if head.IsZero() {
		return nil
	}
	var unknown error
	k.drop(func(f *file) bool {
		named, err := k.named(f.Archived)
		if err == nil && named && !k.look(f) {
			err = errBehind
		}
		unknown = cmp.Or(unknown, err)
		return err == nil && (!named || f.Cursor.Epoch != head.Epoch || f.Cursor.Seq > head.Seq || !k.check(f, nil) || k.isPast(f))
	})
	if unknown != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(k.kept), isUnsound)
}

// The interval between checks that an archive is public: a moment, or so long that
// the checks take at most a twentieth of the time.
const (
	checkEvery  = 50 * time.Millisecond
	checkFactor = 20
)

// check reports whether all pages of an archive are public.
func (k *stock) check(f *file, content io.ReaderAt) bool {
	now := k.now()
	if age := now.Sub(f.checked); age >= 0 && age < max(checkEvery, checkFactor*f.took) {
		return true
	}
	began := time.Now()
	ok, err := f.within(content, k.public, k.given)
	if err != nil {
		k.log.Error("archive could not be read", "file", f.path, "err", err)
	} else if !ok {
		k.log.Info("archive deleted: it holds a page that is no longer public", "cursor", f.Cursor.String())
	}
	f.checked, f.took = now, time.Since(began)
	return err == nil && ok
}

func (k *stock) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, k.now().Sub(t))
}

// look finds the first page that has changed since an archive was made, and the
// first that was deleted. A page that was both created and deleted since counts too:
// that is not worth more code. It returns false if that is not known yet: the changes may come from another machine.
func (k *stock) look(f *file) (known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	if f.read.IsZero() {
		f.read = f.Cursor
	}
	for head := k.journal.Head(); f.gone.IsZero() && f.read.Epoch == head.Epoch && f.read.Seq < head.Seq; {
		changes, err := k.journal.Read(ctx, f.read, protocol.MaxBatch)
		if errors.Is(err, protocol.ErrTooOld) {
			f.gone = k.now() // assumed: it is unknown, and no reader can continue from f.Cursor
			if f.old.IsZero() {
				f.old = f.gone
			}
		}
		if err != nil || len(changes) == 0 {
			return err == nil || !f.gone.IsZero()
		}
		for i := range changes {
			c := &changes[i]
			f.read.Seq = c.Seq
			goes := c.Op == protocol.Delete || c.Op == protocol.Move
			if !goes && (c.Op != protocol.Update || c.Prev == c.Item.Digest && !c.Prev.IsZero()) {
				continue
			}
			at := c.At
			if now := k.now(); at.IsZero() || at.After(now) {
				at = now
			}
			if f.old.IsZero() {
				f.old = at
			}
			if goes {
				f.gone = at
				return true
			}
		}
	}
	return true
}

// lookTime bounds how long look may take, since others wait for it.
const lookTime = time.Second

var errBehind = errors.New("what has changed since the archive was made is not known yet")

// isPast reports whether a page of an archive was deleted or changed longer than
// MaxAge ago.
func (k *stock) isPast(f *file) bool {
	past := k.since(f.old) > k.maxAge
	if past {
		k.log.Info("archive deleted: a page in it was changed or deleted too long ago", "cursor", f.Cursor.String(), "since", f.old)
	}
	return past
}

// isOther reports whether more than share of the site has changed since an archive was made.
func (k *stock) isOther(f *file) bool {
	return float64(k.journal.Head().Seq-f.Cursor.Seq) > k.share*float64(f.Items)
}
