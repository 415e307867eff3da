package index

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
)

// A reader reads an index from its beginning to its end, and rejects a malformed one. It holds one name and
// one block at a time, whatever the file contains.
type reader struct {
	r    *bufio.Reader
	sum  hash.Hash32
	at   uint64
	name []byte // the last one
	w    writer // its counts and offsets of what was read, as a writer would have them

	term string
	left bool // the postings of term are still to be read
}

var errFormat = errors.New("not an index, or damaged")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFormat, fmt.Sprintf(format, args...))
}

func newReader(from io.Reader) (*reader, error) {
	r := &reader{r: bufio.NewReaderSize(from, 64<<10), sum: crc32.NewIEEE()}
	head, err := r.bytes(len(magic))
	if err != nil {
		return nil, err
	}
	if string(head) != magic {
		return nil, malformed("begins with %q", head)
	}
	return r, nil
}

// bytes reads n bytes, which are valid until the next call. n is small.
func (r *reader) bytes(n int) ([]byte, error) {
	b := make([]byte, n)
	m, err := io.ReadFull(r.r, b)
	r.sum.Write(b[:m])
	r.at += uint64(m)
	return b, cutShort(err)
}

// cutShort returns err, or the error of a file that ends too early.
func cutShort(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return malformed("truncated")
	}
	return err
}

// ReadByte implements io.ByteReader, for binary.ReadUvarint.
func (r *reader) ReadByte() (byte, error) {
	b, err := r.r.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
		r.at++
	}
	return b, err
}

// number reads a number of at most max, in its shortest form.
func (r *reader) number(max uint64) (uint64, error) {
	before := r.at
	v, err := binary.ReadUvarint(r)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return 0, malformed("truncated")
	case err != nil && r.at-before >= binary.MaxVarintLen64: // binary has no name for this error
		return 0, malformed("number too large")
	case err != nil:
		return 0, err
	case v > max || r.at-before != uint64(len(binary.AppendUvarint(nil, v))):
		return 0, malformed("number %d is above %d or not in its shortest form", v, max)
	}
	return v, nil
}

// next reads a name; n is the number of names before.
func (r *reader) next(n uint64, max int) error {
	shared, err := r.number(uint64(len(r.name)))
	if err != nil {
		return err
	}
	size, err := r.number(uint64(max) - min(shared, uint64(max)))
	if err != nil {
		return err
	}
	rest, err := r.bytes(int(size))
	switch {
	case err != nil:
		return err
	case n%every == 0 && shared != 0:
		return malformed("name %d begins a group, but shares bytes with the name before", n)
	case n == 0:
		if size == 0 {
			return malformed("empty name")
		}
	case n%every == 0: // may share bytes, and must be greater
		if string(rest) <= string(r.name) {
			return malformed("%q is out of order after %q", rest, r.name)
		}
	case size == 0 || shared < uint64(len(r.name)) && rest[0] <= r.name[shared]:
		return malformed("%q is out of order after %d bytes of %q", rest, shared, r.name)
	}
	r.name = append(r.name[:shared], rest...)
	return nil
}

// doc reads the next document. At the end of the documents ok is false, and
// the terms follow.
func (r *reader) doc() (d Doc, ok bool, err error) {
	at := r.at
	kind, err := r.ReadByte()
	if err != nil || kind > 2 {
		return d, false, errors.Join(cutShort(err), badKind(kind))
	}
	if kind == 0 {
		r.name = r.name[:0]
		return d, false, nil
	}
	if r.w.docs%every == 0 {
		r.w.docsAt = binary.LittleEndian.AppendUint64(r.w.docsAt, at)
	}
	if err := r.next(r.w.docs, maxURL); err != nil {
		return d, false, err
	}
	d.URL, d.Gone = string(r.name), kind == 2
	if d.Gone {
		r.w.gone++
	} else {
		sum, err := r.bytes(len(d.Digest))
		if err != nil {
			return d, false, err
		}
		copy(d.Digest[:], sum)
		if d.Words, err = r.number(1 << 48); err != nil {
			return d, false, err
		}
		r.w.words += d.Words
	}
	if r.w.docs++; r.w.docs > mostDocs {
		return d, false, errTooMany
	}
	return d, true, nil
}

