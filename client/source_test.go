package client_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

// TestMain fails when a test has left a goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		os.Exit(code) // which has goroutines of its own
	}
	for end := time.Now().Add(5 * time.Second); code == 0 && runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s", buf[:runtime.Stack(buf, true)])
			code = 1
		}
	}
	os.Exit(code)
}

func TestBadBase(t *testing.T) {
	for _, b := range []string{"", "site.example", "/docs/", "ftp://site.example/", "http://u:p@site.example/", "http://"} {
		n := 0
		for s, err := range client.Follow(t.Context(), &client.Source{Base: b}, protocol.Cursor{}) {
			if n++; err == nil || !strings.HasPrefix(err.Error(), "follow: url ") {
				t.Errorf("%q: step %+v, error %v", b, s, err)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d reports", b, n)
		}
	}
}

// The forms of a base, and the resulting requests.
func TestBase(t *testing.T) {
	for b, want := range map[string]string{
		"http://site.example":                    "/robots.rdf",
		"HTTP://SITE.example:80/":                "/robots.rdf",
		"http://site.example/docs":               "/docs/robots.rdf",
		"http://site.example/docs/?x#y":          "/docs/robots.rdf",
		"http://site.example/docs/all.rdf":       "/docs/all.rdf",
		"http://site.example/docs/a%20b/all.rdf": "/docs/a%20b/all.rdf",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			src := s.source()
			src.Base = b
			for range client.Follow(t.Context(), src, protocol.Cursor{}) {
				break
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for path, n := range s.hits {
				if n != 1 || len(s.hits) != 1 || path != strings.ReplaceAll(want, "%20", " ") {
					t.Errorf("%s: requested %v", b, s.hits)
				}
			}
		})
	}
}

// URLs outside the site's origin are left out, wherever they were named.
func TestURLsOfOtherOriginsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html", "b.html")
		own := "a.html</link>"
		s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, f http.HandlerFunc) {
			f(&editWriter{w, strings.NewReplacer(base+"b.html", "http://other.example/b.html", own, own)}, r)
		})
		foreign := func(op protocol.Op, url, from string) protocol.Change {
			return protocol.Change{Op: op, Item: protocol.Item{URL: url, Length: -1}, From: from}
		}
		list := []protocol.Change{
			foreign(protocol.Create, "https://site.example/x", ""),
			foreign(protocol.Update, "http://site.example:8080/x", ""),
			foreign(protocol.Delete, "//other.example/x", ""),
			foreign(protocol.Update, "javascript:alert(1)", ""),
			foreign(protocol.Update, "http://site.example.evil/x", ""),
			foreign(protocol.Update, "http://site.example@evil/x", ""),
			foreign(protocol.Update, "x\ny", ""),
			foreign(protocol.Move, "http://other.example/a.html", "/a.html"),
			foreign(protocol.Move, "http://other.example/1", "http://other.example/2"),
			foreign(protocol.Move, "/c.html", "http://other.example/c.html"),
			foreign(protocol.Update, "d/../d.html#top", ""),
		}
		for i := range list {
			list[i].Seq = uint64(i + 1)
		}
		s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			at := s.cursor()
			to := protocol.Cursor{Epoch: at.Epoch, Seq: uint64(len(list))}
			s.say(w, r, hello(at), func(send func(protocol.Message)) {
				send(protocol.Message{Kind: protocol.Batch, From: at, To: to, Changes: list})
				<-r.Context().Done()
			})
		})
		var steps []client.Step
		for st, err := range client.Follow(t.Context(), s.source(), protocol.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			if steps = append(steps, st); st.Skipped > 1 {
				break
			}
		}
		if st := steps[1]; st.Door != client.Stream || len(st.Changes) > 0 {
			t.Errorf("connected: %+v", st)
		}
		if st := steps[0]; len(st.Changes) != 1 || st.Changes[0].Item.URL != base+"a.html" || st.Skipped != 1 || !st.Whole {
			t.Errorf("manifest: %+v", st)
		}
		var got []string
		for _, ch := range steps[2].Changes {
			got = append(got, fmt.Sprintf("%s %s%s", ch.Op, ch.Item.URL, ch.From))
		}
		want := "delete http://site.example/a.html, create http://site.example/c.html, update http://site.example/d.html"
		if strings.Join(got, ", ") != want || steps[2].Skipped != 8 {
			t.Errorf("stream: %s, %d left out", strings.Join(got, ", "), steps[2].Skipped)
		}
	})
}

