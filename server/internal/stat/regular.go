package stat

import (
	"errors"
	"io/fs"
	"os"
)

// errIrregular is what is wrong with anything but a file.
var errIrregular = errors.New("not a regular file")

// Open opens a file, and nothing else: a pipe would be waited for, a
// device has no end.
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
