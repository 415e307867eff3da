package client

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

const (
	longPoll   = 30 * time.Second // how long the site may hold a request open
	emptyPace  = 5 * time.Second  // between empty answers, where the site does not hold the request
	smallPace  = time.Second      // after an answer with fewer changes than manyAtOnce
	manyAtOnce = 100              // an answer with so many means that we are catching up
	someAtOnce = 5                // the same, where the site states that it has more
	catchPace  = 100 * time.Millisecond
)

// changes requests the changes after the cursor once.
func (d *messageDoor) changes(ctx context.Context) error {
	w, wait, door := d.want, longPoll, d.doors.state(Changes).url
	if w.src.AskEvery > 0 {
		wait = 0
	}
	as := w.form()
	u, err := w.selecting(as, door, "after", d.at().String(), "wait", strconv.Itoa(int(wait/time.Second)))
	if err != nil {
		return err
	}
	asked := time.Now()
	text, err := w.getJSON(ctx, u, wait+stall, protocol.MaxMessage)
	if err != nil {
		return cursorError(err, door)
	}
	m, err := protocol.ParseMessage(text)
	if err != nil {
		return err
	}
	told := m.N
	switch m.Kind {
	case protocol.Batch:
		told = len(m.Changes)
	case protocol.Bundle, protocol.Archive:
	default:
		return fmt.Errorf("response is a %.20q message, which carries no changes", m.Kind)
	}
	if err := d.take(ctx, Changes, as, &m); err != nil {
		return err
	}
	pace := w.hurried(catchPace)
	switch more := behind(m.To, m.Head); {
	case more && told >= someAtOnce: // the answer was full, or took the site long
	case more:
		pace = w.hurried(smallPace)
	case w.src.AskEvery > 0 && told < manyAtOnce:
		pace = w.src.AskEvery
	case m.To == m.From:
		return pause.Sleep(ctx, min(w.hurried(emptyPace), longPoll-time.Since(asked)))
	case as == protocol.AsBatch && w.src.BundleEvery > 0: // on this door the bundle interval is ours to keep
		pace = w.src.BundleEvery
	case told < manyAtOnce:
		pace = w.hurried(smallPace)
	}
	return pause.Sleep(ctx, pace-time.Since(asked))
}
