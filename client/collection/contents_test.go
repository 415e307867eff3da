package collection_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// newKeeper is a rig whose collection stores bodies.
func newKeeper(t testing.TB, contents collection.Contents, coding string) *rig {
	r := newRig(t)
	r.o.Contents, r.o.Coding = contents, coding
	r.reopen()
	return r
}

func read(t testing.TB, c *contents.Content, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := must.Get(io.ReadAll(c))
	if c.Length >= 0 && c.Length != int64(len(b)) {
		t.Errorf("length %d of %d bytes", c.Length, len(b))
	}
	return string(b)
}

func (r *rig) content(path string) string {
	r.t.Helper()
	p := r.page(path)
	c, err := r.c.Contents().Content(p.URL, p.Stored)
	return read(r.t, c, err)
}

// captures validates all archives, and returns their records of each URL in
// order: the status, or "=" for a revisit.
func captures(t testing.TB, dir string) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	must.OK(t, warc.Each(filepath.Join(dir, "warc"), warc.Place{}, func(name string, r *warc.Reader) error {
		b, err := os.ReadFile(filepath.Join(dir, "warc", name))
		if err != nil {
			return err
		}
		if _, err := warctest.Validate(bytes.NewReader(b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for {
			rec, err := r.Next()
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			switch rec.Type() {
			case warc.Response:
				m, err := warc.ReadMessage(rec.Body)
				if err != nil {
					return err
				}
				body, err := io.ReadAll(m.Body)
				if err != nil {
					return err
				}
				got[rec.URL()] = append(got[rec.URL()], string(body))
			case warc.Revisit:
				got[rec.URL()] = append(got[rec.URL()], "=")
			}
		}
	}))
	return got
}

// The archive has each body once, and every visit; the content of any past time
// can be read back.
func TestArchive(t *testing.T) {
	for _, coding := range []string{"", "gzip", "zstd"} {
		t.Run("coding="+coding, func(t *testing.T) {
			r := newKeeper(t, collection.WARC, coding)
			r.find("/a", "/b")
			begin := r.now
			for _, v := range []struct {
				status int
				body   string
			}{{200, "one"}, {200, "one"}, {304, ""}, {503, "down"}, {200, "two"}, {304, ""}, {200, "one"}} {
				a := r.answer("/a", v.status, v.body)
				a.Header = http.Header{"Etag": {a.ETag}, "Content-Encoding": {"gzip"}}
				a.IP, a.Proto = netip.MustParseAddr("192.0.2.7"), "HTTP/2.0"
				if v.status == 503 {
					a.Digest = protocol.Digest{}
				}
				r.commit(collection.Commit{Visits: []collection.Visit{a}})
				r.wait(time.Hour)
			}
			r.visit("/b", 200, "b")
			r.reopen()
			if got := r.content("/a"); got != "one" {
				t.Errorf("the content is %q", got)
			}
			want := []string{"one", "=", "=", "two", "=", "one"}
			if got := captures(t, r.dir)[home+"/a"]; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("archived %q, want %q", got, want)
			}
			versions, err := r.c.Contents().Versions(home + "/a")
			if err != nil || len(versions) != len(want) {
				t.Fatalf("%d versions, %v", len(versions), err)
			}
			for i, v := range versions {
				if v.Same != (want[i] == "=") || v.Body.File == "" {
					t.Errorf("version %d: %+v", i, v)
				}
			}
			for hours, want := range map[int]string{-1: "", 0: "one", 1: "one", 2: "one", 3: "one", 4: "two", 5: "two", 6: "one", 99: "one"} {
				c, err := r.c.Contents().At(home+"/a", begin.Add(time.Duration(hours)*time.Hour+time.Minute))
				if want == "" {
					if !errors.Is(err, contents.ErrNoContent) {
						t.Errorf("before the first: %v", err)
					}
				} else if got := read(t, c, err); got != want {
					t.Errorf("after %d hours: %q, want %q", hours, got, want)
				}
			}
			p := r.page("/a")
			c, err := r.c.Contents().Content(p.URL, p.Stored)
			if err != nil || c.Status != 200 || c.Header.Get("Etag") != `"one"` || c.Header.Get("X-Crawl-Content-Encoding") != "gzip" || !c.At.Equal(begin.Add(6*time.Hour)) {
				t.Errorf("%+v, %v", c, err)
			}
			c.Close()

			r.visit("/b", 410, "")
			if got := r.content("/b"); got != "b" {
				t.Errorf("content of a deleted page: %q", got)
			}
		})
	}
}

// copyDir copies the files of an open collection, as a kill leaves them.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, name)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	}))
}

