package versions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/versions"
)

// For any edits, there is a delta from each version to the present one, also after a restart.
func TestVersionsOfRandomEdits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := newRig(t, nil)
	history := map[string][][]byte{}
	first := map[string][]byte{}
	for i := range 12 {
		place := fmt.Sprintf("a/%d.html", i)
		first[place] = text(rnd, 1500+rnd.IntN(30_000))
		history[place] = [][]byte{first[place]}
	}
	r.first(first)
	for round := range 25 {
		changed := map[string]bool{}
		for place, versions := range history {
			if rnd.IntN(4) == 0 {
				page := edited(rnd, versions[len(versions)-1])
				r.write(place, page)
				history[place] = append(versions, page)
				changed[place] = true
			}
		}
		r.look() // no further wait: pages are stored as they are read
		if round%8 == 7 {
			r.open(nil)
		}
		for place := range changed {
			list := history[place]
			is := list[len(list)-1]
			for _, was := range list {
				r.leads(base+place, was, is)
			}
			was := list[len(list)-2]
			if got, err := r.store.Version(context.Background(), item(base+place, was), 1<<20); err != nil || !bytes.Equal(got, was) {
				t.Errorf("%s, former version: %d bytes, %v", place, len(got), err)
			}
			got, err := r.page(base+place, was)
			noVersion(t, place+", former version, by Page", got, err)
		}
	}
}

// Run stores the pages of the changes that it finds, and the pages from before.
func TestRunStoresChangedPages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, nil)
	one := text(rnd, 5000)
	r.write("index.html", one)
	r.publisher.Inventory = r.site // reading stores nothing
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { r.store.Run(ctx) })
	defer run.Wait()
	defer cancel()
	r.look()
	r.kept(1)
	two := edited(rnd, one)
	r.write("index.html", two)
	r.look()
	r.kept(2)
	r.leads(base, one, two)
	// A page withdrawn by a rule is no longer stored.
	r.ok(os.WriteFile(filepath.Join(r.site.Docroot, "robots.txt"), []byte("User-agent: *\nDisallow: /\n"), 0o644))
	r.look()
	r.kept(0)
	b, err := r.page(base, two)
	noVersion(t, "a page that is forbidden", b, err)
}

// kept waits until the given number of versions is stored.
func (r *rig) kept(want int) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); r.store.Stats().Versions != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%d versions are stored, want %d", r.store.Stats().Versions, want)
		}
	}
}

// A restart deletes the versions of pages that were withdrawn meanwhile.
func TestWithdrawnPagesAreDeletedAtRestart(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	r := newRig(t, nil)
	page := text(rnd, 3000)
	r.first(map[string][]byte{"index.html": page, "secret/plan.html": page})
	r.ok(os.WriteFile(filepath.Join(r.site.Docroot, "robots.txt"), []byte("User-agent: *\nDisallow: /secret/\n"), 0o644))
	r.look()
	r.open(nil)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { r.store.Run(ctx) })
	r.kept(1)
	cancel()
	run.Wait()
	if b, err := r.page(base, page); err != nil || !bytes.Equal(b, page) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// A delta is computed once for any number of requests, and requests that are cancelled stop waiting for it.
func TestDeltaIsShared(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	r := newRig(t, nil)
	one := text(rnd, 200_000)
	r.first(map[string][]byte{"index.html": one})
	two := edited(rnd, one)
	r.write("index.html", two)
	r.look()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			if i%4 == 0 {
				cancel() // some are cancelled at once
			}
			_, err := r.store.Delta(ctx, item(base, two), protocol.Sum(one))
			if err != nil && i%4 != 0 {
				t.Error(err)
			}
			cancel()
		})
	}
	all.Wait()
	r.leads(base, one, two)
	if n := r.store.Stats().Deltas; n != 1 {
		t.Errorf("the delta was computed %d times", n)
	}
}

