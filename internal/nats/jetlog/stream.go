// Package jetlog keeps the log of a site in a stream of NATS JetStream, so that several machines can deliver its changes.
//
// The journal of a site says what is, its stream what was told: each change is one message, and what a journal commits at once
// is stored at once. A message has the number of its change plus a constant of the epoch, so that cursors stay what they are.
// Every message names the last one before it: of two writers that go on from the same place, the stream refuses one.
//
// What a message says of a page is deleted once the page is withdrawn (see [Log.Forget]). The message's number stays, since cursors
// do, and so does the message that says that the page is gone: readers who know the page must learn of that.
//
// A [Log] is what the doors read. Where the site is written it tells what the journal has; elsewhere it keeps a copy of the
// journal.
package jetlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// ErrUnsafe is wrapped by the error for a stream, or servers, that may lose what they have acknowledged.
var ErrUnsafe = errors.New("NATS may lose changes that it has acknowledged")

// ErrFenced is returned by [Log.Tell] when another writer has gone on with the stream, so that this one can tell nothing any more,
// and by [Lease.Keep] once another program has the lease.
var ErrFenced = errors.New("another writer has gone on with the log")

// Headers of the messages.
const (
	originHeader = "Parley-Origin" // see origin
	writerHeader = "Parley-Writer" // a random word, by which a writer recognizes what it stored
)

const (
	patience = 5 * time.Second        // how long what takes several requests to NATS may take
	answer   = 2 * time.Second        // how long NATS may take to answer one: meanwhile it may have elected another leader
	again    = 250 * time.Millisecond // between one that failed and the next
	silence  = time.Second            // after twice as long without a sign of life, a reader goes to another server
)

// A Stream is the stream of one site.
type Stream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	name    string
	options Options
	config  jetstream.StreamConfig // if it is created

	mu     sync.Mutex // guards stream
	stream jetstream.Stream
}

// Options says what a stream is like. Of one that exists they change nothing.
type Options struct {
	Name string // of the stream: letters, digits, '-' and '_'

	// Replicas is on how many servers each message is stored. Zero means three in a cluster of servers, and one otherwise.
	Replicas int

	// MaxChanges bounds the changes kept. Zero means 1,000,000.
	MaxChanges int

	// Reader says that this program only reads. Then the stream is opened when it is first needed, and never created.
	Reader bool
}

// Open opens a stream by a connection, which stays the caller's, or creates it. All programs of a site open it with the same name.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Stream, error) {
	s := &Stream{nc: nc, name: o.Name, options: o, config: jetstream.StreamConfig{Subjects: []string{o.Name},
		MaxMsgs: int64(cmp.Or(o.MaxChanges, 1_000_000)), Discard: jetstream.DiscardOld}}
	var err error
	if s.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(answer)); err == nil && !o.Reader {
		_, err = s.open(ctx)
	}
	if err != nil {
		return nil, s.fail("open", err)
	}
	return s, nil
}

