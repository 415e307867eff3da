package client

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

const (
	spoolPattern = "parley-*.parts"   // names of directories of parts
	spoolAge     = 7 * 24 * time.Hour // after which RemoveParts removes one to which no part was added
	codedSlack   = 4 << 10            // bytes by which a compressed part may be longer than its content
)

// A partSpool stores the parts of one manifest, compressed, in files named by their digests, until all of them are there.
// Below Source.Temp it outlives the process.
type partSpool struct {
	temp, manifest string
	dir            string // empty: not open
	checked        map[protocol.Digest]bool
	body           coding.Body
	zstd           *coding.Packer
	content        []byte // that read returned last
	fetched        int    // requests for parts since the last Step
}

// open makes the directory, and removes from it everything but the parts in need.
func (s *partSpool) open(need []*protocol.Part) (err error) {
	switch {
	case s.dir != "":
	case s.temp == "":
		s.dir, err = os.MkdirTemp("", spoolPattern)
	default:
		s.dir = filepath.Join(s.temp, fmt.Sprintf("parley-%x.parts", sha256.Sum256([]byte(s.manifest))))
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err != nil {
		return err
	}
	if s.checked == nil {
		s.checked = map[protocol.Digest]bool{}
	}
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	named := make(map[string]bool, len(need))
	for _, p := range need {
		named[s.path(p)] = true
	}
	for _, e := range list {
		if path := filepath.Join(s.dir, e.Name()); !named[path] {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// remove removes all parts.
func (s *partSpool) remove() error {
	dir := s.dir
	s.dir, s.checked, s.content = "", nil, nil
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// close removes the parts unless a later process may use them.
func (s *partSpool) close() error {
	if s.temp != "" {
		return nil
	}
	return s.remove()
}

func (s *partSpool) path(p *protocol.Part) string {
	return filepath.Join(s.dir, fmt.Sprintf("%x", p.Digest[:]))
}

// has reports whether a part is stored. The first time it checks the content, and removes the file if it is damaged.
func (s *partSpool) has(p *protocol.Part) bool {
	if s.checked[p.Digest] {
		return true
	}
	b, err := s.read(p)
	if err == nil {
		err = p.Check(b)
	}
	if err != nil {
		s.drop(p)
		return false
	}
	s.checked[p.Digest] = true
	return true
}

// drop removes a part.
func (s *partSpool) drop(p *protocol.Part) {
	delete(s.checked, p.Digest)
	os.Remove(s.path(p)) // what cannot be removed is replaced by the next add
}

// read returns the content of a stored part, or as much of it as shows that it is too long. It is valid until the next read.
func (s *partSpool) read(p *protocol.Part) ([]byte, error) {
	f, err := os.Open(s.path(p))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := coding.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s.content = slices.Grow(s.content[:0], int(p.Length)+1)
	n, err := io.ReadFull(r, s.content[:p.Length+1])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return s.content[:n], err
}

// add stores a part as it was transferred, with this content coding, or compressed if it has none. If the content is not
// that of the part, add stores nothing, and the error wraps protocol.ErrPart.
func (s *partSpool) add(p *protocol.Part, r io.Reader, code string) error {
	b, err := io.ReadAll(io.LimitReader(r, p.Length+codedSlack))
	if err != nil {
		return &url.Error{Op: "Get", URL: p.URL, Err: err}
	}
	if code = strings.ToLower(strings.TrimSpace(code)); code == "" || code == "identity" {
		if err := p.Check(b); err != nil {
			return err
		}
		if s.zstd == nil {
			if s.zstd, err = coding.NewPacker("zstd"); err != nil {
				return err
			}
		}
		b = s.zstd.Append(nil, b)
	} else if err := s.check(p, b, code); err != nil {
		return err
	}
	file := s.path(p)
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	s.checked[p.Digest] = true
	return nil
}

// check is Part.Check of compressed content, which is not in memory as a whole.
func (s *partSpool) check(p *protocol.Part, b []byte, code string) error {
	defer s.body.Close()
	h, n := sha256.New(), int64(0)
	err := s.body.Open(code, b)
	if err == nil {
		n, err = io.Copy(h, io.LimitReader(&s.body, p.Length+1))
	}
	if err == nil && (n != p.Length || !bytes.Equal(h.Sum(nil), p.Digest[:])) {
		err = errors.New("another length or digest")
	}
	if err != nil {
		return fmt.Errorf("part %.200s: %w: %w", p.URL, protocol.ErrPart, err)
	}
	return nil
}
