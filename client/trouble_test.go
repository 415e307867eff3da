package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// If the site refuses a cursor, at either door, its manifest is read.
func TestRefusedCursor(t *testing.T) {
	for _, noStream := range []bool{false, true} {
		for _, tt := range []struct {
			name  string
			spoil func(s *fakeSite)
			want  error
		}{
			{"new epoch", func(s *fakeSite) { s.newEpoch("two") }, protocol.ErrEpoch},
			{"too old", func(s *fakeSite) {
				s.change(put("b.html", "2"), put("c.html", "2"))
				s.with(func() { s.floor = 2 })
			}, protocol.ErrTooOld},
			{"restored from backup", func(s *fakeSite) {
				s.with(func() {
					s.log = nil
					s.items = map[string]protocol.Item{base + "old.html": item("old.html", "1")}
					s.remember()
				})
			}, protocol.ErrEpoch},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, "a.html")
				c := newCopier(s)
				c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
				s.change(put("b.html", "1"))
				c.follow(s.source(), c.cursor, c.caughtUp)
				tt.spoil(s)
				at := c.cursor
				c.cursor = protocol.Cursor{} // it may go back
				src := s.source()
				src.NoStream = noStream
				c.follow(src, at, c.caughtUp)
				if len(c.errs) != 1 || !errors.Is(c.errs[0], tt.want) {
					t.Errorf("%s: errors %v", tt.name, c.errs)
				}
				if n := len(c.steps); c.steps[n-1].Door != client.Manifest || !c.steps[n-1].Whole {
					t.Errorf("%s: last step %+v", tt.name, c.steps[n-1])
				}
				s.change(put("b.html", "3")) // and on from there
				c.follow(src, c.cursor, c.caughtUp)
			})
		}
	}
}

func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		own := true
		s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, f http.HandlerFunc) {
			if own = !own; own {
				f(w, r)
				return
			}
			at := s.cursor()
			s.say(w, r, hello(at), func(send func(protocol.Message)) {
				s.change(put("b.html", "1"))
				send(protocol.Message{Kind: protocol.Gap, From: at, To: s.cursor(), Reason: "trimmed"})
				s.change(put("c.html", "1"))
				send(protocol.Message{Kind: protocol.Mark, To: s.cursor(), Head: s.cursor()})
			})
		})
		c := newCopier(s)
		c.follow(s.source(), protocol.Cursor{}, func() bool { return c.cursor.Seq == 2 })
		if got := fmt.Sprint(c.doors()); got != "[manifest stream manifest]" || len(c.errs) != 1 || !errors.Is(c.errs[0], protocol.ErrTooOld) {
			t.Errorf("doors %s, errors %v", got, c.errs)
		}
	})
}

func hello(at protocol.Cursor) protocol.Message {
	return protocol.Message{Kind: protocol.Hello, From: at, Head: at, Heartbeat: 25 * time.Second}
}

// A goodbye is not a failure; a client that is told not to come back does not.
func TestByeIsNoFailure(t *testing.T) {
	for _, tt := range []struct {
		code     int
		retry    time.Duration
		min, max time.Duration
		want     client.Door
	}{
		{protocol.CloseShutdown, 90 * time.Second, 90 * time.Second, 110 * time.Second, client.Stream},
		{protocol.CloseSlow, 0, 0, 500 * time.Millisecond, client.Stream},
		{protocol.CloseShutdown, 20 * time.Hour, time.Hour, 72 * time.Minute, client.Stream},
		{protocol.ClosePolicy, 0, 0, 0, client.Changes},
	} {
		for _, frame := range []bool{false, true} { // said in a message, or by the close code alone
			if frame && tt.retry > 0 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, "a.html")
				var left time.Time
				s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
					if !left.IsZero() {
						own(w, r)
						return
					}
					at := s.cursor()
					s.say(w, r, hello(at), func(send func(protocol.Message)) {
						left = time.Now()
						s.change(put("b.html", "1"))
						if frame {
							closeWith(r.Context(), tt.code)
							return
						}
						send(protocol.Message{Kind: protocol.Bye, From: at, Code: tt.code, Retry: tt.retry, Reason: "so"})
					})
				})
				c := newCopier(s)
				c.follow(s.source(), protocol.Cursor{}, func() bool { return c.cursor.Seq == 1 })
				d := time.Since(left)
				if got := c.steps[len(c.steps)-1].Door; got != tt.want || d < tt.min || d > tt.max {
					t.Errorf("bye %d retry %v: %s after %v", tt.code, tt.retry, got, d)
				}
				if (len(c.errs) > 0) != (tt.code == protocol.ClosePolicy) {
					t.Errorf("bye %d: errors %v", tt.code, c.errs)
				}
			})
		}
	}
}

