package docroot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// For any shape of tree, a scan yields the same as a plain walk, in order: with directories of more files
// than are described at once, many directories of few, and files that share a URL.
func TestPipelinedWalkEqualsPlainWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	d := newDisk(t)
	d.site.Settings.CleanURLs = true
	for _, n := range []int{1300, 0, 1, 511, 512, 513, 3} {
		dir := fmt.Sprintf("n%d", n)
		d.must(os.Mkdir(d.path(dir), 0o755))
		for i := range n {
			d.write(fmt.Sprintf("%s/%04d.html", dir, i), "x")
			if rnd.IntN(3) == 0 { // the same URL
				d.write(fmt.Sprintf("%s/%04d.html.html", dir, i), "y")
				d.write(fmt.Sprintf("%s/.%04d.html", dir, i), "hidden")
			}
		}
	}
	for i := range 60 {
		d.write(fmt.Sprintf("many/%d/%d/index.html", i%7, i), "x")
	}
	var want []string
	d.must(filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name()[0] == '.' {
			return err
		}
		place, err := filepath.Rel(d.dir, path)
		url := base + strings.TrimSuffix(strings.TrimSuffix(filepath.ToSlash(place), ".html"), "index")
		want = append(want, url)
		return err
	}))
	slices.SortFunc(want, protocol.Compare)
	if want = slices.Compact(want); len(want) < 2400 {
		t.Fatal(len(want))
	}
	got, hidden, last := []string{}, 0, ""
	for o, err := range d.site.Scan(t.Context(), nil) {
		d.must(err)
		switch {
		case o.LeftOut == "hidden":
			hidden++
		case o.LeftOut == "":
			if last != "" && protocol.Compare(last, o.URL) >= 0 {
				t.Fatalf("%s after %s", o.URL, last)
			}
			got, last = append(got, o.URL), o.URL
		}
	}
	if !slices.Equal(got, want) || hidden == 0 {
		t.Errorf("%d offered, want %d; %d hidden", len(got), len(want), hidden)
	}
}

// A scan that is ended early leaves nothing behind, neither goroutines nor open files.
func TestEndedScanReleasesResources(t *testing.T) {
	d := newDisk(t)
	for i := range 100 {
		d.write(fmt.Sprintf("d%02d/a.html", i), "x")
	}
	look := func() {
		for range d.site.Scan(t.Context(), nil) {
			return
		}
	}
	look()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 50 {
		look()
	}
	// A goroutine that has signalled its end is counted until it is gone.
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines || openFiles(t) > files; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines and %d open files, %d and %d before", runtime.NumGoroutine(), openFiles(t), goroutines, files)
		}
	}
}

// openFiles returns the number of open files, where the system shows it.
func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(list)
}

// A directory far ahead is not read before the scan comes near it; and if it has become a link out of the
// site by then, the link is not followed.
func TestReadAheadOfScanIsBounded(t *testing.T) {
	d := newDisk(t)
	for i := range 60 {
		d.write(fmt.Sprintf("d%02d/a.html", i), "x")
	}
	outside := t.TempDir()
	must.Write(d, filepath.Join(outside, "secret.html"), "x")
	var got []string
	first := true
	for o, err := range d.site.Scan(t.Context(), nil) {
		var u *inventory.UnseenError
		if errors.As(err, &u) && u.Prefix == base+"d51/" {
			continue
		}
		d.must(err)
		if first {
			first = false
			for i := 50; i < 60; i++ {
				d.must(os.RemoveAll(d.path(fmt.Sprintf("d%02d", i))))
			}
			d.link(outside, "d51")
			d.write("d52/b.html", "new")
		}
		if o.LeftOut == "" {
			got = append(got, strings.TrimPrefix(o.URL, base))
		}
	}
	if len(got) != 51 || got[50] != "d52/b.html" || slices.Contains(got, "d51/secret.html") {
		t.Errorf("%q", got)
	}
}
