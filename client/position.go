package client

import (
	"errors"
	"fmt"

	"github.com/parleyweb/parley/protocol"
)

// A position is how far the caller has come. Every Step and every error reaches the caller through it.
type position struct {
	doors     *doors
	cursor    protocol.Cursor
	head      protocol.Cursor // the site's head, as last stated
	resync    bool            // a snapshot is needed before anything else
	noArchive bool            // that snapshot is not available as an archive
	doubtful  bool            // a snapshot is needed at the next news, and until then only the manifest is read: see Source.Doubtful
	told      Door            // of the last Step; empty: none since the cursor was stored, or the door failed
	yield     func(Step, error) bool
}

// noDoor is in the place of the door of the last Step until there is one, for a caller who waits for the first changes only.
const noDoor Door = "none"

// errStop carries the caller's break up from nested calls.
var errStop = errors.New("the caller has stopped")

// at returns the cursor of the next request: zero if a snapshot is needed.
func (p *position) at() protocol.Cursor {
	if p.resync {
		return protocol.Cursor{}
	}
	return p.cursor
}

// continues refuses a watermark that does not continue the caller's cursor.
func (p *position) continues(to protocol.Cursor) error {
	if to.Epoch != p.cursor.Epoch || to.Seq < p.cursor.Seq {
		return fmt.Errorf("watermark %v does not continue %v", to, p.cursor)
	}
	return nil
}

func behind(c, than protocol.Cursor) bool { return c.Epoch == than.Epoch && c.Seq < than.Seq }

// went records that a door delivered something.
func (p *position) went(door Door) {
	p.doors.went(door)
	p.standsOn(door)
}

// standsOn logs which door is in use, if that has changed or an error was reported since.
func (p *position) standsOn(door Door) {
	if p.doors.stands != door || p.told == "" {
		p.doors.stands = door
		p.doors.log.Info("connected", "door", string(door), "cursor", p.cursor.String())
	}
}

// renewed records that the site was read as a whole, so that no snapshot is needed. After a snapshot at a
// site with a stream or changes door, the failure count is kept until one of those delivers something.
func (p *position) renewed() {
	if !p.resync || p.cursor.IsZero() || p.doors.best(exists) == Manifest {
		p.went(Manifest)
	}
	p.resync, p.noArchive = false, false
}

func (p *position) emit(s Step) error {
	p.told, s.Discovery, s.Doubtful = s.Door, p.doors.site.discovery, p.doubtful
	if !p.yield(s, nil) {
		return errStop
	}
	return nil
}

func (p *position) report(err error) error {
	p.told = ""
	if !p.yield(Step{}, err) {
		return errStop
	}
	return nil
}

// mended emits a Step without changes at first, after a failure, and when the door is another one, so that the caller learns
// that the door works though nothing is new.
func (p *position) mended(door Door, as protocol.Form) error {
	if p.told == door || p.told == noDoor {
		return nil
	}
	return p.emit(Step{Cursor: p.cursor, Door: door, As: as, Behind: behind(p.cursor, p.head)})
}
