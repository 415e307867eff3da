package sitequeue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// With one site, a queue gives out the same pages as a frontier, in the same order, whatever becomes of them.
func TestSameAsFrontier(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		stores := [2]*frontier.MemoryStore{{}, {}}
		f, err := frontier.New(frontier.BreadthFirst{}, stores[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		q := New(stores[1])
		pages, now := 0, int64(1000)
		put := func(e frontier.Entry) {
			for _, s := range stores {
				s.Put(e)
			}
			if e.At == 0 {
				f.Add([]frontier.Entry{e})
				q.Add([]frontier.Entry{e})
			}
		}
		entry := func(id int) frontier.Entry {
			e := frontier.Entry{Page: frontier.PageID(id), Site: 1, Rank: -float32(r.IntN(4))}
			if r.IntN(3) == 0 {
				e.At = now + 1 + r.Int64N(20)
			}
			return e
		}
		out := map[frontier.PageID]bool{}
		for step := range 300 {
			now += r.Int64N(5)
			switch r.IntN(8) {
			case 0, 1: // new pages
				for range r.IntN(8) {
					pages++
					put(entry(pages))
				}
			case 2, 3: // what becomes of the pages that are out
				for id := range out {
					switch r.IntN(3) {
					case 0:
						delete(out, id)
						f.Return([]frontier.PageID{id})
						q.Return([]frontier.PageID{id})
					case 1:
						delete(out, id)
						f.Done([]frontier.PageID{id})
						q.Done([]frontier.PageID{id})
						put(entry(int(id)))
					}
				}
			case 4: // a page is requested
				if pages == 0 {
					continue
				}
				e := frontier.Entry{Page: frontier.PageID(1 + r.IntN(pages)), Site: 1}
				if r.IntN(2) == 0 {
					f.First(e)
					q.First(e)
				} else if got, want := q.Take(e), f.Take(e); got != want {
					t.Fatalf("seed %d, step %d: Take(%d) is %v, want %v", seed, step, e.Page, got, want)
				} else if got {
					out[e.Page] = true
				}
			case 5, 6: // a page gets another place, out or not
				if pages == 0 {
					continue
				}
				id := 1 + r.IntN(pages)
				was, known := stores[0].Entry(frontier.PageID(id))
				e := entry(id)
				put(e)
				if known && was.At == 0 && e.At != 0 {
					f.Drop([]frontier.Entry{was})
					q.Drop([]frontier.Entry{was})
				}
			}
			if got, want := q.Wake(now), f.Wake(now); got != want {
				t.Fatalf("seed %d, step %d: Wake is %d, want %d", seed, step, got, want)
			}
			o := frontier.BatchOptions{Size: 1 + r.IntN(6)}
			want, err := f.Batch(now, o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := q.Batch(now, o)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(ids(got)) != fmt.Sprint(ids(want)) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, ids(got), ids(want))
			}
			for _, id := range ids(got) {
				out[id] = true
			}
		}
	}
}

func ids(list []frontier.SiteEntries) (pages []frontier.PageID) {
	for _, s := range list {
		for _, e := range s.Entries {
			pages = append(pages, e.Page)
		}
	}
	return pages
}

// Between the commit of a visit and Done, a batch may make the page's next visit ready, or an announcement may. Then Done leaves it to
// the next batch.
func TestDueBeforeDone(t *testing.T) {
	none := frontier.BatchOptions{Skip: func(frontier.SiteID) bool { return true }}
	for name, ready := range map[string]func(*Queue, *frontier.MemoryStore) error{
		"promoted": func(q *Queue, m *frontier.MemoryStore) error {
			m.Put(frontier.Entry{Page: 1, Site: 1, At: 2})
			_, err := q.Batch(2, none)
			return err
		},
		"added": func(q *Queue, m *frontier.MemoryStore) error {
			m.Put(frontier.Entry{Page: 1, Site: 1})
			q.Add([]frontier.Entry{{Page: 1, Site: 1}})
			return nil
		},
	} {
		m := &frontier.MemoryStore{}
		m.Put(frontier.Entry{Page: 1, Site: 1})
		m.Put(frontier.Entry{Page: 2, Site: 1})
		q := New(m)
		if list, err := q.Batch(1, frontier.BatchOptions{}); err != nil || fmt.Sprint(ids(list)) != "[1 2]" {
			t.Fatalf("%v, %v: want both pages", list, err)
		}
		if err := ready(q, m); err != nil {
			t.Fatal(err)
		}
		q.Done([]frontier.PageID{1})
		if list, err := q.Batch(3, frontier.BatchOptions{}); err != nil || fmt.Sprint(ids(list)) != "[1]" {
			t.Errorf("%s: %v, %v: want page 1", name, list, err)
		}
	}
}

// A site that is skipped keeps its pages.
func TestSkip(t *testing.T) {
	m := &frontier.MemoryStore{}
	m.Put(frontier.Entry{Page: 1, Site: 1})
	q := New(m)
	q.First(frontier.Entry{Page: 2, Site: 1})
	if list, err := q.Batch(1, frontier.BatchOptions{Skip: func(frontier.SiteID) bool { return true }}); err != nil || len(list) > 0 {
		t.Errorf("%v, %v: want nothing", list, err)
	}
	if list, err := q.Batch(1, frontier.BatchOptions{}); err != nil || fmt.Sprint(ids(list)) != "[2 1]" || q.Len() != 0 {
		t.Errorf("%v, %v, and %d left: want page 2, then 1", list, err, q.Len())
	}
}
