package collection_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/protocol"
)

// part is a part of a snapshot without its end.
func part(reset bool, from, n int) client.Step {
	s := client.Step{Door: client.Manifest, Reset: reset}
	for i := range n {
		s.Changes = append(s.Changes, create(fmt.Sprintf("/more/%d", from+i), "x"))
	}
	return s
}

func (r *copyRig) refuses(s client.Step) {
	r.t.Helper()
	var quota *collection.QuotaError
	before := r.cursor()
	if _, err := r.c.Apply(r.src.ID, s, collection.ByManifest, collection.ApplyOptions{}); !errors.As(err, &quota) {
		r.t.Fatalf("a step beyond the quota was applied: %v", err)
	}
	if c := r.cursor(); c != before {
		r.t.Errorf("cursor %v after a rejected step, want %v", c, before)
	}
}

// A copy has no more pages than its quota. Pages named by a snapshot that never ended, in this process
// or in an earlier one, are removed; the pages from before it stay.
func TestCopyHasAQuotaOfPages(t *testing.T) {
	r := newCopyRig(t)
	r.o.MaxPages = 50
	r.reopen()
	s := homeSite("/", "home", "/a", "A", "/b", "B")
	r.apply(whole(3, create("/", "home"), create("/a", "A"), create("/b", "B")))
	r.pay(s, 10)
	r.apply(told(4, remove("/b")))

	r.apply(part(true, 0, 30))
	r.wantCounts(32, 2, 30)
	r.reopen()
	r.apply(part(true, 100, 30))
	r.wantCounts(62, 2, 60)
	r.refuses(part(false, 200, 30))
	r.wantCounts(2, 2, 0)
	r.refuses(part(true, 0, 60)) // some known by now, and gone
	r.apply(part(true, 0, 40))
	r.refuses(part(false, 100, 11))
	r.wantCounts(2, 2, 0)

	// A stream without end is stopped there too, and no held page is lost.
	for seq := uint64(5); seq < 53; seq++ {
		r.apply(told(seq, create(fmt.Sprint("/new/", seq), "x")))
	}
	r.wantCounts(50, 2, 48)
	r.refuses(told(53, create("/new/53", "x")))
	r.apply(told(54, remove("/new/5"), create("/a", "A2")))
	r.apply(told(55, create("/new/53", "x")))
	r.wantCounts(50, 2, 49)

	// Once the site is repaired its snapshot is accepted.
	r.apply(whole(60, create("/", "home"), create("/a", "A"), create("/b", "B")))
	r.pay(s, 10)
	r.wantFiles(map[string]string{"index.html": "home", "a": "A", "b": "B"})
}

// The history of events does not count as state of a copy, however long it is.
func TestEventsAreNotInTheQuotaOfState(t *testing.T) {
	r := newCopyRig(t)
	r.o.MaxState = 1 << 20
	r.reopen()
	r.apply(whole(3, create("/", "home"), create("/a", "A")))
	title := strings.Repeat("title ", 40)
	for i := range 4 {
		var turn collection.Commit
		for k := range 1000 {
			v := r.answer("/a", 200, fmt.Sprint("body ", i, " ", k))
			v.Title = fmt.Sprint(title, i, " ", k)
			turn.Visits = append(turn.Visits, v)
		}
		r.commit(turn)
		for k := range 3 {
			seq := 4 + 3*i + k
			r.apply(told(uint64(seq), create(fmt.Sprint("/new/", seq), "x")))
		}
	}
	if used, err := r.c.Used(); err != nil || used < 2*r.o.MaxState || r.c.Log().Head().Seq < 4000 {
		t.Errorf("%d bytes up to %v are too few to prove anything, %v", used, r.c.Log().Head(), err)
	}
	r.wantCounts(14, 1, 13)
}

// The state stored for a site's pages is bounded as well, however few they are.
func TestCopyHasAQuotaOfState(t *testing.T) {
	r := newCopyRig(t)
	r.o.MaxState = 1 << 20
	r.reopen()
	r.apply(whole(3, create("/", "home")))
	for i := 0; ; i++ {
		if i == 100 {
			t.Fatal("the copy grows without bound")
		}
		_, err := r.c.Apply(r.src.ID, part(i == 0, 1000*i, 1000), collection.ByManifest, collection.ApplyOptions{})
		var quota *collection.QuotaError
		if errors.As(err, &quota) && quota.State == r.o.MaxState {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	r.wantCounts(1, 0, 1)
	r.apply(told(4, create("/", "home, sweet home")))
	r.refuses(client.Step{Door: client.Stream, Cursor: cursor(5), Changes: []protocol.Change{create("/one/more", "x")}})
}
