package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/web"
)

// PartsSuffix is added to the name of a manifest for the directory of its parts.
const PartsSuffix = ".parts"

// DefaultParts is the Parts of a Snapshot in the commands and in Caddy.
const DefaultParts = 5000

// partsDir returns the directory of the parts.
func (s *Snapshot) partsDir() string { return s.Path + PartsSuffix }

// partURL returns the URL of a part.
func (s *Snapshot) partURL(d protocol.Digest) string {
	return s.Manifest.URL + PartsSuffix + "/" + fileName(d)
}

// fileName returns the name of a part's file.
func fileName(d protocol.Digest) string { return hex.EncodeToString(d[:]) + partExt }

const partExt = ".rdf"

// isPart reports whether a name is that of a part's file.
func isPart(name string) bool {
	digits, ok := strings.CutSuffix(name, partExt)
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}

// partFiles is the directory of the parts. Beside a part that is long enough for it are copies in the content codings
// of its siblings.
type partFiles struct {
	dir   string
	as    time.Time        // mtime of the directory when it was listed
	sizes map[string]int64 // of the parts there
	made  []string         // since keep
	zstd  coding.Messages
}

// siblings returns the file of a part after its copies in content codings.
func siblings(name string) []string { return []string{name + ".zst", name + ".gz", name} }

func (f *partFiles) path(name string) string { return filepath.Join(f.dir, name) }

// open makes the directory, and lists it unless it is as it was left. Temporary files of a killed writer are removed, and
// lost or damaged siblings are made again.
func (f *partFiles) open(dir string) error {
	if dir != f.dir {
		f.dir, f.sizes = dir, nil
	}
	if f.sizes != nil && mtimeOf(f.dir).Equal(f.as) {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err == nil {
		if runtime.GOOS != "windows" { // whatever the umask is, the web server may read the parts
			err = os.Chmod(dir, 0o755)
		}
		if err = errors.Join(err, atomicfile.SyncDir(filepath.Dir(dir))); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.list()
}

func (f *partFiles) list() error {
	f.as, f.sizes = mtimeOf(f.dir), make(map[string]int64)
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		switch name := e.Name(); {
		case !e.Type().IsRegular():
		case isPart(name):
			info, err := e.Info()
			if err != nil {
				continue
			}
			f.sizes[name] = info.Size()
			if err := f.mend(name, info); err != nil {
				return err
			}
		case strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp"):
			os.Remove(f.path(name)) // on failure the next process tries again
		}
	}
	if f.made == nil {
		return nil
	}
	err = f.sync()
	f.made = nil
	return err
}

// mtimeOf returns the mtime of a directory, which moves when a file in it comes or goes.
func mtimeOf(dir string) time.Time {
	info, err := os.Stat(dir)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// has reports whether all parts of a state are there.
func (f *partFiles) has(st *partsState) bool {
	for p := range st.parts() {
		if n, ok := f.sizes[fileName(p.Digest)]; !ok || n != p.Length {
			return false
		}
	}
	return true
}

// put writes the file of a part after its siblings, unless it is there already: known says that its siblings are then, too.
func (f *partFiles) put(name string, b []byte, known bool) error {
	if known {
		if was, err := os.ReadFile(f.path(name)); err == nil && bytes.Equal(was, b) {
			return nil
		}
	}
	err := f.pack(name, b)
	if err == nil {
		err = f.write(name, b)
	}
	if err == nil {
		f.sizes[name] = int64(len(b))
	}
	return err
}

// pack writes the siblings of a part.
func (f *partFiles) pack(name string, b []byte) error {
	f.made = append(f.made, name)
	if len(b) < web.LeastCoded {
		return nil
	}
	var gz bytes.Buffer
	z := coding.NewGzip(&gz)
	z.Write(b) // to memory: neither fails
	z.Close()
	return errors.Join(f.write(name+".zst", f.zstd.Pack(b)), f.write(name+".gz", gz.Bytes()))
}

// mend writes the siblings of a part again, unless they are there and not empty, and none was written after the part.
func (f *partFiles) mend(name string, part fs.FileInfo) error {
	lost, copies := false, siblings(name)[:2]
	for _, x := range copies {
		info, err := os.Stat(f.path(x))
		lost = lost || err != nil || info.Size() == 0 || info.ModTime().After(part.ModTime())
	}
	if !lost || part.Size() < web.LeastCoded {
		return nil
	}
	b, err := os.ReadFile(f.path(name))
	if err != nil || fileName(protocol.Sum(b)) != name { // the part is damaged, too
		return err
	}
	err = f.pack(name, b)
	for _, x := range copies {
		err = errors.Join(err, os.Chtimes(f.path(x), time.Time{}, part.ModTime()))
	}
	return err
}

// write writes a file whole, to be made durable by sync.
func (f *partFiles) write(name string, b []byte) error {
	tmp, err := os.CreateTemp(f.dir, "."+name+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already when all went well
	_, err = tmp.Write(b)
	if runtime.GOOS != "windows" {
		err = errors.Join(err, tmp.Chmod(0o644))
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return atomicfile.Replace(tmp.Name(), f.path(name))
}

// sync makes the files made since keep, and the names in the directory, durable. Several at once cost a file system
// little more than one.
func (f *partFiles) sync() error {
	var names []string
	for _, part := range f.made {
		names = append(names, siblings(part)...)
	}
	var syncing sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		syncing.Go(func() {
			for i := w; i < len(names); i += len(errs) {
				file, err := os.OpenFile(f.path(names[i]), os.O_RDWR, 0)
				if err == nil {
					err = errors.Join(file.Sync(), file.Close())
				}
				if !errors.Is(err, fs.ErrNotExist) { // as the siblings of a short part
					errs[w] = errors.Join(errs[w], err)
				}
			}
		})
	}
	syncing.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	f.as = mtimeOf(f.dir)
	return atomicfile.SyncDir(f.dir)
}

// keep removes the files made since the last call that a state does not name.
func (f *partFiles) keep(st *partsState) {
	for _, name := range f.made {
		if !st.names(name) {
			f.remove(name) // on failure the next process removes it
		}
	}
	f.made = nil
	f.as = mtimeOf(f.dir)
}

// remove removes a part, its siblings first.
func (f *partFiles) remove(name string) error {
	for _, path := range siblings(name) {
		if err := os.Remove(f.path(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	delete(f.sizes, name)
	return nil
}
