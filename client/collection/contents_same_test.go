package collection_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// records returns the archive's records of a URL, in order.
func records(t testing.TB, dir, url string) (list []warc.Fields) {
	t.Helper()
	must.OK(t, warc.Each(filepath.Join(dir, "warc"), warc.Place{}, func(_ string, r *warc.Reader) error {
		for {
			rec, err := r.Next()
			if err != nil {
				return nil
			}
			if rec.URL() == url {
				list = append(list, rec.Fields)
			}
		}
	}))
	return list
}

// plainly turns a visit into that of a resource that is not parsed, such as an image.
func plainly(v collection.Visit) collection.Visit {
	v.Parsed, v.Type = protocol.Digest{}, "image/png"
	return v
}

// A body is stored in the archive once, whichever URLs return it, in one transaction or
// years apart, parsed or not; a reader finds it by each of the URLs, with the
// header of that URL's own response.
func TestEqualBodiesAreStoredOnce(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		for _, parsed := range []bool{true, false} {
			r := newKeeper(t, collection.WARC, coding)
			r.find("/a", "/b", "/c", "/d")
			answer := func(path, body string) collection.Visit {
				v := r.answer(path, 200, body)
				if !parsed {
					v = plainly(v)
				}
				v.Header = http.Header{"X-Of": {path}}
				return v
			}
			begin := r.now
			r.commit(collection.Commit{Visits: []collection.Visit{answer("/a", "body"), answer("/b", "body"), answer("/d", "BODY")}})
			r.reopen()
			r.wait(time.Hour)
			r.commit(collection.Commit{Visits: []collection.Visit{answer("/c", "body"), answer("/b", "body")}})
			r.wait(time.Hour)
			r.commit(collection.Commit{Visits: []collection.Visit{answer("/a", "new")}})
			for path, want := range map[string]string{"/a": "[body new]", "/b": "[= =]", "/c": "[=]", "/d": "[BODY]"} {
				if got := fmt.Sprint(captures(t, r.dir)[home+path]); got != want {
					t.Errorf("coding %q, parsed %v: archived of %s %s, want %s", coding, parsed, path, got, want)
				}
			}
			for i, f := range append(records(t, r.dir, home+"/b"), records(t, r.dir, home+"/c")...) {
				want(t, "refers to", f.Get("WARC-Refers-To-Target-URI"), home+"/a")
				want(t, "refers to the time", f.Get("WARC-Refers-To-Date"), "2026-03-01T12:00:00.000Z")
				want(t, "profile", f.Get("WARC-Profile"), "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest")
				if d := protocol.Sum([]byte("body")); f.Get("WARC-Payload-Digest") != fmt.Sprintf("sha256:%x", d[:]) {
					t.Errorf("record %d has digest %s", i, f.Get("WARC-Payload-Digest"))
				}
			}
			// As after a kill: the index is rebuilt from the records.
			for _, rebuilt := range []bool{false, true} {
				if rebuilt {
					r.c.Close()
					logs, _ := filepath.Glob(filepath.Join(r.dir, "warc", "*.log"))
					for _, name := range logs {
						must.OK(t, os.Truncate(name, 0))
					}
					r.c = open(t, r.dir, &r.o)
				}
				for path, asked := range map[string]time.Time{"/b": begin.Add(time.Hour), "/c": begin.Add(time.Hour)} {
					want(t, "content of "+path, r.content(path), "body")
					for _, newest := range []bool{true, false} {
						p := r.page(path)
						c, err := r.c.Contents().Content(p.URL, p.Stored)
						if !newest {
							c, err = r.c.Contents().At(p.URL, r.now)
						}
						if err != nil {
							t.Fatal(err)
						}
						want(t, "header of "+path, c.Header.Get("X-Of"), path)
						want(t, "time of "+path, c.At, asked)
						want(t, "body of "+path, read(t, c, nil), "body")
					}
				}
				c := must.Get(r.c.Contents().At(home+"/b", begin))
				want(t, "first time of /b", c.At, begin)
				want(t, "first body of /b", read(t, c, nil), "body")
			}
			check(t, r.c)
		}
	}
}

