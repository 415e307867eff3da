package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/versions"
)

// newArchivist returns a depot that stores old versions.
func newArchivist(t *testing.T, change ...func(*doors.Notifier)) *depot {
	t.Helper()
	var store *versions.Store
	d := newDepot(t, append([]func(*doors.Notifier){func(n *doors.Notifier) {
		store = n.Content.Pages.(*versions.Store)
		store.Dir = t.TempDir()
	}}, change...)...)
	d.Publisher.Inventory = store.Keeping(d.Publisher.Inventory.(*server.Site))
	d.Must(store.Fill(t.Context()))
	return d
}

// told fetches the changes door and parses the answer.
func (d *depot) told(ref string) protocol.Message {
	d.Helper()
	resp, b := d.ask("GET", "parley/changes?"+ref, "", "")
	if resp.StatusCode != 200 {
		d.Fatalf("%s: status %d: %s", ref, resp.StatusCode, b)
	}
	return must.Get(protocol.ParseMessage(b))
}

// toldAll asks until one message leads to the head: on a busy machine a message may end early.
func (d *depot) toldAll(ref string) protocol.Message {
	d.Helper()
	for {
		if m := d.told(ref); m.To == d.Journal.Head() {
			return m
		}
	}
}

// A teller is an open stream of a depot.
type teller struct {
	*depot
	read func(context.Context) ([]byte, error)
	at   protocol.Cursor
}

func (d *depot) dial(ref string, o wsconn.Options, header ...string) (*wsconn.Conn, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	if o.Subprotocols == nil {
		o.Subprotocols = []string{protocol.Subprotocol}
	}
	o.MaxMessage = protocol.MaxMessage
	return wsconn.Dial(d.Context(), d.Base+"parley/stream?"+ref, h, nil, o)
}

func (d *depot) listen(after protocol.Cursor, more string, header ...string) *teller {
	d.Helper()
	c := must.Get(d.dial("after="+after.String()+more, wsconn.Options{}, header...))
	d.Cleanup(func() { c.Close(1000, "") })
	l := &teller{d, read(d.Context(), c), after}
	if m := l.next(); m.Kind != protocol.Hello || m.From != after {
		d.Fatalf("%+v", m)
	}
	return l
}

// next reads a message, which must continue from the reader's cursor.
func (l *teller) next() protocol.Message {
	l.Helper()
	ctx, stop := context.WithTimeout(l.Context(), 15*time.Second)
	defer stop()
	b := must.Get(l.read(ctx))
	m := must.Get(protocol.ParseMessage(b))
	switch m.Kind {
	case protocol.Batch, protocol.Bundle, protocol.Archive:
		if m.From != l.at {
			l.Errorf("%s from %v, the reader is at %v", m.Kind, m.From, l.at)
		}
	}
	if m.Kind != protocol.Hello && m.Kind != protocol.Bye {
		l.at = m.To
	}
	return m
}

// A page that is now forbidden is delivered in no form, and neither are its old versions.
func TestForbiddenPagesAreDeliveredInNoForm(t *testing.T) {
	d := newArchivist(t)
	begin := d.Journal.Head()
	for i := range 3 {
		d.Write("secret.html", fmt.Sprint("secret ", i))
		d.Write("was.html", fmt.Sprint("secret too ", i))
		d.Publish()
	}
	d.Must(os.Rename(filepath.Join(d.Root, "was.html"), filepath.Join(d.Root, "open.html")))
	d.Publish()
	d.Write("robots.txt", "User-agent: *\nDisallow: /secret\nDisallow: /was\n")
	d.Publish()
	for _, as := range []string{"meta", "delta", "page", "batch"} {
		resp, b := d.ask("GET", "parley/changes?as="+as+"&after="+begin.String(), "", "")
		if as == "batch" {
			m := must.Get(protocol.ParseMessage(b))
			_, list := d.unpack(m.Body.Bytes)
			b = must.Get(json.Marshal(list))
		}
		if resp.StatusCode != 200 || bytes.Contains(b, []byte("secret 0")) || bytes.Contains(b, []byte("secret 2")) || bytes.Contains(b, []byte("secret too 0")) {
			t.Errorf("as=%s: status %d: %s", as, resp.StatusCode, b)
		}
		if as == "page" && !bytes.Contains(b, []byte("secret too 2")) {
			t.Errorf("public pages are missing: %s", b)
		}
	}
}

