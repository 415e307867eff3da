package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// The archive contains the pages that the manifest lists, to the byte (C11).
func TestArchiveMatchesManifest(t *testing.T) {
	d := newDepot(t)
	d.Write("private/p.html", "<p>secret")
	d.Write("robots.txt", "User-agent: *\nDisallow: /private/\n")
	d.Publish()
	if resp, b := d.get("parley/site.wacz"); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("before the first archive: %s: %s", resp.Status, b)
	}
	d.run()
	a := d.next(content.Archived{})
	resp, b := d.get("parley/site.wacz")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/wacz" || resp.Header.Get("Parley-Cursor") != a.Cursor.String() || resp.Header.Get("Repr-Digest") != a.Digest.String() {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	pages, without := d.unpack(a, b)
	want := d.Pages()
	delete(want, d.Base+"private/p.html")
	if !maps.Equal(pages, want) || len(without) > 0 || a.Cursor != d.Journal.Head() {
		t.Errorf("%d pages at %v, without %v", len(pages), a.Cursor, without)
	}
	if bytes.Contains(b, []byte("private")) {
		t.Error("a forbidden page is in the archive")
	}
	tool, err := exec.LookPath("unzip")
	if err != nil {
		t.Skip("no unzip on this machine")
	}
	name := filepath.Join(t.TempDir(), "site.wacz")
	d.Must(os.WriteFile(name, b, 0o644))
	if out, err := exec.Command(tool, "-tq", name).CombinedOutput(); err != nil {
		t.Errorf("unzip: %v: %s", err, out)
	}
}

// An interrupted download can be resumed even if a newer archive exists by then; and each archive can be
// fetched by its cursor as long as it is stored.
func TestResumeDownloadOfOlderArchive(t *testing.T) {
	d := newDepot(t)
	d.run()
	first := d.next(content.Archived{})
	resp, whole := d.get("parley/site.wacz")
	etag := resp.Header.Get("Etag")
	if resp, b := d.get("parley/site.wacz", "If-None-Match", etag); resp.StatusCode != 304 || len(b) > 0 {
		t.Errorf("If-None-Match of the newest: %s", resp.Status)
	}
	renew := func(than content.Archived) content.Archived {
		for i := range 20 {
			d.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprint("<p>after ", than.Cursor, i))
		}
		d.Publish()
		d.pass(time.Hour)
		return d.next(than)
	}
	second := renew(first)
	at := "parley/site.wacz?at=" + url.QueryEscape(first.Cursor.String())
	for _, ref := range []string{"parley/site.wacz", at} {
		resp, rest := d.get(ref, "Range", "bytes=1000-", "If-Range", etag)
		if resp.StatusCode != 206 || !bytes.Equal(rest, whole[1000:]) || resp.Header.Get("Etag") != etag {
			t.Errorf("%s: %s: %d bytes of %s", ref, resp.Status, len(rest), resp.Header.Get("Etag"))
		}
	}
	resp, b := d.get("parley/site.wacz")
	if pages, _ := d.unpack(second, b); !maps.Equal(pages, d.Pages()) || resp.Header.Get("Etag") == etag {
		t.Errorf("%d pages of %s", len(pages), resp.Header.Get("Etag"))
	}
	third := renew(second)
	if resp, b := d.get(at); resp.StatusCode != http.StatusGone || !strings.Contains(string(b), "newest") {
		t.Errorf("an archive that is no longer stored: %s: %s", resp.Status, b)
	}
	if resp, b := d.get("parley/site.wacz", "Range", "bytes=1000-", "If-Range", etag); resp.StatusCode != 200 || protocol.Sum(b) != third.Digest {
		t.Errorf("a range of an archive that is no longer stored: %s", resp.Status)
	}
	if list, _ := filepath.Glob(filepath.Join(d.Dir, "archive", "*")); len(list) != 2 {
		t.Errorf("files on disk: %v", list)
	}
}

// A page that changes while the site is packed is left out, and follows as a change.
func TestPageChangedDuringBuildIsLeftOut(t *testing.T) {
	d := newDepot(t)
	changed := d.Base + "d1/p4.html"
	d.mu.Lock()
	d.before = func(url string) {
		if url == changed {
			d.Write("d1/p4.html", "<p>other bytes")
		}
	}
	d.mu.Unlock()
	d.run()
	a := d.next(content.Archived{})
	_, b := d.get("parley/site.wacz")
	pages, without := d.unpack(a, b)
	if !slices.Equal(without, []string{changed}) || len(pages) != len(d.Pages())-1 {
		t.Errorf("%d pages, without %v", len(pages), without)
	}
	d.Publish()
	changes, err := d.Journal.Read(t.Context(), a.Cursor, 0)
	if err != nil || len(changes) != 1 || changes[0].Item.URL != changed {
		t.Errorf("changes after the archive: %+v, %v", changes, err)
	}
}

// A request for thousands of ranges is rejected.
func TestManyRangesAreRejected(t *testing.T) {
	d := newDepot(t)
	d.run()
	d.next(content.Archived{})
	many := "bytes=0-0" + strings.Repeat(",5-6", 1000)
	if resp, b := d.get("parley/site.wacz", "Range", many); resp.StatusCode != 416 || !strings.Contains(string(b), "ranges") {
		t.Errorf("%s: %s", resp.Status, b)
	}
	if resp, b := d.get("parley/site.wacz", "Range", "bytes=0-3,8-9"); resp.StatusCode != 206 || !strings.Contains(string(b), "PK") {
		t.Errorf("two ranges: %s", resp.Status)
	}
	if resp, b := d.get("parley/site.wacz?at=x"); resp.StatusCode != 400 || !strings.Contains(string(b), "cursor") {
		t.Errorf("invalid cursor: %s: %s", resp.Status, b)
	}
}

