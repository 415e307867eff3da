package warc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// Each file has an index beside it: sorted once the file is full, and until then a log of lines in the
// order of the records. A file with a log will be continued; others are never changed. While no Writer is open, the
// file with a log has a sorted index, too.
const (
	indexSuffix = ".cdxj"
	logSuffix   = ".cdxj.log"
)

// serialOf returns the number in a name made by a Writer, 0 if there is none.
func serialOf(name string) int {
	stem, _, ok := strings.Cut(name, ".warc")
	i := strings.LastIndexByte(stem, '-')
	if !ok || i < 0 {
		return 0
	}
	n, err := strconv.ParseUint(stem[i+1:], 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// Before reports whether p is an earlier end of the directory than q, as Mark returns them. Of two files with the same
// number it is not known which is the later one: then it reports true.
func (p Place) Before(q Place) bool {
	if p.File == q.File {
		return p.Offset < q.Offset
	}
	return serialOf(p.File) <= serialOf(q.File)
}

// isArchive reports whether a name is that of a WARC file.
func isArchive(name string) bool {
	return strings.HasSuffix(name, ".warc") || strings.HasSuffix(name, ".warc.gz") || strings.HasSuffix(name, ".warc.zst")
}

// archives returns the names of the WARC files, in the order in which they were begun.
func archives(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if name := e.Name(); isArchive(name) && e.Type().IsRegular() {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(serialOf(a), serialOf(b)) })
	return names, nil
}

// Closed returns the archives of a directory that a Writer does not continue, up to a mark: those before its file, and that file if it ends
// there.
func Closed(dir string, mark Place) ([]string, error) {
	names, err := archives(dir)
	return slices.DeleteFunc(names, func(name string) bool {
		path := filepath.Join(dir, name)
		if exists(path+logSuffix) || serialOf(name) > serialOf(mark.File) {
			return true
		}
		st, err := os.Stat(path)
		return name == mark.File && (err != nil || st.Size() != mark.Offset)
	}), err
}

// IndexOf returns the name of the index of a closed archive.
func IndexOf(name string) string { return name + indexSuffix }

// recover restores the directory as of the last sync, and opens the file to be continued. coding and mark are
// those of Options.
func (f *file) recover(coding string, mark *Place) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	names, err := archives(f.dir)
	if err != nil {
		return err
	}
	if mark != nil && mark.File != "" && !slices.Contains(names, mark.File) {
		mark = nil // the mark is unusable
	}
	for i, name := range names {
		f.serial = max(f.serial, serialOf(name))
		path := filepath.Join(f.dir, name)
		if mark != nil && (mark.File == "" || serialOf(name) > serialOf(mark.File)) && strings.HasPrefix(name, namePrefix) {
			if err := removeAll(path, path+indexSuffix, path+logSuffix); err != nil {
				return err
			}
			continue
		}
		limit, closed := int64(-1), false // no limit
		if mark != nil && name == mark.File {
			limit = mark.Offset
			if closed, err = reopen(path, limit); err != nil {
				return err
			}
		}
		if !exists(path + logSuffix) {
			if limit < 0 {
				st, err := os.Stat(path)
				if err != nil {
					return err
				}
				limit = st.Size()
			}
			f.name, f.size = name, limit
			continue
		}
		if err := removeAll(path + indexSuffix); err != nil { // it is made anew from the log
			return err
		}
		before, end := f.name, f.size
		f.name, f.size = name, 0
		whole, err := f.mend(path, limit)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		newest := i == len(names)-1 || limit >= 0 && !closed // what was closed may have been copied: it begins as the copy does, and ends where it did or before
		if !whole || !newest || !strings.HasSuffix(name, extension(coding)) {
			if err := sortIndex(path); err != nil {
				return err
			}
			continue
		}
		if f.data, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
			return err
		}
		if f.log, err = os.OpenFile(path+logSuffix, os.O_WRONLY|os.O_APPEND, 0); err != nil {
			return err
		}
		f.synced = f.size
		if err := f.readInfo(path); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if f.data == nil { // it was empty, and is removed
			f.name, f.size = before, end
		}
	}
	return f.tidy()
}

