package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A Maker makes archives of a site and serves them. It is a [server.Archive].
//
// Run makes them, one at a time. It begins with those that an earlier process
// has left in Dir: they are read, and those that have not the digest which they
// had go. Without it there are none. Two at most are kept: the newest, and the one before,
// for those who are still downloading it. While one is made there stand its
// data in Dir too, twice.
//
// Fields are not to be changed once a method has been called. The methods may
// be called by many goroutines at once.
type Maker struct {
	Dir     string // where the archives stand; it is made if it is not there, and nothing else belongs there
	Base    string // the site's base URL
	Title   string // for people; empty means Base
	Journal *server.Journal
	Pages   server.Pages

	// Public says which URLs may be told to anybody now; nil means all. An
	// archive with one that may not be is thrown away.
	Public func(url string) bool

	// Given reports whether the bytes of a page that is in an archive may still be
	// given to anybody. Nil: they may. An archive with other ones is thrown away.
	Given func(url string) bool

	// Settle, if not nil, blocks until it is known what may be given to anybody,
	// or ctx ends: no archive is made before. Givable, if not nil, is of how
	// many pages that is known now: an archive that holds the bytes of far fewer, by Share, is
	// due to be made anew.
	Settle  func(context.Context) error
	Givable func() int

	// Share is how many changes there must be since the newest archive was
	// made for a newer one to be due, as a share of its pages. Zero means a half.
	Share float64

	// Every is the shortest time between two archives, and how long a page must be
	// gone for a newer one to be due that does not hold it. Zero means 10
	// minutes. None is made for what has gone, or changed, for more than a twentieth of the
	// time; for the changes of Share that alone counts, and not Every.
	Every time.Duration

	// MaxAge is how long a page may be gone, or another than it was, that is in an
	// archive which is given to anybody, or stands in Dir. Zero means an hour.
	MaxAge time.Duration

	// NoArchive reports whether a page asks that no copy of it be kept: then an
	// archive names it, without its bytes. Nil: none does.
	NoArchive func(item *protocol.Item, page []byte) bool

	MaxPage  int64 // bytes of a page whose bytes are in an archive; zero means 64 MiB
	MaxBytes int64 // bytes of an archive's data; zero means 16 GiB

	// Reserve is how much of the file system is left to others, in bytes: first
	// of all to the journal. Where less is free no archive is made. Zero means a
	// twentieth of the file system, at least 64 MiB and at most 1 GiB.
	Reserve int64

	Logger *slog.Logger
	Now    func() time.Time

	once sync.Once

	mu      sync.Mutex
	failed  error         // of reading Dir
	kept    []*file       // newest first
	wake    chan struct{} // closed when kept changes
	ask     chan struct{} // has one when an archive is due
	asked   bool          // ask has one, or Run has just taken it
	running bool
	making  bool
	purged  int       // how often Purge was called
	full    bool      // the last one was not made since the disk is nearly full
	unmade  bool      // the last one could not be made
	began   time.Time // when the last one was begun to be made
	stats   Stats
}

func (m *Maker) public(url string) bool { return m.Public == nil || m.Public(url) }

func (m *Maker) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

func (m *Maker) log() *slog.Logger {
	if m.Logger != nil {
		return m.Logger
	}
	return slog.New(slog.DiscardHandler)
}

func (m *Maker) title() string {
	if m.Title != "" {
		return m.Title
	}
	return m.Base
}

func (m *Maker) share() float64 {
	if m.Share > 0 {
		return m.Share
	}
	return 0.5
}

func (m *Maker) every() time.Duration {
	if m.Every > 0 {
		return m.Every
	}
	return 10 * time.Minute
}

func (m *Maker) maxAge() time.Duration {
	if m.MaxAge > 0 {
		return m.MaxAge
	}
	return time.Hour
}

func (m *Maker) maxPage() int64 {
	if m.MaxPage > 0 {
		return m.MaxPage
	}
	return 64 << 20
}

func (m *Maker) maxBytes() int64 {
	if m.MaxBytes > 0 {
		return m.MaxBytes
	}
	return 16 << 30
}

