package jetlog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

const (
	// cutOff is how long bytes are delivered after the stream was last asked what is public.
	cutOff = 2 * time.Second

	// Forgotten is how long after a writer has stored that a page is withdrawn no door delivers its bytes any more: doors that do not
	// know it by then have not reached the stream for longer than cutOff. Frames may be a second older.
	Forgotten = cutOff + 2*time.Second

	contentsWait = time.Second // how long the bytes of a page that was just edited may take to come
)

// Contents are the bytes of a site's current pages, as its writer has stored them in NATS, for doors without its files. It delivers
// bytes only while the stream says that anybody may have them, and only if it has asked the stream lately. Log and Logger must not
// change; Follow must run.
type Contents struct {
	Log    *Log
	Logger *slog.Logger

	book *book

	asking sync.Mutex // guards the fields below; held while the stream is asked
	cut    error      // the last answer: nil if the book was as the stream
	until  time.Time  // when the stream is to be asked again

	late protocol.Cursor // up to here nobody waits for contents any more; the lock of the book guards it
}

// NewContents returns the contents of the pages in a log, which follows its stream.
func NewContents(l *Log, logger *slog.Logger) *Contents {
	return &Contents{Log: l, Logger: logger, book: l.Stream.book()}
}

// Follow keeps up with what is public, until ctx ends. What fails is logged and tried again.
func (c *Contents) Follow(ctx context.Context) error {
	return persist(ctx, c.Logger, "the contents of pages cannot be followed, and are not delivered", c.book.follow)
}

// Current returns up to which change of the log the contents are complete, or why none are delivered: NATS has not answered within
// cutOff, or nobody may have any.
func (c *Contents) Current(ctx context.Context) (protocol.Cursor, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if !time.Now().Before(c.until) {
		late, cancel := context.WithTimeout(ctx, answer)
		defer cancel()
		c.until = time.Now().Add(cutOff)
		if c.cut = c.book.ask(late); ctx.Err() != nil {
			c.until = time.Time{} // the client has gone: this says nothing
		} else if c.cut != nil {
			c.until = time.Now().Add(again)
		}
	}
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	if c.cut == nil && c.book.at.Closed {
		return c.book.at.Cursor, errors.New("the notifier that writes the log allows none")
	}
	return c.book.at.Cursor, c.cut
}

// open returns what the stream says of a page, if it is now what item says and anybody may have its bytes. The error wraps
// content.ErrNoVersion otherwise.
func (c *Contents) open(ctx context.Context, item *protocol.Item) (shown, error) {
	e, ok, err := c.Log.Journal.Get(item.URL)
	if err != nil {
		return shown{}, err
	}
	if _, err := c.Current(ctx); err != nil {
		return shown{}, errors.Join(content.ErrNoVersion, err)
	}
	is := c.book.page(idOf(item.URL))
	if !ok || item.Digest.IsZero() || e.Item.Digest != item.Digest || is.Digest != item.Digest || !time.Now().Before(is.Until) {
		return shown{}, content.ErrNoVersion
	}
	return is, nil
}

// wait waits for the contents of pages that were just edited: until all that belong to what was told have come, or for a moment.
func (c *Contents) wait(ctx context.Context, item *protocol.Item) {
	head, id := c.Log.Head(), idOf(item.URL)
	reached := func(at protocol.Cursor) bool { return at.Epoch == head.Epoch && at.Seq >= head.Seq }
	soon, cancel := context.WithTimeout(ctx, contentsWait)
	defer cancel()
	err := c.book.await(soon, func() bool {
		return reached(c.late) || reached(c.book.at.Cursor) || c.book.pages[id].Digest == item.Digest
	})
	if err != nil && ctx.Err() == nil {
		c.book.change(func() { c.late = head })
	}
}

// Present reports whether item is what its page is now, and anybody may have its bytes.
func (c *Contents) Present(item *protocol.Item) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.open(ctx, item)
	return err == nil
}

// Open opens the present page of a URL; the bytes come when they are read, and are right
// once that ends with io.EOF. The error, and that of reading, wraps content.ErrNoVersion if there is none, or nobody may have it.
func (c *Contents) Open(ctx context.Context, url string) (io.ReadCloser, error) {
	var is shown
	e, ok, err := c.Log.Journal.Get(url)
	if err == nil && !ok {
		err = content.ErrNoVersion
	}
	if err == nil {
		is, err = c.open(ctx, &e.Item)
	}
	if ok && errors.Is(err, content.ErrNoVersion) {
		c.wait(ctx, &e.Item)
		is, err = c.open(ctx, &e.Item)
	}
	if err != nil {
		return nil, fmt.Errorf("page %s: %w", url, err)
	}
	return &body{from: c, ctx: ctx, item: &e.Item, version: is.version, sum: sha256.New()}, nil
}

// Earlier opens an earlier version of a page, in the same way. It is there only as long as anybody may have item, the present one.
func (c *Contents) Earlier(ctx context.Context, item *protocol.Item, d protocol.Digest) (io.ReadCloser, error) {
	is, err := c.open(ctx, item)
	i := slices.IndexFunc(is.Old, func(v version) bool { return v.Digest == d })
	if err == nil && i < 0 {
		err = content.ErrNoVersion
	}
	if err != nil {
		return nil, fmt.Errorf("earlier version of %s: %w", item.URL, err)
	}
	return &body{from: c, ctx: ctx, item: item, version: is.Old[i], sum: sha256.New()}, nil
}

// A body is the bytes of a version of a page, of which memory has one part at a time.
type body struct {
	from *Contents
	ctx  context.Context
	item *protocol.Item // the present page
	version

	next int       // part
	part []byte    // what is left of the one before
	sum  hash.Hash // of the parts so far
}

func (b *body) Read(p []byte) (n int, err error) {
	for len(b.part) == 0 && err == nil {
		if b.next < b.parts() {
			err = b.fetch()
		} else if protocol.Digest(b.sum.Sum(nil)) != b.Digest {
			err = fmt.Errorf("it has changed meanwhile: %w", content.ErrNoVersion)
		} else if _, err = b.from.open(b.ctx, b.item); err == nil { // else it was withdrawn meanwhile
			err = io.EOF
		}
	}
	n = copy(p, b.part)
	b.part = b.part[n:]
	return n, err
}

// fetch reads the next part from the stream.
func (b *body) fetch() error {
	stream, err := b.from.book.stream.open(b.ctx)
	if err == nil {
		var m *jetstream.RawStreamMsg
		if m, err = stream.GetLastMsgForSubject(b.ctx, b.from.book.bodySubject(idOf(b.item.URL), b.Digest, b.next)); err == nil {
			b.part = m.Data
			b.next++
			b.sum.Write(b.part)
			return nil
		}
	}
	return cmp.Or(b.ctx.Err(), errors.Join(content.ErrNoVersion, err))
}

func (b *body) Close() error { return nil }
