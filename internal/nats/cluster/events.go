package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// An Event is a change of the contents of a partition.
type Event struct {
	Cursor protocol.Cursor // in the collection
	JSON   []byte          // for readers: an object with op, url, from and digest, at least
}

// A Source is where the events of a partition come from: its collection.
type Source struct {
	Log    protocol.Log
	Events func(ctx context.Context, after protocol.Cursor, most int) ([]Event, error)

	// Page returns an event that says what a page is now, and when the page was fetched last: the zero time, if it is not known.
	Page func(url string) (Event, time.Time, error)
}

const (
	cursorHeader = "Parley-Cursor" // that of an Event
	mostEvents   = 500             // in a batch
	gatherTime   = 5 * time.Second // between two batches
	eventsAge    = 90 * 24 * time.Hour
)

func eventsSubject(crawl string, number int) string {
	return fmt.Sprintf("%s-events.%d", bucketName(crawl), number)
}

// A teller brings the events of a partition into the stream. Each message names the one before it of the partition, so that of two tellers the stream refuses one;
// that one reads what the other has told, and goes on only if it still has the lease.
//
// Told is what the stream has said of pages that this state does not have: those that another node has told from a state that is lost, after the snapshot that
// this one goes back to. When such a page becomes the same here, it is not told again. If it is something else once it was fetched again, that is told, though it is
// no event here.
type teller struct {
	t *tenure
	Source
	began time.Time
	sent  time.Time                  // when a batch was stored last
	asked time.Time                  // when the pages of told were looked up last
	after protocol.Cursor            // what is told of this state
	last  uint64                     // the number of the last message of the partition that is known
	fence uint64                     // that of the last one that the stream still has, 0 if there is none
	told  map[string]protocol.Digest // by URL; zero: the page is gone
}

// Tell brings the events of a source into the stream of the crawl until ctx ends, or the right of this node.
func (p *Part) Tell(ctx context.Context, from Source) {
	t := p.is
	x := &teller{t: t, Source: from, began: time.Now(), asked: time.Now(), after: from.Log.Floor(), last: t.at.events.Load(), told: map[string]protocol.Digest{}}
	if is := t.at.told.Load(); is != nil && is.Epoch == x.after.Epoch && is.Seq > x.after.Seq {
		x.after = *is
	}
	trouble := ""
	for {
		err := x.catchUp(ctx)
		if err == nil {
			err = x.tell(ctx)
		}
		if text := err.Error(); ctx.Err() == nil && text != trouble {
			trouble = text
			t.n.Log.Warn("the events of a partition are not told for the moment", "partition", t.number, "err", plain(err))
		}
		if time.Now().After(p.Ends()) || !pause.For(ctx, again) {
			return
		}
	}
}

// errUntold is why a state is not stored: from a snapshot a new epoch begins, and what is not told by then is never told.
var errUntold = errors.New("its events are not told")

// Told waits until readers can get the events up to a cursor of the collection. After an error no snapshot of the closed collection is stored.
func (p *Part) Told(ctx context.Context, until protocol.Cursor) error {
	for {
		is := p.is.at.told.Load()
		done := is != nil && is.Epoch == until.Epoch && is.Seq >= until.Seq
		if p.is.at.untold.Store(!done); done {
			return nil
		}
		select {
		case p.is.at.hurry <- struct{}{}:
		default:
		}
		if !pause.For(ctx, 20*time.Millisecond) {
			return errUntold
		}
	}
}

// catchUp reads what the stream has of the partition after the last message that is known.
func (x *teller) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stream, subject := x.t.n.in.events, eventsSubject(x.t.n.Crawl, x.t.number)
	newest, err := stream.GetLastMsgForSubject(ctx, subject)
	if x.fence = 0; err == nil {
		x.fence = newest.Sequence
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	if x.last > x.fence && x.fence > 0 { // the stream is another one
		x.last = 0
	}
	for x.last < x.fence {
		m, err := stream.GetMsg(ctx, x.last+1, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return err
		}
		x.last = m.Sequence
		at, err := protocol.ParseCursor(m.Header.Get(cursorHeader))
		is, damaged := parseEvent(m.Data)
		switch {
		case err != nil || damaged != nil:
			return fmt.Errorf("read message %d: %w", m.Sequence, errors.Join(err, damaged))
		case at.Epoch == x.after.Epoch:
			x.after.Seq = max(x.after.Seq, at.Seq) // what was not told, since it was known, may have come after that
			is.forget(x.told)
		default:
			is.put(x.told)
		}
	}
	x.note()
	return nil
}

// note stores how far this state is told. While the stream knows more of some pages, the state counts as one from before.
func (x *teller) note() {
	at := x.after
	if x.t.at.told.Store(&at); len(x.told) == 0 {
		x.t.at.events.Store(x.last)
	}
}

