package versions_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/versions"
)

// front serves the pages of a rig over HTTP.
func (r *rig) front() *httptest.Server {
	f := httptest.NewServer(&versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public})
	r.t.Cleanup(f.Close)
	return f
}

// An answer is a response with its body.
type answer struct {
	*http.Response
	body []byte
}

// asker adds no headers to a test's request.
var asker = &http.Transport{DisableCompression: true}

// ask sends a request; head holds alternating names and values of header fields.
func ask(t *testing.T, f *httptest.Server, method, path string, head ...string) answer {
	t.Helper()
	req := must.Get(http.NewRequest(method, f.URL+path, nil))
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp := must.Get(asker.RoundTrip(req))
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))
	if n := resp.Header.Get("Content-Length"); n != "" && method != http.MethodHead && n != fmt.Sprint(len(b)) {
		t.Errorf("%s %s: Content-Length %s, %d bytes received", method, path, n, len(b))
	}
	return answer{resp, b}
}

func (a answer) is(t *testing.T, what string, status int, body []byte) {
	t.Helper()
	if a.StatusCode != status || !bytes.Equal(a.body, body) {
		t.Errorf("%s: %s with %d bytes, want %d with %d\n%v", what, a.Status, len(a.body), status, len(body), a.Header)
	}
}

func tagOf(page []byte) string {
	sum := sha256.Sum256(page)
	return hex.EncodeToString(sum[:])
}

