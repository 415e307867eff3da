package changes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// A witness is the file that says how far readers may have read. Only the writer of the state uses it.
type witness struct {
	f      *os.File // nil: the state is read-only
	synced bool     // since this process wrote to it first
}

// maxWitness is the length of the file, for any cursor: a write replaces all of it.
const maxWitness = 128

// text returns the content of the file.
func text(head protocol.Cursor) string { return fmt.Sprintf("%-*s\n", maxWitness-1, head) }

// content returns the beginning of the file, empty if there is none.
func content(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxWitness))
	return string(b), err
}

// witnessed returns the cursor in the file; the zero Cursor if there is no file, or something else is in it.
func witnessed(path string) (seen protocol.Cursor, err error) {
	text, err := content(path)
	if err != nil || text == "" {
		return seen, err
	}
	if seen, err = protocol.ParseCursor(strings.TrimSpace(text)); err == nil {
		return seen, nil
	}
	// The journal of the version before, whose name the file has taken.
	j, err := journal.Open(path, &journal.Options{ReadOnly: true})
	var failed syscall.Errno
	switch {
	case err == nil:
		return j.Head(), j.Close()
	case errors.Is(err, boltfile.ErrHeld), errors.As(err, &failed):
		return seen, err
	}
	return seen, nil
}

// open writes the head of the state that was opened, and opens the file for more.
func (w *witness) open(path string, head protocol.Cursor) (err error) {
	if was, _ := content(path); was != text(head) {
		if err := atomicfile.Write(path, text(head), 0o600); err != nil {
			return err
		}
	}
	w.f, err = os.OpenFile(path, os.O_WRONLY, 0)
	return err
}

// write replaces the cursor in the file.
func (w *witness) write(head protocol.Cursor) error {
	if _, err := w.f.WriteAt([]byte(text(head)), 0); err != nil {
		return err
	}
	if w.synced {
		return nil
	}
	w.synced = true
	return w.f.Sync()
}

func (w *witness) close() error {
	if w.f == nil {
		return nil
	}
	f := w.f
	w.f = nil
	return errors.Join(f.Sync(), f.Close())
}
