//go:build !linux

package docroot

import (
	"io"
	"io/fs"
	"os"

	"github.com/parleyweb/parley/server/internal/stat"
)

// openBeneath is for systems that have openat2.
func (t *tree) openBeneath(string, int) *os.File { return nil }

// openSmall is too.
func (t *tree) openSmall(string, int64) io.ReadCloser { return nil }

// readNames calls f with every name in an open directory, and its type, until
// f returns an error.
func readNames(dir *os.File, f func(name string, mode fs.FileMode) error) error {
	return stat.ReadDir(dir, func(entries []fs.DirEntry) error {
		for _, e := range entries {
			if err := f(e.Name(), e.Type()); err != nil {
				return err
			}
		}
		return nil
	})
}
