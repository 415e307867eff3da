package jetlog_test

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
)

// id is the name of a page in subjects.
func id(url string) string {
	sum := protocol.Sum([]byte(url))
	return hex.EncodeToString(sum[:16])
}

// record is what a message says of a page with a present version of some length, and so many earlier ones.
func record(length string, earlier int) string {
	digest := protocol.Sum(nil).String()
	old := strings.Repeat(fmt.Sprintf(`{"digest":%q,"length":1},`, digest), earlier)
	return fmt.Sprintf(`{"digest":%q,"length":%s,"until":"2100-01-01T00:00:00Z","old":[%s]}`, digest, length, strings.TrimSuffix(old, ","))
}

// records says of messages whether a writer may have stored them.
var records = map[string]bool{
	"":                                   true,
	record("0", 0):                       true,
	record("16777216", 8):                true,
	record("16777217", 0):                false,
	record("-1", 0):                      false,
	record("9223372036854775807", 0):     false,
	record("-9223372036854775808", 0):    false,
	record("9223372036854775808", 0):     false,
	record("1e300", 0):                   false,
	record("1", 9):                       false,
	record("1", 20_000):                  false,
	`{"old":[{"length":1}]}`:             true,
	`{"old":[{"length":1000000000000}]}`: false,
	`[]`:                                 false,
	`{`:                                  false,
}

// A record whose lengths no writer stores is an error, before anything is allocated or repeated by them.
func TestRecordsOfPages(t *testing.T) {
	name := id("https://site.example/")
	for text, right := range records {
		if _, err := jetlog.Parts(name, []byte(text)); (err == nil) != right {
			t.Errorf("%.100s: %v", text, err)
		}
	}
	for _, name := range []string{"", name[1:], name + "0", name + "00", name[1:] + "x", strings.Repeat("f", 1<<16)} {
		if _, err := jetlog.Parts(name, nil); err == nil {
			t.Errorf("%.100q is the name of a page", name)
		}
	}
}

func FuzzRecordOfPage(f *testing.F) {
	for text := range records {
		f.Add(id("https://site.example/"), []byte(text))
	}
	f.Add("", []byte(record("1", 1)))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		parts, err := jetlog.Parts(name, data)
		if err != nil {
			return
		}
		if len(parts) > 9 || len(name) != 32 {
			t.Fatalf("page %q has %d versions", name, len(parts))
		}
		for _, n := range parts {
			if n < 0 || n > 64 {
				t.Fatalf("a version has %d parts", n)
			}
		}
	})
}

// words are what is logged.
type words chan string

func (w words) Write(text []byte) (int, error) {
	select {
	case w <- string(text):
	default: // nobody reads any more
	}
	return len(text), nil
}

// If somebody else stores a record that no writer stores, doors say which, deliver no bytes, and go on once it is removed.
func TestRecordOfAStranger(t *testing.T) {
	c := newContentsSite(t, 1)
	c.share(c.sharer())
	said := make(words, 100)
	c.logger = slog.New(slog.NewTextHandler(said, nil))
	c.deliver()
	item := c.write("page.html", "text")
	c.soon(item, true)
	js, err := jetstream.New(c.conn)
	c.must(err)
	subject := "site-pages.shown." + id(item.URL)
	_, err = js.Publish(t.Context(), subject, []byte(record("9223372036854775807", 0)))
	c.must(err)
	want := subject + ": want at most 8 earlier versions, each version of 0 to 16777216 bytes"
	for !strings.Contains(<-said, want) {
	}
	c.soon(item, false)
	stream, err := js.Stream(t.Context(), "site-pages")
	c.must(err)
	c.must(stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)))
	c.soon(item, true)
	c.has(item, "text")
}
