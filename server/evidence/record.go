package evidence

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A state is what an anonymous GET has shown of a page.
type state byte

// The states of a page. What may be told of it is all but Refused; its bytes
// may leave only when it is Public, and they are those that were shown.
const (
	stateUnknown state = iota // nobody has asked, or there was no answer that says anything
	statePublic               // 200, and the bytes that Shown is the digest of
	stateRefused              // 401, 403 or 451: it is told as gone
	stateAltered              // a redirect, or other bytes than the file's, and not for a moment: its own bytes do not leave
	stateSuspect              // it was public, and is refused, as many are at once: a person is asked, and nothing is told
)

// A record is what is kept of a page.
type record struct {
	State state
	Asked time.Time // when it was asked for last, whatever came of it

	// What was shown, and what before: with 200 to anybody.
	Shown, Before     protocol.Digest
	ShownAt, BeforeAt time.Time

	NoArchive bool // the answer's X-Robots-Tag asks that no copy be kept
}

// show takes in that bytes of this digest were shown.
func (r *record) show(d protocol.Digest, now time.Time) {
	if d != r.Shown && !r.ShownAt.IsZero() {
		r.Before, r.BeforeAt = r.Shown, r.ShownAt
	}
	r.Shown, r.ShownAt = d, now
}

// has reports whether these bytes were shown since a time.
func (r *record) has(d protocol.Digest, since time.Time) bool {
	return d == r.Shown && r.ShownAt.After(since) || d == r.Before && r.BeforeAt.After(since)
}

// wasPublic reports whether the page was ever shown.
func (r *record) wasPublic() bool { return !r.ShownAt.IsZero() }

const (
	recordVersion = 1
	flagNoArchive = 1
)

func (r *record) encode() []byte {
	b := []byte{recordVersion, byte(r.State), 0}
	if r.NoArchive {
		b[2] |= flagNoArchive
	}
	for _, t := range []time.Time{r.Asked, r.ShownAt, r.BeforeAt} {
		ms := uint64(0)
		if !t.IsZero() {
			ms = uint64(max(0, t.UnixMilli()))
		}
		b = binary.AppendUvarint(b, ms)
	}
	if !r.ShownAt.IsZero() {
		b = append(b, r.Shown[:]...)
	}
	if !r.BeforeAt.IsZero() {
		b = append(b, r.Before[:]...)
	}
	return b
}

var errRecord = errors.New("not a record of what was shown of a page")

// parseRecord reads what encode writes.
func parseRecord(b []byte) (r record, err error) {
	if len(b) < 3 || b[0] != recordVersion || state(b[1]) > stateSuspect || b[2] > flagNoArchive {
		return r, errRecord
	}
	r.State, r.NoArchive = state(b[1]), b[2]&flagNoArchive != 0
	b = b[3:]
	for _, t := range []*time.Time{&r.Asked, &r.ShownAt, &r.BeforeAt} {
		ms, n := binary.Uvarint(b)
		if n <= 0 || ms > 1<<52 {
			return record{}, errRecord
		}
		if b = b[n:]; ms > 0 {
			*t = time.UnixMilli(int64(ms))
		}
	}
	for _, d := range []struct {
		is bool
		to *protocol.Digest
	}{{!r.ShownAt.IsZero(), &r.Shown}, {!r.BeforeAt.IsZero(), &r.Before}} {
		if !d.is {
			continue
		}
		if len(b) < len(d.to) {
			return record{}, errRecord
		}
		b = b[copy(d.to[:], b):]
	}
	if len(b) > 0 {
		return record{}, errRecord
	}
	return r, nil
}