// A connection without any message is dead, even if it looks open.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		var opened, told time.Time
		s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			if !opened.IsZero() {
				own(w, r)
				return
			}
			s.say(w, r, hello(s.cursor()), func(func(protocol.Message)) {
				opened = time.Now()
				s.change(put("b.html", "1"))
				<-r.Context().Done()
			})
		})
		c := newCopier(s)
		c.follow(s.source(), protocol.Cursor{}, func() bool { told = time.Now(); return c.cursor.Seq == 1 })
		if d := told.Sub(opened); d < time.Minute || d > time.Minute+500*time.Millisecond || len(c.errs) != 1 {
			t.Errorf("change received after %v, errors %v", d, c.errs)
		}
	})
}

// A site that is unavailable behind a gateway for the time of a restart is
// retried within about that time, over the door used before; and the waiting client reports it.
func TestGatewayErrorsDuringRestart(t *testing.T) {
	for _, noStream := range []bool{false, true} {
		for away, late := range map[time.Duration]time.Duration{time.Second: 4 * time.Second, 3 * time.Second: 12 * time.Second, 10 * time.Second: 23 * time.Second, time.Minute: 66 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, "a.html")
				var back time.Time
				c := newCopier(s)
				src := s.source()
				src.NoStream = noStream
				said := new(bytes.Buffer)
				src.Log = slog.New(slog.NewTextHandler(said, nil))
				asked := 0
				for _, door := range []string{"/parley/stream", "/parley/changes"} {
					s.setDoor(door, func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
						if back.IsZero() {
							back = time.Now().Add(away)
							time.AfterFunc(away, func() { s.change(put("b.html", "1")) })
						}
						if asked++; time.Now().Before(back) {
							status(502)(w, r, own)
						} else {
							own(w, r)
						}
					})
				}
				c.follow(src, protocol.Cursor{}, func() bool { return c.cursor.Seq == 1 })
				if d := time.Since(back); d > late {
					t.Errorf("away for %v: change received %v after its return; %s", away, d, said)
				}
				if got := c.steps[len(c.steps)-1].Door; got == client.Manifest {
					t.Errorf("away for %v: change received by %s", away, got)
				}
				if asked > 20 {
					t.Errorf("away for %v: %d requests", away, asked)
				}
				if says := strings.Contains(said.String(), "a door is not used for a while"); away >= 10*time.Second && !says {
					t.Errorf("away for %v: nothing was logged: %s", away, said)
				}
			})
		}
	}
}