// tidy removes logs whose file was never created, and indexes that a killed process has not finished.
func (f *file) tidy() error {
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "."+namePrefix) && strings.HasSuffix(e.Name(), ".tmp") { // of atomicfile
			if err := removeAll(filepath.Join(f.dir, e.Name())); err != nil {
				return err
			}
		}
		name, ok := strings.CutSuffix(e.Name(), logSuffix)
		if ok && isArchive(name) && !exists(filepath.Join(f.dir, name)) {
			f.serial = max(f.serial, serialOf(name))
			if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func removeAll(paths ...string) error {
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// reopen gives a closed file with more than limit bytes a log again, so that it can be cut back, and reports whether it did.
func reopen(path string, limit int64) (closed bool, err error) {
	st, err := os.Stat(path)
	if err != nil || st.Size() <= limit || !exists(path+indexSuffix) || exists(path+logSuffix) {
		return false, err
	}
	lines, err := os.ReadFile(path + indexSuffix)
	if err != nil {
		return false, err
	}
	kept, _, _ := cutLines(lines, limit)
	slices.SortFunc(kept, func(a, b logged) int { return cmp.Compare(a.entry.Place.Offset, b.entry.Place.Offset) })
	if err := atomicfile.Write(path+logSuffix, join(kept), 0o644); err != nil {
		return false, err
	}
	return true, os.Remove(path + indexSuffix)
}

// A logged line is an index line with its entry.
type logged struct {
	line  []byte
	entry Entry
}

func join(lines []logged) string {
	var b strings.Builder
	for _, l := range lines {
		b.Write(l.line)
		b.WriteByte('\n')
	}
	return b.String()
}

// cutLines returns the lines whose records end at limit or before, up to the first invalid line; the end of
// the last such record; and whether those were all lines.
func cutLines(text []byte, limit int64) (kept []logged, end int64, all bool) {
	all = true
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		e, ok := parseLine(line)
		if !ended || !ok {
			return kept, end, false
		}
		text = rest
		if stop := e.Place.Offset + e.Place.Length; stop <= limit {
			kept = append(kept, logged{line, e})
			end = max(end, stop)
		} else {
			all = false
		}
	}
	return kept, end, all
}

// mend cuts a file and its log back to the last whole record, or to limit if that is not negative. It reads
// only the records after the last line of the log. It reports whether the file can be continued: not if there
// is damage before the limit, which is left for others to examine.
func (f *file) mend(path string, limit int64) (whole bool, err error) {
	data, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer data.Close()
	st, err := data.Stat()
	if err != nil {
		return false, err
	}
	size := st.Size()
	if limit >= 0 {
		size = min(size, limit)
	}
	text, err := os.ReadFile(path + logSuffix)
	if err != nil {
		return false, err
	}
	kept, end, all := cutLines(text, size)
	found, end, err := scan(data, f.name, end, size)
	if err != nil {
		return false, err
	}
	f.size, f.records = end, len(kept)+len(found)+1
	whole = limit < 0 || end == limit
	if whole && end < st.Size() {
		if err := errors.Join(data.Truncate(end), data.Sync()); err != nil {
			return false, err
		}
	}
	if all && len(found) == 0 {
		return whole, nil
	}
	return whole, atomicfile.Write(path+logSuffix, join(append(kept, found...)), 0o644)
}

// scan reads the records between two offsets, and returns index lines for the whole ones, and the end of the
// last.
func scan(f io.ReaderAt, name string, from, to int64) (lines []logged, end int64, err error) {
	r := NewReader(io.NewSectionReader(f, from, to-from))
	defer r.Close()
	for end = from; ; end = from + r.offset() {
		rec, err := r.Next()
		if d := (*Damage)(nil); err == io.EOF || errors.As(err, &d) {
			return lines, end, nil
		} else if err != nil {
			return nil, 0, err
		}
		e, indexed := entryOf(rec)
		if err := r.Skip(); err != nil || !r.alone() {
			return lines, end, nil
		}
		if !indexed {
			continue
		}
		e.Place = Place{File: name, Offset: from + rec.Offset, Length: r.offset() - rec.Offset}
		line := AppendEntry(nil, &e)
		lines = append(lines, logged{line[:len(line)-1], e})
	}
}

// entryOf makes the index entry of a record from the record itself. It returns false for a record that is no
// capture. The digest is computed if the record does not state one of ours.
func entryOf(rec *Record) (e Entry, ok bool) {
	t := rec.Type()
	if t != Response && t != Revisit {
		return e, false
	}
	e = Entry{URL: rec.URL(), Date: rec.Date()}
	m, err := ReadMessage(rec.Body)
	if err == nil {
		e.Status = m.Status
		e.Type, _, _ = strings.Cut(m.Header.Get("Content-Type"), ";")
		e.Type = strings.ToLower(strings.TrimSpace(e.Type))
	}
	if e.Digest, ok = ParseDigest(rec.Fields.Get("WARC-Payload-Digest")); !ok && err == nil && t == Response {
		h := sha256.New()
		if _, err := io.Copy(h, m.Body); err == nil {
			e.Digest = [32]byte(h.Sum(nil))
		}
	}
	if t == Revisit {
		e.Type = revisitType
	}
	return e, true
}

// readInfo reads the id of the warcinfo record that begins the open file.
func (f *file) readInfo(path string) error {
	if f.size == 0 {
		return f.reset()
	}
	data, err := os.Open(path)
	if err != nil {
		return err
	}
	defer data.Close()
	r := NewReader(data)
	defer r.Close()
	rec, err := r.Next()
	if err != nil {
		return err
	}
	f.info = "<" + bare(rec.Fields.Get("WARC-Record-ID")) + ">"
	return nil
}

// reset removes an empty file, so that a new one begins with its own warcinfo record.
func (f *file) reset() error {
	path := f.path()
	return errors.Join(f.closeFiles(), removeAll(path, path+logSuffix))
}

// sortIndex turns the log of a file into its sorted index.
func sortIndex(path string) error {
	if err := writeIndex(path); err != nil {
		return err
	}
	return os.Remove(path + logSuffix)
}

// writeIndex writes the sorted index of a file beside its log. It sorts in memory: a file has at most Options.MaxRecords lines.
func writeIndex(path string) error {
	text, err := os.ReadFile(path + logSuffix)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	slices.SortStableFunc(lines, bytes.Compare)
	var b strings.Builder
	b.Grow(len(text))
	for _, l := range lines {
		b.Write(l)
	}
	return atomicfile.Write(path+indexSuffix, b.String(), 0o644)
}
