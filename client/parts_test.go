package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A partedSite is a fakeSite that a static web server serves: its manifest, in one file or in parts, and no other door.
type partedSite struct {
	*fakeSite
	size  int // items of a page part
	whole *protocol.Whole
	sent  int             // bytes of bodies
	asked []string        // paths of the requests for the manifest and its parts
	lost  map[string]bool // paths that are not served
	cache http.Header     // of the last request for the manifest
}

const partsDir = "robots.rdf.parts/"

func newPartedSite(t *testing.T, pages, size int) *partedSite {
	s := &partedSite{fakeSite: newSite(t), size: size, lost: map[string]bool{}}
	for i := range pages {
		p := fmt.Sprintf("%05d.html", i)
		s.items[base+p] = item(p, p)
	}
	s.remember()
	s.setDoor("/.well-known/parley", status(404))
	return s
}

// file makes the content of a file public, as a web server serves files.
func (s *partedSite) file(path string, b []byte) {
	written := time.Now()
	tag := fmt.Sprintf(`"%x-%x"`, written.Unix(), len(b))
	s.setDoor("/"+path, func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		s.mu.Lock()
		s.asked = append(s.asked, path)
		lost := s.lost[path]
		if path == "robots.rdf" {
			s.cache = r.Header
		}
		s.mu.Unlock()
		if lost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", tag)
		cw := &countWriter{ResponseWriter: w}
		http.ServeContent(cw, r, "", written, bytes.NewReader(b))
		s.with(func() { s.sent += cw.n })
	})
}

type countWriter struct {
	http.ResponseWriter
	n int
}

func (w *countWriter) Write(b []byte) (int, error) {
	w.n += len(b)
	return w.ResponseWriter.Write(b)
}

// now returns the site's items in order, and its cursor.
func (s *partedSite) now() ([]protocol.Item, protocol.Cursor) {
	at := s.cursor()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.items), func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) }), at
}

func written(t *testing.T, m protocol.Manifest, items []protocol.Item, gone []protocol.Tombstone) []byte {
	t.Helper()
	var b bytes.Buffer
	m.URL, m.Base, m.Items = base+"robots.rdf", base, len(items)
	must.OK(t, protocol.WriteManifest(&b, m, all(items), all(gone)))
	return b.Bytes()
}

// part serves a part and returns how an index names it.
func (s *partedSite) part(items []protocol.Item, gone []protocol.Tombstone, after, seq uint64) protocol.Part {
	b := written(s.t, protocol.Manifest{}, items, gone)
	digest := protocol.Sum(b)
	name := fmt.Sprintf("%s%x.rdf", partsDir, digest[:])
	s.file(name, b)
	return protocol.Part{URL: base + name, After: after, Seq: seq, Items: len(items) + len(gone), Length: int64(len(b)), Digest: digest}
}

// publish writes an index: the page parts as they are, and another change part. With fold, or in a new epoch, it writes
// all page parts anew, and no change part.
func (s *partedSite) publish(fold bool) {
	items, at := s.now()
	was := s.whole
	s.whole = &protocol.Whole{Cursor: at, Items: len(items)}
	if fold || was == nil || was.Cursor.Epoch != at.Epoch {
		for some := range slices.Chunk(items, s.size) {
			s.whole.Parts = append(s.whole.Parts, s.part(some, nil, 0, at.Seq))
		}
	} else {
		s.whole.Parts, s.whole.Changed = was.Parts, was.Changed
		if at != was.Cursor {
			s.whole.Changed = append(slices.Clone(was.Changed), s.changePart(was.Cursor.Seq, at.Seq))
		}
	}
	s.file("robots.rdf", s.index())
}

func (s *partedSite) index() []byte {
	items, _ := s.now()
	return written(s.t, protocol.Manifest{Whole: s.whole}, items[:min(len(items), 3)], nil)
}

func (s *partedSite) changePart(after, seq uint64) protocol.Part {
	touched := map[string]bool{}
	s.with(func() {
		for _, c := range s.log[after:seq] {
			touched[c.Item.URL] = true
			if c.From != "" {
				touched[c.From] = true
			}
		}
	})
	var items []protocol.Item
	var gone []protocol.Tombstone
	for _, u := range slices.SortedFunc(maps.Keys(touched), protocol.Compare) {
		if it, ok := s.items[u]; ok {
			items = append(items, it)
		} else {
			gone = append(gone, protocol.Tombstone{URL: u, Seq: seq})
		}
	}
	return s.part(items, gone, after, seq)
}

