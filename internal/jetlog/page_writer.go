package jetlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A pageWriter stores contents in batches. One goroutine uses it.
type pageWriter struct {
	book  *book
	fence uint64 // the last message of this writer, or of the one before
	told  mark
	batch []*nats.Msg // to be stored at once
	bytes int
	pages map[pageID]shown // what the batch says

	withdrew time.Time // when something that may have been withdrawn was stored last
}

// Bounds of a page, of its parts, and of a batch.
const (
	mostPage  = 16 << 20 // as in bundles
	partBytes = 256 << 10
	mostBatch = 500
	batchSize = 1 << 20
)

// show adds to the batch that anybody may have bytes of a page, which are in the stream, or before in the batch.
func (w *pageWriter) show(ctx context.Context, id pageID, is shown) error {
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	w.pages[id] = is
	return w.add(ctx, w.book.subject("shown", id), text, 0)
}

// withdraw adds to the batch that nobody may have bytes of a page, and removes them.
func (w *pageWriter) withdraw(ctx context.Context, id pageID) error {
	is := w.book.page(id)
	if is.Digest.IsZero() {
		return nil
	}
	w.pages[id] = shown{}
	err := w.add(ctx, w.book.subject("shown", id), nil, max(0, time.Until(is.Until))+askedFor) // by then the page's old record has expired everywhere
	return errors.Join(err, w.empty(ctx, id, 0, is.Parts))
}

// empty adds to the batch that parts of a page's bytes are removed.
func (w *pageWriter) empty(ctx context.Context, id pageID, from, to int) error {
	for part := from; part < to; part++ {
		if err := w.add(ctx, w.book.bodySubject(id, part), nil, askedFor); err != nil {
			return err
		}
	}
	return nil
}

// add adds a message to the batch, which is stored before if it is long enough. The message is removed after ttl, if that is not zero.
func (w *pageWriter) add(ctx context.Context, subject string, data []byte, ttl time.Duration) error {
	if len(w.batch) >= mostBatch || w.bytes+len(data) > batchSize {
		if err := w.flush(ctx, w.told); err != nil {
			return err
		}
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	if ttl > 0 {
		m.Header.Set(jetstream.MsgTTLHeader, ttl.Round(time.Second).String())
	}
	w.batch = append(w.batch, m)
	w.bytes += len(data)
	return nil
}

// flush stores the batch, after which the contents are complete as at says. It tries until it knows that they are stored.
func (w *pageWriter) flush(ctx context.Context, at mark) error {
	b := w.book
	at.Word = rand.Text()
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	name := b.stream.name + ".at"
	list := append(w.batch, &nats.Msg{Subject: name, Data: text, Header: nats.Header{}})
	list[0].Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.fence, 10))
	list[0].Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, name)
	number, err := b.stream.store(ctx, list, func() (number uint64, ours, free bool, err error) {
		is, last, err := w.last(ctx, name)
		return last, is.Word == at.Word, last == w.fence, err
	})
	if err != nil {
		return err
	}
	for _, is := range w.pages {
		if is.Digest.IsZero() {
			w.withdrew = time.Now()
		}
	}
	if at.Closed {
		w.withdrew = time.Now()
	}
	b.enter(w.pages)
	b.change(func() { b.at, b.fence = at, number })
	w.told, w.fence, w.batch, w.bytes = at, number, nil, 0
	clear(w.pages)
	return nil
}

// last asks for the last "at" of the stream, and its number.
func (w *pageWriter) last(ctx context.Context, name string) (at mark, number uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	stream, err := w.book.stream.open(ctx)
	if err != nil {
		return at, 0, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, name)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return at, 0, nil
	} else if err != nil {
		return at, 0, err
	}
	return at, m.Sequence, json.Unmarshal(m.Data, &at)
}