// open returns the stream, which it opens or creates at the first call that succeeds.
func (s *Stream) open(ctx context.Context) (jetstream.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return s.stream, nil
	}
	stream, err := s.js.Stream(ctx, s.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !s.options.Reader {
		config := s.config
		config.Name, config.Storage, config.Replicas, config.AllowAtomicPublish = s.name, jetstream.FileStorage, s.replicas(), true
		stream, err = s.js.CreateStream(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	if c := &stream.CachedInfo().Config; c.Storage != jetstream.FileStorage || !c.AllowAtomicPublish || c.PersistMode == jetstream.AsyncPersistMode {
		return nil, fmt.Errorf("%w: want storage file, allow_atomic and the default persist_mode; delete the stream, and it is created so", ErrUnsafe)
	}
	s.stream = stream
	return stream, nil
}

// replicas returns on how many servers what is created is stored.
func (s *Stream) replicas() int {
	if s.options.Replicas > 0 {
		return s.options.Replicas
	}
	if s.nc.ConnectedClusterName() != "" {
		return 3
	}
	return 1
}

func (s *Stream) fail(op string, err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // nothing is kept for a server that comes back
		err = errors.New("no NATS server answers")
	}
	return fmt.Errorf("%s stream %s: %w", op, s.name, err)
}

// An origin is where an epoch begins in a stream: the cursor, and the message that has its place. The message of change n is
// the one at n - cursor.Seq + message.
type origin struct {
	cursor  protocol.Cursor
	message uint64
}

func (o origin) String() string { return o.cursor.String() + " " + strconv.FormatUint(o.message, 10) }

func parseOrigin(s string) (o origin, err error) {
	c, m, _ := strings.Cut(s, " ")
	if o.cursor, err = protocol.ParseCursor(c); err == nil {
		o.message, err = strconv.ParseUint(m, 10, 64)
	}
	return o, err
}

// at returns the cursor of a message.
func (o origin) at(message uint64) protocol.Cursor {
	return protocol.Cursor{Epoch: o.cursor.Epoch, Seq: o.cursor.Seq + message - o.message}
}

// messageOf returns the message of a cursor of this epoch.
func (o origin) messageOf(c protocol.Cursor) uint64 { return o.message + c.Seq - o.cursor.Seq }

// floor returns the oldest cursor after which a stream that begins with a message has everything.
func (o origin) floor(first uint64) protocol.Cursor {
	if first <= o.message {
		return o.cursor
	}
	return o.at(first - 1)
}

// A place is one message of a stream, and what it says.
type place struct {
	origin
	number uint64 // of the message, and of the last one that there was if the stream is empty
	writer string
	data   []byte // the change; empty where the epoch begins
}

// head returns the cursor of the message, the zero Cursor of an empty stream.
func (p *place) head() protocol.Cursor {
	if p.cursor.IsZero() {
		return protocol.Cursor{}
	}
	return p.at(p.number)
}

// placeIn returns the place of a message.
func placeIn(m jetstream.Msg) (place, error) {
	meta, err := m.Metadata()
	if err != nil {
		return place{}, err
	}
	return placeOf(meta.Sequence.Stream, m.Headers(), m.Data())
}

// change returns the change of the message, and false where the epoch begins.
func (p *place) change() (c protocol.Change, ok bool, err error) {
	if ok = p.number != p.message; ok {
		c, err = journal.ParseChange(p.head().Seq, p.data)
	}
	return c, ok, err
}

func placeOf(number uint64, h nats.Header, data []byte) (place, error) {
	o, err := parseOrigin(h.Get(originHeader))
	if err != nil || number < o.message {
		return place{}, fmt.Errorf("message %d is none of a site's log: %w", number, err)
	}
	return place{origin: o, number: number, writer: h.Get(writerHeader), data: data}, nil
}

// Head asks the leader of the stream for the cursor of what was told last. It is the zero Cursor of a stream without messages.
func (s *Stream) Head(ctx context.Context) (protocol.Cursor, error) {
	last, err := s.last(ctx)
	return last.head(), err
}

// last asks the leader of the stream for its newest message.
func (s *Stream) last(ctx context.Context) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var p place
	stream, err := s.open(ctx)
	if err != nil {
		return p, s.fail("open", err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, s.name)
	if err == nil {
		p, err = placeOf(m.Sequence, m.Header, m.Data)
	} else if errors.Is(err, jetstream.ErrMsgNotFound) {
		var info *jetstream.StreamInfo
		if info, err = stream.Info(ctx); err == nil {
			p.number = info.State.LastSeq
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) { // it was deleted
		s.mu.Lock()
		s.stream = nil
		s.mu.Unlock()
	}
	if err != nil {
		return place{}, s.fail("read the end of", err)
	}
	return p, nil
}

// message returns the record of one message, and false if the stream does not have it any more.
func (s *Stream) message(ctx context.Context, number uint64) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	stream, err := s.open(ctx)
	if err != nil {
		return nil, false, s.fail("open", err)
	}
	m, err := stream.GetMsg(ctx, number)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, s.fail("read", err)
	}
	return m.Data, true, nil
}