// A new client is pointed to the archive, and so is one that has missed most of the site; with it each gets
// everything in one transfer (C12).
func TestClientsAreReferredToArchive(t *testing.T) {
	d := newDepot(t)
	const door = "parley/changes?as=site&after="
	if resp, b := d.get(door + "0:0"); resp.StatusCode != 503 {
		t.Errorf("before the first archive: %s: %s", resp.Status, b)
	}
	d.run()
	a := d.next(content.Archived{})
	message := func(ref string) protocol.Message {
		t.Helper()
		resp, b := d.get(ref)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s: %s", ref, resp.Status, b)
		}
		return must.Get(protocol.ParseMessage(bytes.TrimSpace(b)))
	}
	m := message(door + "0:0")
	if m.Kind != protocol.Archive || m.To != a.Cursor || m.N != a.Items || m.Body.Digest != a.Digest || m.Body.Length != a.Length {
		t.Fatalf("%+v", m)
	}
	_, b := d.get(strings.TrimPrefix(m.Body.Href, d.Base))
	if pages, _ := d.unpack(a, b); !maps.Equal(pages, d.Pages()) {
		t.Error("the archive alone does not make a complete mirror")
	}
	d.Write("d0/p0.html", "<p>one change")
	d.Publish()
	if m := message(door + a.Cursor.String()); m.Kind != protocol.Batch || len(m.Changes) != 1 {
		t.Errorf("one change is delivered as %s", m.Kind)
	}
	for i := range 20 {
		d.Write("d0/p0.html", fmt.Sprint("<p>the same page again ", i))
		d.Publish()
	}
	if m := message(door + a.Cursor.String()); m.Kind != protocol.Batch || len(m.Changes) != 21 {
		t.Errorf("many changes of one page are delivered as %s", m.Kind)
	}
	for i := range 20 {
		d.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), "<p>a new design")
	}
	d.Publish()
	if m := message(door + a.Cursor.String() + "&wait=20"); m.Kind != protocol.Archive || m.To != d.Journal.Head() {
		t.Errorf("a new design is delivered as %s to %v", m.Kind, m.To)
	}
	if m := message(door + "otherepoch:7"); m.Kind != protocol.Archive {
		t.Errorf("a lost cursor is answered by %s", m.Kind)
	}
}

// A subscriber that listens while most of the site changes is pointed to the new archive, once, although each
// change was small and the previous archive is young; after that it gets changes.
func TestSubscribersAreReferredToArchiveOnce(t *testing.T) {
	d := newDepot(t)
	d.Notifier.Now = d.clock
	d.run()
	a := d.next(content.Archived{})
	c := must.Get(wsconn.Dial(t.Context(), d.Base+"parley/stream?as=site&after="+a.Cursor.String(), nil, nil,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage}))
	defer c.Close(1000, "")
	at := a.Cursor
	told := func() protocol.Message {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for {
			b := must.Get(c.Read(ctx))
			m := must.Get(protocol.ParseMessage(b))
			if m.Kind == protocol.Hello || m.Kind == protocol.Mark && m.To == at {
				continue
			}
			if m.From != at {
				t.Errorf("%s from %v to a reader at cursor %v", m.Kind, m.From, at)
			}
			at = m.To
			return m
		}
	}
	edit := func(from, to int) {
		for i := from; i < to; i++ {
			d.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprint("<p>a new design, after ", at))
		}
		d.Publish()
	}
	for i := 0; i < 10; i += 5 {
		edit(i, i+5)
		if m := told(); m.Kind != protocol.Batch || len(m.Changes) != 5 {
			t.Fatalf("a quarter of the site is delivered as %s of %d", m.Kind, len(m.Changes))
		}
	}
	edit(10, 15)
	m := told()
	if m.Kind != protocol.Archive || m.To != d.Journal.Head() {
		t.Fatalf("most of the site is delivered as %s to %v", m.Kind, m.To)
	}
	_, b := d.get(strings.TrimPrefix(m.Body.Href, d.Base))
	latest, _ := d.maker.Latest()
	if pages, _ := d.unpack(latest, b); !maps.Equal(pages, d.Pages()) {
		t.Error("the archive differs from the site")
	}
	edit(0, 1)
	if m := told(); m.Kind != protocol.Ev {
		t.Errorf("one change after the archive is delivered as %s", m.Kind)
	}
	if n := d.maker.Stats().Made; n != 2 {
		t.Errorf("%d archives were made", n)
	}

	// Gradual changes are delivered as they happen, whatever their sum.
	d.pass(time.Hour)
	edit(0, 1)
	told() // perhaps in an hour that is not over for the notifier
	d.pass(time.Hour)
	for i := range 16 {
		edit(i, i+1)
		if m := told(); m.Kind != protocol.Ev {
			t.Fatalf("edit %d is delivered as %s", i, m.Kind)
		}
		d.pass(5 * time.Minute)
	}
}