// init takes over what an earlier process has left.
func (m *Maker) init() {
	m.once.Do(func() {
		m.wake, m.ask = make(chan struct{}), make(chan struct{}, 1)
		if m.failed = os.MkdirAll(m.Dir, 0o700); m.failed != nil {
			return
		}
		torn, _ := filepath.Glob(filepath.Join(m.Dir, tempPattern)) // the pattern is good
		for _, name := range torn {
			os.Remove(name)
		}
		var list []fs.DirEntry
		if list, m.failed = os.ReadDir(m.Dir); m.failed != nil {
			return
		}
		for _, e := range list {
			if f, ok := openFile(filepath.Join(m.Dir, e.Name())); ok {
				m.kept = append(m.kept, f)
			}
		}
		slices.SortFunc(m.kept, func(a, b *file) int { return int(b.Cursor.Seq) - int(a.Cursor.Seq) })
	})
}

// Open prepares Dir, and returns an error if archives cannot stand there: then
// there will be none, and Run returns that error too. It need not be called.
func (m *Maker) Open() error {
	m.init()
	if m.failed != nil {
		return fmt.Errorf("archive: %w", m.failed)
	}
	return nil
}

// Run makes an archive whenever one is due, until ctx ends.
func (m *Maker) Run(ctx context.Context) error {
	if err := m.Open(); err != nil {
		return err
	}
	m.mu.Lock()
	m.running = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.running, m.making, m.asked = false, false, len(m.ask) > 0
		m.mu.Unlock()
	}()
	if err := m.verify(ctx); err != nil {
		return err
	}
	tidy := time.NewTicker(max(m.maxAge()/tidyPart, time.Millisecond))
	defer tidy.Stop()
	for {
		select {
		case <-m.ask:
		case <-tidy.C: // what nobody asks for does not stay for that
			m.mu.Lock()
			m.good()
			m.mu.Unlock()
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		m.mu.Lock()
		purged := m.purged
		m.making, m.asked, m.began = true, false, m.now()
		m.forget(1) // room for the new one
		m.mu.Unlock()
		if m.Settle != nil {
			if err := m.Settle(ctx); err != nil {
				return err
			}
		}
		began := m.now()
		m.mu.Lock()
		m.began = began
		m.mu.Unlock()
		f, err := m.make(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.count(err, m.now().Sub(began))
		again := errors.Is(err, errFull) && m.full
		m.full = errors.Is(err, errFull)
		switch {
		case again: // it is known
		case errors.Is(err, errRules): // nothing is wrong, and the next one goes by the new ones
			m.log().Info("archive is made anew", "dir", m.Dir, "why", err)
		case err != nil:
			m.log().Error("archive could not be made", "dir", m.Dir, "err", err)
		default:
			m.log().Info("archive made", "cursor", f.Cursor.String(), "items", f.Items, "bytes", f.Length, "took", m.now().Sub(began))
		}
		m.took(f, purged)
		if errors.Is(err, errRules) || errors.Is(err, errNotWhole) {
			// It is due at once, or soon, and nothing of it can be shown meanwhile.
			m.mu.Lock()
			m.began = time.Time{}
			m.mu.Unlock()
		}
	}
}

// tidyPart is how many times in MaxAge it is looked whether archives are past it.
const tidyPart = 12

// Bounds of how what an earlier process has left is read.
const (
	verifyPiece = 1 << 20
	verifyRate  = 64 << 20 // bytes in a second, at most
)

// verify reads what an earlier process has left, the newest first, and throws
// away what is not what it was. It takes half of the time for that, at most.
func (m *Maker) verify(ctx context.Context) error {
	for {
		m.mu.Lock()
		m.good()
		var f *file
		if i := slices.IndexFunc(m.kept, func(f *file) bool { return !f.sound }); i >= 0 {
			f = m.kept[i]
		}
		m.mu.Unlock()
		if f == nil {
			return nil
		}
		sound, err := f.verify(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.mu.Lock()
		if f.sound = sound; !sound {
			m.log().Error("archive thrown away: it is not what it was", "file", f.path, "err", err)
			m.kept = slices.DeleteFunc(m.kept, func(k *file) bool { return k == f })
			os.Remove(f.path)
		}
		m.changed()
		m.latest() // a newer one may be due
		m.mu.Unlock()
	}
}

// verify reports whether the archive has the digest that its name says.
func (f *file) verify(ctx context.Context) (bool, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum := sha256.New()
	for {
		began := time.Now()
		n, err := io.CopyN(sum, in, verifyPiece)
		if err == io.EOF {
			return bytes.Equal(sum.Sum(nil), f.Digest[:]), nil
		}
		if err != nil {
			return false, err
		}
		rest := time.NewTimer(max(time.Since(began), time.Duration(n)*time.Second/verifyRate))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return false, ctx.Err()
		}
	}
}

// unsound reports whether there is one of which it is not known yet what it is. mu is held.
func (m *Maker) unsound() bool {
	return slices.ContainsFunc(m.kept, func(f *file) bool { return !f.sound })
}

// Stats counts what a Maker has done since its process began.
type Stats struct {
	Made   int           `json:"made"`
	Failed int           `json:"failed"`
	Took   time.Duration `json:"took"` // the last one that was made

	// The newest there is, whether it may be given to anybody now or not.
	Cursor protocol.Cursor `json:"cursor,omitzero"`
	Items  int             `json:"items,omitempty"`
	Bytes  int64           `json:"bytes,omitempty"`
}

// Stats returns the counts as they are now. It has nothing made.
func (m *Maker) Stats() Stats {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	if len(m.kept) > 0 {
		s.Cursor, s.Items, s.Bytes = m.kept[0].Cursor, m.kept[0].Items, m.kept[0].Length
	}
	return s
}

func (m *Maker) count(err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unmade = err != nil; m.unmade {
		m.stats.Failed++
		return
	}
	m.stats.Made++
	m.stats.Took = took
}

// took makes an archive the newest, if it is not nil, and nothing was purged
// while it was made.
func (m *Maker) took(f *file, purged int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.making = false
	if f == nil {
		return
	}
	if purged != m.purged {
		os.Remove(f.path)
		m.began = time.Time{}
		return
	}
	// One of the same cursor is replaced, be it the same to the byte or not.
	m.kept = slices.DeleteFunc(m.kept, func(old *file) bool {
		if old.Cursor == f.Cursor && old.path != f.path {
			os.Remove(old.path)
		}
		return old.Cursor == f.Cursor
	})
	m.kept = slices.Insert(m.kept, 0, f)
	m.changed()
}

// Purge throws away every archive that holds a page, and the one that is being
// made. Another is made when somebody asks. It returns how many there were.
func (m *Maker) Purge(page string) (n int) {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purged++
	m.kept = slices.DeleteFunc(m.kept, func(f *file) bool {
		without, err := f.within(nil, func(url string) bool { return url != page }, nil)
		if err == nil && without {
			return false
		}
		f.void = true
		os.Remove(f.path)
		n++
		return true
	})
	if n > 0 {
		m.began = time.Time{}
		m.changed()
	}
	return n
}

// forget leaves so many of the archives. mu is held.
func (m *Maker) forget(most int) {
	for len(m.kept) > most {
		last := m.kept[len(m.kept)-1]
		os.Remove(last.path) // whoever reads it goes on to
		m.kept = m.kept[:len(m.kept)-1]
	}
}

// changed wakes who waits. mu is held.
func (m *Maker) changed() {
	close(m.wake)
	m.wake = make(chan struct{})
}

// good leaves those of the archives that may be given to anybody now, and
// returns those of them that are known to be sound. mu is held.
func (m *Maker) good() []*file {
	head := m.Journal.Head()
	n := len(m.kept)
	m.kept = slices.DeleteFunc(m.kept, func(f *file) bool {
		if head.IsZero() || f.Cursor.Epoch == head.Epoch && f.Cursor.Seq <= head.Seq && m.check(f, nil) && !m.isPast(f) {
			return false
		}
		f.void = true
		os.Remove(f.path)
		return true
	})
	if len(m.kept) < n {
		m.changed()
	}
	if head.IsZero() {
		return nil
	}
	if !m.unsound() {
		return m.kept
	}
	return slices.DeleteFunc(slices.Clone(m.kept), func(f *file) bool { return !f.sound })
}

// The time for which an archive that was found to be public is taken to be so:
// a moment, or as long as lets the finding take a twentieth.
const (
	checkEvery  = 50 * time.Millisecond
	checkFactor = 20
)

// goneFactor is how much longer than it takes to make an archive it is until
// another is made for what has gone, or changed.
const goneFactor = 20

// check reports whether all that is in an archive is public. mu is held.
func (m *Maker) check(f *file, content io.ReaderAt) bool {
	now := m.now()
	if age := now.Sub(f.checked); age >= 0 && age < max(checkEvery, checkFactor*f.took) {
		return true
	}
	began := time.Now()
	ok, err := f.within(content, m.public, m.Given)
	if err != nil {
		m.log().Error("archive could not be read", "file", f.path, "err", err)
	} else if !ok {
		m.log().Info("archive thrown away: it holds what is not public any more", "cursor", f.Cursor.String())
	}
	f.checked, f.took = now, time.Since(began)
	return err == nil && ok
}

// goneFor is for how long a page has been gone that is in an archive, and oldFor
// for how long one has been gone or another than it was. mu is held.
func (m *Maker) goneFor(f *file) time.Duration {
	m.look(f)
	return m.since(f.gone)
}

func (m *Maker) oldFor(f *file) time.Duration {
	m.look(f)
	return m.since(f.old)
}

func (m *Maker) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, m.now().Sub(t))
}

