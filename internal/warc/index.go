package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
)

// An Index finds captures by the CDXJ files in a directory, of a Writer or of other tools. It keeps nothing
// open and is safe for concurrent use, also beside a Writer, of which it sees the synced records.
type Index struct{ Dir string }

// Lookup returns the captures of exactly this URL, oldest first.
func (x Index) Lookup(url string) ([]Entry, error) {
	key := append(appendSURT(nil, url), ' ')
	var list []Entry
	err := x.search(key, func(e Entry) error {
		if e.URL == url {
			list = append(list, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Within one second, captures are in the order of writing.
	slices.SortStableFunc(list, func(a, b Entry) int {
		return cmp.Or(a.Date.Compare(b.Date), cmp.Compare(serialOf(a.Place.File), serialOf(b.Place.File)), cmp.Compare(a.Place.Offset, b.Place.Offset))
	})
	return list, nil
}

// search calls f for every line that begins with a key.
func (x Index) search(key []byte, f func(Entry) error) error {
	names, err := archives(x.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(x.Dir, name)
		err := searchSorted(path+indexSuffix, key, f)
		if errors.Is(err, fs.ErrNotExist) {
			err = searchLog(path+logSuffix, key, f)
			if errors.Is(err, fs.ErrNotExist) { // sorted just now, or without an index
				err = searchSorted(path+indexSuffix, key, f)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// maxLine bounds a line of an index, in bytes.
const maxLine = 64 << 10

func searchLog(path string, key []byte, f func(Entry) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return eachLine(file, func(line []byte) (bool, error) {
		if !bytes.HasPrefix(line, key) {
			return true, nil
		}
		if e, ok := parseLine(line); ok {
			return true, f(e)
		}
		return true, nil
	})
}

// searchSorted finds the first line with the key by binary search.
func searchSorted(path string, key []byte, f func(Entry) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	const block = 8 << 10
	var failed error
	buf := make([]byte, maxLine)
	// The first line that begins in or after block i begins with the key, or comes after it.
	n := int((st.Size() + block - 1) / block)
	i := sort.Search(n, func(i int) bool {
		at := int64(i) * block
		m, err := file.ReadAt(buf, max(at-1, 0))
		if err != nil && err != io.EOF {
			failed = err
		}
		line := buf[:m]
		if at > 0 {
			_, line, _ = bytes.Cut(line, []byte("\n"))
		}
		return bytes.Compare(line[:min(len(line), len(key))], key) >= 0 || len(line) == 0
	})
	if failed != nil {
		return failed
	}
	at := max(int64(i)-1, 0) * block
	from := max(at-1, 0)
	r := io.NewSectionReader(file, from, st.Size()-from)
	first := at > 0
	return eachLine(r, func(line []byte) (bool, error) {
		if first { // the end of the line before
			first = false
			return true, nil
		}
		if bytes.HasPrefix(line, key) {
			if e, ok := parseLine(line); ok {
				return true, f(e)
			}
			return true, nil
		}
		return bytes.Compare(line, key) < 0, nil
	})
}

// eachLine calls f with the lines of r until it returns false. Lines longer than maxLine are skipped.
func eachLine(r io.Reader, f func(line []byte) (bool, error)) error {
	br := bufio.NewReaderSize(r, maxLine)
	for long := false; ; {
		line, err := br.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			long = true
			continue
		case err == io.EOF:
			return nil // an unterminated line is incomplete
		case err != nil:
			return err
		}
		if long {
			long = false
			continue
		}
		if more, err := f(line[:len(line)-1]); err != nil || !more {
			return err
		}
	}
}

// Open opens a record at a place below a directory. Close the Stored when done.
func Open(dir string, p Place) (*Stored, error) {
	if p.File == "" || !filepath.IsLocal(p.File) || p.Offset < 0 || p.Length < 0 {
		return nil, malformed("invalid place %+v", p)
	}
	f, err := os.Open(filepath.Join(dir, p.File))
	if err != nil {
		return nil, err
	}
	length := p.Length
	if length == 0 {
		length = 1<<62 - p.Offset
	}
	return OpenFrom(io.NewSectionReader(f, p.Offset, length), f)
}

// OpenFrom opens the record that src begins with. The Stored, or OpenFrom after an error, closes closer.
func OpenFrom(src io.Reader, closer io.Closer) (*Stored, error) {
	r := NewReader(src)
	rec, err := r.Next()
	if err != nil {
		r.Close()
		closer.Close()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return &Stored{Record: rec, r: r, closer: closer}, nil
}

// A Stored is a record that is being read from a file.
type Stored struct {
	*Record
	r      *Reader
	closer io.Closer
}

// Close closes the file.
func (s *Stored) Close() error {
	s.r.Close()
	return s.closer.Close()
}

// Each calls f with each archive in a directory, in the order in which they were begun, until f returns an
// error. A missing directory has none. If a Writer is at work there, end must be its Synced; else the zero
// Place.
func Each(dir string, end Place, f func(name string, r *Reader) error) error {
	names, err := archives(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, name := range names {
		length := int64(1<<62 - 1)
		switch {
		case end.File == "":
		case name == end.File:
			length = end.Offset
		case serialOf(name) > serialOf(end.File):
			continue
		}
		if err := one(filepath.Join(dir, name), length, func(r *Reader) error { return f(name, r) }); err != nil {
			return err
		}
	}
	return nil
}

func one(path string, length int64, f func(r *Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r := NewReader(io.NewSectionReader(file, 0, length))
	defer r.Close()
	return f(r)
}
