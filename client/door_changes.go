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

// takeChanges requests the changes after the cursor once.
func (f *follower) takeChanges(ctx context.Context) error {
	as := f.form()
	wait := longPoll
	if f.src.AskEvery > 0 {
		wait = 0
	}
	door := f.doors.state(Changes).url
	u, err := f.selecting(as, door, "after", f.at().String(), "wait", strconv.Itoa(int(wait/time.Second)))
	if err != nil {
		return err
	}
	asked := time.Now()
	text, err := f.getJSON(ctx, u, wait+stall, protocol.MaxMessage)
	if err != nil {
		return cursorError(err, door)
	}
	m, err := protocol.ParseMessage(text)
	if err != nil {
		return err
	}
	switch m.Kind {
	case protocol.Batch, protocol.Bundle, protocol.Archive:
	default:
		return fmt.Errorf("response is a %.20q message, which carries no changes", m.Kind)
	}
	told := len(m.Changes)
	if m.Kind != protocol.Batch {
		told = m.N
	}
	if err := f.take(ctx, Changes, as, &m); err != nil {
		return err
	}
	switch {
	case behind(m.To, m.Head) && told >= someAtOnce: // the answer was full, or took the site long
		return pause.Sleep(ctx, f.hurried(catchPace)-time.Since(asked))
	case behind(m.To, m.Head):
		return pause.Sleep(ctx, f.hurried(smallPace)-time.Since(asked))
	case f.src.AskEvery > 0 && told < manyAtOnce:
		return pause.Sleep(ctx, f.src.AskEvery-time.Since(asked))
	case m.To == m.From:
		return pause.Sleep(ctx, min(f.hurried(emptyPace), longPoll-time.Since(asked)))
	case as == protocol.AsBatch && f.src.BundleEvery > 0: // on this door the bundle interval is ours to keep
		return pause.Sleep(ctx, f.src.BundleEvery-time.Since(asked))
	case told < manyAtOnce:
		return pause.Sleep(ctx, f.hurried(smallPace)-time.Since(asked))
	}
	return pause.Sleep(ctx, f.hurried(catchPace)-time.Since(asked))
}