// publishOne writes the manifest as one file.
func (s *partedSite) publishOne() {
	items, at := s.now()
	s.whole = nil
	s.file("robots.rdf", written(s.t, protocol.Manifest{Cursor: at, Complete: true}, items, nil))
}

// requests returns what was requested since the last call, and how many bytes were sent.
func (s *partedSite) requests() (asked []string, sent int) {
	s.with(func() { asked, sent, s.asked, s.sent = s.asked, s.sent, nil, 0 })
	return asked, sent
}

func indexes(asked []string) (n int) {
	for _, p := range asked {
		if p == "robots.rdf" {
			n++
		}
	}
	return n
}

func pathOf(p protocol.Part) string { return strings.TrimPrefix(p.URL, base) }

// The first contact fetches every part once. Then an edit costs the index and a change part; a reader that the change
// parts do not cover any more gets everything again.
func TestManifestInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 2500, 400)
		s.publish(true)
		c := newCopier(s.fakeSite)
		src := s.source()
		src.Temp = t.TempDir()
		c.follow(src, protocol.Cursor{}, c.caughtUp)
		asked, all := s.requests()
		slices.Sort(asked)
		if len(asked) != 8 || len(slices.Compact(asked)) != 8 {
			t.Errorf("first contact: requests %v", asked)
		}
		for i, st := range c.steps {
			if last := i == len(c.steps)-1; st.Reset != (i == 0) || st.Whole != last || st.Cursor.IsZero() == last || st.ETag != "" && !last {
				t.Errorf("step %d: reset %v whole %v cursor %v", i, st.Reset, st.Whole, st.Cursor)
			}
		}
		if left, err := os.ReadDir(src.Temp); err != nil || len(left) > 0 {
			t.Errorf("left in Temp: %v %v", left, err)
		}

		edits := []func(){
			func() { s.change(put("00007.html", "edited")); s.publish(false) },
			func() {
				s.change(move("00008.html", "d/moved.html", "moved"), del("00009.html"), put("00009b.html", "new"))
				s.publish(false)
				s.change(put("00008.html", "another"), put("x.html", "for a moment"), del("x.html"))
				s.publish(false)
			},
			func() { s.change(put("00007.html", "00007.html")); s.publish(false) },
		}
		c.steps = nil
		want := []int{1, 2, 1}
		c.follow(src, c.cursor, func() bool {
			if n := len(c.steps) - 1; n > 0 { // the first step says that there is nothing new
				asked, sent := s.requests()
				if len(asked) != 1+want[n-1] || asked[0] != "robots.rdf" || sent > all/20 {
					t.Errorf("edit %d: requests %v, %d bytes of %d", n, asked, sent, all)
				}
				if st := c.steps[n]; st.Reset || st.Whole || st.Door != client.Manifest {
					t.Errorf("edit %d: step %+v", n, st)
				}
			} else {
				s.requests()
			}
			if len(edits) > 0 {
				edits[0]()
				edits = edits[1:]
				return false
			}
			return c.caughtUp()
		})

		at := c.cursor
		s.change(put("00100.html", "edited"), del("00101.html"))
		s.publish(true)
		c.steps = nil
		c.follow(src, at, c.caughtUp)
		if asked, _ := s.requests(); len(asked) != 1+len(s.whole.Parts) || !c.steps[0].Reset || !c.steps[len(c.steps)-1].Whole || len(c.errs) > 0 {
			t.Errorf("not covered: requests %v, errors %v", asked, c.errs)
		}
	})
}

// A follower with a cursor that the site has not lost opens the manifest once, whether or not anything is new.
func TestRestartOpensManifestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 50, 20)
		for _, publish := range []func(){func() { s.publish(false) }, s.publishOne} {
			publish()
			c := newCopier(s.fakeSite)
			c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
			for _, news := range []bool{false, true} {
				if news {
					s.change(put("00001.html", s.cursor().String()))
					publish()
				}
				s.requests()
				c.steps = nil
				c.follow(s.source(), c.cursor, func() bool { return c.caughtUp() && len(c.steps) > 0 })
				if asked, _ := s.requests(); indexes(asked) != 1 {
					t.Errorf("news %v: requests %v", news, asked)
				}
			}
		}
	})
}

