package jetlog

import (
	"context"
	"errors"
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

	// Pages delivers only bytes that anybody may have. Nil: no contents are shared any more, and the next five fields are not used.
	Pages content.Pages

	// Until returns until when anybody may have the bytes of a page, the zero time if nobody may, and false if nothing is known
	// here: then what the last writer stored stands.
	Until func(page string, d protocol.Digest) (until time.Time, known bool)

	// Earlier is how many bytes of earlier versions of the pages are kept in the stream, for differences. They go with their page.
	Earlier int64

	Archives Archives // of the whole site; nil if none are made

	Closed func() bool   // no bytes may be delivered, of no page
	Every  time.Duration // all pages are compared with the stream so often
	Logger *slog.Logger

	requests shareRequests
	archives archiveSharer

	run sharerRun
}

// A sharerRun is what only Run uses of a Sharer.
type sharerRun struct {
	out    *pageWriter
	walked time.Time
	held   map[string]bool // pages whose files are missing
}

// shareRequests are what a Sharer is to do beside what the journal says.
type shareRequests struct {
	mu        sync.Mutex // guards the fields below
	changed   map[string]bool
	purges    map[string]chan struct{} // by page; closed when the stream has nothing of it
	forgotten time.Time                // of what was withdrawn before the last of them: no door delivers that any more
	wake      context.CancelFunc
}

// add adds a page that has changed, or is to be purged: then it returns what is closed when that is done.
func (r *shareRequests) add(page string, purge bool) (gone chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purges == nil {
		r.changed, r.purges = map[string]bool{}, map[string]chan struct{}{}
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

// again wakes who waits for requests.
func (r *shareRequests) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake != nil {
		r.wake()
	}
}

// take returns the pages that have changed, once.
func (r *shareRequests) take() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := map[string]bool{}
	maps.Copy(changed, r.changed)
	clear(r.changed)
	return changed
}

// purging returns the pages that are to be purged, until that is done.
func (r *shareRequests) purging() map[string]chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.purges)
}

func (r *shareRequests) done(purges map[string]chan struct{}, withdrew time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = withdrew.Add(Forgotten)
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

// Purge removes the bytes of a page from the stream, and of all pages that the journal does not have any more; only of those if the
// page is empty. It returns when no door delivers them, nor anything that was withdrawn before. If they are still the page's, and public,
// they are stored again.
func (s *Sharer) Purge(ctx context.Context, page string) error {
	gone := s.requests.add(page, true)
	late, cancel := context.WithTimeout(ctx, purgePatience)
	defer cancel()
	select {
	case <-gone:
		s.requests.mu.Lock()
		left := time.Until(s.requests.forgotten)
		s.requests.mu.Unlock()
		return pause.Sleep(ctx, left)
	case <-late.Done():
		return errors.New("NATS does not answer: what is withdrawn is withdrawn from all doors as soon as it does")
	}
}

// purgePatience is how long Purge waits for NATS.
const purgePatience = 20 * time.Second

// Run stores what is public, as it changes, until ctx ends, or another writer goes on (ErrFenced).
func (s *Sharer) Run(ctx context.Context) error {
	return persist(ctx, s.Logger, "the contents of pages cannot be stored in NATS", s.share)
}

func (s *Sharer) share(ctx context.Context) error {
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
	s.archives.open(s.Stream, s.Archives, s.Logger)
	following.Go(func() { s.archives.run(ctx, b, s.requests.again) })
	err := s.Journal.Wait(ctx, protocol.Cursor{}) // until the site was scanned
	if err == nil {
		err = b.ask(ctx)
	}
	b.mu.Lock()
	s.run.out, s.run.held, s.run.walked = &pageWriter{book: b, fence: b.fence, told: b.at, pages: map[pageID]shown{}, most: s.Earlier, withdrew: time.Now()}, map[string]bool{}, time.Time{}
	for _, is := range b.pages {
		s.run.out.old += is.earlier()
	}
	b.mu.Unlock()
	if err == nil {
		err = s.run.out.trim(ctx)
	}
	for err == nil {
		var more bool
		if more, err = s.step(ctx); err == nil && !more {
			late, cancel := context.WithTimeout(ctx, time.Second) // the files of pages may vanish without a change
			s.requests.wait(late, func(ctx context.Context) error { return s.Journal.Wait(ctx, s.run.out.told.Cursor) })
			cancel()
		}
	}
	return errors.Join(err, context.Cause(ctx))
}

// step stores some of what has changed, and reports whether there is more.
func (s *Sharer) step(ctx context.Context) (more bool, err error) {
	pages, at := s.requests.take(), s.run.out.told
	if at.Closed = s.Pages == nil || s.Closed(); at.Closed != s.run.out.told.Closed {
		err = s.run.out.flush(ctx, at)
	}
	if err == nil {
		err = s.obey(ctx)
	}
	if err == nil {
		err = s.archives.name(ctx, s.run.out, false)
	}
	if at.Closed || err != nil {
		s.run.walked = time.Time{}
		return false, errors.Join(err, ctx.Err())
	}
	changes, err := s.Journal.Read(ctx, at.Cursor, protocol.MaxBatch)
	anew := at.Cursor.IsZero() || errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch)
	if anew || time.Since(s.run.walked) > s.Every {
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
		if err := s.judge(ctx, page); err != nil {
			return false, err
		}
	}
	if len(s.run.out.batch) > 0 || at.Cursor != s.run.out.told.Cursor {
		err = s.run.out.flush(ctx, at)
	}
	return len(changes) > 0, errors.Join(err, ctx.Err())
}

