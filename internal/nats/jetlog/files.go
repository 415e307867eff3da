package jetlog

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// Files are the files of a site's manifest as objects in NATS: what the writer has, all doors have, with the same bytes and times.
// One file changes, and is stored last: the manifest itself. The others, in a directory of their own, never do. Its methods are called
// by one goroutine at a time.
type Files struct {
	stream *Stream
	bucket string
	store  jetstream.ObjectStore
}

// Files returns the files of the stream's site.
func (s *Stream) Files() *Files { return &Files{stream: s, bucket: s.name + "-files"} }

// Names of objects: of the manifest itself, and of what only the next writer reads.
const (
	main  = "manifest"
	notes = "notes"
)

// writtenKey is the metadata of an object with its file's mtime.
const writtenKey = "written"

// A moving is a file that travels. Once nothing of it has moved for twice patience its context ends: what carries it does not
// return from some failures of a server.
type moving struct {
	io.Reader
	late *time.Timer
}

func move(ctx context.Context) (context.Context, *moving) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, &moving{late: time.AfterFunc(2*patience, cancel)}
}

func (m *moving) Read(b []byte) (int, error) {
	m.late.Reset(2 * patience)
	return m.Reader.Read(b)
}

// end ends the context.
func (m *moving) end() { m.late.Reset(0) }

func (f *Files) open(ctx context.Context) (err error) {
	if f.store != nil {
		return nil
	}
	if f.store, err = f.stream.js.ObjectStore(ctx, f.bucket); errors.Is(err, jetstream.ErrBucketNotFound) && !f.stream.options.Reader {
		f.store, err = f.stream.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: f.bucket, Replicas: f.stream.replicas(), Storage: jetstream.FileStorage})
	}
	if err != nil {
		f.store = nil
		return fmt.Errorf("open bucket %s: %w", f.bucket, err)
	}
	return nil
}

// Store makes the objects equal to a file and those in a directory, which need not exist. Without the file it does nothing.
func (f *Files) Store(ctx context.Context, file, dir string) error {
	r, err := os.Open(file) // first: the directory has all that it names
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer r.Close()
	there, err := f.list(ctx)
	if err != nil {
		return err
	}
	parts, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	here := map[string]bool{main: true}
	for _, e := range parts {
		if !e.Type().IsRegular() || e.Name()[0] == '.' {
			continue
		}
		if here[e.Name()] = true; there[e.Name()] != nil {
			continue
		}
		part, err := os.Open(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			delete(here, e.Name())
			continue
		}
		if err == nil {
			err = errors.Join(f.put(ctx, e.Name(), part, nil), part.Close())
		}
		if err != nil {
			return err
		}
	}
	if err := f.put(ctx, main, r, there[main]); err != nil {
		return err
	}
	for name := range there {
		if !here[name] {
			if err := f.store.Delete(ctx, name); err != nil {
				return f.stream.fail("withdraw "+name+" from", err)
			}
		}
	}
	return nil
}

