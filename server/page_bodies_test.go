package server_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// body returns the body of the change of a page, the last if there are several.
func body(m protocol.Message, url string) (b protocol.Body, ok bool) {
	for i, c := range m.Changes {
		if c.Item.URL == url {
			b, ok = protocol.Body{}, true
			if i < len(m.Bodies) {
				b = m.Bodies[i]
			}
		}
	}
	return b, ok
}

// Pages come with their changes, each once, in its last version within the message, polled and streamed
// alike.
func TestPagesComeWithTheirChanges(t *testing.T) {
	d := newArchivist(t)
	begin := d.Journal.Head()
	live := d.listen(begin, "&as=page")
	d.Write("a.html", "<p>a2")
	d.Publish()
	if m := live.next(); m.Kind != protocol.Ev || string(m.Bodies[0].Bytes) != "<p>a2" {
		t.Errorf("%+v", m)
	}
	d.Write("b.html", "")
	d.Write("c.html", strings.Repeat("c", protocol.MaxInline+1))
	d.Write("d.html", "<p>\xff no text")
	d.Publish()
	d.Must(os.Rename(filepath.Join(d.Root, "b.html"), filepath.Join(d.Root, "e.html")))
	d.Write("a.html", "<p>a3")
	d.Publish()
	d.Must(os.Remove(filepath.Join(d.Root, "d.html")))
	d.Write("f.html", "<p>f")
	d.Publish()
	m := d.toldAll("as=page&after=" + begin.String())
	if m.Kind != protocol.Batch {
		t.Fatalf("%+v", m)
	}
	for url, want := range map[string]string{"a.html": "<p>a3", "d.html": "", "e.html": "", "f.html": "<p>f"} {
		if b, ok := body(m, d.Base+url); !ok || string(b.Bytes) != want {
			t.Errorf("%s: %v %+v", url, ok, b)
		}
	}
	if b, ok := body(m, d.Base+"e.html"); !ok || b.Bytes == nil {
		t.Errorf("the page that was created and moved came without its bytes: %+v", b)
	}
	if b, ok := body(m, d.Base+"c.html"); !ok || b.Href != d.Base+"c.html" || b.Length != protocol.MaxInline+1 || b.Digest.IsZero() {
		t.Errorf("%+v", b)
	}
	if n := len(slices.DeleteFunc(m.Bodies, func(b protocol.Body) bool { return b.IsZero() })); n != 4 {
		t.Errorf("%d bodies with %d changes", n, len(m.Changes))
	}
}

// A delta is against the version that the reader had before the message, even if the page changed several
// times since; now and then the page is sent whole.
func TestDeltasFollowTheReadersVersion(t *testing.T) {
	d := newArchivist(t)
	text := strings.Repeat("<p>A line of many, which stays as it is for ever and ever.\n", 200)
	d.Write("long.html", text)
	d.Publish()
	begin, held := d.Journal.Head(), text
	for i := range 3 {
		d.Write("long.html", text+fmt.Sprint("edit ", i))
		d.Publish()
	}
	apply := func(m protocol.Message) {
		t.Helper()
		b, _ := body(m, d.Base+"long.html")
		c := m.Changes[len(m.Changes)-1]
		switch {
		case b.Coding == protocol.CodingDelta && b.Base == protocol.Sum([]byte(held)):
			page := must.Get(coding.ApplyDelta([]byte(held), b.Bytes, 1<<20))
			held = string(page)
			if len(b.Bytes) > 200 {
				t.Errorf("difference of %d bytes", len(b.Bytes))
			}
		case b.Coding == "" && c.Seq%50 == 0:
			held = string(b.Bytes)
		default:
			t.Fatalf("change %d comes with %s of %v, the reader has %v", c.Seq, b.Coding, b.Base, protocol.Sum([]byte(held)))
		}
		if protocol.Sum([]byte(held)) != c.Item.Digest {
			t.Fatalf("applying change %d yields other bytes", c.Seq)
		}
	}
	apply(d.toldAll("as=delta&after=" + begin.String()))
	live, whole := d.listen(d.Journal.Head(), "&as=delta"), 0
	for i := range 55 {
		d.Write("long.html", text+fmt.Sprint("another edit ", i))
		d.Publish()
		m := live.next()
		if m.Bodies[0].Coding == "" {
			whole++
		}
		apply(m)
	}
	if whole != 1 {
		t.Errorf("the page was sent whole %d times", whole)
	}
	// A page delivered under its new name can be had as a delta against the copy under the old one.
	at := d.Journal.Head()
	d.Must(os.Rename(filepath.Join(d.Root, "long.html"), filepath.Join(d.Root, "moved.html")))
	d.Publish()
	if m := d.toldAll("as=delta&after=" + at.String()); tellAll(m.Changes) == "" || m.Bodies != nil {
		t.Errorf("a move comes with %+v", m)
	}
}

