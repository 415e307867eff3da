package archive_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/content"
)

// When a page is no longer public, archives with it are withdrawn at once.
func TestArchiveWithForbiddenPageIsWithdrawn(t *testing.T) {
	d := newDepot(t)
	stop := d.run()
	a := d.next(content.Archived{})
	at := "parley/site.wacz?at=" + url.QueryEscape(a.Cursor.String())
	stop()
	d.Write("robots.txt", "User-agent: *\nDisallow: /d1/\n")
	d.Publish()
	d.pass(time.Minute)
	for _, ref := range []string{at, "parley/site.wacz"} {
		if resp, b := d.get(ref); resp.StatusCode < 400 || bytes.Contains(b, []byte("/d1/")) {
			t.Errorf("%s: %s", ref, resp.Status)
		}
	}
	if _, ok := d.maker.Latest(); ok {
		t.Error("the archive is still served")
	}
	if list, _ := filepath.Glob(filepath.Join(d.Dir, "archive", "*.wacz")); len(list) != 0 {
		t.Errorf("files on disk: %v", list)
	}
	d.run()
	d.pass(time.Hour)
	b := d.next(content.Archived{})
	_, content := d.get("parley/site.wacz")
	if pages, _ := d.unpack(b, content); len(pages) != 15 || bytes.Contains(content, []byte("/d1/")) {
		t.Errorf("%d pages", len(pages))
	}
}

// A removed page is in no archive for longer than it takes to make another, and an archive that nobody asked
// for since is not served to a late request.
func TestDeletedPageLeavesArchives(t *testing.T) {
	d := newDepot(t)
	d.Write("secret.html", "<p>the password is 12345")
	d.Publish()
	stop := d.run()
	a := d.next(content.Archived{})
	holds := func() bool {
		t.Helper()
		resp, b := d.get("parley/site.wacz")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %.200s", resp.Status, b)
		}
		pages, _ := d.unpack(content.Archived{Cursor: a.Cursor, Items: a.Items, Length: int64(len(b)), Digest: protocol.Sum(b)}, b)
		return pages[d.Base+"secret.html"] != ""
	}
	if !holds() {
		t.Fatal("the page is not in the archive")
	}
	d.Must(os.Remove(filepath.Join(d.Root, "secret.html")))
	d.Publish()
	d.pass(9 * time.Minute)
	if now, ok := d.maker.Latest(); !ok || now != a || d.maker.IsDueSoon() {
		t.Errorf("the next archive was made too early: %+v", now)
	}
	d.pass(2 * time.Minute)
	a = d.next(a)
	if holds() {
		t.Error("the page is in the next archive too")
	}
	// Without requests, no archive is made to replace one with a deleted page.
	stop()
	d.Must(os.Remove(filepath.Join(d.Root, "d0/p0.html")))
	d.Publish()
	d.pass(time.Hour)
	if now, ok := d.maker.Latest(); !ok || now != a {
		t.Errorf("an hour later: %+v", now)
	}
	d.pass(24 * time.Hour)
	if now, ok := d.maker.Latest(); ok {
		t.Errorf("a day later: %+v", now)
	}
	if resp, b := d.get("parley/site.wacz?at=" + url.QueryEscape(a.Cursor.String())); resp.StatusCode != 410 {
		t.Errorf("%s: %.200s", resp.Status, b)
	}
	// A new process that finds the old archive does not serve it either.
	d.run()
	b := d.next(content.Archived{})
	d.Write("d1/p1.html", "<p>gone with the next look")
	d.Must(os.Remove(filepath.Join(d.Root, "d1/p1.html")))
	d.Publish()
	d.pass(25 * time.Hour)
	again := &archive.Maker{Dir: d.maker.Dir, Base: d.Base, Journal: d.Journal, Pages: d.maker.Pages, Public: d.Site.Public, Now: d.clock}
	if st := again.Stats(); st.Cursor != b.Cursor || st.Items != b.Items || st.Bytes != b.Length {
		t.Errorf("Stats: %+v", st)
	}
	if now, ok := again.Latest(); ok {
		t.Errorf("after a restart: %+v", now)
	}
}

// Text that was edited out of a page is in no archive for longer than an hour, not even on disk; another
// archive is made at the next request.
func TestRemovedTextLeavesArchives(t *testing.T) {
	d := newDepot(t)
	d.Write("d0/p0.html", "<p>the password is 12345")
	d.Publish()
	d.run()
	a := d.next(content.Archived{})
	at := "parley/site.wacz?at=" + url.QueryEscape(a.Cursor.String())
	d.Write("d0/p0.html", "<p>there is no password")
	d.Publish()
	d.pass(59 * time.Minute)
	if now, ok := d.maker.Latest(); !ok || now != a {
		t.Errorf("before an hour is over: %+v", now)
	}
	d.pass(2 * time.Minute)
	if resp, _ := d.get(at); resp.StatusCode != 410 && resp.StatusCode != 503 {
		t.Errorf("after an hour: %s", resp.Status)
	}
	b := d.next(content.Archived{})
	_, content := d.get("parley/site.wacz")
	pages, _ := d.unpack(b, content)
	if text := pages[d.Base+"d0/p0.html"]; text != "<p>there is no password" {
		t.Errorf("the next archive contains %q", text)
	}
	if list, _ := filepath.Glob(filepath.Join(d.Dir, "archive", "*.wacz")); len(list) != 1 {
		t.Errorf("files on disk: %v", list)
	}
}