// A door on another host is ignored. The network of the test fails the test
// when another host is dialled.
func TestDoorsOfOtherOriginsAreIgnored(t *testing.T) {
	for _, u := range []string{"http://other.example/d", "ws://other.example/d", "wss://site.example/d", "http://site.example:8080/d", "https://site.example/d"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, "a.html")
			s.head = func(m *protocol.Manifest) { m.Stream, m.Changes = u, strings.Replace(u, "ws", "http", 1) }
			c := newCopier(s)
			c.follow(s.source(), protocol.Cursor{}, func() bool {
				if c.cursor.Seq == 0 {
					s.change(put("b.html", "1"))
				}
				return c.cursor.Seq == 1
			})
			if got := fmt.Sprint(c.doors()); got != "[manifest]" || len(c.errs) > 0 || s.count("/d") > 0 {
				t.Errorf("%s: doors %s, errors %v", u, got, c.errs)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		hops := 0
		s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			switch hops++; {
			case hops == 1:
				http.Redirect(w, r, "http://other.example/robots.rdf", http.StatusFound)
			case hops < 10:
				http.Redirect(w, r, "/robots.rdf", http.StatusFound)
			case hops == 10:
				http.Redirect(w, r, "/real/robots.rdf", http.StatusMovedPermanently)
			}
		})
		s.setDoor("/real/robots.rdf", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { s.manifest(w, r) })
		c := newCopier(s)
		c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
		if len(c.errs) != 2 || !strings.Contains(c.errs[0].Error(), "redirects to another origin, http://other.example/robots.rdf: name the site as http://other.example/") ||
			!strings.Contains(c.errs[1].Error(), "more than 5 redirects") {
			t.Errorf("errors %v", c.errs)
		}
	})
}

// The thesis's form has no cursor and no doors: it is polled,
// and read again if the site cannot say that it is the same.
func TestManifestWithoutCursor(t *testing.T) {
	text := must.Get(os.ReadFile("../protocol/testdata/figure-6.5.rdf"))
	for _, validators := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			start := time.Now()
			s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				own := strings.NewReplacer("www.example.com", "site.example").Replace(string(text))
				edition := time.Date(2004, 10, 1, 0, 0, 0, 0, time.UTC)
				switch {
				case !validators:
					edition = time.Time{}
				case time.Since(start) > time.Hour:
					edition = edition.AddDate(0, 0, 1)
				}
				http.ServeContent(w, r, "", edition, strings.NewReader(own))
			})
			var steps []client.Step
			for st, err := range client.Follow(t.Context(), s.source(), protocol.Cursor{}) {
				if err != nil {
					t.Fatal(err)
				}
				if !st.Reset || st.Whole || !st.Cursor.IsZero() || len(st.Changes) == 0 || st.Door != client.Manifest {
					t.Errorf("step %+v", st)
				}
				if steps = append(steps, st); len(steps) == 2 {
					break
				}
			}
			d, n := time.Since(start), s.count("/robots.rdf")
			if validators && (d < time.Hour || d > 72*time.Minute || n < 6) || !validators && (d > 11*time.Minute || n != 2) {
				t.Errorf("validators %v: read again after %v and %d requests", validators, d, n)
			}
			if len(s.hits) != 1 {
				t.Errorf("requests %v", s.hits)
			}
		})
	}
}

