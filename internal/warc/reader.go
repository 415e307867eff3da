package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/parleyweb/parley/internal/coding"
)

// A Damage says that no record could be read where one should begin, or that the record before it does not
// end as it should. Reading can continue: the next Next searches for the following record.
type Damage struct {
	Offset int64 // of the record that could not be read
	Err    error // what is malformed, io.ErrUnexpectedEOF, or the decoder's error
}

func (d *Damage) Error() string {
	return fmt.Sprintf("read record at %d: %v", d.Offset, d.Err)
}

func (d *Damage) Unwrap() error { return d.Err }

// maxBlock bounds the block of a record, in bytes, since compressed data can claim any size and expand to it.
const maxBlock = 4 << 30

// maxDiscard is the maximum number of bytes skipped in one call.
const maxDiscard = 1 << 30

// maxDamages bounds how often a Reader searches for the next record.
const maxDamages = 10_000

// A Reader reads the records of a file one after the other, plain or compressed, in memory that does not
// depend on their size. It is not safe for concurrent use.
type Reader struct {
	src     io.Reader
	members *coding.Members
	in      *bufio.Reader // of the current piece, decoded
	fresh   bool          // no piece has begun
	at      int64         // where the current record begins
	left    int64         // bytes left of its block; -1 before the first record
	lost    bool          // the next record must be searched for
	damages int
	err     error
	head    []byte
	body    blockReader
}

// NewReader returns a Reader of a whole file, or of a part that begins with a record. If src is an io.Seeker,
// it must be positioned at its beginning, and reading can continue after a Damage; else io.EOF follows it.
func NewReader(src io.Reader) *Reader {
	r := &Reader{src: src, members: coding.NewMembers(src), left: -1, fresh: true}
	r.in = bufio.NewReaderSize(r.members, 16<<10)
	r.body.r = r
	return r
}

// Close frees the decoders. It does not close the source.
func (r *Reader) Close() { r.members.Close() }

// offset returns where the next record begins, once the body of the current one has been read, or Skip has
// been called.
func (r *Reader) offset() int64 {
	if r.members.Plain() {
		return r.members.Offset() - int64(r.in.Buffered())
	}
	return r.members.Offset()
}

// Next advances to the next record. It returns io.EOF after the last, and a *Damage if no record can be read.
// Any other error is final.
func (r *Reader) Next() (*Record, error) {
	if r.err != nil {
		return nil, r.err
	}
	rec, err := r.next()
	switch {
	case err == nil:
		return rec, nil
	case err == io.EOF:
		r.err = err
		return nil, err
	}
	d := &Damage{Offset: r.at, Err: err}
	r.lost = true
	if r.damages++; r.damages > maxDamages {
		r.err = fmt.Errorf("read archive: stopped after %d damaged places: %w", maxDamages, d)
		return nil, r.err
	}
	return nil, d
}

// Skip skips the rest of the current record and checks its end. Next does so by itself.
func (r *Reader) Skip() error {
	if r.left < 0 || r.lost {
		return nil
	}
	for r.left > 0 {
		n, err := r.in.Discard(int(min(r.left, maxDiscard)))
		if r.left -= int64(n); err != nil {
			return whole(err)
		}
	}
	r.left = -1
	end, err := r.in.Peek(4)
	if err != nil && !(err == io.EOF && len(end) == 0 && !r.members.Plain()) {
		return whole(err)
	}
	if string(end) == "\r\n\r\n" {
		r.in.Discard(4)
	} else {
		return malformed("block is followed by %q", end)
	}
	if !r.members.Plain() {
		// Only at the end of the piece does the decoder check its sum, and can the next one be found.
		if _, err := r.in.Peek(1); err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// alone reports whether a skipped record is the last in its piece. Damaged bits of a piece may look like
// another record.
func (r *Reader) alone() bool {
	if r.members.Plain() {
		return true
	}
	_, err := r.in.Peek(1)
	return err == io.EOF
}

// whole makes io.EOF within a record io.ErrUnexpectedEOF.
func whole(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *Reader) next() (*Record, error) {
	if r.lost {
		if err := r.find(); err != nil {
			return nil, err
		}
	} else if err := r.Skip(); err != nil {
		return nil, err
	}
	r.lost = false
	if err := r.begin(); err != nil {
		return nil, err
	}
	head, err := readLines(r.in, r.head[:0], maxHeader)
	r.head = head[:0]
	if err != nil {
		return nil, err
	}
	rec, err := parseHeader(head)
	if err != nil {
		return nil, err
	}
	if rec.Size > maxBlock {
		return nil, malformed("block of %d bytes, more than %d", rec.Size, int64(maxBlock))
	}
	rec.Offset, r.left = r.at, rec.Size
	rec.Body = &r.body
	return rec, nil
}

// begin makes sure that the current piece has something to read.
func (r *Reader) begin() error {
	for {
		if !r.fresh {
			if r.members.Plain() {
				r.at = r.offset()
			}
			b, err := r.in.Peek(1)
			if len(b) > 0 {
				return nil // another record in the same piece
			}
			if err != io.EOF {
				return err
			}
		}
		r.at = r.members.Offset()
		if err := r.members.Next(); err != nil {
			return err
		}
		r.fresh = false
		r.in.Reset(r.members)
		if b, err := r.in.Peek(1); len(b) == 0 && err != io.EOF {
			return err // an empty piece is skipped
		}
	}
}

// find searches for the next position at which a record may begin, after the unreadable one.
func (r *Reader) find() error {
	r.left = -1
	s, ok := r.src.(io.Seeker)
	if !ok {
		return io.EOF
	}
	from := r.at + 1
	if _, err := s.Seek(from, io.SeekStart); err != nil {
		return err
	}
	at, err := seekStart(bufio.NewReaderSize(r.src, 64<<10), from)
	if err != nil {
		return err
	}
	if _, err := s.Seek(at, io.SeekStart); err != nil {
		return err
	}
	r.members.Reset(r.src, at)
	r.fresh, r.at = true, at
	return nil
}

// starts are the bytes with which a record can begin.
var starts = [][]byte{[]byte("WARC/1."), {0x1f, 0x8b, 8}, {0x28, 0xb5, 0x2f, 0xfd}}

// seekStart reads up to the next possible start of a record, and returns its position.
func seekStart(br *bufio.Reader, from int64) (int64, error) {
	for {
		b, err := br.Peek(max(br.Buffered(), 16))
		if len(b) == 0 {
			return from, err
		}
		best := -1
		for _, s := range starts {
			if i := bytes.Index(b, s); i >= 0 && (best < 0 || i < best) {
				best = i
			}
		}
		if best >= 0 {
			br.Discard(best)
			return from + int64(best), nil
		}
		n := len(b) - 6 // one may begin in the last bytes
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return from, err
			}
			n = len(b)
		}
		br.Discard(n)
		from += int64(n)
	}
}

// blockReader reads the block of the current record.
type blockReader struct{ r *Reader }

func (b *blockReader) Read(p []byte) (int, error) {
	r := b.r
	if r.left <= 0 || r.lost {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.in.Read(p)
	r.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