// Whatever a stream sends out of turn, nothing is lost, and nothing false is believed.
func TestOutOfOrderStreamMessages(t *testing.T) {
	at := func(n uint64) protocol.Cursor { return protocol.Cursor{Epoch: "one", Seq: n} }
	ev := func(to, seq uint64) protocol.Message {
		c := put("lie.html", "1")
		c.Seq = seq
		return protocol.Message{Kind: protocol.Ev, To: at(to), Changes: []protocol.Change{c}}
	}
	batch := func(from, to protocol.Cursor, seq ...uint64) protocol.Message {
		m := protocol.Message{Kind: protocol.Batch, From: from, To: to}
		for _, n := range seq {
			m.Changes = append(m.Changes, ev(n, n).Changes[0])
		}
		return m
	}
	mark := func(to protocol.Cursor) protocol.Message { return protocol.Message{Kind: protocol.Mark, To: to} }
	other := protocol.Cursor{Epoch: "two", Seq: 9}
	for i, tt := range [][]protocol.Message{
		{mark(at(2))},
		{ev(3, 3)},
		{{Kind: protocol.Bye, From: at(1), Code: 4001}},
		{hello(at(1))},
		{hello(other)},
		{hello(at(2)), hello(at(2))},
		{hello(at(2)), mark(at(1))},
		{hello(at(2)), mark(other)},
		{hello(at(2)), mark(protocol.Cursor{})},
		{hello(at(2)), ev(2, 2)},
		{hello(at(2)), ev(3, 1)},
		{hello(at(2)), ev(2, 3)},
		{hello(at(2)), batch(at(1), at(2), 2)},
		{hello(at(2)), batch(at(3), at(4), 4)},
		{hello(at(2)), batch(at(2), other)},
		{hello(at(2)), batch(at(2), at(3), 4)},
		{hello(at(2)), batch(at(2), at(4), 4, 3)},
		{hello(at(2)), batch(at(2), at(1))},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, "a.html")
			s.change(put("b.html", "1"), put("c.html", "1"))
			lied := false
			s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				if lied {
					own(w, r)
					return
				}
				lied = true
				s.say(w, r, tt[0], func(send func(protocol.Message)) {
					for _, m := range tt[1:] {
						send(m)
					}
					<-r.Context().Done()
				})
				s.change(put("d.html", "1"))
			})
			c := newCopier(s)
			start := time.Now()
			c.follow(s.source(), protocol.Cursor{}, func() bool { return c.cursor.Seq == 3 })
			if bye := tt[0].Kind == protocol.Bye; len(c.errs) != 1 && !bye || time.Since(start) > time.Second {
				t.Errorf("case %d: errors %v after %v", i, c.errs, time.Since(start))
			}
			for _, st := range c.steps {
				for _, ch := range st.Changes {
					if strings.Contains(ch.Item.URL, "lie") {
						t.Errorf("case %d: believed %+v", i, ch)
					}
				}
			}
		})
	}
}

// A reader ignores messages that it does not know.
func TestUnknownMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a.html")
		s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			at := s.cursor()
			s.sayRaw(w, r, string(hello(at).Encode()), `{"t":"poem","to":"zwei:7","lines":3}`, `{"t":"mark","to":"one:0","mood":"calm"}`, `{"t":"mark","to":"one:5"}`)
		})
		c := newCopier(s)
		s.truth[protocol.Cursor{Epoch: "one", Seq: 5}] = s.truth[protocol.Cursor{Epoch: "one"}]
		c.follow(s.source(), protocol.Cursor{}, func() bool { return c.cursor.Seq == 5 })
		if len(c.errs) > 0 || len(c.steps) != 3 || len(c.steps[1].Changes)+len(c.steps[2].Changes) != 0 {
			t.Errorf("errors %v, steps %+v", c.errs, c.steps)
		}
	})
}

// A truncated manifest is read again from its start, and the part that arrived is discarded.
func TestTruncatedManifestIsReadAgain(t *testing.T) {
	cut := func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		own(&cutWriter{w, 400_000}, r)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, tt := range []struct {
		name string
		door func(http.ResponseWriter, *http.Request, http.HandlerFunc)
		want string
	}{
		{"connection cut", cut, "unexpected EOF"},
		{"cut but closed properly", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) { own(&cutWriter{w, 400_000}, r) }, "document ends inside"},
		{"wrong count", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			own(&editWriter{w, strings.NewReplacer("items>2500<", "items>2501<")}, r)
		}, "differs from its stated count"},
		{"no XML", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			io.WriteString(w, "<html><p>hello</html>")
		}, "read manifest"},
		{"nothing", status(200), "read manifest"},
		{"stalls", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			own(&cutWriter{w, 400_000}, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "timed out: no data received"},
		{"no answer", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { <-r.Context().Done() }, "timed out: no data received"},
		{"busy", status(503, "Retry-After", "100"), "answered 503"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			for i := range 2500 {
				p := fmt.Sprintf("%05d.html", i)
				s.items[base+p] = item(p, p)
			}
			s.remember()
			s.setDoor("/robots.rdf", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				if s.count("/robots.rdf") > 2 {
					own(w, r)
					return
				}
				tt.door(w, r, own)
			})
			c := newCopier(s)
			start := time.Now()
			c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
			if len(c.errs) != 2 || !strings.Contains(c.errs[0].Error(), tt.want) || !strings.Contains(c.errs[1].Error(), tt.want) {
				t.Errorf("%s: errors %v", tt.name, c.errs)
			}
			if d := time.Since(start); d > 4*time.Minute || tt.name == "busy" && d < 200*time.Second {
				t.Errorf("%s: took %v", tt.name, d)
			}
			var parts []string
			for _, st := range c.steps {
				if st.Reset {
					parts = append(parts, "reset")
				}
				if st.Whole {
					parts = append(parts, "whole")
				}
			}
			if got := strings.Join(parts, " "); !strings.HasSuffix(got, "reset whole") || strings.Count(got, "whole") != 1 {
				t.Errorf("%s: %s", tt.name, got)
			}
		})
	}
}