func TestDeltaLargerThanPageIsNotSent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	r := newRig(t, nil)
	one, long := noise(rnd, 3000), []byte(strings.Repeat("<p>The same again.</p>\n", 2000))
	tiny := []byte("<p>1</p>")
	r.first(map[string][]byte{"a.html": one, "b.html": text(rnd, 9000), "c.html": tiny})
	for place, page := range map[string][]byte{"a.html": noise(rnd, 3000), "b.html": long, "c.html": []byte("<p>2</p>")} {
		r.write(place, page)
	}
	r.look()
	for _, c := range []struct {
		place   string
		was, is []byte
	}{{"a.html", one, nil}, {"c.html", tiny, []byte("<p>2</p>")}} {
		is := c.is
		if is == nil {
			is = must.Get(os.ReadFile(filepath.Join(r.site.Docroot, c.place)))
		}
		for range 2 { // the result is remembered
			b, err := r.delta(base+c.place, c.was, is)
			noVersion(t, c.place, b, err)
		}
	}
	if n := r.store.Stats().Deltas; n != 2 {
		t.Errorf("%d deltas were computed", n)
	}
	// A base that nobody has, or that belongs to another page, costs nothing.
	b, err := r.delta(base+"a.html", tiny, one)
	noVersion(t, "a version of another page", b, err)
	b, err = r.delta(base+"b.html", []byte("never was"), long)
	noVersion(t, "a version that never existed", b, err)
	if n := r.store.Stats().Deltas; n != 2 {
		t.Errorf("%d deltas were computed", n)
	}
	// A page larger than the given limit costs nothing either.
	b, err = r.store.Page(context.Background(), item(base+"b.html", long), 100)
	noVersion(t, "a large page", b, err)
	if _, err := r.store.Page(context.Background(), &protocol.Item{URL: base + "b.html", Digest: protocol.Sum(long), Length: -1}, 100); err == nil {
		t.Error("a page over the limit, of unknown length, was returned")
	}
}

// The space limit holds, and the least useful versions are deleted first.
func TestSpaceLimit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	const most = 60 * 8192 // pages of 7000 bytes take two blocks
	r := newRig(t, func(s *versions.Store) { s.MaxBytes, s.MaxMemory = most, 1 })
	quiet := noise(rnd, 7000)
	pages := map[string][]byte{"quiet.html": quiet}
	for i := range 20 {
		pages[fmt.Sprintf("%02d.html", i)] = noise(rnd, 7000)
	}
	r.first(pages)
	quieter := edited(rnd, quiet)
	r.write("quiet.html", quieter)
	r.look()
	// One page changes all the time: it displaces its own versions, and no others.
	busy := pages["00.html"]
	for range 80 {
		busy = append(noise(rnd, 10), busy[10:]...)
		r.write("00.html", busy)
		r.look()
		if n := r.store.Stats().Bytes; n > most {
			t.Fatalf("%d bytes, more than %d", n, most)
		}
	}
	r.leads(base+"quiet.html", quiet, quieter)
	r.onDisk(most)
	for place, page := range pages {
		if place == "00.html" || place == "quiet.html" {
			continue
		}
		r.write(place, nil) // so it must come from the store
		if _, err := r.page(base+place, page); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// If the present pages need more space than the limit, the largest is deleted.
func TestSpaceLimitOfCurrentPages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	const most = 400 << 10
	r := newRig(t, func(s *versions.Store) { s.MaxBytes = most })
	pages := map[string][]byte{}
	for i := range 8 {
		pages[fmt.Sprintf("large%d.html", i)] = noise(rnd, 60<<10)
		pages[fmt.Sprintf("small%d.html", i)] = noise(rnd, 3<<10)
	}
	r.first(pages)
	for place, page := range pages {
		is := append(bytes.Clone(page), "<p>more</p>"...)
		r.write(place, is)
		pages[place] = is
	}
	r.look()
	if n := r.store.Stats().Bytes; n > most {
		t.Fatalf("%d bytes, more than %d", n, most)
	}
	r.onDisk(most)
	for place, is := range pages {
		if strings.HasPrefix(place, "small") {
			r.write(place, nil)
			if _, err := r.page(base+place, is); err != nil {
				t.Errorf("%s: %v", place, err)
			}
		}
	}
	// A page that would take most of the space is not stored at all.
	r.write("huge.html", noise(rnd, most/2))
	r.look()
	if n := r.store.Stats().Bytes; n > most || n < most/2 {
		t.Errorf("%d bytes", n)
	}
}