// A manifest older than the caller's cursor is not believed: a page missing in it proves nothing.
func TestOlderManifestIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		c := newCopier(s)
		c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
		s.change(put("b.html", "1"), put("c.html", "1"))
		c.follow(s.source(), c.cursor, c.caughtUp)
		s.setDoor("/parley/stream", status(404))
		s.setDoor("/parley/changes", status(404))
		s.with(func() { s.head = func(m *protocol.Manifest) { m.Cursor.Seq = 1 } })
		n := len(c.steps)
		c.follow(s.source(), c.cursor, func() bool {
			if len(c.errs) == 3 { // two doors, and the manifest
				s.with(func() { s.head = nil })
				s.change(put("c.html", "2"))
			}
			return c.cursor.Seq == 3
		})
		if len(c.errs) != 3 || !strings.Contains(c.errs[2].Error(), "manifest has cursor one:1, which is not later than ours, one:2") || len(c.steps) != n+1 {
			t.Errorf("errors %v, steps %+v", c.errs, c.steps[n:])
		}
	})
}

// An incomplete manifest lists deleted pages as tombstones.
func TestIncompleteManifestListsTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		at := time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, complete := range []bool{false, true} {
			s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				m := protocol.Manifest{URL: base + "robots.rdf", Base: base, Complete: complete, Items: 1, Cursor: protocol.Cursor{Epoch: "one", Seq: 7}}
				gone := []protocol.Tombstone{{URL: base + "old.html", At: at, Seq: 3}}
				if err := protocol.WriteManifest(w, m, all([]protocol.Item{item("a.html", "1")}), all(gone)); err != nil {
					t.Error(err)
				}
			})
			for st, err := range client.Follow(t.Context(), s.source(), protocol.Cursor{}) {
				if err != nil {
					t.Fatal(err)
				}
				if st.Whole != complete || st.Cursor.Seq != 7 || complete && len(st.Changes) != 1 || !complete &&
					(len(st.Changes) != 2 || st.Changes[1].Op != protocol.Delete || st.Changes[1].Item.URL != base+"old.html" || !st.Changes[1].At.Equal(at)) {
					t.Errorf("complete %v: step %+v", complete, st)
				}
				break
			}
		}
	})
}

// The follower returns from a lesser door once the better one works again.
func TestFollowerReturnsToBetterDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		s.setDoor("/parley/stream", status(502))
		s.setDoor("/parley/changes", status(404))
		c := newCopier(s)
		start := time.Now()
		n := 0
		time.AfterFunc(30*time.Minute, func() { s.setDoor("/parley/changes", nil) })
		time.AfterFunc(90*time.Minute, func() { s.setDoor("/parley/stream", nil) })
		var when []string
		c.follow(s.source(), protocol.Cursor{}, func() bool {
			if d := c.doors(); len(d) > n {
				n = len(d)
				when = append(when, fmt.Sprint(d[n-1], " ", time.Since(start).Truncate(30*time.Minute)))
			}
			if c.caughtUp() {
				time.AfterFunc(time.Minute, func() { s.change(put("b.html", time.Now().String())) })
			}
			return n == 3
		})
		if got := strings.Join(when, ", "); got != "manifest 0s, changes 30m0s, stream 1h30m0s" {
			t.Errorf("doors: %s", got)
		}
		if len(c.errs) > 6 {
			t.Errorf("errors %v", c.errs)
		}
	})
}

// Retry-After is obeyed.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"1000": 1000 * time.Second, "86400": time.Hour, "date": 30 * time.Minute, "-5": 0, "soon": 0} {
		synctest.Test(t, func(t *testing.T) {
			if header == "date" {
				header = time.Now().Add(want).UTC().Format(http.TimeFormat)
			}
			s := newSite(t, "a.html")
			s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				if s.count("/robots.rdf") > 1 {
					own(w, r)
					return
				}
				w.Header().Set("Retry-After", header)
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusTooManyRequests)
				io.WriteString(w, `{"title":"Too many","detail":"not more than 5 a day"}`)
			})
			c := newCopier(s)
			start := time.Now()
			c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
			if d := time.Since(start); d < want || d > want+want/5+time.Second {
				t.Errorf("%s: returned after %v", header, d)
			}
			var e *client.StatusError
			if len(c.errs) != 1 || !errors.As(c.errs[0], &e) || e.Status != 429 || e.Title != "not more than 5 a day" || e.RetryAfter > time.Hour {
				t.Errorf("%s: errors %v", header, c.errs)
			}
		})
	}
}

