package warc_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/internal/warc"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC)

// capture returns an answer with a body that is like no other.
func capture(i int) *warc.Capture {
	body := fmt.Appendf(nil, "<title>page %d</title>\r\n\r\nWARC/1.1\r\n%s", i, strings.Repeat("text ", i%50))
	return &warc.Capture{
		URL: fmt.Sprintf("https://www.example.org/dir/page-%d.html?b=2&a=1", i), Date: start.Add(time.Duration(i) * time.Second),
		IP: netip.MustParseAddr("2001:db8::1"), Proto: "HTTP/1.1", Status: 200, Type: "text/html", Body: body, Digest: sha256.Sum256(body),
		Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Content-Length": {"7"}, "Content-Encoding": {"gzip"},
			"Set-Cookie": {"a=1", "b=2"}, "X-Odd": {"line\r\nbreak"}, "Bad name": {"x"}},
	}
}

func open(t testing.TB, dir string, o warc.Options) *warc.Writer {
	t.Helper()
	w := must.Get(warc.OpenWriter(dir, &o))
	t.Cleanup(func() { w.Close() })
	return w
}

func write(t testing.TB, w *warc.Writer, c *warc.Capture) warc.Place {
	t.Helper()
	return must.Get(w.Response(c))
}

func sync(t testing.TB, w *warc.Writer) {
	t.Helper()
	must.OK(t, w.Sync())
}

func files(t testing.TB, dir, suffix string) []string {
	t.Helper()
	list := must.Get(os.ReadDir(dir))
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

// valid validates every archive in a directory, and returns the URLs of the captures in order.
func valid(t testing.TB, dir string) (urls []string, types map[warc.Type]int) {
	t.Helper()
	types = map[warc.Type]int{}
	for _, suffix := range []string{".warc", ".warc.gz", ".warc.zst"} {
		for _, name := range files(t, dir, suffix) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			report, err := warctest.Validate(bytes.NewReader(b))
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(name), err)
			}
			for _, u := range report.URLs {
				if u != "" {
					urls = append(urls, u)
				}
			}
			for k, n := range report.Types {
				types[k] += n
			}
		}
	}
	return urls, types
}

func body(t testing.TB, dir string, p warc.Place) (*warc.Message, string) {
	t.Helper()
	s, err := warc.Open(dir, p)
	if err != nil {
		t.Fatalf("open %+v: %v", p, err)
	}
	defer s.Close()
	m := must.Get(warc.ReadMessage(s.Body))
	b := must.Get(io.ReadAll(m.Body))
	return m, string(b)
}

func each(t *testing.T, f func(t *testing.T, coding string)) {
	for _, coding := range []string{"", "gzip", "zstd"} {
		t.Run("coding="+coding, func(t *testing.T) { f(t, coding) })
	}
}