// look looks for the first page that has changed since an archive was made, and
// the first that has gone. What was not there then and is not now counts too:
// it is not worth more than this. mu is held.
func (m *Maker) look(f *file) {
	if f.read.IsZero() {
		f.read = f.Cursor
	}
	for head := m.Journal.Head(); f.gone.IsZero() && f.read.Epoch == head.Epoch && f.read.Seq < head.Seq; {
		changes, err := m.Journal.Read(context.Background(), f.read, protocol.MaxBatch)
		if errors.Is(err, protocol.ErrTooOld) {
			f.gone = m.now() // or not: nobody can say, and nobody can go on from it
			if f.old.IsZero() {
				f.old = f.gone
			}
		}
		if err != nil || len(changes) == 0 {
			return
		}
		for i := range changes {
			c := &changes[i]
			f.read.Seq = c.Seq
			goes := c.Op == protocol.Delete || c.Op == protocol.Move
			if !goes && (c.Op != protocol.Update || c.Prev == c.Item.Digest && !c.Prev.IsZero()) {
				continue
			}
			at := c.At
			if now := m.now(); at.IsZero() || at.After(now) {
				at = now
			}
			if f.old.IsZero() {
				f.old = at
			}
			if goes {
				f.gone = at
				return
			}
		}
	}
}

