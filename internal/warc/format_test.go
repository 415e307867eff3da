package warc_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/internal/warc"
)

// The keys equal those of the field's tools, for canonical URLs.
func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.org":                         "org,example)/",
		"https://example.org/":                       "org,example)/",
		"https://www.example.org:443/A/b/":           "org,example)/a/b",
		"http://www2.example.org:8080/x?b=2&a=1&a=0": "org,example:8080)/x?a=0&a=1&b=2",
		"http://www.com/":                            "com,www)/",
		"http://wwwx.example.org/":                   "org,example,wwwx)/",
		"http://10.1.2.3:80/p?":                      "10.1.2.3)/p",
		"http://[2001:db8::1]:81/p":                  "[2001:db8::1]:81)/p",
		"http://u:p@example.org/a b#f":               "org,example)/a%20b",
		"urn:x:Y":                                    "urn:x:y",
	} {
		if got := warc.SURT(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// A Reader accepts records that warctest.Validate rejects.
func TestReaderIsTolerant(t *testing.T) {
	http := strings.Index(warctest.Record, "HTTP/")
	second := strings.NewReplacer("0b1f", "0b2f", "https://example.org/", "<https://example.org/>").Replace(warctest.Record)
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	io.WriteString(g, strings.ReplaceAll(warctest.Record[:http], "\r\n", "\n")+warctest.Record[http:]+second)
	g.Close()
	r := warc.NewReader(&z)
	defer r.Close()
	for range 2 {
		rec := must.Get(r.Next())
		m := must.Get(warc.ReadMessage(rec.Body))
		if b, err := io.ReadAll(m.Body); string(b) != "hello world" || err != nil || rec.URL() != "https://example.org/" || rec.Offset != 0 || rec.Date().Year() != 2026 {
			t.Errorf("%q, %v, %+v", b, err, rec)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

// Archives that wget writes are read, and are valid.
func TestReadWgetArchives(t *testing.T) {
	wget := machine.Tool(t, "wget")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		page := `<a href="/b">b</a><a href="/c">c</a>` + r.URL.Path + strings.Repeat("x", 5000)
		w.Header().Set("Content-Length", strconv.Itoa(len(page))) // of chunks wget takes the digest with their frames
		io.WriteString(w, page)
	}))
	defer site.Close()
	for _, compress := range []bool{true, false} {
		dir := t.TempDir()
		args := []string{"-q", "-r", "--warc-file=w", "--no-warc-keep-log", "--timeout=10"}
		if !compress {
			args = append(args, "--no-warc-compression")
		}
		cmd := exec.Command(wget, append(args, site.URL+"/")...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		names, _ := filepath.Glob(filepath.Join(dir, "w.warc*"))
		if len(names) != 1 {
			t.Fatalf("wget wrote the files %v, want one: %v %s", names, err, out)
		}
		data := must.Get(os.ReadFile(names[0]))
		report, err := warctest.Validate(bytes.NewReader(data))
		if err != nil {
			t.Error(err)
		}
		if report.Types[warc.Response] < 3 || report.Types["request"] < 3 {
			t.Errorf("%v", report.Types)
		}
		pages := 0
		r := warc.NewReader(bytes.NewReader(data))
		for i := 0; ; i++ {
			rec, err := r.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if rec.Offset != report.Places[i].Offset {
				t.Errorf("record %d at %d, want %d", i, rec.Offset, report.Places[i].Offset)
			}
			if rec.Type() == warc.Response {
				if m, err := warc.ReadMessage(rec.Body); err != nil || m.Status/100 != 2 && m.Status != 404 {
					t.Errorf("%s: %+v, %v", rec.URL(), m, err)
				}
				pages++
			}
		}
		r.Close()
		if pages != report.Types[warc.Response] {
			t.Errorf("%d pages", pages)
		}
	}
}

func seeds(f *testing.F) {
	f.Add([]byte(warctest.Record))
	f.Add([]byte(warctest.Record + "\r\n" + warctest.Record))
	for _, coding := range []string{"gzip", "zstd", ""} {
		dir := f.TempDir()
		w := open(f, dir, warc.Options{Coding: coding})
		write(f, w, capture(1))
		write(f, w, capture(2))
		w.Close()
		b := must.Get(os.ReadFile(filepath.Join(dir, w.Mark().File)))
		f.Add(b)
		f.Add(b[:len(b)-9])
		f.Add(append(bytes.Clone(b[:len(b)/2]), b...))
	}
}

// For any input, reading ends; and a valid archive is read without damage.
func FuzzReader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		report, invalid := warctest.Validate(bytes.NewReader(data))
		r := warc.NewReader(bytes.NewReader(data))
		defer r.Close()
		n, last, damaged := 0, int64(-1), false
		for {
			rec, err := r.Next()
			var d *warc.Damage
			if errors.As(err, &d) {
				if d.Offset < last {
					t.Fatalf("damage at %d after a record at %d", d.Offset, last)
				}
				damaged = true
				continue
			} else if err != nil {
				break
			}
			if rec.Offset < last || rec.Offset >= int64(len(data)) {
				t.Fatalf("record at %d after one at %d of %d", rec.Offset, last, len(data))
			}
			last = rec.Offset
			n++
			if m, err := warc.ReadMessage(rec.Body); err == nil {
				io.Copy(io.Discard, io.LimitReader(m.Body, 1<<20))
			}
		}
		if invalid == nil && (damaged || n != report.Records) {
			t.Errorf("%d records of %d valid ones, damaged %v", n, report.Records, damaged)
		}
	})
}

