package xmlpull

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	bufferSize = 64 << 10 // initial; it grows only for a tag that is longer
	emptyReads = 100      // in a row, before giving up on the reader below
)

// An input is a window on the document: buf[pos:end] is read and not yet consumed. It knows what a document may
// contain, and makes the errors that say where it does not.
type input struct {
	src     io.Reader
	lim     Limits
	ascii   bool // the document is declared as US-ASCII
	buf     []byte
	pos     int
	end     int
	base    int64 // bytes of the document before buf
	lines   int   // line feeds in them
	left    int64 // bytes that may still be read
	readErr error // final, from src
}

// window returns the bytes that are read and not yet consumed.
func (in *input) window() []byte { return in.buf[in.pos:in.end] }

// half reports whether the window is so full that text should be returned before more is read. It keeps fill
// from moving and growing much.
func (in *input) half() bool { return in.end-in.pos > len(in.buf)/2 }

// fill reads more into the window, and may move it: slices of it become invalid. It returns false at the end
// or on an error, which is in readErr.
func (in *input) fill() bool {
	if in.readErr != nil {
		return false
	}
	if in.end == len(in.buf) {
		to := in.buf
		if in.half() {
			to = make([]byte, 2*len(in.buf))
		}
		in.base += int64(in.pos)
		in.lines += bytes.Count(in.buf[:in.pos], []byte{'\n'})
		in.end = copy(to, in.buf[in.pos:in.end])
		in.pos = 0
		in.buf = to
	}
	for range emptyReads {
		n, err := in.src.Read(in.buf[in.end:])
		if n < 0 || n > len(in.buf)-in.end {
			in.readErr = errors.New("reader returned an impossible count")
			return false
		}
		if int64(n) > in.left {
			// Bytes within the limit are still read, the rest never.
			err = fmt.Errorf("document too long: %w", ErrLimit)
			n = int(in.left)
		}
		in.end += n
		in.left -= int64(n)
		in.readErr = err
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	in.readErr = io.ErrNoProgress
	return false
}

// need fills the window to n bytes, and reports whether they are there.
func (in *input) need(n int) bool {
	for in.end-in.pos < n {
		if !in.fill() {
			return false
		}
	}
	return true
}

// follows reports whether s comes next, reading no further than it must.
func (in *input) follows(s string) bool {
	for i := range len(s) {
		if !in.need(i+1) || in.buf[in.pos+i] != s[i] {
			return false
		}
	}
	return true
}

// partly reports whether the document ends within s.
func (in *input) partly(s string) bool {
	return in.readErr != nil && strings.HasPrefix(s, string(in.window()))
}

// until fills the window until it has one of chars at i or later, and returns the position. That must be within the
// limit of a tag. where is for the error if the document ends first.
func (in *input) until(i int, chars, where string) (int, error) {
	for {
		b := in.window()
		if i < len(b) {
			if j := bytes.IndexAny(b[i:], chars); j >= 0 {
				return i + j, nil
			}
			i = len(b)
		}
		if len(b) > in.lim.Tag {
			return 0, in.overTag()
		}
		if !in.fill() {
			return 0, in.ended(where)
		}
	}
}

// piece consumes and returns the next part of a section that ends with term, which is consumed too with the
// last part. A part never ends within a character or after a carriage return that is not the last byte. ok is
// false if the document ends first.
func (in *input) piece(term string) (p []byte, last, ok bool) {
	from := 0
	for {
		b := in.window()
		if i := bytes.Index(b[from:], []byte(term)); i >= 0 {
			p = b[:from+i]
			in.pos += len(p) + len(term)
			return p, true, true
		}
		from = max(0, len(b)-len(term)+1)
		if in.half() {
			p = whole(b[:from])
			in.pos += len(p)
			return p, false, true
		}
		if !in.fill() {
			return nil, false, false
		}
	}
}

// offset returns the number of bytes consumed.
func (in *input) offset() int64 { return in.base + int64(in.pos) }

// line returns the current line, from 1. It counts line feeds from the beginning of the buffer.
func (in *input) line() int { return in.lines + bytes.Count(in.buf[:in.pos], []byte{'\n'}) + 1 }
