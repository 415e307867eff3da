package client

import (
	"errors"

	"github.com/parleyweb/parley/protocol"
)

// stepBytes is about how many bytes of pages a Step of a bundle or an archive holds.
const stepBytes = 8 << 20

// A pieceError reports that a bundle or an archive could not be read to its end. The door that announced it
// may be fine.
type pieceError struct{ err error }

func (e *pieceError) Error() string { return e.err.Error() }
func (e *pieceError) Unwrap() error { return e.err }

func ofPiece(err error) error {
	if e := new(pieceError); err == nil || err == errStop || errors.As(err, &e) {
		return err
	}
	return &pieceError{err}
}

// A packing splits a bundle or an archive into Steps of bounded size.
type packing struct {
	*position
	s     Step
	bytes int
}

// add appends a change with its page, whose digest was checked, or nil if the page must be fetched. If the
// current Step is full, add emits that first.
func (p *packing) add(c protocol.Change, page []byte) error {
	kept, _, skipped := p.doors.site.local([]protocol.Change{c}, nil)
	if skipped > 0 {
		p.s.Skipped++
		return nil
	}
	if len(p.s.Changes) == protocol.MaxBatch || p.bytes > 0 && p.bytes+len(page) > stepBytes {
		if err := p.emit(p.s); err != nil {
			return err
		}
		p.s, p.bytes = Step{Door: p.s.Door, As: p.s.As, Behind: p.s.Behind}, 0
	}
	if c = kept[0]; c.Op == protocol.Delete { // of a page that moved to another origin
		page = nil
	}
	if page != nil && p.s.Bodies == nil {
		p.s.Bodies = make([][]byte, len(p.s.Changes), len(p.s.Changes)+1)
	}
	p.s.Changes = append(p.s.Changes, c)
	if p.s.Bodies != nil {
		p.s.Bodies = append(p.s.Bodies, page)
	}
	p.bytes += len(page)
	return nil
}

// end emits the last Step, which moves the cursor. Only now does the door count as working: a bundle or
// archive that fails earlier is read again from its beginning.
func (p *packing) end(to protocol.Cursor, whole bool) error {
	p.s.Cursor, p.s.Whole = to, whole
	p.cursor, p.doors.pieces = to, 0
	p.went(p.s.Door)
	return p.emit(p.s)
}
