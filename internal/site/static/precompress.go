package static

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/server"
)

// Siblings are compressed copies of a file beside it, for web servers that send them as they are: FILE.gz
// (gzip_static of nginx) and FILE.zst. Such a server checks neither a sibling's age nor its content. So
// siblings are put in place just before their file: in between, clients that accept compression get the newer
// content, never the older; a kill in between leaves correct siblings, and a file that the next run replaces.
// A sibling has the mode and the mtime of its file, so that both have the same Last-Modified.
var siblingCodings = [...]struct {
	ext string
	new func(io.Writer) io.WriteCloser
}{
	{".gz", coding.NewGzip},
	{".zst", coding.NewZstd},
}

// withSiblings returns paths, and the siblings of each before it.
func withSiblings(paths ...string) (all []string) {
	for _, p := range paths {
		all = append(all, siblingsOf(p)...)
		all = append(all, p)
	}
	return all
}

func siblingsOf(path string) (siblings []string) {
	for _, c := range siblingCodings {
		siblings = append(siblings, path+c.ext)
	}
	return siblings
}

// siblings makes the siblings of a member of the set, whose new content is in the file now. They are put in
// place before the member.
func (s *set) siblings(path, now string) error {
	info, err := os.Stat(now)
	if err != nil {
		return err
	}
	last := len(s.updates) - 1 // index of the member
	for _, c := range siblingCodings {
		u, err := s.begin(path + c.ext)
		if err != nil {
			return err
		}
		u.like = info
		z := c.new(u)
		if err := copyTo(z, now); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if _, err := u.ready(); err != nil {
			return err
		}
	}
	s.updates = append(append(s.updates[:last:last], s.updates[last+1:]...), s.updates[last])
	return nil
}

// Compressed maintains the compressed siblings FILE.gz and FILE.zst of a file that another output writes,
// such as the manifest. It comes after that output in Publisher.Outputs.
//
// The file is replaced before its siblings can be. So outdated siblings are removed first, and the web server
// compresses the file itself, or sends it as it is, until the new ones are in place.
//
// Its methods are not safe for concurrent use.
type Compressed struct {
	Path string // the file

	// Unless is a directory. While it exists the file is an index of parts, which is short, changes with every
	// page, and has no siblings.
	Unless string

	// Off removes the siblings that were written, and writes none.
	Off bool

	Log *slog.Logger
}

var _ server.Output = (*Compressed)(nil)

// Own returns the files that it writes.
func (c *Compressed) Own() []string { return siblingsOf(c.Path) }

// String names the output in messages.
func (c *Compressed) String() string { return "compressed " + filepath.Base(c.Path) }

// Write implements [server.Output]. Without the file it writes nothing.
func (c *Compressed) Write(ctx context.Context, j *server.Journal) (bool, error) {
	key := "output/compressed/" + hashOf(c.Path)
	var was outputState
	was.read(j, key)
	s := &set{owns: c.owns}
	defer s.drop()
	if info, err := os.Stat(c.Unless); c.Off || err == nil && info.IsDir() {
		if !was.Siblings {
			return false, nil
		}
		wrote, err := s.commit(siblingsOf(c.Path), nil)
		if err == nil {
			outputState{}.note(j, key, orDiscard(c.Log))
		}
		return wrote, err
	}
	files := withSiblings(c.Path)
	if was.Siblings && was.Files != "" && was.Files == fileStamps(files) {
		return false, nil
	}
	info, err := os.Stat(c.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if !was.Siblings {
			return false, nil
		}
		return s.commit(siblingsOf(c.Path), nil)
	case err != nil:
		return false, err
	}
	if was.Files == "" {
		if err := checkAllReplaceable(siblingsOf(c.Path), isPacked); err != nil {
			return false, err
		}
	}
	if err := was.intend(outputState{Siblings: true}, j, key); err != nil {
		return false, err
	}
	var old []string
	for _, p := range siblingsOf(c.Path) {
		if i, err := os.Stat(p); err == nil && !i.ModTime().Equal(info.ModTime()) {
			old = append(old, p)
		}
	}
	gone, err := (&set{}).commit(old, nil)
	if err != nil {
		return gone, err
	}
	if err := ctx.Err(); err != nil {
		return gone, err
	}
	wrote, err := c.renew(s)
	if err == nil {
		outputState{Siblings: true, Files: fileStamps(files)}.note(j, key, orDiscard(c.Log))
	}
	return wrote || gone, err
}

// renew writes the siblings.
func (c *Compressed) renew(s *set) (bool, error) {
	u, err := begin(c.Path) // only to detect a change meanwhile
	if err != nil {
		return false, err
	}
	defer u.drop()
	s.updates = append(s.updates, u)
	if err := s.siblings(c.Path, c.Path); err != nil {
		return false, err
	}
	if now, err := os.Stat(c.Path); err != nil || !os.SameFile(now, u.was) || !now.ModTime().Equal(u.was.ModTime()) {
		return false, errors.New("it was replaced meanwhile: the next run compresses it")
	}
	return s.commit(nil, nil)
}

func (c *Compressed) owns(name string) bool {
	for _, p := range siblingsOf(c.Path) {
		if name == filepath.Base(p) {
			return true
		}
	}
	return false
}