// isPast reports whether what an archive holds has been gone, or another, for too long. mu is held.
func (m *Maker) isPast(f *file) bool {
	past := m.oldFor(f) > m.maxAge()
	if past {
		m.log().Info("archive thrown away: it holds what is not so any more", "cursor", f.Cursor.String(), "since", f.old)
	}
	return past
}

// Latest is of [server.Archive].
func (m *Maker) Latest() (server.Archived, bool) {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.latest(); f != nil {
		return f.Archived, true
	}
	return server.Archived{}, false
}

// latest returns the newest archive, nil if there is none, and asks for a newer
// one if that is due. One from which a reader could not go on is none. mu is held.
func (m *Maker) latest() *file {
	var f *file
	if good := m.good(); len(good) > 0 && good[0].Cursor.Seq >= m.Journal.Floor().Seq {
		f = good[0]
	}
	if !m.making && !m.asked && m.due(f) {
		m.asked = true
		m.ask <- struct{}{}
	}
	return f
}

// due reports whether a newer archive is to be made. mu is held.
func (m *Maker) due(f *file) bool {
	if m.Journal.Head().IsZero() || m.failed != nil || f == nil && m.unsound() {
		return false
	}
	if m.other(f) {
		return m.rest() == 0
	}
	if m.sinceBegun() < m.every() {
		return false
	}
	if m.rest() > 0 {
		return false
	}
	return f == nil || m.Givable != nil && f.bodies >= 0 && float64(m.Givable()-f.bodies-f.left) > m.share()*float64(f.Items) ||
		m.goneFor(f) > m.every()
}

