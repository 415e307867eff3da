package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// A Turn waits for the times that it could not set yet.
func TestTurnWaitsForPendingHeals(t *testing.T) {
	t.Parallel()
	d := newDocroot(t, "a.html")
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(filepath.Dir(d.dir), "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	pub := &server.Publisher{Inventory: d.site, Journal: j, Pages: server.Pages{Healer: d.site}, Pace: server.Pace{Once: true}}
	turn := func() inventory.Report {
		return must.Get(pub.Turn(t.Context()))
	}
	turn()
	fi := must.Get(os.Stat(d.path("a.html")))
	d.write("a.html", "CONTENT OF a.html")
	d.must(os.Chtimes(d.path("a.html"), fi.ModTime(), fi.ModTime()))
	begin := time.Now()
	rep := turn()
	after := must.Get(os.Stat(d.path("a.html")))
	if rep.Changed != 1 || rep.Healed != 1 || after.ModTime().Unix() <= fi.ModTime().Unix() || after.ModTime().After(time.Now()) {
		t.Errorf("%v: from %v to %v", rep, fi.ModTime(), after.ModTime())
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if rep := turn(); rep.Healed+rep.Touched+rep.ChangeCount() != 0 || rep.Unchanged != 1 {
		t.Errorf("%v", rep)
	}
}

// An onWrite is an Output that runs a function at its first write.
type onWrite func()

func (f *onWrite) String() string { return "function" }
func (f *onWrite) Own() []string  { return nil }

func (f *onWrite) Write(context.Context, *server.Journal) (bool, error) {
	if *f != nil {
		(*f)()
		*f = nil
	}
	return false, nil
}

// If a Turn finds changes while it waits after writing, it writes again.
func TestTurnWritesChangesFoundWhileHealing(t *testing.T) {
	t.Parallel()
	d := newDocroot(t, "a.html")
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	pub := &server.Publisher{Inventory: d.site, Journal: j, Pages: server.Pages{Healer: d.site}, Pace: server.Pace{Once: true},
		Snapshot: &manifest.Snapshot{Path: filepath.Join(t.TempDir(), "robots.rdf"), Manifest: doors.Describe(base)}}
	must.Get(pub.Turn(t.Context()))
	fi := must.Get(os.Stat(d.path("a.html")))
	d.write("a.html", "CONTENT OF a.html")
	d.must(os.Chtimes(d.path("a.html"), fi.ModTime(), fi.ModTime()))
	meanwhile := onWrite(func() { d.write("a.html", "written while others read") })
	pub.Outputs = []server.Output{&meanwhile}
	rep := must.Get(pub.Turn(t.Context()))
	if rep.Changed != 2 || rep.Head.Seq != 2 {
		t.Fatalf("%+v", rep)
	}
	b := must.Get(os.ReadFile(pub.Snapshot.Path))
	if st := pub.Status(); st.Manifest != j.Head() || pub.Published() != j.Head() || !bytes.Contains(b, []byte(protocol.Sum([]byte("written while others read")).String())) {
		t.Errorf("the manifest is at %v, published %v, the head is %v", st.Manifest, pub.Published(), j.Head())
	}
}

// A write between the reading and the healing is not hidden by it.
func TestHealRace(t *testing.T) {
	w := newWard(t, "a.html")
	read := func() inventory.Offer {
		t.Helper()
		return must.Get(w.site.Read(t.Context(), w.offer("a.html")))
	}
	to := w.now.Add(-10 * time.Hour)
	o := read()
	at := o.Modified
	o.Stamp = nil // as for a file too young for a stamp
	w.putAt("a.html", "CONTENT OF a.html", at)
	begin := time.Now().Add(-time.Second)
	if _, err := w.site.Heal(t.Context(), o, to); !errors.Is(err, inventory.ErrChanged) {
		t.Errorf("other bytes of the same time: %v", err)
	}
	if s := w.second("a.html"); s < begin.Unix() {
		t.Errorf("the files got an earlier mtime: %d", s)
	}

	o = read()
	w.put("a.html", "longer than it was before")
	if _, err := w.site.Heal(t.Context(), o, to); !errors.Is(err, inventory.ErrChanged) {
		t.Errorf("other length: %v", err)
	}
	w.wantSecond("it is not touched", "a.html", w.now)
	o = read()
	w.must(os.Remove(w.path("a.html")))
	if _, err := w.site.Heal(t.Context(), o, to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	w.put("a.html", "a")
	h, err := w.site.Heal(t.Context(), read(), to)
	if err != nil || !h.Modified.Equal(to) || len(h.Stamp) == 0 {
		t.Errorf("%+v %v", h, err)
	}
	w.wantSecond("healed", "a.html", to)
}

// Files are written all the time while they are healed; once the writes end, the journal has their bytes.
func TestHealStorm(t *testing.T) {
	w := newWard(t)
	pages := 12
	for i := range pages {
		w.put(fmt.Sprintf("%d.html", i), "0000")
	}
	w.now = time.Time{}
	w.pub.Now = nil
	w.look()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for n := range 2 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 7))
			old := time.Now().Add(-time.Hour)
			for {
				select {
				case <-stop:
					return
				default:
				}
				name := w.path(fmt.Sprintf("%d.html", rnd.IntN(pages)))
				os.WriteFile(name, []byte(fmt.Sprintf("%04d", rnd.IntN(3))), 0o644)
				if rnd.IntN(2) == 0 {
					os.Chtimes(name, old, old)
				}
			}
		})
	}
	healed := 0
	for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; {
		rep := must.Get(w.pub.Scan(t.Context(), nil))
		healed += rep.Healed
	}
	close(stop)
	writers.Wait()
	must.Get(w.pub.Turn(t.Context()))
	want := map[string]protocol.Digest{}
	for i := range pages {
		b := must.Get(os.ReadFile(w.path(fmt.Sprintf("%d.html", i))))
		want[fmt.Sprintf("%s%d.html", base, i)] = protocol.Sum(b)
	}
	got := map[string]protocol.Digest{}
	v := must.Get(w.journal.View())
	defer v.Close()
	for e, err := range v.Entries() {
		w.must(err)
		got[e.Item.URL] = e.Item.Digest
	}
	if !maps.Equal(got, want) {
		t.Errorf("the journal differs: %v", diff(got, want))
	}
	t.Logf("healed %d times", healed)
}