// A cache answers with an old index: it is never applied, and requested again past the cache.
func TestStaleIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 60, 20)
		s.publish(true)
		s.change(put("00001.html", "edited"))
		first := s.doors["/robots.rdf"]
		time.Sleep(time.Minute)
		s.publish(false)
		c := newCopier(s.fakeSite)
		src := s.source()
		remember := func() { last := c.steps[len(c.steps)-1]; src.ETag, src.LastModified = last.ETag, last.LastModified }
		time.Sleep(time.Minute)
		c.follow(src, protocol.Cursor{}, c.caughtUp)
		remember()

		cached := func(behind bool) {
			current := s.doors["/robots.rdf"]
			s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				if r.Header.Get("Cache-Control") == "no-cache" && !behind {
					current(w, r, own)
					return
				}
				r.Header.Del("If-None-Match")
				r.Header.Del("If-Modified-Since")
				first(w, r, own)
			})
		}
		for _, epoch := range []string{"one", "two"} {
			if epoch == "two" {
				s.newEpoch(epoch)
			}
			s.change(put("00002.html", epoch))
			s.publish(false)
			time.Sleep(time.Minute)
			current := s.doors["/robots.rdf"]
			c.follow(src, c.cursor, c.caughtUp) // "two" begins with a cursor of "one"
			remember()
			s.change(put("00003.html", epoch))
			s.publish(false)
			time.Sleep(time.Minute)
			current = s.doors["/robots.rdf"]
			cached(false)
			c.errs = nil
			c.follow(src, c.cursor, c.caughtUp)
			remember()
			if len(c.errs) > 0 {
				t.Errorf("%s: errors %v", epoch, c.errs)
			}
			s.change(put("00004.html", epoch))
			cached(true) // for everybody
			at, over := c.cursor, false
			c.follow(src, c.cursor, func() bool {
				if !over && c.cursor != at {
					t.Errorf("%s: cursor %v after an index that is behind %v", epoch, c.cursor, at)
				}
				if len(c.errs) == 3 && !over {
					over = true
					s.setDoor("/robots.rdf", current)
					s.publish(false)
				}
				return c.caughtUp()
			})
		}
	})
}

// A site that is restored from a backup, state and all, gives numbers that it has given before to other changes. A follower
// that has seen its older index reads the whole site again, since the change parts would not tell what was lost.
func TestSiteIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 60, 20)
		s.publish(true)
		s.change(put("00001.html", "edited"))
		s.publish(false)
		backup, changes, whole := maps.Clone(s.items), slices.Clone(s.log), s.whole
		c := newCopier(s.fakeSite)
		src := s.source()
		c.follow(src, protocol.Cursor{}, c.caughtUp)
		for _, p := range []string{"00002.html", "00003.html"} {
			time.Sleep(time.Minute)
			s.change(put(p, "lost with the disk"))
			s.publish(false)
		}
		restored, edited := false, false
		c.follow(src, c.cursor, func() bool {
			switch {
			case !restored && c.caughtUp():
				restored = true
				s.with(func() { s.items, s.log, s.whole = backup, changes, whole })
				s.file("robots.rdf", s.index())
			case !edited && len(c.errs) > 0: // the older index was seen
				edited = true
				s.change(put("00004.html", "later"), put("00005.html", "later"), put("00006.html", "later"))
				s.publish(false)
			}
			return edited && c.caughtUp()
		})
	})
}

// Whatever a site does to its manifest, and wherever a follower stands or ends, it arrives at the site's state.
func TestPartsOfAnyHistory(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 16))
			s := newPartedSite(t, 40, 1+r.IntN(30))
			s.publishOne()
			type follower struct {
				*copier
				src *client.Source
			}
			var followers []follower
			for range 3 {
				src := s.source()
				src.Temp = t.TempDir()
				if chance(r, 2) {
					src.Temp = ""
				}
				followers = append(followers, follower{newCopier(s.fakeSite), src})
			}
			page := func() string { return fmt.Sprintf("%05d.html", r.IntN(60)) }
			for range 40 {
				for range r.IntN(4) {
					from, to := page(), page()
					switch _, there := s.items[base+from]; {
					case there && chance(r, 3):
						s.change(del(from))
					case there && from != to && chance(r, 3):
						s.change(move(from, to, fmt.Sprint(r.IntN(5))))
					default:
						s.change(put(from, fmt.Sprint(r.IntN(5))))
					}
				}
				if chance(r, 12) {
					s.newEpoch(fmt.Sprint("e", r.IntN(1000)))
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Second)
				if chance(r, 4) {
					s.publishOne()
				} else {
					s.publish(chance(r, 4))
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Second)
				f := followers[r.IntN(len(followers))]
				if chance(r, 3) { // is ended in the middle
					left := r.IntN(4)
					f.src.Pace = func(context.Context) error {
						if left--; left < 0 {
							return errors.New("ended")
						}
						return nil
					}
					f.src.Once = true
					for st, err := range client.Follow(t.Context(), f.src, f.cursor) {
						f.take(st, err)
					}
					f.src.Pace, f.src.Once = nil, false
					continue
				}
				f.errs, f.steps = nil, nil
				f.follow(f.src, f.cursor, f.caughtUp)
				if last := f.steps[len(f.steps)-1]; last.ETag != "" {
					f.src.ETag, f.src.LastModified = last.ETag, last.LastModified
				}
				if len(f.errs) > 0 {
					t.Errorf("seed %d: %v", seed, f.errs)
				}
			}
		})
	}
}

