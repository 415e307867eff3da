package holding_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/protocol"
)

func TestNamesThatCannotBeShared(t *testing.T) {
	r := newRig(t)
	s := site("a", "file", "a/b", "below it", "c/d", "first", "c", "then the file", "e/", "home", "e/index.html", "by its name", "x//y", "odd")
	var changes []protocol.Change
	for _, p := range []string{"a", "a/b", "c/d", "c", "e/", "e/index.html", "x//y"} {
		changes = append(changes, create(p, s[base+p]))
		r.apply(told(uint64(len(changes)), create(p, s[base+p])))
		r.pay(s, 10)
	}
	other := func(p string) string { return holding.OtherName(base + p) }
	r.wantFiles(map[string]string{"a": "file", other("a/b"): "below it", "c/d": "first", other("c"): "then the file",
		"e/index.html": "home", other("e/index.html"): "by its name", other("x//y"): "odd"})
	// A name that comes free goes to whoever waits for it.
	r.apply(told(20, remove("a"), remove("c/d"), remove("e/")))
	r.wantFiles(map[string]string{"a/b": "below it", "c": "then the file", "e/index.html": "by its name", other("x//y"): "odd"})
	r.reopen()
	if a := r.apply(told(24, move("c", "a/b", "then the file"), move("e/index.html", "e", "by its name"))); a.Moved != 2 || a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a/b": "then the file", "e": "by its name", other("x//y"): "odd"})
}

// What stands in the way without a page gives way, or is gone round.
func TestStrangersInTheDirectory(t *testing.T) {
	r := newRig(t)
	outside := t.TempDir()
	in := func(p string) string { return filepath.Join(r.copy(), filepath.FromSlash(p)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(in("file"), []byte("stranger"), 0o644))
	must(os.WriteFile(in("dir"), []byte("stranger"), 0o644))
	must(os.MkdirAll(in("empty/empty"), 0o755))
	must(os.MkdirAll(in("full/d"), 0o755))
	must(os.WriteFile(in("full/d/f"), []byte("stranger"), 0o644))
	if runtime.GOOS != "windows" {
		must(os.WriteFile(filepath.Join(outside, "safe"), []byte("safe"), 0o644))
		must(os.Symlink(outside, in("out")))
		must(os.Symlink(filepath.Join(outside, "safe"), in("link")))
		must(os.Symlink("full", in("inside")))
	}
	s := site("file", "1", "dir/f", "2", "empty", "3", "full", "4", "out/safe", "5", "link", "6", "inside/f", "7")
	var changes []protocol.Change
	for u, body := range s {
		changes = append(changes, create(strings.TrimPrefix(u, base), body))
	}
	r.apply(told(uint64(len(changes)), changes...))
	r.pay(s, 10)
	r.wantFiles(map[string]string{"file": "1", "dir/f": "2", "empty": "3", holding.OtherName(base + "full"): "4", "full/d/f": "stranger",
		"out/safe": "5", "link": "6", "inside/f": "7"})
	if b, _ := os.ReadFile(filepath.Join(outside, "safe")); runtime.GOOS != "windows" && string(b) != "safe" {
		t.Errorf("a file outside was written: %q", b)
	}
}

// Whatever order things happen in, however often they are told, and wherever
// the process dies, the copy ends equal to the site.
func TestConverges(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { converge(t, seed) })
	}
}

// paths are such that they fight for names.
var paths = []string{"", "a", "a/", "a/b", "a/b/", "a/b/c", "A", "A/b", "index.html", "a/index.html", "x?q", "x%3Fq", "x//y", ".hidden",
	"d/e/f/g", "d/e/f", "d/e", "d", "long" + strings.Repeat("g", 300), "%FF", "n1", "n2", "n3", "n4"}

