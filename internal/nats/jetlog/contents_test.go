package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/versions"
)

// A site with contents: its files, what is known of them, and a door on another machine.
type contentsSite struct {
	*cluster
	stream  *jetlog.Stream
	journal *journal.Journal
	door    *running

	contents *jetlog.Contents
	pages    *versions.Store // with them
	logger   *slog.Logger    // of both

	mu     sync.Mutex
	files  map[string]string
	until  map[string]time.Time // of pages for which it is not in an hour; the zero time of those that nobody may have
	known  bool
	closed bool
	slow   chan struct{} // if not nil, each reading of a page waits for it
}

func newContentsSite(t testing.TB, servers int) *contentsSite {
	c := &contentsSite{cluster: newCluster(t, servers), logger: slog.New(slog.NewTextHandler(t.Output(), nil)), files: map[string]string{}, until: map[string]time.Time{}, known: true}
	c.stream, c.journal = c.cluster.stream(), c.site()
	c.reaches(c.tell(c.stream, c.journal), c.journal.Head())
	c.door = c.follow(c.stream, func() *journal.Journal { return c.journal })
	c.reaches(c.door, c.journal.Head())
	return c
}

// sharer returns a new writer of the contents.
func (c *contentsSite) sharer() *jetlog.Sharer {
	pages := &versions.Store{Journal: c.journal, Open: func(_ context.Context, url string) (io.ReadCloser, error) {
		c.mu.Lock()
		slow := c.slow
		c.mu.Unlock()
		if slow != nil {
			<-slow
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		text, ok := c.files[url]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}}
	return &jetlog.Sharer{Stream: c.stream, Journal: c.journal, Pages: pages, Every: time.Hour, Logger: c.logger,
		Until: func(page string, _ protocol.Digest) (time.Time, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if until, ok := c.until[page]; ok {
				return until, c.known
			}
			return time.Now().Add(time.Hour), c.known
		},
		Closed: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.closed
		}}
}

// share runs a sharer.
func (c *contentsSite) share(s *jetlog.Sharer) *sharing {
	ctx, cancel := context.WithCancel(c.Context())
	r, err := &sharing{ended: make(chan struct{})}, error(nil)
	go func() {
		defer close(r.ended)
		err = s.Run(ctx)
	}()
	r.stop = func() error {
		cancel()
		<-r.ended
		return err
	}
	c.Cleanup(func() { r.stop() })
	return r
}

type sharing struct {
	ended chan struct{}
	stop  func() error // ends it, and returns its error
}

// deliver starts another door for contents.
func (c *contentsSite) deliver() {
	c.contents = jetlog.NewContents(c.door.Log, c.logger)
	contents := c.contents
	c.pages = &versions.Store{Journal: c.door.Journal, Open: contents.Open, Earlier: contents.Earlier}
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		contents.Follow(ctx)
	}()
	c.Cleanup(func() { cancel(); <-ended })
}

func urlOf(path string) string { return "https://site.example/" + path }

// set does what f does to the site.
func (c *contentsSite) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// write writes a page, and returns it when the door was told of it.
func (c *contentsSite) write(path, text string) *protocol.Item {
	c.Helper()
	c.set(func() { c.files[urlOf(path)] = text })
	s := step(protocol.Update, path, text)
	if _, ok, err := c.journal.Get(urlOf(path)); err == nil && !ok {
		s.Op = protocol.Create
	}
	c.reaches(c.door, c.append(c.journal, s))
	return &s.Entry.Item
}

// has is an error unless the door delivers just these bytes of a page, now or, on a busy machine, soon.
func (c *contentsSite) has(item *protocol.Item, text string) {
	c.Helper()
	var page []byte
	var err error
	c.eventually(item.URL+" is delivered", func() bool {
		page, err = c.pages.Page(c.Context(), item, 32<<20)
		return !errors.Is(err, content.ErrNoVersion)
	})
	if err != nil || string(page) != text || !c.contents.Present(item) {
		c.Errorf("%s: %d bytes of %d, present: %v, %v", item.URL, len(page), len(text), c.contents.Present(item), err)
	}
}

// delivers reports whether the door delivers bytes of a page.
func (c *contentsSite) delivers(item *protocol.Item) bool {
	page, err := c.pages.Page(c.Context(), item, 32<<20)
	return err == nil && int64(len(page)) == item.Length
}