// Written records are valid, are found by URL, and can be read alone and in order.
func TestArchive(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		dir := t.TempDir()
		w := open(t, dir, warc.Options{Coding: coding, MaxBytes: 8000,
			Info: []warc.Field{{Name: "software", Value: "test/1"}, {Name: "http-header-user-agent", Value: "test\r\n(x)"}}})
		var places []warc.Place
		for i := range 60 {
			places = append(places, write(t, w, capture(i)))
		}
		again := capture(7)
		again.Date = start.Add(time.Hour)
		again.Of = &warc.Original{URL: again.URL, Date: capture(7).Date, Digest: again.Digest, Place: places[7]}
		must.Get(w.Revisit(again))
		same := *again
		same.Status, same.Body, same.Date, same.Proto = 304, nil, start.Add(2*time.Hour), "HTTP/2.0"
		last, err := w.Revisit(&same)
		if err != nil {
			t.Fatal(err)
		}
		sync(t, w)

		urls, types := valid(t, dir)
		if len(urls) != 62 || types[warc.Response] != 60 || types[warc.Revisit] != 2 {
			t.Errorf("%d urls, %v", len(urls), types)
		}
		if n := types[warc.Warcinfo]; n < 2 || n > 40 {
			t.Errorf("%d files, want some", n)
		}
		for i, p := range places {
			m, b := body(t, dir, p)
			if b != string(capture(i).Body) || m.Status != 200 {
				t.Fatalf("page %d: %d %q", i, m.Status, b)
			}
			if h := m.Header; h.Get("Content-Length") != fmt.Sprint(len(b)) || h.Get("Content-Encoding") != "" ||
				h.Get("X-Crawl-Content-Encoding") != "gzip" || h.Get("X-Crawl-Content-Length") != "7" ||
				len(h["Set-Cookie"]) != 2 || h.Get("X-Odd") != "line  break" || len(h) != 6 {
				t.Fatalf("header %v", h)
			}
		}
		if m, b := body(t, dir, last); m.Status != 304 || b != "" || m.Header.Get("Content-Length") != "7" {
			t.Errorf("304: %d %q %v", m.Status, b, m.Header)
		}

		list, err := warc.Index{Dir: dir}.Lookup(again.URL)
		if err != nil || len(list) != 3 {
			t.Fatalf("%d captures: %v", len(list), err)
		}
		if e := list[0]; e.Place != places[7] || e.Status != 200 || e.Type != "text/html" || e.Digest != again.Digest || e.Revisit() ||
			!e.Date.Equal(capture(7).Date.Truncate(time.Second)) {
			t.Errorf("first: %+v", e)
		}
		if e := list[1]; !e.Revisit() || e.Of != places[7] || e.Digest != again.Digest || e.Status != 200 {
			t.Errorf("revisit: %+v", e)
		}
		if e := list[2]; !e.Revisit() || e.Status != 304 || e.Place != last {
			t.Errorf("304: %+v", e)
		}
		for i := range 60 {
			if list, err := (warc.Index{Dir: dir}).Lookup(capture(i).URL); err != nil || len(list) == 0 || list[0].Place != places[i] {
				t.Fatalf("look up page %d: %+v, %v", i, list, err)
			}
		}
		if list, err := (warc.Index{Dir: dir}).Lookup("https://www.example.org/none"); err != nil || len(list) != 0 {
			t.Errorf("lookup of a missing URL: %v, %v", list, err)
		}
		must.OK(t, w.Rotate())
		for _, name := range files(t, dir, ".cdxj") {
			text, _ := os.ReadFile(name)
			if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.IsSorted(lines) || len(lines) < 1 {
				t.Errorf("%s is not sorted", name)
			}
		}
		if logs := files(t, dir, ".log"); len(logs) != 0 {
			t.Errorf("left: %v", logs)
		}
		if list, err := (warc.Index{Dir: dir}).Lookup(again.URL); err != nil || len(list) != 3 {
			t.Errorf("after closing: %d captures, %v", len(list), err)
		}
	})
}

// A request stands after its response or revisit, and each of the two names the other. The index has the responses only, also one
// that is made from the records after a kill.
func TestRequests(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		dir := t.TempDir()
		w := open(t, dir, warc.Options{Coding: coding})
		of := func(i int) *warc.Capture {
			c := capture(i)
			c.Request = fmt.Appendf(nil, "GET /dir/page-%d.html?b=2&a=1 HTTP/1.1\r\nHost: www.example.org\r\n\r\n", i)
			return c
		}
		place := write(t, w, of(0))
		write(t, w, capture(1)) // without a request of its own
		sync(t, w)
		again := of(2)
		again.URL, again.Of = of(0).URL, &warc.Original{URL: of(0).URL, Date: of(0).Date, Digest: of(0).Digest, Place: place}
		must.Get(w.Revisit(again))
		write(t, w, of(3))
		mark := w.Mark()
		sync(t, w)
		name := filepath.Join(dir, mark.File)
		if err := os.Truncate(name+".cdxj.log", 0); err != nil { // killed
			t.Fatal(err)
		}
		w = open(t, dir, warc.Options{Coding: coding, Mark: &mark})
		if got := w.Mark(); got != mark {
			t.Errorf("the writer is at %v, want %v", got, mark)
		}
		write(t, w, of(4))
		must.OK(t, w.Close())
		if _, types := valid(t, dir); types[warc.Response] != 4 || types[warc.Revisit] != 1 || types[warc.Request] != 4 {
			t.Errorf("%v", types)
		}
		pairs := 0
		err := warc.Each(dir, warc.Place{}, func(_ string, r *warc.Reader) error {
			var last, request warc.Fields
			for {
				rec, err := r.Next()
				if err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if rec.Type() != warc.Request {
					last = rec.Fields
					continue
				}
				block, err := io.ReadAll(rec.Body)
				if request = rec.Fields; err != nil || !strings.Contains(string(block), "Host: www.example.org\r\n\r\n") || request.Get("Content-Type") != "application/http;msgtype=request" {
					t.Errorf("request %q of %v: %v", block, request, err)
				}
				if pairs++; last.Get("WARC-Concurrent-To") != request.Get("WARC-Record-ID") || request.Get("WARC-Concurrent-To") != last.Get("WARC-Record-ID") ||
					request.Get("WARC-Target-URI") != last.Get("WARC-Target-URI") || request.Get("WARC-Date") != last.Get("WARC-Date") {
					t.Errorf("a pair of %v and %v", last, request)
				}
			}
		})
		if err != nil || pairs != 4 {
			t.Errorf("%d pairs: %v", pairs, err)
		}
		for i, want := range []int{2, 1, 0, 1, 1} {
			if list, err := (warc.Index{Dir: dir}).Lookup(of(i).URL); err != nil || len(list) != want {
				t.Errorf("page %d: %d captures, want %d: %v", i, len(list), want, err)
			}
		}
	})
}

