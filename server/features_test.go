package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// plainFeatures is a Site.Features for pages whose first line is the title and which contain "noindex"
// anywhere. It counts its calls.
func plainFeatures(calls *atomic.Int64) func(string, []byte, bool) (inventory.Features, error) {
	return func(_ string, b []byte, _ bool) (inventory.Features, error) {
		calls.Add(1)
		title, _, _ := strings.Cut(string(b), "\n")
		return inventory.Features{Title: title, NoIndex: bytes.Contains(b, []byte("noindex"))}, nil
	}
}

// A stand is a docroot that a Publisher publishes.
type stand struct {
	*docroot
	pub   *server.Publisher
	log   *server.Journal
	calls atomic.Int64
	at    protocol.Cursor
}

func newStand(t *testing.T) *stand {
	s := &stand{docroot: newDocroot(t)}
	s.site.Features = plainFeatures(&s.calls)
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base}))
	t.Cleanup(func() { j.Close() })
	s.log, s.pub = j, &server.Publisher{Inventory: s.site, Journal: j}
	return s
}

// settle waits until the stamps of all files are old enough to be trusted.
func (s *stand) settle() {
	s.Helper()
	for young := true; young; {
		young = false
		for o, err := range s.site.Scan(s.Context(), nil) {
			s.must(err)
			young = young || o.LeftOut == "" && len(o.Stamp) == 0
		}
	}
}

// wantTold scans and checks which changes were published.
func (s *stand) wantTold(want string) inventory.Report {
	s.Helper()
	s.settle()
	rep := must.Get(s.pub.Scan(s.Context(), nil))
	var told []string
	if !s.at.IsZero() {
		changes := must.Get(s.log.Read(s.Context(), s.at, 100))
		for _, c := range changes {
			told = append(told, tell(c))
		}
	}
	s.at = s.log.Head()
	if got := strings.Join(told, ", "); got != want {
		s.Errorf("told %q, want %q", got, want)
	}
	return rep
}

func TestNoIndex(t *testing.T) {
	s := newStand(t)
	s.write("a.html", "Title of a\ntext")
	s.write("b.html", "Title of b\ntext")
	s.write("hidden.html", "Hidden\nnoindex")
	s.write("notes.pdf", "noindex is no word of a PDF")
	s.wantTold("")
	if s.calls.Load() != 3 {
		t.Errorf("features of %d pages", s.calls.Load())
	}
	if s.site.Public(base+"hidden.html") || !s.site.Public(base+"a.html") {
		t.Error("Public allows a page with noindex")
	}
	rep := s.wantTold("")
	if rep.LeftOut != 1 || rep.Unchanged != 3 || s.calls.Load() != 3 {
		t.Errorf("without a change: %+v, and features of %d pages", rep, s.calls.Load())
	}
	if left := sitetest.LeftOut(s.look())["hidden.html"]; left != "noindex" {
		t.Errorf("left out for %q", left)
	}

	s.write("a.html", "Title of a\nnoindex")
	if rep := s.wantTold("delete a.html"); rep.Withdrawn != 1 || rep.HeldNow != 0 {
		t.Errorf("a page gains noindex: %+v", rep)
	}
	if s.site.Public(base + "a.html") {
		t.Error("earlier changes of the page can be replayed")
	}
	s.write("a.html", "New title of a\ntext")
	s.wantTold("create a.html")
	if !s.site.Public(base + "a.html") {
		t.Error("the page is public again, but Public forbids it")
	}
	s.write("b.html", "New title of b\ntext")
	s.wantTold("update b.html")

	v := must.Get(s.log.View())
	defer v.Close()
	titles := map[string]string{}
	for e, err := range v.Entries() {
		s.must(err)
		titles[strings.TrimPrefix(e.Item.URL, base)] = e.Item.Title
	}
	if len(titles) != 3 || titles["a.html"] != "New title of a" || titles["b.html"] != "New title of b" || titles["notes.pdf"] != "" {
		t.Errorf("titles are %q", titles)
	}
}

