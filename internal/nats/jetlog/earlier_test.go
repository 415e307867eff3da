package jetlog_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// earlier returns a version of a page that is no longer the present one, which is item; empty if the door does not have it.
func (c *contentsSite) earlier(item *protocol.Item, text string) string {
	c.Helper()
	var b []byte
	f, err := c.contents.Earlier(c.Context(), item, protocol.Sum([]byte(text)))
	if err == nil {
		b, err = io.ReadAll(f)
	}
	if err != nil && !errors.Is(err, content.ErrNoVersion) {
		c.Fatal(err)
	}
	return string(b)
}

// keeps is an error unless the door has just these of a page's earlier versions.
func (c *contentsSite) keeps(item *protocol.Item, has []string, lacks ...string) {
	c.Helper()
	for _, text := range has {
		if got := c.earlier(item, text); got != text {
			c.Errorf("%s: of an earlier version of %d bytes there are %d", item.URL, len(text), len(got))
		}
	}
	for _, text := range lacks {
		if c.earlier(item, text) != "" {
			c.Errorf("%s: an earlier version of %d bytes is there", item.URL, len(text))
		}
	}
}

// bodies returns how many messages there are of the bytes of pages that have a text.
func (c *contentsSite) bodies(text string) int { return len(c.stored("site-pages", text)) }

// A door has earlier versions of a page, as long as anybody may have the present one. They go with it.
func TestEarlierVersions(t *testing.T) {
	c := newContentsSite(t, 1)
	s := c.sharer()
	s.Earlier = 64 << 20
	writer := c.share(s)
	c.deliver()
	long := strings.Repeat("the second of them ", 40<<10) // in three parts
	var item *protocol.Item
	for _, text := range []string{"the first of them", long, "the third of them", "the fourth of them"} {
		item = c.write("page.html", text)
		c.soon(item, true)
	}
	c.keeps(item, []string{"the first of them", long, "the third of them"}, "the fourth of them", "another")
	before := &protocol.Item{URL: item.URL, Digest: protocol.Sum([]byte("the third of them"))}
	c.keeps(before, nil, "the first of them") // it is not the present one any more

	writer.stop() // the next one goes on with them
	s = c.sharer()
	s.Earlier = 64 << 20
	c.share(s)
	c.deliver()
	item = c.write("page.html", "the first of them") // again
	c.soon(item, true)
	c.keeps(item, []string{long, "the third of them", "the fourth of them"}, "the first of them")

	// It was edited, and the web server has not shown the new bytes yet: nobody gets bytes, and the earlier ones stay.
	c.set(func() { c.until[item.URL], c.known = time.Time{}, false })
	hidden := c.write("page.html", "the fifth of them")
	c.lacks(hidden)
	c.keeps(hidden, nil, "the first of them", "the third of them")
	c.set(func() { delete(c.until, item.URL); c.known = true })
	s.Changed(item.URL)
	c.soon(hidden, true)
	c.keeps(hidden, []string{"the first of them", long, "the third of them"})

	c.set(func() { c.until[item.URL] = time.Time{} }) // it is refused
	s.Changed(item.URL)
	c.soon(hidden, false)
	c.eventually("nothing of it is stored", func() bool { return c.bodies("of them") == 0 })
}

// What is acknowledged as withdrawn has no earlier versions in NATS.
func TestEarlierVersionsOfWithdrawnPages(t *testing.T) {
	c := newContentsSite(t, 1)
	s := c.sharer()
	s.Earlier = 1 << 20
	c.share(s)
	c.deliver()
	for _, path := range []string{"purged.html", "gone.html", "other.html"} {
		for n := range 3 {
			c.soon(c.write(path, fmt.Sprint(path, " ", n)), true)
		}
	}
	purged := c.write("purged.html", "mended")
	c.soon(purged, true)
	c.must(s.Purge(t.Context(), purged.URL))
	if n := c.bodies("purged.html "); n > 0 {
		t.Errorf("%d versions of a purged page are there", n)
	}
	c.soon(purged, true)
	c.keeps(purged, nil, "purged.html 2")
	c.append(c.journal, journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: urlOf("gone.html")}}})
	c.must(s.Purge(t.Context(), ""))
	if n := c.bodies("gone.html "); n > 0 {
		t.Errorf("%d versions of a page that is gone are there", n)
	}
	if n := c.bodies("other.html "); n != 3 {
		t.Errorf("of another page %d of 3 versions are there", n)
	}
}

// Earlier versions have a bound. One page that changes all the time displaces its own.
func TestEarlierVersionsAreBounded(t *testing.T) {
	c := newContentsSite(t, 1)
	s := c.sharer()
	s.Earlier = 100 << 10
	c.share(s)
	c.deliver()
	text := func(path string, n int) string { return path + fmt.Sprint(" ", n) + strings.Repeat(".", 1000) }
	quiet := c.write("quiet.html", text("quiet", 0))
	c.soon(quiet, true)
	quiet = c.write("quiet.html", text("quiet", 1))
	c.soon(quiet, true)
	var busy *protocol.Item
	for n := range 20 {
		busy = c.write("busy.html", text("busy", n))
		c.soon(busy, true)
	}
	c.keeps(busy, []string{text("busy", 11), text("busy", 18)}, text("busy", 10), text("busy", 0))
	c.keeps(quiet, []string{text("quiet", 0)})
	if n := c.bodies("busy "); n != 9 {
		t.Errorf("%d versions of the busy page are there", n)
	}
	for n := range 2 {
		for i := range 110 {
			path := fmt.Sprintf("many%d.html", i)
			c.set(func() { c.files[urlOf(path)] = text("many", n) })
			s := step(protocol.Update, path, text("many", n))
			c.append(c.journal, s)
		}
		last := step(protocol.Update, "many109.html", text("many", n)).Entry.Item
		c.soon(&last, true)
	}
	c.eventually("there is no more than the bound allows", func() bool { return c.bodies("many 0") <= 100 })
	if n := c.bodies("many 0"); n < 80 {
		t.Errorf("of 110 versions %d are there", n)
	}
	c.keeps(quiet, nil, text("quiet", 0)) // the oldest of all
	if n := c.bodies("many 1"); n != 110 {
		t.Errorf("of 110 present pages %d are there", n)
	}

	large := c.write("large.html", strings.Repeat("large", 4<<10))
	c.soon(large, true)
	large = c.write("large.html", "small")
	c.soon(large, true)
	c.keeps(large, nil, strings.Repeat("large", 4<<10))
}

// Without room for them there are none, and a writer that is started so removes those of the last one.
func TestNoEarlierVersions(t *testing.T) {
	c := newContentsSite(t, 1)
	s := c.sharer()
	s.Earlier = 1 << 20
	writer := c.share(s)
	c.deliver()
	c.soon(c.write("page.html", "first text"), true)
	item := c.write("page.html", "second text")
	c.soon(item, true)
	c.keeps(item, []string{"first text"})
	writer.stop()
	c.share(c.sharer())
	c.eventually("those of the last one are gone", func() bool { return c.bodies("first text") == 0 })
	item = c.write("page.html", "third text")
	c.soon(item, true)
	c.keeps(item, nil, "first text", "second text")
	if c.bodies("second text") > 0 {
		t.Error("an earlier version is there")
	}
}
