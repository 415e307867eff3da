package collection_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
)

// Responses without content, such as errors, are archived too, once while they stay
// the same, and never replace the page.
func TestErrorResponsesDoNotReplacePages(t *testing.T) {
	for answers, want := range map[collection.Answers]string{
		collection.Answers(0): "[one 301 301 two 404 410 three]",
		collection.AllAnswers: "[503 one 301 301 two 500 404 410 403 three]",
		collection.NoAnswers:  "[one two three]",
	} {
		r := newKeeper(t, collection.WARC|collection.Mirror, "gzip")
		r.o.Answers = answers
		r.reopen()
		r.find("/a")
		begin := r.now
		for _, v := range []struct {
			status int
			body   string
			target string
		}{{503, "503", ""}, {200, "one", ""}, {301, "301", "/b"}, {301, "301", "/b"}, {301, "301", "/c"}, {200, "two", ""}, {500, "500", ""}, {404, "404", ""}, {404, "404", ""},
			{410, "410", ""}, {410, "410", ""}, {403, "403", ""}, {200, "three", ""}} {
			a := r.answer("/a", v.status, v.body)
			a.Header = http.Header{"X-Status": {fmt.Sprint(v.status)}}
			if v.target != "" {
				a.Target = &collection.Find{URL: home + v.target, By: collection.ByLink}
			}
			r.commit(collection.Commit{Visits: []collection.Visit{a}})
			r.wait(time.Hour)
		}
		if got := fmt.Sprint(captures(t, r.dir)[home+"/a"]); got != want {
			t.Errorf("answers %d: archived %s, want %s", answers, got, want)
		}
		list := must.Get(r.c.Contents().Versions(home + "/a"))
		words := map[string]int{"one": 200, "two": 200, "three": 200}
		for i, word := range strings.Fields(strings.Trim(want, "[]")) {
			status := words[word]
			if status == 0 {
				fmt.Sscan(word, &status)
			}
			if list[i].Status != status {
				t.Errorf("answers %d: version %d has status %d, want %d", answers, i, list[i].Status, status)
			}
		}
		for hours, want := range map[int]string{1: "one", 2: "one", 4: "one", 5: "two", 9: "two", 11: "two", 12: "three"} {
			c, err := r.c.Contents().At(home+"/a", begin.Add(time.Duration(hours)*time.Hour))
			if got := read(t, c, err); got != want {
				t.Errorf("answers %d: after %d hours the content is %q, want %q", answers, hours, got, want)
			}
		}
		if c, err := r.c.Contents().At(home+"/a", begin); err == nil {
			t.Errorf("answers %d: at first the content is %q", answers, read(t, c, nil))
		}
		if got := r.content("/a"); got != "three" {
			t.Errorf("answers %d: the content is %q", answers, got)
		}
	}
}

// Only a short beginning of an error page is archived, however long it is.
func TestLongErrorPageIsTruncated(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.find("/a")
	r.visit("/a", 404, strings.Repeat("x", 1<<20))
	got := captures(t, r.dir)[home+"/a"]
	if len(got) != 1 || len(got[0]) != 64<<10 {
		t.Errorf("%d archived", len(got))
	}
	want(t, "truncated", records(t, r.dir, home+"/a")[0].Get("WARC-Truncated"), "length")
}
