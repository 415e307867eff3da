package jetlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// A Sharer stores the bytes of a site's public pages in NATS, with the time until which anybody may have them, for the [Contents]
// of other programs. Its exported fields must not change once a method has been called.
type Sharer struct {
	Stream  *Stream
	Journal *journal.Journal // of the site, which is written here

	// Pages delivers only bytes that anybody may have. Nil: no contents are shared any more, and the next three fields are not used.
	Pages content.Pages

	// Until returns until when anybody may have the bytes of a page, the zero time if nobody may, and false if nothing is known
	// here: then what the last writer stored stands.
	Until func(page string, d protocol.Digest) (until time.Time, known bool)

	Closed func() bool   // no bytes may be delivered, of no page
	Every  time.Duration // all pages are compared with the stream so often
	Logger *slog.Logger

	requests shareRequests

	// The following are used by Run only.
	out    *pageWriter
	walked time.Time
	held   map[string]bool // pages whose files are missing
}

// shareRequests are what a Sharer is to do beside what the journal says.
type shareRequests struct {
	mu      sync.Mutex // guards the fields below
	changed map[string]bool
	purges  map[string]chan struct{} // by page; closed when the stream has nothing of it
	wake    context.CancelFunc
}

// add adds a page that has changed, or is to be purged: then it returns what is closed when that is done.
func (r *shareRequests) add(page string, purge bool) (gone chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = map[string]bool{}
	}
	if r.purges == nil {
		r.purges = map[string]chan struct{}{}
	}
	r.changed[page] = true
	if gone = r.purges[page]; purge && gone == nil {
		gone = make(chan struct{})
		r.purges[page] = gone
	}
	if r.wake != nil {
		r.wake()
	}
	return gone
}

// take returns the requests. Those to purge stay until they are done.
func (r *shareRequests) take() (changed map[string]bool, purges map[string]chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, purges = r.changed, maps.Clone(r.purges)
	r.changed = nil
	return changed, purges
}

func (r *shareRequests) done(purges map[string]chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for page, gone := range purges {
		close(gone)
		delete(r.purges, page)
	}
}

// wait waits until there are requests, or wait returns.
func (r *shareRequests) wait(ctx context.Context, wait func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	if r.wake = cancel; len(r.changed) > 0 {
		cancel()
	}
	r.mu.Unlock()
	wait(ctx)
}

// Changed says that what is known of a page may have changed.
func (s *Sharer) Changed(page string) { s.requests.add(page, false) }

// Purge removes the bytes of a page from the stream, and returns when no door delivers them any more. If they are still the page's,
// and public, they are stored again.
func (s *Sharer) Purge(ctx context.Context, page string) error {
	gone := s.requests.add(page, true)
	late, cancel := context.WithTimeout(ctx, purgePatience)
	defer cancel()
	select {
	case <-gone:
		return pause.Sleep(ctx, Forgotten)
	case <-late.Done():
		return fmt.Errorf("NATS does not answer: %s is withdrawn from all doors as soon as it does", page)
	}
}

// purgePatience is how long Purge waits for NATS.
const purgePatience = 20 * time.Second

// Run stores what is public, as it changes, until ctx ends, or another writer goes on (ErrFenced).
func (s *Sharer) Run(ctx context.Context) error {
	return persist(ctx, s.Logger, "the contents of pages cannot be stored in NATS", s.run)
}