func dictionaryOf(page []byte) string {
	sum := sha256.Sum256(page)
	return ":" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func TestPageRequests(t *testing.T) {
	rnd := rand.New(rand.NewPCG(31, 32))
	r := newRig(t, nil)
	page := text(rnd, 30_000)
	r.first(map[string][]byte{"a/page.html": page, "small.html": []byte("<p>small</p>")})
	f := r.front()
	e, ok, err := r.journal.Get(base + "a/page.html")
	if err != nil || !ok {
		t.Fatal(err)
	}
	modified := e.Item.Modified.Truncate(time.Second)
	date := func(d time.Duration) string { return modified.Add(d).Format(http.TimeFormat) }
	tag := `"` + tagOf(page) + `"`
	none := []byte{}

	whole := ask(t, f, "GET", "/a/page.html")
	whole.is(t, "whole", 200, page)
	for name, want := range map[string]string{"ETag": tag, "Last-Modified": date(0), "Content-Type": "text/html", "Vary": "Accept-Encoding, Available-Dictionary",
		"Repr-Digest": e.Item.Digest.String(), "Use-As-Dictionary": `match="/a/page.html"`, "Accept-Ranges": "bytes", "Content-Length": fmt.Sprint(len(page)), "Content-Encoding": ""} {
		if got := whole.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	head := ask(t, f, "HEAD", "/a/page.html")
	head.is(t, "HEAD", 200, none)
	if n := head.Header.Get("Content-Length"); n != fmt.Sprint(len(page)) || head.Header.Get("ETag") != tag {
		t.Errorf("HEAD: %v", head.Header)
	}
	for _, c := range []struct {
		what   string
		status int
		body   []byte
		head   []string
	}{
		{"If-None-Match matches", 304, none, []string{"If-None-Match", tag}},
		{"If-None-Match with a weak tag", 304, none, []string{"If-None-Match", "W/" + tag}},
		{"If-None-Match with many tags", 304, none, []string{"If-None-Match", `"x", "y,z", ` + tag}},
		{"If-None-Match with a coding's tag", 304, none, []string{"If-None-Match", strings.TrimSuffix(tag, `"`) + `-gzip"`}},
		{"If-None-Match: *", 304, none, []string{"If-None-Match", "*"}},
		{"If-None-Match does not match", 200, page, []string{"If-None-Match", `"x"`}},
		{"the tag outranks the date", 200, page, []string{"If-None-Match", `"x"`, "If-Modified-Since", date(0)}},
		{"the tag outranks the date", 304, none, []string{"If-None-Match", tag, "If-Modified-Since", date(-time.Hour)}},
		{"If-Modified-Since matches", 304, none, []string{"If-Modified-Since", date(0)}},
		{"If-Modified-Since with an older date", 200, page, []string{"If-Modified-Since", date(-time.Second)}},
		{"If-Modified-Since is not a date", 200, page, []string{"If-Modified-Since", "yesterday"}},
		{"If-Match matches", 200, page, []string{"If-Match", tag}},
		{"If-Match does not match", 412, nil, []string{"If-Match", `"x"`}},
		{"If-Unmodified-Since with an older date", 412, nil, []string{"If-Unmodified-Since", date(-time.Second)}},
		{"a range", 206, page[100:200], []string{"Range", "bytes=100-199"}},
		{"a range at the end", 206, page[len(page)-50:], []string{"Range", "bytes=-50"}},
		{"a range, gzip accepted", 206, page[100:200], []string{"Range", "bytes=100-199", "Accept-Encoding", "gzip"}},
		{"If-Range matches", 206, page[100:], []string{"Range", "bytes=100-", "If-Range", tag}},
		{"If-Range does not match", 200, page, []string{"Range", "bytes=100-", "If-Range", `"x"`}},
		{"If-Range with the date", 206, page[100:], []string{"Range", "bytes=100-", "If-Range", date(0)}},
		{"If-Range with an older date", 200, page, []string{"Range", "bytes=100-", "If-Range", date(-time.Second)}},
		{"a range beyond the end", 416, nil, []string{"Range", "bytes=1000000-"}},
		{"not a range", 416, nil, []string{"Range", "bytes=x"}},
		{"a thousand ranges", 200, page, []string{"Range", "bytes=0-0" + strings.Repeat(",5-6", 999)}},
	} {
		a := ask(t, f, "GET", "/a/page.html", c.head...)
		if c.body == nil {
			c.body = a.body
		}
		a.is(t, c.what, c.status, c.body)
		if c.status == 304 && (a.Header.Get("ETag") == "" || a.Header.Get("Vary") == "" || a.Header.Get("Content-Encoding") != "") {
			t.Errorf("%s: %v", c.what, a.Header)
		}
	}
	if a := ask(t, f, "GET", "/a/page.html", "Range", "bytes=0-9,100-109"); a.StatusCode != 206 || !strings.HasPrefix(a.Header.Get("Content-Type"), "multipart/byteranges") ||
		!bytes.Contains(a.body, page[100:110]) {
		t.Errorf("two ranges: %v", a.Status)
	}
	for path, want := range map[string]int{"/none.html": 404, "/robots.rdf": 404, "/../secret": 404, "/a/page.html?x=1": 404, "/": 404, "/small.html": 200} {
		if a := ask(t, f, "GET", path); a.StatusCode != want {
			t.Errorf("%s: %v", path, a.Status)
		}
	}
	if a := ask(t, f, "POST", "/small.html"); a.StatusCode != 405 || a.Header.Get("Allow") == "" {
		t.Errorf("%v", a.Status)
	}
}

// If a page changed while the clock was ahead, no Last-Modified is sent until that time is past: all later
// versions have the same one.
func TestNoLastModifiedInTheFuture(t *testing.T) {
	rnd := rand.New(rand.NewPCG(71, 72))
	r := newRig(t, nil)
	page := text(rnd, 3000)
	r.first(map[string][]byte{"page.html": page})
	f := r.front()
	ahead := time.Now().AddDate(1, 0, 0)
	r.publisher.Now = func() time.Time { return ahead }
	for i := range 3 {
		page = edited(rnd, page)
		r.write("page.html", page)
		if i == 0 {
			r.ok(os.Chtimes(filepath.Join(r.site.Docroot, "page.html"), ahead, ahead))
		}
		r.look()
		r.publisher.Now = nil // from now on the clock is right
		e, ok, err := r.journal.Get(base + "page.html")
		if err != nil || !ok || !e.Item.Modified.After(time.Now()) {
			t.Fatalf("%v, %v: modified %v", ok, err, e.Item.Modified)
		}
		date := e.Item.Modified.Format(http.TimeFormat)
		tag := `"` + tagOf(page) + `"`
		whole := ask(t, f, "GET", "/page.html", "If-Modified-Since", date)
		whole.is(t, "by date", 200, page)
		if whole.Header.Get("Last-Modified") != "" || whole.Header.Get("ETag") != tag {
			t.Errorf("%v", whole.Header)
		}
		ask(t, f, "GET", "/page.html", "Range", "bytes=100-", "If-Range", date).is(t, "goes on by date", 200, page)
		ask(t, f, "GET", "/page.html", "If-None-Match", tag, "If-Modified-Since", date).is(t, "by tag", 304, nil)
	}
}

func TestContentCodings(t *testing.T) {
	rnd := rand.New(rand.NewPCG(33, 34))
	r := newRig(t, nil)
	page := text(rnd, 30_000)
	r.first(map[string][]byte{"page.html": page, "small.html": []byte("<p>small</p>"), "noise.pdf": noise(rnd, 5000)})
	f := r.front()
	for takes, want := range map[string]string{
		"gzip": "gzip", "x-gzip": "gzip", "gzip, zstd": "zstd", "gzip;q=1, zstd;q=0.5": "gzip", "*": "zstd", "*, zstd;q=0": "gzip", "br": "", "": "", "identity, gzip;q=0.1": "",
		"gzip;q=0": "", "gzip;q=oops": "", "GZIP ; q=0.3": "gzip", "dcz": "", "identity;q=0": "",
	} {
		a := ask(t, f, "GET", "/page.html", "Accept-Encoding", takes)
		if got := a.Header.Get("Content-Encoding"); got != want || a.StatusCode != 200 || a.Header.Get("Vary") == "" {
			t.Errorf("%q: %q, %v", takes, got, a.Status)
			continue
		}
		z := must.Get(coding.NewReader(bytes.NewReader(a.body)))
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, page) {
			t.Errorf("%q: %d bytes, %v", takes, len(got), err)
		}
		tag := `"` + tagOf(page) + `"`
		if want != "" {
			tag = `"` + tagOf(page) + "-" + want + `"`
			if a.Header.Get("Content-Length") == "" || len(a.body) >= len(page) {
				t.Errorf("%q: %d bytes, %v", takes, len(a.body), a.Header)
			}
			// The resumed download has the coding of the first part.
			if part := ask(t, f, "GET", "/page.html", "Accept-Encoding", takes, "Range", "bytes=10-", "If-Range", tag); part.StatusCode != 206 || !bytes.Equal(part.body, a.body[10:]) {
				t.Errorf("%q, the rest: %v, %d bytes of %d", takes, part.Status, len(part.body), len(a.body))
			}
		}
		if a.Header.Get("ETag") != tag {
			t.Errorf("%q: %s", takes, a.Header.Get("ETag"))
		}
		if again := ask(t, f, "GET", "/page.html", "Accept-Encoding", takes, "If-None-Match", a.Header.Get("ETag")); again.StatusCode != 304 || again.Header.Get("ETag") != tag {
			t.Errorf("%q: again %v", takes, again.Status)
		}
	}
	for _, path := range []string{"/small.html", "/noise.pdf"} {
		if a := ask(t, f, "GET", path, "Accept-Encoding", "gzip, zstd"); a.Header.Get("Content-Encoding") != "" || a.StatusCode != 200 {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	if _, err := gzip.NewReader(bytes.NewReader(ask(t, f, "GET", "/page.html", "Accept-Encoding", "gzip").body)); err != nil {
		t.Error(err)
	}
}

// A client that has a version gets a delta against it, as browsers request it.
func TestDeltaAgainstDictionary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(35, 36))
	r := newRig(t, nil)
	one, other := text(rnd, 30_000), text(rnd, 30_000)
	r.first(map[string][]byte{"page.html": one, "other.html": other})
	two := edited(rnd, one)
	r.write("page.html", two)
	r.look()
	f := r.front()
	takes := []string{"Accept-Encoding", "gzip, dcz"}
	a := ask(t, f, "GET", "/page.html", append(takes, "Available-Dictionary", dictionaryOf(one))...)
	if a.Header.Get("Content-Encoding") != "dcz" || a.Header.Get("Vary") != "Accept-Encoding, Available-Dictionary" || !strings.HasPrefix(a.Header.Get("ETag"), `"`+tagOf(two)+`-dcz-`) ||
		a.Header.Get("Use-As-Dictionary") != `match="/page.html"` || len(a.body) > 2000 {
		t.Errorf("%v, %d bytes: %v", a.Status, len(a.body), a.Header)
	}
	if got, err := coding.ApplyDelta(one, a.body, 1<<20); err != nil || !bytes.Equal(got, two) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if tool, err := exec.LookPath("zstd"); err == nil {
		name := filepath.Join(t.TempDir(), "one")
		r.ok(os.WriteFile(name, one, 0o600))
		cmd := exec.Command(tool, "-dc", "--patch-from="+name)
		cmd.Stdin = bytes.NewReader(a.body[coding.DeltaHeader:])
		if out, err := cmd.Output(); err != nil || !bytes.Equal(out, two) {
			t.Errorf("%v: %d bytes, %v", cmd, len(out), err)
		}
	}
	if again := ask(t, f, "GET", "/page.html", append(takes, "Available-Dictionary", dictionaryOf(one), "If-None-Match", a.Header.Get("ETag"))...); again.StatusCode != 304 {
		t.Errorf("again: %v", again.Status)
	}
	if same := ask(t, f, "GET", "/page.html", append(takes, "Available-Dictionary", dictionaryOf(two))...); same.Header.Get("Content-Encoding") != "dcz" || len(same.body) > 100 {
		t.Errorf("against itself: %d bytes, %v", len(same.body), same.Header)
	}
	for what, head := range map[string][]string{
		"dcz is not accepted":        {"Accept-Encoding", "gzip", "Available-Dictionary", dictionaryOf(one)},
		"dcz has weight 0":           {"Accept-Encoding", "gzip, dcz;q=0", "Available-Dictionary", dictionaryOf(one)},
		"any coding is accepted":     {"Accept-Encoding", "gzip, *", "Available-Dictionary", dictionaryOf(one)},
		"unknown dictionary":         {"Accept-Encoding", "gzip, dcz", "Available-Dictionary", dictionaryOf([]byte("none"))},
		"dictionary of another page": {"Accept-Encoding", "gzip, dcz", "Available-Dictionary", dictionaryOf(other)},
		"no dictionary":              {"Accept-Encoding", "gzip, dcz"},
		"not a dictionary":           {"Accept-Encoding", "gzip, dcz", "Available-Dictionary", "x"},
		"too short":                  {"Accept-Encoding", "gzip, dcz", "Available-Dictionary", ":AAAA:"},
		"a range is requested":       {"Accept-Encoding", "dcz", "Available-Dictionary", dictionaryOf(one), "Range", "bytes=0-9"},
	} {
		if a := ask(t, f, "GET", "/page.html", head...); a.Header.Get("Content-Encoding") == "dcz" || a.StatusCode/100 != 2 {
			t.Errorf("%s: %v, %v", what, a.Status, a.Header)
		}
	}
}

// A large page is sent from its file, with the right digest and headers.
func TestLargePages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(43, 44))
	r := newRig(t, nil)
	one := text(rnd, 5<<20)
	r.first(map[string][]byte{"large.html": one})
	old := time.Now().Add(-time.Hour)
	name := filepath.Join(r.site.Docroot, "large.html")
	r.ok(os.Chtimes(name, old, old)) // then its digest is remembered
	r.look()
	f := r.front()
	tag := `"` + tagOf(one) + `"`
	for range 2 {
		a := ask(t, f, "GET", "/large.html", "Accept-Encoding", "gzip")
		a.is(t, "whole", 200, one)
		if a.Header.Get("ETag") != tag || a.Header.Get("Last-Modified") == "" {
			t.Errorf("%v", a.Header)
		}
		ask(t, f, "GET", "/large.html", "Range", "bytes=4000000-4000099", "If-Range", tag).is(t, "a part", 206, one[4000000:4000100])
	}
	ask(t, f, "GET", "/large.html", "If-None-Match", tag).is(t, "held", 304, []byte{})
	two := edited(rnd, one)
	two = append(two, one[:max(0, len(one)-len(two))]...)
	r.write("large.html", two[:len(one)]) // of the same length, and not scanned
	a := ask(t, f, "GET", "/large.html")
	a.is(t, "changed", 200, two[:len(one)])
	if a.Header.Get("ETag") != "" || a.Header.Get("Last-Modified") != "" {
		t.Errorf("unexpected validators: %v", a.Header)
	}
	r.look()
	a = ask(t, f, "GET", "/large.html", "Accept-Encoding", "dcz", "Available-Dictionary", dictionaryOf(one))
	if got, err := coding.ApplyDelta(one, a.body, 8<<20); err != nil || !bytes.Equal(got, two[:len(one)]) || a.Header.Get("Content-Encoding") != "dcz" {
		t.Errorf("%d bytes, %v, %v", len(got), err, a.Header)
	}
}