// edit writes twenty pages again and again, and publishes each round.
func (d *depot) edit(from, to int) {
	d.Helper()
	for i := from; i < to; i++ {
		d.Write(fmt.Sprintf("p%d.html", i%20), fmt.Sprint("edit ", i))
		if i%20 == 19 {
			d.Publish()
		}
	}
}

// A thousand edits within the interval of a bundle are one bundle, with each page once (C10). The clock is
// the notifier's own, so that it does not matter how long they take.
func TestBundlesOnSchedule(t *testing.T) {
	var ahead atomic.Int64
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Limits.Heartbeat = 2 * time.Second // it checks its clock as often
		began := time.Now()
		n.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	})
	begin := d.Journal.Head()
	d.edit(0, 980)
	timed := d.listen(begin, "&as=batch&every=3600")
	d.edit(980, 1000)
	head := d.Journal.Head()
	if head.Seq-begin.Seq != 1000 {
		t.Fatalf("%d changes", head.Seq-begin.Seq)
	}
	if m := timed.next(); m.Kind != protocol.Mark || m.To != begin {
		t.Fatalf("a bundle came early: %+v", m)
	}
	ahead.Store(int64(2 * time.Hour))
	m := timed.next()
	for m.Kind == protocol.Mark && m.To == begin {
		m = timed.next()
	}
	if m.Kind != protocol.Bundle || m.N != 20 || m.To != head {
		t.Fatalf("%+v", m)
	}
	pages := map[string]string{}
	_, list := timed.unpack(m.Body.Bytes)
	for _, p := range list {
		pages[p.Change.Item.URL] = string(p.Body)
	}
	for i := 980; i < 1000; i++ {
		if got := pages[fmt.Sprintf("%sp%d.html", d.Base, i%20)]; got != fmt.Sprint("edit ", i) {
			t.Errorf("%q", got)
		}
	}
	if len(list) != 20 || len(pages) != 20 {
		t.Errorf("%d pages of %d URLs", len(list), len(pages))
	}
}

// Neither changes dated by a clock that was ahead nor a clock that is set back meanwhile delay a bundle.
func TestBundlesDespiteWrongClock(t *testing.T) {
	var ahead atomic.Int64
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Limits.Heartbeat = 500 * time.Millisecond
		n.Now = func() time.Time { return time.Now().Add(-time.Duration(ahead.Load())) }
	})
	ahead.Store(int64(365 * 24 * time.Hour)) // the journal's clock is the real time
	l := d.listen(d.Journal.Head(), "&as=batch&every=1")
	for i := range 2 {
		d.edit(20*i, 20*i+20)
		m := l.next()
		for m.Kind == protocol.Mark {
			m = l.next()
		}
		if m.Kind != protocol.Bundle || m.To != d.Journal.Head() {
			t.Errorf("%+v", m)
		}
		ahead.Add(int64(time.Hour))
	}
}

// A subscriber with a longer interval than others at the same cursor is not served together with them.
func TestBundlesWithDifferentIntervals(t *testing.T) {
	var ahead atomic.Int64
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Limits.Heartbeat = 500 * time.Millisecond // it checks its clock as often
		began := time.Now()
		n.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	})
	begin := d.Journal.Head()
	often, seldom := d.listen(begin, "&as=batch&every=600"), d.listen(begin, "&as=batch&every=7200")
	d.edit(0, 20)
	told := func(l *teller) bool {
		t.Helper()
		switch m := l.next(); {
		case m.Kind == protocol.Bundle && m.N == 20 && m.To == d.Journal.Head():
			return true
		case m.Kind != protocol.Mark || m.To != begin:
			t.Fatalf("%+v", m)
		}
		return false
	}
	ahead.Store(int64(time.Hour))
	for !told(often) {
	}
	for range 3 {
		if told(seldom) {
			t.Fatal("the bundle came early")
		}
	}
	ahead.Store(int64(3 * time.Hour))
	for !told(seldom) {
	}
}

// Once the requested number of changes is reached, a bundle does not wait for its interval.
func TestBundlesByCount(t *testing.T) {
	d := newArchivist(t)
	begin := d.Journal.Head()
	d.edit(0, 1000)
	counted := d.listen(begin, "&as=batch&every=3600&count=400")
	for _, n := range []uint64{400, 800} {
		if m := counted.next(); m.Kind != protocol.Bundle || m.To.Seq != begin.Seq+n || m.N != 20 {
			t.Errorf("%+v", m)
		}
	}
	d.edit(1000, 1200)
	if m := counted.next(); m.Kind != protocol.Bundle || m.To.Seq != begin.Seq+1200 {
		t.Errorf("%+v", m)
	}
}