// onDisk checks that the files match the counts.
func (r *rig) onDisk(most int64) {
	r.t.Helper()
	var bytes int64
	files := r.files()
	for _, name := range files {
		fi := must.Get(os.Stat(name))
		bytes += (fi.Size() + 4095) / 4096 * 4096
	}
	if st := r.store.Stats(); bytes > most || bytes != st.Bytes || len(files) != st.Versions {
		r.t.Errorf("%d files of %d bytes, counted as %+v", len(files), bytes, st)
	}
}

func (r *rig) files() (list []string) {
	r.ok(filepath.WalkDir(r.store.Dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	}))
	return list
}

// A damaged version is found, deleted, and never served.
func TestDamagedVersions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 16))
	for what, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"empty":   func(b []byte) []byte { return nil },
		"changed": func(b []byte) []byte { b[len(b)-7] ^= 4; return b },
		"foreign": func(b []byte) []byte { return []byte("<p>something else</p>") },
		"huge":    func(b []byte) []byte { return bytes.Repeat(b, 40<<20/len(b)) },
	} {
		r := newRig(t, nil)
		one := text(rnd, 6000)
		r.first(map[string][]byte{"index.html": one})
		files := r.files()
		if len(files) != 1 {
			t.Fatalf("%v", files)
		}
		b, err := os.ReadFile(files[0])
		r.ok(err)
		r.ok(os.WriteFile(files[0], damage(b), 0o600))
		two := edited(rnd, one)
		r.write("index.html", two)
		r.look()
		r.open(nil)
		b, err = r.delta(base, one, two)
		noVersion(t, what, b, err)
		if _, err := os.Stat(files[0]); err == nil {
			t.Errorf("%s: the file is still there", what)
		}
		if !strings.Contains(r.logged.String(), "damaged") {
			t.Errorf("%s: %s", what, r.logged)
		}
		if got, err := r.page(base, two); err != nil || !bytes.Equal(got, two) {
			t.Errorf("%s: the present page: %d bytes, %v", what, len(got), err)
		}
	}
}

// Without a usable directory the present pages are served, and the log has one line.
func TestUnusableDirectory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 18))
	r := newRig(t, func(s *versions.Store) {
		file := filepath.Join(filepath.Dir(s.Dir), "file")
		must.OK(t, os.WriteFile(file, nil, 0o600))
		s.Dir = filepath.Join(file, "versions")
	})
	one := text(rnd, 6000)
	r.first(map[string][]byte{"index.html": one, "b.html": one})
	for range 3 {
		was := one
		one = edited(rnd, one)
		r.write("index.html", one)
		r.look()
		if got, err := r.page(base, one); err != nil || !bytes.Equal(got, one) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		b, err := r.delta(base, was, one)
		noVersion(t, "a difference", b, err)
		r.leads(base, one, one)
	}
	if n := strings.Count(r.logged.String(), "\n"); n != 1 || !strings.Contains(r.logged.String(), "cannot be stored") || !r.store.Stats().Trouble {
		t.Errorf("%d lines: %s", n, r.logged)
	}
}

// Once the directory is usable again, versions are stored again.
func TestDirectoryBecomesUsableAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(25, 26))
		file := filepath.Join(dir, "file")
		must.OK(t, os.WriteFile(file, nil, 0o600))
		var logged bytes.Buffer
		s := &versions.Store{Dir: filepath.Join(file, "versions"), Log: slog.New(slog.NewTextHandler(&logged, nil))}
		page := text(rnd, 3000)
		s.KeepPage(base, page)
		must.OK(t, os.Remove(file))
		s.KeepPage(base, page) // it does not retry every time
		if st := s.Stats(); !st.Trouble || st.Versions != 0 || st.Bytes != 0 {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Minute) // of the bubble's time
		s.KeepPage(base, page)
		if st := s.Stats(); st.Trouble || st.Versions != 1 || strings.Count(logged.String(), "\n") != 2 {
			t.Errorf("%+v\n%s", st, &logged)
		}
	})
}

