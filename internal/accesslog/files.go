package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of the data kept of a log besides its entries.
const (
	maxFiles    = 10_000
	maxExamples = 5   // of lines that could not be parsed, in all
	maxExample  = 160 // bytes of each
	sniffLines  = 64  // at the beginning of a file, to identify it
)

// Files are the logs of one site, read as one: rotated files, compressed or not, and the files of several
// servers, in time order. They are for one goroutine at a time.
type Files struct {
	// Progress, if not nil, is called with the number of bytes read, as stored.
	Progress func(bytes int64)

	files    []*File
	waiting  []*File // not started, oldest first
	open     []*File // started; their next entry is known
	last     *File   // the source of the last entry
	examples []Example
	seed     maphash.Seed
}

// A File is one file of a log, and the findings in it so far.
type File struct {
	Name   string
	Size   int64  // in bytes, as stored; -1 if unknown
	Format string // of the first line that could be parsed, see Format

	Lines   int64 // in all
	Broken  int64 // that could not be parsed
	Cut     int64 // that were longer than MaxLine, and truncated
	Entries int64 // that were parsed

	// DuplicateOf names a file that begins with the same lines, so that this one is skipped: a log and its
	// compressed copy.
	DuplicateOf string

	// Err says why the file could not be read to its end. The entries before it count.
	Err error

	stream stream
	parser Parser
	entry  Entry // the next one
	beginning
}

// A beginning is what the first lines of a file show.
type beginning struct {
	first int64  // time of the first entry
	hash  uint64 // of the lines; 0 if there are none
	whole bool   // the file has no other lines
}

// An Example is a line that could not be parsed.
type Example struct {
	File string `json:"file"`
	Line int64  `json:"line"` // from 1
	Why  string `json:"why"`
	Text string `json:"text"` // its beginning, quoted as in Go if it is not plain
}

// Open finds the files of patterns, such as /var/log/nginx/access.log*, and sorts them by their first
// entries. A pattern that is the name of a file is that file, and "-" is stdin. A file found by several
// patterns is read once. A pattern that finds nothing is an error, and so is a file that cannot be opened;
// later, nothing is fatal. Close must be called.
func Open(patterns []string, stdin io.Reader) (*Files, error) {
	fs := &Files{seed: maphash.MakeSeed()}
	for _, pattern := range patterns {
		if err := fs.find(pattern, stdin); err != nil {
			fs.Close()
			return nil, err
		}
	}
	for _, f := range fs.files {
		f.sniff(fs.seed)
	}
	fs.leaveTwinsOut()
	for _, f := range fs.files {
		if f.DuplicateOf == "" {
			fs.waiting = append(fs.waiting, f)
		}
	}
	slices.SortStableFunc(fs.waiting, func(a, b *File) int { return cmp.Compare(a.first, b.first) })
	return fs, nil
}

// find adds the files of a pattern.
func (l *Files) find(pattern string, stdin io.Reader) error {
	if pattern == "-" {
		if slices.ContainsFunc(l.files, func(f *File) bool { return f.stream.f == nil }) {
			return errors.New("read logs: standard input was named twice")
		}
		l.files = append(l.files, &File{Name: "-", Size: -1, stream: stream{in: stdin}})
		return nil
	}
	names := []string{pattern}
	if _, err := os.Lstat(pattern); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read logs: %w", err)
		}
		if names, err = filepath.Glob(pattern); err != nil {
			return fmt.Errorf("read logs %s: %w", pattern, err)
		} else if len(names) == 0 {
			return fmt.Errorf("read logs %s: there is no such file; name one, or a pattern in quotes", pattern)
		}
	}
	found := false
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read logs: %w", err)
		}
		info, err := f.Stat()
		if err != nil || info.IsDir() || slices.ContainsFunc(l.files, func(o *File) bool { return o.stream.of(info) }) {
			f.Close()
			found = found || err == nil && !info.IsDir()
			continue
		}
		if len(l.files) == maxFiles {
			f.Close()
			return fmt.Errorf("read logs %s: more than %d files", pattern, maxFiles)
		}
		file := &File{Name: name, Size: -1, stream: stream{f: f, in: f}}
		if info.Mode().IsRegular() {
			file.Size = info.Size()
		}
		l.files = append(l.files, file)
		found = true
	}
	if !found {
		return fmt.Errorf("read logs %s: these are directories; name the files in them", pattern)
	}
	return nil
}

