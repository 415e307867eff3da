package jetlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/protocol"
)

// A pageWriter stores contents in batches. One goroutine uses it.
type pageWriter struct {
	book  *book
	fence uint64 // the last message of this writer, or of the one before
	told  mark
	batch []*nats.Msg // to be stored at once
	bytes int
	pages map[pageID]shown // what the batch says

	most, old int64 // bytes of earlier versions: those to keep, and those that are there

	withdrew time.Time // when something that may have been withdrawn was stored last
}

// Bounds of a page, of its parts, and of a batch.
const (
	mostPage  = 16 << 20 // as in bundles
	partBytes = 256 << 10
	mostBatch = 500
	batchSize = 1 << 20
)

// page returns what is shown of a page once the batch is stored.
func (w *pageWriter) page(id pageID) shown {
	if is, ok := w.pages[id]; ok {
		return is
	}
	return w.book.page(id)
}

// show adds to the batch what is shown of a page now. Its present bytes are in the stream, or before in the batch; versions that are not
// named any more are removed.
func (w *pageWriter) show(ctx context.Context, id pageID, is shown) error {
	was := w.page(id)
	text, ttl := []byte(nil), time.Duration(0)
	if is.isNone() {
		ttl = max(0, time.Until(was.Until)) + askedFor // by then the page's old record has expired everywhere
	} else {
		var err error
		if text, err = json.Marshal(is); err != nil {
			return err
		}
	}
	w.old += is.earlier() - was.earlier()
	err := w.add(ctx, w.book.subject("shown", id), text, ttl)
	w.pages[id] = is // not before: add may have stored the batch so far
	stay := is.all()
	for _, v := range was.all() {
		if !slices.ContainsFunc(stay, func(s version) bool { return s.Digest == v.Digest }) {
			err = errors.Join(err, w.empty(ctx, id, &v))
		}
	}
	return err
}

// withdraw adds to the batch that nobody may have bytes of a page, and removes them.
func (w *pageWriter) withdraw(ctx context.Context, id pageID) error {
	if is := w.page(id); is.isNone() {
		return nil
	}
	return w.show(ctx, id, shown{})
}

// hide adds to the batch that nobody may have bytes of a page now, which has changed: its versions so far are earlier ones.
func (w *pageWriter) hide(ctx context.Context, id pageID) error {
	is := w.page(id)
	if is.Digest.IsZero() {
		return nil
	}
	return w.show(ctx, id, shown{Until: is.Until, Old: w.earlier(&is, protocol.Digest{})})
}

// mostEarlier is how many earlier versions of a page are kept.
const mostEarlier = 8

// earlier returns the versions of a page that are kept once it has the bytes now.
func (w *pageWriter) earlier(is *shown, now protocol.Digest) (list []version) {
	for _, v := range is.all() {
		if v.Digest == now || w.most == 0 || v.Length > w.most/8 || len(list) == mostEarlier {
			continue
		}
		if v.Digest == is.Digest {
			v.Replaced = time.Now()
		}
		list = append(list, v)
	}
	return list
}

// trim removes the oldest of the earlier versions if there are too many.
func (w *pageWriter) trim(ctx context.Context) error {
	if w.old <= w.most {
		return nil
	}
	type place struct {
		id pageID
		version
	}
	var all []place
	w.book.mu.Lock()
	ids := slices.Collect(maps.Keys(w.book.pages))
	w.book.mu.Unlock()
	for _, id := range ids {
		for _, v := range w.page(id).Old {
			all = append(all, place{id, v})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return a.Replaced.Compare(b.Replaced) })
	for _, p := range all {
		if w.old <= w.most-w.most/8 { // it is long until the next time
			break
		}
		is := w.page(p.id)
		is.Old = slices.DeleteFunc(slices.Clone(is.Old), func(v version) bool { return v.Digest == p.Digest })
		if err := w.show(ctx, p.id, is); err != nil {
			return err
		}
	}
	return nil
}

// store adds the bytes of a version to the batch.
func (w *pageWriter) store(ctx context.Context, id pageID, v *version, page []byte) error {
	for part := range v.parts() {
		if err := w.add(ctx, w.book.bodySubject(id, v.Digest, part), page[part*partBytes:min(len(page), (part+1)*partBytes)], 0); err != nil {
			return err
		}
	}
	return nil
}

// empty adds to the batch that the bytes of a version are removed.
func (w *pageWriter) empty(ctx context.Context, id pageID, v *version) error {
	for part := range v.parts() {
		if err := w.add(ctx, w.book.bodySubject(id, v.Digest, part), nil, askedFor); err != nil {
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
	err = json.Unmarshal(m.Data, &at)
	return at, m.Sequence, err
}