// A client without a cursor, or with an unusable one, is pointed to the archive of the whole site as soon as
// there is one.
func TestReaderWithoutCursorGetsArchive(t *testing.T) {
	var maker *archive.Maker
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Limits.Heartbeat = 500 * time.Millisecond // pings too: a busy reader must have time to answer
		maker = &archive.Maker{Dir: t.TempDir(), Base: n.Base, Journal: n.Log.(*server.Journal), Pages: n.Content.Pages, Public: n.Public, Every: time.Millisecond}
		n.Content.Archive = maker
	})
	for i := range 9 {
		d.Write(fmt.Sprintf("p%d.html", i), "<p>") // one more page is a small part of them
	}
	d.Publish()
	resp, b := d.ask("GET", "parley/changes?as=site", "", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("status %d: %s", resp.StatusCode, b)
	}
	for _, ref := range []string{"", "after=0:0", "after=other:7"} {
		if resp, _ := d.ask("GET", "parley/changes?"+ref, "", ""); resp.StatusCode != 410 && resp.StatusCode != 409 {
			t.Errorf("%q without as: status %d", ref, resp.StatusCode)
		}
	}
	other := protocol.Cursor{Epoch: "other", Seq: 7}
	first := d.listen(protocol.Cursor{}, "&as=site")
	for range 2 {
		if m := first.next(); m.Kind != protocol.Mark || m.Head != d.Journal.Head() {
			t.Fatalf("%+v", m)
		}
	}
	lost := d.listen(other, "&as=site")
	poll := make(chan protocol.Message)
	go func() { poll <- d.told("as=site&wait=30") }()
	ctx, end := context.WithCancel(t.Context())
	making := make(chan error)
	go func() { making <- maker.Run(ctx) }()
	defer func() { end(); <-making }()
	check := func(m protocol.Message) {
		t.Helper()
		if m.Kind != protocol.Archive || m.To != d.Journal.Head() || m.N != 10 || m.Body.Digest.IsZero() {
			t.Fatalf("%+v", m)
		}
		resp, wacz := d.ask("GET", strings.TrimPrefix(m.Body.Href, d.Base), "", "")
		if resp.StatusCode != 200 || int64(len(wacz)) != m.Body.Length || protocol.Sum(wacz) != m.Body.Digest {
			t.Errorf("status %d, %d bytes", resp.StatusCode, len(wacz))
		}
	}
	for _, l := range []*teller{first, lost} {
		m := l.next()
		for m.Kind == protocol.Mark {
			m = l.next()
		}
		check(m)
	}
	check(<-poll)
	check(d.told("as=site&after=other:7"))
	// From there on it gets the changes.
	d.Write("a.html", "<p>a2")
	d.Publish()
	for m := first.next(); ; m = first.next() {
		if m.Kind == protocol.Ev && strings.HasSuffix(m.Changes[0].Item.URL, "a.html") {
			break
		} else if m.Kind != protocol.Mark {
			t.Fatalf("%+v", m)
		}
	}
}

// Hundreds of clients that request the whole site at once are pointed to one archive.
func TestManyReadersGetOneArchive(t *testing.T) {
	var maker *archive.Maker
	d := newDepot(t, func(n *doors.Notifier) {
		n.Limits.MaxSubscribers, n.Limits.PerAddress = 1000, 1000
		maker = &archive.Maker{Dir: t.TempDir(), Base: n.Base, Journal: n.Log.(*server.Journal), Pages: n.Content.Pages, Public: n.Public}
		n.Content.Archive = maker
	})
	for i := range 50 {
		d.Write(fmt.Sprintf("p%d.html", i), strings.Repeat(fmt.Sprint(i), 1000))
	}
	d.Publish()
	var all []*teller
	for range 500 {
		all = append(all, d.listen(protocol.Cursor{}, "&as=site"))
	}
	ctx, end := context.WithCancel(t.Context())
	making := make(chan error)
	go func() { making <- maker.Run(ctx) }()
	defer func() { end(); <-making }()
	var digest protocol.Digest
	for _, l := range all {
		m := l.next()
		if digest.IsZero() {
			digest = m.Body.Digest
		}
		if m.Kind != protocol.Archive || m.Body.Digest != digest || m.N != 51 {
			t.Fatalf("%+v", m)
		}
	}
	made := must.Get(filepath.Glob(filepath.Join(maker.Dir, "*")))
	if len(made) > 2 { // the archive and its description
		t.Errorf("%d archives were made: %v", len(made), made)
	}
}