// sniff reads the beginning of a file, for its first time and to compare it with others.
func (f *File) sniff(seed maphash.Seed) {
	f.first = maxUnix // unreadable files come last
	if f.Err = f.stream.start(f.Size, nil); f.Err != nil {
		return
	}
	list, whole := f.stream.lines.peek(sniffLines)
	var h maphash.Hash
	h.SetSeed(seed)
	for _, line := range list {
		h.Write(line)
		h.WriteByte('\n')
		var e Entry
		if f.first == maxUnix && f.parser.Parse(line, &e) == nil {
			f.first = e.Unix
		}
	}
	if f.whole = whole; len(list) > 0 {
		f.hash = h.Sum64()
	}
	if f.Size >= 0 { // else it cannot be read twice, and the buffer is kept
		f.stream.stop()
		_, f.Err = f.stream.f.Seek(0, io.SeekStart)
	}
}

const maxUnix = 1<<63 - 1

// leaveTwinsOut finds files that begin alike, in sniffLines lines or to their end: a log that is being
// compressed, or whose copy was kept. The one with more lines would be right, but only reading tells; the
// uncompressed one is whole for certain.
func (l *Files) leaveTwinsOut() {
	by := map[uint64]*File{}
	for _, f := range l.files {
		if f.hash == 0 || f.Err != nil {
			continue
		}
		other := by[f.hash]
		switch {
		case other == nil || other.whole != f.whole:
			by[f.hash] = f
		case compressed(other.Name) && !compressed(f.Name):
			other.DuplicateOf = f.Name
			by[f.hash] = f
		default:
			f.DuplicateOf = other.Name
		}
	}
}

func compressed(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".gz", ".zst", ".zstd":
		return true
	}
	return false
}

// Size returns the number of bytes to read, as stored, or -1 if unknown.
func (l *Files) Size() int64 {
	size := int64(0)
	for _, f := range l.files {
		if f.Size < 0 {
			return -1
		} else if f.DuplicateOf == "" {
			size += f.Size
		}
	}
	return size
}

// Files returns the files in the order of the patterns. Their data are complete when Next has returned nil.
func (l *Files) Files() []*File { return l.files }

// Examples returns the first lines that could not be parsed.
func (l *Files) Examples() []Example { return l.examples }

// Next returns the next entry, or nil at the end of all files. Entries of several files come in time order,
// as far as those of each file do.
func (l *Files) Next() *Entry {
	if l.last != nil && len(l.open) == 1 && l.advance(l.last) {
		// The usual case: one file is being read, and the next one is later.
		if len(l.waiting) == 0 || l.last.entry.Unix < l.waiting[0].first {
			return &l.last.entry
		}
	} else if l.last != nil && len(l.open) > 1 {
		l.advance(l.last)
	}
	for len(l.waiting) > 0 && (len(l.open) == 0 || l.waiting[0].first <= l.earliest().entry.Unix) {
		f := l.waiting[0]
		l.waiting = l.waiting[1:]
		if f.Err == nil {
			f.Err = f.stream.start(f.Size, l.Progress)
		}
		l.open = append(l.open, f)
		l.advance(f)
	}
	if len(l.open) == 0 {
		return nil
	}
	l.last = l.earliest()
	return &l.last.entry
}

// earliest returns the open file with the earliest next entry.
func (l *Files) earliest() *File {
	return slices.MinFunc(l.open, func(a, b *File) int { return cmp.Compare(a.entry.Unix, b.entry.Unix) })
}

// advance reads the next entry of a file, and closes the file if there is none.
func (l *Files) advance(f *File) bool {
	for f.Err == nil {
		line, end, err := f.stream.lines.next()
		if err != nil {
			if err != io.EOF {
				f.Err = err
			}
			break
		}
		f.Lines++
		if end == cut {
			f.Cut++
		}
		err = f.parser.Parse(line, &f.entry)
		if err == nil {
			if f.Entries == 0 {
				f.Format = Format(line, &f.entry)
			}
			f.Entries++
			return true
		}
		if end == unended && f.Size >= 0 {
			f.Lines-- // it is just being written
			continue
		}
		f.Broken++
		if len(l.examples) < maxExamples {
			l.examples = append(l.examples, Example{f.Name, f.Lines, err.Error(), printable(line)})
		}
	}
	f.stream.close()
	l.open = slices.DeleteFunc(l.open, func(o *File) bool { return o == f })
	if l.last == f {
		l.last = nil
	}
	return false
}

// printable returns the beginning of a line in a printable form.
func printable(line []byte) string {
	line = line[:min(len(line), maxExample)]
	s := strings.ToValidUTF8(string(line), "\uFFFD")
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return fmt.Sprintf("%+q", line)
		}
	}
	return s
}

// Close closes the files.
func (l *Files) Close() error {
	for _, f := range l.files {
		f.stream.close()
	}
	return nil
}
