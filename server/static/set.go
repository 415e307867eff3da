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
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/server"
)

// A set is files that are replaced together: none of them before all are
// ready. So an error leaves them all as they were, and what refers to each
// other is of one age but for the moment that the renames take.
type set struct {
	owns     func(name string) bool // names of files whose killed writers are tidied up after
	compress bool                   // each file gets its siblings
	is       kind                   // what may be replaced; nil for anything
	known    map[string]bool        // files that were written before, and may be anything by now

	updates []*update // in the order in which they are put in place
	files   []string  // all that belong to the set, changed or not
	tidied  map[string]bool
}

// A member is a file of a set while it is being written.
type member struct {
	s *set
	u *update
	w *bufio.Writer

	plain bool // it gets no siblings
}

// create begins a file of the set, which is whole once it is closed.
func (s *set) create(path string) (*member, error) {
	u, err := s.begin(path)
	if err != nil {
		return nil, err
	}
	return &member{s: s, u: u, w: bufio.NewWriterSize(u, 64<<10)}, nil
}

// createNamed is create for a file that is compressed if its name says so.
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

// gzipped is a member that is compressed.
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

// begin begins an update that the set drops.
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
		if err := u.mind(is); err != nil {
			u.drop()
			return nil, err
		}
	}
	u.tidy = func() error {
		dir := filepath.Dir(path)
		if s.tidied[dir] { // what is there now is of this set
			return nil
		}
		if s.tidied == nil {
			s.tidied = make(map[string]bool)
		}
		s.tidied[dir] = true
		return tidy(dir, s.owns)
	}
	s.updates = append(s.updates, u)
	s.files = append(s.files, path)
	return u, nil
}

// Write implements io.Writer.
func (m *member) Write(p []byte) (int, error) { return m.w.Write(p) }

// Close makes the file ready, and its siblings.
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

// drop forgets what was not put in place. It may be called again.
func (s *set) drop() {
	for _, u := range s.updates {
		u.drop()
	}
}

// commit puts all files in place, and reports whether there was anything to
// do. Stale are files that would tell lies beside the new ones: they go first.
// Surplus are those that nothing refers to any more: they go last.
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

// An account is what the journal's file remembers of an output: if it is as it
// would be made now, the output need not be made to know that it would be the
// same.
type account struct {
	Revision uint64 `json:"revision"` // of the journal
	Config   string `json:"config"`   // what else the output depends on, hashed
	Files    string `json:"files"`    // how its files looked, hashed

	// Place is where its files are, hashed: those that it says were written.
	Place string `json:"place,omitempty"`

	// What there may be beside the files that are there by any means: it is
	// taken away once it is not wanted any more.
	Parts     int  `json:"parts,omitempty"`
	GzipParts int  `json:"gzip_parts,omitempty"`
	Siblings  bool `json:"siblings,omitempty"`
}

// written returns those of files, the ones of an output that is as a says, that
// were written, if they were at that place.
func (a account) written(place string, files []string) map[string]bool {
	if a.Place != place {
		return nil
	}
	known := make(map[string]bool, len(files))
	for _, f := range files {
		known[f] = true
	}
	return known
}

// isCurrent reports whether a is the account of what now is to be, files apart.
func (a account) isCurrent(now account) bool {
	return a.Files != "" && a.Revision == now.Revision && a.Config == now.Config
}

// intend notes, before files are put in place, that they may be there: who is
// killed before they are accounted for must find them again.
func (a account) intend(now account, j *server.Journal, key string) error {
	both := account{Parts: max(a.Parts, now.Parts), GzipParts: max(a.GzipParts, now.GzipParts), Siblings: a.Siblings || now.Siblings}
	if both == (account{Parts: a.Parts, GzipParts: a.GzipParts, Siblings: a.Siblings}) {
		return nil
	}
	return both.set(j, key)
}

// read reads what is noted under key; what is not known is the zero account.
func (a *account) read(j *server.Journal, key string) (known bool) {
	b, err := j.Note(key)
	if err == nil && b != nil && json.Unmarshal(b, a) == nil &&
		min(a.Parts, a.GzipParts) >= 0 && max(a.Parts, a.GzipParts) <= sitemap.MaxURLs {
		return true
	}
	*a = account{}
	return false
}

// note notes the account. That it could not be noted makes the next run do
// what was done already, and nothing worse.
func (a account) note(j *server.Journal, key string, log *slog.Logger) {
	if err := a.set(j, key); err != nil {
		log.Warn("output: could not note how it stands", "output", key, "err", err)
	}
}

func (a account) set(j *server.Journal, key string) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return j.SetNotes(map[string][]byte{key: b})
}

// hashOf hashes what %v shows of the values.
func hashOf(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		s := fmt.Sprint(v)
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// looks says how files look from outside: another content shows in it, unless
// somebody hides it. It is empty if one is not there.
func looks(paths []string) string {
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

// orDiscard returns a logger that may be used.
func orDiscard(l *slog.Logger) *slog.Logger {
	return cmp.Or(l, slog.New(slog.DiscardHandler))
}

// copyTo copies what stands at path.
func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
