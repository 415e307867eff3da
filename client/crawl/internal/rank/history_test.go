package rank_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
)

// ranked returns the rank that a history has for a URL, as it counts in a page's quality: x is x/(1+x).
func ranked(h *rank.History, url string) float64 {
	q := rank.Quality{History: 1, Earlier: h}
	v := q.Of(&collection.Page{URL: url}, &collection.Site{})
	return v / (1 - v)
}

func write(t *testing.T, text string) (path string) {
	path = filepath.Join(t.TempDir(), "ranks.txt")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file has lines of two kinds. Its URLs are those of the crawler, however they are written.
func TestHistoryOfAFile(t *testing.T) {
	h, err := rank.ReadHistory(t.Context(), write(t, `# by hand
https://www.example.org/	3

HTTPS://www.example.org:443/a/../b   0.25
https://www.example.org/	99
{"url":"https://www.example.org/c","state":"held","rank":1.5,"visits":2}
{"url":"https://www.example.org/d","state":"known","visits":0}
https://www.example.org/huge 1e300
`), 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]float64{"": 3, "b": .25, "c": 1.5, "d": 0, "unknown": 0} {
		if got := ranked(h, "https://www.example.org/"+path); math.Abs(got-want) > 1e-6 {
			t.Errorf("/%s has %v, want %v", path, got, want)
		}
	}
	if got := ranked(h, "https://www.example.org/huge"); got < 1e15 {
		t.Errorf("the huge rank is %v", got)
	}
	if h, err := rank.ReadHistory(t.Context(), "", 7, 0); h != nil || err != nil {
		t.Errorf("no file: %v, %v", h, err)
	}
}

// An error names the line, and what it should be.
func TestMalformedHistory(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/ 1\nhttps://a.example/b\n":    ":2: want a URL and its rank, of 0 or more",
		"\n\nhttps://a.example/ 1 2\n":                   ":3: want a URL and its rank",
		"https://a.example/ -1\n":                        ":1: want a URL and its rank",
		"https://a.example/ NaN\n":                       ":1: want a URL and its rank",
		"https://a.example/ Inf\n":                       ":1: want a URL and its rank",
		"https://a.example/ much\n":                      ":1: want a URL and its rank",
		"URL STATE STATUS\n":                             ":1: want a URL and its rank",
		"{\"url\":\"https://a.example/\",\"rank\":\"\"}": ":1: want a URL and its rank",
		"{\"rank\":1}\n":                                 ":1: want a URL and its rank",
		"a.example/ 1\n":                                 `:1: url "a.example/"`,
		strings.Repeat("x", 1<<20) + "\n":                ":1: longer than 1048576 bytes",
		strings.Repeat("https://a.example/ 1\n", 4):      ":4: more than 3 pages",
		"https://a.example/ 0\n":                         ": no page has a rank above 0",
		"":                                               ": no page has a rank above 0",
	} {
		path := write(t, text)
		if _, err := rank.ReadHistory(t.Context(), path, 3, 0); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing.txt")
	if _, err := rank.ReadHistory(t.Context(), missing, 3, 0); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := rank.ReadHistory(t.Context(), t.TempDir(), 3, 0); err == nil {
		t.Error("a directory without a collection was read")
	}
}

// A pipe may send nothing, or lines without end: the context ends the reading.
func TestHistoryIsGivenUp(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no /dev/fd")
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := rank.ReadHistory(ctx, fmt.Sprintf("/dev/fd/%d", from.Fd()), 3, 0); err == nil || ctx.Err() == nil {
		t.Errorf("a silent pipe: %v", err)
	}
	var sent sync.WaitGroup
	sent.Go(func() {
		for err := error(nil); err == nil; {
			_, err = to.Write(bytes.Repeat([]byte("# nothing\n"), 1000))
		}
	})
	defer sent.Wait()
	defer from.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := rank.ReadHistory(ctx, fmt.Sprintf("/dev/fd/%d", from.Fd()), 3, 0); err == nil || ctx.Err() == nil {
		t.Errorf("an endless pipe: %v", err)
	}
}

// The history of a collection is the Pagerank of its pages by their links.
func TestHistoryOfACollection(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	col, err := collection.Open(dir, &collection.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const base = "https://www.example.org/"
	done, err := col.Commit(&collection.Commit{Finds: []collection.Find{{URL: base}}})
	if err != nil {
		t.Fatal(err)
	}
	home := collection.Visit{Page: done.New[0].ID, Status: 200, Type: "text/html", Body: []byte("home"),
		Links: []collection.Find{{URL: base + "a", Depth: 1}, {URL: base + "b", Depth: 1}}}
	if _, err = col.Commit(&collection.Commit{Visits: []collection.Visit{home}}); err != nil {
		t.Fatal(err)
	}
	if _, err := rank.ReadHistory(t.Context(), dir, 10, 0); err == nil {
		t.Error("a collection was read that is being written")
	}
	if err := col.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := rank.ReadHistory(t.Context(), dir, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{1 / 3.85, 1.425 / 3.85, 1.425 / 3.85} // these two have what the first has, and half of .85 of it
	for i, path := range []string{"", "a", "b"} {
		if got := ranked(h, base+path); math.Abs(got-3*want[i]) > 1e-4 {
			t.Errorf("/%s has %v, want %v", path, got, 3*want[i])
		}
	}
	if _, err := rank.ReadHistory(t.Context(), dir, 2, 0); err == nil || !strings.Contains(err.Error(), "more than 2 pages") {
		t.Errorf("3 pages where 2 are allowed: %v", err)
	}
}

// FuzzHistory: whatever a file has, its ranks are numbers of 0 and more, one of them above 0, or there is an error.
func FuzzHistory(f *testing.F) {
	for _, text := range []string{"https://a.example/ 1\n", "# x\r\n{\"url\":\"http://a.example\",\"rank\":1e38}", "https://a.example/ 1e-50", "http://[::1]/ 0x1p-3\nhttp://b.example/ 1e39", "{}\n", "\x00 \xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := rank.ReadHistory(t.Context(), write(t, text), 100, 0)
		if (h == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, h, err)
		}
		for word := range strings.FieldsSeq(text) {
			if x := ranked(h, word); !(x >= 0) {
				t.Errorf("%q: %s has %v", text, word, x)
			}
		}
	})
}
