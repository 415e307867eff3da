package server

import (
	"errors"
	"io/fs"
	"os"
)

var errIrregular = errors.New("not a regular file")

// openRegular opens a file, and nothing else: a pipe would be waited for, a
// device has no end.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, openQuietly, 0)
	if err != nil {
		return nil, err
	}
	st, err := statOpen(f)
	if err == nil && st.mode != 0 {
		err = &fs.PathError{Op: "open", Path: path, Err: errIrregular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