// A site that responds to the long poll at once does not get endless requests.
func TestImmediateLongPollResponsesAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		s.setDoor("/parley/changes", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			at := s.cursor()
			w.Header().Set("Content-Type", "application/json")
			w.Write(protocol.Message{Kind: protocol.Batch, From: at, To: at, Head: at}.Encode())
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		src := s.source()
		src.NoStream = true
		var steps []client.Step
		for st, err := range client.Follow(ctx, src, protocol.Cursor{}) {
			if steps = append(steps, st); err != nil {
				t.Error(err)
			}
		}
		if len(steps) != 2 || steps[0].Door != client.Manifest || steps[1].Door != client.Changes || len(steps[1].Changes) > 0 {
			t.Errorf("steps %+v", steps)
		}
		if n := s.count("/parley/changes"); n < 100 || n > 125 {
			t.Errorf("%d requests in 10 minutes", n)
		}
	})
}

// Nor does a site whose cursor moves with every response, or
// one whose doors deliver a little and fail, by a cut or by a gap after
// which the manifest must be read.
func TestEndlessChangesAreThrottled(t *testing.T) {
	mark := func(at protocol.Cursor) protocol.Message {
		return protocol.Message{Kind: protocol.Mark, To: at, Head: at}
	}
	const minutes = 30
	for _, tt := range []struct {
		name, path string
		door       func(s *fakeSite) func(http.ResponseWriter, *http.Request, http.HandlerFunc)
		most       int // requests a minute
	}{
		{"changes", "/parley/changes", func(s *fakeSite) func(http.ResponseWriter, *http.Request, http.HandlerFunc) {
			return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				from, _ := protocol.ParseCursor(r.URL.Query().Get("after"))
				to := protocol.Cursor{Epoch: from.Epoch, Seq: from.Seq + 1}
				w.Header().Set("Content-Type", "application/json")
				w.Write(protocol.Message{Kind: protocol.Batch, From: from, To: to, Head: protocol.Cursor{Epoch: to.Epoch, Seq: to.Seq + 1000}}.Encode())
			}
		}, 60},
		{"cut", "/parley/stream", func(s *fakeSite) func(http.ResponseWriter, *http.Request, http.HandlerFunc) {
			return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				at := s.cursor()
				s.say(w, r, hello(at), func(send func(protocol.Message)) { send(mark(at)) })
			}
		}, 30},
		{"gap", "/parley/stream", func(s *fakeSite) func(http.ResponseWriter, *http.Request, http.HandlerFunc) {
			return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				at := s.cursor()
				s.say(w, r, hello(at), func(send func(protocol.Message)) {
					send(mark(at))
					s.change(put("a.html", fmt.Sprint(at.Seq)))
					send(protocol.Message{Kind: protocol.Gap, From: at, To: s.cursor(), Reason: "trimmed"})
				})
			}
		}, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, "a.html")
			s.setDoor(tt.path, tt.door(s))
			ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
			defer cancel()
			src := s.source()
			src.NoStream = tt.path == "/parley/changes"
			for range client.Follow(ctx, src, protocol.Cursor{}) {
			}
			if n := s.count(tt.path); n < minutes || n > tt.most*minutes+40 {
				t.Errorf("%s: %s requested %d times in %d minutes", tt.name, tt.path, n, minutes)
			}
			if n := s.count("/robots.rdf"); n > 30*minutes {
				t.Errorf("%s: manifest read %d times in %d minutes", tt.name, n, minutes)
			}
		})
	}
}