func converge(t *testing.T, seed uint64) {
	r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 7))
	live := map[string]string{} // the site, by URL
	var journal []protocol.Change
	crashes := 0

	pick := func() string { return base + paths[rnd.IntN(len(paths))] }
	edit := func() {
		ch, url := protocol.Change{Seq: uint64(len(journal) + 1)}, pick()
		old, there := live[url]
		switch n := rnd.IntN(10); {
		case n < 2 && there:
			ch.Op, ch.Item = protocol.Delete, protocol.Item{URL: url, Length: -1}
			delete(live, url)
		case n < 5 && there:
			to := pick()
			if to == url {
				return
			}
			ch.Op, ch.From, ch.Item = protocol.Move, url, item(strings.TrimPrefix(to, base), old)
			live[to] = old
			delete(live, url)
		default:
			body := fmt.Sprint("content ", rnd.IntN(40)) // so that some come again
			ch.Op, ch.Item = protocol.Update, item(strings.TrimPrefix(url, base), body)
			live[url] = body
		}
		journal = append(journal, ch)
	}
	// step gives what was told to the holding; a crash in it is survived.
	give := func(s client.Step) {
		if _, err := r.col.Apply(s); err != nil {
			crashes++
			r.reopen()
		}
	}
	changes := func(from, to int) client.Step {
		return client.Step{Door: client.Changes, Cursor: at(uint64(to)), Changes: slices.Clone(journal[from:to])}
	}
	tell := func(most int) {
		c, _ := r.col.Cursor()
		from := int(c.Seq)
		give(changes(from, min(len(journal), from+most)))
	}
	snapshot := func() {
		var urls []string
		for u := range live {
			urls = append(urls, u)
		}
		slices.SortFunc(urls, protocol.Compare)
		cursor := at(uint64(len(journal)))
		for i := 0; ; i += 5 {
			s := client.Step{Door: client.Manifest, Reset: i == 0}
			for _, u := range urls[min(i, len(urls)):min(i+5, len(urls))] {
				s.Changes = append(s.Changes, create(strings.TrimPrefix(u, base), live[u]))
			}
			if i+5 >= len(urls) {
				s.Whole, s.Cursor = true, cursor
				give(s)
				return
			}
			give(s)
			if rnd.IntN(4) == 0 {
				return // the connection is cut
			}
		}
	}
	pay := func(most int) {
		if _, err := r.tryPay(live, most); err != nil {
			crashes++
			r.reopen()
		}
	}

	snapshot()
	for range 250 {
		switch n := rnd.IntN(100); {
		case n < 50:
			edit()
		case n < 65:
			tell(1 + rnd.IntN(5))
		case n < 70 && len(journal) > 0: // told again
			from := rnd.IntN(len(journal))
			c, _ := r.col.Cursor()
			if to := min(from+1+rnd.IntN(10), int(c.Seq)); from < to {
				give(changes(from, to))
			}
		case n < 73:
			snapshot()
		case n < 90:
			pay(1 + rnd.IntN(8))
		case n < 93:
			r.reopen()
		case n < 97:
			r.col.CrashAfter(rnd.IntN(4))
		default:
			r.now = r.now.Add(time.Duration(rnd.IntN(90)) * time.Second)
		}
	}
	r.reopen()
	for i := 0; ; i++ {
		tell(1000)
		pay(100)
		c, _ := r.col.Cursor()
		n := r.col.Counts()
		if n.Owed == 0 && int(c.Seq) == len(journal) {
			break
		}
		if i == 100 {
			t.Fatalf("does not come to rest: at %v of %d, %+v", c, len(journal), n)
		}
		r.now = r.now.Add(time.Hour)
	}

	want, bytes := map[string]string{}, int64(0)
	names := map[string]string{}
	for u, body := range live {
		p, ok, err := r.col.Page(u)
		if err != nil || !ok {
			t.Fatalf("%s is not known: %v", u, err)
		}
		want[p.Path] = body
		names[p.Path] = u
		bytes += int64(len(body))
	}
	r.wantFiles(want)
	if n := r.col.Counts(); n.Pages != len(live) || n.Held != len(live) || n.Bytes != bytes {
		t.Errorf("counts %+v of %d pages, %d bytes", n, len(live), bytes)
	}
	for name, u := range names {
		natural, ok := holding.NaturalName(base, u, "", false)
		if !ok || name == natural {
			continue
		}
		taken := names[natural] != ""
		for other := range names {
			taken = taken || strings.HasPrefix(other, natural+"/") || strings.HasPrefix(natural, other+"/")
		}
		if !taken {
			t.Errorf("%s stands at %s though %s is free", u, name, natural)
		}
	}
	t.Logf("%d changes, %d crashes, %d pages", len(journal), crashes, len(live))
}
