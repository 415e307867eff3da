package accesslog

import (
	"io"
	"os"

	"github.com/parleyweb/parley/internal/coding"
)

// A stream has the lines of a stored file, or of standard input. A file stays open until close, so that this
// very file is read, even if it is rotated meanwhile.
type stream struct {
	f        *os.File // nil for standard input
	in       io.Reader
	progress func(int64) // may be nil
	decoder  io.Closer
	lines    *lines // nil unless it was started
}

// of reports whether the stream is of a file.
func (s *stream) of(info os.FileInfo) bool {
	if s.f == nil {
		return false
	}
	own, err := s.f.Stat()
	return err == nil && os.SameFile(own, info)
}

// start begins to read up to size bytes as stored, or goes on. A size of less than 0 means all.
func (s *stream) start(size int64, progress func(int64)) error {
	s.progress = progress
	if s.lines != nil {
		return nil
	}
	var in io.Reader = s
	if size >= 0 {
		in = io.LimitReader(s, size) // lines written while we read belong to the next report
	}
	decoder, err := coding.NewReader(in)
	if err != nil {
		return err
	}
	s.decoder, s.lines = decoder, newLines(decoder)
	return nil
}

// Read reads what is stored, and reports the progress.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if n > 0 && s.progress != nil {
		s.progress(int64(n))
	}
	return n, err
}

// stop frees what reading needs.
func (s *stream) stop() {
	if s.decoder != nil {
		s.decoder.Close()
	}
	s.decoder, s.lines = nil, nil
}

func (s *stream) close() {
	s.stop()
	if s.f != nil {
		s.f.Close()
	}
}