// If many wait for the archive, the changes after it are read once for all.
func TestChangesAfterArchiveAreReadOnceForAll(t *testing.T) {
	const readers = 40
	var log *countedLog
	d := newDepot(t, func(n *doors.Notifier) {
		log = &countedLog{Log: n.Log}
		now := time.Now()
		n.Log, n.Content.Archive, n.Limits.PerAddress, n.Limits.Heartbeat = log, unfinished{}, readers, time.Second
		n.Now = func() time.Time { return now }
	})
	begin := d.Journal.Head()
	for i := range 10 {
		d.Write(fmt.Sprintf("p%d.html", i), "<p>")
	}
	d.Publish()
	before := log.reads.Load()
	var reading sync.WaitGroup
	for range readers {
		l := d.listen(begin, "&as=site")
		reading.Go(func() { // in parallel: a reader that answers no ping is cut off
			for range 3 {
				if m := l.next(); m.Kind != protocol.Mark || m.To != begin {
					t.Errorf("%+v", m)
				}
			}
		})
	}
	reading.Wait()
	if reads := log.reads.Load() - before - readers; reads != 1 { // each cursor is read once when its reader connects
		t.Errorf("the journal was read %d times", reads)
	}
}

// A countedLog counts its reads.
type countedLog struct {
	protocol.Log
	reads atomic.Int64
}

func (l *countedLog) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	l.reads.Add(1)
	return l.Log.Read(ctx, after, max)
}

// A copy of a log has the changes up to its head, until it is asked for what follows a later one.
type copiedLog struct {
	protocol.Log
	head atomic.Pointer[protocol.Cursor]
}

func (l *copiedLog) Head() protocol.Cursor { return *l.head.Load() }

func (l *copiedLog) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	changes, err := l.Log.Read(ctx, after, max)
	head := l.Head()
	if newest := l.Log.Head(); after.Seq > head.Seq && err == nil {
		l.head.CompareAndSwap(l.head.Load(), &newest)
		head = newest
	}
	return slices.DeleteFunc(changes, func(c protocol.Change) bool { return c.Seq > head.Seq }), err
}

// A reader that has read elsewhere is ahead of a door whose log is a copy. No form refuses its cursor, and none begins the
// whole site anew.
func TestReaderAheadOfTheDoor(t *testing.T) {
	log := &copiedLog{}
	d := newDepot(t, func(n *doors.Notifier) {
		log.Log, n.Log = n.Log, log
		n.Content.Archive, n.Limits.Heartbeat = unfinished{}, 500*time.Millisecond
	})
	behind := d.Journal.Head()
	d.Write("b.html", "<p>b")
	at := d.Publish()
	for _, ref := range []string{
		"parley/changes?after=" + at.String(), "parley/changes?as=page&after=" + at.String(), "parley/changes?as=site&after=" + at.String(),
		"parley/changes?as=batch&after=" + at.String(), "parley/batch?after=" + at.String(), "parley/batch?after=" + behind.String() + "&to=" + at.String(),
	} {
		log.head.Store(&behind)
		if resp, b := d.ask("GET", ref, "", ""); resp.StatusCode != 200 {
			t.Errorf("%s: %s: %s", ref, resp.Status, b)
		}
		if log.Head() != at {
			t.Errorf("%s: the log was not asked", ref)
		}
	}
	for _, form := range protocol.Forms() {
		log.head.Store(&behind)
		if m := d.listen(at, "&as="+string(form)).next(); m.Kind != protocol.Mark || m.To != at {
			t.Errorf("%s: %+v", form, m)
		}
	}
	after := at
	after.Seq++
	for _, ref := range []string{"parley/changes?after=" + after.String(), "parley/batch?after=" + at.String() + "&to=" + after.String()} {
		if resp, b := d.ask("GET", ref, "", ""); resp.StatusCode != 409 || !strings.Contains(string(b), after.String()) {
			t.Errorf("%s: %s: %s", ref, resp.Status, b)
		}
	}
}