// put stores a file, unless the object has the same bytes and time.
func (f *Files) put(ctx context.Context, name string, r *os.File, is *jetstream.ObjectInfo) error {
	ctx, file := move(ctx)
	defer file.end()
	info, err := r.Stat()
	if err != nil {
		return err
	}
	written := info.ModTime().UTC().Format(time.RFC3339Nano)
	if is != nil && is.Metadata[writtenKey] == written && is.Size == uint64(info.Size()) {
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return err
		}
		if is.Digest == "SHA-256="+base64.URLEncoding.EncodeToString(sum.Sum(nil)) {
			return nil
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	file.Reader = r
	if _, err = f.store.Put(ctx, jetstream.ObjectMeta{Name: name, Metadata: map[string]string{writtenKey: written}}, file); err != nil {
		return f.stream.fail("store "+name+" for", err)
	}
	return nil
}

// list returns the objects by name.
func (f *Files) list(ctx context.Context) (there map[string]*jetstream.ObjectInfo, err error) {
	there = map[string]*jetstream.ObjectInfo{}
	err = f.ask(ctx, "list the files of", func(ctx context.Context) error {
		list, err := f.store.List(ctx)
		for _, o := range list {
			there[o.Name] = o
		}
		return err
	})
	delete(there, notes)
	return there, err
}

// ask asks the store something. That an object is not there is no error.
func (f *Files) ask(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f.open(ctx)
	if err == nil {
		err = do(ctx)
	}
	if err == nil || errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	return f.stream.fail(what, err)
}

// StoreNotes stores what the next writer needs to know, and no door.
func (f *Files) StoreNotes(ctx context.Context, text []byte) error {
	return f.ask(ctx, "store the notes of", func(ctx context.Context) error {
		_, err := f.store.PutBytes(ctx, notes, text)
		return err
	})
}

// Notes returns what the last writer has stored for the next one, nil if nothing.
func (f *Files) Notes(ctx context.Context) (text []byte, err error) {
	err = f.ask(ctx, "read the notes of", func(ctx context.Context) (err error) {
		text, err = f.store.GetBytes(ctx, notes)
		return err
	})
	return text, err
}

// Version returns what changes whenever the files do; empty if there are none yet.
func (f *Files) Version(ctx context.Context) (version string, err error) {
	err = f.ask(ctx, "ask about the files of", func(ctx context.Context) error {
		o, err := f.store.GetInfo(ctx, main)
		if err == nil {
			version = o.NUID
		}
		return err
	})
	return version, err
}

// Fetch writes the manifest to a file, and what is missing to a directory. It returns the version of the manifest.
func (f *Files) Fetch(ctx context.Context, file, dir string) (version string, err error) {
	if err := f.open(ctx); err != nil {
		return "", err
	}
	if version, err = f.get(ctx, main, file); err != nil { // first: what it names is there by then
		return "", err
	}
	there, err := f.list(ctx)
	if err != nil {
		return "", err
	}
	delete(there, main)
	if len(there) > 0 {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	for name := range there {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil || name != filepath.Base(name) {
			continue
		}
		if _, err := f.get(ctx, name, path); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return "", err
		}
	}
	return version, nil
}

// Sweep removes the files of a directory that are no objects any more, once the manifest does not name them.
func (f *Files) Sweep(ctx context.Context, dir string) error {
	here, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	there, err := f.list(ctx)
	if err != nil {
		return err
	}
	for _, e := range here {
		if there[e.Name()] == nil {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// read writes an object to w.
func (f *Files) read(ctx context.Context, name string, w io.Writer) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	ctx, file := move(ctx)
	defer file.end()
	o, err := f.store.Get(ctx, name)
	if err != nil {
		return f.stream.fail("fetch "+name+" of", err)
	}
	defer o.Close()
	file.Reader = o
	_, err = io.Copy(w, file) // it checks the digest at the end
	return err
}

// get writes an object to a file, whole, and returns its version.
func (f *Files) get(ctx context.Context, name, path string) (string, error) {
	ctx, file := move(ctx)
	defer file.end()
	o, err := f.store.Get(ctx, name)
	if err != nil {
		return "", f.stream.fail("fetch "+name+" of", err)
	}
	defer o.Close()
	info, err := o.Info()
	if err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	file.Reader = o
	_, err = io.Copy(tmp, file) // it checks the digest at the end
	if runtime.GOOS != "windows" {
		err = errors.Join(err, tmp.Chmod(0o644))
	}
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", f.stream.fail("fetch "+name+" of", err)
	}
	if written, err := time.Parse(time.RFC3339Nano, info.Metadata[writtenKey]); err == nil {
		if err := os.Chtimes(tmp.Name(), written, written); err != nil {
			return "", err
		}
	}
	return info.NUID, atomicfile.Replace(tmp.Name(), path)
}
