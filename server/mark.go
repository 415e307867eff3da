package server

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/server/internal/stat"
)

// A mark proves that a state file is the one that last reported changes. Before a
// process reports its first change it writes a new mark, a random word, beside the
// manifest and into the journal. A journal restored from a backup carries an older
// word: it does not know the changes reported since, whether or not the manifest
// had been written by then.

// markPath is the file of the mark of the manifest at path: a hidden file, which is
// never published.
func markPath(manifest string) string {
	dir, name := filepath.Split(manifest)
	return filepath.Join(dir, "."+name+".mark")
}

// maxMark bounds how much of a mark is read, in bytes: others may be able to write in the docroot.
const maxMark = 1 << 10

// readMark returns the mark beside a manifest, empty if there is none.
func readMark(manifest string) (string, error) {
	f, err := stat.Open(markPath(manifest))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMark))
	return strings.TrimSpace(string(b)), err
}

// mark writes the mark of this process, once, before its first change is reported.
// Everybody may read the file: a deployment copies it with the pages of a build, perhaps as another user.
// If it cannot be written the change is reported all the same: the next
// start will find two different marks, and begin a new epoch to be safe.
func (p *Publisher) mark() error {
	if p.state.turn.marked || p.Snapshot == nil {
		return nil
	}
	mark := rand.Text()
	if err := atomicfile.Write(markPath(p.Snapshot.Path), mark+"\n", 0o644); err != nil {
		p.log().Warn("mark beside the manifest could not be written: the next start begins a new epoch", "err", err)
	}
	if err := p.Journal.SetMark(mark); err != nil {
		return err
	}
	p.state.turn.marked = true
	return nil
}