// Pages that are gone, moved or forbidden; and pages that are changed before the next scan.
func TestGoneMovedAndForbiddenPages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(37, 38))
	r := newRig(t, nil)
	r.publisher.Pace.Grace = time.Nanosecond
	page, moving := text(rnd, 3000), text(rnd, 4000)
	r.first(map[string][]byte{"index.html": page, "gone.html": page, "from.html": moving, "private.html": page, "a b(1).html": page})
	f := r.front()
	if got := ask(t, f, "GET", "/a%20b(1).html").Header.Get("Use-As-Dictionary"); got != `match="/a%20b\\(1\\).html"` {
		t.Errorf("%s", got)
	}
	// Deleted and not yet scanned: it is gone all the same.
	r.remove("gone.html")
	if a := ask(t, f, "GET", "/gone.html"); a.StatusCode != 404 || bytes.Contains(a.body, page[:100]) {
		t.Errorf("%v", a.Status)
	}
	r.ok(os.Rename(filepath.Join(r.site.Docroot, "from.html"), filepath.Join(r.site.Docroot, "to.html")))
	r.write("robots.txt", []byte("User-agent: *\nDisallow: /private\n"))
	r.look()
	r.look() // and the grace period is over
	for path, want := range map[string]int{"/gone.html": 410, "/from.html": 308, "/to.html": 200, "/private.html": 404, "/never.html": 404} {
		a := ask(t, f, "GET", path)
		if a.StatusCode != want || want == 308 && a.Header.Get("Location") != base+"to.html" || bytes.Contains(a.body, page[:100]) {
			t.Errorf("%s: %v %v", path, a.Status, a.Header)
		}
	}
	// Changed and not yet scanned: the version in the journal is sent.
	r.write("index.html", edited(rnd, page))
	ask(t, f, "GET", "/").is(t, "before the look", 200, page)
	r.look()
	// The same if that version was not stored: then the response makes no claim about it.
	r.ok(os.RemoveAll(r.store.Dir))
	r.open(nil)
	f = r.front()
	strange := edited(rnd, page)
	r.write("index.html", strange)
	a := ask(t, f, "GET", "/", "If-None-Match", "*")
	a.is(t, "not kept", 200, strange)
	if a.Header.Get("ETag") != "" || a.Header.Get("Last-Modified") != "" || a.Header.Get("Repr-Digest") != "" || a.Header.Get("Use-As-Dictionary") != "" {
		t.Errorf("unexpected validators: %v", a.Header)
	}
}

