package stat

import (
	"errors"
	"io/fs"
	"os"
)

// errIrregular reports that a path is not a regular file.
var errIrregular = errors.New("not a regular file")

// Open opens a regular file, and nothing else: opening a pipe would block, a device has no end.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, Quietly, 0)
	if err != nil {
		return nil, err
	}
	st, err := Of(f)
	if err == nil && st.Mode != 0 {
		err = &fs.PathError{Op: "open", Path: path, Err: errIrregular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
