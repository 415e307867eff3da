package archive_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/content"
)

// Reading the statistics does not cause an archive to be made.
func TestStatsRequestNoArchive(t *testing.T) {
	d := newDepot(t)
	d.run()
	for range 10 {
		if st := d.maker.Stats(); st != (archive.Stats{}) {
			t.Fatalf("%+v", st)
		}
	}
	for !d.maker.IsDueSoon() { // until Run is ready to make one
		runtime.Gosched()
	}
	d.maker.Stats()
	d.Write("later.html", "<title>Later</title>")
	d.Publish()
	a := d.next(content.Archived{})
	if a.Cursor != d.Journal.Head() {
		t.Errorf("an archive that nobody had requested: %+v", a)
	}
	if st := d.maker.Stats(); st.Made != 1 || st.Cursor != a.Cursor || st.Items != a.Items || st.Bytes != a.Length {
		t.Errorf("%+v", st)
	}
}

// An archive is made again when most of the site has changed, not for less, and so rarely that making
// archives takes a twentieth of the time.
func TestWhenNewArchiveIsDue(t *testing.T) {
	d := newDepot(t)
	d.mu.Lock()
	d.before = func(string) { d.pass(time.Second) } // an archive takes 21 s: 21 pages have bytes
	d.mu.Unlock()
	d.run()
	a := d.next(content.Archived{})
	edit := func(n, text int) {
		for i := range n {
			d.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprint("<p>", text))
		}
		d.Publish()
	}
	edit(10, 1) // of 22
	d.pass(30 * time.Minute)
	if now, ok := d.maker.Latest(); !ok || now != a || d.maker.IsDueSoon() {
		t.Errorf("ten changes caused another archive: %+v", now)
	}
	edit(3, 2)
	b := d.next(a)
	if b.Cursor != d.Journal.Head() {
		t.Errorf("%+v", b)
	}
	edit(13, 3)
	d.pass(6 * time.Minute)
	if now, ok := d.maker.Latest(); !ok || now != b || d.maker.Stats().Made != 2 {
		t.Error("the next archive was made too early")
	}
	if !d.maker.IsDueSoon() {
		t.Error("Coming does not report the next archive")
	}
	d.pass(2 * time.Minute)
	if c := d.next(b); c.Cursor != d.Journal.Head() || d.maker.Stats().Made != 3 {
		t.Errorf("%+v", c)
	}
}

// For any number of simultaneous requests, an archive is made once per cursor.
func TestArchiveIsMadeOncePerCursor(t *testing.T) {
	for range 5 {
		d := newDepot(t)
		stop := d.run()
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for {
					resp, _ := d.get("parley/site.wacz")
					if resp.StatusCode == 200 {
						return
					}
				}
			})
		}
		wait.Wait()
		for d.maker.IsDueSoon() {
			time.Sleep(time.Millisecond)
		}
		if n := d.maker.Stats().Made; n != 1 {
			t.Errorf("made %d times", n)
		}
		stop()
	}
}

