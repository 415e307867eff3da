package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
)

// running runs a story beside a running Publisher, in fake time. The site has a.html and b.html, and its
// first scan is done.
func running(t *testing.T, story func(w *world), change ...func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, time.Time{})
		w.pub.Log = testLog(t)
		w.write("a.html", "a")
		w.write("b.html", "b")
		for _, f := range change {
			f(w)
		}
		ctx, stop := context.WithCancel(t.Context())
		var pub sync.WaitGroup
		pub.Go(func() {
			if err := w.pub.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		synctest.Wait()
		w.told()
		if w.alone {
			stop()
			pub.Wait()
		}
		story(w)
		stop()
		pub.Wait()
		if w.atEnd != nil {
			w.atEnd()
		}
	})
}

func TestRunReportsChangesAtOnce(t *testing.T) {
	running(t, func(w *world) {
		begin := time.Now()
		w.write("a.html", "2")
		synctest.Wait()
		w.wantTold("update a.html")
		w.rename("b.html", "d/c.html")
		synctest.Wait()
		w.wantTold("move b.html->d/c.html")
		if d := time.Since(begin); d != 0 {
			t.Errorf("reported after %v", d)
		}
		if s := w.pub.Status(); s.Head != w.journal.Head() || !s.Whole || s.Items != 2 || s.Changes != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunAnnouncesAfterGrace(t *testing.T) {
	running(t, func(w *world) {
		w.write("c.html", "c")
		synctest.Wait()
		w.told()
		w.remove("a.html")
		time.Sleep(30 * time.Second)
		w.remove("b.html")
		time.Sleep(29 * time.Second)
		synctest.Wait()
		w.wantTold("")
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantTold("delete a.html")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		w.wantTold("delete b.html")
	})
}

// A page whose grace period ends after a scan of another page was asked for, and before that scan begins, is not
// forgotten until the next full scan.
func TestRunAnnouncesWhatBecomesDueBetween(t *testing.T) {
	var slow atomic.Bool
	running(t, func(w *world) {
		w.write("d/c.html", "c")
		synctest.Wait()
		w.remove("d/c.html")
		synctest.Wait()
		time.Sleep(59 * time.Second)
		w.told()
		slow.Store(true)
		var other sync.WaitGroup
		other.Go(func() { // lasts beyond the grace period
			if _, err := w.pub.Scan(w.Context(), []inventory.Scope{{Page: base + "a.html"}}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		w.write("a.html", "edited")
		other.Wait()
		synctest.Wait()
		w.wantTold("update a.html, delete d/c.html")
	}, func(w *world) {
		w.pub.Progress = func(inventory.Report) {
			if slow.Swap(false) {
				time.Sleep(2 * time.Second)
			}
		}
	})
}

// A running publisher reports changes of known pages at once although there are too many pages, and new ones once there
// are few enough. Its status does not forget what a scan elsewhere could not see.
func TestTooManyPagesWhileRunning(t *testing.T) {
	running(t, func(w *world) {
		w.write("new/c.html", "c")
		synctest.Wait()
		w.wantTold("")
		w.write("a.html", "edited")
		synctest.Wait()
		w.wantTold("update a.html")
		if s := w.pub.Status(); !strings.Contains(s.Error, "max-pages 2") || s.Failed > 0 {
			t.Errorf("%+v", s)
		}
		w.remove("b.html")
		time.Sleep(3 * time.Minute)
		w.wantTold("create new/c.html, delete b.html")
		if s := w.pub.Status(); s.Error != "" {
			t.Errorf("%+v", s)
		}
	}, func(w *world) { w.pub.Pages.Max = 2 })
}

// If the clock is set back, a deletion does not wait until the old time is reached again.
func TestRunWithClockSetBack(t *testing.T) {
	var step atomic.Int64
	running(t, func(w *world) {
		w.write("c.html", "c")
		synctest.Wait()
		w.told()
		w.remove("a.html")
		time.Sleep(30 * time.Second)
		step.Store(-int64(24 * time.Hour))
		time.Sleep(29 * time.Second)
		synctest.Wait()
		w.wantTold("")
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		w.wantTold("delete a.html")
	}, func(w *world) {
		w.pub.Now = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
	})
}

// A mass disappearance is held; when it ends, the remaining deletions are published.
func TestRunHoldsMassDisappearance(t *testing.T) {
	running(t, func(w *world) {
		w.remove("a.html")
		w.remove("b.html")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		w.wantTold("")
		if s := w.pub.Status(); !s.MassHeld || s.Held != 2 {
			t.Errorf("%+v", s)
		}
		w.write("a.html", "a")
		synctest.Wait()
		w.wantTold("delete b.html")
		if s := w.pub.Status(); s.MassHeld || s.Held != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunScansWithoutEvents(t *testing.T) {
	running(t, func(w *world) {
		w.mu.Lock()
		w.pages["a.html"] = page{"2", time.Now(), 99} // without an event
		w.mu.Unlock()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		w.wantTold("")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.wantTold("update a.html")
		if s := w.pub.Status(); s.Missed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunRetriesFailedScan(t *testing.T) {
	running(t, func(w *world) {
		w.mu.Lock()
		w.fail = errors.New("root is missing")
		w.mu.Unlock()
		w.write("a.html", "2")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantTold("")
		if s := w.pub.Status(); s.Error == "" || s.Failed < 2 || s.Failed > 7 || s.Held != 0 {
			t.Errorf("%+v", s)
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantTold("update a.html")
		if s := w.pub.Status(); s.Error != "" {
			t.Errorf("%+v", s)
		}
	})
}

// A repeated scan failure is logged once, again when the reason changes and every hour; so is a recovery.
func TestRunLogsRepeatedFailureOnce(t *testing.T) {
	var said bytes.Buffer // read when nobody writes
	running(t, func(w *world) {
		errorsSaid := func(reason string, d time.Duration) int {
			w.mu.Lock()
			w.fail = errors.New(reason)
			w.mu.Unlock()
			before := strings.Count(said.String(), "level=ERROR")
			w.write("a.html", reason)
			time.Sleep(d)
			synctest.Wait()
			return strings.Count(said.String(), "level=ERROR") - before
		}
		if n := errorsSaid("root is missing", 30*time.Minute); n != 1 {
			t.Errorf("logged %d times in half an hour", n)
		}
		if n := errorsSaid("root cannot be read", 150*time.Minute); n != 3 {
			t.Errorf("another reason was logged %d times in two and a half hours", n)
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !strings.Contains(said.String(), "scans succeed again") {
			t.Error("the log does not say that scans succeed again")
		}
	}, func(w *world) { w.pub.Log = slog.New(slog.NewTextHandler(&said, nil)) })
}

// A logbook is a log that is read while it is written.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns what was written since its last call.
func (l *logbook) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// What cannot be read is logged once, again when the cause changes, and when it can be read again, however often it is scanned.
func TestRunLogsUnreadableOnce(t *testing.T) {
	var said logbook
	running(t, func(w *world) {
		closed := func(page error, dirs ...string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			clear(w.unread)
			if w.unseen = dirs; page != nil {
				w.unread["a.html"] = page
			}
		}
		logs := func(edit string, want ...string) {
			t.Helper()
			said.take()
			if edit != "" {
				w.write(edit, rand.Text())
			}
			time.Sleep(time.Hour) // of regular scans
			synctest.Wait()
			var got []string
			text := said.take()
			for line := range strings.Lines(text) {
				level, rest, _ := strings.Cut(line[strings.Index(line, "level=")+6:], " msg=")
				if strings.Contains(rest, "cannot be read: ") || strings.Contains(rest, "readable again") {
					_, about, _ := strings.Cut(strings.TrimSpace(rest), "\" ")
					got = append(got, level+" "+about)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("logged %q, want %q in\n%s", got, want, text)
			}
		}
		logs("")
		closed(fmt.Errorf("open a.html: %w", fs.ErrPermission))
		logs("a.html", `WARN count=1 first="a.html: permission denied"`)
		logs("b.html") // a scan of its directory
		closed(fs.ErrPermission, "d/")
		logs("", `WARN count=1 first="`+base+`d/: permission denied"`)
		logs("c/x.html") // a scan of another directory
		closed(errors.New("input/output error"), "d/")
		logs("", `WARN count=1 first="a.html: input/output error"`)
		closed(nil, "d/")
		logs("", "INFO count=1 first=a.html")
		closed(nil)
		logs("", "INFO count=1 first="+base+"d/")
		logs("a.html")
	}, func(w *world) { w.pub.Log = slog.New(slog.NewTextHandler(&said, nil)) })
}

// However many edits there are, a minute of them is one line of the log, and a minute without any is none. Each edit is
// logged for debugging; vanished pages are logged at once.
func TestRunLogsChangesOnceAMinute(t *testing.T) {
	var said logbook
	running(t, func(w *world) {
		logs := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var got []string
			text := said.take()
			for line := range strings.Lines(text) {
				if strings.Contains(line, "level=INFO") {
					_, rest, _ := strings.Cut(strings.TrimSpace(line), "msg=")
					got = append(got, regexp.MustCompile(` (head|took)=\S+`).ReplaceAllString(rest, ""))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("logged\n%q, want\n%q", got, want)
			}
		}
		logs(0, `"scanned: new 2 changed 0 moved 0 gone 0 touched only 0"`)
		for i := range 300 {
			w.write(fmt.Sprintf("%d.html", i%5), rand.Text())
			synctest.Wait()
		}
		if text := said.take(); strings.Count(text, "level=DEBUG") != 300 || strings.Contains(text, "level=INFO") {
			t.Errorf("logged at once: %s", text)
		}
		logs(time.Minute, `"scanned: new 5 changed 295 moved 0 gone 0 touched only 0" scans=300 first="`+base+"0.html, "+base+"1.html, "+base+`2.html"`)
		logs(9 * time.Minute)
		w.remove("a.html")
		logs(time.Second, `"scanned: new 0 changed 0 moved 0 gone 0 held 1 touched only 0"`)
		logs(2*time.Minute, `"scanned: new 0 changed 0 moved 0 gone 1 touched only 0" scans=1 first=`+base+"a.html")
		w.write("b.html", "last")
		synctest.Wait()
	}, func(w *world) {
		w.pub.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.atEnd = func() {
			if text := said.take(); strings.Count(text, "changed 1 ") != 2 {
				t.Errorf("at the end not both lines of the last change are logged: %s", text)
			}
		}
	})
}

// When a docroot is back, its watcher requests a complete scan, so that changes need not wait for the retry.
// If scans keep failing, they are no more frequent than at first.
func TestRunRetriesAtOnceWhenRootReturns(t *testing.T) {
	running(t, func(w *world) {
		fail := func(err error) {
			w.mu.Lock()
			w.fail = err
			w.mu.Unlock()
		}
		w.mu.Lock()
		dirty := w.dirty
		w.mu.Unlock()
		call := func() { dirty(nil) }
		fail(errors.New("root is missing"))
		w.write("a.html", "2")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		failed := w.pub.Status().Failed
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			call()
		}
		synctest.Wait()
		if n := w.pub.Status().Failed - failed; n < 20 || n > 31 {
			t.Errorf("%d scans in a minute", n)
		}
		time.Sleep(10 * time.Minute)
		fail(nil)
		w.write("b.html", "2")
		synctest.Wait()
		w.wantTold("") // an event that says nothing of the root
		call()
		synctest.Wait()
		w.wantTold("update a.html, update b.html")
	})
}

// Until a site's first scan its rules are unknown: the published files stay as they are, and no door filters
// by missing rules.
func TestRunWithoutRules(t *testing.T) {
	running(t, func(w *world) {
		w.must(w.journal.Close())
		w.open()
		w.pub.Log = testLog(w.T)
		w.mu.Lock()
		w.fail = errors.New("robots.txt cannot be read")
		w.mu.Unlock()
		w.forbid("a.html", "b.html") // as if no rules were known
		ctx, stop := context.WithTimeout(w.Context(), time.Minute)
		defer stop()
		was := w.journal.Head()
		s := &doors.Notifier{Log: w.journal, Snapshot: w.pub.Snapshot, Base: base, Public: w.Public, Ready: w.pub.Ready}
		get := func(path string) int {
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			return rec.Code
		}
		w.must(w.pub.Run(ctx))
		if m, items, _ := w.manifest(); len(items) != 2 || m.Cursor != was {
			t.Errorf("%+v %v", m, items)
		}
		if a, b := get("/robots.rdf"), get("/parley/changes?after="+was.String()); a != 200 || b != 503 {
			t.Errorf("manifest %d, changes %d", a, b)
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		w.forbid()
		w.turn()
		if b := get("/parley/changes?after=" + was.String()); b != 200 {
			t.Errorf("changes %d", b)
		}
	}, func(w *world) { w.alone = true })
}

func TestRunRescansFilesBeingWritten(t *testing.T) {
	running(t, func(w *world) {
		w.mu.Lock()
		w.busy["a.html"] = true
		w.mu.Unlock()
		w.write("a.html", "2")
		synctest.Wait()
		w.wantTold("")
		w.mu.Lock()
		w.busy["a.html"] = false
		w.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		w.wantTold("update a.html")
	})
}

func TestRunLimitsRateOfWrites(t *testing.T) {
	running(t, func(w *world) {
		stands := func() bool { return w.pub.Status().Manifest == w.journal.Head() }
		if !stands() || w.pub.Status().Writes != 1 {
			t.Errorf("%+v", w.pub.Status())
		}
		time.Sleep(time.Minute)
		w.write("a.html", "2")
		synctest.Wait()
		if !stands() { // at once after a quiet time
			t.Errorf("%+v", w.pub.Status())
		}
		for i := range 100 {
			time.Sleep(time.Second)
			w.write("a.html", fmt.Sprint(i))
		}
		synctest.Wait()
		if n := w.pub.Status().Writes; n < 10 || n > 13 {
			t.Errorf("%d writes in 100 s", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !stands() {
			t.Errorf("%+v", w.pub.Status())
		}
	})
}

func TestRunWritesAtShutdown(t *testing.T) {
	running(t, func(w *world) {
		w.write("a.html", "2")
		synctest.Wait()
		w.write("a.html", "3")
		synctest.Wait()
		if w.pub.Status().Manifest == w.journal.Head() {
			t.Error("written before shutdown")
		}
		w.atEnd = func() {
			if m, _, _ := w.manifest(); m.Cursor.Seq != 2 {
				t.Errorf("the last manifest is at %v", m.Cursor)
			}
		}
	})
}

// Others may request a scan while Run is scanning.
func TestScanRequestedWhileRunScans(t *testing.T) {
	running(t, func(w *world) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				w.write(fmt.Sprintf("p/%d.html", i), "x")
				if _, err := w.pub.Turn(w.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		w.wantPresent()
		if s := w.pub.Status(); s.Manifest != w.journal.Head() || s.Changes != 8 {
			t.Errorf("%+v", s)
		}
	})
}
