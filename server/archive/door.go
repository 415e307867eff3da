package archive

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/web"
)

// Latest implements [content.Archive].
func (m *Maker) Latest() (content.Archived, bool) {
	m.lock()
	defer m.mu.Unlock()
	if f := m.latest(); f != nil {
		return f.Archived, true
	}
	return content.Archived{}, false
}

// IsDueSoon implements [content.Archive].
func (m *Maker) IsDueSoon() bool {
	m.lock()
	defer m.mu.Unlock()
	if !m.schedule.running {
		return false
	}
	s, k := &m.schedule, &m.stock
	if s.isBusy() || k.unsound() {
		return true
	}
	if m.Pages == nil {
		return false
	}
	// It is worth waiting for an archive that is due soon: else the reader would get
	// changes and fetch the pages one by one.
	good := k.good()
	return (len(good) == 0 || k.isOther(good[0])) && !s.unmade && s.rest() < s.every
}

// Within implements [content.Archive].
func (m *Maker) Within(may func(url string) bool) bool {
	m.lock()
	list := m.stock.good()
	m.mu.Unlock()
	for _, f := range list {
		if ok, err := f.within(nil, may, nil); err != nil || !ok {
			return false
		}
	}
	return true
}

// Wait implements [content.Archive].
func (m *Maker) Wait(ctx context.Context, a content.Archived) error {
	m.init()
	for {
		m.mu.Lock()
		now := content.Archived{}
		f := m.latest()
		if f != nil {
			now = f.Archived
		}
		wake, s := m.stock.wake, &m.schedule
		var rested <-chan time.Time // when another is due
		if rest := s.rest(); !s.isBusy() && (f == nil || m.stock.isOther(f)) && rest > 0 {
			rested = time.After(rest + time.Millisecond)
		}
		m.mu.Unlock()
		if now != a {
			return nil
		}
		select {
		case <-wake:
		case <-rested:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// retry is the Retry-After while an archive is being made, and how long a request waits for it.
const retry = 5 * time.Second

// ServeHTTP sends the newest archive, or with the parameter at the one of that
// cursor. It supports Range. A request that continues the download of the previous
// archive, by If-Range, gets that one. If there is no archive but one is being made, it
// waits a few seconds.
func (m *Maker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.init()
	at := r.URL.Query().Get("at")
	f, in, err := m.find(at, r.Header.Get("If-Range"))
	if err != nil && at == "" && r.Method != http.MethodHead && m.isNear() {
		ctx, cancel := context.WithTimeout(r.Context(), retry)
		m.Wait(ctx, content.Archived{}) // an error only means that it takes longer
		cancel()
		f, in, err = m.find(at, "")
	}
	switch {
	case err != nil && at != "":
		web.Plain(http.StatusGone, "there is no archive at cursor "+at+": omit the parameter at to get the newest").Write(w, r)
		return
	case err != nil:
		p := web.Plain(http.StatusServiceUnavailable, "the archive is not ready yet")
		p.Retry = retry
		p.Write(w, r)
		return
	}
	defer in.Close()
	h := web.SetType(w, "application/wacz", "no-cache") // revalidate, and get 304
	h.Set("Etag", f.etag)
	h.Set("Repr-Digest", f.Digest.String())
	h.Set("Parley-Cursor", f.Cursor.String())
	http.ServeContent(guarded{w, m, f, in}, r, "", time.Time{}, in)
}

// guarded aborts a download as soon as the archive must not be served any more.
type guarded struct {
	http.ResponseWriter
	m  *Maker
	f  *file
	in *os.File
}

func (g guarded) Write(b []byte) (int, error) {
	g.m.mu.Lock()
	named, err := g.m.stock.named(g.f.Archived)
	if err == nil && !named || !g.m.stock.check(g.f, g.in) {
		g.f.void = true
	}
	void := g.f.void
	g.m.mu.Unlock()
	if void || err != nil {
		panic(http.ErrAbortHandler) // the client must notice that it is incomplete
	}
	return g.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (g guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

var _ content.Archive = (*Maker)(nil)

// isNear reports whether the next archive is worth the wait of a request: it will be made within retry, if it takes as
// long as the last one. Requests that wait hold places that bundles need too.
func (m *Maker) isNear() bool {
	if !m.IsDueSoon() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.schedule
	wait := s.stats.Took
	if !s.isBusy() {
		wait += s.rest()
	}
	return wait < retry
}

// find opens the archive for a request: the one of the cursor at, the one with the
// entity tag part, or the newest.
func (m *Maker) find(at, part string) (*file, *os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.latest()
	if at != "" {
		f = nil
	}
	for _, k := range m.stock.kept {
		if k.verified && (at != "" && k.Cursor.String() == at || at == "" && part != "" && k.etag == part) {
			f = k
		}
	}
	if f == nil {
		return nil, nil, os.ErrNotExist
	}
	in, err := os.Open(f.path)
	return f, in, err
}