// span asks for the newest message, and the oldest cursor after which the stream has everything.
func (s *Stream) span(ctx context.Context) (last place, floor protocol.Cursor, err error) {
	if last, err = s.last(ctx); err != nil {
		return last, floor, err
	}
	stream, err := s.open(ctx)
	if err != nil {
		return last, floor, s.fail("open", err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return last, floor, s.fail("ask about", err)
	}
	return last, last.floor(info.State.FirstSeq), nil
}

// read returns at most some of the changes after a cursor, as [protocol.Log] does, from the stream itself: for a reader that
// comes from longer ago than a copy on this machine has changes. It also returns the floor of the stream.
func (s *Stream) read(ctx context.Context, after protocol.Cursor, most int) (_ []protocol.Change, floor protocol.Cursor, _ error) {
	if most < 1 {
		most = protocol.MaxBatch
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, floor, err := s.span(ctx)
	switch {
	case err != nil:
	case after.Epoch != floor.Epoch:
		return nil, floor, fmt.Errorf("read after %v: %w: the log is at %v", after, protocol.ErrEpoch, last.head())
	case after.Seq < floor.Seq:
		return nil, floor, fmt.Errorf("read after %v: %w: the log has changes after %v", after, protocol.ErrTooOld, floor)
	default:
		var changes []protocol.Change
		if changes, err = s.changes(ctx, &last, after, most); err == nil {
			return fill(after.Seq, changes, most), floor, nil
		}
	}
	return nil, floor, fmt.Errorf("read after %v: %w: %w", after, protocol.ErrAway, err)
}

// changes returns at most some of the changes after a cursor of the last epoch, without those that were deleted. None is an error.
func (s *Stream) changes(ctx context.Context, last *place, after protocol.Cursor, most int) (changes []protocol.Change, err error) {
	c, err := s.consumer(ctx, &jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: last.messageOf(after) + 1})
	if err != nil {
		return nil, err
	}
	defer s.js.DeleteConsumer(ctx, s.name, c.CachedInfo().Name) // else it ends by itself
	for len(changes) == 0 {
		batch, err := c.Fetch(int(min(uint64(most), last.number-last.messageOf(after))), jetstream.FetchMaxWait(patience/2))
		if err != nil {
			return nil, s.fail("read", err)
		}
		for m := range batch.Messages() {
			p, err := placeIn(m)
			if err != nil {
				return nil, err
			}
			change, ok, err := p.change()
			if err != nil {
				return nil, err
			}
			if ok {
				changes = append(changes, change)
			}
			if p.number >= last.number { // no more come, if some were deleted
				break
			}
		}
		if err := batch.Error(); len(changes) == 0 && !(errors.Is(err, nats.ErrNoResponders) && pause.For(ctx, again)) { // else another server does not know the consumer yet
			return nil, s.fail("read", errors.Join(err, errors.New("no message came")))
		}
	}
	return changes, nil
}

// fill returns at most some changes after a number: each change, and before it, for each number whose message was deleted, the same change
// with that number. See [Log.Forget].
func fill(after uint64, changes []protocol.Change, most int) (all []protocol.Change) {
	for _, c := range changes {
		for seq := c.Seq; after < seq && len(all) < most; all = append(all, c) {
			after++
			c.Seq = after
		}
	}
	return all
}

// A writer appends to a stream, after a message that it knows to be the last one.
type writer struct {
	s    *Stream
	name string
	last place
}

func (s *Stream) writer(last place) *writer {
	return &writer{s: s, name: rand.Text(), last: last}
}

// begin begins an epoch at a cursor.
func (w *writer) begin(ctx context.Context, at protocol.Cursor) error {
	return w.append(ctx, origin{at, w.last.number + 1}, [][]byte{nil})
}

// tell appends changes, at most protocol.MaxBatch of them.
func (w *writer) tell(ctx context.Context, changes []protocol.Change) error {
	records := make([][]byte, len(changes))
	for i, c := range changes {
		records[i] = record(c)
	}
	return w.append(ctx, w.last.origin, records)
}

// record returns what the stream says of a change. A title that the page had before may be one that was withdrawn: then nothing is said of
// how the page was, and a door sends the change, as a deletion, to readers whose filter the page does not match now.
func record(c protocol.Change) []byte {
	if c.Before != nil && c.Before.Title != c.Item.Title {
		c.Before = nil
	}
	return journal.AppendChange(nil, c)
}

// append stores all records or none, right after the last message. It tries until it knows which, or until ctx ends. The error
// wraps ErrFenced if somebody else has stored something there.
func (w *writer) append(ctx context.Context, o origin, records [][]byte) error {
	want := w.last.number + uint64(len(records))
	list := make([]*nats.Msg, len(records))
	for i, data := range records {
		list[i] = &nats.Msg{Subject: w.s.name, Data: data, Header: nats.Header{originHeader: {o.String()}, writerHeader: {w.name}}}
	}
	list[0].Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(w.last.number, 10))
	_, err := w.s.store(ctx, list, func() (number uint64, ours, free bool, err error) {
		is, err := w.s.last(ctx)
		return is.number, is.writer == w.name && is.number == want, is.number == w.last.number, err
	})
	if err == nil {
		w.last = place{origin: o, number: want, writer: w.name, data: records[len(records)-1]}
	}
	return err
}

