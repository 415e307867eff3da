package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/internal/web"
)

const (
	// mostCoded is the size in bytes of the largest manifest that is served compressed,
	// since its compressed form is held in memory. A larger one is better compressed
	// once, as a file, by the web server that serves it.
	mostCoded = 64 << 20

	mostFeeds     = 16      // feeds that are cached
	mostFeedBytes = 4 << 20 // bytes of all of them

	// mostFeedChanges is how far back a feed goes.
	mostFeedChanges = 20_000

	// feedWait is how long a request waits while feeds are made for others, before it
	// is answered with the whole manifest.
	feedWait = time.Second
)

// manifestForms are the other forms of one published manifest, made at the first request.
type manifestForms struct {
	mu    sync.Mutex
	coded map[string][]byte // by content coding

	feeding sync.Mutex        // guards the fields below, and is never held for long
	feeds   map[uint64][]byte // the changes since a Seq; nil: larger than a whole manifest
	order   []uint64          // the keys of feeds, oldest first
	bytes   int               // of feeds
}

// ServeHTTP serves the manifest with a strong entity tag: GET, HEAD, ranges,
// conditional requests, gzip and zstd. Before there is one it answers 503.
//
// A request with "A-IM: feed" and the entity tag of an earlier manifest is answered 226
// with the changes since (RFC 3229): a manifest that is not complete, of the items whose
// bytes are new or changed and of tombstones, with the cursor and the entity tag of the
// whole one. If none of its tags is usable here any more the answer is the whole manifest.
//
// A request for a path in a directory whose name ends in PartsSuffix is answered with the part of that name, which
// never changes, and 404 if it is not there any more.
func (s *Snapshot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if dir, name := path.Split(r.URL.Path); strings.HasSuffix(dir, PartsSuffix+"/") {
		s.servePart(w, r, name)
		return
	}
	f, st := s.open()
	if f == nil {
		web.Unavailable("the manifest has not been written yet").Write(w, r)
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", protocol.ManifestType)
	h.Set("Cache-Control", "no-cache") // revalidate, and get 304
	h.Add("Vary", "Accept-Encoding, A-IM")
	h.Set("Etag", st.etag)
	// A Last-Modified in the future, from a clock that was ahead, must not be sent (RFC 9110,
	// 8.8.2.1), and a client that was sent one then has nothing to compare with now.
	modified, now := st.info.ModTime(), time.Now()
	if known, err := http.ParseTime(r.Header.Get("If-Modified-Since")); modified.After(now) || err == nil && known.After(now) {
		modified = time.Time{}
	}
	name := web.Accepted(r.Header)
	tags := web.EntityTags(r.Header)
	for _, t := range tags {
		if bare(t) == st.etag { // in any content coding, it is the present manifest
			h.Set("Etag", t)
			http.ServeContent(w, r, "", modified, f)
			return
		}
	}
	if r.Method == http.MethodGet && r.Header.Get("Range") == "" && web.HasToken(r.Header.Values("A-Im"), "feed") {
		if b := s.feed(r.Context(), st, tags); b != nil {
			serveFeed(w, b, name)
			return
		}
	}
	if name != "" {
		b, err := st.code(f, name)
		if err != nil {
			web.Plain(http.StatusInternalServerError, "the manifest could not be read").Write(w, r)
			return
		}
		if b != nil {
			h.Set("Content-Encoding", name)
			h.Set("Etag", strings.TrimSuffix(st.etag, `"`)+"-"+name+`"`)
			http.ServeContent(w, r, "", modified, bytes.NewReader(b))
			return
		}
	}
	http.ServeContent(w, r, "", modified, f)
}

// servePart serves a part, or the copy of it in the content coding that the client prefers.
func (s *Snapshot) servePart(w http.ResponseWriter, r *http.Request, name string) {
	coding, tag := web.Accepted(r.Header), strings.TrimSuffix(name, partExt)
	file := filepath.Join(s.partsDir(), name)
	f, err := (*os.File)(nil), os.ErrNotExist
	if isPart(name) {
		f, err = stat.Open(file + map[string]string{web.Zstd: ".zst", web.Gzip: ".gz"}[coding])
		if errors.Is(err, os.ErrNotExist) { // a short part has no copies
			coding = ""
			f, err = stat.Open(file)
		}
	}
	if err != nil {
		web.Plain(http.StatusNotFound, "the manifest does not have this part any more: read its index again").Write(w, r)
		return
	}
	defer f.Close()
	if coding != "" {
		w.Header().Set("Content-Encoding", coding)
		tag += "-" + coding
	}
	h := web.SetType(w, protocol.ManifestType, "public, max-age=31536000, immutable")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Etag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
}

// bare returns a tag without its suffix for the content coding.
func bare(tag string) string {
	for _, name := range []string{web.Zstd, web.Gzip} {
		if t, ok := strings.CutSuffix(tag, "-"+name+`"`); ok {
			return t + `"`
		}
	}
	return tag
}

// cursorIn returns the cursor in an entity tag.
func cursorIn(tag string) (protocol.Cursor, bool) {
	parts := strings.Split(strings.Trim(tag, `"`), ".")
	if len(parts) != 3 {
		return protocol.Cursor{}, false
	}
	seq, err := strconv.ParseUint(parts[1], 10, 64)
	return protocol.Cursor{Epoch: parts[0], Seq: seq}, err == nil
}

// code returns the manifest in a content coding; nil if it is too long, or too short, for that.
func (st *published) code(f *os.File, name string) ([]byte, error) {
	if st.info.Size() > mostCoded || st.info.Size() < web.LeastCoded {
		return nil, nil
	}
	st.forms.mu.Lock()
	defer st.forms.mu.Unlock()
	if b := st.forms.coded[name]; b != nil {
		return b, nil
	}
	var b bytes.Buffer
	z := coding.NewGzip(&b)
	if name == web.Zstd {
		z = coding.NewZstd(&b)
	}
	if _, err := io.Copy(z, io.NewSectionReader(f, 0, st.info.Size())); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if st.forms.coded == nil {
		st.forms.coded = make(map[string][]byte)
	}
	st.forms.coded[name] = b.Bytes()
	return b.Bytes(), nil
}

// serveFeed answers with the changes since an earlier manifest.
func serveFeed(w http.ResponseWriter, b []byte, name string) {
	h := w.Header()
	h.Set("Im", "feed")
	h.Set("Cache-Control", "no-store, im") // RFC 3229, 10.8.3: for those who know only 200
	if name != "" && len(b) >= web.LeastCoded {
		h.Set("Content-Encoding", name)
		b = new(web.Coder).Code(name, b)
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(http.StatusIMUsed)
	w.Write(b) // the client may have gone
}

// feed returns the changes since the manifest of one of the tags; nil if they are
// not known, or larger than the whole manifest.
func (s *Snapshot) feed(ctx context.Context, st *published, tags []string) []byte {
	s.mu.RLock()
	j := s.journal
	s.mu.RUnlock()
	if j == nil {
		return nil
	}
	for _, t := range tags {
		since, ok := cursorIn(bare(t))
		if !ok || since.Epoch != st.cursor.Epoch || since.Seq >= st.cursor.Seq || st.cursor.Seq-since.Seq > mostFeedChanges {
			continue
		}
		if b, err := s.feedSince(ctx, j, st, since); b != nil && err == nil {
			return b
		}
	}
	return nil // the whole manifest has these changes too
}

// feedSince returns a cached feed, or makes it: one at a time, so that requests for
// many different feeds use no more than one processor.
func (s *Snapshot) feedSince(ctx context.Context, log protocol.Log, st *published, since protocol.Cursor) ([]byte, error) {
	if b, known := st.forms.feed(since.Seq); known {
		return b, nil
	}
	s.mu.Lock()
	if s.feeder == nil {
		s.feeder = make(chan struct{}, 1)
	}
	feeder := s.feeder
	s.mu.Unlock()
	late, stop := context.WithTimeout(ctx, feedWait)
	defer stop()
	select {
	case feeder <- struct{}{}:
		defer func() { <-feeder }()
	case <-late.Done():
		return nil, late.Err()
	}
	if b, known := st.forms.feed(since.Seq); known {
		return b, nil
	}
	b, err := s.makeFeed(ctx, log, st, since)
	if err == nil {
		st.forms.keep(since.Seq, b)
	}
	return b, err
}

// feed returns a cached feed.
func (m *manifestForms) feed(since uint64) (b []byte, known bool) {
	m.feeding.Lock()
	defer m.feeding.Unlock()
	b, known = m.feeds[since]
	return b, known
}

// keep caches a feed, in place of the oldest ones if there are too many.
func (m *manifestForms) keep(since uint64, feed []byte) {
	if len(feed) > mostFeedBytes {
		return
	}
	m.feeding.Lock()
	defer m.feeding.Unlock()
	for len(m.order) >= mostFeeds || m.bytes+len(feed) > mostFeedBytes {
		m.bytes -= len(m.feeds[m.order[0]])
		delete(m.feeds, m.order[0])
		m.order = m.order[1:]
	}
	if m.feeds == nil {
		m.feeds = make(map[uint64][]byte)
	}
	m.feeds[since] = feed
	m.order = append(m.order, since)
	m.bytes += len(feed)
}

// errLonger ends the writing of a feed that becomes longer than a whole manifest.
var errLonger = errors.New("longer than the whole manifest")

// makeFeed returns the changes from since to the manifest, as a manifest of
// its own that is not complete; nil if it is longer than the whole one.
func (s *Snapshot) makeFeed(ctx context.Context, log protocol.Log, st *published, since protocol.Cursor) ([]byte, error) {
	items, gone := make(map[string]protocol.Item), make(map[string]protocol.Tombstone)
	var newest time.Time
	for at := since; at.Seq < st.cursor.Seq; {
		changes, err := log.Read(ctx, at, int(min(st.cursor.Seq-at.Seq, protocol.MaxBatch)))
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			at.Seq, newest = c.Seq, clock.Later(newest, c.At)
			c, ok := c.Public(s.isPublic)
			if !ok {
				continue
			}
			if t, ok := c.Tombstone(); ok {
				delete(items, t.URL)
				gone[t.URL] = t
			}
			if c.Op != protocol.Delete {
				delete(gone, c.Item.URL)
				items[c.Item.URL] = c.Item
			}
		}
		if len(changes) == 0 {
			return nil, errors.New("the journal has no such change")
		}
	}
	m := s.Manifest
	m.Cursor, m.Modified, m.Complete, m.Items = st.cursor, newest, false, len(items)
	b := limited{most: st.length}
	err := protocol.WriteManifest(&b, m, func(yield func(protocol.Item, error) bool) {
		for _, url := range slices.SortedFunc(maps.Keys(items), protocol.Compare) {
			if !yield(items[url], nil) {
				return
			}
		}
	}, func(yield func(protocol.Tombstone, error) bool) {
		newestFirst := func(a, b protocol.Tombstone) int { return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.URL, b.URL)) }
		for _, t := range slices.SortedFunc(maps.Values(gone), newestFirst) {
			if !yield(t, nil) {
				return
			}
		}
	})
	if errors.Is(err, errLonger) {
		return nil, nil
	}
	return b.b, err
}

// limited is a writer to memory, of less than most bytes.
type limited struct {
	b    []byte
	most int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(l.b)+len(p)) >= l.most {
		return 0, errLonger
	}
	l.b = append(l.b, p...)
	return len(p), nil
}
