package jetlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/content"
)

// An archiving has the archives of a site where it is written, and those of a door.
type archiving struct {
	*contentsSite
	sharer     *jetlog.Sharer
	made, copy *archive.Maker
	dir        string      // of the door
	end        func()      // of the writer
	last       atomic.Bool // no further archive is made: reading the pages blocks
}

// archivedPages are the pages for archives.
type archivedPages struct {
	content.Pages
	of *archiving
}

func (p archivedPages) Page(ctx context.Context, item *protocol.Item, most int64) ([]byte, error) {
	if p.of.last.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return p.Pages.Page(ctx, item, most)
}

func newArchiving(t testing.TB, servers int, page func(i int) string) *archiving {
	a := &archiving{contentsSite: newContentsSite(t, servers), dir: t.TempDir()}
	for i := range 30 {
		a.write(fmt.Sprintf("%d.html", i), page(i))
	}
	a.deliver()
	a.begin(t.TempDir())
	a.copy = &archive.Maker{Dir: a.dir, Base: urlOf(""), Journal: a.door.Journal, Log: a.door, Named: a.contents.Named, Logger: a.logger}
	a.own(a.copy.Run)
	a.own(func(ctx context.Context) error { return a.contents.FollowArchives(ctx, a.copy.Add) })
	return a
}

// own runs something until the test ends, or until what it returns is called.
func (a *archiving) own(run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(a.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	end = func() { cancel(); <-ended }
	a.Cleanup(end)
	return end
}

// begin starts a writer whose archives are in a directory.
func (a *archiving) begin(dir string) {
	a.sharer = a.contentsSite.sharer()
	a.made = &archive.Maker{Dir: dir, Base: urlOf(""), Journal: a.journal, Pages: archivedPages{a.sharer.Pages, a}, Logger: a.logger, MaxAge: 24 * time.Hour,
		Given: func(url string) time.Time { until, _ := a.sharer.Until(url, protocol.Digest{}); return until },
		Told:  func(ctx context.Context, at protocol.Cursor) error { return a.door.Told(ctx, at) }}
	a.sharer.Archives = a.made
	made := a.own(a.made.Run)
	shares := a.share(a.sharer)
	a.end = func() { shares.stop(); made() }
}

// get returns the answer of a maker to a request for its archive. The status is 0 if the maker aborts the answer, since
// the archive must not be served any more.
func get(m http.Handler) (status int, body []byte) {
	w := httptest.NewRecorder()
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			status, body = 0, nil
		} else if p != nil {
			panic(p)
		}
	}()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/parley/site.wacz", nil))
	return w.Code, w.Body.Bytes()
}

// same waits until the door has the newest archive of the writer, and returns it.
func (a *archiving) same() (is content.Archived) {
	a.Helper()
	a.eventually("the door has the archive of the writer", func() bool {
		made, ok := a.made.Latest()
		is, _ = a.copy.Latest()
		return ok && is == made
	})
	return is
}

// objects returns the messages in NATS that archives are: each is short enough for one.
func (a *archiving) objects() []uint64 {
	a.Helper()
	return a.stored("OBJ_site-archives", "PK\x03\x04")
}

