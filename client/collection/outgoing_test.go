package collection_test

import (
	"fmt"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
)

// URLs of other partitions are kept, once each, with the page that names them, until they are sent. They are no pages.
func TestURLsOfOtherPartitionsAreKept(t *testing.T) {
	r := newRig(t)
	foreign := func(partition, n int) collection.Find {
		return collection.Find{URL: fmt.Sprintf("https://other%d.example/", n), Depth: n, Partition: partition, Exclude: "its host is in another partition"}
	}
	outgoing := func(most int) (text string, last uint64) {
		t.Helper()
		finds, last, err := collection.Outgoing(r.c, most)
		must.OK(t, err)
		for _, f := range finds {
			text += fmt.Sprintf("%d %s %d\n", f.Partition, f.URL, f.Depth)
		}
		return text, last
	}
	r.find("/", "/old")
	v := r.answer("/", 200, "A", "/b")
	image := foreign(2, 4)
	image.LogOnly = true
	v.Links = append(v.Links, foreign(2, 1), foreign(300, 2), foreign(2, 1), image)
	moved := r.answer("/old", 301, "")
	target := foreign(3, 3)
	moved.Target = &target
	out := r.commit(collection.Commit{Visits: []collection.Visit{v, moved}, Finds: []collection.Find{foreign(2, 1)}})
	if p := out.Visited[1].Page; len(out.New) != 1 || p.State != collection.Moved || p.Fault != "" {
		t.Errorf("committed %+v", out)
	}
	const first, second = "2 https://other1.example/ 1\n300 https://other2.example/ 2\n", "3 https://other3.example/ 3\n"
	r.reopen()
	if got, _ := outgoing(10); got != first+second {
		t.Errorf("kept:\n%swant:\n%s", got, first+second)
	}
	got, last := outgoing(2)
	want(t, "the oldest two", got, first)
	must.OK(t, collection.Sent(r.c, last))
	got, last = outgoing(2)
	want(t, "the rest", got, second)
	must.OK(t, collection.Sent(r.c, last))
	r.commit(collection.Commit{Finds: []collection.Find{foreign(4, 5)}})
	got, _ = outgoing(2)
	want(t, "what came then", got, "4 https://other5.example/ 5\n")
	check(t, r.c)
}
