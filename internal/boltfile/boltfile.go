// Package boltfile wraps a bbolt file so that damage, a full disk or another process cannot cause a panic, a
// hang or wrong data. The site's journal and the crawler's collection use it.
package boltfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

var (
	// ErrHeld means that another process has the file open.
	ErrHeld = errors.New("in use by another process")

	// ErrDamaged means that the file is not what was written to it.
	ErrDamaged = errors.New("damaged")

	// ErrClosed means that the file was closed.
	ErrClosed = berrors.ErrDatabaseNotOpen
)

// Options configures Open.
type Options struct {
	ReadOnly bool

	// Wait is how long Open waits for another process to close the file.
	Wait time.Duration

	// Room is address space beyond the size of the file, in bytes, and not memory: bbolt cannot grow the
	// mapping of a file while a reader is open.
	Room int64

	// GrowBy is how much the file grows at once, in bytes. It costs a sync each time.
	GrowBy int
}

// A File is an open bbolt file. All reads and writes of it run under [RecoverDamage].
type File struct {
	*bbolt.DB
	file  *os.File
	stuck bool // bbolt has failed with its own lock held
}

// Open opens or creates a file, and its directory. The error wraps ErrHeld, or ErrDamaged if the file is not
// bbolt's, or was truncated.
func Open(path string, o Options) (*File, error) {
	if !o.ReadOnly {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
	}
	f := &File{}
	bo := &bbolt.Options{
		Timeout:  max(o.Wait, time.Millisecond), // zero would wait for ever
		ReadOnly: o.ReadOnly,
		// Without a free list in the file, every Open would find it by reading the whole file, in a
		// goroutine that panics if the file is damaged.
		NoFreelistSync: false,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	}
	if strconv.IntSize == 64 && runtime.GOOS != "windows" { // on Windows the file itself would grow
		bo.InitialMmapSize = int(o.Room)
		if st, err := os.Stat(path); err == nil {
			bo.InitialMmapSize += int(st.Size())
		}
	}
	bo.OpenFile = func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		f.file = file
		return file, err
	}
	err := RecoverDamage(func() (err error) {
		f.DB, err = bbolt.Open(path, 0o600, bo)
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, berrors.ErrTimeout):
		return nil, ErrHeld
	case errors.Is(err, ErrDamaged):
		if f.file != nil {
			f.abandon()
		}
		return nil, err
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, fmt.Errorf("file is %w: %w", ErrDamaged, err)
	default:
		// For a file shorter than its first two pages, bbolt's error cannot be told from others.
		if st, e := os.Stat(path); e == nil && 0 < st.Size() && st.Size() < int64(2*os.Getpagesize()) {
			err = fmt.Errorf("file is %w: %w", ErrDamaged, err)
		}
		return nil, err
	}
	f.AllocSize = o.GrowBy
	// A page beyond the end of the file cannot even be read.
	if err := RecoverDamage(func() error { return f.View(f.whole) }); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) whole(tx *bbolt.Tx) error {
	st, err := f.file.Stat()
	if err != nil {
		return err
	}
	if st.Size() < tx.Size() {
		return fmt.Errorf("file is %w: truncated to %d of %d bytes", ErrDamaged, st.Size(), tx.Size())
	}
	return nil
}

// Close closes the file. If bbolt failed with its own lock held, its Close would wait forever: then the file
// is abandoned.
func (f *File) Close() error {
	if f.stuck {
		return f.abandon()
	}
	return f.DB.Close()
}

// abandon releases the lock and the file in place of bbolt.
func (f *File) abandon() error {
	unlock(f.file)
	return f.file.Close()
}

// Rollback ends a write transaction that was not committed; after a commit it does nothing. bbolt reads the
// file for it, and may fail: then Close knows. The only writer defers it inside of RecoverDamage.
func (f *File) Rollback(tx *bbolt.Tx) {
	f.stuck = true
	tx.Rollback() // returns ErrTxClosed after a Commit
	f.stuck = false
}

// Visible reports whether a transaction whose commit failed is visible in the file nevertheless, so that it
// is unknown whether it is on disk.
func (f *File) Visible(id int) bool {
	tx, err := f.Begin(false)
	if err != nil {
		return true
	}
	defer tx.Rollback()
	return tx.ID() >= id
}

// Used returns how many bytes of the file are in use.
func (f *File) Used(tx *bbolt.Tx) int64 {
	stats := f.Stats()
	return tx.Size() - int64(stats.FreePageN+stats.PendingPageN)*int64(f.Info().PageSize)
}

// RecoverDamage runs f and turns a panic into an error that wraps ErrDamaged: bbolt panics on pages that it did not
// write, and so does any read beyond the end of a truncated file.
func RecoverDamage(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(runtime.Error); ok { // its text does not help people
				p = "a database page is corrupt or missing"
			}
			err = fmt.Errorf("file is %w: %v", ErrDamaged, p)
		}
	}()
	return f()
}