// A door delivers the archive of the notifier that writes, with the same bytes; not for a moment longer than it may, and without being
// sent it anew when NATS or the writer is back.
func TestArchivesAtDoors(t *testing.T) {
	servers := 3
	if testing.Short() {
		servers = 1
	}
	a := newArchiving(t, servers, func(i int) string { return fmt.Sprintf("<title>Page %d</title>", i) })
	first := a.same()
	_, want := get(a.made)
	if status, got := get(a.copy); status != http.StatusOK || !bytes.Equal(got, want) || len(want) == 0 {
		t.Fatalf("status %d, %d bytes, want the %d of the writer", status, len(got), len(want))
	}

	// Another run of the writer finds its archive in NATS, and the door keeps it.
	at := a.objects()
	dir := a.made.Dir
	a.end()
	must.OK(t, a.conn.Publish("$O.site-archives.C.torn", []byte("what a killed writer left")))
	a.begin(dir)
	a.eventually("the writer has its archive again", func() bool {
		if is, ok := a.copy.Latest(); !ok || is != first {
			t.Fatalf("while the writer starts: %+v, %v", is, ok)
		}
		made, ok := a.made.Latest()
		return ok && made == first
	})
	if a.same() != first || fmt.Sprint(at) != fmt.Sprint(a.objects()) {
		t.Error("the archive was stored again")
	}
	a.eventually("NATS has nothing of archives that were not stored whole", func() bool { return len(a.stored("OBJ_site-archives", "killed")) == 0 })

	// Withdrawn is withdrawn: once that is acknowledged.
	withdrawn := urlOf("7.html")
	text := a.files[withdrawn]
	a.set(func() { a.until[withdrawn], a.files[withdrawn] = time.Time{}, "" })
	must.OK(t, a.sharer.Purge(t.Context(), withdrawn))
	if is, ok := a.copy.Latest(); ok && is == first {
		t.Error("the door still delivers an archive with a withdrawn page")
	}
	if status, _ := get(a.copy); status == http.StatusOK {
		if is := a.same(); is == first {
			t.Error("the door still answers with an archive with a withdrawn page")
		}
	}
	if list := must.Get(os.ReadDir(a.dir)); len(list) > 1 {
		t.Errorf("the door has %v", list)
	}
	a.eventually("NATS has no archive with the withdrawn page", func() bool { return len(a.objects()) <= 1 })
	second := a.same()
	if second == first {
		t.Error("no other archive was made")
	}

	if _, got := get(a.copy); bytes.Contains(got, []byte(text)) {
		t.Error("the next archive has the withdrawn page")
	}

	// A door that begins later than the archive was made delivers it, too: the stream has what came since.
	a.write("0.html", "of later")
	late := a.follow(a.cluster.stream(), func() *journal.Journal { return a.journal })
	a.reaches(late, a.journal.Head())
	if floor := late.Journal.Floor(); floor.Seq <= second.Cursor.Seq {
		t.Fatalf("the copy begins at %v, the archive is at %v", floor, second.Cursor)
	}
	contents := jetlog.NewContents(late.Log, a.logger)
	begun := &archive.Maker{Dir: t.TempDir(), Base: urlOf(""), Journal: late.Journal, Log: late, Named: contents.Named, Logger: a.logger}
	a.own(contents.Follow)
	a.own(begun.Run)
	a.own(func(ctx context.Context) error { return contents.FollowArchives(ctx, begun.Add) })
	a.eventually("the later door delivers the archive", func() bool { is, ok := begun.Latest(); return ok && is == second })

	// Of a door that is cut off nobody gets an archive; it has it again afterwards.
	for _, s := range a.servers {
		s.Stop()
	}
	a.eventually("the door is cut off", func() bool { status, _ := get(a.copy); return status == http.StatusServiceUnavailable })
	for _, s := range a.servers {
		must.OK(t, s.Start())
	}
	a.eventually("the door delivers again", func() bool { is, ok := a.copy.Latest(); return ok && is == second })

	// Without a writer, until its evidence ends.
	a.set(func() {
		for i := range 30 {
			a.until[urlOf(fmt.Sprintf("%d.html", i))] = time.Now().Add(4 * time.Second)
		}
	})
	must.OK(t, a.sharer.Purge(t.Context(), "")) // the archives are checked
	a.end()
	if is, ok := a.copy.Latest(); !ok || is != second {
		t.Errorf("%+v, %v", is, ok)
	}
	a.eventually("the time is over", func() bool { _, ok := a.copy.Latest(); return !ok })
	if list := must.Get(os.ReadDir(a.dir)); len(list) > 0 {
		t.Errorf("the door has %v", list)
	}
}

// A withdrawal that comes while an archive with the page is being stored leaves nothing of it in NATS.
func TestWithdrawnWhileArchiveIsStored(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	a := newArchiving(t, 1, func(i int) string { return "<p>" + text(rnd, 1<<20) })
	parts := func() int {
		js := must.Get(jetstream.New(a.conn))
		stream, err := js.Stream(t.Context(), "OBJ_site-archives")
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return 0
		}
		must.OK(t, err)
		return len(must.Get(stream.Info(t.Context(), jetstream.WithSubjectFilter("$O.site-archives.C.>"))).State.Subjects)
	}
	a.eventually("an archive is being stored", func() bool { return parts() > 0 })
	a.last.Store(true)
	withdrawn := urlOf("3.html")
	a.set(func() { a.until[withdrawn] = time.Time{} })
	must.OK(t, a.sharer.Purge(t.Context(), withdrawn))
	if n := parts(); n > 0 {
		t.Errorf("NATS has %d archives", n)
	}
	if is, ok := a.copy.Latest(); ok {
		t.Errorf("the door has %+v", is)
	}
}

// text returns random words of so many bytes.
func text(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz012345"[rnd.IntN(32)]
	}
	return string(b)
}

// What no writer says of archives is an error, and never more than two archives.
func FuzzNamedArchives(f *testing.F) {
	one := `{"cursor":"epoch:7","items":3,"length":100,"digest":"sha-256=:ofzkNjhU/4iM/0uOeHXWAMJoI5BBKoz3mzfQsRFIsPo=:","until":"2026-11-21T12:00:00Z"}`
	good := map[string]int{"": 0, "null": 0, "[]": 0, "[" + one + "]": 1, "[" + one + "," + one + "]": 2}
	for text, n := range good {
		if list, err := jetlog.NamedArchives([]byte(text)); err != nil || len(list) != n {
			f.Errorf("%s: %v, %v", text, list, err)
		}
		f.Add([]byte(text))
	}
	for _, text := range []string{"[" + one + "," + one + "," + one + "]", "[{}]", strings.Replace("["+one+"]", "100", "0", 1), strings.Replace("["+one+"]", ":3,", ":-3,", 1), "[" + one} {
		if list, err := jetlog.NamedArchives([]byte(text)); err == nil {
			f.Errorf("%s: %v", text, list)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := jetlog.NamedArchives(data)
		if err != nil {
			return
		}
		for _, a := range list {
			if len(list) > 2 || a.Length <= 0 || a.Items < 0 || a.Cursor.IsZero() || a.Digest.IsZero() {
				t.Fatalf("%d archives, one is %+v", len(list), a)
			}
		}
	})
}