func badKind(kind byte) error {
	if kind > 2 {
		return malformed("unknown entry kind %d", kind)
	}
	return nil
}

// nextTerm reads the next term; it skips unread postings of the one before. At the end ok is false, and the
// end of the file is verified.
func (r *reader) nextTerm() (ok bool, err error) {
	if r.left {
		for _, err := range r.postings() {
			if err != nil {
				return false, err
			}
		}
	}
	at := r.at
	kind, err := r.ReadByte()
	if err != nil || kind > 1 {
		return false, errors.Join(cutShort(err), badKind(max(kind, 3)))
	}
	if kind == 0 {
		return false, r.end()
	}
	if r.w.terms%every == 0 {
		r.w.termsAt = binary.LittleEndian.AppendUint64(r.w.termsAt, at)
	}
	if err := r.next(r.w.terms, maxTerm); err != nil {
		return false, err
	}
	r.w.terms++
	r.term, r.left = string(r.name), true
	return true, nil
}

// postings yields the postings of the term, once.
func (r *reader) postings() iter.Seq2[posting, error] {
	return func(yield func(posting, error) bool) {
		r.left = false
		next := uint64(0)
		for full := true; ; {
			n, err := r.number(fullBlock)
			if err == nil && (n > 0 && !full || n == 0 && next == 0) {
				err = malformed("unexpected block of %d postings", n)
			}
			if err != nil {
				yield(posting{}, err)
				return
			}
			if n == 0 {
				return
			}
			full = n == fullBlock
			size, err := r.number(n * mostPosting)
			begun := r.at
			for i := uint64(0); err == nil && i < n; i++ {
				var p posting
				if p, next, err = r.posting(next); err == nil && i == n-1 && r.at-begun != size {
					err = malformed("block of %d bytes by its header has %d", size, r.at-begun)
				}
				if err == nil && !yield(p, nil) {
					return // nothing more is read of this index
				}
			}
			if err != nil {
				yield(posting{}, err)
				return
			}
		}
	}
}

// posting reads a posting; next is the lowest number that its document may have.
func (r *reader) posting(next uint64) (posting, uint64, error) {
	skip, err := r.number(mostDocs)
	if err != nil {
		return posting{}, 0, err
	}
	n, err := r.number(1<<32 - 1)
	if err != nil {
		return posting{}, 0, err
	}
	doc := next + skip
	if doc >= r.w.docs || n == 0 {
		return posting{}, 0, malformed("invalid posting: count %d, document %d of %d", n, doc, r.w.docs)
	}
	return posting{uint32(doc), uint32(n)}, doc + 1, nil
}

// end compares the end of the file with the values that were read.
func (r *reader) end() error {
	docsAt := r.at
	for _, places := range [][]byte{r.w.docsAt, r.w.termsAt} {
		for ; len(places) > 0; places = places[8:] {
			b, err := r.bytes(8)
			if err != nil {
				return err
			}
			if string(b) != string(places[:8]) {
				return malformed("wrong offset")
			}
		}
	}
	for _, want := range []uint64{r.w.docs, r.w.gone, r.w.words, r.w.terms, docsAt, docsAt + uint64(len(r.w.docsAt))} {
		b, err := r.bytes(8)
		if err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint64(b); got != want {
			return malformed("trailer says %d instead of %d", got, want)
		}
	}
	sum := uint64(r.sum.Sum32())
	b, err := r.bytes(8)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(b) != sum {
		return malformed("wrong checksum")
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return errors.Join(err, malformed("data after the trailer"))
	}
	return nil
}
