package evidence

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A state is the conclusion from the anonymous GETs of a page.
type state byte

// The states of a page. A page is announced in any state but Refused; its bytes are
// sent only if it is Public, and they are those that a GET has shown.
const (
	stateUnknown state = iota // not fetched yet, or no response that proves anything
	statePublic               // 200, with the bytes whose digest is Shown
	stateRefused              // 401, 403 or 451: announced as deleted
	stateAltered              // a redirect, or bytes that stay different from the file's: the file's bytes are not sent
	stateSuspect              // was public, now refused, perhaps with many others: undecided, and nothing is announced
)

// A record is the stored evidence for a page.
type record struct {
	State state
	Asked time.Time // the last request, whatever its result

	// The digests of the last 200 response, and of the last one with other bytes.
	Shown, Before     protocol.Digest
	ShownAt, BeforeAt time.Time

	NoArchive bool // the response's X-Robots-Tag asks that no copy be kept
}

// show records that bytes of this digest were shown.
func (r *record) show(d protocol.Digest, now time.Time) {
	if d != r.Shown && !r.ShownAt.IsZero() {
		r.Before, r.BeforeAt = r.Shown, r.ShownAt
	}
	r.Shown, r.ShownAt = d, now
}

// when returns when bytes of digest d were shown, the zero time if they were not.
func (r *record) when(d protocol.Digest) time.Time {
	switch d {
	case r.Shown:
		return r.ShownAt
	case r.Before:
		return r.BeforeAt
	}
	return time.Time{}
}

// has reports whether bytes of digest d were shown after since.
func (r *record) has(d protocol.Digest, since time.Time) bool { return r.when(d).After(since) }

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

var errRecord = errors.New("invalid evidence record")

// parseRecord parses the output of encode.
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