// Bodies larger than what is gathered stand between the small ones, whole, and are taken back like them.
func TestLargeBodies(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		dir := t.TempDir()
		w := open(t, dir, warc.Options{Coding: coding})
		of := func(i int) *warc.Capture {
			c := capture(i)
			if i%3 == 1 {
				c.Body = bytes.Repeat(c.Body, 1<<20/len(c.Body))
				c.Digest = sha256.Sum256(c.Body)
			}
			return c
		}
		var places []warc.Place
		for i := range 6 {
			places = append(places, write(t, w, of(i)))
		}
		sync(t, w)
		mark := w.Mark()
		for _, n := range []int{4, 5, 7} { // large, small, large
			write(t, w, of(n))
		}
		must.OK(t, w.Rewind(mark))
		places = append(places, write(t, w, of(6)), write(t, w, of(7)))
		sync(t, w)
		for i, p := range places {
			if _, b := body(t, dir, p); b != string(of(i).Body) {
				t.Errorf("body %d has %d bytes, want %d", i, len(b), len(of(i).Body))
			}
		}
		if urls, types := valid(t, dir); len(urls) != len(places) || types[warc.Response] != len(places) {
			t.Errorf("%d urls, %v", len(urls), types)
		}
	})
}

// A file is continued by the next Writer; another coding begins another file.
func TestWriterContinuesLastFile(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 {
		coding := []string{"", "gzip"}[i/3]
		w := open(t, dir, warc.Options{Coding: coding})
		write(t, w, capture(i))
		must.OK(t, w.Close())
		if _, err := w.Response(capture(9)); err == nil {
			t.Error("written after Close")
		}
	}
	if urls, types := valid(t, dir); len(urls) != 6 || types[warc.Warcinfo] != 2 {
		t.Errorf("%d urls in %d files", len(urls), types[warc.Warcinfo])
	}
	if n := len(files(t, dir, ".cdxj")); n != 2 { // also of the file that would be continued
		t.Errorf("%d sorted indexes, want 2", n)
	}
}