// An unfinished archive is never complete.
type unfinished struct{ content.Archive }

func (unfinished) Latest() (content.Archived, bool) { return content.Archived{}, false }
func (unfinished) IsDueSoon() bool                  { return true }
func (unfinished) Wait(ctx context.Context, _ content.Archived) error {
	<-ctx.Done()
	return ctx.Err()
}

// A filtering subscriber gets no unmatched changes, still learns its cursor, and delays no other client.
func TestFilteringSubscriberLearnsItsCursor(t *testing.T) {
	d := newDepot(t, func(n *doors.Notifier) { n.Limits.Heartbeat = 2 * time.Second })
	begin := d.Journal.Head()
	for i := range 4000 {
		d.Write(fmt.Sprintf("x/%d.html", i), "x")
	}
	d.Publish()
	l := d.listen(begin, "&prefix=/wanted/")
	marks := 0
	for l.at != d.Journal.Head() {
		if m := l.next(); m.Kind != protocol.Mark {
			t.Fatalf("%+v", m)
		}
		marks++
	}
	if marks > 40 { // about 4, and one more for each time that a busy machine made it wait
		t.Errorf("%d marks for 4000 changes without matches", marks)
	}
	// Its next change continues from that cursor.
	d.Write("x/0.html", "more")
	d.Publish()
	d.Write("wanted/1.html", "1")
	d.Write("wanted/2.html", "2")
	d.Publish()
	for m := l.next(); m.Kind != protocol.Batch; m = l.next() {
		if m.Kind != protocol.Mark {
			t.Fatalf("%+v", m)
		}
	}
	// A limit counts the delivered changes.
	m := d.told("prefix=/wanted/&limit=1&after=" + begin.String())
	for m.Changes == nil && m.To != d.Journal.Head() {
		m = d.told("prefix=/wanted/&limit=1&after=" + m.To.String())
	}
	if len(m.Changes) != 1 || m.Changes[0].Item.URL != d.Base+"wanted/1.html" || m.To.Seq != m.Changes[0].Seq {
		t.Errorf("%+v", m)
	}
	asked := 0
	for at := begin; at != d.Journal.Head(); asked++ {
		m := d.told("prefix=/never/&wait=2&after=" + at.String())
		if len(m.Changes) > 0 || m.To.Seq <= at.Seq {
			t.Fatalf("polled: %+v", m)
		}
		at = m.To
	}
	if asked > 2 { // it keeps searching for as long as it would wait
		t.Errorf("polled %d times", asked)
	}
}

// Both subprotocols carry the same messages, the packed one in fewer bytes (C33).
func TestCompressedStream(t *testing.T) {
	d := newArchivist(t)
	begin := d.Journal.Head()
	packing := new(meter)
	c := must.Get(d.dial("as=page&after="+begin.String(), wsconn.Options{Subprotocols: protocol.Subprotocols(), Packed: map[string]wsconn.Packing{protocol.SubprotocolZstd: packing}}))
	defer c.Close(1000, "")
	if c.Subprotocol() != protocol.SubprotocolZstd {
		t.Fatalf("%s", c.Subprotocol())
	}
	packed, plain := &teller{d, read(t.Context(), c), begin}, d.listen(begin, "&as=page")
	if m := packed.next(); m.Kind != protocol.Hello {
		t.Fatalf("%+v", m)
	}
	for i := range 20 {
		d.Write(fmt.Sprintf("p%d.html", i), strings.Repeat(fmt.Sprintf("<p>line %d\n", i), 500))
	}
	d.Publish()
	for packed.at != d.Journal.Head() {
		a, b := packed.next(), plain.next()
		if string(a.Encode()) != string(b.Encode()) {
			t.Errorf("%+v\nand plain\n%+v", a, b)
		}
	}
	if packing.packed*10 > packing.plain {
		t.Errorf("%d bytes instead of %d", packing.packed, packing.plain)
	}
}

// A meter counts packed and unpacked bytes.
type meter struct {
	coding.Messages
	packed, plain int
}

func (m *meter) Unpack(b []byte, max int64) ([]byte, error) {
	text, err := m.Messages.Unpack(b, max)
	m.packed, m.plain = m.packed+len(b), m.plain+len(text)
	return text, err
}