// A page that vanishes and comes back without noindex is public again.
func TestNoIndexVanishes(t *testing.T) {
	s := newStand(t)
	s.write("a.html", "a")
	s.write("b.html", "b noindex")
	s.wantTold("")
	s.must(os.Remove(s.path("b.html")))
	s.wantTold("")
	s.write("b.html", "b")
	s.wantTold("create b.html")
	if !s.site.Public(base + "b.html") {
		t.Error("not public")
	}
}

// A page with an expiry time is withdrawn when that has passed, though its file is not touched.
func TestExpiredPageIsWithdrawn(t *testing.T) {
	s := newStand(t)
	expired := false
	s.site.Features = func(url string, b []byte, _ bool) (f inventory.Features, err error) {
		if bytes.Contains(b, []byte("until then")) {
			f.UnavailableAfter, f.NoIndex = time.Now().Add(time.Hour), expired
		}
		return f, nil
	}
	s.write("a.html", "a")
	s.write("b.html", "b until then")
	s.wantTold("")
	s.wantTold("")
	if !s.site.Public(base + "b.html") {
		t.Error("not public before its time")
	}
	expired = true
	s.wantTold("delete b.html")
	if s.site.Public(base + "b.html") {
		t.Error("public after its time")
	}
}

// A newer Parley that finds titles where it found none has no change to publish.
func TestNewTitleAloneIsNoChange(t *testing.T) {
	s := newStand(t)
	s.site.Features = nil
	s.write("a.html", "a")
	s.write("b.html", "b")
	s.wantTold("")
	s.site = &server.Site{Docroot: s.dir, Base: base, Features: plainFeatures(&s.calls)}
	s.pub = &server.Publisher{Inventory: s.site, Journal: s.log}
	s.age("a.html")
	if rep := s.wantTold(""); rep.Touched != 1 || rep.Unchanged != 1 || s.calls.Load() != 1 {
		t.Errorf("%+v, and features of %d pages", rep, s.calls.Load())
	}
	s.write("a.html", "a\nmore")
	s.wantTold("update a.html")
}

// With other masks every page yields other features from the same bytes: it is read once more without a
// change being published, and the next build's significance is right.
func TestFeaturesVersion(t *testing.T) {
	s := newStand(t)
	s.write("a.html", "text of a, built on Monday")
	s.write("b.html", "text of b, built on Monday")
	s.write("c.pdf", "c")
	process := func(version, mask string) {
		s.site = &server.Site{Docroot: s.dir, Base: base, FeaturesVersion: version}
		s.site.Features = func(_ string, b []byte, _ bool) (inventory.Features, error) {
			s.calls.Add(1)
			text, _, _ := strings.Cut(string(b), mask)
			return inventory.Features{Text: protocol.Sum([]byte(text))}, nil
		}
		s.pub = &server.Publisher{Inventory: s.site, Journal: s.log}
		s.calls.Store(0)
	}
	look := func(what string, touched, calls int) {
		t.Helper()
		if rep := s.wantTold(""); rep.Touched != touched || s.calls.Load() != int64(calls) {
			t.Errorf("%s: %+v, and features of %d pages", what, rep, s.calls.Load())
		}
	}
	process("", "no mask")
	look("first", 0, 2)
	process("", "no mask")
	look("a state from before there were versions", 0, 0)
	process("1", ", built")
	look("masks", 2, 2)
	look("masks, again", 0, 2) // the same two
	process("1", ", built")
	look("masks, another process", 0, 0)
	s.write("a.html", "text of a, built on Tuesday")
	s.write("b.html", "words of b, built on Tuesday")
	s.settle()
	must.Get(s.pub.Scan(t.Context(), nil))
	changes := must.Get(s.log.Read(t.Context(), s.at, 100))
	if len(changes) != 2 {
		t.Fatalf("told %v", changes)
	}
	if share, known := changes[0].Significance.Share(); !known || share != 0 {
		t.Errorf("a.html: only masked text changed, and its significance is %v, %v", share, known)
	}
	if share, known := changes[1].Significance.Share(); known && share == 0 {
		t.Error("b.html: its text changed, and its significance is 0")
	}
	s.at = s.log.Head()
	process("2", "no mask")
	look("other masks", 2, 2)
	look("other masks, again", 0, 2)
}