// Bodies that differ only in bytes that readers do not see are each stored once.
func TestBodiesWithInvisibleDifferences(t *testing.T) {
	r := newKeeper(t, collection.WARC, "gzip")
	r.find("/a", "/b", "/c", "/d")
	for _, v := range []struct{ path, body string }{{"/a", "body"}, {"/b", "BODY"}, {"/c", "BODY"}, {"/d", "body"}} {
		r.visit(v.path, 200, v.body)
	}
	got := captures(t, r.dir)
	for path, want := range map[string]string{"/a": "[body]", "/b": "[BODY]", "/c": "[=]", "/d": "[=]"} {
		if fmt.Sprint(got[home+path]) != want {
			t.Errorf("archived of %s %v, want %s", path, got[home+path], want)
		}
		want := "body"
		if path == "/b" || path == "/c" {
			want = "BODY"
		}
		if got := r.content(path); got != want {
			t.Errorf("%s holds %q", path, got)
		}
	}
}

// A revisit record whose original is lost is lost as well: the body is stored
// again when a visit brings it, once.
func TestLostOriginalOfRevisitRecord(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.o.MaxWARC = 1 // a file for each
	r.reopen()
	r.find("/a", "/b", "/c")
	for _, path := range []string{"/a", "/b", "/c"} {
		r.visit(path, 200, "body")
		r.wait(time.Hour)
	}
	place := r.page("/a").Stored
	want(t, "stands in one place", r.page("/b").Stored, place)
	must.OK(t, os.Remove(filepath.Join(r.dir, place.File)))
	r.reopen()
	for _, path := range []string{"/a", "/b", "/c"} {
		want(t, path+" stands", r.c.Contents().Stands(r.page(path).Stored), false)
	}
	r.visit("/b", 304, "")
	want(t, "due after a 304 for an unreadable body", r.due("/b"), time.Second)
	for _, path := range []string{"/b", "/a", "/c"} {
		r.visit(path, 200, "body")
		want(t, path, r.content(path), "body")
		r.wait(time.Hour)
	}
	n := 0
	for _, list := range captures(t, r.dir) {
		n += strings.Count(strings.Join(list, " "), "body")
	}
	if n == 0 || n > 2 {
		t.Errorf("stored %d times, want 1 or 2", n)
	}
}

// An export of one site is complete even if some of its bodies are stored in records of
// another site; each page's content is exported under its own URL.
func TestExportIncludesBodiesOfOtherSites(t *testing.T) {
	r := newKeeper(t, collection.WARC, "gzip")
	other := "https://b.example/logo"
	r.find("/a", "/b")
	out := r.commit(collection.Commit{Finds: []collection.Find{{URL: other}}})
	v := r.answer("/a", 200, "body")
	v.Page = out.New[0].ID
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	r.wait(time.Hour)
	r.visit("/a", 200, "body")
	r.wait(time.Hour)
	r.visit("/b", 200, "body")
	for _, c := range []struct {
		s    collection.Selection
		want string
	}{
		{collection.Selection{}, "map[https://a.example/a:[=] https://a.example/b:[=] https://b.example/logo:[body]]"},
		{collection.Selection{Prefix: home}, "map[https://a.example/a:[body] https://a.example/b:[body]]"},
		{collection.Selection{Newest: true}, "map[https://a.example/a:[body] https://a.example/b:[body] https://b.example/logo:[body]]"},
		{collection.Selection{Newest: true, Since: r.now}, "map[https://a.example/b:[body]]"},
	} {
		dir := t.TempDir()
		if _, err := r.c.ExportWARC(t.Context(), filepath.Join(dir, "warc"), "", c.s); err != nil {
			t.Errorf("%+v: %v", c.s, err)
		}
		if got := fmt.Sprint(captures(t, dir)); got != c.want {
			t.Errorf("%+v: exported %s, want %s", c.s, got, c.want)
		}
	}
}