// lacks is an error if the door delivers bytes of a page.
func (c *contentsSite) lacks(item *protocol.Item) {
	c.Helper()
	if page, err := c.pages.Page(c.Context(), item, 32<<20); !errors.Is(err, content.ErrNoVersion) || c.contents.Present(item) {
		c.Errorf("%s: %d bytes are delivered, present: %v, %v", item.URL, len(page), c.contents.Present(item), err)
	}
}

// soon waits until the door has a page, or has it no longer.
func (c *contentsSite) soon(item *protocol.Item, has bool) {
	c.Helper()
	c.eventually(fmt.Sprintf("%s: present is %v", item.URL, has), func() bool { return c.contents.Present(item) == has })
}

// A door delivers the bytes of each page as soon as it was told of it, whatever its size, and no others: not of the version
// before, nor of a page that is gone.
func TestContentsOfPages(t *testing.T) {
	c := newContentsSite(t, 3)
	old := c.write("before.html", "from before the doors")
	c.share(c.sharer())
	c.deliver()
	c.soon(old, true)
	c.has(old, "from before the doors")
	long := strings.Repeat("0123456789abcdef", 80<<10) // 1.25 MiB
	for _, text := range []string{"", "short", long, long[:300<<10], "short again"} {
		item := c.write("page.html", text)
		c.has(item, text)
		c.lacks(&protocol.Item{URL: item.URL, Digest: old.Digest, Length: old.Length})
		if _, err := c.pages.Page(t.Context(), item, int64(len(text))-1); err == nil {
			t.Errorf("a page of %d bytes is delivered to a reader of less", len(text))
		}
	}
	first := c.write("page.html", "first")
	second := c.write("page.html", "second")
	c.has(second, "second")
	c.lacks(first)
	c.reaches(c.door, c.append(c.journal, journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: urlOf("page.html")}}}))
	c.lacks(second)
	c.has(old, "from before the doors")

	c.deliver() // a door that begins now
	c.has(old, "from before the doors")
	c.lacks(second)
}

// A file that vanishes is not delivered any more, though its deletion is held back; when it comes back its bytes are delivered again.
func TestContentsOfAFileThatVanishes(t *testing.T) {
	c := newContentsSite(t, 1)
	c.share(c.sharer())
	c.deliver()
	item := c.write("page.html", "text")
	c.soon(item, true)
	note := step("", "page.html", "text")
	note.Entry.Held = noon
	c.append(c.journal, note)
	c.soon(item, false)
	note.Entry.Held = time.Time{}
	c.append(c.journal, note)
	c.soon(item, true)
}

// What is known of a page decides whether its bytes are delivered, and until when. A writer that knows nothing leaves what the last one
// has stored.
func TestContentsUntil(t *testing.T) {
	c := newContentsSite(t, 1)
	s := c.sharer()
	writer := c.share(s)
	c.deliver()
	know := func(item *protocol.Item, until time.Time) {
		c.set(func() { c.until[item.URL] = until })
		s.Changed(item.URL)
	}
	item := c.write("page.html", "text")
	other := c.write("other.html", "other text")
	c.soon(other, true)
	c.has(item, "text")
	know(item, time.Time{})
	c.soon(item, false)
	know(item, time.Now().Add(time.Second))
	c.soon(item, true)
	c.soon(item, false)
	know(item, time.Now().Add(time.Hour))
	c.soon(item, true)
	c.set(func() { c.closed = true }) // many refusals at once
	c.soon(other, false)
	c.lacks(item)
	c.set(func() { c.closed = false })
	c.soon(other, true)
	c.soon(item, true)
	if err := writer.stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	c.has(item, "text") // while there is no writer
	c.set(func() { c.known = false })
	next := c.sharer()
	c.share(next)
	edited := c.write("other.html", "edited")
	c.has(edited, "edited")
	c.has(item, "text")
	c.set(func() { c.known, c.until[item.URL] = true, time.Time{} })
	next.Changed(item.URL)
	c.soon(item, false)
}

// A writer that shares no contents any more, since it was started without them, closes those that the last one has stored. If there
// are none, it stores nothing.
func TestContentsAreSharedNoMore(t *testing.T) {
	c := newContentsSite(t, 1)
	none := c.sharer()
	none.Pages, none.Until, none.Closed = nil, nil, nil
	without := c.share(none)
	c.deliver()
	writer := c.share(c.sharer())
	item := c.write("page.html", "text")
	c.soon(item, true)
	writer.stop()
	without.stop()
	c.has(item, "text")
	without = c.share(none)
	c.soon(item, false)
	without.stop()
	c.share(c.sharer())
	c.soon(item, true)
}

