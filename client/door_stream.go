package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

const (
	helloWait      = 30 * time.Second // until the first message
	defaultBeat    = 25 * time.Second // if hello states no heartbeat
	silenceSlack   = 10 * time.Second // silence allowed beyond two heartbeats
	closeNormal    = 1000             // RFC 6455, 7.4.1
	streamPatience = 30 * time.Second // for the handshake
)

// A byeError reports that the site has ended a stream on purpose.
type byeError struct {
	code   int
	reason string
	retry  time.Duration
}

func (e *byeError) Error() string {
	return fmt.Sprintf("the site closed the stream with code %d: %.200q", e.code, e.reason)
}

// stream receives the changes after the cursor, until the stream ends.
func (d *messageDoor) stream(ctx context.Context) error {
	w, at, door := d.want, d.at(), d.doors.state(Stream).url
	as := w.form()
	u, err := w.selecting(as, door, "after", at.String())
	if err != nil {
		return err
	}
	if err := w.wait(ctx, u); err != nil {
		return err
	}
	conn, err := wsconn.Dial(ctx, u, w.header(), w.client, wsconn.Options{
		Subprotocols: protocol.Subprotocols(), Packed: map[string]wsconn.Packing{protocol.SubprotocolZstd: new(coding.Messages)},
		MaxMessage: protocol.MaxMessage, Handshake: streamPatience,
	})
	if err != nil {
		var refused *wsconn.StatusError
		if errors.As(err, &refused) {
			if w.src.Refused != nil {
				w.src.Refused(refused.Status, refused.Header)
			}
			err = statusError(door, refused.Status, refused.Header, refused.Body)
		}
		return cursorError(err, door)
	}
	defer conn.Close(closeNormal, "")

	m, err := receive(ctx, conn, helloWait)
	if err != nil {
		return err
	}
	if m.Kind == protocol.Bye {
		return &byeError{m.Code, m.Reason, m.Retry}
	}
	if m.Kind != protocol.Hello || m.From != at {
		return fmt.Errorf("stream begins with %.20q at %v, not with hello at %v", m.Kind, m.From, at)
	}
	d.head = cmp.Or(m.Head, d.head)
	d.standsOn(Stream) // a quiet site may send no changes for a long time
	if err := d.mended(Stream, as); err != nil {
		return err
	}
	beat := m.Heartbeat
	if beat <= 0 {
		beat = defaultBeat
	}
	silence := 2*min(beat, protocol.MaxHeartbeat) + w.hurried(silenceSlack)
	for {
		m, err := receive(ctx, conn, silence)
		if err != nil {
			return err
		}
		switch m.Kind {
		case protocol.Gap:
			return fmt.Errorf("gap from %v to %v (%.200q): %w", m.From, m.To, m.Reason, protocol.ErrTooOld)
		case protocol.Bye:
			return &byeError{m.Code, m.Reason, m.Retry}
		case protocol.Hello:
			return errors.New("hello in the middle of the stream")
		}
		if err := d.take(ctx, Stream, as, &m); err != nil {
			return err
		}
		if w.form() != as { // another form suits the new cursor better
			return nil
		}
	}
}

// receive returns the next message. A peer that is silent for too long is treated as dead, whatever its
// connection looks like.
func receive(ctx context.Context, conn *wsconn.Conn, silence time.Duration) (protocol.Message, error) {
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	text, err := conn.Read(limited)
	var closed *wsconn.CloseError
	switch {
	case err == nil:
		return protocol.ParseMessage(text)
	case errors.As(err, &closed) && closed.Code >= 4000 && closed.Code < 5000:
		err = &byeError{code: closed.Code, reason: closed.Reason}
	case limited.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("timed out: no message received for %v", silence)
	}
	return protocol.Message{}, err
}
