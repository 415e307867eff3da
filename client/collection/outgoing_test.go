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
	out := r.commit(collection.Commit{Visits: []collection.Visit{v}, Finds: []collection.Find{foreign(2, 1)}})
	if len(out.New) != 1 {
		t.Errorf("committed %+v", out)
	}
	out = r.commit(collection.Commit{Visits: []collection.Visit{moved}, Finds: []collection.Find{foreign(2, 1)}})
	if p := out.Visited[0].Page; p.State != collection.Moved || p.Fault != "" {
		t.Errorf("committed %+v", out)
	}
	const first, second = "2 https://other1.example/ 1\n300 https://other2.example/ 2\n", "3 https://other3.example/ 3\n"
	r.reopen()
	if got, _ := outgoing(10); got != first+second {
		t.Errorf("kept:\n%swant:\n%s", got, first+second)
	}
	got, last := outgoing(1)
	want(t, "of the oldest transaction", got, first)
	must.OK(t, collection.Sent(r.c, last))
	got, last = outgoing(2)
	want(t, "the rest", got, second)
	must.OK(t, collection.Sent(r.c, last))
	r.commit(collection.Commit{Finds: []collection.Find{foreign(4, 5)}})
	got, _ = outgoing(2)
	want(t, "what came then", got, "4 https://other5.example/ 5\n")
	check(t, r.c)
}

// A URL whose transaction failed is kept by the next one that names it, and as many URLs as a transaction names are kept.
func TestURLsOfOtherPartitionsAfterAFailure(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.o.MaxEvents = 1
	r.reopen()
	r.find("/a")
	r.visit("/a", 200, "1")
	var finds []collection.Find
	for n := range 3000 {
		finds = append(finds, collection.Find{URL: fmt.Sprintf("https://other.example/a/page/with/a/longer/name/%d", n), Partition: 2})
	}
	unblock := must.Get(r.c.BlockEvents(1))
	if _, err := r.c.Commit(&collection.Commit{Visits: []collection.Visit{r.answer("/a", 200, "2")}, Finds: finds}); err == nil {
		t.Error("committed")
	}
	must.OK(t, unblock())
	r.commit(collection.Commit{Finds: finds})
	got, _, err := collection.Outgoing(r.c, 1)
	must.OK(t, err)
	if len(got) != len(finds) {
		t.Fatalf("%d of %d URLs are kept", len(got), len(finds))
	}
	for i := range got {
		want(t, "URL", got[i].URL, finds[i].URL)
	}
}