// An index or a part that lies is refused in words, and nothing of it counts as the whole site.
func TestHostileParts(t *testing.T) {
	for name, lie := range map[string]struct {
		does func(s *partedSite, src *client.Source)
		says string
	}{
		"counts": {func(s *partedSite, _ *client.Source) {
			s.change(put("00001.html", "edited"))
			s.publish(false)
			s.whole.Items--
		}, protocol.ErrTruncated.Error()},
		"swapped parts": {func(s *partedSite, _ *client.Source) {
			p := s.whole.Parts
			p[0], p[1] = p[1], p[0]
		}, "out of order"},
		"a foreign part": {func(s *partedSite, _ *client.Source) {
			p := &s.whole.Parts[1]
			s.setDoor("/"+pathOf(*p), status(302, "Location", "http://other.example/"))
		}, "other.example"},
		"a page as a part": {func(s *partedSite, _ *client.Source) {
			page := []byte("<html>an error, with status 200</html>")
			s.file("a.rdf", page)
			p := &s.whole.Parts[1]
			p.URL, p.Length, p.Digest = base+"a.rdf", int64(len(page)), protocol.Sum(page)
		}, "a.rdf"},
		"too long": {func(_ *partedSite, src *client.Source) { src.MaxManifest = 10_000 }, "more than 10000 bytes"},
		"a forbidden part": {func(s *partedSite, src *client.Source) {
			src.Allow = func(u string) error {
				if u == s.whole.Parts[2].URL {
					return errors.New("robots.txt forbids it")
				}
				return nil
			}
		}, "robots.txt forbids it"},
		"an index of another site": {func(s *partedSite, src *client.Source) {
			b := bytes.ReplaceAll(s.index(), []byte(base), []byte("http://other.example/"))
			s.file("robots.rdf", b)
		}, "it describes the site http://other.example/"},
		"an index that is cut": {func(s *partedSite, src *client.Source) {
			b := s.index()
			s.file("robots.rdf", b[:bytes.Index(b, []byte("</p:whole>"))])
		}, "document ends inside an element"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newPartedSite(t, 60, 20)
			s.publish(true)
			src := s.source()
			src.Temp = t.TempDir()
			src.Once = true
			if lie.does(s, src); !strings.HasPrefix(name, "an index") {
				s.file("robots.rdf", s.index())
			}
			var errs []error
			for step, err := range client.Follow(t.Context(), src, protocol.Cursor{}) {
				if errs = append(errs, err); err == nil && (step.Whole || !step.Cursor.IsZero()) {
					t.Errorf("%s: %+v", name, step)
				}
			}
			if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), lie.says) {
				t.Errorf("%s: %v; want %s", name, err, lie.says)
			}
		})
	}
}

// A follower with a filter has those pages of the site that match, also when one stops to match.
func TestFilteredParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 40, 20)
		s.setDoor("/.well-known/parley", func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"version":1,"base":%q,"manifest":%q,"filters":["prefix","maxlen"]}`, base, base+"robots.rdf")
		})
		s.publish(true)
		src := s.source()
		src.Filter = protocol.Filter{Prefixes: []string{"/0000"}, MaxLength: 20}
		src.Poll = time.Minute
		have := map[string]bool{}
		n := 0
		for step, err := range client.Follow(t.Context(), src, protocol.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range step.Changes {
				if have[c.Item.URL] = true; c.Op == protocol.Delete {
					delete(have, c.Item.URL)
				}
			}
			if n++; n == 1 {
				s.change(put("00001.html", "much longer than twenty bytes"), put("00030.html", "x"), del("00002.html"), put("00003.html", "x"))
				s.publish(false)
			} else if n == 2 {
				break
			}
		}
		if got := slices.Sorted(maps.Keys(have)); len(got) != 8 || got[1] != base+"00003.html" {
			t.Errorf("has %v", got)
		}
	})
}

const killedEnv = "PARLEY_TEST_FOLLOWS"
