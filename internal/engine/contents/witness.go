package contents

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/warc"
)

// The archives can be newer than the state that refers to them, if somebody has restored the state from a backup. Then
// they must not be cut off where the state says that they end. So a file beside them, which is restored
// together with them or not at all, has the end that was committed last.

// witnessName is the file with the committed end of the archive.
const witnessName = "mark.txt"

// witnessOf returns the text of the file. It is so short that it is written to one sector of the disk.
func witnessOf(mark warc.Place) string {
	text := fmt.Sprintf("%d %q", mark.Offset, mark.File)
	return fmt.Sprintf("%-80s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// Witnessed returns the end of the archive that was given to Witness last, and false if it is not known.
func (s *Store) Witnessed() (mark warc.Place, known bool, err error) {
	b, err := os.ReadFile(filepath.Join(s.warcs(), witnessName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mark, false, err
	}
	text := string(b)
	_, err = fmt.Sscanf(text, "%d %q", &mark.Offset, &mark.File)
	if err != nil || !strings.HasPrefix(text, witnessOf(mark)) {
		return mark, false, nil
	}
	s.witnessed = witnessOf(mark)
	return mark, true, nil
}

// Witness stores the end of the archive that a transaction has named, after its commit. It survives a kill, but
// not always a power failure: then an earlier end is known, or none.
func (s *Store) Witness(mark warc.Place) error {
	text := witnessOf(mark)
	if s.archive == nil || text == s.witnessed {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(s.warcs(), witnessName), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	s.witnessed = text
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Close())
}
