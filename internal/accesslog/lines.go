package accesslog

import (
	"bytes"
	"errors"
	"io"
)

// bufferSize is the part of a file that is in memory, in bytes.
const bufferSize = 4 * MaxLine

// lines reads a stream by lines, each of bounded length.
type lines struct {
	r          io.Reader
	buf        []byte
	start, end int
	skipping   bool  // the rest of a truncated line is skipped
	err        error // why nothing more can be read
}

func newLines(r io.Reader) *lines { return &lines{r: r, buf: make([]byte, bufferSize)} }

// A lineEnd says how a line ended.
type lineEnd int

const (
	newline  lineEnd = iota
	cut              // it was longer than MaxLine; this is the beginning
	unended          // the stream ended first
	maxEmpty = 100   // empty reads in a row, before that is an error
)

// next returns a line, valid until the next call. At the end of the stream it returns io.EOF, or the error
// that stopped reading.
func (l *lines) next() (line []byte, end lineEnd, err error) {
	for {
		// A log that was truncated in place while the server had it open continues after a hole of zeros.
		for l.start < l.end && l.buf[l.start] == 0 {
			l.start++
		}
		window := l.buf[l.start:l.end]
		i := bytes.IndexByte(window, '\n')
		switch {
		case i >= 0 && l.skipping:
			l.start += i + 1
			l.skipping = false
		case i > MaxLine:
			l.start += i + 1
			return window[:MaxLine], cut, nil
		case i >= 0:
			l.start += i + 1
			return window[:i], newline, nil
		case l.skipping:
			l.start = l.end
			if !l.fill() {
				return nil, 0, l.err
			}
		case len(window) > MaxLine:
			l.start, l.skipping = l.end, true
			return window[:MaxLine], cut, nil
		case !l.fill():
			if window = l.buf[l.start:l.end]; len(window) > 0 {
				l.start = l.end
				return window, unended, nil
			}
			return nil, 0, l.err
		}
	}
}

// fill reads more after the remaining bytes, and reports whether there was more.
func (l *lines) fill() bool {
	l.end = copy(l.buf, l.buf[l.start:l.end])
	l.start = 0
	for range maxEmpty {
		if l.err != nil {
			return false
		}
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 {
			return true
		}
	}
	if l.err == nil {
		l.err = errors.New("repeated reads return neither data nor an error")
	}
	return false
}

// peek returns up to the first n lines without consuming them, as far as they fit in the buffer, and whether
// the stream has no others.
func (l *lines) peek(n int) (list [][]byte, all bool) {
	for l.end < len(l.buf) && bytes.Count(l.buf[l.start:l.end], []byte("\n")) < n && l.fill() {
	}
	rest := l.buf[l.start:l.end]
	for len(list) < n {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			return list, l.err != nil && len(rest) == 0
		}
		list = append(list, line)
		rest = after
	}
	return list, l.err != nil && len(rest) == 0
}