// If a Writer opens an archive at all, whatever its file and log contain, a record written then can be read, and is found by its URL.
func FuzzRecovery(f *testing.F) {
	dir := f.TempDir()
	w := open(f, dir, warc.Options{})
	write(f, w, capture(1))
	w.Close()
	name := w.Mark().File
	data, _ := os.ReadFile(filepath.Join(dir, name))
	log, _ := os.ReadFile(filepath.Join(dir, name+".cdxj.log"))
	f.Add(data, log, int64(-1))
	f.Add(data[:len(data)-1], log, int64(200))
	f.Add(data, []byte("a 20260101000000 {\"url\": \"x\", \"offset\": \"9223372036854775807\", \"length\": 9}\n"), int64(9))
	f.Fuzz(func(t *testing.T, data, log []byte, mark int64) {
		dir := memoryDir(t)
		os.WriteFile(filepath.Join(dir, name), data, 0o644)
		os.WriteFile(filepath.Join(dir, name+".cdxj.log"), log, 0o644)
		o := warc.Options{}
		if mark >= 0 {
			o.Mark = &warc.Place{File: name, Offset: mark}
		}
		w, err := warc.OpenWriter(dir, &o)
		if err != nil {
			return
		}
		defer w.Close()
		p := write(t, w, capture(3))
		sync(t, w)
		if _, b := body(t, dir, p); b != string(capture(3).Body) {
			t.Error("the records read differ from those written")
		}
		list, err := warc.Index{Dir: dir}.Lookup(capture(3).URL)
		if err != nil || len(list) == 0 {
			t.Errorf("a written record is not found: %v", err)
		}
	})
}

// memoryDir is a directory whose files are in memory, where there is such: a
// disk that syncs allows no more than ten inputs a second.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "parley-fuzz-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func BenchmarkResponse(b *testing.B) {
	for _, coding := range []string{"", "gzip", "zstd"} {
		b.Run("coding="+coding, func(b *testing.B) {
			page := realistic()
			c := capture(1)
			c.Body = page
			w := open(b, b.TempDir(), warc.Options{Coding: coding})
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			var stored int64
			for b.Loop() {
				p := write(b, w, c)
				stored += p.Length
			}
			b.ReportMetric(float64(stored)/float64(b.N), "stored-B/op")
		})
	}
}

// realistic is 26 KB that compress as pages do.
func realistic() []byte {
	var b bytes.Buffer
	words := strings.Fields("the of method returns class interface object string public static void see also since parameters throws exception value index element collection")
	for i, x := 0, uint32(1); b.Len() < 26<<10; i++ {
		x = x*1664525 + 1013904223
		if i%12 == 0 {
			b.WriteString("</td></tr>\n<tr class=\"row\"><td><a href=\"../api/" + words[x>>20%uint32(len(words))] + ".html#m" + string(rune('a'+x>>28)) + "\">")
		}
		b.WriteString(words[(x>>16)%uint32(len(words))])
		b.WriteByte(' ')
	}
	return b.Bytes()
}