// While a page is rewritten all the time, every response is one whole version that matches its headers.
func TestResponsesWhilePageIsRewritten(t *testing.T) {
	rnd := rand.New(rand.NewPCG(39, 40))
	r := newRig(t, nil)
	page := text(rnd, 20_000)
	versions := map[protocol.Digest]bool{protocol.Sum(page): true}
	var mu sync.Mutex
	r.first(map[string][]byte{"index.html": page})
	f := r.front()
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		all.Go(func() {
			var have []byte
			for {
				select {
				case <-done:
					return
				default:
				}
				head := []string{"Accept-Encoding", "dcz, gzip"}
				if have != nil {
					head = append(head, "Available-Dictionary", dictionaryOf(have))
				}
				a := ask(t, f, "GET", "/", head...)
				got := a.body
				var err error
				switch a.Header.Get("Content-Encoding") {
				case "dcz":
					got, err = coding.ApplyDelta(have, a.body, 1<<20)
				case "gzip":
					var z io.ReadCloser
					if z, err = coding.NewReader(bytes.NewReader(a.body)); err == nil {
						got, err = io.ReadAll(z)
					}
				}
				if err != nil || a.StatusCode != 200 {
					t.Errorf("%v: %v", a.Status, err)
					return
				}
				mu.Lock()
				known := versions[protocol.Sum(got)]
				mu.Unlock()
				if tag := a.Header.Get("ETag"); !known || tag != "" && !strings.HasPrefix(tag, `"`+tagOf(got)) {
					t.Errorf("%d bytes, known %v, as %s", len(got), known, tag)
					return
				}
				have = got
			}
		})
	}
	for range 40 {
		page = edited(rnd, page)
		mu.Lock()
		versions[protocol.Sum(page)] = true
		mu.Unlock()
		r.write("index.html", page)
		r.look()
	}
	close(done)
	all.Wait()
}