// Records archived for a transaction that was never committed are cut off; but restoring
// the state from a backup does not destroy the archive.
func TestUncommittedRecordsAreCutOff(t *testing.T) {
	for _, setBack := range []bool{false, true} {
		r := newKeeper(t, collection.WARC, "")
		r.find("/a", "/b")
		r.visit("/a", 200, "one")
		old := t.TempDir()
		copyDir(t, r.dir, old)
		head := r.c.Log().Head()
		for i := range 3 {
			r.visit("/b", 200, strings.Repeat("x", i+1))
		}
		must.OK(t, r.c.Close())
		files := []string{"state.db"}
		if !setBack {
			files = append(files, "journal.db", "warc/mark.txt")
		}
		for _, f := range files {
			b := must.Get(os.ReadFile(filepath.Join(old, f)))
			must.OK(t, os.WriteFile(filepath.Join(r.dir, f), b, 0o600))
		}
		r.c = open(t, r.dir, &r.o)
		r.visit("/b", 200, "new")
		want := "[new]"
		if setBack {
			want = "[x xx xxx new]"
			if r.c.Log().Head().Epoch == head.Epoch {
				t.Error("the epoch is unchanged after a restored backup")
			}
		}
		got := captures(t, r.dir)
		if fmt.Sprint(got[home+"/b"]) != want || fmt.Sprint(got[home+"/a"]) != "[one]" {
			t.Errorf("set back %v: archived %v, want %s", setBack, got, want)
		}
		if r.content("/a") != "one" || r.content("/b") != "new" {
			t.Error("stored contents cannot be read")
		}
	}
}

// A rejected transaction leaves nothing in the archive.
func TestRejectedCommitLeavesNoRecords(t *testing.T) {
	r := newKeeper(t, collection.WARC|collection.Mirror, "")
	r.find("/a", "/b")
	r.visit("/a", 200, "one")
	turn := collection.Commit{Visits: []collection.Visit{r.answer("/a", 200, "two"), r.answer("/b", 200, strings.Repeat("x", 1<<20)), {Page: 999, Status: 200}}}
	if _, err := r.c.Commit(&turn); err == nil {
		t.Fatal("a visit of an unknown page was committed")
	}
	if got := r.content("/a"); got != "one" {
		t.Errorf("the content is %q", got)
	}
	turn.Visits = turn.Visits[:1]
	r.commit(turn)
	if got := r.content("/a"); got != "two" {
		t.Errorf("the content is %q", got)
	}
	r.reopen()
	if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprintf("map[%s/a:[one two]]", home) {
		t.Errorf("archived %.200v", got)
	}
	if got := lines(r.events(protocol.Cursor{})); got != "create /a by link, update /a by age" {
		t.Error(got)
	}
	if got := tree(t, r.dir); len(got) != 1 || got["a.example/a.html"] != "two" {
		t.Errorf("files %v", got)
	}
}

// Tree reads the plain files of a mirror.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	root := filepath.Join(dir, "mirror")
	must.OK(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(root, name)
		if strings.HasPrefix(rel, ".parley/other/") {
			rel = "other" + filepath.Ext(rel)
		}
		got[filepath.ToSlash(rel)] = string(b)
		return err
	}))
	return got
}

