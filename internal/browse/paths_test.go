package browse_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/browse"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// recorded writes files of Wikispeedia's form.
func recorded(t testing.TB, links string, paths ...string) string {
	dir := t.TempDir()
	text := "# FORMAT: hashedIpAddress   timestamp   durationInSec   path\n\n"
	for i, p := range paths {
		text += fmt.Sprintf("%x\t1297054935\t166\t%s\tNULL\n", i, p)
	}
	must.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "links.tsv"), []byte(links), 0o600), os.WriteFile(filepath.Join(dir, "paths_finished.tsv"), []byte(text), 0o600)))
	return dir
}

// A page is one level below the least deep of the pages before it that link to it, as of its first view; a back click is a view.
func TestLevelsOfPaths(t *testing.T) {
	links := "a\tb\r\nb\tc\nc\td\na\td\nd\te\nc\ta\n"
	v := must.Get(browse.Paths(t.Context(), recorded(t, links, "a", "a;b;c;d;e", "a;b;c;<;<;d;<", "b;c;a;d", "x;y;x")))
	// Levels: 0 | 0 1 2 1 2: a links to d | 0 1 2 1 0 1 0 | 0 1 2 2: c links to d | 0 1 0: unlisted links
	want := []browse.Actions{{Next: 5, Jump: 3}, {Next: 4, Back: 3}, {Back: 2, Stay: 1, Jump: 2}}
	if v.Sessions != 5 || v.Views != 20 || v.Single != 1 || v.Depths != 9-2 || len(v.Levels) != 3 {
		t.Errorf("%+v", v)
	}
	for l := range min(3, len(v.Levels)) {
		if v.Levels[l] != want[l] {
			t.Errorf("level %d: %+v, want %+v", l, v.Levels[l], want[l])
		}
	}
}

func TestDamagedPaths(t *testing.T) {
	for want, dir := range map[string]string{
		"links.tsv: line 2: want two articles":                  recorded(t, "a\tb\na\n", "a"),
		"paths_finished.tsv: line 3: view 1 is a back click":    recorded(t, "a\tb\n", "<"),
		"paths_finished.tsv: line 4: view 4 is a back click":    recorded(t, "a\tb\n", "a", "a;b;<;<"),
		"paths_finished.tsv: line 3: want an address":           recorded(t, "a\tb\n", ""),
		"paths_finished.tsv: line 3: more than 10000 views":     recorded(t, "a\tb\n", strings.Repeat("a;", 10_000)+"a"),
		"links.tsv: line 1: bufio.Scanner: token too long":      recorded(t, "a\tb\n"+strings.Repeat("a", 1<<20), "a"),
		"links.tsv: no such file":                               t.TempDir(),
		"there is neither paths_finished.tsv nor paths_unfinis": onlyLinks(t),
	} {
		if v, err := browse.Paths(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q: %+v, %v", want, v, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := browse.Paths(ctx, recorded(t, strings.Repeat("a\tb\n", 2000), "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}

func onlyLinks(t *testing.T) string {
	dir := recorded(t, "a\tb\n", "a")
	must.OK(t, os.Remove(filepath.Join(dir, "paths_finished.tsv")))
	return dir
}

// 24,875 games that people did not finish. The fits are of the cumulative shares of all levels; no model with one q has length and depth,
// but that of the actions by level has both.
func TestWikispeedia(t *testing.T) {
	v := must.Get(browse.Paths(t.Context(), machine.Data(t, "graphs", "wikispeedia")))
	if v.Sessions != 24_875 {
		t.Errorf("%d sessions", v.Sessions)
	}
	near(t, "length", v.Length(), 5.198, .0005)
	near(t, "depth", v.Depth(), 2.406, .0005)
	near(t, "one page", float64(v.Single)/float64(v.Sessions), .210, .0005)
	for k, want := range []float64{.2088, .4206, .6335, .7978, .8979} {
		near(t, fmt.Sprint("to level ", k), browse.Cumulative(v.Shares())[k], want, .00006)
	}
	best := forecast(t, v.ByLevel())
	near(t, "length by level", best.Length, v.Length(), .01)
	near(t, "depth by level", best.Depth, v.Depth(), .01)
	off := func(x, y float64) float64 { return max(x-y, y-x) }
	for name, q := range map[string]float64{"A": .4098, "B": .6943, "C": .5242} {
		fit := must.Get(browse.FitTo(name, v))
		near(t, "q of "+name, fit.Model.Q, q, .0002)
		f := forecast(t, fit.Model)
		if !(off(best.Length, v.Length()) < off(f.Length, v.Length())/10 && off(best.Depth, v.Depth()) < off(f.Depth, v.Depth())/10) {
			t.Errorf("%s expects a length of %.3f and a depth of %.3f", name, f.Length, f.Depth)
		}
	}
}

func FuzzPaths(f *testing.F) {
	f.Add("a\tb\nb\tc\n", "a;b;<;c")
	f.Add("a\tb", "<;a")
	f.Fuzz(func(t *testing.T, links, path string) {
		v, err := browse.Paths(t.Context(), recorded(t, links, path))
		if err != nil {
			return
		}
		views := 0.
		for _, a := range v.Levels {
			views += a.Sum()
		}
		if v.Sessions < 1 || views != float64(v.Views) {
			t.Errorf("%+v", v)
		}
	})
}