func (s *Sharer) run(ctx context.Context) error {
	b := s.Stream.book()
	b.stream.options.Reader = s.Pages == nil
	if _, err := b.stream.open(ctx); s.Pages == nil && errors.Is(err, jetstream.ErrStreamNotFound) {
		<-ctx.Done() // no contents were ever shared
		return ctx.Err()
	} else if err != nil {
		return b.stream.fail("open", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel(nil)
	following.Go(func() { cancel(b.follow(ctx)) })
	err := s.Journal.Wait(ctx, protocol.Cursor{}) // until the site was scanned
	if err == nil {
		err = b.ask(ctx)
	}
	b.mu.Lock()
	s.out, s.held, s.walked = &pageWriter{book: b, fence: b.fence, told: b.at, pages: map[pageID]shown{}}, map[string]bool{}, time.Time{}
	b.mu.Unlock()
	for err == nil {
		var more bool
		if more, err = s.step(ctx); err == nil && !more {
			late, cancel := context.WithTimeout(ctx, time.Second) // the files of pages may vanish without a change
			s.requests.wait(late, func(ctx context.Context) error { return s.Journal.Wait(ctx, s.out.told.Cursor) })
			cancel()
		}
	}
	return errors.Join(err, context.Cause(ctx))
}

// step stores some of what has changed, and reports whether there is more.
func (s *Sharer) step(ctx context.Context) (more bool, err error) {
	pages, purges := s.requests.take()
	for page := range purges {
		if err := s.out.withdraw(ctx, idOf(page)); err != nil {
			return false, err
		}
	}
	at := s.out.told
	if at.Closed = s.Pages == nil || s.Closed(); len(purges) > 0 || at.Closed != s.out.told.Closed {
		if err := s.out.flush(ctx, at); err != nil {
			return false, err
		}
	}
	if s.requests.done(purges); at.Closed {
		s.walked = time.Time{}
		return false, ctx.Err()
	}
	if pages == nil {
		pages = map[string]bool{}
	}
	changes, err := s.Journal.Read(ctx, at.Cursor, protocol.MaxBatch)
	anew := at.Cursor.IsZero() || errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch)
	if anew || time.Since(s.walked) > s.Every {
		at.Cursor, changes = s.Journal.Head(), nil
		err = s.walk(ctx)
	}
	if err != nil {
		return false, err
	}
	for _, c := range changes {
		pages[c.Item.URL], at.Cursor.Seq = true, c.Seq
		if c.From != "" {
			pages[c.From] = true
		}
	}
	if err := s.missing(pages); err != nil {
		return false, err
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		if _, err := s.judge(ctx, page); err != nil {
			return false, err
		}
	}
	if len(s.out.batch) > 0 || at.Cursor != s.out.told.Cursor {
		err = s.out.flush(ctx, at)
	}
	return len(changes) > 0, errors.Join(err, ctx.Err())
}

// missing adds the pages whose files have vanished, or come back, which is no change yet.
func (s *Sharer) missing(pages map[string]bool) error {
	v, err := s.Journal.View()
	if err != nil {
		return err
	}
	defer v.Close()
	held := map[string]bool{}
	for e, err := range v.Held() {
		if err != nil {
			return err
		}
		if held[e.Item.URL] = true; !s.held[e.Item.URL] {
			pages[e.Item.URL] = true
		}
	}
	for page := range s.held {
		if !held[page] {
			pages[page] = true
		}
	}
	s.held = held
	return nil
}

// walk compares all pages with the stream.
func (s *Sharer) walk(ctx context.Context) error {
	s.out.book.mu.Lock()
	left := maps.Clone(s.out.book.pages)
	s.out.book.mu.Unlock()
	for after := ""; ; {
		pages, err := s.pagesAfter(after)
		if err != nil {
			return err
		}
		for _, page := range pages {
			id, err := s.judge(ctx, page)
			if err != nil {
				return err
			}
			delete(left, id)
		}
		if len(pages) == 0 {
			break
		}
		after = pages[len(pages)-1]
	}
	for id := range left {
		if err := s.out.withdraw(ctx, id); err != nil {
			return err
		}
	}
	s.walked = time.Now()
	return nil
}

// pagesAfter returns some of the site's pages, in their order.
func (s *Sharer) pagesAfter(after string) (pages []string, err error) {
	v, err := s.Journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	r := v.Reader("", true, after)
	for len(pages) < protocol.MaxBatch {
		e, ok, err := r.Next()
		if err != nil || !ok {
			return pages, err
		}
		pages = append(pages, e.Item.URL)
	}
	return pages, nil
}

// judge adds to the batch what the stream does not say yet of a page.
func (s *Sharer) judge(ctx context.Context, url string) (pageID, error) {
	id := idOf(url)
	is := s.out.book.page(id)
	e, ok, err := s.Journal.Get(url)
	if err != nil {
		return id, err
	}
	item := &e.Item
	if !ok || !e.Held.IsZero() || item.Digest.IsZero() {
		return id, s.out.withdraw(ctx, id)
	}
	now := time.Now()
	if is.Digest == item.Digest {
		until, known := s.Until(url, item.Digest)
		switch {
		case !known, until.After(now) && is.Until.Sub(now) > until.Sub(now)*3/4:
			return id, nil
		case until.After(now):
			is.Until = until
			return id, s.out.show(ctx, id, is)
		}
		return id, s.out.withdraw(ctx, id)
	}
	page, err := s.Pages.Page(ctx, item, mostPage) // it may wait for the web server
	until, _ := s.Until(url, item.Digest)
	switch {
	case ctx.Err() != nil:
		return id, ctx.Err()
	case errors.Is(err, content.ErrNoVersion), err == nil && !until.After(now):
		return id, s.out.withdraw(ctx, id)
	case err != nil:
		return id, err
	}
	parts := (len(page) + partBytes - 1) / partBytes
	for part := range parts {
		if err := s.out.add(ctx, s.out.book.bodySubject(id, part), page[part*partBytes:min(len(page), (part+1)*partBytes)], 0); err != nil {
			return id, err
		}
	}
	if err := s.out.empty(ctx, id, parts, is.Parts); err != nil {
		return id, err
	}
	return id, s.out.show(ctx, id, shown{Digest: item.Digest, Until: until, Parts: parts})
}