// store stores messages as one batch, and returns the number of the last. It tries until it knows that they are stored, or until ctx
// ends. Ask returns the number of the last message of their kind, whether it is one of theirs, and whether it is still the one before
// them. The error wraps ErrFenced if it is neither.
func (s *Stream) store(ctx context.Context, list []*nats.Msg, ask func() (number uint64, ours, free bool, err error)) (uint64, error) {
	for {
		number, err := Publish(ctx, s.nc, list)
		if err == nil {
			return number, nil
		}
		last, ours, free, aerr := ask()
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case aerr != nil:
		case ours:
			return last, nil
		case !free:
			return 0, s.fail("append to", fmt.Errorf("%w: at message %d: %w", ErrFenced, last, err))
		}
		if !pause.For(ctx, again) {
			return 0, s.fail("append to", errors.Join(err, ctx.Err()))
		}
	}
}

// Publish stores messages as one atomic batch, all or none, and returns the number of the last. After an error it is not known which.
func Publish(ctx context.Context, nc *nats.Conn, list []*nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	batch, last := rand.Text(), len(list)-1
	for i, m := range list[:last] {
		m.Header.Set("Nats-Batch-Id", batch)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if err := nc.PublishMsg(m); err != nil {
			return 0, err
		}
	}
	if last > 0 {
		list[last].Header.Set("Nats-Batch-Id", batch)
		list[last].Header.Set("Nats-Batch-Sequence", strconv.Itoa(last+1))
		list[last].Header.Set("Nats-Batch-Commit", "1")
	}
	reply, err := nc.RequestMsgWithContext(ctx, list[last])
	if err != nil {
		return 0, err
	}
	var ack struct {
		Seq   uint64
		Error *jetstream.APIError
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, err
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Seq, nil
}

// consumer creates a reader of the stream, which ends by itself once it was not used for a minute.
func (s *Stream) consumer(ctx context.Context, config *jetstream.ConsumerConfig) (c jetstream.Consumer, err error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	stream, err := s.open(ctx)
	if err == nil {
		config.AckPolicy, config.MemoryStorage, config.Replicas, config.InactiveThreshold = jetstream.AckNonePolicy, true, 1, time.Minute
		c, err = stream.CreateConsumer(ctx, *config)
	}
	if err != nil {
		return nil, s.fail("read", err)
	}
	return c, nil
}

// consume returns messages of the stream as they come, each once and in order, until end is called. A reader of a server that is silent, or
// stands still, is replaced by another one: the ordered consumer of nats.go does that too, but waits 10 s for a server that does not answer.
func (s *Stream) consume(ctx context.Context, config *jetstream.ConsumerConfig) (came <-chan jetstream.Msg, end func(), err error) {
	c, err := s.consumer(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	messages := make(chan jetstream.Msg, protocol.MaxBatch)
	ctx, cancel := context.WithCancel(ctx)
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for failed := error(nil); ; c, failed = s.consumer(ctx, config) {
			if failed == nil {
				s.pass(ctx, c, config, messages)
			}
			if !pause.For(ctx, again) {
				return
			}
		}
	})
	return messages, func() { cancel(); consuming.Wait() }, nil
}

// pass passes on what a reader gets, until ctx ends, it is silent, or something may be missing. Then config is that of the next one.
func (s *Stream) pass(ctx context.Context, c jetstream.Consumer, config *jetstream.ConsumerConfig, came chan<- jetstream.Msg) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := s.nc.StatusChanged(nats.RECONNECTING)
	defer s.nc.RemoveStatusListener(lost)
	gets := make(chan jetstream.Msg)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		select {
		case gets <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullExpiry(4*silence), jetstream.PullHeartbeat(silence), jetstream.ConsumeErrHandler(func(jetstream.ConsumeContext, error) { cancel() }))
	if err != nil {
		return
	}
	defer consuming.Stop()
	for next := uint64(1); ; next++ {
		select {
		case m := <-gets:
			meta, err := m.Metadata()
			if err != nil || meta.Sequence.Consumer != next {
				return
			}
			select {
			case came <- m:
				config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, meta.Sequence.Stream+1
			case <-ctx.Done():
				return
			}
		case <-lost:
			return
		case <-consuming.Closed():
			return
		case <-ctx.Done():
			return
		}
	}
}