// A request that comes while an archive is being made waits for it and is not rejected.
func TestRequestDuringBuildWaits(t *testing.T) {
	d := newDepot(t)
	hold := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(hold) })
	d.before = func(string) { <-hold }
	d.run()
	defer goOn()
	for !d.maker.IsDueSoon() {
		d.maker.Latest() // causes one to be made
		time.Sleep(time.Millisecond)
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { goOn() }})
	req := must.Get(http.NewRequestWithContext(ctx, "GET", d.Base+"parley/site.wacz", nil))
	resp := must.Get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	if a, _ := d.maker.Latest(); resp.StatusCode != 200 || resp.Header.Get("Parley-Cursor") != a.Cursor.String() {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

// A caller that waits for an archive gets it as soon as one may be made again, without further requests.
func TestWaitingCallerGetsNextArchive(t *testing.T) {
	d := newDepot(t, func(m *archive.Maker) { m.MaxAge, m.Now = time.Nanosecond, time.Now })
	d.run()
	d.next(content.Archived{})
	d.Write("d0/p0.html", "<p>other text")
	at := d.Publish()
	if a := d.next(content.Archived{}); a.Cursor != at {
		t.Errorf("%+v", a)
	}
}

// A restart takes over the existing archive; the temporary file of a killed process is removed, and so is an
// archive of another epoch.
func TestArchiveSurvivesRestart(t *testing.T) {
	d := newDepot(t)
	stop := d.run()
	a := d.next(content.Archived{})
	stop()
	dir := d.maker.Dir
	d.Must(os.WriteFile(filepath.Join(dir, ".site-123.tmp"), []byte("half"), 0o600))
	d.Must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("site.otherepoch.7.3.%x.wacz", a.Digest[:])), []byte("PK"), 0o600))
	d.Must(os.WriteFile(filepath.Join(dir, "note.txt"), []byte("of a person"), 0o600))
	again := &archive.Maker{Dir: dir, Base: d.Base, Journal: d.Journal, Pages: d.maker.Pages, Public: d.Site.Public}
	if b, ok := again.Latest(); ok {
		t.Errorf("served before it was verified: %+v", b)
	}
	d.maker = again
	d.run()
	if b := d.next(content.Archived{}); b != a || again.Stats().Made != 0 {
		t.Errorf("%+v, %+v", b, again.Stats())
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// A corrupted archive is not served, and another is made.
func TestCorruptArchiveIsReplaced(t *testing.T) {
	d := newDepot(t)
	stop := d.run()
	a := d.next(content.Archived{})
	stop()
	names, err := filepath.Glob(filepath.Join(d.maker.Dir, "site.*.wacz"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	b := must.Get(os.ReadFile(names[0]))
	at := bytes.Index(b, []byte("archive/data.warc.gz")) + 200 // within the data: the directory and pages.jsonl stay intact
	whole := bytes.Clone(b)
	for i := range 100 {
		b[at+i] ^= 0x55
	}
	d.Must(os.WriteFile(names[0], b, 0o600))
	d.maker = &archive.Maker{Dir: d.maker.Dir, Base: d.Base, Journal: d.Journal, Pages: d.maker.Pages, Public: d.Site.Public}
	d.Notifier.Content.Archive = d.maker
	if resp, _ := d.get("parley/site.wacz"); resp.StatusCode != 503 {
		t.Errorf("before it was verified: %s", resp.Status)
	}
	if resp, _ := d.get("parley/site.wacz?at=" + a.Cursor.String()); resp.StatusCode != 410 {
		t.Errorf("by its cursor: %s", resp.Status)
	}
	if resp, _ := d.get("parley/site.wacz", "If-Range", fmt.Sprintf(`"%x"`, a.Digest[:16]), "Range", "bytes=100-"); resp.StatusCode != 503 {
		t.Errorf("resuming it: %s", resp.Status)
	}
	d.run()
	if n := d.next(content.Archived{}); n != a || d.maker.Stats().Made != 1 {
		t.Errorf("%+v instead of %+v, %+v", n, a, d.maker.Stats())
	}
	resp, got := d.get("parley/site.wacz")
	if resp.StatusCode != 200 || protocol.Sum(got) != a.Digest || !bytes.Equal(got, whole) {
		t.Errorf("%s: %d bytes", resp.Status, len(got))
	}
}

// On a nearly full disk no archive is made; this is logged once, and no file is left behind.
func TestNoArchiveOnNearlyFullDisk(t *testing.T) {
	var said bytes.Buffer
	d := newDepot(t, func(m *archive.Maker) {
		m.Reserve, m.Logger = math.MaxInt64, slog.New(slog.NewTextHandler(&said, nil))
	})
	stop := d.run()
	for tried := 1; tried <= 3; tried++ {
		if a, ok := d.maker.Latest(); ok {
			t.Fatalf("%+v", a)
		}
		for end := time.Now().Add(20 * time.Second); d.maker.Stats().Failed < tried || d.maker.IsDueSoon(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%+v", d.maker.Stats())
			}
		}
		d.pass(time.Hour)
	}
	stop()
	list, err := os.ReadDir(d.maker.Dir)
	if err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "nearly full") {
		t.Errorf("log: %s", &said)
	}
}

// If the archive directory cannot be used, the error comes at once.
func TestUnusableArchiveDirectory(t *testing.T) {
	d := newDepot(t, func(m *archive.Maker) {
		must.Write(t, m.Dir, "x")
	})
	if err := d.maker.Open(); err == nil {
		t.Error("Open did not fail")
	}
	if a, ok := d.maker.Latest(); ok {
		t.Errorf("%+v", a)
	}
	if err := d.maker.Run(t.Context()); err == nil || t.Context().Err() != nil {
		t.Errorf("Run did not fail: %v", err)
	}
}
