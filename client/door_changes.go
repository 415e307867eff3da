package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/parleyweb/parley/protocol"
)

const (
	longPoll   = 30 * time.Second // how long the site may wait for something to say
	emptyPace  = 5 * time.Second  // between questions where it does not wait
	smallPace  = time.Second      // after an answer with less than
	manyAtOnce = 100              // changes; a reader who catches up gets more, and waits
	catchPace  = 100 * time.Millisecond
)

// takeChanges asks once what comes after the cursor.
func (f *follower) takeChanges(ctx context.Context) error {
	u, err := withQuery(f.changes.url, "after", f.cursor.String(), "wait", strconv.Itoa(int(longPoll/time.Second)))
	if err != nil {
		return err
	}
	asked := time.Now()
	text, err := f.getJSON(ctx, u, longPoll+stall, protocol.MaxMessage)
	if err != nil {
		return cursorError(err, f.changes.url)
	}
	m, err := protocol.ParseMessage(text)
	if err != nil {
		return err
	}
	if m.Kind != protocol.Batch {
		return errors.New("answer is no batch")
	}
	if m.From != f.cursor {
		return fmt.Errorf("batch after %v, not %v", m.From, f.cursor)
	}
	if err := f.advance(Changes, m.To, m.Changes); err != nil {
		return err
	}
	switch {
	case m.To == m.From:
		return sleep(ctx, min(emptyPace, longPoll-time.Since(asked)))
	case len(m.Changes) < manyAtOnce:
		return sleep(ctx, smallPace-time.Since(asked))
	}
	return sleep(ctx, catchPace-time.Since(asked))
}

// withQuery adds parameters to a URL: names and values in turn.
func withQuery(ref string, pairs ...string) (string, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return "", err
	}
	q := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