// Under concurrent use, the space limit holds and every result is right.
func TestConcurrentUse(t *testing.T) {
	const most = 256 << 10
	s := &versions.Store{Dir: filepath.Join(t.TempDir(), "versions"), MaxBytes: most, MaxMemory: 100_000}
	var all sync.WaitGroup
	var deltas atomic.Int64
	turns := 300
	if testing.Short() {
		turns = 60
	}
	for worker := range uint64(4) {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(27, worker))
			for range turns {
				n, m := rnd.Uint64N(400), rnd.Uint64N(400)
				url := childURL(n)
				m = m - m%50 + n%50 // of the same page
				was, is := childPage(m), childPage(n)
				s.KeepPage(url, is)
				got, err := s.Page(t.Context(), item(url, was), 1<<20)
				if err == nil && !bytes.Equal(got, was) || err != nil && !errors.Is(err, content.ErrNoVersion) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				delta, err := s.Delta(t.Context(), item(url, is), protocol.Sum(was))
				if err == nil {
					deltas.Add(1)
					if got, err := coding.ApplyDelta(was, delta, 1<<20); err != nil || !bytes.Equal(got, is) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				} else if !errors.Is(err, content.ErrNoVersion) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if deltas.Load() == 0 {
		t.Error("no delta was returned")
	}
	r := &rig{t: t, store: s}
	r.onDisk(most)
}

// A file outside the site is never stored or served.
func TestNoFileOutsideTheSite(t *testing.T) {
	r := newRig(t, nil)
	secret := []byte(strings.Repeat("<p>secret</p>\n", 100))
	r.ok(os.WriteFile(filepath.Join(r.dir, "secret.html"), secret, 0o644))
	r.ok(os.Symlink(filepath.Join(r.dir, "secret.html"), filepath.Join(r.site.Docroot, "link.html")))
	r.ok(os.Symlink(r.dir, filepath.Join(r.site.Docroot, "dir")))
	r.write(".git/config.html", secret)
	r.write("forbidden/a.html", secret)
	r.write("robots.txt", []byte("User-agent: *\nDisallow: /forbidden/\n"))
	r.first(map[string][]byte{"index.html": []byte("<p>hello</p>")})
	for _, url := range []string{"link.html", "dir/secret.html", ".git/config.html", "forbidden/a.html", "../secret.html", "%2e%2e/secret.html", "robots.txt", ""} {
		b, err := r.page(base+url, secret)
		noVersion(t, url, b, err)
	}
	if n := r.store.Stats().Versions; n != 1 {
		t.Errorf("%d versions are stored", n)
	}
	r.store.KeepPage(base+"forbidden/a.html", secret)
	if n := r.store.Stats().Versions; n != 1 {
		t.Errorf("%d versions are stored", n)
	}
}

// A site without files: pages passed to the store are stored.
func TestPagesWithoutFiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(19, 20))
	r := newRig(t, func(s *versions.Store) { s.Open, s.Public, s.Journal = nil, nil, nil })
	one := text(rnd, 4000)
	two := edited(rnd, one)
	url := base + "page?id=7"
	r.store.KeepPage(url, one)
	see := r.store.Seeing(func(string, []byte, bool) (inventory.Features, error) { return inventory.Features{Title: "seen"}, nil })
	if f, err := see(url, two, true); err != nil || f.Title != "seen" {
		t.Errorf("%+v, %v", f, err)
	}
	see(url, one[:100], false) // not the whole page
	r.leads(url, one, two)
	if n := r.store.Stats().Versions; n != 2 {
		t.Errorf("%d versions", n)
	}
	if got, err := r.page(url, two); err != nil || !bytes.Equal(got, two) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