func FuzzRequest(f *testing.F) {
	f.Add("/page.html", "gzip, dcz", ":AAAA:", `"x", W/"y"`, "bytes=0-1,5-", `"z"`)
	f.Add("/%2e%2e/x?y#z", "*;q=0.5,identity;q=0", dictionaryOf([]byte("x")), "*", "bytes=-1", "Sun, 22 Nov 2026 05:00:00 GMT")
	r := newRig(f, nil)
	page := text(rand.New(rand.NewPCG(41, 42)), 3000)
	r.first(map[string][]byte{"page.html": page})
	h := &versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public}
	f.Fuzz(func(t *testing.T, path, takes, dictionary, none, ranges, ifRange string) {
		req := must.Get(http.NewRequest("GET", "http://x/", nil))
		req.URL.Path = path
		for name, value := range map[string]string{"Accept-Encoding": takes, "Available-Dictionary": dictionary, "If-None-Match": none, "Range": ranges, "If-Range": ifRange} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if tag := w.Header().Get("ETag"); w.Code == 200 && w.Header().Get("Content-Encoding") == "" && !bytes.Equal(w.Body.Bytes(), page) && tag != "" {
			t.Errorf("%d bytes as %s", w.Body.Len(), tag)
		}
		if w.Code >= 500 {
			t.Errorf("%d", w.Code)
		}
	})
}

func BenchmarkHandler(b *testing.B) {
	rnd := rand.New(rand.NewPCG(45, 46))
	r := newRig(b, nil)
	one := text(rnd, 30_000)
	r.first(map[string][]byte{"page.html": one})
	two := edited(rnd, one)
	r.write("page.html", two)
	r.look()
	h := &versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public}
	for name, head := range map[string]http.Header{
		"whole": {}, "gzip": {"Accept-Encoding": {"gzip"}}, "held": {"If-None-Match": {`"` + tagOf(two) + `"`}},
		"dcz": {"Accept-Encoding": {"dcz"}, "Available-Dictionary": {dictionaryOf(one)}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				req := httptest.NewRequest("GET", "/page.html", nil)
				req.Header = head.Clone()
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, req); w.Code != 200 && w.Code != 304 {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
