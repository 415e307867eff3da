// Package boltfile is one bbolt file that damage, a full disk or another process cannot turn
// into a panic, a hang or a lie. The site's journal and the crawler's collection stand on it.
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
	// ErrHeld is that another process has the file.
	ErrHeld = errors.New("held by another process")

	// ErrDamaged is that the file holds something else than what was written to it.
	ErrDamaged = errors.New("damaged")

	// ErrClosed is that the file was closed.
	ErrClosed = berrors.ErrDatabaseNotOpen
)

// Options say how a file is opened.
type Options struct {
	ReadOnly bool

	// Wait is how long another process that has the file is waited for.
	Wait time.Duration

	// Room is address space beyond the size of the file, in bytes, and not memory: bbolt
	// cannot grow the mapping of a file while somebody reads.
	Room int64

	// GrowBy is how much the file grows at once, in bytes. It costs a sync each time.
	GrowBy int
}

// A File is an open bbolt file. What reads or writes it runs under [Guard].
type File struct {
	*bbolt.DB
	file  *os.File
	stuck bool // bbolt has failed with its own lock held
}

// Open opens or makes a file, and its directory. The error wraps ErrHeld, or ErrDamaged where
// the file is none of bbolt's, or has been cut.
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
		// A free list that is not in the file would be found by reading all of
		// it on every Open, in a goroutine that panics if the file is damaged.
		NoFreelistSync: false,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	}
	if strconv.IntSize == 64 && runtime.GOOS != "windows" { // there the file itself would grow
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
	err := Guard(func() (err error) {
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
		// Of a file with less than its first two pages bbolt says nothing that can be told from other trouble.
		if st, e := os.Stat(path); e == nil && 0 < st.Size() && st.Size() < int64(2*os.Getpagesize()) {
			err = fmt.Errorf("file is %w: %w", ErrDamaged, err)
		}
		return nil, err
	}
	f.AllocSize = o.GrowBy
	// What lies beyond the end of the file cannot even be looked at.
	if err := Guard(func() error { return f.View(f.whole) }); err != nil {
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
		return fmt.Errorf("file is %w: %d of %d bytes", ErrDamaged, st.Size(), tx.Size())
	}
	return nil
}

// Close closes the file. Where bbolt failed with its own lock held, it would wait for that
// for ever: then the file is given up.
func (f *File) Close() error {
	if f.stuck {
		return f.abandon()
	}
	return f.DB.Close()
}

// abandon does what bbolt cannot any more: it gives up the lock and the file.
func (f *File) abandon() error {
	unlock(f.file)
	return f.file.Close()
}

// Rollback ends a writing transaction that was not committed; of one that was there is
// nothing to do. bbolt reads the file for it, and may fail: Close knows then. It is deferred
// inside of Guard, by whoever alone writes.
func (f *File) Rollback(tx *bbolt.Tx) {
	f.stuck = true
	tx.Rollback() // says ErrTxClosed after a Commit
	f.stuck = false
}

// Visible reports whether a transaction whose commit failed is seen in the file all the
// same, so that nobody knows whether the disk has it.
func (f *File) Visible(id int) bool {
	tx, err := f.Begin(false)
	if err != nil {
		return true
	}
	defer tx.Rollback()
	return tx.ID() >= id
}

// Used is how many bytes of the file are in use.
func (f *File) Used(tx *bbolt.Tx) int64 {
	stats := f.Stats()
	return tx.Size() - int64(stats.FreePageN+stats.PendingPageN)*int64(f.Info().PageSize)
}

// Guard runs f and makes an error of a panic, which wraps ErrDamaged: bbolt panics on pages
// that it did not write, and so does whatever reads beyond the end of a file that somebody cut.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(runtime.Error); ok { // its text says nothing to people
				p = "a page of it is not what was written"
			}
			err = fmt.Errorf("file is %w: %v", ErrDamaged, p)
		}
	}()
	return f()
}