// Over TLS the doors are https and wss, with the trust settings of the caller's client.
func TestTLS(t *testing.T) {
	agents := map[string]bool{}
	mux := http.NewServeMux()
	var s *httptest.Server
	mux.HandleFunc("/robots.rdf", func(w http.ResponseWriter, r *http.Request) {
		agents[r.UserAgent()] = true
		b := s.URL + "/"
		protocol.WriteManifest(w, protocol.Manifest{URL: b + "robots.rdf", Base: b, Complete: true, Cursor: protocol.Cursor{Epoch: "one", Seq: 1},
			Stream: "ws" + strings.TrimPrefix(b, "http") + "parley/stream"}, all([]protocol.Item{}), nil)
	})
	mux.HandleFunc("/parley/stream", func(w http.ResponseWriter, r *http.Request) {
		agents[r.UserAgent()] = true
		c, err := wsconn.Accept(w, r, wsconn.Options{Subprotocols: []string{protocol.Subprotocol}})
		if err != nil {
			return
		}
		defer c.Close(1000, "")
		at := protocol.Cursor{Epoch: "one", Seq: 2}
		c.Write(r.Context(), hello(protocol.Cursor{Epoch: "one", Seq: 1}).Encode())
		c.Write(r.Context(), protocol.Message{Kind: protocol.Mark, To: at, Head: at}.Encode())
		c.Read(r.Context())
	})
	s = httptest.NewTLSServer(mux)
	defer s.Close()
	var doors []client.Door
	for st, err := range client.Follow(t.Context(), &client.Source{Base: s.URL, HTTP: s.Client()}, protocol.Cursor{}) {
		if err != nil {
			t.Fatal(err)
		}
		if doors = append(doors, st.Door); len(doors) == 2 {
			break
		}
	}
	if fmt.Sprint(doors) != "[manifest stream]" || len(agents) != 1 || !agents["Parley (+https://github.com/parleyweb/parley)"] {
		t.Errorf("doors %v, agents %v", doors, agents)
	}
}

// Over real sockets, with a client of its own, nothing is left running.
func TestCancel(t *testing.T) {
	for _, where := range []string{"manifest", "stream", "changes", "well-known", "break"} {
		arrived := make(chan bool, 1)
		mux := http.NewServeMux()
		wait := func(w http.ResponseWriter, r *http.Request) {
			arrived <- true
			<-r.Context().Done()
		}
		mux.HandleFunc("/parley/stream", wait)
		mux.HandleFunc("/parley/changes", wait)
		mux.HandleFunc("/.well-known/parley", wait)
		var s *httptest.Server
		mux.HandleFunc("/robots.rdf", func(w http.ResponseWriter, r *http.Request) {
			b := s.URL + "/"
			protocol.WriteManifest(w, protocol.Manifest{URL: b + "robots.rdf", Base: b, Complete: true, Items: 0, Cursor: protocol.Cursor{Epoch: "one", Seq: 1},
				Stream: b + "parley/stream", Changes: b + "parley/changes"}, all([]protocol.Item{}), nil)
			if where == "manifest" {
				w.(http.Flusher).Flush()
				wait(w, r)
			}
		})
		s = httptest.NewServer(mux)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		var at protocol.Cursor
		if where == "well-known" {
			at = protocol.Cursor{Epoch: "one", Seq: 1}
		}
		n := 0
		for _, err := range client.Follow(ctx, &client.Source{Base: s.URL, NoStream: where == "changes"}, at) {
			if n++; err != nil {
				t.Errorf("%s: %v", where, err)
			}
			if where == "break" {
				arrived <- true
				break
			}
		}
		if want := map[string]int{"manifest": 0, "well-known": 0}; n != 1 && n != want[where] {
			t.Errorf("%s: %d steps", where, n)
		}
		cancel()
		s.Close()
	}
}

// If a door of a site is on another origin, the URLs named are still
// those of the site, not of the door.
func TestElsewhereErrorNamesSite(t *testing.T) {
	for _, door := range []string{"robots.rdf", ".well-known/parley", "parley/changes", "parley/stream"} {
		err := &client.ElsewhereError{URL: "http://www.example.org/docs/" + door, To: "https://www.example.org/docs/" + door}
		if said := err.Error(); !strings.HasSuffix(said, ": name the site as https://www.example.org/docs/") {
			t.Errorf("%s: %s", door, said)
		}
	}
}
