package collection_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
)

// The session used to fetch a page is kept while it works. After the session
// ended the page is fetched once without it, whatever the response was, before a response is believed.
func TestSessions(t *testing.T) {
	r := newRig(t)
	ask := func(n string) string { return home + "/a?s=" + n }
	r.commit(collection.Commit{Finds: []collection.Find{{URL: home + "/a", Ask: ask("1"), By: collection.ByLink}, {URL: home + "/b", Ask: "https://b.example/b?s=1"}}})
	r.reopen()
	want(t, "ask of a", r.page("/a").FetchURL, ask("1"))
	want(t, "ask of another origin", r.page("/b").FetchURL, "")
	r.visit("/a", 200, "body")
	r.wait(24 * time.Hour)
	redirect := func(to, session string) {
		v := r.answer("/a", 302, "")
		v.Target = &collection.Find{URL: home + to, Ask: session, By: collection.ByLink}
		r.commit(collection.Commit{Visits: []collection.Visit{v}})
	}
	for _, gone := range []func(){
		func() { r.visit("/a", 410, "") }, func() { r.visit("/a", 403, "") }, func() { redirect("/login", "") },
	} {
		gone()
		want(t, "state", r.page("/a").State, collection.Failing)
		want(t, "asked without a session", r.page("/a").FetchURL, "")
		want(t, "asked again", r.due("/a"), time.Second)
		r.wait(time.Second)
		redirect("/a", ask("2"))
		want(t, "asked with the next session", r.page("/a").FetchURL, ask("2"))
		r.wait(r.due("/a"))
		r.visit("/a", 200, "body")
		want(t, "state", r.page("/a").State, collection.Held)
		r.wait(24 * time.Hour)
	}
	// A page that is refused without a session too is believed to be gone.
	r.visit("/a", 410, "")
	r.wait(time.Second)
	r.visit("/a", 410, "")
	want(t, "state", r.page("/a").State, collection.Gone)
	// A page that redirects to itself for ever is fetched ever more rarely.
	r.find("/c")
	asked := 0
	for begin := r.now; r.now.Sub(begin) < 24*time.Hour; asked++ {
		v := r.answer("/c", 302, "")
		v.Target = &collection.Find{URL: home + "/c", Ask: home + "/c?s=" + time.Duration(asked).String(), By: collection.ByLink}
		r.commit(collection.Commit{Visits: []collection.Visit{v}})
		r.wait(r.due("/c"))
	}
	if asked > 6 {
		t.Errorf("fetched %d times in a day", asked)
	}
	check(t, r.c)
}
