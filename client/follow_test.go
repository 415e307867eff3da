package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// The whole story: a snapshot, then the stream, a cut, and a resumption.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "", "a.html", "b.html")
		c := newCopier(s)
		c.follow(s.source(), protocol.Cursor{}, func() bool {
			switch at := c.cursor.Seq; {
			case at == 0 && len(c.steps) == 1:
				s.change(put("c.html", "new"))
			case at == 1:
				s.change(move("a.html", "d/a.html", "a.html"), del("b.html"), put("c.html", "newer"))
			case at == 4 && len(c.errs) == 0:
				s.cut()
				s.change(put("", "home"))
			}
			return c.cursor.Seq == 5
		})
		if got := fmt.Sprint(c.doors()); got != "[manifest stream]" {
			t.Errorf("doors %s", got)
		}
		if len(c.errs) != 1 || !errors.Is(c.errs[0], io.ErrUnexpectedEOF) || !strings.HasPrefix(c.errs[0].Error(), "follow http://site.example/: stream: ") {
			t.Errorf("errors %v", c.errs)
		}
		if f := c.steps[0]; !f.Reset || !f.Whole || len(f.Changes) != 3 || f.Changes[0].Op != protocol.Create || f.Changes[0].Seq != 0 {
			t.Errorf("first step %+v", f)
		}
		if s.count("/robots.rdf") != 1 || s.count("/.well-known/parley") != 0 || len(s.agents) != 1 || !s.agents["Test/1 (+mailto:test@example.net)"] {
			t.Errorf("requests %v by %v", s.hits, s.agents)
		}
	})
}

// With a cursor the only request is that for the address of the stream.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		c := newCopier(s)
		c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
		s.change(put("b.html", "1"), put("c.html", "1"))
		c.follow(s.source(), c.cursor, c.caughtUp)
		if s.count("/robots.rdf") != 1 || s.count("/.well-known/parley") != 1 || len(c.errs) > 0 {
			t.Errorf("requests %v, errors %v", s.hits, c.errs)
		}
		// Without the well-known file the beginning of the manifest has it.
		s.setDoor("/.well-known/parley", status(404))
		s.change(put("b.html", "2"))
		c.follow(s.source(), c.cursor, c.caughtUp)
		if s.count("/robots.rdf") != 2 || s.count("/parley/stream") != 2 || len(c.errs) > 0 {
			t.Errorf("requests %v, errors %v", s.hits, c.errs)
		}
	})
}

// Who resumes at a quiet site is told so by a Step without changes.
func TestResumeWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, door := range []client.Door{client.Stream, client.Changes, client.Manifest} {
			s := newSite(t, "a.html")
			src := s.source()
			src.NoStream, src.NoChanges = door != client.Stream, door == client.Manifest
			c := newCopier(s)
			c.follow(src, protocol.Cursor{}, c.caughtUp)
			c.steps = nil
			c.follow(src, c.cursor, func() bool { return len(c.steps) > 0 })
			st := c.steps[0]
			if len(st.Changes) > 0 || st.Behind || st.Reset || st.Door != door || st.Cursor != c.cursor {
				t.Errorf("%s: %+v", door, st)
			}
			if door == client.Stream { // whose first step comes before the news, and says that there are some
				s.change(put("b.html", "1"))
				c.steps = nil
				c.follow(src, c.cursor, c.caughtUp)
				if st := c.steps[0]; len(st.Changes) > 0 || !st.Behind || len(c.steps) != 2 || c.steps[1].Behind {
					t.Errorf("with news: %+v", c.steps)
				}
			}
		}
	})
}

func TestManifestIsSplitIntoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, protocol.MaxBatch, protocol.MaxBatch + 1, 2*protocol.MaxBatch + 500} {
			s := newSite(t)
			for i := range n {
				p := fmt.Sprintf("%05d.html", i)
				s.items[base+p] = item(p, p)
			}
			s.remember()
			c := newCopier(s)
			c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
			if want := max(1, (n+protocol.MaxBatch-1)/protocol.MaxBatch); len(c.steps) != want {
				t.Errorf("%d items: %d steps", n, len(c.steps))
			}
			for i, st := range c.steps {
				if last := i == len(c.steps)-1; st.Reset != (i == 0) || st.Whole != last || st.Cursor.IsZero() == last {
					t.Errorf("%d items: step %d: reset %v whole %v cursor %v", n, i, st.Reset, st.Whole, st.Cursor)
				}
			}
		}
	})
}

// Each rung of the ladder: a missing door causes no waiting.
func TestFallbackToNextDoor(t *testing.T) {
	type doors = map[string]func(http.ResponseWriter, *http.Request, http.HandlerFunc)
	page := func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		fmt.Fprint(w, "<html>not here</html>")
	}
	closing := func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { panic(http.ErrAbortHandler) }
	for _, tt := range []struct {
		name  string
		doors doors
		want  client.Door
		soon  time.Duration // until the second change is told
	}{
		{"all", doors{}, client.Stream, 0},
		{"no stream", doors{"/parley/stream": status(404)}, client.Changes, 0},
		{"stream without upgrade", doors{"/parley/stream": page}, client.Changes, 0},
		{"stream 400", doors{"/parley/stream": status(400)}, client.Changes, 0},
		{"stream 426", doors{"/parley/stream": status(426)}, client.Changes, 0},
		{"stream 501", doors{"/parley/stream": status(501)}, client.Changes, 0},
		{"stream redirects", doors{"/parley/stream": status(302, "Location", "http://other.example/")}, client.Changes, 0},
		{"stream 502", doors{"/parley/stream": status(502)}, client.Changes, 10 * time.Second},
		{"stream dies", doors{"/parley/stream": closing}, client.Changes, 10 * time.Second},
		{"no doors", doors{"/parley/stream": status(404), "/parley/changes": status(404)}, client.Manifest, 11 * time.Minute},
		{"a page for every URL", doors{"/parley/stream": page, "/parley/changes": page}, client.Manifest, 11 * time.Minute},
		{"sidecar down", doors{"/parley/stream": status(502), "/parley/changes": status(502)}, client.Manifest, 11 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, "a.html")
			s.doors = tt.doors
			c := newCopier(s)
			var changed time.Time
			c.follow(s.source(), protocol.Cursor{}, func() bool {
				if changed.IsZero() {
					changed = time.Now().Add(time.Minute)
					time.AfterFunc(time.Minute, func() { s.change(put("b.html", "1")) })
				}
				return c.cursor.Seq == 1
			})
			if got := c.steps[len(c.steps)-1].Door; got != tt.want {
				t.Errorf("%s: uses door %s, want %s; errors %v", tt.name, got, tt.want, c.errs)
			}
			if d := time.Since(changed); d > tt.soon {
				t.Errorf("%s: change received after %v", tt.name, d)
			}
			if len(c.errs) > 8 {
				t.Errorf("%s: %d errors: %v", tt.name, len(c.errs), c.errs)
			}
		})
	}
}

// A caller that knows better than a fixed interval decides when the manifest is next fetched.
func TestManifestPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		c := newCopier(s)
		src := s.source()
		src.NoStream, src.NoChanges = true, true
		src.Poll = time.Second // which counts for nothing then
		waits := []time.Duration{30 * time.Minute, 4 * time.Hour, 0, 24 * time.Hour}
		var last time.Time
		src.Every = func(read time.Time) time.Duration {
			if w := waits[0]; !read.Equal(last) {
				last, waits = read, waits[1:]
				return w
			}
			return 2 * time.Hour // it changes its mind while it waits
		}
		began := time.Now()
		var at []time.Duration
		c.follow(src, protocol.Cursor{}, func() bool {
			at = append(at, time.Since(began).Round(time.Minute))
			s.change(put("a.html", fmt.Sprint(len(at))))
			return len(at) == 4
		})
		if want := []time.Duration{0, 30 * time.Minute, 150 * time.Minute, 150 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("looked after %v, want %v", at, want)
		}
	})
}