// other reports whether most of the site has changed since an archive was made. mu is held.
func (m *Maker) other(f *file) bool {
	return f != nil && float64(m.Journal.Head().Seq-f.Cursor.Seq) > m.share()*float64(f.Items)
}

// sinceBegun is how long ago the last archive was begun to be made. mu is held.
func (m *Maker) sinceBegun() time.Duration {
	if d := m.now().Sub(m.began); !m.began.IsZero() && d >= 0 {
		return d
	}
	return math.MaxInt64
}

// rest is for how long no archive is made yet, so that making them takes a
// twentieth of the time. Where the last one could not be made it is Every. mu is held.
func (m *Maker) rest() time.Duration {
	rest := goneFactor * m.stats.Took
	if m.unmade {
		rest = max(rest, m.every())
	}
	return max(0, rest-m.sinceBegun())
}

// Coming is of [server.Archive].
func (m *Maker) Coming() bool {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running {
		return false
	}
	if m.making || m.asked || m.unsound() {
		return true
	}
	// It is worth waiting for one that is due soon: whoever is told of changes
	// asks for the pages one by one.
	good := m.good()
	return len(good) > 0 && m.other(good[0]) && !m.unmade && m.rest() < m.every()
}

// Within is of [server.Archive].
func (m *Maker) Within(may func(url string) bool) bool {
	m.init()
	m.mu.Lock()
	list := slices.Clone(m.good())
	m.mu.Unlock()
	for _, f := range list {
		if ok, err := f.within(nil, may, nil); err != nil || !ok {
			return false
		}
	}
	return true
}

// Wait is of [server.Archive].
func (m *Maker) Wait(ctx context.Context, a server.Archived) error {
	m.init()
	for {
		m.mu.Lock()
		now := server.Archived{}
		f := m.latest()
		if f != nil {
			now = f.Archived
		}
		wake := m.wake
		var rested <-chan time.Time // when another is due
		if !m.making && !m.asked && m.other(f) {
			rested = time.After(m.rest() + time.Millisecond)
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

// retry is when to come again for an archive that is being made.
const retry = 5 * time.Second

// ServeHTTP sends the newest archive, or with the parameter at the one that
// stands at that cursor, by Range too. Whoever goes on with a part of the one
// before, and says so by If-Range, is given that.
func (m *Maker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.init()
	at := r.URL.Query().Get("at")
	m.mu.Lock()
	f := m.latest()
	if known := r.Header.Get("If-Range"); at == "" && known != "" {
		for _, k := range m.kept {
			if k.etag == known && k.sound {
				f = k
			}
		}
	}
	if at != "" {
		f = nil
		for _, k := range m.kept {
			if k.Cursor.String() == at && k.sound {
				f = k
			}
		}
	}
	var in *os.File
	var err error = os.ErrNotExist
	if f != nil {
		in, err = os.Open(f.path)
	}
	m.mu.Unlock()
	if err != nil {
		if at != "" {
			server.Refuse(w, r, http.StatusGone, "there is no archive that stands at "+at+": without at there is the newest", 0)
			return
		}
		server.Refuse(w, r, http.StatusServiceUnavailable, "the archive is not made yet", retry)
		return
	}
	defer in.Close()
	h := w.Header()
	h.Set("Content-Type", "application/wacz")
	h.Set("Etag", f.etag)
	h.Set("Cache-Control", "no-cache") // ask again, and be told 304
	h.Set("Repr-Digest", f.Digest.String())
	h.Set("Parley-Cursor", f.Cursor.String())
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(guarded{w, m, f, in}, r, "", time.Time{}, in)
}

// guarded stops in the middle of an archive that holds what is not public any more.
type guarded struct {
	http.ResponseWriter
	m  *Maker
	f  *file
	in *os.File
}

func (g guarded) Write(b []byte) (int, error) {
	g.m.mu.Lock()
	if !g.m.check(g.f, g.in) {
		g.f.void = true
	}
	void := g.f.void
	g.m.mu.Unlock()
	if void {
		panic(http.ErrAbortHandler) // its reader must see that it is not whole
	}
	return g.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (g guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

var _ server.Archive = (*Maker)(nil)