// The property: whatever breaks, each state that has a cursor is the site's state
// at that cursor, and in the end nothing is missing.
func TestRandomFaults(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4)) // of the site, under its lock
			mine := rand.New(rand.NewPCG(seed, 5))
			s := newSite(t, "", "a.html", "b/c.html")
			calm := false
			s.budget = func() int {
				if calm || chance(r, 4) {
					return -1
				}
				return r.IntN(6000)
			}
			for _, path := range []string{"/robots.rdf", "/parley/changes", "/parley/stream", "/.well-known/parley"} {
				s.setDoor(path, func(w http.ResponseWriter, rq *http.Request, own http.HandlerFunc) {
					var bad bool
					var code int
					s.with(func() { bad, code = !calm && chance(r, 6), []int{404, 400, 429, 500, 502, 503}[r.IntN(6)] })
					if bad {
						w.WriteHeader(code)
						return
					}
					own(w, rq)
				})
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() {
				for i := range 150 {
					var wait, dice, n int
					s.with(func() { wait, dice, n = r.IntN(40000), r.IntN(40), 1+r.IntN(4) })
					if !pause.For(ctx, time.Duration(wait)*time.Millisecond) {
						return
					}
					switch {
					case dice == 0:
						s.newEpoch(fmt.Sprint("epoch", i))
					case dice == 1:
						s.with(func() { s.floor = uint64(len(s.log)) })
					case dice < 4:
						s.cut()
					default:
						for j := range n {
							s.change(randomChange(s, r, fmt.Sprint(i, j)))
						}
					}
				}
				s.with(func() { calm = true })
				s.change(put("last.html", "1"))
			}()
			c := newCopier(s)
			src := s.source()
			src.Poll = 5 * time.Minute
			over := func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return calm && c.cursor == protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.log))}
			}
			for !over() && !t.Failed() { // the crawler is started again now and then
				c.follow(src, c.cursor, func() bool { return over() || chance(mine, 30) })
			}
			if t.Failed() {
				t.Fatalf("seed %d: %d steps, doors %v", seed, len(c.steps), c.doors())
			}
		})
	}
}

func randomChange(s *fakeSite, r *rand.Rand, content string) protocol.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := func() string { return fmt.Sprintf("p%d.html", r.IntN(12)) }
	p, q := page(), page()
	old, ok := s.items[base+p]
	_, taken := s.items[base+q]
	switch {
	case ok && chance(r, 4):
		return del(p)
	case ok && !taken && chance(r, 3):
		m := protocol.Change{Op: protocol.Move, From: old.URL, Item: old}
		m.Item.URL = base + q
		return m
	}
	return put(p, content)
}

// A follower is told that a stream was refused, and continues without it.
func TestRefusedStreamIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.items[base+"a.html"] = item("a.html", "a")
		s.remember()
		s.setDoor("/parley/stream", status(503, "Retry-After", "100"))
		var refused []string
		from := s.source()
		from.Refused = func(status int, header http.Header) {
			refused = append(refused, fmt.Sprint(status, " ", header.Get("Retry-After")))
		}
		c := newCopier(s)
		c.follow(from, protocol.Cursor{}, func() bool { return c.caughtUp() && len(refused) > 0 })
		if len(refused) == 0 || refused[0] != "503 100" {
			t.Errorf("reported %q", refused)
		}
	})
}