// A page with noarchive is named in an archive, without its bytes.
func TestNoarchivePageIsNamedWithoutBytes(t *testing.T) {
	d := newDepot(t)
	d.Write("d0/p0.html", "<meta name=robots content=noarchive><p>not to be kept")
	d.Publish()
	d.maker.NoArchive = func(item *protocol.Item, page []byte) bool { return bytes.Contains(page, []byte("noarchive")) }
	d.run()
	a := d.next(content.Archived{})
	_, content := d.get("parley/site.wacz")
	pages, _ := d.unpack(a, content)
	if text := pages[d.Base+"d0/p0.html"]; text != "" {
		t.Errorf("the archive contains %q", text)
	}
	if len(pages) != a.Items-1 || pages[d.Base+"d1/p1.html"] == "" || !bytes.Contains(content, []byte(d.Base+"d0/p0.html")) {
		t.Errorf("%d pages of %d", len(pages), a.Items)
	}
}

// An archive with bytes that may no longer be given out is not served, and none is made before it is known
// which may be. One that was made with few bytes is made again.
func TestArchiveWaitsForEvidence(t *testing.T) {
	known, givable := make(chan struct{}), atomic.Int64{}
	var shut atomic.Bool
	d := newDepot(t, func(m *archive.Maker) {
		m.Given = func(string) (until time.Time) {
			if !shut.Load() {
				until = time.Now().Add(time.Hour)
			}
			return until
		}
		m.Givable = func() int { return int(givable.Load()) }
		m.Settle = func(ctx context.Context) error {
			select {
			case <-known:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	d.run()
	if _, ok := d.maker.Latest(); ok {
		t.Fatal("there is an archive already")
	}
	close(known)
	a := d.next(content.Archived{})
	d.pass(time.Hour)
	if now, ok := d.maker.Latest(); !ok || now != a || d.maker.IsDueSoon() {
		t.Errorf("an hour later: %+v", now)
	}
	givable.Store(int64(2 * a.Items))
	d.maker.Latest()
	for d.maker.Stats().Made < 2 {
		time.Sleep(time.Millisecond)
	}
	givable.Store(0)
	shut.Store(true)
	d.pass(time.Minute)
	if now, ok := d.maker.Latest(); ok {
		t.Errorf("the archive is still there: %+v", now)
	}
	if resp, _ := d.get("parley/site.wacz"); resp.StatusCode != 503 {
		t.Errorf("%s", resp.Status)
	}
}

// A purge removes a page from archives at once, even from the one being made.
func TestPurgeRemovesPageFromArchives(t *testing.T) {
	d := newDepot(t)
	d.Write("d0/p0.html", "<p>the password is 12345")
	d.Publish()
	d.run()
	a := d.next(content.Archived{})
	if n := d.maker.Purge(d.Base + "none.html"); n != 0 {
		t.Errorf("%d archives were purged of a page that none contains", n)
	}
	if now, ok := d.maker.Latest(); !ok || now != a {
		t.Errorf("%+v", now)
	}
	d.Write("d0/p0.html", "<p>there is no password")
	d.Publish()
	if n := d.maker.Purge(d.Base + "d0/p0.html"); n != 1 {
		t.Errorf("%d archives were purged, want 1", n)
	}
	if list, _ := filepath.Glob(filepath.Join(d.Dir, "archive", "*.wacz")); len(list) != 0 {
		t.Errorf("files on disk: %v", list)
	}
	b := d.next(content.Archived{}) // the test does not wait ten minutes
	_, content := d.get("parley/site.wacz")
	if pages, _ := d.unpack(b, content); pages[d.Base+"d0/p0.html"] != "<p>there is no password" {
		t.Errorf("the next archive contains %q", pages[d.Base+"d0/p0.html"])
	}
}

// A caller with its own rules in robots.txt gets no archive that contains pages they forbid.
func TestCallerRulesWithholdArchive(t *testing.T) {
	d := newDepot(t)
	d.run()
	d.next(content.Archived{})
	for name, status := range map[string]int{"": 200, "friend": 200, "shutout": 403} {
		if resp, b := d.get("parley/site.wacz", "X-Name", name); resp.StatusCode != status {
			t.Errorf("%q: %s: %.100s", name, resp.Status, b)
		}
	}
	if resp, b := d.get("parley/changes?as=site&after=0:0", "X-Name", "shutout"); resp.StatusCode != 403 {
		t.Errorf("%s: %s", resp.Status, b)
	}
}

// A caller's rules are evaluated once for all its parallel requests, and delay no other caller.
func TestCallerRulesAreEvaluatedOnce(t *testing.T) {
	d := newDepot(t)
	d.run()
	a := d.next(content.Archived{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	var judged atomic.Int64
	d.judges = func(name string) {
		if name == "slow" && judged.Add(1) == 1 {
			close(begun)
			<-goOn
		}
	}
	var wait sync.WaitGroup
	answers := make(chan int, 3)
	ask := func() {
		wait.Go(func() {
			req, err := http.NewRequest("HEAD", d.Base+"parley/site.wacz", nil)
			if err == nil {
				req.Header.Set("X-Name", "slow")
				var resp *http.Response
				if resp, err = http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
					answers <- resp.StatusCode
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	ask()
	<-begun
	for range 2 {
		ask()
	}
	if resp, b := d.get("parley/site.wacz", "X-Name", "friend"); resp.StatusCode != 200 {
		t.Errorf("while another caller's rules are evaluated: %s: %.100s", resp.Status, b)
	}
	close(goOn)
	wait.Wait()
	close(answers)
	n := 0
	for status := range answers {
		if n++; status != 200 {
			t.Errorf("%d", status)
		}
	}
	if n != 3 || judged.Load() > int64(a.Items) {
		t.Errorf("%d answers, for which %d URLs of %d were evaluated", n, judged.Load(), a.Items)
	}
}
