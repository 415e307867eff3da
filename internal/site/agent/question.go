package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
)

// absent is the length that marks a page as not available.
const absent = math.MaxUint32

// question encodes the question to a program. A nil page is not available.
func question(c *protocol.Change, page, before []byte) []byte {
	m := protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: "agent", Seq: c.Seq}, Changes: []protocol.Change{*c}}
	text := m.Encode()
	q := make([]byte, 0, 12+len(text)+len(page)+len(before))
	for _, part := range [][]byte{text, page, before} {
		if part == nil || len(part) > maxPage {
			q = binary.LittleEndian.AppendUint32(q, absent)
			continue
		}
		q = binary.LittleEndian.AppendUint32(q, uint32(len(part)))
		q = append(q, part...)
	}
	return q
}

func verdict(answer []byte) (caller.Verdict, error) {
	switch {
	case len(answer) == 0:
		return caller.Verdict{}, errors.New("its answer is empty: want 0 or 1 in the first byte")
	case answer[0] > 1:
		return caller.Verdict{}, fmt.Errorf("its answer begins with %d: want 0 or 1", answer[0])
	}
	v := caller.Verdict{Tell: answer[0] == 1}
	if len(answer) > 1 {
		v.Output = answer[1:]
	}
	return v, nil
}