// Of two writers only one goes on.
func TestTwoSharers(t *testing.T) {
	c := newContentsSite(t, 1)
	c.deliver()
	for i := range 5 {
		first, second := c.share(c.sharer()), c.share(c.sharer())
		for n := 0; ; n++ {
			text := fmt.Sprint("text ", i, " ", n)
			item := c.write("page.html", text)
			c.soon(item, true)
			c.has(item, text)
			select {
			case <-first.ended:
				first, second = second, first
			case <-second.ended:
			default:
				continue
			}
			break
		}
		if err := second.stop(); !errors.Is(err, jetlog.ErrFenced) {
			t.Error(err)
		}
		item := c.write("page.html", "by the other")
		c.soon(item, true)
		if err := first.stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// A door that does not reach NATS for longer than a while delivers no bytes, until it does.
func TestDoorThatIsCutOff(t *testing.T) {
	c := newContentsSite(t, 1)
	c.share(c.sharer())
	c.deliver()
	item := c.write("page.html", "text")
	c.soon(item, true)
	c.servers[0].Stop()
	began, last := time.Now(), time.Duration(0)
	for asked := time.Duration(0); c.contents.Present(item); asked = time.Since(began) {
		last = asked
	}
	if last > jetlog.Forgotten-time.Second {
		t.Errorf("delivered for %v more", last)
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if c.contents.Present(item) {
			t.Fatal("it is delivered again")
		}
	}
	c.lacks(item)
	c.must(c.servers[0].Start())
	c.soon(item, true)
	c.has(item, "text")
}

// When Purge returns, no door delivers the bytes, and NATS does not have them any more.
func TestPurgeOfContents(t *testing.T) {
	c := newContentsSite(t, 1)
	s := c.sharer()
	c.share(s)
	c.deliver()
	item, other := c.write("page.html", "what should never have been public"), c.write("other.html", "other text")
	c.soon(other, true)
	c.has(item, "what should never have been public")
	stored := func() bool { return len(c.stored("site-pages", "never have been public")) > 0 }
	if !stored() {
		t.Fatal("the bytes are not stored")
	}
	c.set(func() { c.files[item.URL] = "" }) // it was edited, and no scan has found that yet
	c.must(s.Purge(t.Context(), item.URL))
	if stored() {
		t.Error("the bytes are still stored")
	}
	c.lacks(item)
	c.has(other, "other text")
	c.must(s.Purge(t.Context(), other.URL))
	c.soon(other, true)

	c.append(c.journal, journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: other.URL}}}) // by a rule
	c.must(s.Purge(t.Context(), ""))
	c.lacks(other)
	began := time.Now()
	if c.must(s.Purge(t.Context(), "")); time.Since(began) > jetlog.Forgotten/2 {
		t.Errorf("nothing is to be withdrawn, and that takes %v", time.Since(began))
	}
}

// While a writer stores the pages of a whole site, which may take hours, what has to go goes at once.
func TestPurgeWhilePagesAreStored(t *testing.T) {
	c := newContentsSite(t, 1)
	first := c.share(c.sharer())
	c.deliver()
	item, gone := c.write("a.html", "what should never have been public"), c.write("b.html", "forbidden now")
	c.soon(gone, true)
	c.soon(item, true)
	first.stop()
	const more = 200
	steps := []journal.Step{{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: gone.URL}}}}
	for i := range more {
		path := fmt.Sprintf("page%03d.html", i)
		c.files[urlOf(path)] = path
		steps = append(steps, step(protocol.Create, path, path))
	}
	c.files[item.URL] = "" // it was edited
	c.append(c.journal, steps...)

	slow := make(chan struct{})
	release := sync.OnceFunc(func() { close(slow) })
	defer release()
	c.set(func() { c.slow = slow })
	next := c.sharer()
	c.share(next)
	slow <- struct{}{} // the first page is read
	purged := make(chan error, 1)
	go func() { purged <- next.Purge(t.Context(), item.URL) }()
	stays := func() bool { return c.contents.Present(item) || c.contents.Present(gone) }
	for read := 1; stays(); read++ {
		if read == more {
			t.Fatal("all pages are stored first")
		}
		slow <- struct{}{}
		for end := time.Now().Add(50 * time.Millisecond); stays() && time.Now().Before(end); {
		}
	}
	release()
	c.must(<-purged)
	c.lacks(item)
	last := steps[more].Entry.Item
	c.soon(&last, true)
}