// For any amount of changes, no message exceeds its maximum length, and nothing is left out.
func TestMessageLengthIsBounded(t *testing.T) {
	d := newArchivist(t)
	begin := d.Journal.Head()
	want := map[string]string{}
	each := 8
	if testing.Short() {
		each = 2
	}
	for i, c := range []string{"\x01", "\"", "é", "\u2028", "\xff", "x"} {
		for k := range each {
			name := fmt.Sprintf("p%d-%d.html", i, k)
			want[d.Base+name] = strings.Repeat(c, protocol.MaxInline/len(c)-k)
			d.Write(name, want[d.Base+name])
		}
	}
	d.Publish()
	follow := func(next func(at protocol.Cursor) []byte) {
		t.Helper()
		got, at := map[string]string{}, begin
		for messages := 0; at != d.Journal.Head(); messages++ {
			b := next(at)
			if len(b) > protocol.MaxMessage || messages > 100 {
				t.Fatalf("message %d of %d bytes", messages, len(b))
			}
			m := must.Get(protocol.ParseMessage(b))
			for i, c := range m.Changes {
				got[c.Item.URL] = string(m.Bodies[i].Bytes)
			}
			at = m.To
		}
		for url, text := range want {
			if got[url] != text {
				t.Errorf("%s: %d bytes, want %d", url, len(got[url]), len(text))
			}
		}
	}
	follow(func(at protocol.Cursor) []byte {
		_, b := d.ask("GET", "parley/changes?as=page&after="+at.String(), "", "")
		return b
	})
	live := d.listen(begin, "&as=page")
	follow(func(protocol.Cursor) []byte {
		return must.Get(live.read(t.Context()))
	})
}

// For any split of the history into messages, a reader that applies their bodies and fetches the missing ones
// ends with the site's pages. A reader that gets everything in one message fetches nothing; with several
// messages, it fetches only pages that have changed again since, since nobody gets the versions in between.
func TestMirrorKeptByBodiesEqualsSite(t *testing.T) {
	for seed := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		d := newArchivist(t)
		var all strings.Builder
		for range 60 {
			fmt.Fprintf(&all, "<p>%x\n", rnd.Uint64())
		}
		text := func() string { return all.String() + fmt.Sprint("<p>", rnd.Uint64()) }
		for i := range 8 {
			d.Write(fmt.Sprintf("p%d.html", i), text())
		}
		begin, first := d.Publish(), d.Pages()
		for range 60 {
			for range 1 + rnd.IntN(3) {
				a, b := fmt.Sprintf("p%d.html", rnd.IntN(10)), fmt.Sprintf("p%d.html", rnd.IntN(10))
				switch rnd.IntN(6) {
				case 0:
					os.Remove(filepath.Join(d.Root, a)) // or there is none
				case 1, 2:
					os.Rename(filepath.Join(d.Root, a), filepath.Join(d.Root, b))
				default:
					d.Write(a, text())
				}
			}
			d.Publish()
		}
		for _, as := range []string{"page", "delta"} {
			for _, most := range []int{1, 3, 1000} {
				mirror, differences, asks, messages := maps.Clone(first), 0, 0, 0
				for at := begin; at != d.Journal.Head(); messages++ {
					limit := 1000
					if most < limit {
						limit = 1 + rnd.IntN(most)
					}
					m := d.told(fmt.Sprintf("as=%s&after=%s&limit=%d", as, at, limit))
					before := maps.Clone(mirror)
					last := map[string]protocol.Digest{}
					for i, c := range m.Changes {
						url := c.Item.URL
						if c.Op == protocol.Delete {
							delete(mirror, url)
							delete(last, url)
							continue
						}
						if c.Op == protocol.Move {
							mirror[url] = mirror[c.From]
							delete(mirror, c.From)
							delete(last, c.From)
						}
						last[url] = c.Item.Digest
						if i >= len(m.Bodies) || m.Bodies[i].Bytes == nil {
							continue
						}
						b := m.Bodies[i]
						if b.Coding == protocol.CodingDelta {
							held := before[url]
							if c.Op == protocol.Move {
								held = before[c.From]
							}
							if protocol.Sum([]byte(held)) != b.Base {
								continue // the reader lacks the delta's base
							}
							page := must.Get(coding.ApplyDelta([]byte(held), b.Bytes, 1<<20))
							mirror[url] = string(page)
							differences++
						} else {
							mirror[url] = string(b.Bytes)
						}
						if protocol.Sum([]byte(mirror[url])) != c.Item.Digest {
							t.Fatalf("seed %d, as=%s by %d: change %d yields other bytes", seed, as, most, c.Seq)
						}
					}
					for url, digest := range last {
						if protocol.Sum([]byte(mirror[url])) != digest {
							mirror[url] = d.Pages()[url] // by now it may be gone or different
							asks++
						}
					}
					at = m.To
				}
				if want := d.Pages(); !maps.Equal(mirror, want) {
					for url, text := range want {
						if mirror[url] != text {
							t.Errorf("%s: %.60q", url, mirror[url])
						}
					}
					t.Fatalf("seed %d, as=%s by %d: %d pages, want %d", seed, as, most, len(mirror), len(want))
				}
				if messages == 1 && asks > 0 { // for the deltas themselves see TestDeltasFollowTheReadersVersion
					t.Errorf("seed %d, as=%s by %d: %d messages with %d deltas, and the reader fetched %d pages", seed, as, most, messages, differences, asks)
				}
			}
		}
	}
}