// obey does at once, before anything else is stored, what [Sharer.Purge] is to do.
func (s *Sharer) obey(ctx context.Context) error {
	purges := s.requests.purging()
	if len(purges) == 0 {
		return nil
	}
	err := s.run.out.flush(ctx, s.run.out.told) // then the book has what is in the batch
	for page := range purges {
		err = errors.Join(err, s.run.out.withdraw(ctx, idOf(page)))
	}
	if err == nil && s.run.out.told.Cursor == s.Journal.Head() {
		err = s.run.out.flush(ctx, s.run.out.told)
	} else if err == nil {
		err = s.sweep(ctx)
	}
	if err == nil {
		err = s.archives.name(ctx, s.run.out, true)
	}
	if err == nil {
		s.requests.done(purges, s.run.out.withdrew)
	}
	return err
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
		if held[e.Item.URL] = true; !s.run.held[e.Item.URL] {
			pages[e.Item.URL] = true
		}
	}
	for page := range s.run.held {
		if !held[page] {
			pages[page] = true
		}
	}
	s.run.held = held
	return nil
}

// sweep withdraws the pages that the journal does not have any more, and stores the batch.
func (s *Sharer) sweep(ctx context.Context) error {
	here := map[pageID]bool{}
	err := s.each(func(page string) error { here[idOf(page)] = true; return ctx.Err() })
	var left []pageID
	s.run.out.book.mu.Lock()
	for id := range s.run.out.book.pages {
		if !here[id] {
			left = append(left, id)
		}
	}
	s.run.out.book.mu.Unlock()
	for i := 0; i < len(left) && err == nil; i++ {
		err = s.run.out.withdraw(ctx, left[i])
	}
	if err == nil {
		err = s.run.out.flush(ctx, s.run.out.told)
	}
	return err
}

// walk compares all pages with the stream.
func (s *Sharer) walk(ctx context.Context) error {
	err := s.sweep(ctx) // first: storing what is missing may take long
	if err == nil {
		err = s.each(func(page string) error { return s.judge(ctx, page) })
	}
	s.run.walked = time.Now()
	return err
}

// each calls f with the site's pages, in their order, until it fails.
func (s *Sharer) each(f func(page string) error) error {
	for after := ""; ; {
		pages, err := s.pagesAfter(after)
		if err != nil || len(pages) == 0 {
			return err
		}
		for _, after = range pages {
			if err := f(after); err != nil {
				return err
			}
		}
	}
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
func (s *Sharer) judge(ctx context.Context, url string) error {
	if err := s.obey(ctx); err != nil {
		return err
	}
	id := idOf(url)
	is := s.run.out.page(id)
	e, ok, err := s.Journal.Get(url)
	if err != nil {
		return err
	}
	item := &e.Item
	if !ok || !e.Held.IsZero() || item.Digest.IsZero() {
		return s.run.out.withdraw(ctx, id)
	}
	now := time.Now()
	if is.Digest == item.Digest {
		until, known := s.Until(url, item.Digest)
		switch {
		case !known, until.After(now) && is.Until.Sub(now) > until.Sub(now)*3/4:
			return nil
		case until.After(now):
			is.Until = until
			return s.run.out.show(ctx, id, is)
		}
		return s.run.out.withdraw(ctx, id)
	}
	page, err := s.Pages.Page(ctx, item, mostPage) // it may wait for the web server
	until, known := s.Until(url, item.Digest)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, content.ErrNoVersion):
		return err
	case (err != nil || !until.After(now)) && !known:
		return s.run.out.hide(ctx, id)
	case err != nil, !until.After(now):
		return s.run.out.withdraw(ctx, id)
	}
	v := version{Digest: item.Digest, Length: int64(len(page))}
	err = s.run.out.store(ctx, id, &v, page)
	if err == nil {
		err = s.run.out.show(ctx, id, shown{version: v, Until: until, Old: s.run.out.earlier(&is, v.Digest)})
	}
	if err == nil {
		err = s.run.out.trim(ctx)
	}
	return err
}