// A frail Healer cannot set times.
type frail struct{ why error }

func (f frail) Heal(_ context.Context, o inventory.Offer, _ time.Time) (inventory.Offer, error) {
	return o, f.why
}

func TestFailedHeals(t *testing.T) {
	w := newWorld(t)
	var said bytes.Buffer
	w.pub.Pages.Healer = frail{os.ErrPermission}
	w.pub.Log = slog.New(slog.NewTextHandler(&said, nil))
	w.fill(5)
	w.look()
	w.pass(time.Hour)
	w.fill(5)
	w.pass(time.Hour)
	rep := w.look()
	if rep.Touched != 5 || rep.Healed != 0 || strings.Count(said.String(), "level=WARN") != 1 || !strings.Contains(said.String(), "files=5") {
		t.Errorf("%v\n%s", rep, &said)
	}
	reads := w.reads
	if w.look(); w.reads != reads {
		t.Error("a file that cannot be healed is read again")
	}
	w.pub.Pages.Healer = frail{fmt.Errorf("just now: %w", inventory.ErrChanged)}
	w.write("p/000.html", "page 0")
	w.pass(time.Hour)
	if rep := w.look(); rep.Unsettled != 1 || rep.Touched != 0 {
		t.Errorf("%v", rep)
	}
}

// While Run runs, pages are healed as soon as possible, and the resulting file events cause no further work.
func TestRunHeals(t *testing.T) {
	w := newWard(t, "a.html", "b.html", "d/c.html")
	w.pub.Now = nil
	ctx, stop := context.WithCancel(t.Context())
	var reads atomic.Int64
	w.pub.Inventory = tallied{w.site, &reads}
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.pub.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	until(t, "the first scan", func() bool { return w.pub.Status().Whole })
	was := map[string]int64{}
	for _, p := range []string{"a.html", "b.html", "d/c.html"} {
		was[p] = w.second(p)
	}
	replace := func(place, content string, at time.Time) { // atomically, so that no scan sees half of it
		t.Helper()
		w.putAt(".new", content, at)
		w.must(os.Rename(w.path(".new"), w.path(place)))
	}
	for p := range was { // a rebuild
		replace(p, "content of "+p, time.Now())
	}
	until(t, "the rebuild is healed", func() bool {
		return w.second("a.html") == was["a.html"] && w.second("b.html") == was["b.html"] && w.second("d/c.html") == was["d/c.html"]
	})
	replace("a.html", "first", time.Now())
	until(t, "an edit", func() bool { return w.journal.Head().Seq == 1 })
	first := w.second("a.html")
	replace("a.html", "third", time.Unix(first, 5))
	until(t, "another, of its time", func() bool { return w.journal.Head().Seq == 2 && w.second("a.html") > first })
	if s := w.second("a.html"); s != first+1 {
		t.Errorf("healed from %d to %d", first, s)
	}
	// Each page is read twice and digested once more; an event may come in between.
	looks, at := w.pub.Status().Looks, reads.Load()
	time.Sleep(time.Second)
	if n, r := w.pub.Status().Looks-looks, reads.Load()-at; n > 3 || r > 1 {
		t.Errorf("in a second without changes there were %d scans, and %d pages read", n, r)
	}
	if s := w.pub.Status(); s.Head.Seq != 2 || s.Error != "" {
		t.Errorf("%+v", s)
	}
}

// tallied is a Site that counts its reads, safe for concurrent use.
type tallied struct {
	*server.Site
	reads *atomic.Int64
}

func (c tallied) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	c.reads.Add(1)
	return c.Site.Read(ctx, o)
}