// While no Writer is open, every file has a sorted index of all its records. One that is opened again, and killed, leaves no index
// without its newest records.
func TestIndexIsSortedOnClose(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		dir := t.TempDir()
		n := 0
		for round := range 3 {
			w := open(t, dir, warc.Options{Coding: coding})
			for range 5 {
				write(t, w, capture(100-n))
				n++
			}
			if round == 1 {
				sync(t, w)
				if left := files(t, dir, ".cdxj"); len(left) != 0 {
					t.Errorf("an index without the newest records: %v", left)
				}
				left := filepath.Join(dir, "."+filepath.Base(files(t, dir, ".log")[0])+".cdxj.123.tmp")
				must.Write(t, left, "half of an ind")
				continue // killed
			}
			must.OK(t, w.Close())
			if left := files(t, dir, ".tmp"); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			list := files(t, dir, ".cdxj")
			if len(list) != 1 {
				t.Fatalf("sorted indexes: %v", list)
			}
			text := must.Get(os.ReadFile(list[0]))
			if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != n || !slices.IsSorted(lines) {
				t.Errorf("%d sorted lines of %d records: %v", len(lines), n, slices.IsSorted(lines))
			}
		}
		for i := range n {
			if list, err := (warc.Index{Dir: dir}).Lookup(capture(100 - i).URL); err != nil || len(list) != 1 {
				t.Errorf("page %d: %v, %v", 100-i, list, err)
			}
		}
	})
}

// Wherever the last write is cut, synced records stay, incomplete ones
// are removed, and the rest is valid and indexed.
func TestTruncatedTailIsRemoved(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		origin := t.TempDir()
		w := open(t, origin, warc.Options{Coding: coding})
		for i := range 3 {
			write(t, w, capture(i))
		}
		sync(t, w)
		kept := w.Mark()
		var ends []int64
		log, _ := os.ReadFile(files(t, origin, ".log")[0])
		for i := range 2 {
			p := write(t, w, capture(10+i))
			ends = append(ends, p.Offset+p.Length)
		}
		w.Close()
		data, _ := os.ReadFile(filepath.Join(origin, kept.File))
		junk := [][]byte{nil, bytes.Repeat([]byte{0}, 700), []byte("WARC/1.1\r\nContent-Length: 99999999\r\n\r\n"), {0x1f, 0x8b, 8, 0}}
		for cut := kept.Offset; cut <= int64(len(data)); cut++ {
			if near := cut-kept.Offset < 4 || slices.ContainsFunc(ends, func(end int64) bool { return cut > end-10 && cut < end+2 }); !near && cut%61 != 0 {
				continue
			}
			dir := t.TempDir()
			tail := junk[cut%int64(len(junk))]
			os.WriteFile(filepath.Join(dir, kept.File), append(bytes.Clone(data[:cut]), tail...), 0o644)
			os.WriteFile(filepath.Join(dir, kept.File+".cdxj.log"), log[:len(log)-int(cut%3)], 0o644)
			w := open(t, dir, warc.Options{Coding: coding})
			want := 3
			for _, end := range ends {
				if cut >= end || bytes.HasPrefix(append(bytes.Clone(data[:cut]), tail...), data[:end]) {
					want++ // the last bytes of a piece may well be zeros
				}
			}
			write(t, w, capture(20))
			must.OK(t, w.Close())
			if urls, _ := valid(t, dir); len(urls) != want+1 {
				t.Fatalf("cut at %d with %d bytes of junk: %d captures, want %d", cut, len(tail), len(urls), want+1)
			}
			for _, i := range []int{0, 1, 2, 20} {
				if list, err := (warc.Index{Dir: dir}).Lookup(capture(i).URL); err != nil || len(list) != 1 || list[0].Digest != capture(i).Digest {
					t.Fatalf("cut at %d: page %d: %v, %v", cut, i, list, err)
				}
			}
			if t.Failed() {
				t.Fatalf("cut at %d of %d, followed by %q", cut, len(data), tail)
			}
		}
	})
}

// Everything behind the mark is removed, even whole files.
func TestRecordsAfterMarkAreRemoved(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		for n := range 8 {
			dir := t.TempDir()
			w := open(t, dir, warc.Options{Coding: coding, MaxRecords: 3})
			for i := range n {
				write(t, w, capture(i))
			}
			sync(t, w)
			mark := w.Mark()
			for i := range 7 {
				write(t, w, capture(100+i))
			}
			w.Close()
			w = open(t, dir, warc.Options{Coding: coding, MaxRecords: 3, Mark: &mark})
			if got := w.Mark(); got != mark {
				t.Errorf("%d: the writer is at %v, want %v", n, got, mark)
			}
			write(t, w, capture(50))
			w.Close()
			if urls, _ := valid(t, dir); len(urls) != n+1 {
				t.Errorf("%d captures, want %d: %v", len(urls), n+1, urls)
			}
			for i := range n {
				if list, err := (warc.Index{Dir: dir}).Lookup(capture(i).URL); err != nil || len(list) != 1 {
					t.Errorf("page %d: %v, %v", i, list, err)
				}
			}
			if list, _ := (warc.Index{Dir: dir}).Lookup(capture(101).URL); len(list) != 0 {
				t.Errorf("a removed record is found: %v", list)
			}
		}
	})
}

