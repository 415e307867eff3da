package ping_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
)

// After a site has moved to another host, engines are sent each page there, once the new host serves the key, and no URL of the old one.
func TestIndexNowAfterMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const next = "https://new.example/"
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		turn := func(at string) (r ping.Result, s *ping.IndexNow) { // each with a process of its own
			t.Helper()
			w.must(w.journal.Close())
			w.open()
			s = w.sender()
			s.Options.Base = at
			r = must.Get(s.Turn(t.Context()))
			return r, s
		}
		w.change(create("a.html"), create("b.html"))
		turn(base)
		w.change(update("a.html", 1))
		turn(base)
		e.wantTaken("a.html")
		e.will("503")
		w.change(update("b.html", 1))
		r, _ := turn(base)
		check(t, "pending", r.Pending, 1)
		check(t, "URLs in notes", w.notes("/url/"+base), 2)
		asked := len(e.batches())

		w.must(w.journal.Move(t.Context(), base, next))
		w.host("new.example", serving{http.NotFoundHandler()})
		time.Sleep(2 * time.Hour)
		r, s := turn(next)
		if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "the key is not served: "+next) || len(e.batches()) != asked {
			t.Errorf("%+v, after %d requests", r, len(e.batches()))
		}
		check(t, "URLs of the old host in notes", w.notes("/url/"+base), 0)
		w.host("new.example", serving{s})
		time.Sleep(2 * time.Hour)
		turn(next)
		e.wantTaken(next + "a.html " + next + "b.html")
	})
}
