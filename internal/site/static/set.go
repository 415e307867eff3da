package static

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/server"
)

// A set is a group of files that are replaced together: none of them before all are ready. So an error leaves
// them all unchanged, and files that refer to each other are of one age except while they are renamed.
type set struct {
	owns     func(name string) bool // names of files whose temporary files are removed
	compress bool                   // each file gets its siblings
	is       kind                   // which existing files may be replaced; nil for any
	known    map[string]bool        // files written before, which may be replaced whatever they are

	updates []*update // in the order in which they are put in place
	tidied  map[string]bool
}

// A member is a file of a set while it is being written.
type member struct {
	s *set
	u *update
	w *bufio.Writer

	plain bool // without siblings
}

// create begins a file of the set, which is complete once it is closed.
func (s *set) create(path string) (*member, error) {
	u, err := s.begin(path)
	if err != nil {
		return nil, err
	}
	return &member{s: s, u: u, w: bufio.NewWriterSize(u, 64<<10)}, nil
}

// createNamed is create for a file that is compressed if its name ends so.
func (s *set) createNamed(path string) (io.WriteCloser, error) {
	m, err := s.create(path)
	if err != nil || !compressed(path) {
		return m, err
	}
	m.plain = true
	return &gzipped{coding.NewGzip(m), m}, nil
}

// compressed reports whether a file's name says that it is compressed itself.
func compressed(path string) bool { return strings.HasSuffix(path, ".gz") }

// gzipped is a compressed member.
type gzipped struct {
	io.WriteCloser
	m *member
}

func (g *gzipped) Close() error {
	if err := g.WriteCloser.Close(); err != nil {
		return err
	}
	return g.m.Close()
}

// begin begins an update that drop of the set ends.
func (s *set) begin(path string) (*update, error) {
	u, err := begin(path)
	if err != nil {
		return nil, err
	}
	if s.is != nil && !s.known[path] {
		is := s.is
		if ext := filepath.Ext(path); ext == ".gz" || ext == ".zst" {
			is = func(head []byte) bool { return s.is(head) || isPacked(head) }
		}
		if err := u.checkReplaceable(is); err != nil {
			u.drop()
			return nil, err
		}
	}
	u.tidy = func() error {
		dir := filepath.Dir(path)
		if s.tidied[dir] { // its temporary files are now of this set
			return nil
		}
		if s.tidied == nil {
			s.tidied = make(map[string]bool)
		}
		s.tidied[dir] = true
		return tidy(dir, s.owns)
	}
	s.updates = append(s.updates, u)
	return u, nil
}

// Write implements io.Writer.
func (m *member) Write(p []byte) (int, error) { return m.w.Write(p) }

// Close completes the file and its siblings.
func (m *member) Close() error {
	if err := m.w.Flush(); err != nil {
		return err
	}
	if _, err := m.u.ready(); err != nil {
		return err
	}
	if !m.s.compress || m.plain {
		return nil
	}
	now := m.u.next
	if now == "" {
		now = m.u.path
	}
	return m.s.siblings(m.u.path, now)
}

// drop removes files that were not put in place. It may be called again.
func (s *set) drop() {
	for _, u := range s.updates {
		u.drop()
	}
}

// commit puts all files in place, and reports whether anything changed. stale are files that would be wrong
// beside the new ones: they are removed first. surplus are files that nothing refers to any more: they are
// removed last.
func (s *set) commit(stale, surplus []string) (wrote bool, err error) {
	defer s.drop()
	dirs := make(map[string]bool)
	remove := func(paths []string) (first error) {
		for _, p := range paths {
			switch err := os.Remove(p); {
			case err == nil:
				dirs[filepath.Dir(p)], wrote = true, true
			case !errors.Is(err, os.ErrNotExist) && first == nil:
				first = err
			}
		}
		return first
	}
	if err := remove(stale); err != nil {
		return wrote, err
	}
	for _, u := range s.updates {
		if u.next == "" {
			continue
		}
		if err := u.place(); err != nil {
			return wrote, err
		}
		dirs[filepath.Dir(u.path)], wrote = true, true
	}
	if err := remove(surplus); err != nil {
		return wrote, err
	}
	for dir := range dirs {
		if err := atomicfile.SyncDir(dir); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// An outputState is the journal's note of an output: if it equals the one that a Write would make now, the
// output is up to date and need not be made.
type outputState struct {
	Revision uint64 `json:"revision"` // of the journal
	Config   string `json:"config"`   // hash of the output's other inputs
	Files    string `json:"files"`    // hash of how its files looked

	// Place is the hash of the paths of the files written.
	Place string `json:"place,omitempty"`

	// Siblings may exist, and are removed once they are not wanted.
	Siblings bool `json:"siblings,omitempty"`
}

// written returns files, those of the output that a describes, as a set if they were written at that place.
func (a outputState) written(place string, files []string) map[string]bool {
	if a.Place != place {
		return nil
	}
	known := make(map[string]bool, len(files))
	for _, f := range files {
		known[f] = true
	}
	return known
}

// isCurrent reports whether a equals now, except for the files.
func (a outputState) isCurrent(now outputState) bool {
	return a.Files != "" && a.Revision == now.Revision && a.Config == now.Config
}

// intend notes files before they are put in place: after a kill, before they are accounted for, the next run
// must find them.
func (a outputState) intend(now outputState, j *server.Journal, key string) error {
	if a.Siblings || !now.Siblings {
		return nil
	}
	return outputState{Siblings: true}.set(j, key)
}

// read reads the outputState under key; an unreadable one is the zero outputState.
func (a *outputState) read(j *server.Journal, key string) {
	if b, err := j.Note(key); err != nil || b == nil || json.Unmarshal(b, a) != nil {
		*a = outputState{}
	}
}

// note stores the outputState. A failure only makes the next run repeat its work.
func (a outputState) note(j *server.Journal, key string, log *slog.Logger) {
	if err := a.set(j, key); err != nil {
		log.Warn("output: could not store its state; the next run repeats its work", "output", key, "err", err)
	}
}

func (a outputState) set(j *server.Journal, key string) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return j.SetNotes(map[string][]byte{key: b})
}

// hashOf hashes the %v form of the values.
func hashOf(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		s := fmt.Sprint(v)
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// fileStamps hashes the metadata of files: it changes with their content, unless somebody hides that. It is empty
// if one is missing.
func fileStamps(paths []string) string {
	h := sha256.New()
	for _, p := range paths {
		info, err := os.Lstat(p)
		if err != nil || !info.Mode().IsRegular() {
			return ""
		}
		fmt.Fprintf(h, "%q %d %d %v\n", p, info.Size(), info.ModTime().UnixNano(), inode(info))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// orDiscard returns l, or a logger that discards.
func orDiscard(l *slog.Logger) *slog.Logger {
	return cmp.Or(l, slog.New(slog.DiscardHandler))
}

// copyTo copies the file at path.
func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