// A lost log, and a mark after damage, lose no complete record.
func TestDamageBeforeTheMark(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, warc.Options{})
	var places []warc.Place
	for i := range 5 {
		places = append(places, write(t, w, capture(i)))
	}
	sync(t, w)
	mark := w.Mark()
	w.Close()
	name := filepath.Join(dir, mark.File)
	data, _ := os.ReadFile(name)
	copy(data[places[2].Offset:], "junk")
	os.WriteFile(name, data, 0o644)
	os.WriteFile(name+".cdxj.log", nil, 0o644)
	w = open(t, dir, warc.Options{Mark: &mark})
	if p := write(t, w, capture(9)); p.File == mark.File {
		t.Error("the writer appends to a damaged file")
	}
	if now, _ := os.ReadFile(name); !bytes.Equal(now, data) {
		t.Error("a damaged file was changed")
	}
	if _, b := body(t, dir, places[4]); b != string(capture(4).Body) {
		t.Error("records after the damage are lost")
	}
}

// The undamaged rest of a damaged file is read.
func TestReaderContinuesAfterDamage(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		dir := t.TempDir()
		w := open(t, dir, warc.Options{Coding: coding})
		var places []warc.Place
		for i := range 9 {
			c := capture(i)
			c.Body = []byte(strings.ReplaceAll(string(c.Body), "WARC/1.1", ""))
			places = append(places, write(t, w, c))
		}
		w.Close()
		data, _ := os.ReadFile(filepath.Join(dir, places[0].File))
		for _, at := range []int64{places[2].Offset, places[2].Offset + 3, places[5].Offset + places[5].Length/2, places[8].Offset} {
			data[at] ^= 0x55
			data[at+1] ^= 0x55
		}
		r := warc.NewReader(bytes.NewReader(data))
		defer r.Close()
		var got []string
		damages := 0
		for {
			rec, err := r.Next()
			var d *warc.Damage
			if err == io.EOF {
				break
			} else if errors.As(err, &d) {
				damages++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if rec.URL() != "" {
				got = append(got, rec.URL())
			}
		}
		for _, i := range []int{0, 1, 3, 4, 6, 7} {
			if !slices.Contains(got, capture(i).URL) {
				t.Errorf("page %d is lost: %d damages", i, damages)
			}
		}
		if damages < 2 || len(got) > 8 {
			t.Errorf("%d damages, %d pages", damages, len(got))
		}
	})
}

// A file without a whole record, left by a writer that was killed when it had begun the file, does not hide the files
// before it from the mark.
func TestMarkAfterAnEmptyFile(t *testing.T) {
	each(t, func(t *testing.T, coding string) {
		dir := t.TempDir()
		w := open(t, dir, warc.Options{Coding: coding, MaxRecords: 3})
		for i := range 3 {
			write(t, w, capture(i))
		}
		sync(t, w)
		must.OK(t, w.Rotate())
		end := w.Mark()
		write(t, w, capture(3))
		w.Close()
		newest := files(t, dir, ".log")[0]
		for _, name := range []string{newest, strings.TrimSuffix(newest, ".cdxj.log")} {
			must.OK(t, os.Truncate(name, 0))
		}
		w = open(t, dir, warc.Options{Coding: coding})
		mark := w.Mark()
		if mark != end {
			t.Errorf("the mark is %+v, want %+v", mark, end)
		}
		w.Close()
		open(t, dir, warc.Options{Coding: coding, Mark: &mark}).Close()
		if urls, _ := valid(t, dir); len(urls) != 3 {
			t.Errorf("%d captures are left of 3", len(urls))
		}
	})
}