func TestMirror(t *testing.T) {
	for _, contents := range []collection.Contents{collection.Mirror, collection.Mirror | collection.WARC} {
		r := newKeeper(t, contents, "gzip")
		want := map[string]string{}
		check := func(when string) {
			t.Helper()
			if got := tree(t, r.dir); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		long, deep := "/"+strings.Repeat("x", 250)+".html", "/"+strings.Repeat("y", 255)+"/"+strings.Repeat("d/", 1072)
		r.find("/", "/a", "/a/b.txt", "/dir/", "/x.png", "/a.html", "/.git", "/a?q=1", long, deep)
		for _, path := range []string{"/", "/a", "/dir/", "/a.html", "/.git", "/a?q=1", long, deep} {
			r.visit(path, 200, "body of "+path)
		}
		want["a.example"+long] = "body of " + long
		want["a.example"+deep+"index.html"] = "body of " + deep
		want["a.example/index.html"] = "body of /"
		want["a.example/a.html"] = "body of /a"
		want["other.html"] = "body of /a.html" // its name is taken
		want["a.example/dir/index.html"] = "body of /dir/"
		want["a.example/%2Egit"] = "body of /.git"
		want["a.example/a.html%3Fq=1"] = "body of /a?q=1"
		check("new")
		if n, err := r.c.Displaced(); n != 1 || err != nil {
			t.Errorf("%d pages have files under .parley/other, %v; want 1", n, err)
		}

		r.visit("/a", 200, "changed")
		r.visit("/a", 200, "changed")
		r.visit("/", 304, "")
		r.visit("/dir/", 410, "")
		want["a.example/a.html"] = "changed"
		delete(want, "a.example/dir/index.html")
		check("changed")
		r.reopen()
		check("reopened")
		if r.content("/a") != "changed" || r.content("/") != "body of /" || r.content("/a.html") != "body of /a.html" {
			t.Error("contents differ from the stored ones")
		}

		// The site says that a page has moved: its file is moved without a request.
		s := r.source(collection.ManifestRDF)
		r.apply(s, whole(1, create("/", "body of /"), create("/a", "changed"), create("/a.html", "body of /a.html")), collection.ByManifest)
		r.apply(s, told(2, move("/a", "/new/place", "changed")), collection.ByStream)
		delete(want, "a.example/a.html")
		want["a.example/new/place.html"] = "changed"
		for _, gone := range []string{"a.example/%2Egit", "a.example/a.html%3Fq=1"} {
			if _, ok := tree(t, r.dir)[gone]; !ok {
				delete(want, gone)
			}
		}
		check("moved")
		if r.content("/new/place") != "changed" {
			t.Error("content of a moved page cannot be read")
		}
	}
}

// Lost contents are stored again when a visit brings them, and after a
// 304 for a page whose body cannot be read the page is fetched again at once.
func TestLostContentsAreFetchedAgain(t *testing.T) {
	for _, kind := range []collection.Contents{collection.WARC, collection.Mirror, collection.WARC | collection.Mirror} {
		r := newKeeper(t, kind, "gzip")
		r.find("/a", "/b", "/c")
		paths := []string{"/a", "/b", "/c"}
		for _, path := range paths {
			r.visit(path, 200, "body of "+path)
		}
		r.reopen()
		stand := func() (list []string) {
			for _, path := range paths {
				if r.c.Contents().Stands(r.page(path).Stored) {
					list = append(list, path)
				}
			}
			return list
		}
		wantAll(t, "stand", stand(), paths...)
		want(t, "no place stands", r.c.Contents().Stands(contents.Place{}), false)
		want(t, "a file outside stands", r.c.Contents().Stands(contents.Place{File: "../" + filepath.Base(r.dir) + "/state.db"}), false)
		head := r.c.Log().Head()

		for _, dir := range []string{"warc", "mirror"} { // all of it is lost
			must.OK(t, os.RemoveAll(filepath.Join(r.dir, dir)))
		}
		r.reopen() // earlier knowledge of the files is discarded
		wantAll(t, "stand when all is lost", stand())

		r.visit("/a", 304, "")
		want(t, "due after a 304 for an unreadable body", r.due("/a"), time.Second)
		for range 2 {
			r.wait(time.Minute)
			r.visit("/a", 200, "body of /a")
			r.visit("/b", 200, "body of /b")
			want(t, "due", r.due("/a"), 24*time.Hour)
		}
		wantAll(t, "stand again", stand(), "/a", "/b")
		r.reopen()
		wantAll(t, "stand after a restart", stand(), "/a", "/b")
		want(t, "a", r.content("/a"), "body of /a")
		want(t, "b", r.content("/b"), "body of /b")
		want(t, "journal", r.c.Log().Head(), head)
		r.visit("/c", 200, "other")
		want(t, "c", r.content("/c"), "other")
		if kind&collection.Mirror != 0 {
			if got := tree(t, r.dir); len(got) != 3 || got["a.example/a.html"] != "body of /a" {
				t.Errorf("mirror %v", got)
			}
		}
		if kind&collection.WARC != 0 {
			if got := captures(t, r.dir); fmt.Sprint(got[home+"/a"]) != "[body of /a =]" {
				t.Errorf("captures %v", got)
			}
			place := r.page("/b").Stored // an end that the disk has lost
			place.Length = 1 << 20
			want(t, "too short", r.c.Contents().Stands(place), false)
		}
		check(t, r.c)
	}
	r := newRig(t)
	want(t, "where nothing is stored", r.c.Contents().Stands(contents.Place{}), true)
}

// An export reports how much is damaged, and writes the rest.
func TestExportSkipsDamagedRecords(t *testing.T) {
	for _, coding := range []string{"", "gzip", "zstd"} {
		for _, newest := range []bool{false, true} {
			r := newKeeper(t, collection.WARC, coding)
			for i := range 20 {
				path := fmt.Sprintf("/%d", i)
				r.find(path)
				r.visit(path, 200, strings.Repeat("body of "+path, 20))
			}
			for _, path := range []string{"/3", "/11"} { // a bit of each
				place := r.page(path).Stored
				file := filepath.Join(r.dir, place.File)
				b := must.Get(os.ReadFile(file))
				b[place.Offset+place.Length-20] ^= 4
				must.OK(t, os.WriteFile(file, b, 0o600))
			}
			dir := t.TempDir()
			out := filepath.Join(dir, "warc")
			n, err := r.c.ExportWARC(t.Context(), out, coding, collection.Selection{Newest: newest})
			if n != 18 || err == nil || !strings.Contains(err.Error(), "18 records written, but 2 could not be read") {
				t.Errorf("coding %q, newest %v: %d exported, %v", coding, newest, n, err)
			}
			if got := captures(t, dir); len(got) != 18 || got[home+"/3"] != nil || got[home+"/4"] == nil {
				t.Errorf("coding %q, newest %v: %d captures", coding, newest, len(got))
			}
			if n, err := r.c.ExportWARC(t.Context(), out, coding, collection.Selection{}); n != 0 || err == nil || !strings.Contains(err.Error(), "holds archives already") {
				t.Errorf("exported %d twice, %v", n, err)
			}
		}
	}
}

// An export is an archive that can be read by itself.
func TestExport(t *testing.T) {
	for _, contents := range []collection.Contents{collection.WARC, collection.Mirror} {
		r := newKeeper(t, contents, "zstd")
		r.find("/a", "/b", "/dir/c", "/never")
		begin := r.now
		for _, body := range []string{"one", "one", "two"} {
			r.wait(time.Hour)
			for _, path := range []string{"/a", "/b", "/dir/c"} {
				r.visit(path, 200, body+path)
			}
		}
		r.visit("/b", 410, "")
		export := func(s collection.Selection, coding string) string {
			t.Helper()
			dir := t.TempDir()
			n := must.Get(r.c.ExportWARC(t.Context(), filepath.Join(dir, "warc"), coding, s))
			var list []string
			for url, bodies := range captures(t, dir) {
				n -= len(bodies)
				for _, b := range bodies {
					list = append(list, strings.TrimPrefix(url, home)+"="+b)
				}
			}
			if n != 0 {
				t.Errorf("%d captures too many or too few", n)
			}
			return fmt.Sprint(sorted(list))
		}
		all := "[/a== /a=one/a /a=two/a /b= /b== /b=one/b /b=two/b /dir/c== /dir/c=one/dir/c /dir/c=two/dir/c]"
		dir := "[/dir/c== /dir/c=one/dir/c /dir/c=two/dir/c]"
		middle := "[/a== /b== /dir/c==]"
		newest := "[/a=two/a /dir/c=two/dir/c]"
		if contents == collection.Mirror {
			all, dir, middle = newest, "[/dir/c=two/dir/c]", "[]"
		}
		for _, coding := range []string{"", "gzip"} {
			for _, c := range []struct {
				s    collection.Selection
				want string
			}{
				{collection.Selection{}, all},
				{collection.Selection{Prefix: home + "/dir/"}, dir},
				{collection.Selection{Since: begin.Add(90 * time.Minute), Until: begin.Add(150 * time.Minute)}, middle},
				{collection.Selection{Newest: true}, newest},
			} {
				if got := export(c.s, coding); got != c.want {
					t.Errorf("contents %d, read only %v: %+v: %s, want %s", contents, r.o.ReadOnly, c.s, got, c.want)
				}
			}
			r.o.Contents, r.o.ReadOnly = 0, true // as a command opens a collection that no crawler has open
			r.reopen()
		}
		var b bytes.Buffer
		if n, err := r.c.ExportURLs(t.Context(), &b, collection.Selection{States: []collection.State{collection.Held, collection.Known}}); n != 3 || err != nil ||
			b.String() != home+"/a\n"+home+"/dir/c\n"+home+"/never\n" {
			t.Errorf("%d urls, %v: %s", n, err, b.String())
		}
	}
}

// A collection that is killed before it commits its first transaction stores nothing twice.
func TestKilledBeforeFirstCommit(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	read := func(name string) []byte {
		return must.Get(os.ReadFile(filepath.Join(r.dir, name)))
	}
	r.find("/a")
	before := map[string][]byte{"state.db": read("state.db"), "journal.db": read("journal.db"), "warc/mark.txt": read("warc/mark.txt")}
	for range 2 {
		r.visit("/a", 200, "one")
		r.c.Close()
		for name, b := range before { // as a kill would leave them
			must.OK(t, os.WriteFile(filepath.Join(r.dir, name), b, 0o600))
		}
		r.c = open(t, r.dir, &r.o)
	}
	r.visit("/a", 200, "one")
	if list, err := r.c.Contents().Versions(home + "/a"); err != nil || len(list) != 1 {
		t.Errorf("%d versions: %+v, %v", len(list), list, err)
	}
}
