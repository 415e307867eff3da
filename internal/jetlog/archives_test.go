package jetlog_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/jetlog"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/content"
)

// An archiving has the archives of a site where it is written, and those of a door.
type archiving struct {
	*contentsSite
	sharer     *jetlog.Sharer
	made, copy *archive.Maker
	dir        string // of the door
	end        func() // of the writer
}

func newArchiving(t testing.TB, servers int) *archiving {
	a := &archiving{contentsSite: newContentsSite(t, servers), dir: t.TempDir()}
	for i := range 30 {
		a.write(fmt.Sprintf("%d.html", i), fmt.Sprintf("<title>Page %d</title>", i))
	}
	a.deliver()
	a.begin(t.TempDir())
	a.copy = &archive.Maker{Dir: a.dir, Base: urlOf(""), Journal: a.door.Journal, Named: a.contents.Named, Logger: a.logger}
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
	a.made = &archive.Maker{Dir: dir, Base: urlOf(""), Journal: a.journal, Pages: a.sharer.Pages, Logger: a.logger, MaxAge: 24 * time.Hour,
		Given: func(url string) time.Time { until, _ := a.sharer.Until(url, protocol.Digest{}); return until },
		Told:  func(ctx context.Context, at protocol.Cursor) error { return a.door.Told(ctx, at) }}
	a.sharer.Archives = a.made
	made := a.own(a.made.Run)
	shares := a.share(a.sharer)
	a.end = func() { shares.stop(); made() }
}

// get returns the answer of a maker to a request for its archive.
func get(m http.Handler) (status int, body []byte) {
	w := httptest.NewRecorder()
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
	a := newArchiving(t, servers)
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