// tell tells what the collection has, and what it gets, until something fails.
func (x *teller) tell(ctx context.Context) error {
	for {
		list, err := x.Events(ctx, x.after, mostEvents)
		if err == nil && len(list) == 0 {
			if err = x.correct(ctx); err == nil {
				err = x.wait(ctx)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := x.publish(ctx, list); err != nil {
			return err
		}
		x.after = list[len(list)-1].Cursor
		x.note()
	}
}

// wait waits for an event, and then for others, or until the pages of told are to be looked up.
func (x *teller) wait(ctx context.Context) error {
	event, cancel := ctx, func() {}
	if len(x.told) > 0 {
		event, cancel = context.WithTimeout(ctx, x.t.n.Snapshots)
	}
	defer cancel()
	if err := x.Log.Wait(event, x.after); err != nil {
		if event.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-x.t.at.hurry:
	case <-time.After(time.Until(x.sent.Add(gatherTime))):
	}
	return ctx.Err()
}

// correct tells what pages are that were fetched since this node has the partition, and that are not what readers know.
func (x *teller) correct(ctx context.Context) error {
	if time.Since(x.asked) < x.t.n.Snapshots {
		return nil
	}
	x.asked = time.Now()
	var list []Event
	for url := range x.told {
		e, fetched, err := x.Page(url)
		if err != nil {
			return err
		}
		if e.Cursor = x.after; fetched.After(x.began) && time.Since(fetched) > 2*time.Second && len(list) < mostEvents { // else its event may be about to come
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return nil
	}
	err := x.publish(ctx, list)
	if err == nil {
		x.note()
	}
	return err
}

// publish stores events as one batch, but for those that were told already.
func (x *teller) publish(ctx context.Context, list []Event) error {
	subject := eventsSubject(x.t.n.Crawl, x.t.number)
	var batch []*nats.Msg
	pages := make([]pageEvent, len(list))
	for i, e := range list {
		if len(x.told) > 0 {
			var err error
			if pages[i], err = parseEvent(e.JSON); err != nil {
				return err
			}
		}
		if !pages[i].known(x.told) {
			batch = append(batch, &nats.Msg{Subject: subject, Data: e.JSON, Header: nats.Header{cursorHeader: {e.Cursor.String()}}})
		}
	}
	if len(batch) > 0 {
		if time.Now().After(*x.t.ends.Load()) {
			return errLost
		}
		batch[0].Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(x.fence, 10))
		last, err := jetlog.Publish(ctx, x.t.n.Conn, batch)
		if err != nil {
			return err
		}
		x.last, x.fence, x.sent = last, last, time.Now()
	}
	for i := range pages {
		pages[i].forget(x.told)
	}
	return nil
}

// A pageEvent is what an event says about pages.
type pageEvent struct {
	Op        protocol.Op
	URL, From string
	Digest    protocol.Digest
}

func parseEvent(data []byte) (e pageEvent, err error) {
	err = json.Unmarshal(data, &e)
	return e, err
}

// put notes what readers know after the event.
func (e *pageEvent) put(told map[string]protocol.Digest) {
	if e.From != "" {
		told[e.From] = protocol.Digest{}
	}
	if told[e.URL] = e.Digest; e.Op == protocol.Delete {
		told[e.URL] = protocol.Digest{}
	}
}

// forget removes the pages of the event.
func (e *pageEvent) forget(told map[string]protocol.Digest) {
	delete(told, e.URL)
	delete(told, e.From)
}

// known reports whether readers know already what the event says.
func (e *pageEvent) known(told map[string]protocol.Digest) bool {
	after := map[string]protocol.Digest{}
	e.put(after)
	for url, digest := range after {
		if is, known := told[url]; !known || is != digest {
			return false
		}
	}
	return true
}

// Events calls f with the events of all partitions after a cursor, in the order of the stream, and with follow goes on until ctx ends. The zero Cursor begins with
// the first event that the stream still has. Errors of cursors are those of [protocol.Log].
func (c *Crawl) Events(ctx context.Context, after protocol.Cursor, follow bool, f func(at protocol.Cursor, partition int, event []byte) error) error {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := js.Stream(soon, bucketName(c.Name)+"-events")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("the crawl %q tells no events: its machines have --cluster-events 0", c.Name)
	} else if err != nil {
		return plain(err)
	}
	state := stream.CachedInfo().State
	switch {
	case after.IsZero():
		after = protocol.Cursor{Epoch: c.id, Seq: max(1, state.FirstSeq) - 1}
	case after.Epoch != c.id || after.Seq > state.LastSeq:
		return fmt.Errorf("%w: %v", protocol.ErrEpoch, after)
	case after.Seq+1 < state.FirstSeq:
		return fmt.Errorf("%w: %v, the first event is %d", protocol.ErrTooOld, after, state.FirstSeq)
	}
	if !follow && after.Seq == state.LastSeq {
		return nil
	}
	consumer, err := stream.OrderedConsumer(soon, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after.Seq + 1})
	if err != nil {
		return plain(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return plain(err)
	}
	defer messages.Stop()
	for follow || after.Seq < state.LastSeq {
		wait, stop := ctx, func() {}
		if !follow {
			wait, stop = context.WithTimeout(ctx, patience)
		}
		m, err := messages.Next(jetstream.NextContext(wait))
		stop()
		if err != nil {
			return plain(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if after.Seq++; meta.Sequence.Stream != after.Seq {
			return fmt.Errorf("%w: event %d is not kept any more", protocol.ErrTooOld, after.Seq)
		}
		number, err := strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
		if err != nil {
			return fmt.Errorf("event %d: %w", after.Seq, err)
		}
		if err := f(after, number, m.Data()); err != nil {
			return err
		}
	}
	return nil
}
