package collection_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/filename"
	"github.com/parleyweb/parley/protocol"
)

// Whatever the order of events, however often they are delivered, and wherever
// the process dies, the copy ends equal to the site.
func TestCopyConverges(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { converge(t, seed) })
	}
}

func converge(t *testing.T, seed uint64) {
	r, rnd := newCopyRig(t), rand.New(rand.NewPCG(seed, 7))
	live := map[string]string{} // the site, by path
	bodies := map[protocol.Digest]string{}
	var journal []protocol.Change
	crashes := 0

	pick := func() string { return "/" + rivals[rnd.IntN(len(rivals))] }
	edit := func() {
		path := pick()
		old, there := live[path]
		var ch protocol.Change
		switch n := rnd.IntN(10); {
		case n < 2 && there:
			ch = remove(path)
			delete(live, path)
		case n < 5 && there:
			to := pick()
			if to == path {
				return
			}
			ch = move(path, to, old)
			live[to] = old
			delete(live, path)
		default:
			body := fmt.Sprint("content ", rnd.IntN(40)) // so that some repeat
			ch = create(path, body)
			ch.Op = protocol.Update
			live[path], bodies[ch.Item.Digest] = body, body
		}
		ch.Seq = uint64(len(journal) + 1)
		journal = append(journal, ch)
	}
	together := 0
	// withPages returns a step with the contents of the pages that are known, which come with it.
	withPages := func(s client.Step) *collection.Step {
		x := &collection.Step{Source: r.src.ID, Step: s, By: collection.ByStream}
		for _, ch := range s.Changes {
			p, ok, err := r.c.Page(ch.Item.URL)
			if err != nil {
				t.Fatal(err)
			}
			if body, known := bodies[ch.Item.Digest]; ok && known && ch.Op == protocol.Update {
				x.Visits = append(x.Visits, collection.Visit{Page: p.ID, Asked: r.now, Status: 200, Want: ch.Item.Digest, Delivered: true,
					Body: []byte(body), Digest: ch.Item.Digest, ETag: `"e"`})
			}
		}
		return x
	}
	// give applies a step, sometimes together with pages; a crash in it is survived.
	give := func(s client.Step) {
		var err error
		if s.Door == client.Changes && rnd.IntN(2) == 0 {
			x := withPages(s)
			together += len(x.Visits)
			t := &collection.Commit{Steps: []*collection.Step{x}}
			if rnd.IntN(2) == 0 { // fetched at once
				t.Visits, x.Visits = x.Visits, nil
				for i := range t.Visits {
					v := &t.Visits[i]
					p, _, _ := r.c.PageByID(v.Page)
					body, ok := live[strings.TrimPrefix(p.URL, home)]
					if v.Body, v.Digest, v.Delivered = []byte(body), protocol.Sum([]byte(body)), false; !ok {
						v.Status, v.Body, v.Digest = 404, nil, protocol.Digest{}
					}
				}
			}
			_, err = r.c.Commit(t)
			together -= len(x.Unwanted)
		} else {
			_, err = r.c.Apply(r.src.ID, s, collection.ByStream, collection.ApplyOptions{})
		}
		if err != nil {
			crashes++
			r.reopen()
		}
	}
	changes := func(from, to int) client.Step {
		return client.Step{Door: client.Changes, Cursor: cursor(uint64(to)), Changes: slices.Clone(journal[from:to])}
	}
	tell := func(most int) {
		from := int(r.cursor().Seq)
		give(changes(from, min(len(journal), from+most)))
	}
	snapshot := func() {
		var paths []string
		for p := range live {
			paths = append(paths, p)
		}
		slices.Sort(paths)
		at := cursor(uint64(len(journal)))
		for i := 0; ; i += 5 {
			s := client.Step{Door: client.Manifest, Reset: i == 0}
			for _, p := range paths[min(i, len(paths)):min(i+5, len(paths))] {
				s.Changes = append(s.Changes, create(p, live[p]))
			}
			if i+5 >= len(paths) {
				s.Whole, s.Cursor = true, at
				give(s)
				return
			}
			give(s)
			if rnd.IntN(4) == 0 {
				return // the connection is cut
			}
		}
	}
	pay := func(most int) {
		if _, err := r.tryPay(live, most); err != nil {
			crashes++
			r.reopen()
		}
	}

	snapshot()
	for range 250 {
		switch n := rnd.IntN(100); {
		case n < 50:
			edit()
		case n < 65:
			tell(1 + rnd.IntN(5))
		case n < 70 && len(journal) > 0: // delivered again
			from := rnd.IntN(len(journal))
			if to := min(from+1+rnd.IntN(10), int(r.cursor().Seq)); from < to {
				give(changes(from, to))
			}
		case n < 73:
			snapshot()
		case n < 90:
			pay(1 + rnd.IntN(8))
		case n < 93:
			r.reopen()
		case n < 97:
			r.c.CrashAfter(rnd.IntN(4))
		default:
			r.wait(time.Duration(rnd.IntN(90)) * time.Second)
		}
	}
	r.reopen()
	for i := 0; ; i++ {
		tell(1000)
		pay(100)
		if _, _, owed := r.counts(); owed == 0 && int(r.cursor().Seq) == len(journal) {
			break
		}
		if i == 100 {
			t.Fatalf("does not converge: at %v of %d", r.cursor(), len(journal))
		}
		r.wait(time.Hour)
	}

	files, names := map[string]string{}, map[string]string{}
	for path, body := range live {
		p := r.page(path)
		name := strings.TrimPrefix(p.Stored.File, "mirror/")
		files[name], names[name] = body, path
	}
	r.wantFiles(files)
	r.wantCounts(len(live), len(live), 0)
	check(t, r.c)
	for name, path := range names {
		natural, ok := filename.Below(home+"/", home+path, "", false)
		if !ok || name == natural {
			continue
		}
		taken := names[natural] != ""
		for other := range names {
			taken = taken || strings.HasPrefix(other, natural+"/") || strings.HasPrefix(natural, other+"/")
		}
		if !taken {
			t.Errorf("%s is stored as %s though %s is free", path, name, natural)
		}
	}
	if together == 0 {
		t.Error("no page was stored together with its change")
	}
	t.Logf("%d changes, %d crashes, %d pages, %d stored with their changes", len(journal), crashes, len(live), together)
}
