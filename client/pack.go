package client

import (
	"errors"

	"github.com/parleyweb/parley/protocol"
)

// stepBytes is how many bytes of pages a Step brings of a bundle or an archive, about.
const stepBytes = 8 << 20

// A pieceError is that what a site tells in one piece, a bundle or an archive, is not to
// be had whole. The door that told of it may be as good as ever.
type pieceError struct{ err error }

func (e *pieceError) Error() string { return e.err.Error() }
func (e *pieceError) Unwrap() error { return e.err }

func ofPiece(err error) error {
	if e := new(pieceError); err == nil || err == errStop || errors.As(err, &e) {
		return err
	}
	return &pieceError{err}
}

// A packing makes Steps of bounded size out of what comes in one piece.
type packing struct {
	f     *follower
	s     Step
	bytes int
}

// add takes in a change with its page, whose digest was checked, nil if that is to be asked for, and
// emits the Step before it if that is full.
func (p *packing) add(c protocol.Change, page []byte) error {
	kept, _, skipped := local(p.f.base, []protocol.Change{c}, nil)
	if skipped > 0 {
		p.s.Skipped++
		return nil
	}
	if len(p.s.Changes) == protocol.MaxBatch || p.bytes > 0 && p.bytes+len(page) > stepBytes {
		if err := p.f.emit(p.s); err != nil {
			return err
		}
		p.s, p.bytes = Step{Door: p.s.Door, As: p.s.As, Behind: p.s.Behind}, 0
	}
	if c = kept[0]; page != nil && (int64(len(page)) > p.f.maxPage || c.Op == protocol.Delete) {
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

// end emits the last Step, with which the caller stands at a cursor. Only now has the
// door given something: what breaks before is told again from its beginning.
func (p *packing) end(to protocol.Cursor, whole bool) error {
	p.s.Cursor, p.s.Whole = to, whole
	p.f.cursor, p.f.pieces = to, 0
	p.f.went(p.s.Door)
	return p.f.emit(p.s)
}
