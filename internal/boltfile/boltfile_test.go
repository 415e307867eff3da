package boltfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/must"
)

// filled makes a file with something in it, and returns its path.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dir", "a.db")
	f, err := boltfile.Open(path, boltfile.Options{GrowBy: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	err = f.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := range 1000 {
			if err == nil {
				err = b.Put([]byte{byte(i >> 8), byte(i)}, bytes.Repeat([]byte{byte(i)}, 200))
			}
		}
		return err
	})
	must.OK(t, errors.Join(err, f.Close()))
	return path
}

func TestOpenFileIsLocked(t *testing.T) {
	path := filled(t)
	f, err := boltfile.Open(path, boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boltfile.Open(path, boltfile.Options{}); !errors.Is(err, boltfile.ErrHeld) {
		t.Errorf("opened twice: %v", err)
	}
	f.Close()
	if f, err = boltfile.Open(path, boltfile.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// A file that was cut, overwritten or filled with something else is an error, and neither
// a panic nor a hang; closed afterwards, it can be opened by others.
func TestDamagedFiles(t *testing.T) {
	whole := must.Get(os.ReadFile(filled(t)))
	read := func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error { return nil })
		})
	}
	page := os.Getpagesize()
	for name, damage := range map[string]func(b []byte) []byte{
		"cut within a page": func(b []byte) []byte { return b[:page+100] },
		"cut to half":       func(b []byte) []byte { return b[:len(b)/2/page*page] },
		"no bolt file":      func(b []byte) []byte { return bytes.Repeat([]byte("text "), len(b)/5) },
		"zeroed pages":      func(b []byte) []byte { clear(b[2*page:]); return b },
	} {
		path := filepath.Join(t.TempDir(), "a.db")
		must.OK(t, os.WriteFile(path, damage(bytes.Clone(whole)), 0o600))
		f, err := boltfile.Open(path, boltfile.Options{})
		if err == nil {
			err = boltfile.RecoverDamage(func() error {
				tx, err := f.Begin(true)
				if err != nil {
					return err
				}
				defer f.Rollback(tx)
				return read(tx)
			})
			f.Close()
		}
		if !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := boltfile.Open(path, boltfile.Options{}); errors.Is(err, boltfile.ErrHeld) {
			t.Errorf("%s: the lock was not released", name)
		}
	}
}
