package harvest_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

type answers struct {
	mu   sync.Mutex
	list []*harvest.Answer
}

func (a *answers) take(x *harvest.Answer) {
	body := bytes.Clone(x.Body)
	x.Release()
	x.Body = body
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, x)
}

// faults counts the answers by fault, or status.
func (a *answers) faults() map[string]int {
	n := map[string]int{}
	for _, x := range a.list {
		if x.Fault != "" {
			n[string(x.Fault)]++
		} else {
			n[fmt.Sprint(x.Status)]++
		}
	}
	return n
}

func newHarvester(w *fakeweb.Web) *harvest.Harvester {
	return &harvest.Harvester{Options: harvest.Options{Agent: "Test/1", From: "test@example.net", Resolver: w, Dial: w.Dial}}
}

// everything is a batch of the pages that the sites of a Web link to, without their
// endless parts.
func everything(w *fakeweb.Web, most int) *harvest.Batch {
	b := &harvest.Batch{}
	page := frontier.PageID(0)
	for _, s := range w.Sites() {
		sb := harvest.SiteBatch{Site: frontier.SiteID(s.Number + 1), Origin: s.Origin, Delay: s.Delay}
		for _, path := range append(s.Traps, s.Paths()...) {
			if len(sb.Tasks) < most {
				page++
				sb.Tasks = append(sb.Tasks, harvest.Task{Page: page, URL: s.Origin + path})
			}
		}
		b.Sites = append(b.Sites, sb)
	}
	return b
}

// Whatever sites do, and however many there are, none gets two requests at once
// or too soon; every task has exactly one answer; nothing is left open.
func TestPoliteness(t *testing.T) {
	for _, o := range []struct {
		name string
		web  fakeweb.Options
		set  func(*harvest.Harvester)
		gap  time.Duration
		most int // requests without a gap
	}{
		{"defaults", fakeweb.Options{Sites: 1100, Pages: 6}, func(h *harvest.Harvester) {}, 15 * time.Second, 1},
		{"few at once", fakeweb.Options{Sites: 66, Pages: 5}, func(h *harvest.Harvester) { h.Options.Sites = 5; h.Options.Wait = 2 * time.Second }, 2 * time.Second, 1},
		{"by address", fakeweb.Options{Sites: 88, Pages: 4, Share: 4}, func(h *harvest.Harvester) { h.Options.Wait = 3 * time.Second }, 3 * time.Second, 1},
		{"many on an address", fakeweb.Options{Sites: 160, Pages: 3, Share: 80}, func(h *harvest.Harvester) { h.Options.Wait = 3 * time.Second }, 3 * time.Second, 1},
		{"in parts", fakeweb.Options{Sites: 66, Pages: 5}, func(h *harvest.Harvester) {
			h.Options.Range = true
			h.Options.Wait = time.Second
			h.Options.Overbook = true
		}, time.Second, 1},
		{"three pages at once", fakeweb.Options{Sites: 88, Pages: 8, Share: 2, Own: true}, func(h *harvest.Harvester) {
			h.Options.Wait, h.Options.AtOnce, h.Options.Private = 3*time.Second, 3, true
		}, 3 * time.Second, 3},
		{"three pages at once, but not of other people's sites", fakeweb.Options{Sites: 66, Pages: 8}, func(h *harvest.Harvester) { h.Options.AtOnce = 3 }, 15 * time.Second, 1},
	} {
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o.web.Seed = 7
				if testing.Short() { // the race detector does not bear large bubbles
					o.web.Sites = min(o.web.Sites, 220)
				}
				w := fakeweb.New(o.web)
				defer w.Close()
				h := newHarvester(w)
				h.Options.MaxBytes = 1_000_000 // of pages that never end, and of what small ones unpack to
				o.set(h)
				b := everything(w, 6)
				var got answers
				must.OK(t, h.Run(t.Context(), once(b), func(a *harvest.Answer) {
					a.Release() // nobody reads what the bombs among them have unpacked
					got.take(a)
				}))
				for _, f := range w.Impolite(fakeweb.Manners{Gap: o.gap, AtOnce: o.most, Address: 2, Delay: true, Agent: "Test/1"}) {
					t.Error(f)
				}
				if n := len(w.Log()); n < o.web.Sites {
					t.Errorf("%d requests to %d sites", n, o.web.Sites)
				}
				asked := map[frontier.PageID]int{}
				for _, a := range got.list {
					asked[a.Page]++
				}
				for _, s := range b.Sites {
					for _, task := range s.Tasks {
						if asked[task.Page] != 1 {
							t.Errorf("%s: %d answers", task.URL, asked[task.Page])
						}
					}
				}
				time.Sleep(5 * time.Second) // a site that closes late
				if w.Open() > 0 {
					t.Errorf("%d connection ends are open", w.Open())
				}
			})
		})
	}
}
